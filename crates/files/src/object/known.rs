//! Directories that were found by their handles lately: most of what clients do is in
//! few of them, and finding one may wait for a disk. Each keeps a descriptor open, which
//! keeps no space from being freed, as that of a file would.

use crate::table::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use vfs::{Keyed, Node, NodeHandle, Vfs};

/// As many descriptors.
const KNOWN_MAX: usize = 4096;

/// A directory, and in which tree.
#[derive(Debug)]
struct Entry {
    vfs: Weak<dyn Vfs>,
    node: Arc<dyn Node>,
}

/// The latest of all volumes.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    by_handle: HashMap<NodeHandle, Entry, Keyed>,
    /// In the order in which they became known.
    order: VecDeque<NodeHandle>,
}

impl Known {
    /// The directory with this handle. It may be gone by now.
    pub fn find(&self, vfs: &Arc<dyn Vfs>, handle: &NodeHandle) -> Option<Arc<dyn Node>> {
        let inner = lock(&self.0);
        let entry = inner.by_handle.get(handle)?;
        let is_same = std::ptr::addr_eq(entry.vfs.as_ptr(), Arc::as_ptr(vfs));
        is_same.then(|| entry.node.clone())
    }

    pub fn learn(&self, vfs: &Arc<dyn Vfs>, handle: &NodeHandle, node: &Arc<dyn Node>) {
        let entry = Entry { vfs: Arc::downgrade(vfs), node: node.clone() };
        let mut inner = lock(&self.0);
        let before = inner.by_handle.insert(handle.clone(), entry);
        let mut oldest = None;
        if before.is_none() {
            inner.order.push_back(handle.clone());
            if inner.order.len() > KNOWN_MAX {
                oldest = inner.order.pop_front().and_then(|o| inner.by_handle.remove(&o));
            }
        }
        drop(inner);
        // Unlocked: closing is a system call.
        drop((before, oldest));
    }

    /// It is not there any more.
    pub fn forget(&self, handle: &NodeHandle) {
        let mut inner = lock(&self.0);
        let gone = inner.by_handle.remove(handle);
        if gone.is_some() {
            inner.order.retain(|known| known != handle);
        }
        drop(inner);
        drop(gone);
    }
}
