//! Lease keys and the files they refer to. MS-SMB2 3.3.1.11, 3.3.1.12.
//!
//! A key refers to one file or stream while an open under it exists. Lock order: after the grants
//! of the file.

use grants::CacheKey;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use sync::Mutex;
use vfs::KeyedBuildHasher;

/// Lease keys of one client: two and a half times the largest known number of open files of a
/// client, at a hundred bytes each.
pub const KEYS_PER_CLIENT_MAX: usize = 1 << 18;

/// Files by lease key, of one client.
type ClientKeys<F> = HashMap<[u8; 16], Weak<F>, KeyedBuildHasher>;

/// Lease keys of all clients; `F` is an open file or stream.
#[derive(Debug)]
pub(crate) struct KeyIndex<F> {
    clients: Mutex<HashMap<[u8; 16], ClientKeys<F>, KeyedBuildHasher>>,
    /// Number of directories that clients cache.
    directories: AtomicUsize,
}

/// Result of claiming a key for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyClaim {
    /// The key refers to this file from now on.
    New,
    /// The key referred to this file already.
    Same,
    /// The key refers to another file.
    Taken,
    /// The client has [`KEYS_PER_CLIENT_MAX`] keys already.
    TooMany,
}

impl<F> Default for KeyIndex<F> {
    fn default() -> Self {
        Self { clients: Mutex::default(), directories: AtomicUsize::new(0) }
    }
}

impl<F> KeyIndex<F> {
    /// Binds a key to a file.
    pub fn claim(&self, key: CacheKey, state: &Arc<F>) -> KeyClaim {
        let mut clients = self.clients.lock();
        let keys = clients.entry(key.client).or_default();
        let is_full = keys.len() >= KEYS_PER_CLIENT_MAX;
        match keys.entry(key.key) {
            Entry::Occupied(known) if std::ptr::eq(known.get().as_ptr(), Arc::as_ptr(state)) => {
                KeyClaim::Same
            }
            Entry::Occupied(_) => KeyClaim::Taken,
            Entry::Vacant(_) if is_full => KeyClaim::TooMany,
            Entry::Vacant(free) => {
                free.insert(Arc::downgrade(state));
                KeyClaim::New
            }
        }
    }

    /// Whether a client caches any directory.
    pub fn has_directories(&self) -> bool {
        self.directories.load(Ordering::Acquire) > 0
    }

    /// Counts one cached directory more or less.
    pub fn count_directory(&self, is_kept: bool) {
        if is_kept {
            self.directories.fetch_add(1, Ordering::AcqRel);
        } else {
            self.directories.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Releases a key without opens.
    pub fn release(&self, key: CacheKey) {
        let mut clients = self.clients.lock();
        if let Some(keys) = clients.get_mut(&key.client) {
            keys.remove(&key.key);
            if keys.is_empty() {
                clients.remove(&key.client);
            }
        }
    }

    /// The file that a key refers to.
    pub fn find(&self, key: CacheKey) -> Option<Arc<F>> {
        self.clients.lock().get(&key.client)?.get(&key.key)?.upgrade()
    }
}
