//! A bounded queue of slow requests for the trace exporter.

use crate::api::Api;
use crate::response::ResponseType;
use crate::share::ShareId;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use sync::Mutex;

/// Maximum queue length; further requests are only counted.
pub const SLOW_MAX: usize = 1024;
/// A threshold that no latency reaches.
const OFF: u64 = u64::MAX;

/// A slow request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// Number of the connection.
    pub connection: u64,
    /// Number of the request on it.
    pub message: u64,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Share, if any.
    pub share: ShareId,
    /// Operation.
    pub api: Api,
    /// Outcome.
    pub response: ResponseType,
    /// Time when the reply was ready, in nanoseconds since 1970.
    pub ended_unix_nanoseconds: u64,
    /// Latency.
    pub latency: Duration,
    /// Bytes of the request.
    pub ingress_bytes: u64,
    /// Bytes of the reply.
    pub egress_bytes: u64,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Slow {
    threshold_nanoseconds: AtomicU64,
    recent: Mutex<VecDeque<SlowRequest>>,
    dropped: AtomicU64,
}

impl Default for Slow {
    fn default() -> Self {
        let threshold_nanoseconds = AtomicU64::new(OFF);
        Self { threshold_nanoseconds, recent: Mutex::default(), dropped: AtomicU64::new(0) }
    }
}

impl Slow {
    /// Sets the latency from which requests are queued; `None` disables the queue.
    pub fn set_threshold(&self, threshold: Option<Duration>) {
        let nanoseconds = threshold
            .map_or(OFF, |threshold| u64::try_from(threshold.as_nanos()).unwrap_or(OFF).max(1));
        self.threshold_nanoseconds.store(nanoseconds, Ordering::Relaxed);
        if threshold.is_none() {
            self.recent.lock().clear();
        }
    }

    /// Costs one atomic load for a quick request.
    pub fn is_slow(&self, latency: Duration) -> bool {
        let threshold = self.threshold_nanoseconds.load(Ordering::Relaxed);
        threshold != OFF && latency.as_nanos() >= u128::from(threshold)
    }

    pub fn keep(&self, request: SlowRequest) {
        let mut kept = self.recent.lock();
        if kept.len() < SLOW_MAX {
            kept.push_back(request);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn take(&self) -> Vec<SlowRequest> {
        std::mem::take(&mut *self.recent.lock()).into()
    }

    pub fn count_dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(message: u64) -> SlowRequest {
        SlowRequest {
            connection: 1,
            message,
            peer: "127.0.0.1:9".parse().unwrap(),
            share: ShareId::NONE,
            api: Api::smb(8),
            response: ResponseType::Success,
            ended_unix_nanoseconds: 0,
            latency: Duration::from_secs(1),
            ingress_bytes: 0,
            egress_bytes: 0,
        }
    }

    #[test]
    fn no_request_is_slow_without_a_threshold() {
        let slow = Slow::default();
        assert!(!slow.is_slow(Duration::MAX));
        slow.set_threshold(Some(Duration::from_millis(5)));
        assert!(slow.is_slow(Duration::from_millis(5)) && !slow.is_slow(Duration::from_micros(4)));
        slow.set_threshold(None);
        assert!(!slow.is_slow(Duration::from_secs(9)));
    }

    #[test]
    fn slow_request_beyond_the_queue_is_only_counted() {
        let slow = Slow::default();
        (0..=SLOW_MAX as u64).for_each(|message| slow.keep(request(message)));
        assert_eq!((slow.take().len(), slow.dropped()), (SLOW_MAX, 1));
        assert!(slow.take().is_empty());
    }
}
