//! Tests by behaviour, then random requests against a byte-wise model.

use super::super::{LockDecision, LockProgress};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const A: OpenId = OpenId(1);
const B: OpenId = OpenId(2);
const ONE: LockOwner = LockOwner(1);
const TWO: LockOwner = LockOwner(2);

fn lock(kind: LockKind, offset: u64, length: u64) -> RangeLock {
    RangeLock { range: Range::new(offset, length).unwrap(), kind }
}

fn exclusive(offset: u64, length: u64) -> RangeLock {
    lock(LockKind::Exclusive, offset, length)
}

fn shared(offset: u64, length: u64) -> RangeLock {
    lock(LockKind::Shared, offset, length)
}

/// Locks of an owner in order, each with its open.
fn pieces(locks: &RangeLocks, owner: LockOwner) -> Vec<(RangeLock, OpenId)> {
    let (mut pieces, mut from) = (Vec::new(), 0);
    while let Some((first, piece)) = locks.held.as_ref().and_then(|h| h.piece_from(owner, from)) {
        let range = Range { offset: first, length: piece.last - first + 1 };
        pieces.push((RangeLock { range, kind: piece.kind }, piece.open));
        from = piece.last.saturating_add(1);
        if piece.last == u64::MAX {
            break;
        }
    }
    pieces
}

fn has(locks: &RangeLocks, owner: LockOwner) -> Vec<RangeLock> {
    pieces(locks, owner).into_iter().map(|(lock, _)| lock).collect()
}

fn granted(locking: Result<OwnerLockOutcome, LockRefusal>) {
    assert_eq!(locking, Ok(OwnerLockOutcome::Granted));
}

#[test]
fn transferred_lock_merges_with_its_neighbours() {
    let mut locks = RangeLocks::default();
    granted(locks.handle_owner_lock(A, ONE, exclusive(0, 4)));
    granted(locks.handle_owner_lock(B, ONE, exclusive(4, 2)));
    granted(locks.handle_owner_lock(A, ONE, exclusive(6, 4)));
    granted(locks.handle_owner_lock(A, ONE, shared(10, 1)));
    granted(locks.handle_owner_lock(A, TWO, exclusive(11, 1)));
    locks.handle_transfer(B, A);
    assert_eq!(has(&locks, ONE), [exclusive(0, 10), shared(10, 1)]);
    assert_eq!(has(&locks, TWO), [exclusive(11, 1)]);
    locks.handle_close(A);
    assert!(locks.is_empty());
}

/// No length holds all 2^64 bytes.
#[test]
fn locks_that_span_all_offsets_stay_apart() {
    const HALF: u64 = 1 << 63;
    let halves = [exclusive(0, HALF), exclusive(HALF, HALF)];
    let mut locks = RangeLocks::default();
    granted(locks.handle_owner_lock(A, ONE, halves[0]));
    granted(locks.handle_owner_lock(B, ONE, halves[1]));
    locks.handle_transfer(B, A);
    assert_eq!(has(&locks, ONE), halves);
    for last in [0, u64::MAX] {
        let denied = locks.handle_owner_lock(B, TWO, exclusive(last, 1));
        assert!(matches!(denied, Ok(OwnerLockOutcome::Denied(_))), "{last}");
    }
    let mut locks = RangeLocks::default();
    granted(locks.handle_owner_lock(A, ONE, halves[0]));
    granted(locks.handle_owner_lock(A, ONE, halves[1]));
    assert_eq!(has(&locks, ONE), halves, "byte 2^64 - 1 stays locked");
    granted(locks.handle_owner_lock(A, ONE, halves[1]));
    assert_eq!(has(&locks, ONE), halves);
}

#[test]
fn new_owner_lock_replaces_overlap() {
    let mut locks = RangeLocks::default();
    granted(locks.handle_owner_lock(A, ONE, exclusive(0, 10)));
    granted(locks.handle_owner_lock(A, ONE, shared(4, 2)));
    assert_eq!(has(&locks, ONE), [exclusive(0, 4), shared(4, 2), exclusive(6, 4)]);
    granted(locks.handle_owner_lock(A, ONE, exclusive(4, 2)));
    assert_eq!(has(&locks, ONE), [exclusive(0, 10)], "and pieces that touch become one");
    locks.handle_owner_unlock(ONE, Range::new(3, 1).unwrap()).unwrap();
    assert_eq!(has(&locks, ONE), [exclusive(0, 3), exclusive(4, 6)]);
    locks.handle_owner_unlock(ONE, Range::to_end(0)).unwrap();
    assert!(!locks.has_of_owner(ONE) && locks.is_empty());
    locks.handle_owner_unlock(ONE, Range::to_end(0)).unwrap();
}

#[test]
fn denied_owner_gets_conflicting_lock() {
    let mut locks = RangeLocks::default();
    granted(locks.handle_owner_lock(A, ONE, shared(0, 10)));
    granted(locks.handle_owner_lock(B, TWO, shared(5, 10)));
    let held = ConflictingLock { lock: shared(0, 10), owner: Some(ONE) };
    let denied = locks.handle_owner_lock(B, TWO, exclusive(5, 1));
    assert_eq!(denied, Ok(OwnerLockOutcome::Denied(held)));
    assert_eq!(locks.find(None, exclusive(0, 1)), Some(held), "for any owner, too");
    assert_eq!(locks.find(Some(ONE), exclusive(0, 5)), None);
    assert_eq!(locks.handle_owner_lock(A, ONE, exclusive(3, 0)), Err(LockRefusal::NotLocked));
}

#[test]
fn owner_and_open_locks_conflict() {
    let mut locks = RangeLocks::default();
    granted(locks.handle_owner_lock(A, ONE, exclusive(0, 4)));
    assert_eq!(locks.handle_locks(B, &[shared(3, 1)]), Err(LockRefusal::Conflict));
    locks.handle_locks(B, &[exclusive(4, 4)]).unwrap();
    let held = ConflictingLock { lock: exclusive(4, 4), owner: None };
    assert_eq!(locks.handle_owner_lock(A, ONE, shared(0, 5)), Ok(OwnerLockOutcome::Denied(held)));
    let range = |at| Range::new(at, 1).unwrap();
    assert!(!locks.may_read(B, range(0)) && !locks.may_write(B, range(0)), "Windows heeds all");
    assert!(locks.may_use_beside_owners(range(0), true), "among owners they are agreements");
    assert!(!locks.may_use_beside_owners(range(4), false), "Windows' locks bind everybody");
}

#[test]
fn last_bytes_are_locked_and_released() {
    let mut locks = RangeLocks::default();
    granted(locks.handle_owner_lock(A, ONE, lock(LockKind::Shared, 5, u64::MAX - 5)));
    assert!(has(&locks, ONE)[0].range.is_to_end());
    granted(locks.handle_owner_lock(A, ONE, shared(u64::MAX, 1)));
    assert_eq!(has(&locks, ONE), [shared(5, u64::MAX - 4)]);
    granted(locks.handle_owner_lock(A, ONE, shared(0, 5)));
    assert_eq!(has(&locks, ONE), [shared(0, 5), shared(5, u64::MAX - 4)], "all 2^64 bytes");
    locks.handle_owner_unlock(ONE, Range::new(1, u64::MAX).unwrap()).unwrap();
    assert_eq!(has(&locks, ONE), [shared(0, 1)]);
}

#[test]
fn waiting_owner_is_notified_without_grant() {
    let mut locks = RangeLocks::default();
    granted(locks.handle_owner_lock(A, ONE, exclusive(0, 10)));
    let wait = locks.handle_owner_wait(B, TWO, exclusive(2, 2)).unwrap();
    locks.handle_owner_unlock(ONE, Range::new(0, 2).unwrap()).unwrap();
    assert_eq!(locks.poll_decision(), None);
    locks.handle_owner_unlock(ONE, Range::new(2, 2).unwrap()).unwrap();
    let decision = Some(LockDecision { wait, result: Ok(()) });
    assert_eq!(locks.poll_decision(), decision);
    assert!(!locks.has_of_owner(TWO));
    let wait = locks.handle_owner_wait(B, TWO, exclusive(2, 2)).unwrap();
    assert_eq!(locks.poll_decision(), Some(LockDecision { wait, result: Ok(()) }), "it is free");
    let wait = locks.handle_owner_wait(B, TWO, exclusive(4, 1)).unwrap();
    locks.handle_close(B);
    let gone = Some(LockDecision { wait, result: Err(LockRefusal::NotLocked) });
    assert_eq!(locks.poll_decision(), gone);
    let wait = locks.handle_owner_wait(B, TWO, shared(4, 1)).unwrap();
    granted(locks.handle_owner_lock(A, ONE, shared(4, 1)));
    assert_eq!(locks.poll_decision(), Some(LockDecision { wait, result: Ok(()) }), "it shares now");
}

#[test]
fn waiting_open_gets_range_released_by_owner() {
    let mut locks = RangeLocks::default();
    granted(locks.handle_owner_lock(A, ONE, exclusive(0, 10)));
    let Ok(LockProgress::Waits(wait)) = locks.handle_lock_or_wait(B, exclusive(9, 1)) else {
        panic!("it is free")
    };
    locks.handle_owner_unlock(ONE, Range::new(9, 1).unwrap()).unwrap();
    assert_eq!(locks.poll_decision(), Some(LockDecision { wait, result: Ok(()) }));
    assert!(locks.has_of(B));
}

#[test]
fn full_lock_table_refuses_split() {
    let mut locks = RangeLocks::default();
    for at in 0..RangeLocks::LOCKS_MAX as u64 - 2 {
        granted(locks.handle_owner_lock(A, ONE, exclusive(at * 2, 1)));
    }
    granted(locks.handle_owner_lock(B, TWO, exclusive(1 << 40, 10)));
    let full = Err(LockRefusal::TooMany);
    assert_eq!(locks.handle_owner_lock(B, TWO, shared((1 << 40) + 2, 1)), full);
    let range = |from: u64, length| Range::new((1 << 40) + from, length).unwrap();
    locks.handle_owner_unlock(TWO, range(2, 1)).unwrap();
    assert_eq!(locks.handle_owner_unlock(TWO, range(4, 1)), Err(LockRefusal::TooMany));
    locks.handle_owner_unlock(TWO, range(0, 1)).unwrap();
    assert_eq!(has(&locks, TWO), [exclusive((1 << 40) + 1, 1), exclusive((1 << 40) + 3, 7)]);
    locks.handle_owner_unlock(TWO, Range::to_end(0)).unwrap();
    assert!(!locks.has_of_owner(TWO), "an unlock is never refused");
}

const BYTES: u64 = 16;

#[derive(Clone, Debug)]
enum OwnerLockStep {
    Lock(u64, u64, RangeLock),
    Unlock(u64, Range),
    Open(u64, RangeLock),
    Close(u64),
    Move(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<OwnerLockStep>> {
    let range = || (0..BYTES - 1, 1..6u64).prop_map(|(offset, length)| Range { offset, length });
    let lock = move || {
        (range(), any::<bool>()).prop_map(|(range, shared)| RangeLock {
            range,
            kind: if shared { LockKind::Shared } else { LockKind::Exclusive },
        })
    };
    let step = prop_oneof![
        6 => (1..4u64, 1..4u64, lock()).prop_map(|(by, owner, lock)| OwnerLockStep::Lock(by, owner, lock)),
        4 => (1..4u64, range()).prop_map(|(owner, range)| OwnerLockStep::Unlock(owner, range)),
        2 => (4..6u64, lock()).prop_map(|(open, lock)| OwnerLockStep::Open(open, lock)),
        1 => (1..6u64).prop_map(OwnerLockStep::Close),
        1 => (1..4u64, 1..4u64).prop_map(|(from, to)| OwnerLockStep::Move(from, to)),
    ];
    prop::collection::vec(step, 1..60)
}

/// Lock of each owner on each byte, with its open.
#[derive(Default)]
struct OwnedRangesModel {
    bytes: BTreeMap<(u64, u64), (u64, LockKind)>,
    /// Locks of opens themselves.
    opens: Vec<(u64, RangeLock)>,
}

fn bytes(range: Range) -> impl Iterator<Item = u64> {
    range.offset..range.offset + range.length
}

impl OwnedRangesModel {
    fn forbids(&self, owner: Option<u64>, lock: RangeLock) -> bool {
        let clash = |kind| kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive;
        let by_owner = self.bytes.iter().any(|((who, at), (_, kind))| {
            Some(*who) != owner && clash(*kind) && bytes(lock.range).any(|b| b == *at)
        });
        let meets = |other: Range| bytes(other).any(|b| bytes(lock.range).any(|c| b == c));
        by_owner || self.opens.iter().any(|(_, held)| clash(held.kind) && meets(held.range))
    }
}

proptest! {
    #[test]
    fn owner_locks_agree_with_byte_model(steps in steps()) {
        let (mut locks, mut model) = (RangeLocks::default(), OwnedRangesModel::default());
        for step in steps {
            match step {
                OwnerLockStep::Lock(open, owner, lock) => {
                    let free = !model.forbids(Some(owner), lock);
                    let locking = locks.handle_owner_lock(OpenId(open), LockOwner(owner), lock);
                    prop_assert_eq!(locking == Ok(OwnerLockOutcome::Granted), free);
                    if free {
                        let new = bytes(lock.range).map(|at| ((owner, at), (open, lock.kind)));
                        model.bytes.extend(new);
                    }
                }
                OwnerLockStep::Unlock(owner, range) => {
                    locks.handle_owner_unlock(LockOwner(owner), range).unwrap();
                    model.bytes.retain(|(who, at), _| *who != owner || bytes(range).all(|b| b != *at));
                }
                OwnerLockStep::Open(open, lock) => {
                    // An open's own locks follow other rules among each other.
                    model.opens.retain(|(held, _)| *held != open);
                    locks.handle_close(OpenId(open));
                    let free = !model.forbids(None, lock);
                    prop_assert_eq!(locks.handle_locks(OpenId(open), &[lock]).is_ok(), free);
                    if free {
                        model.opens.push((open, lock));
                    }
                }
                OwnerLockStep::Close(open) => {
                    locks.handle_close(OpenId(open));
                    model.bytes.retain(|_, (by, _)| *by != open);
                    model.opens.retain(|(held, _)| *held != open);
                }
                OwnerLockStep::Move(from, to) => {
                    locks.handle_transfer(OpenId(from), OpenId(to));
                    model.bytes.values_mut().filter(|(by, _)| *by == from).for_each(|v| v.0 = to);
                }
            }
            for owner in 1..4 {
                let mut held = BTreeMap::new();
                for (lock, open) in pieces(&locks, LockOwner(owner)) {
                    for at in bytes(lock.range) {
                        let before = held.insert(at, (open.0, lock.kind));
                        prop_assert_eq!(before, None, "a byte is locked once by one owner");
                    }
                }
                let expected: BTreeMap<_, _> =
                    model.bytes.iter().filter(|((who, _), _)| *who == owner)
                        .map(|((_, at), v)| (*at, *v)).collect();
                prop_assert_eq!(held, expected);
                prop_assert_eq!(
                    locks.has_of_owner(LockOwner(owner)),
                    model.bytes.keys().any(|(who, _)| *who == owner)
                );
            }
        }
    }
}
