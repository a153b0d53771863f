//! Which files are open, and what is held on them.

use crate::{Caller, Volume};
use grants::{Closed, FileGrants, OpenId, OpenWish, Refusal};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use vfs::{FileKey, FsError, RelPath, Result};

/// A power of two well above the number of cores.
const SHARDS: usize = 64;

/// Everything held on one open file.
#[derive(Debug)]
pub(crate) struct FileState {
    pub key: FileKey,
    grants: Mutex<FileGrants>,
    /// True if there may be byte-range locks: read without the mutex, so that
    /// files without any pay one load for them.
    has_locks: AtomicBool,
    lock_waiters: Mutex<Vec<Waker>>,
    /// The names by which it is open.
    names: Mutex<Vec<Arc<OpenName>>>,
    /// Which name vanishes at the last close, and as whose.
    doomed: Mutex<Option<Doomed>>,
}

/// A name that is shared by all opens that came by it; a rename changes it for all.
#[derive(Debug)]
pub(crate) struct OpenName {
    pub volume: Arc<Volume>,
    path: Mutex<RelPath>,
}

impl OpenName {
    pub fn path(&self) -> RelPath {
        lock(&self.path).clone()
    }

    pub fn set_path(&self, path: RelPath) {
        *lock(&self.path) = path;
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Doomed {
    pub name: Arc<OpenName>,
    pub caller: Arc<Caller>,
}

impl FileState {
    pub fn grants(&self) -> MutexGuard<'_, FileGrants> {
        lock(&self.grants)
    }

    pub fn has_locks(&self) -> bool {
        self.has_locks.load(Ordering::Acquire)
    }

    pub fn note_locks(&self, grants: &FileGrants) {
        self.has_locks.store(!grants.locks.is_empty(), Ordering::Release);
    }

    pub fn wake_lock_waiters(&self) {
        let waiters = std::mem::take(&mut *lock(&self.lock_waiters));
        waiters.into_iter().for_each(Waker::wake);
    }

    pub fn add_lock_waiter(&self, waker: &Waker) {
        let mut waiters = lock(&self.lock_waiters);
        if !waiters.iter().any(|w| w.will_wake(waker)) {
            waiters.push(waker.clone());
        }
    }

    pub fn doom(&self, doomed: Option<Doomed>) {
        *lock(&self.doomed) = doomed;
    }

    pub fn doomed(&self) -> Option<Doomed> {
        lock(&self.doomed).clone()
    }

    fn name(&self, volume: &Arc<Volume>, path: &RelPath) -> Arc<OpenName> {
        let mut names = lock(&self.names);
        names.retain(|n| Arc::strong_count(n) > 1);
        if let Some(name) =
            names.iter().find(|n| Arc::ptr_eq(&n.volume, volume) && *lock(&n.path) == *path)
        {
            return name.clone();
        }
        let name = Arc::new(OpenName { volume: volume.clone(), path: Mutex::new(path.clone()) });
        names.push(name.clone());
        name
    }
}

/// All open files, in shards by key.
#[derive(Debug)]
pub(crate) struct Table {
    shards: Vec<Mutex<HashMap<FileKey, Arc<FileState>>>>,
}

impl Default for Table {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl Table {
    fn shard(&self, key: FileKey) -> MutexGuard<'_, HashMap<FileKey, Arc<FileState>>> {
        let hash = (key.inode ^ key.device.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        lock(&self.shards[(hash >> 58) as usize % SHARDS])
    }

    /// Enters an open of `key` by `path`.
    pub fn open(
        &self,
        key: FileKey,
        volume: &Arc<Volume>,
        path: &RelPath,
        wish: OpenWish,
    ) -> Result<(Arc<FileState>, Arc<OpenName>)> {
        let mut shard = self.shard(key);
        let state = shard.entry(key).or_insert_with(|| {
            Arc::new(FileState {
                key,
                grants: Mutex::default(),
                has_locks: AtomicBool::new(false),
                lock_waiters: Mutex::default(),
                names: Mutex::default(),
                doomed: Mutex::default(),
            })
        });
        let state = state.clone();
        let result = state.grants().handle_open(wish);
        if let Err(refusal) = result {
            if state.grants().open_count() == 0 && !state.grants().is_delete_pending() {
                shard.remove(&key);
            }
            return Err(refused(refusal));
        }
        let name = state.name(volume, path);
        Ok((state, name))
    }

    /// Takes an open out. If the file must be removed it stays in the table,
    /// refusing opens, until [`Table::forget`].
    pub fn close(&self, state: &FileState, id: OpenId) -> Closed {
        let mut shard = self.shard(state.key);
        let mut grants = state.grants();
        let closed = grants.handle_close(id);
        state.note_locks(&grants);
        drop(grants);
        if closed.last && !closed.remove {
            shard.remove(&state.key);
        }
        drop(shard);
        state.wake_lock_waiters();
        closed
    }

    /// Takes a file out whose name has been removed.
    pub fn forget(&self, state: &FileState) {
        let mut shard = self.shard(state.key);
        if state.grants().open_count() == 0 {
            shard.remove(&state.key);
        }
    }

    /// What is held on a file, if it is open.
    pub fn find(&self, key: FileKey) -> Option<Arc<FileState>> {
        self.shard(key).get(&key).cloned()
    }

    /// Whether a file below the directory `path` is open.
    pub fn has_open_below(&self, volume: &Arc<Volume>, path: &RelPath) -> bool {
        self.shards.iter().any(|shard| {
            lock(shard).values().any(|state| {
                lock(&state.names).iter().any(|name| {
                    let at = lock(&name.path);
                    Arc::strong_count(name) > 1
                        && Arc::ptr_eq(&name.volume.vfs, &volume.vfs)
                        && *at != *path
                        && at.starts_with(path)
                })
            })
        })
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| lock(s).len()).sum()
    }
}

fn refused(refusal: Refusal) -> FsError {
    match refusal {
        Refusal::DeletePending => FsError::DeletePending,
        Refusal::ShareViolation => FsError::ShareViolation,
        Refusal::TooMany => FsError::TooMany,
    }
}

/// Values behind these mutexes are changed by single assignments and by pure
/// state machines: a panic elsewhere leaves them whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
