//! What is counted of one operation on one share, and the record of a request that it is
//! counted from.

use crate::api::Api;
use crate::histogram::Latencies;
use crate::registry::ShareId;
use crate::response::{Authentication, ResponseType};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When and how a message came.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its first byte was there.
    pub first_byte: Instant,
    /// It was complete, and taken up.
    pub taken: Instant,
    /// Bytes that it had on the wire, with what marks it there.
    pub wire_bytes: u64,
}

impl Arrival {
    /// One that was there at once.
    #[must_use]
    pub fn at_once(now: Instant, wire_bytes: u64) -> Self {
        Self { first_byte: now, taken: now, wire_bytes }
    }
}

/// A request that came to its end.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The share that it was about, if one.
    pub share: ShareId,
    /// What was asked.
    pub api: Api,
    /// By whom.
    pub authentication: Authentication,
    /// How it ended.
    pub response: ResponseType,
    /// Bytes that came with it.
    pub ingress_bytes: u64,
    /// Bytes that answered it.
    pub egress_bytes: u64,
    /// From its being taken up to its answer's being ready.
    pub latency: Duration,
}

/// A request whose answer is on its way: counted again once that has left.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// See [`Done::share`].
    pub share: ShareId,
    /// See [`Done::api`].
    pub api: Api,
    /// See [`Done::authentication`].
    pub authentication: Authentication,
    /// When its first byte was there.
    pub first_byte: Instant,
}

impl Done {
    /// To be counted once its answer has left; none for failures, whose latencies say nothing.
    #[must_use]
    pub fn sent(&self, first_byte: Instant) -> Option<Sent> {
        let Self { share, api, authentication, .. } = *self;
        self.response.is_success().then_some(Sent { share, api, authentication, first_byte })
    }
}

/// Counters of one operation on one share, of the threads of one stripe.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    responses: [AtomicU64; RESPONSES],
    ingress_bytes: AtomicU64,
    egress_bytes: AtomicU64,
    pub server: Latencies,
    pub end_to_end: Latencies,
}

pub(crate) const RESPONSES: usize = ResponseType::ALL.len();

/// Sums of a [`Cell`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CellCounts {
    pub responses: [u64; RESPONSES],
    pub ingress_bytes: u64,
    pub egress_bytes: u64,
}

impl Cell {
    pub fn record(&self, done: &Done) {
        self.responses[done.response as usize].fetch_add(1, Ordering::Relaxed);
        self.add_bytes(done.ingress_bytes, done.egress_bytes);
        if done.response.is_success() {
            self.server.record(done.latency);
        }
    }

    pub fn add_bytes(&self, ingress: u64, egress: u64) {
        self.ingress_bytes.fetch_add(ingress, Ordering::Relaxed);
        self.egress_bytes.fetch_add(egress, Ordering::Relaxed);
    }

    pub fn add_to(&self, counts: &mut CellCounts) {
        for (sum, count) in counts.responses.iter_mut().zip(&self.responses) {
            *sum += count.load(Ordering::Relaxed);
        }
        counts.ingress_bytes += self.ingress_bytes.load(Ordering::Relaxed);
        counts.egress_bytes += self.egress_bytes.load(Ordering::Relaxed);
    }
}
