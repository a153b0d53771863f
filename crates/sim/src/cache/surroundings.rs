//! Time, and the delivery of change events.

use super::CacheFault;
use crate::random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use sync::Mutex;
use vfs::Timestamp;
use vfs::memory::{FeedDelivery, FeedEvent, Surroundings};
use vfs_cache::Clock;

/// Tick of the tree's clock, as on Linux with 250 Hz.
const STEP_NANOS: u64 = 4_000_000;
/// A time in 2025.
const BEGIN_NANOS: u64 = 1_750_000_000_000_000_000;
/// Probabilities that an event overflows the queue, in 1/1000, of which a run draws one.
const OVERFLOWS: [u64; 4] = [0, 0, 10, 100];
/// Percentage of events of the fault's kind that are dropped.
const SWALLOWED_PERCENT: u32 = 50;

/// Environment of both trees.
pub struct CacheEnvironment {
    nanos: AtomicU64,
    random: Mutex<Random>,
    fault: Option<CacheFault>,
    overflows: u64,
}

impl CacheEnvironment {
    pub fn new(mut random: Random, fault: Option<CacheFault>) -> Arc<Self> {
        let overflows = random.pick(&OVERFLOWS);
        let (nanos, random) = (AtomicU64::new(0), Mutex::new(random));
        Arc::new(Self { nanos, random, fault, overflows })
    }

    /// Advances time.
    pub fn advance(&self, nanos: u64) {
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The cache's clock.
    pub fn clock(self: &Arc<Self>) -> Clock {
        let around = self.clone();
        Clock(Arc::new(move || {
            let nanos = BEGIN_NANOS + around.nanos.load(Ordering::Relaxed);
            Timestamp(nanos.into())
        }))
    }
}

impl Surroundings for CacheEnvironment {
    fn now(&self) -> Timestamp {
        let nanos = self.nanos.load(Ordering::Relaxed);
        Timestamp((BEGIN_NANOS + nanos / STEP_NANOS * STEP_NANOS).into())
    }

    fn delivery(&self, event: FeedEvent) -> FeedDelivery {
        let is_of_fault = match self.fault {
            Some(CacheFault::Added) => event == FeedEvent::Added,
            Some(CacheFault::Attributes) => event == FeedEvent::Attributes,
            Some(CacheFault::Removed) => event == FeedEvent::Removed,
            Some(CacheFault::Listing) => event == FeedEvent::Listing,
            Some(CacheFault::Unfollowed) => event == FeedEvent::Followed,
            None => false,
        };
        let mut random = self.random.lock();
        if is_of_fault && random.percent(SWALLOWED_PERCENT) {
            FeedDelivery::Dropped
        } else if event != FeedEvent::Followed && random.next() % 1000 < self.overflows {
            FeedDelivery::Overflows
        } else {
            FeedDelivery::Delivered
        }
    }
}
