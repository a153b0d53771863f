//! Counters of the server since its start.

use std::sync::atomic::AtomicU64;

/// Counters since the start; readers take no lock.
#[derive(Debug, Default)]
pub struct SmbStats {
    /// Connections that the server closed for a protocol violation.
    pub protocol_violations: AtomicU64,
    /// Requests received.
    pub requests: AtomicU64,
    /// Failed logons.
    pub logons_failed: AtomicU64,
    /// Successful logons.
    pub logons: AtomicU64,
    /// Logon attempts that the throttle delayed.
    pub logons_delayed: AtomicU64,
    /// Logon attempts that were refused unverified, because too many waited.
    pub logons_refused_unchecked: AtomicU64,
    /// Channels that ended while their session kept another channel.
    pub channels_lost: AtomicU64,
}
