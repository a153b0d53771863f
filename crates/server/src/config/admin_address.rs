//! Address of the admin API: TCP, or a Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Prefix of a path.
const UNIX: &str = "unix:";

/// Listening address of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// HTTP over TCP: clients need a token.
    Tcp(SocketAddr),
    /// HTTP over a Unix socket: root and the server's own user need no token.
    Unix(PathBuf),
}

impl FromStr for AdminAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX) {
            let path = PathBuf::from(path);
            let fits = path.is_absolute() && path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX;
            return fits.then_some(Self::Unix(path)).ok_or_else(|| {
                format!("{text:?} needs a whole path of at most {SOCKET_PATH_BYTES_MAX} bytes, such as \"unix:/run/anabranch/admin.sock\"")
            });
        }
        let address = text.parse().map(Self::Tcp);
        address.map_err(|_| format!("{text:?} is neither an address, such as \"127.0.0.1:4480\", nor a socket, such as \"unix:/run/anabranch/admin.sock\""))
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// Bytes of a Unix socket's path, without the terminating null byte (unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_address_is_a_socket_address_or_an_absolute_path() {
        for text in ["127.0.0.1:4480", "[::1]:4480", "unix:/run/anabranch/admin.sock"] {
            assert_eq!(text.parse::<AdminAddress>().unwrap().to_string(), text);
        }
        let long = format!("unix:/{}", "x".repeat(SOCKET_PATH_BYTES_MAX));
        for text in ["no", "localhost:4480", "unix:admin.sock", "unix:", &long] {
            assert!(text.parse::<AdminAddress>().is_err(), "{text}");
        }
    }
}
