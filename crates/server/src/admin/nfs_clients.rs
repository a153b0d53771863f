//! NFS client operations of the admin API.

use super::AdminState;
use super::answer::{AdminAnswer, AdminRefusal, OperationInput};
use super::sessions::number;
use crate::conn::connections::{ConnectionTable, Traffic};
use crate::limits::ADMIN_ITEMS_MAX;
use nfs::snapshot::{ClientFact, ConnectionFact, NfsSessionFact, NfsSnapshot};
use serde_json::{Value, json};

const NO_CLIENT: AdminRefusal = AdminRefusal::Missing("there is no such client");

/// Lists all clients in the order of their ids.
pub fn list(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let mut clients = state.nfs.snapshot().clients;
    clients.sort_by_key(|client| client.id);
    Ok(AdminAnswer::Json(input.page(&clients, shown)))
}

/// Revokes a client with all its state, as if its lease had expired. RFC 8881 8.4.3.
pub fn close(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let id = number(input, "client").ok_or(NO_CLIENT)?;
    let client = state.nfs.find_client(wire::nfs::ClientId(id)).map_err(|_| NO_CLIENT)?;
    state.nfs.remove_client(&client);
    tracing::info!(client = input.part("client"), "NFS client revoked by an administrator");
    Ok(AdminAnswer::Json(json!({ "done": "closed" })))
}

/// The NFS part of `status`.
pub fn status(snapshot: &NfsSnapshot) -> Value {
    let clients = snapshot.clients.iter().take(ADMIN_ITEMS_MAX);
    json!({
        "compounds": snapshot.compounds,
        "operations": snapshot.operations,
        "replays": snapshot.replays,
        "clients": clients.map(shown).collect::<Vec<_>>(),
        "clients_total": snapshot.clients.len(),
    })
}

fn shown(client: &ClientFact) -> Value {
    json!({
        "id": format!("{:016x}", client.id),
        "owner": client.owner,
        "implementation": client.implementation,
        "client": client.peer,
        "confirmed": client.is_confirmed,
        "expired": client.is_expired,
        "states": client.states,
        "delegations": client.delegations,
        "exports": client.exports,
        "sessions": client.sessions.iter().map(session).collect::<Vec<_>>(),
    })
}

fn session(session: &NfsSessionFact) -> Value {
    json!({
        "id": id_of(session),
        "slots": session.slots,
        "busy": session.busy,
        "calls": session.calls,
        "callbacks": session.has_callbacks,
        "connections": session.connections.len(),
        "tls_connections": session.connections.iter().filter(|c| c.is_under_tls).count(),
    })
}

fn id_of(session: &NfsSessionFact) -> String {
    session.id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The NFS part of `channels`: every session with its connections.
pub fn channels(snapshot: &NfsSnapshot, connections: &ConnectionTable) -> Value {
    let sessions = snapshot.clients.iter().take(ADMIN_ITEMS_MAX).flat_map(|client| {
        client.sessions.iter().map(move |session| {
            let of = |fact: &ConnectionFact| connection(fact, connections);
            json!({
                "SessionId": id_of(session),
                "Client": client.owner,
                "Slots": session.slots,
                "Connections": session.connections.iter().map(of).collect::<Vec<_>>(),
            })
        })
    });
    sessions.collect()
}

fn connection(fact: &ConnectionFact, connections: &ConnectionTable) -> Value {
    let facts = &fact.facts;
    let Traffic { received_bytes, sent_bytes, core } =
        connections.traffic(facts.id).unwrap_or_default();
    json!({
        "ConnectionId": facts.id,
        "Client": facts.peer.to_string(),
        "Server": facts.local.to_string(),
        "Tls": fact.is_under_tls,
        "BytesReceived": received_bytes,
        "BytesSent": sent_bytes,
        "Core": core,
    })
}
