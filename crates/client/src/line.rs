//! The line to a server: connecting, and noticing that nothing comes any more.

use crate::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
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
