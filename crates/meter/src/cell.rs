//! Counters of one operation on one share, and the facts of a finished request that feed them.

use crate::api::Api;
use crate::histogram::Latencies;
use crate::response::{Authentication, ResponseType};
use crate::share::ShareId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Arrival times and size of a message.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Time of its first byte.
    pub first_byte: Instant,
    /// Time when it was complete and taken from the buffer.
    pub taken: Instant,
    /// Size on the wire including the framing.
    pub wire_bytes: u64,
}

impl Arrival {
    /// A message that arrived at one moment.
    #[must_use]
    pub fn at_once(now: Instant, wire_bytes: u64) -> Self {
        Self { first_byte: now, taken: now, wire_bytes }
    }
}

/// A finished request.
#[derive(Clone, Copy, Debug)]
pub struct CompletedRequest {
    /// Share, if any.
    pub share: ShareId,
    /// Operation.
    pub api: Api,
    /// Authentication of the caller.
    pub authentication: Authentication,
    /// Outcome.
    pub response: ResponseType,
    /// Bytes of the request.
    pub ingress_bytes: u64,
    /// Bytes of the reply.
    pub egress_bytes: u64,
    /// Time from receipt until the reply was ready.
    pub latency: Duration,
}

/// A request with a queued reply; it is counted again once the reply was sent.
#[derive(Clone, Copy, Debug)]
pub struct SentReply {
    /// See [`CompletedRequest::share`].
    pub share: ShareId,
    /// See [`CompletedRequest::api`].
    pub api: Api,
    /// See [`CompletedRequest::authentication`].
    pub authentication: Authentication,
    /// Time of the request's first byte.
    pub first_byte: Instant,
}

impl CompletedRequest {
    /// The facts to count once the reply was sent. `None` for failures, whose latencies are
    /// meaningless.
    #[must_use]
    pub fn sent(&self, first_byte: Instant) -> Option<SentReply> {
        let Self { share, api, authentication, .. } = *self;
        self.response.is_success().then_some(SentReply { share, api, authentication, first_byte })
    }
}

/// Counters of one operation on one share, for the threads of one stripe.
#[derive(Debug, Default)]
pub(crate) struct OperationCell {
    responses: [AtomicU64; RESPONSES],
    ingress_bytes: AtomicU64,
    egress_bytes: AtomicU64,
    pub server: Latencies,
    pub end_to_end: Latencies,
}

pub(crate) const RESPONSES: usize = ResponseType::ALL.len();

/// Sums of an [`OperationCell`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CellCounts {
    pub responses: [u64; RESPONSES],
    pub ingress_bytes: u64,
    pub egress_bytes: u64,
}

impl OperationCell {
    pub fn record(&self, done: &CompletedRequest) {
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
