//! What the cache was good for, by kind of what is kept.

use std::sync::atomic::{AtomicU64, Ordering};

/// One kind's counters.
#[derive(Debug, Default)]
pub struct Counter {
    hits: AtomicU64,
    misses: AtomicU64,
    invalidations: AtomicU64,
    evictions: AtomicU64,
}

/// One kind's counters at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Answers from what was kept.
    pub hits: u64,
    /// Answers that the backend had to give, or a scan of a directory.
    pub misses: u64,
    /// What was kept and is not true any more, or may not be.
    pub invalidations: u64,
    /// What was given up for want of room, or of use.
    pub evictions: u64,
    /// Bytes that are taken now.
    pub bytes: u64,
}

impl Counter {
    pub fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    pub fn missed(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    pub fn invalidated(&self) {
        self.invalidations.fetch_add(1, Ordering::Relaxed);
    }

    pub fn evicted(&self) {
        self.evictions.fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self, bytes: usize) -> Count {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Count {
            hits: read(&self.hits),
            misses: read(&self.misses),
            invalidations: read(&self.invalidations),
            evictions: read(&self.evictions),
            bytes: bytes as u64,
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Counters {
    /// Names by their directory: a hit is an answer without a scan.
    pub names: Counter,
    /// Opens: a hit is one without a walk along the path.
    pub handles: Counter,
    /// Parts of listings: a hit is one without a look at what is in it.
    pub listings: Counter,
    /// Descriptors and lists: a hit is one that was asked for before.
    pub security: Counter,
}
