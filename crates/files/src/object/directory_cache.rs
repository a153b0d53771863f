//! Cache of directories that were found by handle. Most operations concern few directories, and
//! finding one may wait for a disk. Each entry holds a descriptor; that of an unlinked directory,
//! unlike a file's, occupies no space.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use sync::Mutex;
use vfs::{KeyedBuildHasher, Node, NodeHandle, Vfs};

/// Maximum of cached directories, and of their descriptors.
const DIRECTORIES_MAX: usize = 4096;

/// A directory with its backend.
#[derive(Debug)]
struct CachedDirectory {
    vfs: Weak<dyn Vfs>,
    node: Arc<dyn Node>,
}

/// The most recent directories of all volumes.
#[derive(Debug, Default)]
pub(crate) struct DirectoryCache(Mutex<DirectoryCacheState>);

#[derive(Debug, Default)]
struct DirectoryCacheState {
    by_handle: HashMap<NodeHandle, CachedDirectory, KeyedBuildHasher>,
    /// Handles in order of insertion.
    order: VecDeque<NodeHandle>,
}

impl DirectoryCache {
    /// The directory with this handle. It may have been removed.
    pub fn find(&self, vfs: &Arc<dyn Vfs>, handle: &NodeHandle) -> Option<Arc<dyn Node>> {
        let inner = self.0.lock();
        let entry = inner.by_handle.get(handle)?;
        let is_same = std::ptr::addr_eq(entry.vfs.as_ptr(), Arc::as_ptr(vfs));
        is_same.then(|| entry.node.clone())
    }

    pub fn insert(&self, vfs: &Arc<dyn Vfs>, handle: &NodeHandle, node: &Arc<dyn Node>) {
        let entry = CachedDirectory { vfs: Arc::downgrade(vfs), node: node.clone() };
        let mut inner = self.0.lock();
        let before = inner.by_handle.insert(handle.clone(), entry);
        let mut oldest = None;
        if before.is_none() {
            inner.order.push_back(handle.clone());
            if inner.order.len() > DIRECTORIES_MAX {
                oldest = inner.order.pop_front().and_then(|o| inner.by_handle.remove(&o));
            }
        }
        drop(inner);
        // Dropped unlocked, since closing is a system call.
        drop((before, oldest));
    }

    /// Evicts a directory that was removed.
    pub fn evict(&self, handle: &NodeHandle) {
        let mut inner = self.0.lock();
        let evicted = inner.by_handle.remove(handle);
        if evicted.is_some() {
            inner.order.retain(|known| known != handle);
        }
        drop(inner);
        drop(evicted);
    }
}
