//! The admin API: what a running server is doing, over HTTP on an address of
//! the machine itself.

use crate::listener::Connections;
use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use smb::Server;
use smb::snapshot::{SessionFact, Snapshot};
use std::fmt::Write;
use std::sync::Arc;
use tokio::net::TcpListener;

/// What the API looks at.
#[derive(Clone)]
pub struct State {
    /// The SMB server.
    pub server: Arc<Server>,
    /// Its connections.
    pub connections: Arc<Connections>,
}

/// Serves the API until the task is dropped.
pub async fn serve(listener: TcpListener, state: State) {
    let (status, metrics) = (state.clone(), state);
    let router = Router::new()
        .route("/health", get(|| async { "ok\n" }))
        .route("/status", get(move || async move { axum::Json(status_json(&status)) }))
        .route("/metrics", get(move || async move { metrics_text(&metrics) }));
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "the admin API ended");
    }
}

fn status_json(state: &State) -> Value {
    let snapshot = state.server.snapshot();
    json!({
        "connections": state.connections.open_count(),
        "requests": snapshot.requests,
        "logons": snapshot.logons,
        "logons_failed": snapshot.logons_failed,
        "garbage": snapshot.garbage,
        "sessions": snapshot.sessions.iter().map(session_json).collect::<Vec<_>>(),
    })
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
        "channels": channels.map(|c| json!({
            "client": c.peer.to_string(), "server": c.local.to_string(),
        })).collect::<Vec<_>>(),
        "shares": session.trees,
        "opens": session.opens.iter().map(|o| json!({
            "share": o.share, "path": o.path, "access": format!("{:#010x}", o.access),
        })).collect::<Vec<_>>(),
    })
}

/// In the text format that metric collectors read.
fn metrics_text(state: &State) -> String {
    let Snapshot { sessions, garbage, requests, logons_failed, logons } = state.server.snapshot();
    let opens: usize = sessions.iter().map(|s| s.opens.len()).sum();
    let gauges = [
        ("anabranch_connections", "TCP connections that are open.", state.connections.open_count()),
        ("anabranch_smb_sessions", "SMB sessions.", sessions.len()),
        ("anabranch_smb_opens", "Open files and pipes of SMB sessions.", opens),
    ];
    let counters = [
        ("anabranch_smb_requests_total", "SMB requests taken.", requests),
        ("anabranch_smb_logons_total", "Logons that succeeded.", logons),
        ("anabranch_smb_logons_failed_total", "Logons that were refused.", logons_failed),
        ("anabranch_smb_garbage_total", "Connections closed for violating the protocol.", garbage),
    ];
    let mut text = String::new();
    for (name, help, value) in gauges {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    }
    for (name, help, value) in counters {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
    }
    text
}
