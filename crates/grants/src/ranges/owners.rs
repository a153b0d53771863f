//! POSIX locks. A new lock replaces the owner's locks in its range, adjoining locks of one kind
//! merge, and any part can be released. RFC 8881 9.1 to 9.6, 18.10.
//!
//! Between owners these locks are advisory: they block reads and writes of Windows opens only, for
//! which every lock counts.

use super::lock_table::OwnedRange;
use super::{
    ConflictingLock, LockKind, LockOwner, LockRefusal, OwnerLockOutcome, Range, RangeLock,
    RangeLocks, WaitId,
};
use crate::OpenId;

impl RangeLocks {
    /// Locks a range for an owner, through `open`, whose close releases it.
    ///
    /// # Errors
    /// [`LockRefusal::TooMany`]; [`LockRefusal::NotLocked`] for an empty range.
    pub fn handle_owner_lock(
        &mut self,
        open: OpenId,
        owner: LockOwner,
        wanted: RangeLock,
    ) -> Result<OwnerLockOutcome, LockRefusal> {
        if wanted.range.length == 0 {
            return Err(LockRefusal::NotLocked);
        }
        if let Some(held) = self.find(Some(owner), wanted) {
            return Ok(OwnerLockOutcome::Denied(held));
        }
        // The new lock, and the two parts of a lock that it may split.
        self.check_limit(2)?;
        let lost = self.remove_owner_range(owner, wanted.range);
        let mut range = wanted.range;
        while let Some((first, like)) = self.find_adjoining(open, owner, range, wanted.kind) {
            let held = self.held.get_or_insert_default();
            held.remove_piece(owner, first);
            range = range.hull(like);
        }
        let piece = OwnedRange { last: range.last(), kind: wanted.kind, open };
        self.held.get_or_insert_default().insert_piece(owner, range.offset, piece);
        self.recount(open);
        if lost {
            // Also for an exclusive lock: an empty range at its former edges is free now.
            self.grant_waiting(wanted.range);
        }
        Ok(OwnerLockOutcome::Granted)
    }

    /// Releases the owner's locks in a range, through any open.
    ///
    /// # Errors
    /// [`LockRefusal::TooMany`] if a lock would split beyond the limit.
    pub fn handle_owner_unlock(
        &mut self,
        owner: LockOwner,
        range: Range,
    ) -> Result<(), LockRefusal> {
        if self.splits(owner, range) {
            self.check_limit(1)?;
        }
        if self.remove_owner_range(owner, range) {
            self.grant_waiting(range);
        }
        Ok(())
    }

    /// Whether releasing a range splits a lock.
    #[must_use]
    pub fn splits(&self, owner: LockOwner, range: Range) -> bool {
        let held = self.held.as_ref().filter(|_| range.length > 0);
        let piece = held.and_then(|held| held.piece_before(owner, range.offset));
        piece.is_some_and(|(first, piece)| first < range.offset && piece.last > range.last())
    }

    /// Queues a denied request: [`RangeLocks::poll_decision`] will report that the lock is
    /// available, without granting it.
    ///
    /// # Errors
    /// [`LockRefusal::TooMany`].
    pub fn handle_owner_wait(
        &mut self,
        open: OpenId,
        owner: LockOwner,
        wanted: RangeLock,
    ) -> Result<WaitId, LockRefusal> {
        let wait = self.queue_request(open, Some(owner), wanted)?;
        // The range may have become free since the denial.
        if self.find(Some(owner), wanted).is_none() {
            self.grant_waiting(wanted.range);
        }
        Ok(wait)
    }

    /// A lock that conflicts with one for `owner`, or for any owner if none.
    #[must_use]
    pub fn find(&self, owner: Option<LockOwner>, wanted: RangeLock) -> Option<ConflictingLock> {
        self.held.as_ref()?.find(owner, wanted)
    }

    /// Whether an owner has locks.
    #[must_use]
    pub fn has_of_owner(&self, owner: LockOwner) -> bool {
        self.held.as_ref().is_some_and(|held| held.has_of_owner(owner))
    }

    /// Whether no open's own lock conflicts with access by an NFS open, whose owners' locks are
    /// advisory.
    #[must_use]
    pub fn may_use_beside_owners(&self, range: Range, writes: bool) -> bool {
        let Some(held) = self.held.as_ref().filter(|_| range.length > 0) else { return true };
        let is_free = |kind| !held.meets_open(kind, range, None);
        is_free(LockKind::Exclusive) && (!writes || is_free(LockKind::Shared))
    }

    /// Removes a range from the owner's locks. Returns true if it held any of it.
    fn remove_owner_range(&mut self, owner: LockOwner, range: Range) -> bool {
        let mut has_any = false;
        while let Some((first, piece)) = self.find_piece(owner, range) {
            has_any = true;
            self.recount(piece.open);
            let held = self.held.get_or_insert_default();
            held.remove_piece(owner, first);
            if first < range.offset {
                held.insert_piece(owner, first, OwnedRange { last: range.offset - 1, ..piece });
            }
            if piece.last > range.last() {
                held.insert_piece(owner, range.last() + 1, piece);
            }
        }
        self.drop_empty();
        has_any
    }

    /// A lock of the owner that shares a byte with the range.
    fn find_piece(&self, owner: LockOwner, range: Range) -> Option<(u64, OwnedRange)> {
        let held = self.held.as_ref().filter(|_| range.length > 0)?;
        let before = held.piece_before(owner, range.offset);
        let before = before.filter(|(_, piece)| piece.last >= range.offset);
        let next = || held.piece_from(owner, range.offset);
        before.or_else(|| next().filter(|(first, _)| *first <= range.last()))
    }

    /// A lock of the owner, of the same kind and open, that adjoins the range and that can merge
    /// with it: its first byte and its range.
    fn find_adjoining(
        &self,
        open: OpenId,
        owner: LockOwner,
        range: Range,
        kind: LockKind,
    ) -> Option<(u64, Range)> {
        let held = self.held.as_ref()?;
        let beside = [held.piece_before(owner, range.offset), held.piece_from(owner, range.offset)];
        beside.into_iter().flatten().find_map(|(first, piece)| {
            let whole = Range { offset: first, length: piece.last - first + 1 };
            let is_like = piece.open == open && piece.kind == kind && whole.merges(range);
            is_like.then_some((first, whole))
        })
    }
}

#[cfg(test)]
mod tests;
