//! Stable storage: a request names the objects that it has changed, and its response follows once
//! they survive a power failure.
//!
//! A request waits without a thread. Requests in flight on one file system share its commits: see
//! [`queue`]. A file system in memory needs no wait.
//!
//! A syncing thread serves all waiting requests, so the workers charge it to the file system
//! ([`CallHolder::Syncs`]). Charged to one client, it would queue behind that client's other calls
//! and delay all clients. [`queue`] shares the syncs: clients take turns, and none gets all of
//! [`SYNC_BOUNDS`].
//!
//! The disk itself is not shared fairly: a sync that writes much slows others, and one in the same
//! journal waits for it.

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
use std::sync::Arc;
use std::time::Duration;
use sync::Mutex;
use vfs::{FileKey, FileKind, FsError, Node, OpenHow, RelPath, Result};

/// Concurrent syncs of one file system. A journal commits once for all that wait, so more
/// concurrent syncs cost less each. A client whose programs change names in 32 directories at once
/// shares one commit; as many remain for other clients.
const SYNC_BOUNDS: SyncBounds = SyncBounds { all: 64, holder: 32 };

/// An inode number that no object has.
const NO_INODE: u64 = 0;

/// Pause between tries of a sync that a local process's lease delays.
const LOCAL_LEASE_PAUSE: Duration = Duration::from_millis(50);

/// Tries for such a sync: together more than twice the kernel's lease break time
/// (`fs.lease-break-time`, 45 seconds).
const LOCAL_LEASE_TRIES: u32 = 2000;

/// Object of a sync. It is synced at most once at a time, for all requests waiting by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SyncKey {
    file: FileKey,
    /// Address of an open's node. Linux reports lost data once to each descriptor, so that a
    /// writer's sync must use its own. None if any descriptor serves.
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

/// Objects that a request has changed and not synced yet, each once.
#[derive(Default)]
pub struct UnstableObjects(SmallVec<[(SyncKey, Arc<dyn Node>); 2]>);

impl UnstableObjects {
    /// Whether no object has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an object whose attributes or names have changed.
    pub fn add_object(&mut self, object: &Object) {
        self.add(SyncKey::of_object(&object.node), &object.node);
    }

    /// Adds the file of an open.
    pub fn add_open(&mut self, open: &OpenFile) {
        self.add(SyncKey::of_open(&open.node), &open.node);
    }

    fn add(&mut self, key: SyncKey, node: &Arc<dyn Node>) {
        if self.0.iter().all(|(known, _)| *known != key) {
            self.0.push((key, node.clone()));
        }
    }
}

impl std::fmt::Debug for UnstableObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}

type SyncReply = oneshot::Sender<Result<()>>;
/// A call that syncs an object.
type SyncCall = Box<dyn FnOnce() -> Result<()> + Send>;
type FileSystemQueue = SyncQueue<SyncKey, CallHolder, SyncCall, SyncReply>;

/// Syncs in flight, by file system.
#[derive(Default)]
pub(crate) struct Syncs(Mutex<BTreeMap<u64, FileSystemQueue>>);

impl Syncs {
    fn with<T>(&self, device: u64, work: impl FnOnce(&mut FileSystemQueue) -> T) -> T {
        // Changes under the lock cannot fail half-way.
        let mut all = self.0.lock();
        let queue = all.entry(device).or_insert_with(|| FileSystemQueue::new(SYNC_BOUNDS));
        let result = work(queue);
        if queue.is_idle() {
            all.remove(&device);
        }
        result
    }
}

/// A thread's turn at the queue of one file system. A drop without work removes the thread from the
/// queue.
struct SyncTurn {
    syncs: Arc<Syncs>,
    failures: Arc<DiskFailures>,
    device: u64,
    /// The object in sync.
    key: Option<SyncKey>,
    is_over: bool,
}

impl SyncTurn {
    fn work(mut self) {
        while let Some((key, sync)) = self.syncs.with(self.device, FileSystemQueue::next) {
            self.key = Some(key);
            let result = sync().inspect_err(|error| self.failures.note(key.file, *error));
            self.key = None;
            for reply in self.syncs.with(self.device, |queue| queue.finish(key)) {
                // The requester may have disconnected.
                let _ = reply.send(result);
            }
        }
        self.is_over = true;
    }
}

impl Drop for SyncTurn {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Dropping the waiters notifies them.
        drop(self.key.map(|key| self.syncs.with(self.device, |queue| queue.finish(key))));
        drop(self.syncs.with(self.device, FileSystemQueue::abandon));
    }
}

impl RequestFiles {
    /// Adds the directory of the open's current name; none for an unlinked file.
    ///
    /// # Errors
    /// Errors of the lookup, also if the directory was removed.
    pub async fn add_parent(&self, unstable: &mut UnstableObjects, open: &OpenFile) -> Result<()> {
        self.add_directory_of(unstable, open.volume(), &open.path()).await
    }

    /// Adds the directory of a path; none without a name.
    pub(crate) async fn add_directory_of(
        &self,
        unstable: &mut UnstableObjects,
        volume: &Arc<Volume>,
        path: &RelPath,
    ) -> Result<()> {
        let Some((place, _)) = path.split() else { return Ok(()) };
        let (volume, context) = (volume.clone(), self.context.clone());
        let found = self.lookup_offloading(move |wait| {
            let server = context.call(SYNC);
            volume.vfs.open(server, &place, OpenHow::looking(wait))
        });
        let place = found.await?.node;
        unstable.add(SyncKey::of_object(&place), &place);
        Ok(())
    }

    /// Returns once all earlier changes to these objects are on stable storage. Dropping the future
    /// does not stop syncs in flight.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::NoSpace`]: the changes may be lost, so the request must not
    /// report success. [`FsError::TooMany`] if too many requests wait.
    pub async fn make_stable(&self, unstable: UnstableObjects) -> Result<()> {
        let call_of = |(key, node): &(SyncKey, Arc<dyn Node>)| -> (SyncKey, SyncCall) {
            let synced = node.clone();
            (*key, Box::new(move || synced.sync(SYNC, false)))
        };
        self.after_local_leases(|| {
            let changed = unstable.0.iter().filter(|(_, node)| {
                !node.local_file().is_some_and(|file| file.syncs_without_waiting())
            });
            let calls: SmallVec<[(SyncKey, SyncCall); 2]> = changed.map(call_of).collect();
            self.sync_all(calls.into_iter())
        })
        .await
    }

    /// Retries a sync while a local process holds a lease on a file that the sync opens
    /// (`fcntl(2)`, F_SETLEASE). The first try makes the kernel break the lease. It waits without a
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

    /// Syncs state of a file system that belongs to no object, through the same queue.
    pub(crate) async fn sync_beside(
        &self,
        device: u64,
        sync: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let key = SyncKey { file: FileKey { device, inode: NO_INODE }, writer: None };
        self.sync_all(std::iter::once((key, Box::new(sync) as SyncCall))).await
    }

    async fn sync_all(&self, calls: impl Iterator<Item = (SyncKey, SyncCall)>) -> Result<()> {
        let mut waits: SmallVec<[oneshot::Receiver<Result<()>>; 2]> = SmallVec::new();
        for (key, call) in calls {
            let (reply, wait) = oneshot::channel();
            waits.push(wait);
            let device = key.file.device;
            let join = |queue: &mut FileSystemQueue| queue.join(key, &self.holder, call, reply);
            if self.syncs.with(device, join) {
                let (syncs, failures) = (self.syncs.clone(), self.disk_failures.clone());
                let turn = SyncTurn { syncs, failures, device, key: None, is_over: false };
                self.workers.run(&CallHolder::Syncs { device }, Box::new(move || turn.work()));
            }
        }
        // Waits for all syncs before it reports a failure. A retryable error must not hide a failed
        // sync, which Linux reports once to each descriptor.
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
