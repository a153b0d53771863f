//! Socket activation: sd_listen_fds(3).

use crate::start_error::StartError;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::net::TcpListener;

/// First passed descriptor; the others follow it.
const FIRST: i32 = 3;
/// Maximum number of passed sockets.
const PASSED_MAX: i32 = 256;

/// Listening sockets by protocol, from the `FileDescriptorName` of their units. They replace the
/// configured addresses of their protocol.
#[derive(Debug, Default)]
pub struct PassedSockets {
    /// `smb`.
    pub smb: Vec<TcpListener>,
    /// `nfs`.
    pub nfs: Vec<TcpListener>,
    /// `admin`: only the first one is used.
    pub admin: Vec<TcpListener>,
}

impl PassedSockets {
    /// Takes the sockets that the service manager passed.
    ///
    /// # Errors
    /// [`StartError`] if one of them is unusable.
    pub fn from_environment() -> Result<Self, StartError> {
        let value = |name| std::env::var(name).ok();
        let process = getpid().as_raw_nonzero().get();
        let names = value("LISTEN_FDNAMES").unwrap_or_default();
        let named = named(process, value("LISTEN_PID"), value("LISTEN_FDS"), &names);
        let mut passed = Self::default();
        for (number, name) in named {
            let list = match name.as_str() {
                "smb" => &mut passed.smb,
                "nfs" => &mut passed.nfs,
                "admin" => &mut passed.admin,
                _ => {
                    return Err(StartError(format!(
                        "a socket was passed as {name:?}; its unit needs FileDescriptorName=smb, nfs or admin"
                    )));
                }
            };
            list.push(taken(number).map_err(|error| {
                StartError(format!("the socket passed as {name} cannot be used: {error}"))
            })?);
        }
        Ok(passed)
    }

    /// Whether clients can be served on one of them.
    #[must_use]
    pub fn serves(&self) -> bool {
        !self.smb.is_empty() || !self.nfs.is_empty()
    }
}

/// Numbers and names of the descriptors for this process.
fn named(
    process: i32,
    meant_for: Option<String>,
    count: Option<String>,
    names: &str,
) -> Vec<(i32, String)> {
    if meant_for.and_then(|text| text.parse().ok()) != Some(process) {
        return Vec::new();
    }
    let count: i32 = count.and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut names = names.split(':').filter(|name| !name.is_empty());
    // Without names all sockets are of one kind, and the default is SMB.
    let none = names.clone().next().is_none();
    let mut name = || if none { "smb" } else { names.next().unwrap_or("unknown") }.to_owned();
    (0..count.clamp(0, PASSED_MAX)).map(|at| (FIRST + at, name())).collect()
}

/// Duplicates a descriptor by its number: the number alone does not prove ownership, so the
/// original cannot be taken safely.
fn taken(number: i32) -> std::io::Result<TcpListener> {
    use rustix::net::sockopt;
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    let fd = pidfd_getfd(own, number, PidfdGetfdFlags::empty())?;
    if sockopt::socket_type(&fd)? != rustix::net::SocketType::STREAM
        || !sockopt::socket_acceptconn(&fd)?
    {
        return Err(std::io::Error::other("it does not listen for connections"));
    }
    let socket = TcpListener::from(fd);
    // A Unix socket can listen, too, but its clients have no IP address.
    socket.local_addr()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn given(pid: &str, count: &str, names: &str) -> Vec<(i32, String)> {
        named(7, Some(pid.into()), Some(count.into()), names)
    }

    #[test]
    fn passed_descriptors_are_used_by_name_for_this_process_only() {
        let of = |list: &[(i32, &str)]| -> Vec<(i32, String)> {
            list.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
        };
        assert_eq!(given("7", "3", "smb:smb:admin"), of(&[(3, "smb"), (4, "smb"), (5, "admin")]));
        assert_eq!(given("7", "1", ""), of(&[(3, "smb")]), "names may be left out");
        assert_eq!(given("7", "2", "nfs"), of(&[(3, "nfs"), (4, "unknown")]));
        assert_eq!(given("8", "1", "smb"), [], "a parent's");
        for count in ["", "-1", "none"] {
            assert_eq!(given("7", count, "smb"), [], "{count:?}");
        }
        assert_eq!(given("7", "2000000000", "smb").len(), PASSED_MAX as usize);
        assert_eq!(named(7, None, Some("1".into()), "smb"), []);
    }

    #[test]
    fn passed_descriptor_must_be_a_listening_stream_socket() {
        let listening = TcpListener::bind("127.0.0.1:0").expect("an address");
        let taken_again = taken(listening.as_raw_fd()).expect("it listens");
        assert_eq!(taken_again.local_addr().ok(), listening.local_addr().ok());
        let file = std::fs::File::open("/dev/null").expect("a file");
        assert!(taken(file.as_raw_fd()).is_err());
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").expect("an address");
        assert!(taken(datagrams.as_raw_fd()).is_err());
        assert!(taken(1_000_000).is_err());
    }
}
