//! Locks of one file, with conflict lookups.
//!
//! Separate indexes hold exclusive, shared and empty locks, and those of opens and of owners. Each
//! lookup asks whether any interval of an index, except one holder's, meets a range; see
//! [`IntervalIndex`].

use super::index::{Interval, IntervalIndex};
use super::{ConflictingLock, LockKind, LockOwner, Range, RangeLock};
use crate::OpenId;
use std::collections::BTreeMap;

/// Number of an open's ranges, and bounds of the first bytes of its own locks.
#[derive(Clone, Copy, Debug)]
struct OpenRanges {
    count: usize,
    first: u64,
    last: u64,
}

impl OpenRanges {
    const NONE: Self = Self { count: 0, first: u64::MAX, last: 0 };
}

/// A lock of an owner; see [`super::owners`]. Its map key holds the first byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnedRange {
    /// Last byte.
    pub last: u64,
    pub kind: LockKind,
    /// Open through which it was locked.
    pub open: OpenId,
}

/// Locks of one file; see the module. Locks of opens and of owners both count.
#[derive(Debug, Default)]
pub(super) struct LockTable {
    /// Locks of opens, by kind.
    opens: [IntervalIndex<OpenId>; 2],
    /// Empty locks of opens by kind, at their positions.
    empty: [IntervalIndex<OpenId>; 2],
    /// Locks of owners, by kind.
    owners: [IntervalIndex<LockOwner>; 2],
    /// Locks of owners; those of one owner do not overlap.
    pieces: BTreeMap<(LockOwner, u64), OwnedRange>,
    /// Number of an owner's locks through an open, if any.
    counts: BTreeMap<(OpenId, LockOwner), usize>,
    /// Statistics of each open with a range.
    open_ranges: BTreeMap<OpenId, OpenRanges>,
    len: usize,
}

impl LockTable {
    /// Number of locked ranges.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of ranges locked through an open, including those of owners.
    pub fn count_of(&self, open: OpenId) -> usize {
        self.open_ranges.get(&open).map_or(0, |extent| extent.count)
    }

    /// Whether an open may lock a range: shared locks stack, and an open may add a shared lock over
    /// its own exclusive one.
    pub fn admits(&self, open: OpenId, wanted: RangeLock) -> bool {
        match wanted.kind {
            LockKind::Shared => !self.meets(LockKind::Exclusive, wanted.range, Some(open)),
            LockKind::Exclusive => {
                !self.meets(LockKind::Exclusive, wanted.range, None)
                    && !self.meets(LockKind::Shared, wanted.range, None)
            }
        }
    }

    /// Whether a range meets a lock of a kind that does not belong to the open `except`.
    pub fn meets(&self, kind: LockKind, range: Range, except: Option<OpenId>) -> bool {
        self.meets_open(kind, range, except)
            || bounds(range)
                .is_some_and(|(from, to)| self.owners[kind as usize].find(from, to, None).is_some())
    }

    /// As [`Self::meets`], for locks of opens only.
    pub fn meets_open(&self, kind: LockKind, range: Range, except: Option<OpenId>) -> bool {
        self.find_open(kind, range, except).is_some()
    }

    /// The lock that conflicts with one for `owner`, or for any owner if none. Of several it is the
    /// first, as F_GETLK of fcntl(2) reports.
    pub fn find(&self, owner: Option<LockOwner>, wanted: RangeLock) -> Option<ConflictingLock> {
        let both = [LockKind::Exclusive, LockKind::Shared];
        let kinds = if wanted.kind == LockKind::Shared { &both[..1] } else { &both[..] };
        let found = kinds.iter().flat_map(|&kind| {
            let held =
                move |range, owner| ConflictingLock { lock: RangeLock { range, kind }, owner };
            let open = self.find_open(kind, wanted.range, None).map(|range| held(range, None));
            let piece = bounds(wanted.range)
                .and_then(|(from, to)| self.owners[kind as usize].find(from, to, owner))
                .map(|found| held(range_of(found.first, found.last), Some(found.holder)));
            [open, piece].into_iter().flatten()
        });
        found.min_by_key(|held| held.lock.range.offset)
    }

    fn find_open(&self, kind: LockKind, range: Range, except: Option<OpenId>) -> Option<Range> {
        let (from, to) = bounds(range)?;
        if let Some(found) = self.opens[kind as usize].find(from, to, except) {
            return Some(range_of(found.first, found.last));
        }
        // An empty lock conflicts if `range` has a byte on both sides of it.
        let from = from.checked_add(1).filter(|_| range.length > 0)?;
        let found = self.empty[kind as usize].find(from, to, except)?;
        Some(Range { offset: found.first, length: 0 })
    }

    /// Adds a lock of an open.
    pub fn insert(&mut self, open: OpenId, lock: RangeLock) {
        self.index_of(lock).insert(interval(open, lock.range));
        let extent = self.count(open);
        extent.first = extent.first.min(lock.range.offset);
        extent.last = extent.last.max(lock.range.offset);
    }

    /// Removes one lock of an open. Returns false if it has none like it.
    pub fn remove(&mut self, open: OpenId, lock: RangeLock) -> bool {
        let is_there = self.index_of(lock).remove(&interval(open, lock.range));
        if is_there {
            self.discount(open, 1);
        }
        is_there
    }

    /// Removes all locks of an open.
    pub fn remove_all_of(&mut self, open: OpenId) {
        for (_, _, count) in self.extract_own(open) {
            self.discount(open, count);
        }
        for owner in self.owners_by(open) {
            for (first, _) in self.pieces_by(open, owner) {
                self.remove_piece(owner, first);
            }
        }
    }

    /// Transfers all locks of `from` to `to`.
    pub fn move_all(&mut self, from: OpenId, to: OpenId) {
        for (kind, intervals, count) in self.extract_own(from) {
            self.discount(from, count);
            for range in intervals {
                self.insert(to, RangeLock { range, kind });
            }
        }
        for owner in self.owners_by(from) {
            for (first, piece) in self.pieces_by(from, owner) {
                self.remove_piece(owner, first);
                self.insert_merged(owner, first, OwnedRange { open: to, ..piece });
            }
        }
    }

    /// Adds a lock of an owner, and merges it with the adjoining ones of its kind and open: an
    /// empty range at their seam lies within one lock. No lock holds all 2^64 bytes.
    fn insert_merged(&mut self, owner: LockOwner, mut first: u64, mut piece: OwnedRange) {
        let is_like = |like: &OwnedRange| (like.open, like.kind) == (piece.open, piece.kind);
        let before = first.checked_sub(1).and_then(|at| self.piece_before(owner, at));
        let before = before.filter(|(_, like)| is_like(like) && like.last + 1 == first);
        let after = piece.last.checked_add(1).and_then(|at| self.piece_from(owner, at));
        let after = after.filter(|(at, like)| is_like(like) && *at == piece.last + 1);
        if let Some((at, _)) = before.filter(|(at, _)| piece.last - at < u64::MAX) {
            self.remove_piece(owner, at);
            first = at;
        }
        if let Some((at, like)) = after.filter(|(_, like)| like.last - first < u64::MAX) {
            self.remove_piece(owner, at);
            piece.last = like.last;
        }
        self.insert_piece(owner, first, piece);
    }

    /// The open's own locks, exclusive ones first: an order in which they can be restored.
    pub fn of(&self, open: OpenId) -> impl Iterator<Item = RangeLock> + '_ {
        let extent = self.open_ranges.get(&open).copied().unwrap_or(OpenRanges::NONE);
        let firsts = (extent.first, extent.last);
        [LockKind::Exclusive, LockKind::Shared].into_iter().flat_map(move |kind| {
            let filled = self.opens[kind as usize].of(open, firsts);
            let filled = filled.map(|i| range_of(i.first, i.last));
            let empty = self.empty[kind as usize].of(open, firsts);
            let empty = empty.map(|i| Range { offset: i.first, length: 0 });
            filled.chain(empty).map(move |range| RangeLock { range, kind })
        })
    }

    /// Whether a lock begins before `offset`.
    pub fn has_before(&self, offset: u64) -> bool {
        let opens = self.opens.iter().chain(&self.empty).filter_map(IntervalIndex::first);
        opens.chain(self.owners.iter().filter_map(IntervalIndex::first)).any(|at| at < offset)
    }

    /// Whether an owner has a lock.
    pub fn has_of_owner(&self, owner: LockOwner) -> bool {
        self.pieces.range((owner, 0)..=(owner, u64::MAX)).next().is_some()
    }

    /// The owner's lock that contains `offset`, or the last one before.
    pub fn piece_before(&self, owner: LockOwner, offset: u64) -> Option<(u64, OwnedRange)> {
        let (&(_, first), piece) = self.pieces.range((owner, 0)..=(owner, offset)).next_back()?;
        Some((first, *piece))
    }

    /// The owner's first lock that begins at `offset` or later.
    pub fn piece_from(&self, owner: LockOwner, offset: u64) -> Option<(u64, OwnedRange)> {
        let (&(_, first), piece) = self.pieces.range((owner, offset)..=(owner, u64::MAX)).next()?;
        Some((first, *piece))
    }

    /// Adds a lock of an owner where it has none.
    pub fn insert_piece(&mut self, owner: LockOwner, first: u64, piece: OwnedRange) {
        let interval = Interval { first, last: piece.last, holder: owner };
        self.owners[piece.kind as usize].insert(interval);
        self.pieces.insert((owner, first), piece);
        *self.counts.entry((piece.open, owner)).or_default() += 1;
        self.count(piece.open);
    }

    /// Removes the lock that begins at `first`.
    pub fn remove_piece(&mut self, owner: LockOwner, first: u64) {
        let Some(piece) = self.pieces.remove(&(owner, first)) else { return };
        let interval = Interval { first, last: piece.last, holder: owner };
        self.owners[piece.kind as usize].remove(&interval);
        let key = (piece.open, owner);
        if let Some(count) = self.counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
        self.discount(piece.open, 1);
    }

    fn index_of(&mut self, lock: RangeLock) -> &mut IntervalIndex<OpenId> {
        let indexes = if lock.range.length == 0 { &mut self.empty } else { &mut self.opens };
        &mut indexes[lock.kind as usize]
    }

    /// Takes the open's own locks from the indexes; the caller discounts them.
    fn extract_own(&mut self, open: OpenId) -> Vec<(LockKind, Vec<Range>, usize)> {
        let Some(&OpenRanges { first, last, .. }) = self.open_ranges.get(&open) else {
            return Vec::new();
        };
        let mut extracted = Vec::new();
        for kind in [LockKind::Exclusive, LockKind::Shared] {
            let filled = self.opens[kind as usize].extract_of(open, (first, last));
            let empty = self.empty[kind as usize].extract_of(open, (first, last));
            let mut ranges: Vec<Range> = filled.iter().map(|i| range_of(i.first, i.last)).collect();
            ranges.extend(empty.iter().map(|i| Range { offset: i.first, length: 0 }));
            let count = ranges.len();
            extracted.push((kind, ranges, count));
        }
        extracted
    }

    fn owners_by(&self, open: OpenId) -> Vec<LockOwner> {
        let all = (open, LockOwner(0))..=(open, LockOwner(u64::MAX));
        self.counts.range(all).map(|(&(_, owner), _)| owner).collect()
    }

    fn pieces_by(&self, open: OpenId, owner: LockOwner) -> Vec<(u64, OwnedRange)> {
        let pieces = self.pieces.range((owner, 0)..=(owner, u64::MAX));
        let by = pieces.filter(|(_, piece)| piece.open == open);
        by.map(|(&(_, first), piece)| (first, *piece)).collect()
    }

    fn count(&mut self, open: OpenId) -> &mut OpenRanges {
        self.len += 1;
        let extent = self.open_ranges.entry(open).or_insert(OpenRanges::NONE);
        extent.count += 1;
        extent
    }

    fn discount(&mut self, open: OpenId, count: usize) {
        self.len -= count;
        if let Some(extent) = self.open_ranges.get_mut(&open) {
            extent.count -= count;
            if extent.count == 0 {
                self.open_ranges.remove(&open);
            }
        }
    }

    /// Steps of all indexes: see [`IntervalIndex::steps`].
    #[cfg(test)]
    pub fn steps(&self) -> u64 {
        let opens = self.opens.iter().chain(&self.empty).map(|index| index.steps.get());
        opens.chain(self.owners.iter().map(|index| index.steps.get())).sum()
    }
}

/// The earliest end and the latest begin of intervals that meet the range. None if no interval can.
fn bounds(range: Range) -> Option<(u64, u64)> {
    match range.length {
        0 => range.offset.checked_sub(1).map(|before| (range.offset, before)),
        _ => Some((range.offset, range.last())),
    }
}

fn interval(open: OpenId, range: Range) -> Interval<OpenId> {
    let last = if range.length == 0 { range.offset } else { range.last() };
    Interval { first: range.offset, last, holder: open }
}

fn range_of(first: u64, last: u64) -> Range {
    Range { offset: first, length: last - first + 1 }
}
