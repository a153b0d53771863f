//! Accepting connections.

use crate::smb_task::{End, SmbTask};
use smb::{Conn, ConnFacts, Host, Server};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Connections of one address at once: a terminal server has many users, a
/// machine that goes wild has more.
const PER_ADDRESS_MAX: usize = 20_000;
/// After an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Counts and limits of connections.
#[derive(Debug)]
pub struct Connections {
    next_id: AtomicU64,
    open: AtomicUsize,
    max: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

impl Connections {
    /// At most `max` at once.
    pub fn new(max: usize) -> Self {
        Self {
            next_id: AtomicU64::new(1),
            open: AtomicUsize::new(0),
            max: AtomicUsize::new(max),
            by_address: Mutex::default(),
        }
    }

    /// How many are open.
    pub fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let open = self.open.fetch_add(1, Ordering::Relaxed);
        let place = Place { connections: self.clone(), address };
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_address.entry(address).or_insert(0);
        *count += 1;
        let full = open >= self.max.load(Ordering::Relaxed) || *count > PER_ADDRESS_MAX;
        drop(by_address);
        (!full).then_some(place)
    }
}

/// A connection's place; given back when dropped.
struct Place {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
        let mut by_address =
            self.connections.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

/// Accepts until the task is dropped.
pub async fn accept(
    listener: TcpListener,
    server: Arc<Server>,
    host: Arc<dyn Host>,
    connections: Arc<Connections>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => start(stream, peer, &server, &host, &connections),
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection; raise LimitNOFILE if descriptors ran out");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn start(
    stream: TcpStream,
    peer: SocketAddr,
    server: &Arc<Server>,
    host: &Arc<dyn Host>,
    connections: &Arc<Connections>,
) {
    let Some(place) = connections.enter(peer.ip()) else {
        tracing::warn!(%peer, open = connections.open_count(), "too many connections; raise connections_max");
        return;
    };
    let Ok(local) = stream.local_addr() else { return };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "TCP_NODELAY");
    }
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    let facts = ConnFacts { id: connections.next_id.fetch_add(1, Ordering::Relaxed), peer, local };
    let conn = Conn::new(server.clone(), facts);
    let task = SmbTask::new(stream, conn, host.clone());
    tokio::spawn(async move {
        let end = task.run().await;
        match end {
            End::Closed => tracing::debug!(%peer, "closed by the client"),
            End::Protocol(close) => tracing::info!(%peer, ?close, "closed: protocol violated"),
            End::Slow(what) => tracing::info!(%peer, what, "closed: too slow"),
            End::Network(error) => tracing::debug!(%peer, %error, "connection lost"),
        }
        drop(place);
    });
}
