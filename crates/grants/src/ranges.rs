//! Byte-range locks of one file. MS-FSA 2.1.4.10, 2.1.5.8, 2.1.5.9.

use crate::OpenId;

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

    fn last(self) -> u64 {
        self.offset.wrapping_add(self.length.wrapping_sub(1))
    }

    /// Whether two ranges have a byte in common, or an empty one lies strictly within the other.
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

/// Why a lock cannot be had, or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRefusal {
    /// Another lock is in the way.
    Conflict,
    /// The range was not locked like this by this open.
    NotLocked,
    /// [`RangeLocks::LOCKS_MAX`] was reached.
    TooMany,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    open: OpenId,
    range: Range,
    kind: LockKind,
}

/// The locks of one file, in the order they were granted.
#[derive(Debug, Default)]
pub struct RangeLocks {
    held: Vec<Held>,
    /// Goes up whenever a lock is given back: who waits looks again.
    releases: u64,
}

impl RangeLocks {
    /// Locks of one file.
    pub const LOCKS_MAX: usize = 64 * 1024;

    /// Grants a lock.
    ///
    /// # Errors
    /// [`LockRefusal::Conflict`], [`LockRefusal::TooMany`].
    pub fn handle_lock(
        &mut self,
        open: OpenId,
        range: Range,
        kind: LockKind,
    ) -> Result<(), LockRefusal> {
        if self.held.len() >= Self::LOCKS_MAX {
            return Err(LockRefusal::TooMany);
        }
        // Shared locks stack; an open may also put a shared lock over its own exclusive one.
        let in_the_way = |held: &Held| {
            held.range.overlaps(range)
                && match (held.kind, kind) {
                    (LockKind::Shared, LockKind::Shared) => false,
                    (LockKind::Exclusive, LockKind::Shared) => held.open != open,
                    (_, LockKind::Exclusive) => true,
                }
        };
        if self.held.iter().any(in_the_way) {
            return Err(LockRefusal::Conflict);
        }
        self.held.push(Held { open, range, kind });
        Ok(())
    }

    /// Gives back one lock with exactly this range, the exclusive one first.
    ///
    /// # Errors
    /// [`LockRefusal::NotLocked`].
    pub fn handle_unlock(&mut self, open: OpenId, range: Range) -> Result<(), LockRefusal> {
        let of = |kind| {
            self.held.iter().position(|h| h.open == open && h.range == range && h.kind == kind)
        };
        let at = of(LockKind::Exclusive)
            .or_else(|| of(LockKind::Shared))
            .ok_or(LockRefusal::NotLocked)?;
        self.held.remove(at);
        self.releases += 1;
        Ok(())
    }

    /// Gives back all locks of an open.
    pub fn handle_close(&mut self, open: OpenId) {
        let before = self.held.len();
        self.held.retain(|h| h.open != open);
        self.releases += u64::from(self.held.len() != before);
    }

    /// Whether `open` may read the range.
    #[must_use]
    pub fn may_read(&self, open: OpenId, range: Range) -> bool {
        !self
            .held
            .iter()
            .any(|h| h.open != open && h.kind == LockKind::Exclusive && touches(h.range, range))
    }

    /// Whether `open` may write the range: its own shared locks forbid it too.
    #[must_use]
    pub fn may_write(&self, open: OpenId, range: Range) -> bool {
        !self
            .held
            .iter()
            .any(|h| (h.open != open || h.kind == LockKind::Shared) && touches(h.range, range))
    }

    /// Whether there is no lock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Changes whenever a lock is given back.
    #[must_use]
    pub fn releases(&self) -> u64 {
        self.releases
    }
}

/// Reading or writing nothing meets no lock; an empty lock meets no access.
fn touches(lock: Range, access: Range) -> bool {
    lock.length > 0 && access.length > 0 && lock.overlaps(access)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: OpenId = OpenId(1);
    const B: OpenId = OpenId(2);

    fn range(offset: u64, length: u64) -> Range {
        Range::new(offset, length).unwrap()
    }

    #[test]
    fn ranges_end_at_the_last_offset_and_do_not_wrap() {
        assert!(Range::new(u64::MAX, 1).is_some());
        assert!(Range::new(u64::MAX, 2).is_none());
        assert!(Range::new(0, u64::MAX).is_some());
        assert!(range(0, u64::MAX).overlaps(range(u64::MAX - 1, 1)));
        assert!(!range(0, u64::MAX).overlaps(range(u64::MAX, 1)));
    }

    #[test]
    fn an_open_may_share_its_own_exclusive_range_but_not_lock_it_twice() {
        let mut locks = RangeLocks::default();
        locks.handle_lock(A, range(0, 10), LockKind::Exclusive).unwrap();
        assert_eq!(
            locks.handle_lock(A, range(0, 10), LockKind::Exclusive),
            Err(LockRefusal::Conflict)
        );
        assert_eq!(locks.handle_lock(A, range(0, 10), LockKind::Shared), Ok(()));
        assert_eq!(locks.handle_lock(B, range(9, 1), LockKind::Shared), Err(LockRefusal::Conflict));
        locks.handle_unlock(A, range(0, 10)).unwrap();
        assert!(locks.may_read(B, range(0, 10)), "the exclusive one goes first");
        assert!(!locks.may_write(A, range(0, 10)), "one's own shared lock forbids writing");
    }

    #[test]
    fn unlocking_needs_the_exact_range_and_the_same_open() {
        let mut locks = RangeLocks::default();
        locks.handle_lock(A, range(0, 10), LockKind::Shared).unwrap();
        assert_eq!(locks.handle_unlock(A, range(0, 9)), Err(LockRefusal::NotLocked));
        assert_eq!(locks.handle_unlock(B, range(0, 10)), Err(LockRefusal::NotLocked));
        let before = locks.releases();
        assert_eq!(locks.handle_unlock(A, range(0, 10)), Ok(()));
        assert_ne!(locks.releases(), before);
    }

    proptest! {
        /// Against a model that looks at every byte.
        #[test]
        fn locks_agree_with_a_byte_by_byte_model(
            steps in prop::collection::vec((0u64..3, 0u64..12, 1u64..6, any::<bool>(), any::<bool>()), 1..60)
        ) {
            let mut locks = RangeLocks::default();
            let mut model: Vec<(u64, Range, LockKind)> = Vec::new();
            for (open, offset, length, exclusive, unlock) in steps {
                let wanted = range(offset, length);
                let kind = if exclusive { LockKind::Exclusive } else { LockKind::Shared };
                if unlock {
                    let find = |k| model.iter().position(|m| m.0 == open && m.1 == wanted && m.2 == k);
                    let at = find(LockKind::Exclusive).or_else(|| find(LockKind::Shared));
                    let result = locks.handle_unlock(OpenId(open), wanted);
                    prop_assert_eq!(result.is_ok(), at.is_some());
                    at.map(|at| model.remove(at));
                    continue;
                }
                let free = (offset..offset + length).all(|byte| {
                    model.iter().filter(|m| (m.1.offset..m.1.offset + m.1.length).contains(&byte)).all(|m| {
                        kind == LockKind::Shared && (m.2 == LockKind::Shared || m.0 == open)
                    })
                });
                prop_assert_eq!(locks.handle_lock(OpenId(open), wanted, kind).is_ok(), free);
                if free {
                    model.push((open, wanted, kind));
                }
                let readable = (offset..offset + length).all(|byte| {
                    !model.iter().any(|m| {
                        m.0 != open && m.2 == LockKind::Exclusive && (m.1.offset..m.1.offset + m.1.length).contains(&byte)
                    })
                });
                prop_assert_eq!(locks.may_read(OpenId(open), wanted), readable);
            }
        }
    }
}
