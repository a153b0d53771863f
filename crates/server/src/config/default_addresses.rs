//! Where SMB listens if no address is configured: port 445 of both IP families, if the process may.

use crate::machine::port_holder::{self, PortHolder};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;

/// Default port of SMB clients.
const PORT_PRIVILEGED: u16 = 445;
/// SMB port if the process cannot listen on 445.
const PORT: u16 = 4450;

/// The addresses, all with one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultAddresses {
    /// The IPv4 wildcard, and that of IPv6 if this machine has IPv6.
    pub addresses: Vec<SocketAddr>,
    /// The reason for a port other than 445, with the remedy.
    pub reason: Option<String>,
}

/// The default addresses of SMB. `config` is the configuration file, if there is one.
#[must_use]
pub fn default_addresses(config: &Path) -> DefaultAddresses {
    // Sockets are closed at once: an IPv6 wildcard would exclude IPv4 otherwise.
    let bind = |address| TcpListener::bind(address).map(drop);
    choose(&bind, has_ipv6(), &|port| port_holder::of(port, config))
}

/// Whether an interface of this machine has an IPv6 address. proc_net(5).
#[must_use]
pub fn has_ipv6() -> bool {
    std::fs::read("/proc/net/if_inet6").is_ok_and(|table| !table.is_empty())
}

fn choose(
    bind: &dyn Fn(SocketAddr) -> io::Result<()>,
    has_ipv6: bool,
    holder: &dyn Fn(u16) -> PortHolder,
) -> DefaultAddresses {
    let reason = obstacle(bind, has_ipv6).map(|error| describe(&error, holder));
    let port = if reason.is_some() { PORT } else { PORT_PRIVILEGED };
    let [v4, v6] = wildcards(port);
    DefaultAddresses { addresses: [v4].into_iter().chain(has_ipv6.then_some(v6)).collect(), reason }
}

fn wildcards(port: u16) -> [SocketAddr; 2] {
    [(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()]
}

/// The error of the first family whose port 445 another program has or the system refuses.
fn obstacle(bind: &dyn Fn(SocketAddr) -> io::Result<()>, has_ipv6: bool) -> Option<io::Error> {
    let [v4, v6] = wildcards(PORT_PRIVILEGED);
    bind(v4).err().or_else(|| has_ipv6.then(|| bind(v6).err()).flatten())
}

fn describe(error: &io::Error, holder: &dyn Fn(u16) -> PortHolder) -> String {
    let what = match error.kind() {
        ErrorKind::AddrInUse => match holder(PORT_PRIVILEGED) {
            // A process chooses its name, which must not become a part of a command.
            PortHolder::Process { pid, name } if is_unit_name(&name) => format!(
                "{name} (process {pid}) uses it; to take its place, stop it with: systemctl stop {name}"
            ),
            PortHolder::Process { pid, .. } => {
                format!("process {pid} uses it; to take its place, stop that first")
            }
            PortHolder::ThisServer => "a server with this configuration runs already".to_owned(),
            PortHolder::ServiceManager => {
                "systemd holds it for a service; systemctl list-sockets names it".to_owned()
            }
            PortHolder::Unknown => {
                "another program uses it; sudo ss -ltnp sport = :445 names it".to_owned()
            }
        },
        ErrorKind::PermissionDenied => "it needs root or CAP_NET_BIND_SERVICE; start the server \
             with sudo, or run it as a service"
            .to_owned(),
        _ => error.to_string(),
    };
    format!("SMB listens on port {PORT} instead of {PORT_PRIVILEGED}: {what}")
}

fn is_unit_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@_.-".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(
        bind: &dyn Fn(SocketAddr) -> io::Result<()>,
        has_ipv6: bool,
    ) -> (Vec<String>, Option<String>) {
        let holder = |_| PortHolder::Process { pid: 12, name: "smbd".into() };
        let DefaultAddresses { addresses, reason } = choose(bind, has_ipv6, &holder);
        (addresses.iter().map(ToString::to_string).collect(), reason)
    }

    #[test]
    fn default_is_port_445_of_both_families() {
        let (addresses, reason) = chosen(&|_| Ok(()), true);
        assert_eq!(
            (addresses.as_slice(), reason),
            (&["0.0.0.0:445", "[::]:445"].map(String::from)[..], None)
        );
    }

    #[test]
    fn default_without_ipv6_is_ipv4() {
        let no_ipv6 = |address: SocketAddr| match address.is_ipv4() {
            true => Ok(()),
            false => Err(ErrorKind::AddrNotAvailable.into()),
        };
        assert_eq!(chosen(&no_ipv6, false), (vec!["0.0.0.0:445".to_owned()], None));
    }

    #[test]
    fn taken_port_445_has_a_reason() {
        let refuse = |kind: ErrorKind, v6_only: bool| {
            move |address: SocketAddr| match address.port() == 445
                && (address.is_ipv6() || !v6_only)
            {
                true => Err(io::Error::from(kind)),
                false => Ok(()),
            }
        };
        let both = ["0.0.0.0:4450".to_owned(), "[::]:4450".to_owned()];
        for (kind, v6_only, part) in [
            (
                ErrorKind::AddrInUse,
                false,
                "port 4450 instead of 445: smbd (process 12) uses it; to take",
            ),
            (ErrorKind::AddrInUse, true, "smbd (process 12) uses it"),
            (
                ErrorKind::PermissionDenied,
                false,
                "needs root or CAP_NET_BIND_SERVICE; start the server",
            ),
        ] {
            let (addresses, reason) = chosen(&refuse(kind, v6_only), true);
            assert_eq!(addresses, both);
            assert!(reason.as_deref().is_some_and(|text| text.contains(part)), "{reason:?}");
        }
    }

    #[test]
    fn foreign_process_name_is_no_part_of_a_command() {
        for (name, is_shown) in [("smbd", true), ("a;reboot", false), ("-x", false), ("", false)] {
            let holder = |_| PortHolder::Process { pid: 12, name: name.into() };
            let text = describe(&ErrorKind::AddrInUse.into(), &holder);
            assert!(text.contains("12"), "{text}");
            assert_eq!(text.contains("systemctl"), is_shown, "{text}");
        }
    }
}
