//! The backend suite through the cache.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock, Surroundings};
use vfs::{Timestamp, Vfs};
use vfs_cache::{CacheOptions, CachedVfs, Clock};
use vfs_local::LocalVfs;

fn clock() -> Clock {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    Clock(Arc::new(move || Timestamp(now() as i128)))
}

/// With a stopped clock no file is old enough to be cached.
fn still() -> Clock {
    let still = StillClock::default();
    Clock(Arc::new(move || still.now()))
}

mod over_memory {
    use super::*;

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        let inner = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
        case(&CachedVfs::new(Arc::new(inner), CacheOptions::default(), still()));
    }

    vfs::backend_suite!(fresh);
}

mod over_a_local_directory {
    use super::*;

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        let folder = tempfile::tempdir().unwrap();
        let inner = Arc::new(LocalVfs::open(folder.path()).unwrap());
        case(&CachedVfs::new(inner, CacheOptions::default(), clock()));
    }

    vfs::backend_suite!(fresh);
}

mod with_room_for_next_to_nothing {
    use super::*;

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        let folder = tempfile::tempdir().unwrap();
        let inner = Arc::new(LocalVfs::open(folder.path()).unwrap());
        let options = CacheOptions { budget_bytes: 600, directories_max: 2, open_nodes_max: 4 };
        case(&CachedVfs::new(inner, options, clock()));
    }

    vfs::backend_suite!(fresh);
}

/// A provided trait method that the cache does not forward would hide the backend's own.
#[test]
fn delayed_backend_forwards_every_call() {
    let (backend, cache) = (include_str!("../../vfs/src/lib.rs"), include_str!("../src/tree.rs"));
    let backend = backend.split("pub trait Vfs").nth(1).unwrap().split("\n}").next().unwrap();
    let cache = cache.split("impl Vfs for CachedVfs").nth(1).unwrap();
    let calls = backend.lines().filter_map(|line| line.strip_prefix("    fn "));
    let mut count = 0;
    for call in calls.map(|line| line.split('(').next().unwrap()) {
        assert!(cache.contains(&format!("\n    fn {call}(")), "{call}");
        count += 1;
    }
    assert!(count > 20);
}
