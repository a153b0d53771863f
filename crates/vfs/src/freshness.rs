//! Freshness of a cache that a change feed keeps valid.
//!
//! A request must see the changes made before it arrived, but not those made while it runs. So each
//! request has an arrival number ([`ArrivalOrder`]). A cache behind a [`crate::ChangeFeed`] records
//! the arrival up to which it has drained the feed ([`FeedFreshness`]). The cache need not drain
//! again for the same request, nor for one that had already arrived. It drains again after this
//! process has changed something, because opens, renames and removals rely on seeing the effects of
//! earlier ones. Work of no request drains each time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Arrivals so far: requests, and lookups of no request.
static ARRIVALS: AtomicU64 = AtomicU64::new(0);

/// Changes that this process has made to what feeds report.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Position of a request in the order of arrival in this process. Requests that were received
/// together may share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArrivalOrder(u64);

impl ArrivalOrder {
    /// The next position. Every change so far counts as earlier.
    #[must_use]
    pub fn next() -> Self {
        Self(ARRIVALS.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// The number, for use outside this process's types; see [`ArrivalOrder::of_number`].
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The position with this number.
    #[must_use]
    pub fn of_number(number: u64) -> Self {
        Self(number)
    }
}

/// How far a cache has drained its feed. The caller holds the lock of the cache, so one thread at a
/// time calls these methods.
#[derive(Debug, Default)]
pub struct FeedFreshness {
    /// The latest arrival at the last drain.
    heard: AtomicU64,
    /// Number of own changes at the last drain.
    changes: AtomicU64,
}

impl FeedFreshness {
    /// Whether the cache has drained all that a request of this arrival must see.
    #[must_use]
    pub fn is_fresh_for(&self, order: ArrivalOrder) -> bool {
        self.heard.load(Ordering::Relaxed) >= order.0
            && self.changes.load(Ordering::Relaxed) == CHANGES.load(Ordering::SeqCst)
    }

    /// Drains the feed by `drain`.
    pub fn refresh(&self, drain: impl FnOnce()) {
        // Read first: the drain may miss a change that is made meanwhile.
        let heard = ARRIVALS.load(Ordering::SeqCst);
        let changes = CHANGES.load(Ordering::SeqCst);
        drain();
        self.heard.store(heard, Ordering::Relaxed);
        self.changes.store(changes, Ordering::Relaxed);
    }
}

/// Guard of a change in progress; its drop counts the change, whatever the outcome.
#[derive(Debug)]
#[must_use]
pub struct ChangeGuard(());

/// Announces that this process changes something that feeds report.
pub fn begin_change() -> ChangeGuard {
    ChangeGuard(())
}

impl Drop for ChangeGuard {
    fn drop(&mut self) {
        CHANGES.fetch_add(1, Ordering::SeqCst);
    }
}
