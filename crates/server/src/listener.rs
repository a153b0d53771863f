//! Accepting connections.

use crate::connections::{Connections, Full, Place};
use crate::quiet::Quiet;
use crate::smb_task::{End, SmbTask};
use futures_util::FutureExt;
use smb::{Close, Conn, ConnFacts, Host, Server};
use std::any::Any;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// After an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Lines about connections that were not taken, in a minute.
const REFUSED_LINES_MAX: u32 = 10;

/// What connections are served with.
#[derive(Clone)]
pub struct Listener {
    /// The protocol layer.
    pub server: Arc<Server>,
    /// The process around it.
    pub host: Arc<dyn Host>,
    /// All connections.
    pub connections: Arc<Connections>,
}

impl Listener {
    /// Accepts until the task is dropped.
    pub async fn accept(self, socket: TcpListener) {
        let refused = Quiet::new(REFUSED_LINES_MAX);
        loop {
            match socket.accept().await {
                Ok((stream, peer)) => self.start(stream, peer, &refused),
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection; raise LimitNOFILE if descriptors ran out");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn start(&self, stream: TcpStream, peer: SocketAddr, refused: &Quiet) {
        let place = match self.connections.enter(peer.ip()) {
            Ok(place) => place,
            Err(full) => {
                if let Some(unsaid) = refused.says(self.host.now().instant) {
                    tracing::warn!(%peer, unsaid, "connection refused: {}", why(full));
                }
                return;
            }
        };
        let Ok(local) = stream.local_addr() else { return };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "TCP_NODELAY");
        }
        if let Err(error) = rustix::net::sockopt::set_socket_keepalive(&stream, true) {
            tracing::debug!(%peer, %error, "SO_KEEPALIVE");
        }
        tokio::spawn(self.clone().serve(stream, ConnFacts { id: place.id(), peer, local }, place));
    }

    /// A connection whose invariants are broken ends; no other one notices.
    async fn serve(self, stream: TcpStream, facts: ConnFacts, place: Place) {
        let conn = Conn::new(self.server.clone(), facts);
        let within = self.connections.logon_within();
        let task = SmbTask::new(stream, conn, self.host.clone(), place, within);
        let peer = facts.peer;
        let kind = match AssertUnwindSafe(task.run()).catch_unwind().await {
            Ok(end) => told(&end, peer),
            Err(panic) => {
                tracing::error!(%peer, what = message_of(&*panic), "connection closed: a defect of this server");
                "defect"
            }
        };
        self.connections.count_end(kind);
    }
}

/// Tells the log, and gives the kind to count.
fn told(end: &End, peer: SocketAddr) -> &'static str {
    match end {
        End::Closed => {
            tracing::debug!(%peer, "closed by the client");
            "closed"
        }
        End::Network(error) => {
            tracing::debug!(%peer, %error, "connection lost");
            "network"
        }
        End::Protocol(Close::Garbage(what)) => {
            tracing::info!(%peer, what, "connection closed: not what SMB allows");
            "garbage"
        }
        End::Protocol(Close::Refused(what)) => {
            tracing::info!(%peer, what, "connection closed: a security rule was broken");
            "refused"
        }
        End::Slow(what) => {
            tracing::info!(%peer, what, "connection closed: too slow");
            "slow"
        }
        End::Stopped => "stopped",
    }
}

fn why(full: Full) -> &'static str {
    match full {
        Full::All => "connections_max is reached; raise it if these are users",
        Full::Address => "too many connections from this address",
        Full::Unknown => "too many connections from this address that nobody has logged on to",
    }
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}
