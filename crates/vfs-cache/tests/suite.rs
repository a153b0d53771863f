//! The suite of all backends, through the cache.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use vfs::Vfs;
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs_cache::{CacheOptions, CachedVfs};
use vfs_local::LocalVfs;

mod over_memory {
    use super::*;

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        let inner = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
        case(&CachedVfs::new(Arc::new(inner), CacheOptions::default()));
    }

    vfs::backend_suite!(fresh);
}

mod over_a_local_directory {
    use super::*;

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        let folder = tempfile::tempdir().unwrap();
        let inner = Arc::new(LocalVfs::open(folder.path()).unwrap());
        case(&CachedVfs::new(inner, CacheOptions::default()));
    }

    vfs::backend_suite!(fresh);
}

mod with_room_for_next_to_nothing {
    use super::*;

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        let folder = tempfile::tempdir().unwrap();
        let inner = Arc::new(LocalVfs::open(folder.path()).unwrap());
        let options = CacheOptions { budget_bytes: 600, directories_max: 2 };
        case(&CachedVfs::new(inner, options));
    }

    vfs::backend_suite!(fresh);
}
