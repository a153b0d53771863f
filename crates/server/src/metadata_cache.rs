//! The metadata caches of the shares: created with a share, inspected and switched at run time.

use crate::limits::KEPT_NODES_MAX;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};
use sync::Mutex;
use vfs::{Timestamp, Vfs};
pub use vfs_cache::CacheCount;
use vfs_cache::{CacheOptions, CachedVfs, Clock};

/// Default budget of a share's cache in bytes.
pub const BUDGET_BYTES: u64 = 128 << 20;
/// Maximum budget: the address range of one directory's index.
pub const BUDGET_BYTES_MAX: u64 = 4 << 30;

/// The caches of all shares by name.
#[derive(Debug)]
pub struct MetadataCaches {
    /// Nodes that each cache keeps open at most.
    open_nodes_max: usize,
    caches: Mutex<BTreeMap<String, ShareCache>>,
}

impl Default for MetadataCaches {
    fn default() -> Self {
        Self::new(KEPT_NODES_MAX)
    }
}

#[derive(Debug)]
struct ShareCache {
    cache: Weak<CachedVfs>,
    /// The configured budget: zero for off.
    budget_bytes: u64,
}

impl MetadataCaches {
    /// Creates an empty set whose caches keep at most `open_nodes_max` nodes open.
    #[must_use]
    pub fn new(open_nodes_max: usize) -> Self {
        Self { open_nodes_max, caches: Mutex::default() }
    }

    /// Creates a share's cache over `inner`. A budget of zero bytes disables it.
    pub fn over(&self, share: &str, inner: Arc<dyn Vfs>, budget_bytes: u64) -> Arc<CachedVfs> {
        let options =
            CacheOptions { open_nodes_max: self.open_nodes_max, ..CacheOptions::default() };
        let cache = Arc::new(CachedVfs::new(inner, options, clock()));
        apply(&cache, budget_bytes);
        let known = ShareCache { cache: Arc::downgrade(&cache), budget_bytes };
        let mut caches = self.caches.lock();
        caches.retain(|_, known| known.cache.strong_count() > 0);
        caches.insert(share.to_owned(), known);
        cache
    }

    /// Applies a new budget to a served share. A run-time switch lasts until the configuration
    /// changes.
    pub fn configure(&self, share: &str, budget_bytes: u64) {
        let mut caches = self.caches.lock();
        let Some(known) = caches.get_mut(share) else { return };
        if known.budget_bytes != budget_bytes
            && let Some(cache) = known.cache.upgrade()
        {
            known.budget_bytes = budget_bytes;
            apply(&cache, budget_bytes);
        }
    }

    /// All served shares with their caches.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Arc<CachedVfs>)> {
        let caches = self.caches.lock();
        let alive = |(share, known): (&String, &ShareCache)| {
            known.cache.upgrade().map(|cache| (share.clone(), cache))
        };
        caches.iter().filter_map(alive).collect()
    }

    /// Hit counters by share and kind.
    #[must_use]
    pub fn counts(&self) -> Vec<(String, &'static str, CacheCount)> {
        let of = |(share, cache): (String, Arc<CachedVfs>)| {
            cache.counts().into_iter().map(move |(kind, count)| (share.clone(), kind, count))
        };
        self.all().into_iter().flat_map(of).collect()
    }

    /// Call it about once a second, where it may block.
    pub fn tick(&self) {
        self.all().iter().for_each(|(_, cache)| cache.tick());
    }
}

/// The wall clock, which also stamps file changes.
fn clock() -> Clock {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    Clock(Arc::new(move || Timestamp(i128::try_from(now()).unwrap_or_default())))
}

fn apply(cache: &CachedVfs, budget_bytes: u64) {
    if budget_bytes > 0 {
        cache.set_budget(usize::try_from(budget_bytes).unwrap_or(usize::MAX));
    }
    cache.set_enabled(budget_bytes > 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};

    #[test]
    fn run_time_cache_switch_lasts_until_a_configuration_change() {
        let caches = MetadataCaches::default();
        let inner =
            Arc::new(MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default())));
        let served = caches.over("data", inner, BUDGET_BYTES);
        let (share, cache) = caches.all().remove(0);
        assert!(share == "data" && cache.is_enabled());
        cache.set_enabled(false);
        caches.configure("data", BUDGET_BYTES);
        assert!(!cache.is_enabled());
        caches.configure("data", 2 * BUDGET_BYTES);
        assert!(cache.is_enabled());
        caches.configure("data", 0);
        assert!(!cache.is_enabled());
        drop((served, cache));
        assert!(caches.all().is_empty(), "a share that is gone leaves none");
    }
}
