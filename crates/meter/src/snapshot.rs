//! The counts of one moment as plain values: for the admin API, the dashboard and whoever
//! derives rates from two of them.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterSnapshot {
    /// Shares in the order of their names; requests that are about none under an empty name.
    pub shares: Vec<ShareSnapshot>,
    /// Files that were asked most in the last 30 to 60 seconds, estimated from a sample.
    pub top_files: Vec<TopEntry>,
    /// Clients that asked most, likewise.
    pub top_clients: Vec<TopEntry>,
    /// Slow requests that nobody could be told of.
    pub traces_dropped: u64,
}

/// One share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareSnapshot {
    /// Its name.
    pub share: String,
    /// What was asked for, as far as anything was.
    pub apis: Vec<ApiSnapshot>,
    /// Transactions in the busiest second of the last full minute.
    pub max_used_iops: u64,
    /// Bytes, both ways together, in the busiest second of the last full minute.
    pub max_used_bandwidth_bytes_per_second: u64,
}

/// One operation on one share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiSnapshot {
    /// `SMB` or `NFS`.
    pub protocol: String,
    /// The operation.
    pub api: String,
    /// By what its callers had shown who they are.
    pub authentication: String,
    /// `User`, or `System` for what the server begins.
    pub transaction_type: String,
    /// How often it ended how, by [`crate::ResponseType::name`].
    pub responses: BTreeMap<String, u64>,
    /// Bytes that came.
    pub ingress_bytes: u64,
    /// Bytes that left.
    pub egress_bytes: u64,
    /// From a request's being taken up to its answer's being ready, of those that succeeded.
    pub server_latency: Histogram,
    /// From a request's first byte to its answer's last, with the way back estimated; likewise.
    pub end_to_end_latency: Histogram,
    /// Of all, those that count for availability.
    pub applicable: u64,
    /// Of these, those that failed by the server's fault.
    pub unexpected_errors: u64,
}

impl ApiSnapshot {
    /// How often it ended.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.responses.values().sum()
    }
}

/// One of those that are asked most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopEntry {
    /// The share of a file; nothing for a client.
    pub share: String,
    /// A file's path, perhaps its end only; a client's address.
    pub name: String,
    /// Requests, estimated.
    pub requests: u64,
    /// Bytes, both ways together, estimated.
    pub bytes: u64,
}
