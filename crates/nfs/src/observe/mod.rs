//! Audit events, metrics of operations, and the snapshot of clients for administrators.
//!
//! The snapshot imports the server; the other files import no state, so that `request` and the
//! server may import them.

pub mod audit;
pub mod metering;
pub mod snapshot;
