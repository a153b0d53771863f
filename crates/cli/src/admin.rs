//! Client of a running server's admin API.

use crate::output;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use server::config::{AdminAddress, ServerConfig};
use server::log::EscapedText;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Limit of one response, in bytes.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Default address of the admin API.
pub const ADDRESS: &str = "127.0.0.1:4480";
/// Configuration file of the packaged service.
pub const CONFIGURATION: &str = "/etc/anabranch/anabranch.toml";
/// Timeout of one request.
const WITHIN: Duration = Duration::from_secs(30);

/// Address of the admin API, and the token to send.
#[derive(Clone, Debug, clap::Args)]
pub struct Admin {
    /// Address of the server's admin API; by default the one in
    /// /etc/anabranch/anabranch.toml, or 127.0.0.1:4480
    #[arg(long, value_name = "ADDR:PORT|unix:PATH", global = true)]
    admin: Option<AdminAddress>,
    /// File that holds the admin token; found automatically for root and for the user that
    /// the server runs as
    #[arg(long, value_name = "FILE", global = true)]
    admin_token_file: Option<PathBuf>,
}

impl Admin {
    /// The server at `address`, with the token from its default files.
    pub fn at(address: AdminAddress) -> Self {
        Self { admin: Some(address), admin_token_file: None }
    }

    /// The address of the admin API.
    pub fn address(&self) -> Result<AdminAddress> {
        let said = self.admin.clone().or_else(|| configuration()?.admin);
        match said {
            Some(address) => Ok(address),
            None => ADDRESS.parse().map_err(|why: String| anyhow!(why)),
        }
    }

    /// The token, if the address needs one and its file is readable.
    pub fn token(&self, address: &AdminAddress) -> Result<Option<String>> {
        if let Some(path) = &self.admin_token_file {
            return read(path)
                .with_context(|| format!("the token in {}", path.display()))
                .map(Some);
        }
        let AdminAddress::Tcp(address) = address else { return Ok(None) };
        let state = |config: ServerConfig| config.state_folder().join(server::ADMIN_TOKEN_FILE);
        let places = [
            server::pointed_token(*address),
            configuration().map(state),
            Some(state(ServerConfig::empty())),
        ];
        Ok(places.into_iter().flatten().find_map(|path| read(&path).ok()))
    }

    /// Sends `method` to `path` with an optional body, and returns the response's body.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<String> {
        let address = self.address()?;
        let token = self.token(&address)?;
        let hint =
            || format!("no server answers on {address}; is it running, with --admin {address}?");
        let mut stream = connect(&address).with_context(hint)?;
        let host = match &address {
            AdminAddress::Tcp(address) => address.to_string(),
            AdminAddress::Unix(_) => "localhost".into(),
        };
        // HTTP/1.0: the response ends with the connection.
        let mut head = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n");
        if let Some(token) = &token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        if !body.is_empty() {
            head += "Content-Type: application/json\r\n";
        }
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())?;
        let mut answer = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
        let Some((head, body)) = answer.split_once("\r\n\r\n") else {
            bail!("the answer from {address} is not HTTP")
        };
        let line = head.lines().next().unwrap_or_default();
        let problem = || serde_json::from_str(body).ok().map(|body: Value| plain(&body["detail"]));
        match line.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            Some("401") if token.is_none() => bail!(
                "the server's token was not found: run this as root or as the server's user, or name its file with --admin-token-file"
            ),
            Some("401") => {
                bail!("the server refused the token; name the right file with --admin-token-file")
            }
            _ => bail!("{}", problem().unwrap_or_else(|| format!("{address} answered: {line}"))),
        }
    }

    /// The server's response, parsed as JSON.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let text = self.request(method, path, body)?;
        serde_json::from_str(&text).context("the server's answer is not JSON")
    }

    /// Carries out `method` on `path`; prints the response if `as_json` is set.
    pub fn carry_out(&self, method: &str, path: &str, as_json: bool) -> Result<()> {
        let done = self.ask(method, path, None)?;
        if as_json { output::print_json(&done) } else { Ok(()) }
    }

    /// Fetches `path` for display; none if `as_json` is set and the response was printed.
    pub fn page(&self, path: &str, as_json: bool) -> Result<Option<Value>> {
        let page = self.ask("GET", path, None)?;
        if as_json {
            output::print_json(&page)?;
            return Ok(None);
        }
        Ok(Some(page))
    }
}

/// The packaged service's configuration, if it exists and is valid.
fn configuration() -> Option<ServerConfig> {
    ServerConfig::load(Path::new(CONFIGURATION)).ok()
}

fn read(path: &Path) -> Result<String> {
    let token = std::fs::read_to_string(path)?.trim().to_owned();
    let is_plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then_some(token).ok_or_else(|| anyhow!("there is no token in it"))
}

/// Connects over TCP or a Unix socket.
trait AdminStream: Read + Write {}
impl<T: Read + Write> AdminStream for T {}

fn connect(address: &AdminAddress) -> Result<Box<dyn AdminStream>> {
    Ok(match address {
        AdminAddress::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, Duration::from_secs(5))?;
            stream.set_read_timeout(Some(WITHIN))?;
            Box::new(stream)
        }
        AdminAddress::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(WITHIN))?;
            Box::new(stream)
        }
    })
}

/// Percent-encodes all bytes except letters, digits and unreserved punctuation. RFC 3986 2.1.
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one = |byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

/// The elements of a JSON array; empty for another value.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Escapes control characters: clients choose some names, and none may control the terminal.
pub fn plain(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(yes) => (if *yes { "yes" } else { "no" }).to_owned(),
        _ => "-".to_owned(),
    };
    EscapedText(&text).to_string()
}
