//! Operations on SMB sessions and on connections of both protocols.

use super::AdminState;
use super::answer::{AdminAnswer, AdminRefusal, OperationInput};
use crate::conn::connections::{LinkFact, Traffic};
use crate::limits::ADMIN_OPENS_MAX;
use serde_json::{Value, json};
use smb::snapshot::{ChannelFact, SmbSessionFact};

const NO_SESSION: AdminRefusal = AdminRefusal::Missing("there is no such session");
const NO_CONNECTION: AdminRefusal = AdminRefusal::Missing("there is no such connection");

/// Lists all sessions in the order of their ids.
pub fn list(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let mut sessions = state.server.snapshot().sessions;
    sessions.sort_by_key(|session| session.id);
    Ok(AdminAnswer::Json(input.page(&sessions, |session| shown(session, state))))
}

/// Shows one session.
pub fn one(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let id = number(input, "session").ok_or(NO_SESSION)?;
    let sessions = state.server.snapshot().sessions;
    let session = sessions.iter().find(|session| session.id == id).ok_or(NO_SESSION)?;
    Ok(AdminAnswer::Json(shown(session, state)))
}

/// Closes a session. MS-SMB2 3.3.4.12.
pub fn close(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let id = number(input, "session").ok_or(NO_SESSION)?;
    let session = state.server.session(wire::smb::SessionId(id)).ok_or(NO_SESSION)?;
    state.server.end_session(&session);
    tracing::info!(session = input.part("session"), "session closed by an administrator");
    Ok(AdminAnswer::Json(json!({ "done": "closed" })))
}

/// Parses a path parameter of 16 hexadecimal digits.
pub fn number(input: &OperationInput, name: &str) -> Option<u64> {
    let text = input.part(name);
    let is_one = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// A session with its channels and its first opens.
pub fn shown(session: &SmbSessionFact, state: &AdminState) -> Value {
    let opens = session.opens.iter().take(ADMIN_OPENS_MAX).map(|open| {
        json!({
            "share": open.share, "path": open.path, "access": format!("{:#010x}", open.access),
        })
    });
    json!({
        "id": format!("{:016x}", session.id),
        "user": session.user,
        "dialect": session.dialect,
        "signing": session.signing,
        "cipher": session.cipher,
        "encrypted": session.encrypted,
        "channels_max": session.channels_max,
        "needs_reconnect": session.needs_reconnect,
        "channels": session.channels.iter().map(|fact| channel(fact, state)).collect::<Vec<_>>(),
        "shares": session.trees,
        "opens": opens.collect::<Vec<_>>(),
        "opens_total": session.opens.len(),
    })
}

fn channel(channel: &ChannelFact, state: &AdminState) -> Value {
    let Traffic { received_bytes, sent_bytes, core } =
        state.connections.traffic(channel.connection).unwrap_or_default();
    json!({
        "connection": channel.connection,
        "client": channel.peer.to_string(),
        "server": channel.local.to_string(),
        "credits": channel.credits(),
        "received_bytes": received_bytes,
        "sent_bytes": sent_bytes,
        "core": core,
    })
}

/// Lists all connections in the order of their numbers.
pub fn connections(
    state: &AdminState,
    input: &OperationInput,
) -> Result<AdminAnswer, AdminRefusal> {
    let mut facts = state.connections.facts();
    facts.sort_by_key(|fact| fact.id);
    Ok(AdminAnswer::Json(input.page(&facts, |fact: &LinkFact| {
        json!({
            "id": fact.id,
            "client": fact.address.to_canonical().to_string(),
            "received_bytes": fact.traffic.received_bytes,
            "sent_bytes": fact.traffic.sent_bytes,
            "core": fact.traffic.core,
        })
    })))
}

/// Resets a connection without a reply, as a broken network would.
pub fn cut(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let id: u64 = input.part("connection").parse().map_err(|_| NO_CONNECTION)?;
    if !state.connections.cut(id) {
        return Err(NO_CONNECTION);
    }
    tracing::info!(connection = id, "connection cut by an administrator's command");
    Ok(AdminAnswer::Json(json!({ "done": "cut" })))
}
