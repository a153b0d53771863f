//! The process that listens on a TCP port. proc(5), proc_net(5).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// State of a listening socket in /proc/net/tcp.
const LISTEN: &str = "0A";

/// The listener of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortHolder {
    /// A server that runs with the same configuration file.
    ThisServer,
    /// systemd, for socket activation.
    ServiceManager,
    /// Another process.
    Process {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// A process of another user, or none any more.
    Unknown,
}

/// The listener of `port` on any address. `config` is the configuration file.
pub fn of(port: u16, config: &Path) -> PortHolder {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let inodes: HashSet<String> = tables
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| listeners(&table, port))
        .collect();
    let links: HashSet<PathBuf> =
        inodes.iter().map(|inode| format!("socket:[{inode}]").into()).collect();
    let Ok(processes) = std::fs::read_dir("/proc") else { return PortHolder::Unknown };
    let mut holder = PortHolder::Unknown;
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(descriptors) = std::fs::read_dir(process.path().join("fd")) else { continue };
        let holds = |fd: std::fs::DirEntry| {
            std::fs::read_link(fd.path()).is_ok_and(|target| links.contains(&target))
        };
        if !descriptors.flatten().any(holds) {
            continue;
        }
        let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        let name = name.trim().to_owned();
        if pid == 1 || name == "systemd" {
            return PortHolder::ServiceManager;
        }
        if serves(&process.path(), config) {
            return PortHolder::ThisServer;
        }
        holder = PortHolder::Process { pid, name };
    }
    holder
}

/// Inodes of the sockets that listen on `port`.
fn listeners(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    let inode = |line: &str| {
        let mut fields = line.split_whitespace();
        let is_own = fields.nth(1)?.ends_with(&suffix) && fields.nth(1)? == LISTEN;
        // The fields from here: queues, timer, retransmissions, uid, timeout, inode.
        is_own.then(|| fields.nth(5).map(str::to_owned)).flatten()
    };
    table.lines().skip(1).filter_map(inode).collect()
}

/// Whether a process has the configuration file among its arguments.
fn serves(process: &Path, config: &Path) -> bool {
    let Ok(config) = config.canonicalize() else { return false };
    let arguments = std::fs::read(process.join("cmdline")).unwrap_or_default();
    let cwd = std::fs::read_link(process.join("cwd")).unwrap_or_default();
    let mut arguments = arguments.split(|byte| *byte == 0).filter(|text| !text.is_empty());
    arguments.any(|argument| {
        let argument = String::from_utf8_lossy(argument);
        cwd.join(&*argument).canonicalize().is_ok_and(|path| path == config)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_is_this_process() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        match of(port, Path::new("/nonexistent")) {
            PortHolder::Process { pid, .. } => assert_eq!(pid, std::process::id()),
            other => panic!("{other:?}"),
        }
        drop(socket);
        assert_eq!(of(port, Path::new("/nonexistent")), PortHolder::Unknown);
    }

    #[test]
    fn table_is_read_by_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 00000000:01BD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0 100 0 0 10 0\n\
             1: 0100007F:01BD 0100007F:C000 01 00000000:00000000 00:00000000 00000000     0        0 778 1 0 100 0 0 10 0\n";
        assert_eq!(listeners(table, 445), ["777"]);
        assert_eq!(listeners(table, 446), [""; 0]);
    }
}
