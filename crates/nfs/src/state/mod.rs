//! State of clients: state ids, copies, records for the grace period, resource ledgers.
//!
//! Imports `limits` alone. Every room may import it.

pub mod client_record;
pub mod copies;
pub mod grace;
pub mod holdings;
pub mod keyed_mutex;
pub mod principal;
pub mod stateids;
