//! Backend: a tree in memory, for tests and simulation.
//!
//! The caller provides its clock and its failures ([`Surroundings`]). A tree can lose power: each
//! unsynced sector then survives or not, as the caller decides. Names behave as on a journalling
//! file system: a prefix of all changes survives, and a sync of any node writes the whole journal.
//!
//! Lock order: one mutex for the whole tree. The tree does not call the surroundings while it holds
//! the mutex, except to read the clock.

mod changes;
mod data;
mod disk;
mod handles;
mod inode;
mod listings;
mod node;
mod resolve;
mod state;
mod tree;

use crate::{AttributeRequest, Attributes, FsError, Result, Timestamp, Wait};
use disk::SimulatedDisk;
use inode::NodeContent;
use state::{MemoryState, ROOT};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use sync::{Mutex, MutexGuard};

/// A call, with the details that surroundings may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MemoryCall {
    Allocate,
    Attributes,
    Copy,
    Create,
    Link,
    List,
    Open(Wait),
    Punch,
    Read(Wait),
    Remove,
    Rename,
    SetAttributes,
    SetSize { grows: bool },
    Sync,
    Write { length_bytes: usize },
    Xattr,
}

/// Kind of an event of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedEvent {
    /// A name was added.
    Added,
    /// Attributes of a named node, or of a directory itself, changed.
    Attributes,
    /// A feed starts to follow a listing.
    Followed,
    /// A listing became stale.
    Listing,
    /// A name was removed.
    Removed,
}

/// Delivery of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedDelivery {
    /// The feed reports the event.
    Delivered,
    /// The feed overflows: it loses all events and reports that.
    Overflows,
    /// The feed loses the event in silence. No real system may do that; tests of tests do.
    Dropped,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The call runs.
    Runs,
    /// The call fails and changes nothing.
    Fails(FsError),
    /// A write fails after so many bytes; any other call fails.
    Tears(FsError, usize),
}

/// Environment of the backend: its clock and its failures. Any thread may call it, and a call may
/// block.
pub trait Surroundings: Send + Sync {
    /// Current time.
    fn now(&self) -> Timestamp;

    /// Called before each call.
    fn before(&self, call: MemoryCall) -> CallOutcome {
        let _ = call;
        CallOutcome::Runs
    }

    /// Called when a call has run, before it returns.
    fn after(&self, call: MemoryCall) {
        let _ = call;
    }

    /// Called for each event that a feed would report.
    fn delivery(&self, event: FeedEvent) -> FeedDelivery {
        let _ = event;
        FeedDelivery::Delivered
    }

    /// See [`crate::Vfs::creates_without_waiting`].
    fn creates_without_waiting(&self) -> bool {
        true
    }
}

/// Surroundings without failures, whose clock moves only on request.
#[derive(Debug, Default)]
pub struct StillClock(AtomicU64);

impl StillClock {
    /// Moves the clock.
    pub fn advance(&self, nanos: u64) {
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Surroundings for StillClock {
    fn now(&self) -> Timestamp {
        // A moment in June 2025.
        Timestamp(1_750_000_000_000_000_000 + i128::from(self.0.load(Ordering::Relaxed)))
    }
}

/// Options of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Capacity in bytes for all files together.
    pub capacity_bytes: u64,
    /// Unsynced data can be lost by [`MemoryVfs::lose_power`].
    pub has_disk: bool,
    /// File system number.
    pub serial: u64,
    /// [`crate::Attributes::change`] is a counter; else it is the change time, which may repeat, as
    /// on most file systems.
    pub counts_changes: bool,
    /// The tree has handles and knows the paths of nodes; else nodes are reached by path only.
    pub has_handles: bool,
    /// The tree stores extended attributes, and with them descriptors and verifiers.
    pub has_xattrs: bool,
    /// The tree reports its changes by feeds; else no cache of names works.
    pub has_feeds: bool,
}

impl MemoryOptions {
    /// Capacity of a disk that is never full.
    pub const ENDLESS_BYTES: u64 = 1 << 60;
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            capacity_bytes: 1 << 30,
            has_disk: false,
            serial: 1,
            counts_changes: true,
            has_handles: true,
            has_xattrs: true,
            has_feeds: true,
        }
    }
}

/// A tree in memory.
pub struct MemoryVfs {
    shared: Arc<SharedTree>,
}

impl std::fmt::Debug for MemoryVfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryVfs").finish_non_exhaustive()
    }
}

struct SharedTree {
    options: MemoryOptions,
    around: Arc<dyn Surroundings>,
    state: Mutex<MemoryState>,
}

impl MemoryVfs {
    /// An empty tree. The superuser owns the root, which is open to all.
    #[must_use]
    pub fn new(options: MemoryOptions, around: Arc<dyn Surroundings>) -> Self {
        let mut state = MemoryState::new(around.now());
        state.disk = options.has_disk.then(|| SimulatedDisk::of(&state));
        Self { shared: Arc::new(SharedTree { options, around, state: Mutex::new(state) }) }
    }

    /// Kills the process. Returns the tree as the kernel retains it; the old one fails every
    /// further call.
    #[must_use]
    pub fn kill(&self, around: Arc<dyn Surroundings>) -> Self {
        let mut state = self.shared.state();
        let mut kept = std::mem::replace(&mut *state, MemoryState::dead());
        kept.close_all();
        kept.followers = changes::Followers::default();
        Self { shared: self.shared.with(kept, around) }
    }

    /// Cuts the power. Returns the tree as recovered from disk; `takes` decides for each unsynced
    /// change whether it had been written back. The old one fails every further call, as after
    /// [`MemoryVfs::kill`].
    ///
    /// # Panics
    /// If the tree has no disk.
    #[must_use]
    pub fn lose_power(
        &self,
        around: Arc<dyn Surroundings>,
        takes: &mut dyn FnMut() -> bool,
    ) -> Self {
        let mut state = self.shared.state();
        let lost = std::mem::replace(&mut *state, MemoryState::dead());
        Self { shared: self.shared.with(disk::recovered(lost, takes), around) }
    }

    /// Writes back some of the dirty state, as `takes` decides.
    pub fn write_back(&self, takes: &mut dyn FnMut() -> bool) {
        disk::write_back(&mut self.shared.state(), takes);
    }

    /// Number of open handles.
    #[must_use]
    pub fn open_count(&self) -> u64 {
        self.shared.state().inodes.values().map(|inode| u64::from(inode.opens)).sum()
    }

    /// All files with paths and contents, without permission checks and failures.
    #[must_use]
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.shared.state();
        let mut files = Vec::new();
        let mut directories = vec![(String::new(), ROOT)];
        while let Some((path, number)) = directories.pop() {
            let Some(directory) = state.directory(number) else { continue };
            for (name, child) in directory.names() {
                let name = String::from_utf8_lossy(name.as_bytes());
                let path = if path.is_empty() { name.into() } else { format!("{path}/{name}") };
                match state.inodes.get(&child).map(|inode| &inode.body) {
                    Some(NodeContent::Directory(_)) => directories.push((path, child)),
                    Some(NodeContent::File(data)) => {
                        let mut bytes = Vec::new();
                        let size = usize::try_from(data.size_bytes()).unwrap_or(usize::MAX);
                        data.read(0, size, &mut bytes);
                        files.push((path, bytes));
                    }
                    _ => {}
                }
            }
        }
        files.sort();
        files
    }
}

impl SharedTree {
    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock()
    }

    /// Attributes of a node, as callers of the backend see them.
    fn attributes(
        &self,
        state: &MemoryState,
        number: u64,
        wanted: AttributeRequest,
    ) -> Result<Attributes> {
        let attributes = state.inode(number)?.attributes(self.key(number), wanted.dos.is_some());
        let change = match self.options.counts_changes {
            true => attributes.change,
            false => attributes.changed.0 as u64,
        };
        Ok(Attributes { change, ..attributes })
    }

    /// Refuses what a tree without extended attributes lacks.
    fn need_xattrs(&self) -> Result<()> {
        if self.options.has_xattrs { Ok(()) } else { Err(FsError::NotSupported) }
    }

    fn with(&self, state: MemoryState, around: Arc<dyn Surroundings>) -> Arc<Self> {
        Arc::new(Self { options: self.options, around, state: Mutex::new(state) })
    }

    /// Runs a call, unless the surroundings let it fail.
    fn call<T>(
        &self,
        call: MemoryCall,
        run: impl FnOnce(&mut MemoryState) -> Result<T>,
    ) -> Result<T> {
        match self.around.before(call) {
            CallOutcome::Runs => self.carry_out(call, run),
            CallOutcome::Fails(error) | CallOutcome::Tears(error, _) => Err(error),
        }
    }

    fn carry_out<T>(
        &self,
        call: MemoryCall,
        run: impl FnOnce(&mut MemoryState) -> Result<T>,
    ) -> Result<T> {
        let result = {
            let mut state = self.state();
            if state.is_dead {
                return Err(FsError::Io);
            }
            state.now = self.around.now();
            let result = run(&mut state);
            state.end_transaction();
            result
        };
        self.around.after(call);
        result
    }
}

#[cfg(test)]
mod tests;
