//! The share that each user has of watches, and of the memory that changes take until they are
//! reported.

use super::{Change, RequestId, Watch, WatchAnswer};
use futures_channel::oneshot;
use limits::{Account, Holder, Ledger, Share};
use std::sync::Arc;
use vfs::{FsError, Result};

/// Watches at once. One user may have as many as would still be free. Each takes half a kilobyte
/// beside its changes.
pub const WATCHES_MAX: usize = 65_536;
/// Watches that every user may have while there are any.
const WATCHES_FLOOR: u64 = 16;
/// Watches of one directory by one user: every change below it is matched against each of them. Clients
/// of several connections have thousands.
pub const WATCHES_PER_DIRECTORY_MAX: usize = 4096;
/// Memory of all changes that are not reported yet, in bytes: of 512 watches which hold all that
/// they may, since a change takes about four times what it has in an answer.
const CHANGES_BYTES_MAX: u64 = 128 << 20;
/// Memory of changes that every user may have while there is any: one watch's.
const CHANGES_BYTES_FLOOR: u64 = 256 * 1024;
/// Memory of a change beside its names: itself, in a list that grows by doubling, and what the
/// allocator takes for two names.
const CHANGE_BYTES: usize = 2 * size_of::<Change>() + 2 * 16;

/// Watches and their memory, by user.
#[derive(Debug)]
pub(crate) struct WatchLedgers {
    pub watches: Arc<Ledger>,
    pub bytes: Arc<Ledger>,
}

impl Default for WatchLedgers {
    fn default() -> Self {
        Self {
            watches: Ledger::new(WATCHES_MAX as u64, WATCHES_FLOOR),
            bytes: Ledger::new(CHANGES_BYTES_MAX, CHANGES_BYTES_FLOOR),
        }
    }
}

impl WatchLedgers {
    /// What a new watch of `holder` is charged: itself, and no memory yet.
    ///
    /// # Errors
    /// [`FsError::TooMany`].
    pub fn charge(&self, holder: &Holder) -> Result<(Share, Share)> {
        let watch = self.watches.take(holder).map_err(|_| FsError::TooMany)?;
        Ok((watch, self.bytes.account(holder).force(0)))
    }
}

impl Change {
    /// Memory that it takes while it is not reported, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let stream = self.stream.as_ref().map_or(0, |stream| stream.as_bytes().len());
        CHANGE_BYTES + self.path.as_bytes().len() + stream
    }
}

/// An answer on its way to its request, and the memory that it takes until it is there.
#[derive(Debug)]
pub(super) struct DueAnswer {
    pub answer: WatchAnswer,
    _memory: Share,
}

/// A watch, the requests that wait for it, and what its user is charged for its changes.
#[derive(Debug)]
pub(super) struct ChargedWatch {
    pub watch: Watch,
    pub waiting: Vec<(RequestId, oneshot::Sender<DueAnswer>)>,
    memory: Share,
}

impl ChargedWatch {
    pub fn new(watch: Watch, memory: Share) -> Self {
        Self { watch, waiting: Vec::new(), memory }
    }

    /// Charges the changes that it holds now. If the user may not have the memory, they are lost
    /// to this watch: its client is to look for itself.
    pub fn settle_memory(&mut self) {
        if self.memory.try_resize(self.watch.memory_bytes() as u64).is_err() {
            self.watch.handle_lost();
            self.memory.resize(0);
        }
    }

    /// The next answer that is due. Its memory is charged until it is dropped.
    pub fn poll_answer(&mut self) -> Option<(RequestId, DueAnswer)> {
        let (request, answer) = self.watch.poll_answer()?;
        let (before, after) = (self.memory.amount(), self.watch.memory_bytes() as u64);
        self.memory.resize(after);
        let taken = match answer {
            WatchAnswer::Changes(_) => before.saturating_sub(after),
            _ => 0,
        };
        let memory = self.memory.account().force(taken);
        Some((request, DueAnswer { answer, _memory: memory }))
    }
}

/// Whether both are charged to the same user.
pub(super) fn is_same_account(one: &Arc<Account>, other: &Arc<Account>) -> bool {
    // A holder has one account as long as anything is charged to it.
    Arc::ptr_eq(one, other)
}
