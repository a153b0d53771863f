//! Byte-range locks of one file. MS-FSA 2.1.4.10, 2.1.5.8, 2.1.5.9.
//!
//! Locks of an open do not merge, are released one by one with exactly their range, and also bind
//! their own open. Locks of a [`LockOwner`] merge and split ([`owners`]). Both kinds conflict with
//! each other.

mod index;
mod lock_table;
mod owners;

use crate::OpenId;
use lock_table::LockTable;
use std::collections::VecDeque;

/// Bytes of a file. An empty range conflicts with a lock that strictly contains its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Range {
    /// A range that does not wrap around.
    #[must_use]
    pub fn new(offset: u64, length: u64) -> Option<Self> {
        // The last byte must have an offset; one past the largest is valid.
        if length > 0 && offset.checked_add(length - 1).is_none() {
            return None;
        }
        Some(Self { offset, length })
    }

    /// All possible bytes from `offset` on.
    #[must_use]
    pub fn to_end(offset: u64) -> Self {
        Self { offset, length: u64::MAX - offset }
    }

    /// Whether it is [`Range::to_end`].
    #[must_use]
    pub fn is_to_end(self) -> bool {
        self == Self::to_end(self.offset)
    }

    /// Offset of the last byte of a non-empty range.
    fn last(self) -> u64 {
        self.offset + (self.length - 1)
    }

    /// Offset of the last byte, or the position of an empty range.
    fn end(self) -> u64 {
        self.offset + self.length.saturating_sub(1)
    }

    /// Whether the ranges overlap or adjoin.
    fn touches(self, other: Self) -> bool {
        self.offset <= other.end().saturating_add(1) && other.offset <= self.end().saturating_add(1)
    }

    /// Whether the ranges overlap or adjoin, and one range can hold both: none holds 2^64 bytes.
    fn merges(self, other: Self) -> bool {
        let (first, last) = (self.offset.min(other.offset), self.end().max(other.end()));
        self.touches(other) && last - first < u64::MAX
    }

    /// The smallest range with both, except that the length saturates.
    fn hull(self, other: Self) -> Self {
        let (offset, end) = (self.offset.min(other.offset), self.end().max(other.end()));
        Self { offset, length: (end - offset).saturating_add(1) }
    }

    /// Whether two ranges share a byte, or an empty one lies strictly within the other. MS-FSA
    /// 2.1.4.10.
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

/// Kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum LockKind {
    /// Excludes reads and writes of others.
    Exclusive,
    /// Excludes writes.
    Shared,
}

/// A lock request or lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLock {
    /// Range of the lock.
    pub range: Range,
    /// Kind of the lock.
    pub kind: LockKind,
}

/// POSIX lock owner: a number that is unique in the process. It stands for one owner of a client,
/// whichever opens it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockOwner(pub u64);

/// A conflicting lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConflictingLock {
    /// Range and kind of the lock.
    pub lock: RangeLock,
    /// Its owner; none for a lock of an open (Windows).
    pub owner: Option<LockOwner>,
}

/// Result of a lock request for an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerLockOutcome {
    /// The lock was granted.
    Granted,
    /// The lock conflicts with this one.
    Denied(ConflictingLock),
}

/// Reason why a lock cannot be granted or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRefusal {
    /// Another lock conflicts.
    Conflict,
    /// This open has no such lock, or the waiting open was closed.
    NotLocked,
    /// [`RangeLocks::LOCKS_MAX`] or [`RangeLocks::WAITS_MAX`] is reached.
    TooMany,
}

/// Identifier of a waiting lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitId(pub u64);

/// Result of a request that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockProgress {
    /// The lock was granted.
    Granted,
    /// The request waits; [`RangeLocks::poll_decision`] will report it.
    Waits(WaitId),
}

/// End of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockDecision {
    /// Identifier of the request.
    pub wait: WaitId,
    /// The lock was granted, or the reason why it never will be.
    pub result: Result<(), LockRefusal>,
}

#[derive(Clone, Copy, Debug)]
struct WaitingLockRequest {
    wait: WaitId,
    open: OpenId,
    lock: RangeLock,
    /// Owner to notify that the lock is available; the notification does not grant it.
    owner: Option<LockOwner>,
}

/// Reports that the caller has not polled yet.
#[derive(Debug, Default)]
struct PendingReports {
    decided: VecDeque<LockDecision>,
    /// Opens whose number of ranges has changed.
    recounted: Vec<OpenId>,
}

/// Locks of one file, and waiting requests.
#[derive(Debug, Default)]
pub struct RangeLocks {
    /// None without locks, as for most files.
    held: Option<Box<LockTable>>,
    waiting: Vec<WaitingLockRequest>,
    /// None without reports.
    reports: Option<Box<PendingReports>>,
    waits: u64,
    /// Waiting requests examined, and steps in dropped indexes.
    #[cfg(test)]
    steps: u64,
}

impl RangeLocks {
    /// Limit of locks of one file and requests that wait for one.
    pub const LOCKS_MAX: usize = 32 * 1024;
    /// Limit of waiting requests for one file.
    pub const WAITS_MAX: usize = 1024;

    /// Grants all locks, or none. It passes waiting requests, which precede only when a lock is
    /// released.
    ///
    /// # Errors
    /// [`LockRefusal::Conflict`], also between two of `wanted`; [`LockRefusal::TooMany`].
    pub fn handle_locks(&mut self, open: OpenId, wanted: &[RangeLock]) -> Result<(), LockRefusal> {
        for (at, lock) in wanted.iter().enumerate() {
            if let Err(refusal) = self.check(open, *lock) {
                for lock in &wanted[..at] {
                    self.remove(open, *lock);
                }
                return Err(refusal);
            }
            self.held.get_or_insert_default().insert(open, *lock);
        }
        self.recount(open);
        Ok(())
    }

    /// Grants a lock, or queues the request behind waiting ones.
    ///
    /// # Errors
    /// [`LockRefusal::TooMany`].
    pub fn handle_lock_or_wait(
        &mut self,
        open: OpenId,
        wanted: RangeLock,
    ) -> Result<LockProgress, LockRefusal> {
        match self.handle_locks(open, &[wanted]) {
            Ok(()) => Ok(LockProgress::Granted),
            Err(LockRefusal::Conflict) => {
                self.queue_request(open, None, wanted).map(LockProgress::Waits)
            }
            Err(_) => Err(LockRefusal::TooMany),
        }
    }

    /// Withdraws a waiting request. Returns false if it was decided already; then the caller must
    /// release a granted lock.
    pub fn handle_cancel(&mut self, wait: WaitId) -> bool {
        let Ok(at) = self.waiting.binary_search_by_key(&wait, |waiting| waiting.wait) else {
            return false;
        };
        let open = self.waiting.remove(at).open;
        self.recount(open);
        true
    }

    /// Releases one lock with exactly this range, an exclusive one first.
    ///
    /// # Errors
    /// [`LockRefusal::NotLocked`].
    pub fn handle_unlock(&mut self, open: OpenId, range: Range) -> Result<(), LockRefusal> {
        self.handle_unlocks(open, &[range])
    }

    /// Releases one lock for each of these ranges, an exclusive one first, up to the first that is
    /// not locked. Waiting requests are decided once, afterwards.
    ///
    /// # Errors
    /// [`LockRefusal::NotLocked`].
    pub fn handle_unlocks(&mut self, open: OpenId, ranges: &[Range]) -> Result<(), LockRefusal> {
        let unlock = |locks: &mut Self, range| {
            let of = |kind| RangeLock { range, kind };
            locks.remove(open, of(LockKind::Exclusive)) || locks.remove(open, of(LockKind::Shared))
        };
        let failed = ranges.iter().position(|range| !unlock(self, *range));
        self.end_release(open, ranges[..failed.unwrap_or(ranges.len())].iter().copied());
        if failed.is_some() { Err(LockRefusal::NotLocked) } else { Ok(()) }
    }

    /// Releases those of the locks that exist, with exactly their ranges and kinds. Waiting
    /// requests are decided once, afterwards.
    pub fn handle_releases(&mut self, open: OpenId, locks: &[RangeLock]) {
        let released = locks.iter().filter(|lock| self.remove(open, **lock));
        let released: Vec<Range> = released.map(|lock| lock.range).collect();
        self.end_release(open, released.into_iter());
    }

    /// Releases all locks of an open and refuses its waiting requests.
    pub fn handle_close(&mut self, open: OpenId) {
        let released = self.has_of(open);
        if let Some(held) = self.held.as_mut().filter(|_| released) {
            held.remove_all_of(open);
        }
        let refused = self.waiting.extract_if(.., |waiting| waiting.open == open);
        let refused: Vec<LockDecision> = refused
            .map(|w| LockDecision { wait: w.wait, result: Err(LockRefusal::NotLocked) })
            .collect();
        if released || !refused.is_empty() {
            self.reports().decided.extend(refused);
            self.recount(open);
        }
        if released {
            self.grant_waiting(Range::to_end(0));
        }
    }

    /// Transfers locks and waiting requests of an open to another.
    pub fn handle_transfer(&mut self, from: OpenId, to: OpenId) {
        if self.count_of(from) == 0 {
            return;
        }
        if let Some(held) = &mut self.held {
            held.move_all(from, to);
        }
        let waiting = self.waiting.iter_mut().filter(|waiting| waiting.open == from);
        waiting.for_each(|waiting| waiting.open = to);
        self.recount(from);
        self.recount(to);
        // A conflicting lock may belong to the same open now.
        self.grant_waiting(Range::to_end(0));
    }

    /// The next request whose wait has ended, in order of decision.
    pub fn poll_decision(&mut self) -> Option<LockDecision> {
        let next = self.reports.as_mut()?.decided.pop_front();
        self.drop_empty_reports();
        next
    }

    /// The next open whose [`RangeLocks::count_of`] may have changed.
    pub fn poll_count_change(&mut self) -> Option<OpenId> {
        let next = self.reports.as_mut()?.recounted.pop();
        self.drop_empty_reports();
        next
    }

    /// Number of ranges that an open has locked or waits for.
    #[must_use]
    pub fn count_of(&self, open: OpenId) -> usize {
        let held = self.held.as_ref().map_or(0, |held| held.count_of(open));
        held + self.waiting.iter().filter(|waiting| waiting.open == open).count()
    }

    /// Whether `open` may read the range.
    #[must_use]
    pub fn may_read(&self, open: OpenId, range: Range) -> bool {
        let Some(held) = self.held.as_ref().filter(|_| range.length > 0) else { return true };
        !held.meets(LockKind::Exclusive, range, Some(open))
    }

    /// Whether `open` may write the range: its own shared locks forbid it, too.
    #[must_use]
    pub fn may_write(&self, open: OpenId, range: Range) -> bool {
        let Some(held) = self.held.as_ref().filter(|_| range.length > 0) else { return true };
        !held.meets(LockKind::Exclusive, range, Some(open))
            && !held.meets(LockKind::Shared, range, None)
    }

    /// Whether an open has locks.
    #[must_use]
    pub fn has_of(&self, open: OpenId) -> bool {
        self.held.as_ref().is_some_and(|held| held.count_of(open) > 0)
    }

    /// Whether a lock begins before `offset`.
    #[must_use]
    pub fn has_before(&self, offset: u64) -> bool {
        self.held.as_ref().is_some_and(|held| held.has_before(offset))
    }

    /// The open's own locks, in an order in which they can be restored.
    pub fn of(&self, open: OpenId) -> impl Iterator<Item = RangeLock> + '_ {
        self.held.iter().flat_map(move |held| held.of(open))
    }

    /// Whether there is no lock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    fn check(&self, open: OpenId, wanted: RangeLock) -> Result<(), LockRefusal> {
        self.check_limit(1)?;
        match &self.held {
            Some(held) if !held.admits(open, wanted) => Err(LockRefusal::Conflict),
            _ => Ok(()),
        }
    }

    /// Checks the limit for more locks; waiting requests count already.
    fn check_limit(&self, more: usize) -> Result<(), LockRefusal> {
        let held = self.held.as_ref().map_or(0, |held| held.len());
        let fits = held + self.waiting.len() + more <= Self::LOCKS_MAX;
        if fits { Ok(()) } else { Err(LockRefusal::TooMany) }
    }

    fn queue_request(
        &mut self,
        open: OpenId,
        owner: Option<LockOwner>,
        lock: RangeLock,
    ) -> Result<WaitId, LockRefusal> {
        if self.waiting.len() >= Self::WAITS_MAX {
            return Err(LockRefusal::TooMany);
        }
        self.check_limit(1)?;
        self.waits += 1;
        let wait = WaitId(self.waits);
        self.waiting.push(WaitingLockRequest { wait, open, lock, owner });
        self.recount(open);
        Ok(wait)
    }

    fn remove(&mut self, open: OpenId, lock: RangeLock) -> bool {
        let is_there = self.held.as_mut().is_some_and(|held| held.remove(open, lock));
        self.drop_empty();
        is_there
    }

    fn drop_empty(&mut self) {
        if self.held.as_ref().is_some_and(|held| held.len() == 0) {
            #[cfg(test)]
            {
                self.steps += self.held.as_ref().map_or(0, |held| held.steps());
            }
            self.held = None;
        }
    }

    fn recount(&mut self, open: OpenId) {
        let recounted = &mut self.reports().recounted;
        if recounted.last() != Some(&open) {
            recounted.push(open);
        }
    }

    fn reports(&mut self) -> &mut PendingReports {
        self.reports.get_or_insert_default()
    }

    fn drop_empty_reports(&mut self) {
        let is_old =
            |news: &mut Box<PendingReports>| news.decided.is_empty() && news.recounted.is_empty();
        drop(self.reports.take_if(is_old));
    }

    fn end_release(&mut self, open: OpenId, ranges: impl Iterator<Item = Range>) {
        if let Some(released) = ranges.reduce(|one, other| one.hull(other)) {
            self.grant_waiting(released);
            self.recount(open);
        }
    }

    /// Grants waiting requests in order of arrival, among those that adjoin the released range.
    fn grant_waiting(&mut self, released: Range) {
        self.drop_empty();
        let before = std::mem::take(&mut self.waiting);
        #[cfg(test)]
        {
            self.steps += before.len() as u64;
        }
        let mut left = Vec::with_capacity(before.len());
        for waiting in before {
            if waiting.lock.range.touches(released) && self.try_grant(&waiting) {
                self.reports()
                    .decided
                    .push_back(LockDecision { wait: waiting.wait, result: Ok(()) });
            } else {
                left.push(waiting);
            }
        }
        self.waiting = left;
    }

    #[cfg(test)]
    fn steps(&self) -> u64 {
        self.steps + self.held.as_ref().map_or(0, |held| held.steps())
    }

    fn try_grant(
        &mut self,
        WaitingLockRequest { open, lock, owner, .. }: &WaitingLockRequest,
    ) -> bool {
        let is_free = match &self.held {
            None => true,
            Some(held) if owner.is_some() => held.find(*owner, *lock).is_none(),
            Some(held) => held.admits(*open, *lock),
        };
        if is_free && owner.is_none() {
            self.held.get_or_insert_default().insert(*open, *lock);
        }
        if is_free && owner.is_some() {
            self.recount(*open);
        }
        is_free
    }
}

#[cfg(test)]
mod tests;
