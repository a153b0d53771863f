//! Ports, the programs that hold them, firewalls.

use crate::admin::Admin;
use advise::doctor::{Firewall, NfsShare, Port, PortState};
use serde_json::Value;
use server::config::{AdminAddress, NfsSquash, ServerConfig};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};

/// Servers of the same protocols, as their processes are called.
const SERVERS: [&str; 5] = ["smbd", "samba", "ksmbd", "nfsd", "ganesha.nfsd"];

/// A running Anabranch server, as its admin API reports it.
pub struct ReportedServer {
    /// Its version.
    pub version: String,
    /// Layers of confinement that are missing, if the server reports them.
    pub missing_layers: Option<Vec<String>>,
    /// Lines about its announcement: interfaces, each followed by its problems, which are indented.
    pub announced: String,
    /// Its shares that NFS does not export.
    pub shares_without_nfs: Vec<String>,
}

/// Queries the server at the configuration's admin address; none if it does not answer.
pub fn running(admin: Option<&AdminAddress>) -> Option<ReportedServer> {
    let admin = Admin::at(admin?.clone());
    let status = admin.ask("GET", "/v1/status", None).ok()?;
    let shares = admin.ask("GET", "/v1/shares", None).unwrap_or_default();
    let layers = status["confinement"].as_object();
    let missing = layers.map(|layers| {
        let absent = layers.iter().filter(|(_, holds)| holds.as_bool() == Some(false));
        absent.map(|(name, _)| name.clone()).collect()
    });
    Some(ReportedServer {
        version: status["version"].as_str()?.to_owned(),
        missing_layers: missing,
        announced: crate::status::announced(&status["discovery"]),
        shares_without_nfs: shares_without_nfs(&shares),
    })
}

/// The shares of an answer of `/v1/shares` that NFS does not export.
fn shares_without_nfs(shares: &Value) -> Vec<String> {
    let items = shares["items"].as_array().into_iter().flatten();
    let left_out = items.filter(|share| share["nfs"] == false);
    left_out.filter_map(|share| Some(share["name"].as_str()?.to_owned())).collect()
}

/// Shares that NFS clients reach, where NFS is served at all. A running server leaves shares out
/// whose backend has no persistent handles.
pub fn nfs_shares(config: &ServerConfig, running: Option<&ReportedServer>) -> Vec<NfsShare> {
    let left_out = running.map_or(&[][..], |server| &server.shares_without_nfs);
    let exported = config.shares.iter().filter(|share| share.is_exported());
    let exported = exported.filter(|share| !left_out.contains(&share.name));
    let facts = exported.map(|share| NfsShare {
        share: share.name.clone(),
        reserved_ports: config.requires_reserved_port(share),
        maps_all_users: share.nfs_squash == NfsSquash::All,
    });
    if config.nfs.is_empty() { Vec::new() } else { facts.collect() }
}

/// Tries to listen on `address`.
pub fn port(what: &'static str, address: SocketAddr, running: &Option<ReportedServer>) -> Port {
    let state = match TcpListener::bind(address).map_err(|error| error.kind()) {
        Ok(_) => PortState::Free,
        // A running Anabranch server holds the ports of its configuration.
        Err(ErrorKind::AddrInUse) if running.is_some() => PortState::Ours,
        Err(ErrorKind::AddrInUse) => PortState::Taken,
        Err(ErrorKind::PermissionDenied) => PortState::Refused,
        Err(_) => PortState::Absent,
    };
    let is_local = address.ip().is_loopback();
    Port { what, address: address.to_string(), number: address.port(), is_local, state }
}

/// The running ones of [`SERVERS`]: processes, and threads of the kernel.
pub fn other_servers() -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter(|entry| {
        entry.file_name().to_string_lossy().bytes().all(|letter| letter.is_ascii_digit())
    });
    let names =
        processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok());
    let mut found: Vec<String> = names.filter_map(|name| server_of(name.trim())).collect();
    found.sort();
    found.dedup();
    found
}

/// The server that a process belongs to. Names of ksmbd's threads end with an interface or port.
fn server_of(name: &str) -> Option<String> {
    let name = if name.starts_with("ksmbd") { "ksmbd" } else { name };
    SERVERS.contains(&name).then(|| name.to_owned())
}

/// The firewall's rules, if they are readable. nft also lists the rules of iptables-nft, so
/// iptables-save serves only the legacy tables.
pub fn firewall() -> Firewall {
    match (printed("nft", &["list", "ruleset"]), printed("iptables-save", &[])) {
        (Some(nft), _) if !nft.trim().is_empty() => Firewall::Nft(nft),
        (_, Some(tables)) if tables.contains("-A ") || tables.contains(" DROP ") => {
            Firewall::Iptables(tables)
        }
        (None, None) => Firewall::Unknown,
        _ => Firewall::None,
    }
}

/// Standard output of a program, if it exists and succeeds.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_their_processes_and_threads() {
        assert_eq!(server_of("smbd").as_deref(), Some("smbd"));
        assert_eq!(server_of("ksmbd-eth0").as_deref(), Some("ksmbd"));
        assert_eq!(server_of("smbd-notifyd"), None);
        assert_eq!(server_of("sshd"), None);
    }

    #[test]
    fn share_that_the_server_does_not_export_is_no_nfs_share() {
        let share = |name| format!("[[share]]\nname = \"{name}\"\npath = \"/\"\n");
        let text = format!("[server]\nnfs = [\"127.0.0.1:0\"]\n{}{}", share("a"), share("b"));
        let config = ServerConfig::parse(&text).expect("it is right");
        let names = |running: Option<&ReportedServer>| {
            let shares = nfs_shares(&config, running).into_iter();
            shares.map(|share| share.share).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["a", "b"]);
        let answer = serde_json::json!({ "items": [
            { "name": "a", "nfs": false }, { "name": "b", "nfs": true }
        ] });
        let running = ReportedServer {
            version: String::new(),
            missing_layers: None,
            announced: String::new(),
            shares_without_nfs: shares_without_nfs(&answer),
        };
        assert_eq!(names(Some(&running)), ["b"]);
    }

    #[test]
    fn port_in_use_is_taken_unless_own_server_runs() {
        let held = TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = held.local_addr().expect("one");
        assert_eq!(port("SMB", address, &None).state, PortState::Taken);
        let own = Some(ReportedServer {
            version: String::new(),
            missing_layers: None,
            announced: String::new(),
            shares_without_nfs: Vec::new(),
        });
        assert_eq!(port("SMB", address, &own).state, PortState::Ours);
        assert_eq!(port("SMB", "127.0.0.1:0".parse().expect("one"), &None).state, PortState::Free);
        let absent = "192.0.2.1:4450".parse().expect("one");
        assert_eq!(port("SMB", absent, &None).state, PortState::Absent);
    }
}
