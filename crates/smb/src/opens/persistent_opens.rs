//! The table of persistent opens. MS-SMB2 3.3.5.9.10.

use crate::limits::PERSISTENT_OPENS_MAX;
use crate::opens::open::Open;
use files::CacheKey;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use sync::Mutex;
use vfs::FileKey;
use wire::ntstatus::NtStatus;

/// The persistent opens, connected or detached.
#[derive(Debug, Default)]
pub struct PersistentOpens {
    by_id: Mutex<HashMap<u64, Weak<Open>>>,
}

impl PersistentOpens {
    /// Adds an open, or replaces its predecessor.
    ///
    /// # Errors
    /// `INSUFFICIENT_RESOURCES` past [`PERSISTENT_OPENS_MAX`].
    pub fn enter(&self, open: &Arc<Open>) -> Result<(), NtStatus> {
        let mut by_id = self.by_id.lock();
        if by_id.len() >= PERSISTENT_OPENS_MAX && !by_id.contains_key(&open.id.persistent) {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        by_id.insert(open.id.persistent, Arc::downgrade(open));
        Ok(())
    }

    /// The opens under a lease.
    pub fn of_lease(&self, key: CacheKey) -> Vec<Arc<Open>> {
        let is_under = |open: &Arc<Open>| open.lease.as_ref().is_some_and(|l| l.key() == key);
        self.by_id.lock().values().filter_map(Weak::upgrade).filter(is_under).collect()
    }

    /// The open of this id.
    pub fn find(&self, id: u64) -> Option<Arc<Open>> {
        self.by_id.lock().get(&id).and_then(Weak::upgrade)
    }

    /// The opens of these files.
    pub fn of_files(&self, files: &[FileKey]) -> Vec<Arc<Open>> {
        let files: HashSet<FileKey> = files.iter().copied().collect();
        let is_of = |open: &Arc<Open>| open.file().is_ok_and(|file| files.contains(&file.key()));
        self.by_id.lock().values().filter_map(Weak::upgrade).filter(is_of).collect()
    }

    /// Removes an open.
    pub fn remove(&self, id: u64) {
        self.by_id.lock().remove(&id);
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.lock().is_empty()
    }
}
