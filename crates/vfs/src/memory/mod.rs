//! Backend: a tree in memory, for tests and simulation.
//!
//! Its clock and its failures are handed in ([`Surroundings`]), and it can lose
//! power: what was not synced is then there or not, sector by sector, as one
//! asks it. Names are kept as a journalling file system keeps them: what
//! survives is what a prefix of all changes left, and a sync of any node
//! brings the whole journal to disk.
//!
//! Lock order: one mutex for the whole tree; no call into the surroundings
//! while it is held, except to read the clock.

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

use crate::{Attributes, FsError, Result, Timestamp, Wait, Wanted};
use disk::Disk;
use inode::Body;
use state::{ROOT, State};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A call, as far as its surroundings may care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Call {
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

/// What a feed tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A name came.
    Added,
    /// Attributes of what has a name, or of a directory itself, were changed.
    Attributes,
    /// A listing is to be followed.
    Followed,
    /// A listing is not what it was.
    Listing,
    /// A name went.
    Removed,
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// It is told.
    Told,
    /// It is lost with all others, which is told.
    Overflows,
    /// It is lost, and nobody knows. No system may do that: for tests of tests.
    Swallowed,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out.
    Runs,
    /// It fails and changes nothing.
    Fails(FsError),
    /// A write fails after so many bytes; any other call fails.
    Tears(FsError, usize),
}

/// What is around the backend: time, and what goes wrong. May be called from
/// any thread; calls may take as long as they like.
pub trait Surroundings: Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;

    /// A call begins.
    fn before(&self, call: Call) -> Fate {
        let _ = call;
        Fate::Runs
    }

    /// A call has been carried out and has not returned yet.
    fn after(&self, call: Call) {
        let _ = call;
    }

    /// Somebody who follows what happens is to be told of something.
    fn hearing(&self, event: Event) -> Hearing {
        let _ = event;
        Hearing::Told
    }

    /// See [`crate::Vfs::creates_at_once`].
    fn creates_at_once(&self) -> bool {
        true
    }
}

/// A clock that stands still unless it is moved; nothing goes wrong.
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
        // Some time in 2025.
        Timestamp(1_750_000_000_000_000_000 + i128::from(self.0.load(Ordering::Relaxed)))
    }
}

/// How a tree is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Bytes that all files together may hold.
    pub capacity_bytes: u64,
    /// What is not synced can be lost by [`MemoryVfs::lose_power`].
    pub has_disk: bool,
    /// The file system's number.
    pub serial: u64,
    /// [`crate::Attributes::change`] counts: else it is the time of the change, which
    /// may be the same after another one, as with most file systems.
    pub counts_changes: bool,
}

impl MemoryOptions {
    /// Capacity of a disk that is never full.
    pub const ENDLESS_BYTES: u64 = 1 << 60;
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { capacity_bytes: 1 << 30, has_disk: false, serial: 1, counts_changes: true }
    }
}

/// A tree in memory.
pub struct MemoryVfs {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for MemoryVfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryVfs").finish_non_exhaustive()
    }
}

struct Shared {
    options: MemoryOptions,
    around: Arc<dyn Surroundings>,
    state: Mutex<State>,
}

impl MemoryVfs {
    /// An empty tree whose root belongs to the superuser, open to all.
    #[must_use]
    pub fn new(options: MemoryOptions, around: Arc<dyn Surroundings>) -> Self {
        let mut state = State::new(around.now());
        state.disk = options.has_disk.then(|| Disk::of(&state));
        Self { shared: Arc::new(Shared { options, around, state: Mutex::new(state) }) }
    }

    /// The process dies: the tree as the kernel would keep it. This one fails
    /// every call from now on and changes nothing any more.
    #[must_use]
    pub fn kill(&self, around: Arc<dyn Surroundings>) -> Self {
        let mut state = self.shared.state();
        let mut kept = std::mem::replace(&mut *state, State::dead());
        kept.close_all();
        kept.followers = changes::Followers::default();
        Self { shared: self.shared.with(kept, around) }
    }

    /// The machine loses power: the tree as it is found on disk. `takes` says
    /// of everything that was not synced whether it had been written back.
    /// This one fails every call from now on, as after [`MemoryVfs::kill`].
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
        let lost = std::mem::replace(&mut *state, State::dead());
        Self { shared: self.shared.with(disk::recovered(lost, takes), around) }
    }

    /// What the system does at its leisure: writes back some of what is not
    /// on disk, as `takes` says.
    pub fn write_back(&self, takes: &mut dyn FnMut() -> bool) {
        disk::write_back(&mut self.shared.state(), takes);
    }

    /// Number of handles that are open.
    #[must_use]
    pub fn open_count(&self) -> u64 {
        self.shared.state().inodes.values().map(|inode| u64::from(inode.opens)).sum()
    }

    /// All files with their paths and contents, past rights and failures.
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
                    Some(Body::Directory(_)) => directories.push((path, child)),
                    Some(Body::File(data)) => {
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

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node's attributes, as clients of the backend see them.
    fn attributes(&self, state: &State, number: u64, wanted: Wanted) -> Result<Attributes> {
        let attributes = state.inode(number)?.attributes(self.key(number), wanted.dos.is_some());
        let change = match self.options.counts_changes {
            true => attributes.change,
            false => attributes.changed.0 as u64,
        };
        Ok(Attributes { change, ..attributes })
    }

    fn with(&self, state: State, around: Arc<dyn Surroundings>) -> Arc<Self> {
        Arc::new(Self { options: self.options, around, state: Mutex::new(state) })
    }

    /// Carries a call out, unless something goes wrong.
    fn call<T>(&self, call: Call, run: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        match self.around.before(call) {
            Fate::Runs => self.carry_out(call, run),
            Fate::Fails(error) | Fate::Tears(error, _) => Err(error),
        }
    }

    fn carry_out<T>(&self, call: Call, run: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
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
