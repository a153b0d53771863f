//! Clients by what they call themselves: leases are a client's, not a session's.
//! MS-SMB2 3.3.1.11.

use crate::session::Session;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sessions of each client, in the order of their logons. A client of
/// dialect 2.0.2 has no name, and no leases.
#[derive(Debug, Default)]
pub struct Clients {
    by_guid: Mutex<HashMap<[u8; 16], Vec<Arc<Session>>>>,
}

impl Clients {
    /// Enters a session.
    pub fn add(&self, session: &Arc<Session>) {
        self.lock().entry(session.client_guid).or_default().push(session.clone());
    }

    /// Whether the client has another session of the same account, with a connection, in another
    /// dialect. MS-SMB2 3.3.5.5.3 looks at connections; those that nobody has logged on by, or
    /// others have, are passed over: anybody can call himself anything.
    pub fn speaks_otherwise(&self, new: &Session) -> bool {
        const NAMELESS: [u8; 16] = [0; 16];
        if new.client_guid == NAMELESS {
            return false;
        }
        let user = new.user();
        let by_guid = self.lock();
        let mut others = by_guid.get(&new.client_guid).into_iter().flatten();
        others.any(|other| {
            other.dialect != new.dialect
                && !other.has_ended()
                && !other.channels().is_empty()
                && other.user().account.name == user.account.name
        })
    }

    /// Takes a session out.
    pub fn remove(&self, session: &Session) {
        let mut by_guid = self.lock();
        let Some(sessions) = by_guid.get_mut(&session.client_guid) else { return };
        sessions.retain(|other| other.id != session.id);
        if sessions.is_empty() {
            by_guid.remove(&session.client_guid);
        }
    }

    /// The session by which a client is told something: one of the user whom
    /// it concerns if there is any, for anybody can call himself anything.
    pub fn session(&self, guid: [u8; 16], user: &str) -> Option<Arc<Session>> {
        let by_guid = self.lock();
        let sessions = by_guid.get(&guid)?;
        let mut live = sessions.iter().filter(|session| !session.has_ended());
        let concerned = live.clone().find(|session| session.user().account.name == user);
        concerned.or_else(|| live.next()).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 16], Vec<Arc<Session>>>> {
        self.by_guid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
