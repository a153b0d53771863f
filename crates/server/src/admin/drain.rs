//! Drain operations of the admin API.

use super::AdminState;
use super::answer::{AdminAnswer, AdminRefusal, OperationInput};
use crate::conn::drain::DrainFacts;
use crate::limits::DRAIN_WITHIN_MAX;
use serde_json::{Value, json};
use std::time::Duration;

/// Default time for clients, in seconds.
const WITHIN_SECONDS: u64 = 60;

/// Shows the progress of a drain.
pub fn show(state: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    Ok(AdminAnswer::Json(shown(state)))
}

/// Starts a drain, or changes its deadline.
pub fn begin(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let most = DRAIN_WITHIN_MAX.as_secs();
    let bad =
        || AdminRefusal::Bad(format!("send {{\"within_seconds\": N}}, with N from 0 to {most}"));
    let wish = input.body.as_object().ok_or_else(bad)?;
    if wish.keys().any(|key| key != "within_seconds") {
        return Err(bad());
    }
    let seconds = match wish.get("within_seconds") {
        None => WITHIN_SECONDS,
        Some(seconds) => seconds.as_u64().filter(|seconds| *seconds <= most).ok_or_else(bad)?,
    };
    state.drain.begin(Duration::from_secs(seconds));
    tracing::info!(seconds, "drain started by an administrator: new clients are refused");
    Ok(AdminAnswer::Json(shown(state)))
}

/// Cancels the drain.
pub fn cancel(state: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    state.drain.cancel();
    tracing::info!("drain cancelled by an administrator: clients are accepted");
    Ok(AdminAnswer::Json(shown(state)))
}

fn shown(state: &AdminState) -> Value {
    let DrainFacts { state: name, left } = state.drain.facts();
    let sessions = state.server.snapshot().sessions;
    json!({
        "state": name,
        "seconds_left": left.map(|left| left.as_secs()),
        "connections": state.connections.open_count(),
        "sessions": sessions.len(),
        "opens": sessions.iter().map(|session| session.opens.len()).sum::<usize>(),
        "nfs_clients": state.nfs.clients().len(),
    })
}
