//! The counters at one moment as plain values, for the admin API, the dashboard and clients that
//! derive rates from two of them.

use crate::histogram::HistogramSnapshot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterSnapshot {
    /// Shares by name; requests without a share have an empty name.
    pub shares: Vec<ShareSnapshot>,
    /// Files with the most requests in the last 30 to 60 seconds, estimated from a sample.
    pub top_files: Vec<TopEntry>,
    /// Clients with the most requests, likewise.
    pub top_clients: Vec<TopEntry>,
    /// Slow requests that could not be exported.
    pub traces_dropped: u64,
}

/// Counters of one share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareSnapshot {
    /// Name of the share.
    pub share: String,
    /// Operations with at least one request.
    pub apis: Vec<ApiSnapshot>,
    /// Transactions in the busiest second of the last full minute.
    pub max_used_iops: u64,
    /// Bytes in both directions in the busiest second of the last full minute.
    pub max_used_bandwidth_bytes_per_second: u64,
}

/// Counters of one operation on one share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiSnapshot {
    /// `SMB` or `NFS`.
    pub protocol: String,
    /// Name of the operation.
    pub api: String,
    /// Authentication of the callers.
    pub authentication: String,
    /// `User`, or `System` for requests that the server sends.
    pub transaction_type: String,
    /// Number of requests by outcome, see [`crate::ResponseType::name`].
    pub responses: BTreeMap<String, u64>,
    /// Bytes received.
    pub ingress_bytes: u64,
    /// Bytes sent.
    pub egress_bytes: u64,
    /// Time from receipt of a request until its reply is ready, of successful requests.
    pub server_latency: HistogramSnapshot,
    /// Time from the first byte of a request until the last byte of its reply arrives (estimated),
    /// likewise.
    pub end_to_end_latency: HistogramSnapshot,
    /// Requests that count for availability.
    pub applicable: u64,
    /// Applicable requests that failed by the server's fault.
    pub unexpected_errors: u64,
}

impl ApiSnapshot {
    /// Number of finished requests.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.responses.values().sum()
    }
}

/// One of the busiest files or clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopEntry {
    /// Share of a file; empty for a client.
    pub share: String,
    /// Path of a file, perhaps its end only; address of a client.
    pub name: String,
    /// Estimated number of requests.
    pub requests: u64,
    /// Estimated bytes in both directions.
    pub bytes: u64,
}
