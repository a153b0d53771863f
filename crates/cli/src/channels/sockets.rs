//! This process's own sockets, as the system lists them. proc(5), proc_pid_net(5).

use std::net::SocketAddr;

/// The state of an established connection.
const ESTABLISHED: &str = "01";

/// Number of this process's connections to `server`; none if /proc is not readable.
pub fn established(server: SocketAddr) -> Option<usize> {
    let mut own = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").ok()?.flatten() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let target = target.to_string_lossy().into_owned();
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        own.extend(inode.and_then(|inode| inode.parse::<u64>().ok()));
    }
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let tables: Vec<String> =
        tables.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    if tables.is_empty() {
        return None;
    }
    Some(tables.iter().map(|table| count(table, &own, server.port())).sum())
}

/// Number of a table's lines with an own socket, established, and connected to the port.
fn count(table: &str, own: &[u64], port: u16) -> usize {
    let is_ours = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(remote), Some(state), Some(inode)) =
            (fields.get(2), fields.get(3), fields.get(9))
        else {
            return false;
        };
        let remote = remote.rsplit_once(':').and_then(|(_, p)| u16::from_str_radix(p, 16).ok());
        let is_own = inode.parse().is_ok_and(|inode: u64| own.contains(&inode));
        is_own && *state == ESTABLISHED && remote == Some(port)
    };
    table.lines().skip(1).filter(is_ours).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_standing_connections_to_the_port_are_counted() {
        let line = |remote: &str, state: &str, inode: u64| {
            format!(
                "   0: 0100007F:D431 0100007F:{remote} {state} 00000000:00000000 00:00000000 \
                 00000000     0        0 {inode} 1 0 20 4 30 10 -1\n"
            )
        };
        let table = "  sl  local_address rem_address   st\n".to_owned()
            + &line("01BD", "01", 7)
            + &line("01BD", "01", 8)
            + &line("01BD", "06", 9)
            + &line("0050", "01", 9)
            + &line("01BD", "01", 1000);
        assert_eq!(count(&table, &[7, 8, 9], 445), 2);
    }
}
