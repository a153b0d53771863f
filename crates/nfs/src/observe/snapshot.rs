//! Snapshot for `status` and `channels`: plain values, rendered elsewhere.

use crate::clients::client::ClientIncarnation;
pub use crate::clients::link::ConnectionFact;
use crate::clients::session::NfsSession;
use crate::server::NfsServer;
use std::sync::atomic::Ordering;

/// State of the server at one moment.
#[derive(Clone, Debug, Default)]
pub struct NfsSnapshot {
    /// Clients, unordered.
    pub clients: Vec<ClientFact>,
    /// COMPOUNDs so far.
    pub compounds: u64,
    /// Operations so far.
    pub operations: u64,
    /// COMPOUNDs that were retransmissions.
    pub replays: u64,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientFact {
    /// Client id.
    pub id: u64,
    /// Owner string of the client: untrusted.
    pub owner: String,
    /// Name and version of the implementation, if the client reports them: untrusted.
    pub implementation: String,
    /// Address of its EXCHANGE_ID.
    pub peer: String,
    /// The client is confirmed.
    pub is_confirmed: bool,
    /// The lease has expired: a courtesy client.
    pub is_expired: bool,
    /// Number of its opens, locks and delegations.
    pub states: usize,
    /// Number of its delegations.
    pub delegations: usize,
    /// Shares that it has accessed.
    pub exports: Vec<String>,
    /// Its sessions.
    pub sessions: Vec<NfsSessionFact>,
}

/// One session.
#[derive(Clone, Debug)]
pub struct NfsSessionFact {
    /// Session id.
    pub id: [u8; 16],
    /// Slots that the client may use.
    pub slots: u32,
    /// Executing requests.
    pub busy: usize,
    /// Executed requests.
    pub calls: u64,
    /// The backchannel works.
    pub has_callbacks: bool,
    /// Bound connections.
    pub connections: Vec<ConnectionFact>,
}

impl NfsServer {
    /// Takes a snapshot.
    #[must_use]
    pub fn snapshot(&self) -> NfsSnapshot {
        let config = self.config();
        let (now, lease) = (self.host.now().instant, config.lease);
        let name = |id| Some(String::from_utf8_lossy(&config.export(id)?.name).into_owned());
        let fact = |client: &std::sync::Arc<ClientIncarnation>| {
            let facts = client.facts();
            ClientFact {
                id: client.id.0,
                owner: facts.owner,
                implementation: facts.implementation,
                peer: facts.peer,
                is_confirmed: client.is_confirmed(),
                is_expired: client.is_expired(now, lease),
                states: client.state_count(),
                exports: client.exports().into_iter().filter_map(name).collect(),
                delegations: client.with_states(|states| states.delegation_count()),
                sessions: client.sessions().iter().map(|session| session_fact(session)).collect(),
            }
        };
        NfsSnapshot {
            clients: self.clients().iter().map(fact).collect(),
            compounds: self.stats.compounds.load(Ordering::Relaxed),
            operations: self.stats.operations.load(Ordering::Relaxed),
            replays: self.stats.replays.load(Ordering::Relaxed),
        }
    }
}

fn session_fact(session: &NfsSession) -> NfsSessionFact {
    NfsSessionFact {
        id: session.id.0,
        slots: session.highest_slots().0 + 1,
        busy: session.busy_count(),
        calls: session.call_count(),
        has_callbacks: session.back.is_up(),
        connections: session.connections(),
    }
}
