//! What `status` and `channels` show: plain values, rendered elsewhere.

use crate::client::Client;
use crate::conn::ConnFacts;
use crate::server::Server;
use crate::session::Session;
use std::sync::atomic::Ordering;

/// The server at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Clients, in no order.
    pub clients: Vec<ClientFact>,
    /// COMPOUNDs that were answered.
    pub compounds: u64,
    /// Their operations.
    pub operations: u64,
    /// Of the COMPOUNDs, those that had been answered before.
    pub replays: u64,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientFact {
    /// Its number.
    pub id: u64,
    /// What it calls itself: not to be trusted.
    pub owner: String,
    /// Name and version of its program, if it tells them: not to be trusted either.
    pub implementation: String,
    /// The address that it introduced itself from.
    pub peer: String,
    /// It has shown that it gets our answers.
    pub is_confirmed: bool,
    /// It was not heard of for longer than its lease, and keeps what it has by courtesy.
    pub is_expired: bool,
    /// Its opens, locks and delegations.
    pub states: usize,
    /// Of these, the delegations.
    pub delegations: usize,
    /// Shares that it has reached since it came.
    pub exports: Vec<String>,
    /// Its sessions.
    pub sessions: Vec<SessionFact>,
}

/// One session.
#[derive(Clone, Debug)]
pub struct SessionFact {
    /// Its name.
    pub id: [u8; 16],
    /// Slots that it may use.
    pub slots: u32,
    /// Requests at work.
    pub busy: usize,
    /// Requests that were executed.
    pub calls: u64,
    /// Callbacks reach the client.
    pub has_callbacks: bool,
    /// Connections that it is bound to.
    pub connections: Vec<ConnectionFact>,
}

/// One connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionFact {
    /// Where it comes from.
    pub facts: ConnFacts,
    /// Its records come and go under TLS.
    pub is_under_tls: bool,
}

impl Server {
    /// What `status` shows.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let config = self.config();
        let (now, lease) = (self.host.now().instant, config.lease);
        let name = |id| Some(String::from_utf8_lossy(&config.export(id)?.name).into_owned());
        let fact = |client: &std::sync::Arc<Client>| {
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
        Snapshot {
            clients: self.clients().iter().map(fact).collect(),
            compounds: self.stats.compounds.load(Ordering::Relaxed),
            operations: self.stats.operations.load(Ordering::Relaxed),
            replays: self.stats.replays.load(Ordering::Relaxed),
        }
    }
}

fn session_fact(session: &Session) -> SessionFact {
    SessionFact {
        id: session.id.0,
        slots: session.highest_slots().0 + 1,
        busy: session.busy_count(),
        calls: session.call_count(),
        has_callbacks: session.back.is_up(),
        connections: session.connections(),
    }
}
