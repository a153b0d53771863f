//! Observation: audit events, failure reports, counters, the snapshot for `status`.
//!
//! Decides nothing. `audit`, `snapshot` and `stats` stand below the server; `metering` and
//! `failure_report` also know requests. Imports no handler and no connection.

pub mod audit;
pub mod failure_report;
pub mod metering;
pub mod snapshot;
pub mod stats;
