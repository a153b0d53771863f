//! Audit events, metrics of operations, and the snapshot of clients for administrators.
//!
//! The snapshot imports the server. Audit and metering import `clients` and `host` alone, so that the
//! server and every room above it may import them.

pub mod audit;
pub mod metering;
pub mod snapshot;
