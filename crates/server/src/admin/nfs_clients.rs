//! NFS clients, their sessions and connections.

use crate::connections::{Connections, Traffic};
use nfs::snapshot::{ClientFact, ConnectionFact, SessionFact, Snapshot};
use serde_json::{Value, json};

/// What `status` shows.
pub fn status(snapshot: &Snapshot) -> Value {
    let client = |client: &ClientFact| {
        json!({
            "id": format!("{:016x}", client.id),
            "owner": client.owner,
            "implementation": client.implementation,
            "client": client.peer,
            "confirmed": client.is_confirmed,
            "expired": client.is_expired,
            "states": client.states,
            "sessions": client.sessions.iter().map(session).collect::<Vec<_>>(),
        })
    };
    json!({
        "compounds": snapshot.compounds,
        "operations": snapshot.operations,
        "replays": snapshot.replays,
        "clients": snapshot.clients.iter().map(client).collect::<Vec<_>>(),
    })
}

fn session(session: &SessionFact) -> Value {
    json!({
        "id": id_of(session),
        "slots": session.slots,
        "busy": session.busy,
        "calls": session.calls,
        "callbacks": session.has_callbacks,
        "connections": session.connections.len(),
        "under_tls": session.connections.iter().filter(|c| c.is_under_tls).count(),
    })
}

fn id_of(session: &SessionFact) -> String {
    session.id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What `channels` shows: every session with its connections.
pub fn channels(snapshot: &Snapshot, connections: &Connections) -> Value {
    let sessions = snapshot.clients.iter().flat_map(|client| {
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

fn connection(fact: &ConnectionFact, connections: &Connections) -> Value {
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
