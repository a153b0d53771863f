//! Byte-range locks of one file. MS-FSA 2.1.4.10, 2.1.5.8, 2.1.5.9.
//!
//! A lock belongs to an open. Locks of one open do not merge, are given back
//! one by one with exactly their range, and bind their own open too. Those of a
//! [`LockOwner`] merge and split ([`owners`]); both kinds keep each other out.

mod owners;

use crate::OpenId;
use std::collections::VecDeque;

/// Bytes of a file. Empty ranges exist: they conflict with what strictly
/// contains their position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

impl Range {
    /// A range that does not wrap around.
    #[must_use]
    pub fn new(offset: u64, length: u64) -> Option<Self> {
        // The last byte must have an offset; one past the largest is fine.
        if length > 0 && offset.checked_add(length - 1).is_none() {
            return None;
        }
        Some(Self { offset, length })
    }

    /// All bytes from `offset` on that a file can have.
    #[must_use]
    pub fn to_end(offset: u64) -> Self {
        Self { offset, length: u64::MAX - offset }
    }

    /// Whether it is [`Range::to_end`].
    #[must_use]
    pub fn is_to_end(self) -> bool {
        self == Self::to_end(self.offset)
    }

    /// Offset of the last byte; only asked of ranges that are not empty.
    fn last(self) -> u64 {
        self.offset + (self.length - 1)
    }

    /// Whether two ranges have a byte in common, or an empty one lies strictly
    /// within the other. MS-FSA 2.1.4.10.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        match (self.length, other.length) {
            (0, 0) => false,
            (0, _) => self.offset > other.offset && self.offset <= other.last(),
            (_, 0) => other.offset > self.offset && other.offset <= self.last(),
            _ => self.offset <= other.last() && other.offset <= self.last(),
        }
    }
}

/// What a lock keeps others from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Everything.
    Exclusive,
    /// Writing.
    Shared,
}

/// A lock that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLock {
    /// Which bytes.
    pub range: Range,
    /// Against what.
    pub kind: LockKind,
}

/// Who has locks as POSIX has them, by a number that is unique in the process: an owner
/// of a client, whatever opens it locks by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockOwner(pub u64);

/// A lock that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHeld {
    /// What is locked.
    pub lock: RangeLock,
    /// By whom; none if an open has it as Windows has it.
    pub owner: Option<LockOwner>,
}

/// What became of a lock for an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerLocking {
    /// It has the lock.
    Granted,
    /// This one is in the way.
    Denied(LockHeld),
}

/// Why a lock cannot be had, or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRefusal {
    /// Another lock is in the way.
    Conflict,
    /// The range was not locked like this by this open; or the open that
    /// waited for it was closed.
    NotLocked,
    /// [`RangeLocks::LOCKS_MAX`] or [`RangeLocks::WAITS_MAX`] was reached.
    TooMany,
}

/// Number of a lock request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitId(pub u64);

/// What became of a request that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// It has the lock.
    Granted,
    /// It stands in line; [`RangeLocks::poll_decided`] will name it.
    Waits(WaitId),
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Whose.
    pub wait: WaitId,
    /// The lock, or why it will never be had.
    pub result: Result<(), LockRefusal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    open: OpenId,
    lock: RangeLock,
    /// Whose it is, beside the open by which it came; none for the open's own.
    owner: Option<LockOwner>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    wait: WaitId,
    open: OpenId,
    lock: RangeLock,
    /// Who is told that the lock can be had, and does not get it by that.
    owner: Option<LockOwner>,
}

/// The locks of one file, in the order they were granted, and those who wait.
#[derive(Debug, Default)]
pub struct RangeLocks {
    held: Vec<Held>,
    waiting: VecDeque<Waiting>,
    decided: VecDeque<Decided>,
    waits: u64,
}

impl RangeLocks {
    /// Locks of one file. A look at all of them takes some tens of microseconds.
    pub const LOCKS_MAX: usize = 32 * 1024;
    /// Requests that wait for one file.
    pub const WAITS_MAX: usize = 1024;

    /// Grants all locks, or none. Requests that wait are not asked: they go
    /// first only when a lock is given back.
    ///
    /// # Errors
    /// [`LockRefusal::Conflict`], also where two of `wanted` exclude each
    /// other; [`LockRefusal::TooMany`].
    pub fn handle_locks(&mut self, open: OpenId, wanted: &[RangeLock]) -> Result<(), LockRefusal> {
        let before = self.held.len();
        for lock in wanted {
            if let Err(refusal) = self.check(open, *lock) {
                // New ones are at the end: what was held before stays.
                self.held.truncate(before);
                return Err(refusal);
            }
            self.held.push(Held { open, lock: *lock, owner: None });
        }
        Ok(())
    }

    /// Grants a lock, or lets the request wait behind those that wait.
    ///
    /// # Errors
    /// [`LockRefusal::TooMany`].
    pub fn handle_lock_or_wait(
        &mut self,
        open: OpenId,
        wanted: RangeLock,
    ) -> Result<Locking, LockRefusal> {
        match self.handle_locks(open, &[wanted]) {
            Ok(()) => Ok(Locking::Granted),
            Err(LockRefusal::Conflict) if self.waiting.len() < Self::WAITS_MAX => {
                self.waits += 1;
                let wait = WaitId(self.waits);
                self.waiting.push_back(Waiting { wait, open, lock: wanted, owner: None });
                Ok(Locking::Waits(wait))
            }
            Err(_) => Err(LockRefusal::TooMany),
        }
    }

    /// Takes a request out of the line. False if it has been decided already:
    /// then the lock, if it got one, is the caller's to give back.
    pub fn handle_cancel(&mut self, wait: WaitId) -> bool {
        let at = self.waiting.iter().position(|w| w.wait == wait);
        at.map(|at| self.waiting.remove(at)).is_some()
    }

    /// Gives back one lock with exactly this range, the exclusive one first.
    ///
    /// # Errors
    /// [`LockRefusal::NotLocked`].
    pub fn handle_unlock(&mut self, open: OpenId, range: Range) -> Result<(), LockRefusal> {
        let exclusive = RangeLock { range, kind: LockKind::Exclusive };
        let shared = RangeLock { range, kind: LockKind::Shared };
        self.handle_release(open, exclusive).or_else(|_| self.handle_release(open, shared))
    }

    /// Gives back one lock with exactly this range and kind.
    ///
    /// # Errors
    /// [`LockRefusal::NotLocked`].
    pub fn handle_release(&mut self, open: OpenId, lock: RangeLock) -> Result<(), LockRefusal> {
        let held = Held { open, lock, owner: None };
        let at = self.held.iter().position(|h| *h == held).ok_or(LockRefusal::NotLocked)?;
        self.held.remove(at);
        self.decide(|waiting| waiting.range.overlaps(lock.range));
        Ok(())
    }

    /// Gives back all locks of an open and refuses its requests that wait.
    pub fn handle_close(&mut self, open: OpenId) {
        let before = self.held.len();
        self.held.retain(|h| h.open != open);
        let released = self.held.len() != before;
        let decided = &mut self.decided;
        self.waiting.retain(|w| {
            if w.open == open {
                decided.push_back(Decided { wait: w.wait, result: Err(LockRefusal::NotLocked) });
            }
            w.open != open
        });
        if released {
            self.decide(|_| true);
        }
    }

    /// What an open has locked, or waits for, is another's from now on.
    pub fn handle_moved(&mut self, from: OpenId, to: OpenId) {
        let held = self.held.iter_mut().map(|held| &mut held.open);
        let waiting = self.waiting.iter_mut().map(|waiting| &mut waiting.open);
        held.chain(waiting).filter(|open| **open == from).for_each(|open| *open = to);
    }

    /// The next request whose wait is over, in the order of deciding.
    pub fn poll_decided(&mut self) -> Option<Decided> {
        self.decided.pop_front()
    }

    /// Whether `open` may read the range.
    #[must_use]
    pub fn may_read(&self, open: OpenId, range: Range) -> bool {
        let forbids = |h: &Held| h.open != open && h.lock.kind == LockKind::Exclusive;
        range.length == 0 || !self.held.iter().any(|h| forbids(h) && h.lock.range.overlaps(range))
    }

    /// Whether `open` may write the range: its own shared locks forbid it too.
    #[must_use]
    pub fn may_write(&self, open: OpenId, range: Range) -> bool {
        let own = |h: &Held| h.open == open && h.owner.is_none();
        let forbids = |h: &Held| !own(h) || h.lock.kind == LockKind::Shared;
        range.length == 0 || !self.held.iter().any(|h| forbids(h) && h.lock.range.overlaps(range))
    }

    /// Whether an open has locks.
    #[must_use]
    pub fn has_of(&self, open: OpenId) -> bool {
        self.held.iter().any(|held| held.open == open)
    }

    /// Whether a lock begins before `offset`.
    #[must_use]
    pub fn has_before(&self, offset: u64) -> bool {
        self.held.iter().any(|held| held.lock.range.offset < offset)
    }

    /// The locks that are an open's own, in the order they were granted.
    pub fn of(&self, open: OpenId) -> impl Iterator<Item = RangeLock> + '_ {
        let own = move |held: &&Held| held.open == open && held.owner.is_none();
        self.held.iter().filter(own).map(|held| held.lock)
    }

    /// Whether there is no lock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn check(&self, open: OpenId, wanted: RangeLock) -> Result<(), LockRefusal> {
        if self.held.len() >= Self::LOCKS_MAX {
            return Err(LockRefusal::TooMany);
        }
        // Shared locks stack; an open may also put a shared lock over its own exclusive one.
        let in_the_way = |held: &Held| {
            held.lock.range.overlaps(wanted.range)
                && match (held.lock.kind, wanted.kind) {
                    (LockKind::Shared, LockKind::Shared) => false,
                    (LockKind::Exclusive, LockKind::Shared) => held.open != open,
                    (_, LockKind::Exclusive) => true,
                }
        };
        if self.held.iter().any(in_the_way) { Err(LockRefusal::Conflict) } else { Ok(()) }
    }

    /// Grants what waits and can be had now, first come first served, among
    /// those `concerned` by what was given back.
    fn decide(&mut self, concerned: impl Fn(&RangeLock) -> bool) {
        let mut at = 0;
        while let Some(&Waiting { wait, open, lock, owner }) = self.waiting.get(at) {
            let serve = |locks: &mut Self| match owner {
                Some(_) => locks.find(owner, lock).is_none(),
                None => locks.handle_locks(open, &[lock]).is_ok(),
            };
            if concerned(&lock) && serve(self) {
                self.waiting.remove(at);
                self.decided.push_back(Decided { wait, result: Ok(()) });
            } else {
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
