//! The admin API: what a running server is doing, over HTTP on an address of
//! the machine itself or a Unix socket, and the page that shows it.
//!
//! `table` has every operation, `request` the way that all of them go: who shows no token
//! gets no answer. Nothing here decides what a protocol does.

mod cache;
mod channels;
mod drain;
mod features;
mod listen;
mod nfs_clients;
mod openapi;
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
use crate::connections::Connections;
use crate::drain::Drain;
use crate::features::Features;
use crate::interfaces::Interfaces;
use crate::limits::ADMIN_REQUESTS_MAX;
use crate::metadata_cache::MetadataCaches;
use crate::observer::Observer;
use crate::share_limits::LimitsBook;
use axum::extract::{RawPathParams, Request};
use axum::routing::on;
use axum::{Extension, Router};
use files::Files;
pub use listen::{Peer, Socket};
pub use pointer::{Pointer, pointed_token};
use request::Refusal;
use smb::Server;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use table::OPERATIONS;
pub use token::{ADMIN_TOKEN_FILE, Tokens};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// A wish for the configuration to be read again; what came of it is told.
pub type ReloadWish = oneshot::Sender<Result<(), String>>;

/// The shares as they are configured.
#[derive(Debug, Default)]
pub struct ShareConfigs(Mutex<Arc<Vec<ShareConfig>>>);

impl ShareConfigs {
    /// Takes those of a new configuration.
    pub fn set(&self, shares: &[ShareConfig]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(shares.to_vec());
    }

    /// The present ones.
    #[must_use]
    pub fn all(&self) -> Arc<Vec<ShareConfig>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

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
    /// Where everything is looked at.
    pub observer: Arc<Observer>,
    /// The shares as they are configured.
    pub shares: Arc<ShareConfigs>,
    /// What the shares may take.
    pub limits: Arc<LimitsBook>,
    /// The end that is prepared for, if it is.
    pub drain: Arc<Drain>,
    /// Who reads the configuration again.
    pub reload: mpsc::Sender<ReloadWish>,
    /// Since when all this is.
    pub started: Instant,
    /// What has to be shown.
    pub tokens: Arc<Tokens>,
    /// Space of the shares.
    pub spaces: Arc<shares::Spaces>,
    /// For the few requests that are looked into at once.
    pub permits: Arc<Semaphore>,
}

impl State {
    /// Permits for [`State::permits`].
    #[must_use]
    pub fn fresh_permits() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(ADMIN_REQUESTS_MAX))
    }
}

/// Serves the API until the task is dropped.
pub async fn serve(socket: Socket, state: State) {
    socket.serve(router(&state)).await;
}

fn router(state: &State) -> Router {
    let mut router = Router::new();
    for operation in OPERATIONS {
        let state = state.clone();
        let answer =
            move |Extension(peer): Extension<Peer>, path: RawPathParams, asked: Request| {
                request::answer(state, operation, peer, path, asked)
            };
        router = router.route(operation.path, on(operation.method.filter(), answer));
    }
    let refusing = |state: State, why: Refusal| {
        move |Extension(peer): Extension<Peer>, request: Request| async move {
            request::refuse(&state, peer, &request, why)
        }
    };
    let nothing = Refusal::Missing("there is nothing here; see /v1/openapi.json");
    router
        .fallback(refusing(state.clone(), nothing))
        .method_not_allowed_fallback(refusing(state.clone(), Refusal::Method))
}
