//! What has been answered survives a loss of power: requests name what they have changed, and are
//! answered once that is on stable storage.
//!
//! A request waits without a thread. Requests that are in flight on one file system share its
//! commits: see [`queue`]. A file system in memory is waited for by nobody.
//!
//! A thread that syncs does so for all that wait, so it is no client's call: the workers charge it
//! to the file system ([`CallHolder::Syncs`]). Charged to the client that asked first, it would
//! wait behind that client's other calls, and all other clients with it. What each client may
//! have of the syncs is decided by [`queue`]: clients take turns, and none has all of
//! [`SYNC_BOUNDS`]. What is not shared fairly is the disk: a sync that writes much makes others
//! slow, and one in the same journal waits for it.

mod queue;

use crate::context::RequestFiles;
use crate::disk::DiskFailures;
use crate::open_file::OpenFile;
use crate::server_work::SYNC;
use crate::{CallHolder, Object, Volume};
use futures_channel::oneshot;
use queue::{SyncBounds, SyncQueue};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vfs::{FileKey, FileKind, FsError, Node, OpenHow, RelPath, Result};

/// Objects of one file system that are synced at the same time. A journal commits once for all
/// that wait for it, so the more of them do, the less each costs: a client whose programs change
/// names in 32 directories at the same time has one commit for them. As many again are for the
/// others.
const SYNC_BOUNDS: SyncBounds = SyncBounds { all: 64, holder: 32 };

/// No object has this number.
const NO_INODE: u64 = 0;

/// Between two tries of a sync that a local process's lease holds up.
const LOCAL_LEASE_PAUSE: Duration = Duration::from_millis(50);

/// Tries for such a sync: together more than twice the time after which the kernel ends the lease
/// (`fs.lease-break-time`, 45 seconds).
const LOCAL_LEASE_TRIES: u32 = 2000;

/// The object of a sync: synced at most once at a time, and once for all that wait for it by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SyncKey {
    file: FileKey,
    /// The address of an open's node. Linux tells each descriptor once of data that was lost: who
    /// has written by one is not told by another. None for what is synced by any descriptor.
    writer: Option<usize>,
}

impl SyncKey {
    fn of_object(node: &Arc<dyn Node>) -> Self {
        Self { file: node.key(), writer: None }
    }

    fn of_open(node: &Arc<dyn Node>) -> Self {
        let writer = (node.kind() == FileKind::File).then(|| Arc::as_ptr(node).addr());
        Self { file: node.key(), writer }
    }
}

/// What a request has changed and not made stable yet. Each object once.
#[derive(Default)]
pub struct Unstable(SmallVec<[(SyncKey, Arc<dyn Node>); 2]>);

impl Unstable {
    /// Nothing has been changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object's attributes have been changed, or names in it.
    pub fn add_object(&mut self, object: &Object) {
        self.add(SyncKey::of_object(&object.node), &object.node);
    }

    /// The open's file has been changed.
    pub fn add_open(&mut self, open: &OpenFile) {
        self.add(SyncKey::of_open(&open.node), &open.node);
    }

    fn add(&mut self, key: SyncKey, node: &Arc<dyn Node>) {
        if self.0.iter().all(|(known, _)| *known != key) {
            self.0.push((key, node.clone()));
        }
    }
}

impl std::fmt::Debug for Unstable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}

type Told = oneshot::Sender<Result<()>>;
/// Makes an object stable.
type Call = Box<dyn FnOnce() -> Result<()> + Send>;
type Queue = SyncQueue<SyncKey, CallHolder, Call, Told>;

/// Syncs under way, by file system.
#[derive(Default)]
pub(crate) struct Syncs(Mutex<BTreeMap<u64, Queue>>);

impl Syncs {
    fn with<T>(&self, device: u64, work: impl FnOnce(&mut Queue) -> T) -> T {
        // What is done under the lock cannot fail half-way.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = all.entry(device).or_insert_with(|| Queue::new(SYNC_BOUNDS));
        let result = work(queue);
        if queue.is_idle() {
            all.remove(&device);
        }
        result
    }
}

/// A thread's turn at one file system's queue; dropped unused, it is missing.
struct Turn {
    syncs: Arc<Syncs>,
    failures: Arc<DiskFailures>,
    device: u64,
    /// The object that it syncs.
    key: Option<SyncKey>,
    is_over: bool,
}

impl Turn {
    fn work(mut self) {
        while let Some((key, sync)) = self.syncs.with(self.device, Queue::next) {
            self.key = Some(key);
            let result = sync().inspect_err(|error| self.failures.note(key.file, *error));
            self.key = None;
            for told in self.syncs.with(self.device, |queue| queue.finish(key)) {
                // Who asked may have gone.
                let _ = told.send(result);
            }
        }
        self.is_over = true;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Dropping the waiters notifies them.
        drop(self.key.map(|key| self.syncs.with(self.device, |queue| queue.finish(key))));
        drop(self.syncs.with(self.device, Queue::abandon));
    }
}

impl RequestFiles {
    /// Adds the directory that an open's file has its name in by now; none for what has no name.
    ///
    /// # Errors
    /// It is not there any more, or cannot be looked at.
    pub async fn add_place(&self, unstable: &mut Unstable, open: &OpenFile) -> Result<()> {
        self.add_directory_of(unstable, open.volume(), &open.path()).await
    }

    /// Adds the directory of a path; none for what has no name.
    pub(crate) async fn add_directory_of(
        &self,
        unstable: &mut Unstable,
        volume: &Arc<Volume>,
        path: &RelPath,
    ) -> Result<()> {
        let Some((place, _)) = path.split() else { return Ok(()) };
        let (volume, context) = (volume.clone(), self.context.clone());
        let found = self.looked(move |wait| {
            let server = context.call(SYNC);
            volume.vfs.open(server, &place, OpenHow::looking(wait))
        });
        let place = found.await?.node;
        unstable.add(SyncKey::of_object(&place), &place);
        Ok(())
    }

    /// Returns once all that was done to these objects before the call is on stable storage.
    /// Dropping the future leaves what has begun to go on.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::NoSpace`]: it may not be, and whoever is told that it was done
    /// is told wrong. [`FsError::TooMany`] if too much waits.
    pub async fn make_stable(&self, unstable: Unstable) -> Result<()> {
        let call_of = |(key, node): &(SyncKey, Arc<dyn Node>)| -> (SyncKey, Call) {
            let synced = node.clone();
            (*key, Box::new(move || synced.sync(SYNC, false)))
        };
        self.after_local_leases(|| {
            let changed = unstable.0.iter().filter(|(_, node)| !node.syncs_at_once());
            let calls: SmallVec<[(SyncKey, Call); 2]> = changed.map(call_of).collect();
            self.sync_all(calls.into_iter())
        })
        .await
    }

    /// Tries a sync again while a local process holds a lease on a file that has to be opened for it
    /// (`fcntl(2)`, F_SETLEASE). The first try has the kernel break the lease. It waits without a
    /// thread.
    ///
    /// # Errors
    /// The error of the last try.
    async fn after_local_leases<F>(&self, mut sync: impl FnMut() -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        for _ in 0..LOCAL_LEASE_TRIES {
            match sync().await {
                Err(FsError::WouldBlock) => self.workers.sleep(LOCAL_LEASE_PAUSE).await,
                other => return other,
            }
        }
        sync().await
    }

    /// Makes stable what a file system has beside its objects, in turn with these.
    pub(crate) async fn sync_beside(
        &self,
        device: u64,
        sync: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let key = SyncKey { file: FileKey { device, inode: NO_INODE }, writer: None };
        self.sync_all(std::iter::once((key, Box::new(sync) as Call))).await
    }

    async fn sync_all(&self, calls: impl Iterator<Item = (SyncKey, Call)>) -> Result<()> {
        let mut waits: SmallVec<[oneshot::Receiver<Result<()>>; 2]> = SmallVec::new();
        for (key, call) in calls {
            let (told, wait) = oneshot::channel();
            waits.push(wait);
            let device = key.file.device;
            let join = |queue: &mut Queue| queue.join(key, &self.holder, call, told);
            if self.syncs.with(device, join) {
                let (syncs, failures) = (self.syncs.clone(), self.disk_failures.clone());
                let turn = Turn { syncs, failures, device, key: None, is_over: false };
                self.workers.run(&CallHolder::Syncs { device }, Box::new(move || turn.work()));
            }
        }
        // All are heard, so that a failure of one is not told before the others have ended. What is
        // tried again must not hide what failed: Linux tells each descriptor of that once.
        let mut result = Ok(());
        for wait in waits {
            let one = wait.await.unwrap_or(Err(FsError::TooMany));
            result = match (result, one) {
                (Ok(()) | Err(FsError::WouldBlock), Err(error)) => Err(error),
                (before, _) => before,
            };
        }
        result
    }
}

#[cfg(test)]
mod tests;
