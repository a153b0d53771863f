//! The admin API: what a running server is doing, over HTTP on an address of
//! the machine itself.
//!
//! A page from elsewhere that a browser on this machine shows must not read it
//! by way of a name that it points here: requests that name a host other than an
//! address or `localhost` are refused. What changes something is done for
//! processes of root and of the server's own user only, and by a method
//! that browsers do not use for a page from elsewhere.

mod caller;
mod channels;
mod features;
mod nfs_clients;

use crate::connections::{Connections, Counts};
use crate::features::Features;
use crate::interfaces::Interfaces;
use crate::metadata_cache::MetadataCaches;
use crate::metrics::{self, Moment};
use axum::extract::{ConnectInfo, Path, Request};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{delete, get};
use axum::{Json, Router};
use files::Files;
use serde_json::{Value, json};
use smb::Server;
use smb::snapshot::{SessionFact, Snapshot};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;

/// What the API looks at.
#[derive(Clone)]
pub struct State {
    /// The SMB server.
    pub server: Arc<Server>,
    /// The NFS server.
    pub nfs: Arc<nfs::Server>,
    /// Its files.
    pub files: Arc<Files>,
    /// Its connections.
    pub connections: Arc<Connections>,
    /// The machine's addresses.
    pub interfaces: Arc<Interfaces>,
    /// Port that clients use.
    pub port: u16,
    /// What is kept of the shares' names and files.
    pub caches: Arc<MetadataCaches>,
    /// What can be switched.
    pub features: Arc<Features>,
}

/// Serves the API until the task is dropped.
pub async fn serve(listener: TcpListener, state: State) {
    let (status, metrics, channels) = (state.clone(), state.clone(), state.clone());
    let own_port = listener.local_addr().map_or(0, |address| address.port());
    let features = features::router(state.features.clone(), own_port);
    let cut = move |ConnectInfo(peer): ConnectInfo<SocketAddr>, Path(id): Path<u64>| async move {
        cut(state, peer, own_port, id).await
    };
    let router = Router::new()
        .route("/health", get(|| async { "ok\n" }))
        .route("/status", get(move || async move { Json(status.json()) }))
        .route("/channels", get(move || async move { Json(channels.channels()) }))
        .route("/connections/{id}", delete(cut))
        .route("/metrics", get(move || async move { metrics.metrics() }))
        .merge(features)
        .layer(middleware::from_fn(only_by_address));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    if let Err(error) = axum::serve(listener, service).await {
        tracing::error!(%error, "the admin API ended");
    }
}

/// Cuts a connection without a word to its client, as a broken network would.
async fn cut(
    state: State,
    peer: SocketAddr,
    own_port: u16,
    id: u64,
) -> Result<&'static str, StatusCode> {
    let may = tokio::task::spawn_blocking(move || caller::may_change(peer, own_port)).await;
    if !may.unwrap_or(false) {
        return Err(StatusCode::FORBIDDEN);
    }
    if !state.connections.cut(id) {
        return Err(StatusCode::NOT_FOUND);
    }
    tracing::info!(connection = id, "connection cut by an administrator's command");
    Ok("cut\n")
}

async fn only_by_address(request: Request, next: Next) -> Result<Response, StatusCode> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if host.is_some_and(is_address) {
        Ok(next.run(request).await)
    } else {
        Err(StatusCode::MISDIRECTED_REQUEST)
    }
}

fn is_address(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    host.parse::<SocketAddr>().is_ok()
        || host.parse::<IpAddr>().is_ok()
        || name.parse::<IpAddr>().is_ok()
        || name == "localhost"
}

impl State {
    fn metrics(&self) -> String {
        let (connections, smb) = (self.connections.counts(), self.server.snapshot());
        metrics::text(&Moment {
            connections: &connections,
            smb: &smb,
            open_files: self.files.open_file_count(),
            caches: &self.caches.counts(),
            directory_scans: vfs_local::scans(),
        })
    }

    fn channels(&self) -> Value {
        let interfaces = channels::interfaces(&self.interfaces.reachable(self.port));
        let mut page = channels::page(&self.server.snapshot(), &self.connections, &self.interfaces);
        page["Interfaces"] = interfaces;
        page["NfsClients"] = nfs_clients::channels(&self.nfs.snapshot(), &self.connections);
        page
    }

    fn json(&self) -> Value {
        let Counts { open, unknown, accepted, refused, received_bytes, sent_bytes, ends } =
            self.connections.counts();
        let Snapshot { sessions, garbage, requests, logons_failed, logons, .. } =
            self.server.snapshot();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "connections": open,
            "connections_unknown": unknown,
            "connections_accepted": accepted,
            "connections_refused": refused,
            "connections_ended": ends,
            "received_bytes": received_bytes,
            "sent_bytes": sent_bytes,
            "requests": requests,
            "logons": logons,
            "logons_failed": logons_failed,
            "garbage": garbage,
            "sessions": sessions.iter().map(session_json).collect::<Vec<_>>(),
            "nfs": nfs_clients::status(&self.nfs.snapshot()),
        })
    }
}

fn session_json(session: &SessionFact) -> Value {
    let channels = session.channels.iter();
    json!({
        "id": format!("{:016x}", session.id),
        "user": session.user,
        "dialect": session.dialect,
        "signing": session.signing,
        "cipher": session.cipher,
        "encrypted": session.encrypted,
        "channels_max": session.channels_max,
        "needs_reconnect": session.needs_reconnect,
        "channels": channels.map(|c| json!({
            "client": c.peer.to_string(), "server": c.local.to_string(),
        })).collect::<Vec<_>>(),
        "shares": session.trees,
        "opens": session.opens.iter().map(|o| json!({
            "share": o.share, "path": o.path, "access": format!("{:#010x}", o.access),
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_answered() {
        for good in ["127.0.0.1", "127.0.0.1:4480", "[::1]:4480", "localhost", "localhost:4480"] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["example.org", "example.org:4480", "localhost.example.org", ""] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
