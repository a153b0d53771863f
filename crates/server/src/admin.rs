//! The admin API: state and control of the running server over HTTP, on a local address or a Unix
//! socket, and the dashboard.
//!
//! `table` lists every `operation`. `request` is the common path of all requests; it refuses a
//! request without a token. This module takes no protocol decisions.

mod answer;
mod cache;
mod channels;
mod drain;
mod features;
mod history;
mod listen;
mod nfs_clients;
mod openapi;
mod operation;
mod page;
mod pointer;
mod request;
mod sessions;
mod shares;
mod status;
mod table;
mod token;
mod visitors;

use crate::config::ShareConfig;
use crate::conn::connections::ConnectionTable;
use crate::conn::drain::Drain;
use crate::limits::ADMIN_REQUESTS_MAX;
use crate::machine::interfaces::Interfaces;
use crate::metadata_cache::MetadataCaches;
use crate::observe::features::FeatureRegistry;
use crate::observe::observer::Observer;
use crate::shares::limits::LimitsBook;
use answer::AdminRefusal;
use axum::extract::{RawPathParams, Request};
use axum::routing::on;
use axum::{Extension, Router};
use files::Files;
pub use listen::{AdminSocket, Peer};
pub use pointer::{Pointer, pointed_token};
use smb::SmbServer;
use std::sync::Arc;
use std::time::Instant;
use sync::Mutex;
use table::OPERATIONS;
pub use token::{ADMIN_TOKEN_FILE, Tokens};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// A request to reload the configuration; the channel carries the outcome.
pub type ReloadWish = oneshot::Sender<Result<(), String>>;

/// The configured shares.
#[derive(Debug, Default)]
pub struct ShareConfigs(Mutex<Arc<Vec<ShareConfig>>>);

impl ShareConfigs {
    /// Replaces the shares by those of a new configuration.
    pub fn set(&self, shares: &[ShareConfig]) {
        *self.0.lock() = Arc::new(shares.to_vec());
    }

    /// The present shares.
    #[must_use]
    pub fn all(&self) -> Arc<Vec<ShareConfig>> {
        self.0.lock().clone()
    }
}

/// Everything that the operations use.
#[derive(Clone)]
pub struct AdminState {
    /// The SMB server.
    pub server: Arc<SmbServer>,
    /// The NFS server.
    pub nfs: Arc<nfs::NfsServer>,
    /// The file layer.
    pub files: Arc<Files>,
    /// All connections.
    pub connections: Arc<ConnectionTable>,
    /// The machine's network interfaces.
    pub interfaces: Arc<Interfaces>,
    /// SMB port of the server.
    pub port: u16,
    /// The metadata caches of the shares.
    pub caches: Arc<MetadataCaches>,
    /// The features and their switches.
    pub features: Arc<FeatureRegistry>,
    /// The source of metrics.
    pub observer: Arc<Observer>,
    /// The configured shares.
    pub shares: Arc<ShareConfigs>,
    /// The limits of the shares.
    pub limits: Arc<LimitsBook>,
    /// The drain state of the server.
    pub drain: Arc<Drain>,
    /// Channel to the task that reloads the configuration.
    pub reload: mpsc::Sender<ReloadWish>,
    /// Start time of the server.
    pub started: Instant,
    /// The accepted tokens.
    pub tokens: Arc<Tokens>,
    /// Cached space of the shares.
    pub spaces: Arc<shares::Spaces>,
    /// Limits the number of concurrent requests.
    pub permits: Arc<Semaphore>,
}

impl AdminState {
    /// Creates the value of [`AdminState::permits`].
    #[must_use]
    pub fn fresh_permits() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(ADMIN_REQUESTS_MAX))
    }
}

/// Serves the API until the task is dropped.
pub async fn serve(socket: AdminSocket, state: AdminState) {
    socket.serve(router(&state)).await;
}

fn router(state: &AdminState) -> Router {
    let mut router = Router::new();
    for operation in OPERATIONS {
        let state = state.clone();
        let answer =
            move |Extension(peer): Extension<Peer>, path: RawPathParams, asked: Request| {
                request::answer(state, operation, peer, path, asked)
            };
        router = router.route(operation.path, on(operation.method.filter(), answer));
    }
    let refusing = |state: AdminState, why: AdminRefusal| {
        move |Extension(peer): Extension<Peer>, request: Request| async move {
            request::refuse(&state, peer, &request, why)
        }
    };
    let nothing = AdminRefusal::Missing("unknown path; see /v1/openapi.json");
    router
        .fallback(refusing(state.clone(), nothing))
        .method_not_allowed_fallback(refusing(state.clone(), AdminRefusal::Method))
}
