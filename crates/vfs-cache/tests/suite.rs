//! The backend suite through the cache.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock, Surroundings};
use vfs::{DelayedVfs, NameLookup, Timestamp, Vfs};
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

/// Names of the methods of a trait or an implementation that begins with `head` in `source`.
fn methods_of<'a>(source: &'a str, head: &str) -> Vec<&'a str> {
    let body = source.split_once(head).unwrap().1.split("\n}").next().unwrap();
    let methods = body.lines().filter_map(|line| line.strip_prefix("    fn "));
    let methods = methods.map(|line| line.split(['(', '<']).next().unwrap());
    let passed_on = body.split("pass_on!(").skip(1).map(|rest| rest.split(')').next().unwrap());
    let passed_on = passed_on.flat_map(|list| list.rsplit(": ").next().unwrap().split(','));
    methods.chain(passed_on.map(str::trim)).collect()
}

/// A provided method that the cache does not forward would hide the backend's own, and a capability
/// be absent.
#[test]
fn cache_forwards_every_call_to_the_backend() {
    let cache = include_str!("../src/tree.rs");
    let traits = [
        ("Vfs", include_str!("../../vfs/src/lib.rs")),
        ("PersistentHandles", include_str!("../../vfs/src/handle.rs")),
    ];
    for (name, source) in traits {
        let forwarded = methods_of(cache, &format!("\nimpl {name} for CachedVfs {{"));
        let methods = methods_of(source, &format!("\npub trait {name}:"));
        assert!(methods.len() > 4);
        for method in methods {
            assert!(forwarded.contains(&method), "{name}::{method}");
        }
    }
}

#[test]
fn cache_and_delay_pass_on_every_capability() {
    let folder = tempfile::tempdir().unwrap();
    let local: Arc<dyn Vfs> = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let delayed = Arc::new(DelayedVfs::new(local.clone(), Arc::new(|| {})));
    for inner in [local, delayed] {
        let cache = CachedVfs::new(inner.clone(), CacheOptions::default(), clock());
        for (layer, vfs) in [("backend", &*inner), ("cache", &cache)] {
            assert!(vfs.handles().is_some() && vfs.feeds().is_some(), "{layer}");
            assert!(vfs.quotas().is_some() && vfs.external_watches().is_some(), "{layer}");
        }
    }
}

mod over_memory {
    use super::*;

    fn names(case: &dyn Fn(NameLookup<'_>)) {
        let inner = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
        case(NameLookup::Cache(&CachedVfs::new(Arc::new(inner), CacheOptions::default(), still())));
    }

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        names(&|names| case(names.backend()));
    }

    vfs::backend_suite!(fresh);
    vfs::name_cache_suite!(names);
}

/// No handles, quotas, watches and feeds: each has its fallback.
mod over_memory_without_capabilities {
    use super::*;

    fn names(case: &dyn Fn(NameLookup<'_>)) {
        let options =
            MemoryOptions { has_handles: false, has_feeds: false, ..MemoryOptions::default() };
        let inner = MemoryVfs::new(options, Arc::new(StillClock::default()));
        let cache = CachedVfs::new(Arc::new(inner), CacheOptions::default(), still());
        assert!(cache.handles().is_none() && cache.feeds().is_none());
        assert!(cache.quotas().is_none() && cache.external_watches().is_none());
        case(NameLookup::Cache(&cache));
        assert!(cache.counts().iter().all(|(_, count)| count.bytes == 0), "nothing is cached");
    }

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        names(&|names| case(names.backend()));
    }

    vfs::backend_suite!(fresh);
    vfs::name_cache_suite!(names);
}

mod over_a_local_directory {
    use super::*;

    fn names(case: &dyn Fn(NameLookup<'_>)) {
        let folder = tempfile::tempdir().unwrap();
        let inner = Arc::new(LocalVfs::open(folder.path()).unwrap());
        case(NameLookup::Cache(&CachedVfs::new(inner, CacheOptions::default(), clock())));
    }

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        names(&|names| case(names.backend()));
    }

    vfs::backend_suite!(fresh);
    vfs::name_cache_suite!(names);
}

mod with_room_for_next_to_nothing {
    use super::*;

    fn names(case: &dyn Fn(NameLookup<'_>)) {
        let folder = tempfile::tempdir().unwrap();
        let inner = Arc::new(LocalVfs::open(folder.path()).unwrap());
        let options = CacheOptions { budget_bytes: 600, directories_max: 2, open_nodes_max: 4 };
        case(NameLookup::Cache(&CachedVfs::new(inner, options, clock())));
    }

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        names(&|names| case(names.backend()));
    }

    vfs::backend_suite!(fresh);
    vfs::name_cache_suite!(names);
}
