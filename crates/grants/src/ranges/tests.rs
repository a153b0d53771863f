//! Tests by behaviour, then random requests against a byte-wise model.

use super::*;
use proptest::prelude::*;

const A: OpenId = OpenId(1);
const B: OpenId = OpenId(2);
const C: OpenId = OpenId(3);

fn range(offset: u64, length: u64) -> Range {
    Range::new(offset, length).unwrap()
}

fn exclusive(offset: u64, length: u64) -> RangeLock {
    RangeLock { range: range(offset, length), kind: LockKind::Exclusive }
}

fn shared(offset: u64, length: u64) -> RangeLock {
    RangeLock { range: range(offset, length), kind: LockKind::Shared }
}

fn wait(locking: Result<LockProgress, LockRefusal>) -> WaitId {
    match locking {
        Ok(LockProgress::Waits(wait)) => wait,
        other => panic!("does not wait: {other:?}"),
    }
}

fn granted(wait: WaitId) -> Option<LockDecision> {
    Some(LockDecision { wait, result: Ok(()) })
}

#[test]
fn ranges_end_at_last_offset() {
    assert!(Range::new(u64::MAX, 1).is_some());
    assert!(Range::new(u64::MAX, 2).is_none());
    assert!(Range::new(0, u64::MAX).is_some());
    assert!(Range::new(u64::MAX, 0).is_some());
    assert!(range(0, u64::MAX).overlaps(range(u64::MAX - 1, 1)));
    assert!(!range(0, u64::MAX).overlaps(range(u64::MAX, 1)));
}

#[test]
fn empty_range_conflicts_inside_a_lock() {
    assert!(range(5, 0).overlaps(range(4, 2)));
    assert!(!range(4, 0).overlaps(range(4, 2)), "at its start");
    assert!(!range(6, 0).overlaps(range(4, 2)), "past its end");
    assert!(!range(5, 0).overlaps(range(5, 0)));
    assert!(!range(0, 0).overlaps(range(0, u64::MAX)));
}

#[test]
fn own_exclusive_range_takes_shared_lock_only() {
    let mut locks = RangeLocks::default();
    locks.handle_locks(A, &[exclusive(0, 10)]).unwrap();
    assert_eq!(locks.handle_locks(A, &[exclusive(0, 10)]), Err(LockRefusal::Conflict));
    assert_eq!(locks.handle_locks(A, &[shared(0, 10)]), Ok(()));
    assert_eq!(locks.handle_locks(B, &[shared(9, 1)]), Err(LockRefusal::Conflict));
    locks.handle_unlock(A, range(0, 10)).unwrap();
    assert!(locks.may_read(B, range(0, 10)), "the exclusive one goes first");
    assert!(!locks.may_write(A, range(0, 10)), "one's own shared lock forbids writing");
}

#[test]
fn shared_locks_stack_and_release_singly() {
    let mut locks = RangeLocks::default();
    locks.handle_locks(A, &[shared(0, 4)]).unwrap();
    locks.handle_locks(A, &[shared(0, 4)]).unwrap();
    locks.handle_unlock(A, range(0, 4)).unwrap();
    assert!(!locks.may_write(B, range(3, 1)));
    locks.handle_unlock(A, range(0, 4)).unwrap();
    assert!(locks.may_write(B, range(3, 1)));
    assert_eq!(locks.handle_unlock(A, range(0, 4)), Err(LockRefusal::NotLocked));
}

#[test]
fn unlocking_needs_the_exact_range_and_the_same_open() {
    let mut locks = RangeLocks::default();
    locks.handle_locks(A, &[shared(0, 10)]).unwrap();
    assert_eq!(locks.handle_unlock(A, range(0, 9)), Err(LockRefusal::NotLocked));
    assert_eq!(locks.handle_unlock(B, range(0, 10)), Err(LockRefusal::NotLocked));
    assert_eq!(locks.handle_unlock(A, range(0, 10)), Ok(()));
}

#[test]
fn several_locks_are_granted_together_or_none() {
    let mut locks = RangeLocks::default();
    locks.handle_locks(A, &[exclusive(0, 10)]).unwrap();
    locks.handle_locks(B, &[exclusive(30, 1)]).unwrap();
    let wanted = [shared(0, 10), exclusive(20, 1), exclusive(30, 1)];
    assert_eq!(locks.handle_locks(A, &wanted), Err(LockRefusal::Conflict));
    assert!(!locks.may_read(B, range(0, 10)), "the lock from before is still there");
    assert!(locks.may_write(B, range(20, 1)));
    assert_eq!(
        locks.handle_locks(A, &[exclusive(20, 2), exclusive(21, 2)]),
        Err(LockRefusal::Conflict)
    );
    assert!(locks.may_write(B, range(20, 2)));
}

#[test]
fn empty_read_and_write_meet_no_lock() {
    let mut locks = RangeLocks::default();
    locks.handle_locks(A, &[exclusive(0, 10)]).unwrap();
    assert!(locks.may_read(B, range(5, 0)) && locks.may_write(B, range(5, 0)));
    assert!(!locks.may_read(B, range(5, 1)));
    assert!(locks.may_read(A, range(5, 1)) && locks.may_write(A, range(5, 1)));
}

#[test]
fn waiting_locks_are_granted_in_order() {
    let mut locks = RangeLocks::default();
    locks.handle_locks(A, &[exclusive(0, 10)]).unwrap();
    let first = wait(locks.handle_lock_or_wait(B, exclusive(0, 5)));
    let second = wait(locks.handle_lock_or_wait(C, exclusive(4, 5)));
    assert_eq!(locks.poll_decision(), None);
    locks.handle_unlock(A, range(0, 10)).unwrap();
    assert_eq!(locks.poll_decision(), granted(first));
    assert_eq!(locks.poll_decision(), None, "it is in the way of the second");
    locks.handle_unlock(B, range(0, 5)).unwrap();
    assert_eq!(locks.poll_decision(), granted(second));
}

#[test]
fn release_grants_only_waiters_of_its_range() {
    let mut locks = RangeLocks::default();
    locks.handle_locks(A, &[exclusive(0, 1), exclusive(5, 1)]).unwrap();
    let first = wait(locks.handle_lock_or_wait(B, shared(0, 1)));
    let second = wait(locks.handle_lock_or_wait(C, shared(5, 1)));
    locks.handle_unlock(A, range(5, 1)).unwrap();
    assert_eq!(locks.poll_decision(), granted(second));
    assert_eq!(locks.poll_decision(), None);
    locks.handle_close(A);
    assert_eq!(locks.poll_decision(), granted(first));
}

#[test]
fn cancelled_wait_is_not_granted() {
    let mut locks = RangeLocks::default();
    locks.handle_locks(A, &[exclusive(0, 1)]).unwrap();
    let first = wait(locks.handle_lock_or_wait(B, exclusive(0, 1)));
    let second = wait(locks.handle_lock_or_wait(C, exclusive(0, 1)));
    assert!(locks.handle_cancel(first));
    locks.handle_close(A);
    assert_eq!(locks.poll_decision(), granted(second));
    assert!(!locks.handle_cancel(second), "it has the lock, and must give it back");
    locks.handle_releases(C, &[exclusive(0, 1)]);
    assert!(locks.is_empty());
}

#[test]
fn close_refuses_own_waits_and_grants_others() {
    let mut locks = RangeLocks::default();
    locks.handle_locks(A, &[exclusive(0, 1)]).unwrap();
    let mine = wait(locks.handle_lock_or_wait(A, exclusive(0, 1)));
    let other = wait(locks.handle_lock_or_wait(B, exclusive(0, 1)));
    locks.handle_close(A);
    assert_eq!(
        locks.poll_decision(),
        Some(LockDecision { wait: mine, result: Err(LockRefusal::NotLocked) })
    );
    assert_eq!(locks.poll_decision(), granted(other));
    locks.handle_close(B);
    assert!(locks.is_empty());
}

#[test]
fn locks_and_waits_are_limited() {
    let mut locks = RangeLocks::default();
    let all: Vec<_> = (0..RangeLocks::LOCKS_MAX as u64).map(|at| exclusive(at, 1)).collect();
    locks.handle_locks(A, &all).unwrap();
    assert_eq!(locks.handle_locks(A, &[exclusive(1 << 40, 1)]), Err(LockRefusal::TooMany));
    locks.handle_releases(A, &all[1..]);
    for _ in 0..RangeLocks::WAITS_MAX {
        wait(locks.handle_lock_or_wait(B, exclusive(0, 1)));
    }
    assert_eq!(locks.handle_lock_or_wait(B, exclusive(0, 1)), Err(LockRefusal::TooMany));
}

/// Whether two ranges conflict, byte by byte: an empty one lies between the byte before it and the
/// byte at it.
fn meet(a: Range, b: Range) -> bool {
    let covers = |r: Range, at: u64| (r.offset..r.offset + r.length).contains(&at);
    let between = |r: Range, at: u64| at > 0 && covers(r, at - 1) && covers(r, at);
    match (a.length, b.length) {
        (0, 0) => false,
        (0, _) => between(b, a.offset),
        (_, 0) => between(a, b.offset),
        _ => (0..64).any(|at| covers(a, at) && covers(b, at)),
    }
}

#[derive(Clone, Debug)]
enum RangeLockStep {
    Lock(OpenId, RangeLock),
    LockOrWait(OpenId, RangeLock),
    Unlock(OpenId, Range),
    Cancel(usize),
    Close(OpenId),
}

fn steps() -> impl Strategy<Value = Vec<RangeLockStep>> {
    let open = || (1u64..4).prop_map(OpenId);
    let any_range = || (0u64..12, 0u64..6).prop_map(|(offset, length)| Range { offset, length });
    let lock = move || {
        (any_range(), any::<bool>()).prop_map(|(range, shared)| RangeLock {
            range,
            kind: if shared { LockKind::Shared } else { LockKind::Exclusive },
        })
    };
    let step = prop_oneof![
        3 => (open(), lock()).prop_map(|(open, lock)| RangeLockStep::Lock(open, lock)),
        3 => (open(), lock()).prop_map(|(open, lock)| RangeLockStep::LockOrWait(open, lock)),
        3 => (open(), any_range()).prop_map(|(open, range)| RangeLockStep::Unlock(open, range)),
        1 => any::<usize>().prop_map(RangeLockStep::Cancel),
        1 => open().prop_map(RangeLockStep::Close),
    ];
    prop::collection::vec(step, 1..80)
}

/// Plain lists, scanned in full at every step.
#[derive(Default)]
struct RangesModel {
    held: Vec<(OpenId, RangeLock)>,
    waiting: Vec<(WaitId, OpenId, RangeLock)>,
}

impl RangesModel {
    fn can(&self, open: OpenId, lock: RangeLock) -> bool {
        !self.held.iter().any(|(holder, held)| {
            meet(held.range, lock.range)
                && (lock.kind == LockKind::Exclusive
                    || (held.kind == LockKind::Exclusive && *holder != open))
        })
    }

    fn lock(&mut self, open: OpenId, lock: RangeLock) -> bool {
        let can = self.can(open, lock);
        if can {
            self.held.push((open, lock));
        }
        can
    }

    /// All requests that can be granted now, in order.
    fn grant_waiting(&mut self) -> Vec<LockDecision> {
        let mut served = Vec::new();
        for (wait, open, lock) in std::mem::take(&mut self.waiting) {
            if self.lock(open, lock) {
                served.push(LockDecision { wait, result: Ok(()) });
            } else {
                self.waiting.push((wait, open, lock));
            }
        }
        served
    }
}

fn decided(locks: &mut RangeLocks) -> Vec<LockDecision> {
    std::iter::from_fn(|| locks.poll_decision()).collect()
}

mod cost;
mod scan;

proptest! {
    #[test]
    fn locks_and_waits_agree_with_byte_model(steps in steps()) {
        let (mut locks, mut model) = (RangeLocks::default(), RangesModel::default());
        for step in steps {
            let mut expected = Vec::new();
            match step {
                RangeLockStep::Lock(open, lock) => {
                    prop_assert_eq!(locks.handle_locks(open, &[lock]).is_ok(), model.lock(open, lock));
                }
                RangeLockStep::LockOrWait(open, lock) => match locks.handle_lock_or_wait(open, lock).unwrap() {
                    LockProgress::Granted => prop_assert!(model.lock(open, lock)),
                    LockProgress::Waits(wait) => {
                        prop_assert!(!model.lock(open, lock));
                        model.waiting.push((wait, open, lock));
                    }
                },
                RangeLockStep::Unlock(open, range) => {
                    let find = |kind| model.held.iter().position(|h| *h == (open, RangeLock { range, kind }));
                    let at = find(LockKind::Exclusive).or_else(|| find(LockKind::Shared));
                    prop_assert_eq!(locks.handle_unlock(open, range).is_ok(), at.is_some());
                    if let Some(at) = at {
                        model.held.remove(at);
                        expected = model.grant_waiting();
                    }
                }
                RangeLockStep::Cancel(n) => {
                    if !model.waiting.is_empty() {
                        let (wait, ..) = model.waiting.remove(n % model.waiting.len());
                        prop_assert!(locks.handle_cancel(wait));
                    }
                }
                RangeLockStep::Close(open) => {
                    locks.handle_close(open);
                    let refused = model.waiting.iter().filter(|(_, o, _)| *o == open);
                    expected = refused
                        .map(|(wait, ..)| LockDecision { wait: *wait, result: Err(LockRefusal::NotLocked) })
                        .collect();
                    model.waiting.retain(|(_, o, _)| *o != open);
                    model.held.retain(|(o, _)| *o != open);
                    expected.extend(model.grant_waiting());
                }
            }
            prop_assert_eq!(decided(&mut locks), expected);
            prop_assert_eq!(locks.is_empty(), model.held.is_empty());
            for open in [A, B, C] {
                for at in 0..18 {
                    let covered = |own: bool, kind| model.held.iter().any(|(o, l)| {
                        (*o == open) == own && l.kind == kind && meet(l.range, range(at, 1))
                    });
                    let read = !covered(false, LockKind::Exclusive);
                    let write = read && !covered(false, LockKind::Shared) && !covered(true, LockKind::Shared);
                    prop_assert_eq!(locks.may_read(open, range(at, 1)), read);
                    prop_assert_eq!(locks.may_write(open, range(at, 1)), write);
                }
            }
        }
    }
}
