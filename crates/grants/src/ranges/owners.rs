//! Locks as POSIX has them: what an owner locks takes the place of what it had of those
//! bytes, pieces of one kind that touch become one, and any part can be given back.
//! RFC 8881 9.1 to 9.6, 18.10.
//!
//! Among owners they are agreements: they keep nobody from reading and writing but those
//! who lock as Windows does, for whom every lock counts.

use super::held::Piece;
use super::{
    LockHeld, LockKind, LockOwner, LockRefusal, OwnerLocking, Range, RangeLock, RangeLocks, WaitId,
};
use crate::OpenId;

impl RangeLocks {
    /// Locks a range for an owner, by `open`, with which the lock goes.
    ///
    /// # Errors
    /// [`LockRefusal::TooMany`]; [`LockRefusal::NotLocked`] for an empty range.
    pub fn handle_owner_lock(
        &mut self,
        open: OpenId,
        owner: LockOwner,
        wanted: RangeLock,
    ) -> Result<OwnerLocking, LockRefusal> {
        if wanted.range.length == 0 {
            return Err(LockRefusal::NotLocked);
        }
        if let Some(held) = self.find(Some(owner), wanted) {
            return Ok(OwnerLocking::Denied(held));
        }
        // The new one, and two pieces of one that it is put into.
        self.need_room(2)?;
        let lost = self.carve(owner, wanted.range);
        let mut range = wanted.range;
        while let Some((first, like)) = self.find_like(open, owner, range, wanted.kind) {
            let held = self.held.get_or_insert_default();
            held.remove_piece(owner, first);
            range = range.hull(like);
        }
        let piece = Piece { last: range.last(), kind: wanted.kind, open };
        self.held.get_or_insert_default().insert_piece(owner, range.offset, piece);
        self.recount(open);
        if lost {
            // Also where it is exclusive now: at its edges an empty range is met no more.
            self.decide(wanted.range);
        }
        Ok(OwnerLocking::Granted)
    }

    /// Gives back what an owner has of a range, by whatever open it came.
    ///
    /// # Errors
    /// [`LockRefusal::TooMany`] if a lock would become two, and there may be no more.
    pub fn handle_owner_unlock(
        &mut self,
        owner: LockOwner,
        range: Range,
    ) -> Result<(), LockRefusal> {
        if self.splits(owner, range) {
            self.need_room(1)?;
        }
        if self.carve(owner, range) {
            self.decide(range);
        }
        Ok(())
    }

    /// Whether giving back a range makes two locks of one.
    #[must_use]
    pub fn splits(&self, owner: LockOwner, range: Range) -> bool {
        let held = self.held.as_ref().filter(|_| range.length > 0);
        let piece = held.and_then(|held| held.piece_before(owner, range.offset));
        piece.is_some_and(|(first, piece)| first < range.offset && piece.last > range.last())
    }

    /// A place in line for a lock that could not be had: [`RangeLocks::poll_decided`]
    /// will say that it can be, and nothing is locked by that.
    ///
    /// # Errors
    /// [`LockRefusal::TooMany`].
    pub fn handle_owner_wait(
        &mut self,
        open: OpenId,
        owner: LockOwner,
        wanted: RangeLock,
    ) -> Result<WaitId, LockRefusal> {
        let wait = self.enter_line(open, Some(owner), wanted)?;
        // It may have become free since it was asked for.
        if self.find(Some(owner), wanted).is_none() {
            self.decide(wanted.range);
        }
        Ok(wait)
    }

    /// A lock that is in the way of one for `owner`, or for somebody who has none.
    #[must_use]
    pub fn find(&self, owner: Option<LockOwner>, wanted: RangeLock) -> Option<LockHeld> {
        self.held.as_ref()?.find(owner, wanted)
    }

    /// Whether an owner has locks.
    #[must_use]
    pub fn has_of_owner(&self, owner: LockOwner) -> bool {
        self.held.as_ref().is_some_and(|held| held.has_of_owner(owner))
    }

    /// Whether what `open` reads or writes is met by a lock that is an open's own: for
    /// opens whose locks are an owner's, which are agreements among them.
    #[must_use]
    pub fn may_use_beside_owners(&self, range: Range, writes: bool) -> bool {
        let Some(held) = self.held.as_ref().filter(|_| range.length > 0) else { return true };
        let is_free = |kind| !held.meets_open(kind, range, None);
        is_free(LockKind::Exclusive) && (!writes || is_free(LockKind::Shared))
    }

    /// Takes a range out of what an owner has. True if it had any of it.
    fn carve(&mut self, owner: LockOwner, range: Range) -> bool {
        let mut has_any = false;
        while let Some((first, piece)) = self.find_piece(owner, range) {
            has_any = true;
            self.recount(piece.open);
            let held = self.held.get_or_insert_default();
            held.remove_piece(owner, first);
            if first < range.offset {
                held.insert_piece(owner, first, Piece { last: range.offset - 1, ..piece });
            }
            if piece.last > range.last() {
                held.insert_piece(owner, range.last() + 1, piece);
            }
        }
        self.drop_empty();
        has_any
    }

    /// A piece of an owner that has a byte of a range.
    fn find_piece(&self, owner: LockOwner, range: Range) -> Option<(u64, Piece)> {
        let held = self.held.as_ref().filter(|_| range.length > 0)?;
        let before = held.piece_before(owner, range.offset);
        let before = before.filter(|(_, piece)| piece.last >= range.offset);
        let next = || held.piece_from(owner, range.offset);
        before.or_else(|| next().filter(|(first, _)| *first <= range.last()))
    }

    /// A piece of an owner that touches a range of which it has no byte, of the same kind and by
    /// the same open: where it begins, and all of it.
    fn find_like(
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
            let is_like = piece.open == open && piece.kind == kind && whole.touches(range);
            is_like.then_some((first, whole))
        })
    }
}

#[cfg(test)]
mod tests;
