//! State of clients: state ids, delegations, records for the grace period, resource ledgers.
//!
//! Imports `limits` and `status` alone. Every other room may import it.

pub mod client_record;
pub mod copies;
pub mod delegations;
pub mod grace;
pub mod held_state;
pub mod holdings;
pub mod keyed_mutex;
pub mod lock_waiters;
pub mod stateids;
