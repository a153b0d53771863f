//! What users have of what all of them share: sessions, tree connects, opens that outlive their
//! connection, memory of pipes. Opens themselves are counted by `files`, for all protocols.

use crate::limits::{
    DETACHED_MAX, PERSISTENT_BYTES_MAX, PERSISTENT_OPENS_MAX, PERSISTENT_RECORD_BYTES_MAX,
    PIPE_BYTES_FLOOR, PIPE_BYTES_MAX, SESSIONS_MAX, SHARED_FLOOR, TREES_MAX,
};
use crate::session::SessionUser;
use limits::{Holder, Ledger, Share};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// The resources of the SMB server.
#[derive(Debug)]
pub struct Holdings {
    /// Sessions.
    pub sessions: Arc<Ledger>,
    /// Tree connects.
    pub trees: Arc<Ledger>,
    /// Opens that may outlive their connection.
    pub durable: Arc<Ledger>,
    /// Opens that may outlive the server.
    pub persistent: Arc<Ledger>,
    /// Bytes that open pipes hold: unread answers above all.
    pub pipe_bytes: Arc<Ledger>,
    /// Bytes of what is written down of these.
    pub persistent_bytes: Arc<Ledger>,
}

impl Default for Holdings {
    fn default() -> Self {
        let of = |max: usize| Ledger::new(max as u64, SHARED_FLOOR);
        Self {
            sessions: of(SESSIONS_MAX),
            trees: of(TREES_MAX),
            durable: of(DETACHED_MAX),
            persistent: of(PERSISTENT_OPENS_MAX),
            pipe_bytes: Ledger::new(PIPE_BYTES_MAX, PIPE_BYTES_FLOOR),
            persistent_bytes: Ledger::new(PERSISTENT_BYTES_MAX, PERSISTENT_RECORD_BYTES_MAX as u64),
        }
    }
}

/// What one open is charged for, as long as anything of it is there.
#[derive(Debug, Default)]
pub struct Charges {
    /// The open itself.
    pub open: Option<Share>,
    /// That it may outlive its connection.
    pub durable: OnceLock<Share>,
}

impl SessionUser {
    /// Whom the session's use of shared resources is charged to: the account, or where nobody has
    /// proven anything the address, since everybody may have as many such sessions as they like.
    #[must_use]
    pub fn holder(&self, peer: IpAddr) -> Holder {
        if self.is_proven() {
            Holder::User(self.account.name.as_str().into())
        } else {
            Holder::site(peer)
        }
    }
}
