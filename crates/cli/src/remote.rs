//! URL, password and connection of the tools that act as a client.

use crate::export_url::ExportUrl;
use crate::share_url::ShareUrl;
use crate::tickets;
use crate::user::{ask_silently, read_line};
use anyhow::{Context, Result};
use client::{ClientHost, SmbClient, SmbOptions, SmbTarget, nfs};
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use wire::fscc::FileTime;
use wire::ntlm::{NtHash, NtlmCredentials};

/// A share or an export.
#[derive(Clone, Debug)]
pub enum RemoteUrl {
    /// A share of SMB.
    Smb(ShareUrl),
    /// An export of NFS.
    Nfs(ExportUrl),
}

impl FromStr for RemoteUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("nfs:") {
            return text.parse().map(Self::Nfs);
        }
        if text.starts_with("smb:") {
            return text.parse().map(Self::Smb);
        }
        Err("a URL begins with smb:// or nfs://".into())
    }
}

/// The system's randomness and time.
#[derive(Debug)]
pub struct SystemHost;

impl ClientHost for SystemHost {
    fn random(&self, out: &mut [u8]) {
        let mut filled = 0;
        while filled < out.len() {
            let flags = rustix::rand::GetRandomFlags::empty();
            match rustix::rand::getrandom(&mut out[filled..], flags) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                // Without randomness nothing here is safe.
                Err(errno) => panic!("the system gives no random bytes: {errno}"),
            }
        }
    }

    fn now(&self) -> FileTime {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        FileTime::from_unix_nanos(since.map_or(0, |since| since.as_nanos() as i128))
    }
}

/// Options with a name of our own.
pub fn options(channels: usize) -> SmbOptions {
    let mut options = SmbOptions { channels: channels.max(1), ..SmbOptions::default() };
    SystemHost.random(&mut options.client_guid);
    options
}

/// The user's password: from standard input, the environment, or a prompt. It is empty, without
/// a prompt, if there is a Kerberos ticket for the server: see [`connect_smb`].
pub fn password(url: &ShareUrl, from_stdin: bool) -> Result<String> {
    if from_stdin {
        return read_line();
    }
    if let Ok(password) = std::env::var("ANABRANCH_PASSWORD") {
        return Ok(password);
    }
    if tickets::are_there(&url.host) {
        return Ok(String::new());
    }
    let text = format!("Password of {}: ", url.user);
    let [password] = ask_silently([text.as_str()])?;
    Ok(password)
}

/// The first address of a host.
pub fn address(host: &str, port: u16) -> Result<SocketAddr> {
    let mut found = (host, port)
        .to_socket_addrs()
        .with_context(|| format!("cannot resolve the host {host}"))?;
    found.next().with_context(|| format!("the host {host} has no address"))
}

/// Logs on with the password, or with a Kerberos ticket if the password is empty.
pub async fn connect_smb(url: &ShareUrl, password: &str, options: SmbOptions) -> Result<SmbClient> {
    let credentials = NtlmCredentials {
        user: url.user.clone(),
        domain: url.domain.clone(),
        workstation: server::config::host_name(),
        hash: NtHash::of_password(password),
    };
    let address = address(&url.host, url.port)?;
    let tickets = tickets::instead_of(password, &url.host);
    let target = SmbTarget { name: url.host.clone(), address, credentials, tickets };
    Ok(SmbClient::connect(target, options, Arc::new(SystemHost)).await?)
}

/// Begins a session as the user of this process.
pub async fn connect_nfs(
    host: &str,
    port: u16,
    minor_version: u32,
    connections: usize,
) -> Result<nfs::NfsClient> {
    let mut instance = [0; 8];
    SystemHost.random(&mut instance);
    let target = nfs::NfsTarget {
        name: host.to_owned(),
        address: address(host, port)?,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        instance,
    };
    let program = client_name();
    let options =
        nfs::NfsOptions { program, minor_version, connections, ..nfs::NfsOptions::default() };
    Ok(nfs::NfsClient::connect(target, options).await?)
}

/// The name by which a server lists this process: command, machine and process id.
fn client_name() -> String {
    let command = std::env::args().nth(1).unwrap_or_default();
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("anabranch {command} on {machine}, process {}", std::process::id())
}

/// A random name that no other client uses.
pub fn own_name(what: &str) -> String {
    let mut random = [0; 8];
    SystemHost.random(&mut random);
    format!("anabranch-{what}-{:016x}", u64::from_le_bytes(random))
}
