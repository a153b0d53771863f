//! Features over the admin API: `GET /features`, `PUT` and `DELETE` of
//! `/features/NAME` for all shares, or of `/features/NAME/SHARE` for one.

use super::caller;
use crate::features::{Features, Refusal};
use axum::extract::{ConnectInfo, Path};
use axum::http::StatusCode;
use axum::routing::{get, put};
use axum::{Json, Router};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;

/// The paths below `/features`.
pub fn router(features: Arc<Features>, own_port: u16) -> Router {
    let listed = features.clone();
    let all = |on: bool| {
        let features = features.clone();
        move |ConnectInfo(peer): ConnectInfo<SocketAddr>, Path(name): Path<String>| {
            set(features, (peer, own_port), name, None, on)
        }
    };
    let one = |on: bool| {
        let features = features.clone();
        move |ConnectInfo(peer): ConnectInfo<SocketAddr>,
              Path((name, share)): Path<(String, String)>| {
            set(features, (peer, own_port), name, Some(share), on)
        }
    };
    Router::new()
        .route("/features", get(move || async move { Json(listed.list()) }))
        .route("/features/{name}", put(all(true)).delete(all(false)))
        .route("/features/{name}/{share}", put(one(true)).delete(one(false)))
}

/// Switches a feature, for who may change something.
async fn set(
    features: Arc<Features>,
    (peer, own_port): (SocketAddr, u16),
    name: String,
    share: Option<String>,
    on: bool,
) -> Result<Json<Value>, StatusCode> {
    // Both look at things that may take a moment.
    let switched = tokio::task::spawn_blocking(move || {
        if !caller::may_change(peer, own_port) {
            return Err(StatusCode::FORBIDDEN);
        }
        let found = features.set(&name, share.as_deref(), on);
        found.map_err(|refusal| match refusal {
            Refusal::NoFeature | Refusal::NoShare => StatusCode::NOT_FOUND,
        })
    });
    switched.await.unwrap_or(Err(StatusCode::INTERNAL_SERVER_ERROR)).map(Json)
}
