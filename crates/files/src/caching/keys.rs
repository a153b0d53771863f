//! Which file is meant by a client's key. MS-SMB2 3.3.1.11, 3.3.1.12.
//!
//! A key names one file, or one stream of one, for as long as an open of it
//! came by that key. Lock order: after the grants of the file.

use crate::table::{FileState, lock};
use grants::CacheKey;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use vfs::Keyed;

/// Keys of one client: two and a half times the files that one client is known
/// to keep open at once, at a hundred bytes each.
pub const KEYS_PER_CLIENT_MAX: usize = 1 << 18;

/// The files of one client's keys.
type Keys = HashMap<[u8; 16], Weak<FileState>, Keyed>;

/// All keys of all clients.
#[derive(Debug, Default)]
pub(crate) struct KeyIndex {
    clients: Mutex<HashMap<[u8; 16], Keys, Keyed>>,
    /// How many directories somebody keeps something of.
    directories: AtomicUsize,
}

/// What came of asking for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It names this file now.
    New,
    /// It did before.
    Known,
    /// It names another one.
    Taken,
    /// The client has [`KEYS_PER_CLIENT_MAX`] already.
    TooMany,
}

impl KeyIndex {
    /// Lets a key name a file.
    pub fn claim(&self, key: CacheKey, state: &Arc<FileState>) -> Claim {
        let mut clients = lock(&self.clients);
        let keys = clients.entry(key.client).or_default();
        let is_full = keys.len() >= KEYS_PER_CLIENT_MAX;
        match keys.entry(key.key) {
            Entry::Occupied(known) if std::ptr::eq(known.get().as_ptr(), Arc::as_ptr(state)) => {
                Claim::Known
            }
            Entry::Occupied(_) => Claim::Taken,
            Entry::Vacant(_) if is_full => Claim::TooMany,
            Entry::Vacant(free) => {
                free.insert(Arc::downgrade(state));
                Claim::New
            }
        }
    }

    /// Whether somebody keeps something of a directory.
    pub fn has_directories(&self) -> bool {
        self.directories.load(Ordering::Acquire) > 0
    }

    /// Something is kept of one more directory, or of one less.
    pub fn count_directory(&self, is_kept: bool) {
        if is_kept {
            self.directories.fetch_add(1, Ordering::AcqRel);
        } else {
            self.directories.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Nothing is open under the key any more.
    pub fn release(&self, key: CacheKey) {
        let mut clients = lock(&self.clients);
        if let Some(keys) = clients.get_mut(&key.client) {
            keys.remove(&key.key);
            if keys.is_empty() {
                clients.remove(&key.client);
            }
        }
    }

    /// The file that a key names.
    pub fn find(&self, key: CacheKey) -> Option<Arc<FileState>> {
        lock(&self.clients).get(&key.client)?.get(&key.key)?.upgrade()
    }
}
