//! `anabranch status`.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// Bytes of one answer.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address of the server's admin API
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:4480")]
    admin: SocketAddr,
    /// Print what the server says as JSON
    #[arg(long)]
    json: bool,
}

/// Shows what a running server is doing.
pub fn run(args: &Args) -> Result<ExitCode> {
    let text = get(args.admin, "/status")?;
    if args.json {
        println!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let status: Value = serde_json::from_str(&text).context("the server's answer is not JSON")?;
    let sessions = status["sessions"].as_array().cloned().unwrap_or_default();
    println!(
        "{} connections, {} sessions, {} requests, {} logons, {} refused",
        status["connections"],
        sessions.len(),
        status["requests"],
        status["logons"],
        status["logons_failed"]
    );
    for session in &sessions {
        let text = |key: &str| session[key].as_str().unwrap_or("-").to_owned();
        println!(
            "\nsession {}  user {}  SMB {}  signing {}  cipher {}",
            text("id"),
            text("user"),
            text("dialect"),
            text("signing"),
            text("cipher")
        );
        for channel in session["channels"].as_array().into_iter().flatten() {
            println!("  channel {} -> {}", plain(&channel["client"]), plain(&channel["server"]));
        }
        for open in session["opens"].as_array().into_iter().flatten() {
            println!(
                "  open    {}:/{}  access {}",
                plain(&open["share"]),
                plain(&open["path"]),
                plain(&open["access"])
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// One HTTP/1.0 request: the answer ends with the connection.
fn get(address: SocketAddr, path: &str) -> Result<String> {
    let hint = || format!("no server answers on {address}; is it running, with --admin {address}?");
    let mut stream =
        TcpStream::connect_timeout(&address, Duration::from_secs(5)).with_context(hint)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        bail!("the answer from {address} is not HTTP")
    };
    if !head.starts_with("HTTP/1.0 200") && !head.starts_with("HTTP/1.1 200") {
        bail!("{address} answered: {}", head.lines().next().unwrap_or_default());
    }
    Ok(body.to_owned())
}
