//! The caches of what shares hold: made with a share, looked at and switched
//! while it is served.

use crate::limits::KEPT_NODES_MAX;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::{Timestamp, Vfs};
pub use vfs_cache::Count;
use vfs_cache::{CacheOptions, CachedVfs, Clock};

/// Bytes that the cache of a share may take if nothing is said.
pub const BUDGET_BYTES: u64 = 128 << 20;
/// The largest budget: what the index of one directory can address.
pub const BUDGET_BYTES_MAX: u64 = 4 << 30;

/// The caches of all shares, by the shares' names.
#[derive(Debug)]
pub struct MetadataCaches {
    /// Nodes that each keeps open at most.
    kept_max: usize,
    caches: Mutex<BTreeMap<String, Known>>,
}

impl Default for MetadataCaches {
    fn default() -> Self {
        Self::new(KEPT_NODES_MAX)
    }
}

#[derive(Debug)]
struct Known {
    cache: Weak<CachedVfs>,
    /// As it was configured: zero for off.
    budget_bytes: u64,
}

impl MetadataCaches {
    /// None yet; each will keep `kept_max` nodes open at most.
    #[must_use]
    pub fn new(kept_max: usize) -> Self {
        Self { kept_max, caches: Mutex::default() }
    }

    /// A cache for a share over `inner`. A budget of zero bytes is off.
    pub fn over(&self, share: &str, inner: Arc<dyn Vfs>, budget_bytes: u64) -> Arc<dyn Vfs> {
        let options = CacheOptions { kept_max: self.kept_max, ..CacheOptions::default() };
        let cache = Arc::new(CachedVfs::new(inner, options, clock()));
        apply(&cache, budget_bytes);
        let known = Known { cache: Arc::downgrade(&cache), budget_bytes };
        let mut caches = self.lock();
        caches.retain(|_, known| known.cache.strong_count() > 0);
        caches.insert(share.to_owned(), known);
        cache
    }

    /// A share that is served already has this budget now. What was switched while
    /// running stays, unless the configuration has changed.
    pub fn configure(&self, share: &str, budget_bytes: u64) {
        let mut caches = self.lock();
        let Some(known) = caches.get_mut(share) else { return };
        if known.budget_bytes != budget_bytes
            && let Some(cache) = known.cache.upgrade()
        {
            known.budget_bytes = budget_bytes;
            apply(&cache, budget_bytes);
        }
    }

    /// Every share that is served, with its cache.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Arc<CachedVfs>)> {
        let caches = self.lock();
        let alive = |(share, known): (&String, &Known)| {
            known.cache.upgrade().map(|cache| (share.clone(), cache))
        };
        caches.iter().filter_map(alive).collect()
    }

    /// What each was good for, by share and kind.
    #[must_use]
    pub fn counts(&self) -> Vec<(String, &'static str, Count)> {
        let of = |(share, cache): (String, Arc<CachedVfs>)| {
            cache.counts().into_iter().map(move |(kind, count)| (share.clone(), kind, count))
        };
        self.all().into_iter().flat_map(of).collect()
    }

    /// To be called about once a second, where it may take a while.
    pub fn tick(&self) {
        self.all().iter().for_each(|(_, cache)| cache.tick());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The machine's clock, by which files are changed, too.
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
    use vfs_local::LocalVfs;

    #[test]
    fn what_was_switched_while_running_stays_until_the_configuration_changes() {
        let folder = tempfile::tempdir().unwrap();
        let caches = MetadataCaches::default();
        let inner = Arc::new(LocalVfs::open(folder.path()).unwrap());
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
