//! Counters of the cache, by kind of entry.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one kind.
#[derive(Debug, Default)]
pub struct Counter {
    hits: AtomicU64,
    misses: AtomicU64,
    invalidations: AtomicU64,
    evictions: AtomicU64,
}

/// Counters of one kind at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCount {
    /// Answers from the cache.
    pub hits: u64,
    /// Answers that needed the backend, or a scan of a directory.
    pub misses: u64,
    /// Entries that became stale, or may have.
    pub invalidations: u64,
    /// Entries evicted for lack of room or use.
    pub evictions: u64,
    /// Bytes in use.
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

    pub fn read(&self, bytes: usize) -> CacheCount {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheCount {
            hits: read(&self.hits),
            misses: read(&self.misses),
            invalidations: read(&self.invalidations),
            evictions: read(&self.evictions),
            bytes: bytes as u64,
        }
    }
}

/// Counters of all kinds.
#[derive(Debug, Default)]
pub struct CacheCounters {
    /// Names by directory: a hit needs no scan.
    pub names: Counter,
    /// Opens: a hit needs no path walk.
    pub handles: Counter,
    /// Parts of listings: a hit needs no stat of the entries.
    pub listings: Counter,
    /// Descriptors and access lists: a hit needs no system call.
    pub security: Counter,
}
