//! Locks as POSIX has them: what an owner locks takes the place of what it had of those
//! bytes, pieces of one kind that touch become one, and any part can be given back.
//! RFC 8881 9.1 to 9.6, 18.10.
//!
//! Among owners they are agreements: they keep nobody from reading and writing but those
//! who lock as Windows does, for whom every lock counts.

use super::{
    Held, LockHeld, LockKind, LockOwner, LockRefusal, OwnerLocking, Range, RangeLock, RangeLocks,
    WaitId, Waiting,
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
        self.held.retain(|held| {
            let is_like = held.owner == Some(owner)
                && held.open == open
                && held.lock.kind == wanted.kind
                && touches(held.lock.range, range);
            if is_like {
                range = hull(held.lock.range, range);
            }
            !is_like
        });
        let lock = RangeLock { range, kind: wanted.kind };
        self.held.push(Held { open, lock, owner: Some(owner) });
        if lost && wanted.kind == LockKind::Shared {
            self.decide(|waiting| waiting.range.overlaps(wanted.range));
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
        self.need_room(1)?;
        if self.carve(owner, range) {
            self.decide(|waiting| waiting.range.overlaps(range));
        }
        Ok(())
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
        if self.waiting.len() >= Self::WAITS_MAX {
            return Err(LockRefusal::TooMany);
        }
        self.waits += 1;
        let wait = WaitId(self.waits);
        self.waiting.push_back(Waiting { wait, open, lock: wanted, owner: Some(owner) });
        // It may have become free since it was asked for.
        self.decide(|lock| *lock == wanted);
        Ok(wait)
    }

    /// The lock that is in the way of one for `owner`, or for somebody who has none.
    #[must_use]
    pub fn find(&self, owner: Option<LockOwner>, wanted: RangeLock) -> Option<LockHeld> {
        let is_in_the_way = |held: &&Held| {
            let is_own = owner.is_some() && held.owner == owner;
            let both_share = held.lock.kind == LockKind::Shared && wanted.kind == LockKind::Shared;
            !is_own && !both_share && held.lock.range.overlaps(wanted.range)
        };
        let held = self.held.iter().find(is_in_the_way)?;
        Some(LockHeld { lock: held.lock, owner: held.owner })
    }

    /// Whether an owner has locks.
    #[must_use]
    pub fn has_of_owner(&self, owner: LockOwner) -> bool {
        self.held.iter().any(|held| held.owner == Some(owner))
    }

    /// Whether what `open` reads or writes is met by a lock that is an open's own: for
    /// opens whose locks are an owner's, which are agreements among them.
    #[must_use]
    pub fn may_use_beside_owners(&self, range: Range, writes: bool) -> bool {
        let forbids =
            |held: &Held| held.owner.is_none() && (writes || held.lock.kind == LockKind::Exclusive);
        range.length == 0 || !self.held.iter().any(|h| forbids(h) && h.lock.range.overlaps(range))
    }

    fn need_room(&self, more: usize) -> Result<(), LockRefusal> {
        let fits = self.held.len() + more <= Self::LOCKS_MAX;
        if fits { Ok(()) } else { Err(LockRefusal::TooMany) }
    }

    /// Takes a range out of what an owner has. True if it had any of it.
    fn carve(&mut self, owner: LockOwner, range: Range) -> bool {
        let is_met = |held: &Held| {
            held.owner == Some(owner) && range.length > 0 && held.lock.range.overlaps(range)
        };
        let met: Vec<Held> = self.held.extract_if(.., |held| is_met(held)).collect();
        for held in &met {
            let pieces = [before(held.lock.range, range), after(held.lock.range, range)];
            for range in pieces.into_iter().flatten() {
                self.held.push(Held { lock: RangeLock { range, ..held.lock }, ..*held });
            }
        }
        !met.is_empty()
    }
}

/// What of `held` comes before `range`.
fn before(held: Range, range: Range) -> Option<Range> {
    let length = range.offset.checked_sub(held.offset).filter(|length| *length > 0)?;
    Some(Range { offset: held.offset, length })
}

/// What of `held` comes after `range`.
fn after(held: Range, range: Range) -> Option<Range> {
    let length = held.last().checked_sub(range.last()).filter(|length| *length > 0)?;
    Some(Range { offset: range.last() + 1, length })
}

/// Whether no byte is between the two.
fn touches(one: Range, other: Range) -> bool {
    one.offset <= other.last().saturating_add(1) && other.offset <= one.last().saturating_add(1)
}

/// All bytes of two that touch: no more than an offset can count, but for the last one.
fn hull(one: Range, other: Range) -> Range {
    let (offset, last) = (one.offset.min(other.offset), one.last().max(other.last()));
    Range { offset, length: (last - offset).saturating_add(1) }
}

#[cfg(test)]
mod tests;
