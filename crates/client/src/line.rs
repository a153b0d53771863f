//! The line to a server: connecting, and noticing that nothing comes any more.

use crate::error::Error;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

/// Connects, for as long as the system tries.
///
/// # Errors
/// [`Error::Unreachable`].
pub(crate) async fn connect(to: SocketAddr) -> Result<TcpStream, Error> {
    let unreachable = |e: std::io::Error| Error::Unreachable(e.kind(), to.to_string().into());
    let stream = TcpStream::connect(to).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    Ok(stream)
}

/// Source ports that the Linux kernel's NFS client uses, too: most services of their own are below.
const RESERVED_PORTS: Range<u16> = 665..1024;

/// As [`connect`], from a reserved source port where this process may have one: servers of NFS take
/// it as a sign that the system or root of this machine speaks, and many refuse others.
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
            // Another connection to this server has it, or had it a moment ago.
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
    // Only the pair of both ends must be new.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(from, port))?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// How long nothing has come of a connection that owes an answer, as one finds who looks now and
/// then.
#[derive(Debug)]
pub(crate) struct Silence {
    patience: Duration,
    /// When something had come, or nothing was owed, at the latest look.
    heard: Instant,
    received: bool,
}

impl Silence {
    /// Of a new connection, whose answers may take so long.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, heard: Instant::now(), received: false }
    }

    /// Something came.
    pub(crate) fn handle_received(&mut self) {
        self.received = true;
    }

    /// Whether something came since the latest look.
    pub(crate) fn is_broken(&self) -> bool {
        self.received
    }

    /// Looks: the end of the connection if an answer is owed and nothing has come for too long.
    pub(crate) fn look(&mut self, is_owed: impl FnOnce() -> bool) -> Result<(), &'static str> {
        if std::mem::take(&mut self.received) || !is_owed() {
            self.heard = Instant::now();
        } else if self.heard.elapsed() > self.patience {
            return Err("the server is silent");
        }
        Ok(())
    }
}
