//! Resource limits of all clients and their use by address. No address can exhaust a resource,
//! however many clients it claims. IPv6 addresses count by /64.
//!
//! Each address may use as much as would remain free; see [`Ledger`].

use crate::limits::{
    CLIENTS_FLOOR, CLIENTS_MAX, COPIES_MAX, COPIES_PER_CLIENT_MAX, DELEGATIONS_FLOOR,
    DELEGATIONS_MAX, OWNER_BYTES_FLOOR, OWNER_BYTES_MAX, SESSIONS_FLOOR, SESSIONS_MAX, SLOTS_FLOOR,
    SLOTS_TOTAL_MAX, STATES_FLOOR,
};
use limits::{Ledger, ResourceUsage};
use std::sync::Arc;

/// Ledgers of all resources: see the module.
#[derive(Debug)]
pub struct NfsHoldings {
    /// Client records, confirmed or not.
    pub clients: Arc<Ledger>,
    /// Sessions.
    pub sessions: Arc<Ledger>,
    /// Slots beyond the first of each session: each may cache a reply.
    pub slots: Arc<Ledger>,
    /// Opens, locks and delegations.
    pub states: Arc<Ledger>,
    /// Bytes of open-owner and lock-owner strings.
    pub owner_bytes: Arc<Ledger>,
    /// Delegations, each with a file descriptor.
    pub delegations: Arc<Ledger>,
    /// Asynchronous copies.
    pub copies: Arc<Ledger>,
}

impl NfsHoldings {
    /// Empty ledgers, with a limit of `states_max` opens, locks and delegations.
    #[must_use]
    pub fn new(states_max: usize) -> Self {
        let of = |max: usize, floor: usize| Ledger::new(max as u64, floor as u64);
        Self {
            clients: of(CLIENTS_MAX, CLIENTS_FLOOR),
            sessions: of(SESSIONS_MAX, SESSIONS_FLOOR),
            slots: of(SLOTS_TOTAL_MAX, SLOTS_FLOOR),
            states: of(states_max, STATES_FLOOR),
            owner_bytes: of(OWNER_BYTES_MAX, OWNER_BYTES_FLOOR),
            delegations: of(DELEGATIONS_MAX, DELEGATIONS_FLOOR),
            copies: of(COPIES_MAX, COPIES_PER_CLIENT_MAX),
        }
    }

    /// Usage by kind, for metrics.
    #[must_use]
    pub fn usages(&self) -> [(&'static str, ResourceUsage); 7] {
        [
            ("nfs_clients", self.clients.usage()),
            ("nfs_sessions", self.sessions.usage()),
            ("nfs_slots", self.slots.usage()),
            ("nfs_states", self.states.usage()),
            ("nfs_owner_bytes", self.owner_bytes.usage()),
            ("nfs_delegations", self.delegations.usage()),
            ("nfs_copies", self.copies.usage()),
        ]
    }
}
