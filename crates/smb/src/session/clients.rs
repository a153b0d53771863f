//! Clients by ClientGuid: leases belong to a client, not to a session. MS-SMB2 3.3.1.11.

use crate::session::state::SmbSession;
use std::collections::HashMap;
use std::sync::Arc;
use sync::Mutex;
use wire::smb::SessionId;

/// The GUID of clients that sent none.
const NAMELESS: [u8; 16] = [0; 16];

/// The sessions of each client, in the order of their logons. A client of dialect 2.0.2 has neither
/// a GUID nor leases.
#[derive(Debug, Default)]
pub struct ClientSessions {
    by_guid: Mutex<HashMap<[u8; 16], Vec<Arc<SmbSession>>>>,
}

impl ClientSessions {
    /// Adds a session; false if it is refused. The client may not have a connected session of the
    /// same account in another dialect (MS-SMB2 3.3.5.5.3). One lock makes two simultaneous set-ups
    /// see each other.
    ///
    /// The section speaks of connections. Connections without a logon or of another account are
    /// ignored, because any client can claim any GUID. Guest and anonymous sessions are ignored,
    /// because their account does not identify the client. Sessions from before a reload that
    /// changed the dialects are ignored as well. `previous` is the session that the client reports
    /// as lost; its connection may be dead without the server's knowledge.
    pub fn try_add(&self, new: &Arc<SmbSession>, previous: SessionId) -> bool {
        let user = new.user();
        let is_known = new.client_guid != NAMELESS && user.is_proven();
        let mut by_guid = self.by_guid.lock();
        let sessions = by_guid.entry(new.client_guid).or_default();
        let speaks_otherwise = |other: &Arc<SmbSession>| {
            let theirs = other.user();
            other.dialect != new.dialect
                && other.id != previous
                && other.served == new.served
                && theirs.is_proven()
                && theirs.account.name == user.account.name
                && !other.has_ended()
                && !other.channels().is_empty()
        };
        if is_known && sessions.iter().any(speaks_otherwise) {
            return false;
        }
        sessions.push(new.clone());
        true
    }

    /// Removes a session.
    pub fn remove(&self, session: &SmbSession) {
        let mut by_guid = self.by_guid.lock();
        let Some(sessions) = by_guid.get_mut(&session.client_guid) else { return };
        sessions.retain(|other| other.id != session.id);
        if sessions.is_empty() {
            by_guid.remove(&session.client_guid);
        }
    }

    /// The session that delivers a client's notifications. It prefers a session of `user`, because
    /// any client can claim any GUID.
    pub fn session(&self, guid: [u8; 16], user: &str) -> Option<Arc<SmbSession>> {
        let by_guid = self.by_guid.lock();
        let sessions = by_guid.get(&guid)?;
        let mut live = sessions.iter().filter(|session| !session.has_ended());
        let concerned = live.clone().find(|session| session.user().account.name == user);
        concerned.or_else(|| live.next()).cloned()
    }
}
