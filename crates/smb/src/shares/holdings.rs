//! Shared resources by user: sessions, tree connects, durable opens and pipe memory. The crate
//! `files` counts opens, for all protocols.

use crate::limits::{
    DETACHED_MAX, PERSISTENT_BYTES_MAX, PERSISTENT_OPENS_MAX, PERSISTENT_RECORD_BYTES_MAX,
    PIPE_BYTES_FLOOR, PIPE_BYTES_MAX, SESSIONS_MAX, SHARED_FLOOR, TREES_MAX,
};
use limits::{Ledger, ResourceCharge};
use std::sync::{Arc, OnceLock};

/// The resources of the SMB server.
#[derive(Debug)]
pub struct SmbHoldings {
    /// Sessions.
    pub sessions: Arc<Ledger>,
    /// Tree connects.
    pub trees: Arc<Ledger>,
    /// Opens that may outlive their connection.
    pub durable: Arc<Ledger>,
    /// Opens that may outlive the server.
    pub persistent: Arc<Ledger>,
    /// Bytes that open pipes hold, mostly unread responses.
    pub pipe_bytes: Arc<Ledger>,
    /// Bytes of persistent records.
    pub persistent_bytes: Arc<Ledger>,
}

impl Default for SmbHoldings {
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

/// The charges of one open, held while any part of it exists.
#[derive(Debug, Default)]
pub struct Charges {
    /// The open itself.
    pub open: Option<ResourceCharge>,
    /// Its entry among the durable opens.
    pub durable: OnceLock<ResourceCharge>,
}
