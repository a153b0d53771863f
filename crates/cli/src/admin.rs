//! Asking a running server by its admin API.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use server::config::{AdminAddress, Config};
use server::log::{EscapedText, escape_json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of one answer.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Where the server is asked if nothing is said.
pub const ADDRESS: &str = "127.0.0.1:4480";
/// The configuration that a server on this machine usually has.
const CONFIGURATION: &str = "/etc/anabranch/anabranch.toml";
/// How long is waited for an answer.
const WITHIN: Duration = Duration::from_secs(30);

/// Which server is asked, and with which token.
#[derive(Clone, Debug, clap::Args)]
pub struct Admin {
    /// Where the server's admin API is: as /etc/anabranch/anabranch.toml has it, or
    /// 127.0.0.1:4480, if left out
    #[arg(long, value_name = "ADDR:PORT|unix:PATH", global = true)]
    admin: Option<AdminAddress>,
    /// File of the token that the server takes; found by itself where the server runs as the
    /// same user, or where we are root
    #[arg(long, value_name = "FILE", global = true)]
    admin_token_file: Option<PathBuf>,
}

impl Admin {
    /// The server at `address`, with the token that is found.
    pub fn at(address: AdminAddress) -> Self {
        Self { admin: Some(address), admin_token_file: None }
    }

    /// Where the server is asked.
    pub fn address(&self) -> Result<AdminAddress> {
        let said = self.admin.clone().or_else(|| configuration()?.admin);
        match said {
            Some(address) => Ok(address),
            None => ADDRESS.parse().map_err(|why: String| anyhow!(why)),
        }
    }

    /// The token, if one is needed and found.
    pub fn token(&self, address: &AdminAddress) -> Result<Option<String>> {
        if let Some(path) = &self.admin_token_file {
            return read(path)
                .with_context(|| format!("the token in {}", path.display()))
                .map(Some);
        }
        let AdminAddress::Tcp(address) = address else { return Ok(None) };
        let state = |config: Config| config.state_folder().join(server::ADMIN_TOKEN_FILE);
        let places = [
            server::pointed_token(*address),
            configuration().map(state),
            Some(state(Config::empty())),
        ];
        Ok(places.into_iter().flatten().find_map(|path| read(&path).ok()))
    }

    /// What the server answers to `method` of `path`, with what is sent along.
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
        // HTTP/1.0: the answer ends with the connection.
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
                "the server's token was not found: say this as root or as the server's user, or name its file with --admin-token-file"
            ),
            Some("401") => {
                bail!("the server takes another token; name its file with --admin-token-file")
            }
            _ => bail!("{}", problem().unwrap_or_else(|| format!("{address} answered: {line}"))),
        }
    }

    /// What the server answers, as JSON.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let text = self.request(method, path, body)?;
        serde_json::from_str(&text).context("the server's answer is not JSON")
    }

    /// The server's page at `path`, to be shown; none if it was printed as the JSON it is.
    pub fn page(&self, path: &str, as_json: bool) -> Result<Option<Value>> {
        if as_json {
            outln!("{}", escape_json(&self.request("GET", path, None)?));
            return Ok(None);
        }
        self.ask("GET", path, None).map(Some)
    }
}

/// The machine's own configuration, if there is one that makes sense.
fn configuration() -> Option<Config> {
    Config::load(Path::new(CONFIGURATION)).ok()
}

fn read(path: &Path) -> Result<String> {
    let token = std::fs::read_to_string(path)?.trim().to_owned();
    let is_plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then_some(token).ok_or_else(|| anyhow!("there is no token in it"))
}

/// A connection of either kind.
trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

fn connect(address: &AdminAddress) -> Result<Box<dyn Connection>> {
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

/// What is no letter, digit or plain punctuation, as a URL has it.
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one = |byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
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
    EscapedText(&text).to_string()
}
