//! Ledgers for watches, and for the memory of unreported changes, by user.

use super::change::{WatchAnswer, WatchChange};
use super::state::{RequestId, WatchState};
use futures_channel::oneshot;
use limits::{Ledger, LedgerAccount, LedgerHolder, ResourceCharge};
use std::sync::Arc;
use vfs::{FsError, Result};

/// Limit of watches over all users. One user may have as many as would remain free. Each takes half
/// a kilobyte besides its changes.
pub const WATCHES_MAX: usize = 65_536;
/// Watches reserved for each user while the total lasts.
const WATCHES_FLOOR: u64 = 16;
/// Limit of watches of one directory by one user: each change below it is matched against all of
/// them. Clients with several connections have thousands.
pub const WATCHES_PER_DIRECTORY_MAX: usize = 4096;
/// Memory of all unreported changes, in bytes: enough for 512 full watches, since a change takes
/// about four times its size in a reply.
const CHANGES_BYTES_MAX: u64 = 128 << 20;
/// Memory of changes reserved for each user while the total lasts: one watch's.
const CHANGES_BYTES_FLOOR: u64 = 256 * 1024;
/// Memory of a change besides its names: its entry in a list that grows by doubling, and the
/// allocator's overhead for two names.
const CHANGE_BYTES: usize = 2 * size_of::<WatchChange>() + 2 * 16;

/// Ledgers of watches and of their memory.
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
    /// Charges a new watch of `holder`, with no memory yet.
    ///
    /// # Errors
    /// [`FsError::TooMany`].
    pub fn charge(&self, holder: &LedgerHolder) -> Result<(ResourceCharge, ResourceCharge)> {
        let watch = self.watches.take(holder).map_err(|_| FsError::TooMany)?;
        Ok((watch, self.bytes.account(holder).force(0)))
    }
}

impl WatchChange {
    /// Memory of an unreported change, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let stream = self.stream.as_ref().map_or(0, |stream| stream.as_bytes().len());
        CHANGE_BYTES + self.path.as_bytes().len() + stream
    }
}

/// An answer on its way to its request, with the charge for its memory.
#[derive(Debug)]
pub(super) struct DueAnswer {
    pub answer: WatchAnswer,
    _memory: ResourceCharge,
}

/// A watch with its outstanding requests and the charge for its changes.
#[derive(Debug)]
pub(super) struct ChargedWatch {
    pub watch: WatchState,
    pub waiting: Vec<(RequestId, oneshot::Sender<DueAnswer>)>,
    memory: ResourceCharge,
}

impl ChargedWatch {
    pub fn new(watch: WatchState, memory: ResourceCharge) -> Self {
        Self { watch, waiting: Vec::new(), memory }
    }

    /// Charges the buffered changes. If the user's share does not suffice they are lost, and the
    /// client must enumerate.
    pub fn settle_memory(&mut self) {
        if self.memory.try_resize(self.watch.memory_bytes() as u64).is_err() {
            self.watch.handle_lost();
            self.memory.resize(0);
        }
    }

    /// The next due answer. Its memory stays charged until it is dropped.
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

/// Whether both charge the same user.
pub(super) fn is_same_account(one: &Arc<LedgerAccount>, other: &Arc<LedgerAccount>) -> bool {
    // A holder has one account while it is charged for anything.
    Arc::ptr_eq(one, other)
}
