//! Byte ranges. MS-FSA 2.1.4.10, 2.1.5.8.

use super::{Cells, OpId, ReferenceFile};

/// A locked range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelLock {
    /// Its open.
    pub open: OpId,
    /// Its cells.
    pub cells: Cells,
    /// Exclusive lock.
    pub exclusive: bool,
}

impl ReferenceFile {
    /// True if a lock conflicts with the present ones.
    #[must_use]
    pub fn is_locked_against(&self, wanted: &ModelLock) -> bool {
        self.locks.iter().any(|held| {
            held.cells.overlaps(wanted.cells)
                && match (held.exclusive, wanted.exclusive) {
                    (false, false) => false,
                    // An open may take a shared lock over its own exclusive one.
                    (true, false) => held.open != wanted.open,
                    (_, true) => true,
                }
        })
    }

    pub(super) fn lock(&mut self, lock: ModelLock) {
        self.locks.push(lock);
        self.locks.sort_unstable();
    }

    /// Unlocks one lock of exactly this range, an exclusive one first.
    pub(super) fn unlock(&mut self, open: OpId, cells: Cells) -> bool {
        let of = |exclusive| {
            self.locks.iter().position(|held| *held == ModelLock { open, cells, exclusive })
        };
        let Some(at) = of(true).or_else(|| of(false)) else { return false };
        self.locks.remove(at);
        true
    }

    pub(super) fn release(&mut self, lock: &ModelLock) {
        if let Some(at) = self.locks.iter().position(|held| held == lock) {
            self.locks.remove(at);
        }
    }

    pub(super) fn may_read(&self, open: OpId, cells: Cells) -> bool {
        !self.locks.iter().any(|l| l.open != open && l.exclusive && l.cells.overlaps(cells))
    }

    /// An open's own shared locks prevent writes, too.
    pub(super) fn may_write(&self, open: OpId, cells: Cells) -> bool {
        cells.count == 0
            || !self
                .locks
                .iter()
                .any(|l| (l.open != open || !l.exclusive) && l.cells.overlaps(cells))
    }
}
