//! Asking a running server by its admin API.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bytes of one answer.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// One HTTP/1.0 request: the answer ends with the connection.
pub fn request(address: SocketAddr, method: &str, path: &str) -> Result<String> {
    let hint = || format!("no server answers on {address}; is it running, with --admin {address}?");
    let mut stream =
        TcpStream::connect_timeout(&address, Duration::from_secs(5)).with_context(hint)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        bail!("the answer from {address} is not HTTP")
    };
    let line = head.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        Some("403") => {
            bail!("only root and the server's own user may do this, on the server's machine")
        }
        Some("404") => bail!("there is none"),
        _ => bail!("{address} answered: {line}"),
    }
}

/// The server's page at `path`, to be shown; none if it was printed as the JSON it is.
pub fn page(address: SocketAddr, path: &str, as_json: bool) -> Result<Option<Value>> {
    let text = request(address, "GET", path)?;
    if as_json {
        println!("{text}");
        return Ok(None);
    }
    serde_json::from_str(&text).map(Some).context("the server's answer is not JSON")
}

/// The elements, if it is a list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Clients choose some names: none may speak to the terminal.
pub fn plain(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(yes) => (if *yes { "yes" } else { "no" }).to_owned(),
        _ => "-".to_owned(),
    };
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
