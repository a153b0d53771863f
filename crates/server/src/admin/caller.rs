//! Which user of this machine is at the other end of a local connection.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};

/// Whether `peer`, connected to our `port`, is the administrator's or our own process.
///
/// The kernel lists every local socket with its user; a socket of another
/// machine is not in that list.
pub fn may_change(peer: SocketAddr, port: u16) -> bool {
    let table = if peer.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let Ok(table) = File::open(table) else { return false };
    let lines = BufReader::new(table).lines().map_while(Result::ok);
    let user = lines.skip(1).find_map(|line| user_of(&line, peer, port));
    user.is_some_and(|user| user == 0 || user == rustix::process::geteuid().as_raw())
}

/// The user of this line's socket, if it is the one from `local` to our `port`.
fn user_of(line: &str, local: SocketAddr, port: u16) -> Option<u32> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (from, to) = (words.next()?, words.next()?);
    let to_port = u16::from_str_radix(to.rsplit_once(':')?.1, 16).ok()?;
    if from != shown(local) || to_port != port {
        return None;
    }
    words.nth(4)?.parse().ok()
}

/// An address as the kernel writes it: words in its own byte order.
fn shown(address: SocketAddr) -> String {
    let bytes = match address.ip() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let (words, _) = bytes.as_chunks::<4>();
    let words: String =
        words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect();
    format!("{words}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn our_own_connection_may_change_things_and_nobody_elses() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let port = listener.local_addr().unwrap().port();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let peer = stream.local_addr().unwrap();
            assert!(may_change(peer, port));
            assert!(!may_change(peer, port ^ 1), "connected to someone else");
            assert!(!may_change("192.0.2.1:9".parse().unwrap(), port), "of another machine");
        }
    }

    #[test]
    fn the_user_is_the_one_of_the_very_connection() {
        let line = " 12: 0100007F:9C40 0100007F:1180 01 00000000:00000000 00:00000000 00000000  1000        0 1 1 x";
        let at = |text: &str| text.parse().unwrap();
        assert_eq!(user_of(line, at("127.0.0.1:40000"), 4480), Some(1000));
        assert_eq!(user_of(line, at("127.0.0.1:40001"), 4480), None);
        assert_eq!(user_of(line, at("127.0.0.2:40000"), 4480), None);
        assert_eq!(user_of(line, at("127.0.0.1:40000"), 4481), None);
        assert_eq!(user_of("", at("127.0.0.1:40000"), 4480), None);
    }
}
