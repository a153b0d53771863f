//! The HTTP server from which Windows reads the computer's name: WS-Transfer over HTTP, DPWS.
//!
//! A connection has a fixed time from accept to close, so a slow client holds its slot no longer.

use super::Discovery;
use super::counters::DiscoveryProtocol;
use crate::limits::{
    METADATA_CONNECTIONS_MAX, METADATA_CONNECTIONS_OF_ADDRESS_MAX, METADATA_HEAD_BYTES_MAX,
    METADATA_HEADERS_MAX, METADATA_WITHIN,
};
use ::discovery::limits::ENVELOPE_BYTES_MAX;
use ::discovery::wsd::{METADATA_PORT, WsdComputer};
use ::discovery::{DatagramOutcome, SenderGate, SenderRefusal};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::Mutex;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Backlog of the listening socket.
const ACCEPT_QUEUE: u32 = 16;

/// State of the request handler.
#[derive(Clone)]
struct MetadataSource {
    discovery: Arc<Discovery>,
    computer: WsdComputer,
}

/// Listens for metadata requests at an own address.
///
/// # Errors
/// Any error of the system; `AddrInUse` if another program serves WS-Discovery.
pub(super) fn listen(address: IpAddr, index: u32) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(match address {
        IpAddr::V4(v4) => SocketAddr::from((v4, METADATA_PORT)),
        // Only link-local addresses need the interface, and others ignore it.
        IpAddr::V6(v6) => SocketAddr::V6(SocketAddrV6::new(v6, METADATA_PORT, 0, index)),
    })?;
    socket.listen(ACCEPT_QUEUE)
}

/// Serves until the task is dropped. Clients that the gate refuses are disconnected.
pub(super) async fn serve(
    discovery: Arc<Discovery>,
    listener: TcpListener,
    computer: WsdComputer,
    gate: Arc<Mutex<SenderGate>>,
) {
    let slots = Arc::<MetadataSlots>::default();
    let source = MetadataSource { discovery: discovery.clone(), computer };
    let router = Router::new().fallback(post(describe));
    let router = router.layer(DefaultBodyLimit::max(ENVELOPE_BYTES_MAX)).with_state(source);
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        if let Err(refusal) = gate.lock().admit(peer.ip(), Instant::now()) {
            discovery.counters.refused(DiscoveryProtocol::WsdMetadata, refusal);
            continue;
        }
        let Some(slot) = slots.enter(peer.ip()) else {
            discovery.counters.refused(DiscoveryProtocol::WsdMetadata, SenderRefusal::Rate);
            continue;
        };
        let router = router.clone();
        connections.spawn(async move {
            let _slot = slot;
            let _ = tokio::time::timeout(METADATA_WITHIN, serve_one(stream, router)).await;
        });
    }
}

async fn serve_one(stream: TcpStream, router: Router) {
    let mut http = hyper::server::conn::http1::Builder::new();
    // One request a connection, so the rate of connections is that of requests.
    http.keep_alive(false);
    http.timer(TokioTimer::new());
    http.max_buf_size(METADATA_HEAD_BYTES_MAX);
    http.max_headers(METADATA_HEADERS_MAX);
    // A defective connection concerns its client only.
    let service = TowerToHyperService::new(router);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn describe(State(source): State<MetadataSource>, uri: Uri, body: Bytes) -> Response {
    let MetadataSource { discovery, computer } = source;
    let path = uri.path().trim_start_matches('/');
    let described = computer.describe(path, &body, super::jitter().uuid());
    let outcome = match described {
        Ok(_) => DatagramOutcome::Answered,
        Err(_) => DatagramOutcome::Malformed,
    };
    discovery.counters.count(DiscoveryProtocol::WsdMetadata, outcome);
    match described {
        Ok(answer) => ([(header::CONTENT_TYPE, "application/soap+xml")], answer).into_response(),
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

/// Connections by address.
#[derive(Debug, Default)]
struct MetadataSlots(Mutex<HashMap<IpAddr, usize>>);

/// A connection's slot, free on drop.
#[derive(Debug)]
struct MetadataSlot {
    slots: Arc<MetadataSlots>,
    address: IpAddr,
}

impl MetadataSlots {
    /// A slot for a connection of `address`; `None` if it or all together have too many.
    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<MetadataSlot> {
        let address = address.to_canonical();
        let mut present = self.0.lock();
        let of_address = present.get(&address).copied().unwrap_or_default();
        let is_full = present.values().sum::<usize>() >= METADATA_CONNECTIONS_MAX;
        if is_full || of_address >= METADATA_CONNECTIONS_OF_ADDRESS_MAX {
            return None;
        }
        present.insert(address, of_address + 1);
        Some(MetadataSlot { slots: self.clone(), address })
    }
}

impl Drop for MetadataSlot {
    fn drop(&mut self) {
        let mut present = self.slots.0.lock();
        let left = present.get(&self.address).map_or(0, |count| count - 1);
        match left {
            0 => present.remove(&self.address),
            left => present.insert(self.address, left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_limited_by_address_and_altogether() {
        let slots = Arc::<MetadataSlots>::default();
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let mut held: Vec<_> = (0..METADATA_CONNECTIONS_OF_ADDRESS_MAX)
            .map(|_| slots.enter(address(1)).expect("a slot"))
            .collect();
        assert!(slots.enter(address(1)).is_none());
        held.pop();
        held.extend(slots.enter(address(1)));
        let others = (2..=u8::MAX).filter_map(|last| slots.enter(address(last)));
        held.extend(others);
        assert_eq!(held.len(), METADATA_CONNECTIONS_MAX);
        drop(held);
        assert!(slots.0.lock().is_empty());
    }
}
