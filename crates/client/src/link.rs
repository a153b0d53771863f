//! The link to a server: connecting, and detecting a silent connection.

use crate::error::Error;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

/// Connects, with the system's timeout.
///
/// # Errors
/// [`Error::Unreachable`].
pub(crate) async fn connect(to: SocketAddr) -> Result<TcpStream, Error> {
    let unreachable = |e: std::io::Error| Error::Unreachable(e.kind(), to.to_string().into());
    let stream = TcpStream::connect(to).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    Ok(stream)
}

/// Source ports that the Linux kernel's NFS client uses, too. Most services with fixed ports are
/// below.
const RESERVED_PORTS: Range<u16> = 665..1024;

/// Like [`connect`], from a reserved source port if this process is permitted one. NFS servers take
/// it as proof that the peer's system or root speaks, and many refuse other ports.
///
/// # Errors
/// [`Error::Unreachable`].
pub(crate) async fn connect_reserved(to: SocketAddr) -> Result<TcpStream, Error> {
    let count = RESERVED_PORTS.end - RESERVED_PORTS.start;
    let first = RandomState::new().build_hasher().finish() % u64::from(count);
    for offset in 0..count {
        let port = RESERVED_PORTS.start + (first as u16 + offset) % count;
        match connect_from(port, to).await {
            Ok(stream) => return Ok(stream),
            // Another connection to this server uses the port, or has just used it.
            Err(e) if matches!(e.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) => {}
            Err(e) if e.kind() == ErrorKind::PermissionDenied => break,
            Err(e) => return Err(Error::Unreachable(e.kind(), to.to_string().into())),
        }
    }
    connect(to).await
}

async fn connect_from(port: u16, to: SocketAddr) -> io::Result<TcpStream> {
    let (socket, from) = match to {
        SocketAddr::V4(_) => (TcpSocket::new_v4()?, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
        SocketAddr::V6(_) => (TcpSocket::new_v6()?, IpAddr::from(Ipv6Addr::UNSPECIFIED)),
    };
    // Only the pair of both endpoints must be unique.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(from, port))?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// How long a connection with an outstanding reply has been silent, as polled from time to time.
#[derive(Debug)]
pub(crate) struct SilenceDetector {
    patience: Duration,
    /// The last time at which something had arrived, or no reply was outstanding.
    heard: Instant,
    received: bool,
}

impl SilenceDetector {
    /// For a new connection, with this timeout for replies.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, heard: Instant::now(), received: false }
    }

    /// Something has arrived.
    pub(crate) fn handle_received(&mut self) {
        self.received = true;
    }

    /// True if something has arrived since the last check.
    pub(crate) fn is_broken(&self) -> bool {
        self.received
    }

    /// Checks the connection: an error if a reply is outstanding and nothing has arrived for too
    /// long.
    pub(crate) fn look(&mut self, is_owed: impl FnOnce() -> bool) -> Result<(), &'static str> {
        if std::mem::take(&mut self.received) || !is_owed() {
            self.heard = Instant::now();
        } else if self.heard.elapsed() > self.patience {
            return Err("the server does not respond");
        }
        Ok(())
    }
}

/// True if a remote address that is reached from this local address belongs to this machine.
pub(crate) fn is_here(local: IpAddr, remote: IpAddr) -> bool {
    remote.is_loopback() || remote == local
}
