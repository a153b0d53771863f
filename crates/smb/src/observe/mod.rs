//! Observation: audit events, failure reports, counters, the snapshot for `status`.
//!
//! Decides nothing.

pub mod audit;
pub mod failure_report;
pub mod metering;
pub mod snapshot;
pub mod stats;
