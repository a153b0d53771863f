//! Cost of one request at the limits, in visited intervals and waiting requests: at most a few
//! scans of all locks of its file.

use super::*;

/// Ranges of one SMB request.
const REQUEST: u64 = 4096;
/// Budget for one range of a request.
const STEPS_OF_RANGE: u64 = 300;
/// Budget for one waiting request.
const STEPS_OF_WAIT: u64 = 100;

fn steps_of(locks: &mut RangeLocks, request: impl FnOnce(&mut RangeLocks)) -> u64 {
    let before = locks.steps();
    request(locks);
    locks.steps() - before
}

/// One-byte ranges with gaps, from an offset on.
fn ranges(from: u64, count: u64) -> Vec<RangeLock> {
    (0..count).map(|at| exclusive(from + 2 * at, 1)).collect()
}

/// A file with nearly all permitted locks, and all permitted requests waiting for the locks of one
/// request of `A` at its front.
fn crowded() -> RangeLocks {
    let mut locks = RangeLocks::default();
    let others = RangeLocks::LOCKS_MAX - RangeLocks::WAITS_MAX - REQUEST as usize;
    locks.handle_locks(A, &ranges(1_000_000, others as u64)).unwrap();
    locks.handle_locks(A, &ranges(0, REQUEST)).unwrap();
    for _ in 0..RangeLocks::WAITS_MAX {
        wait(locks.handle_lock_or_wait(B, exclusive(0, 2 * REQUEST)));
    }
    locks
}

#[test]
fn unlocking_many_ranges_decides_each_wait_once() {
    let mut locks = crowded();
    let unlocked: Vec<Range> = ranges(0, REQUEST).iter().map(|lock| lock.range).collect();
    let steps = steps_of(&mut locks, |locks| locks.handle_unlocks(A, &unlocked).unwrap());
    assert!(locks.poll_decision().is_some(), "the first gets it");
    let most = STEPS_OF_RANGE * REQUEST + STEPS_OF_WAIT * RangeLocks::WAITS_MAX as u64;
    assert!(steps < most, "{steps}");
}

#[test]
fn unlocking_one_range_checks_each_wait_once() {
    let mut locks = crowded();
    let steps = steps_of(&mut locks, |locks| locks.handle_unlock(A, range(0, 1)).unwrap());
    assert!(steps < STEPS_OF_WAIT * RangeLocks::WAITS_MAX as u64, "{steps}");
    let steps = steps_of(&mut locks, |locks| locks.handle_unlock(A, range(1_000_000, 1)).unwrap());
    assert!(steps < 2 * RangeLocks::WAITS_MAX as u64, "no request waits for it: {steps}");
}

#[test]
fn refused_request_costs_no_scan_of_each_range() {
    let mut locks = crowded();
    locks.handle_close(B);
    let mut wanted = ranges(3_000_000, 1000);
    wanted.push(exclusive(0, 1));
    let steps = steps_of(&mut locks, |locks| {
        assert_eq!(locks.handle_locks(B, &wanted), Err(LockRefusal::Conflict));
    });
    assert!(steps < 2 * STEPS_OF_RANGE * wanted.len() as u64, "{steps}");
}

#[test]
fn own_locks_below_wide_range_are_not_scanned() {
    let mut locks = RangeLocks::default();
    locks.handle_locks(A, &ranges(0, 20_000)).unwrap();
    let wide: Vec<_> = (0..REQUEST).map(|at| shared(at, 1_000_000)).collect();
    let steps = steps_of(&mut locks, |locks| locks.handle_locks(A, &wide).unwrap());
    assert!(steps < STEPS_OF_RANGE * REQUEST, "{steps}");
    let steps = steps_of(&mut locks, |locks| {
        assert!(locks.may_read(A, range(0, 1 << 40)) && !locks.may_write(B, range(0, 1 << 40)));
    });
    assert!(steps < 2 * STEPS_OF_RANGE, "{steps}");
}

#[test]
fn ranges_in_any_order_cost_the_same() {
    for step in [1, 5, 12_289, 16_381, 32_767] {
        let mut locks = RangeLocks::default();
        let places = (0..32_760).map(|at| at * step % 32_768);
        let all: Vec<_> = places.map(|place| shared(place * 3, 1 + place % 7)).collect();
        let steps = steps_of(&mut locks, |locks| locks.handle_locks(A, &all).unwrap());
        assert!(steps < STEPS_OF_RANGE * all.len() as u64, "{step}: {steps}");
        let steps = steps_of(&mut locks, |locks| locks.handle_releases(A, &all));
        assert!(steps < STEPS_OF_RANGE * all.len() as u64, "{step}: {steps}");
        assert!(locks.is_empty());
    }
}

#[test]
fn owner_among_many_pays_for_own_locks() {
    let mut locks = RangeLocks::default();
    for owner in 0..32_000 {
        let locking = locks.handle_owner_lock(A, LockOwner(owner), shared(owner % 7, 1000));
        assert_eq!(locking, Ok(OwnerLockOutcome::Granted));
    }
    let whole = Range::to_end(0);
    let steps = steps_of(&mut locks, |locks| {
        for owner in 0..1000 {
            locks.handle_owner_unlock(LockOwner(owner), whole).unwrap();
            let wanted = exclusive(0, 10);
            let denied = locks.handle_owner_lock(A, LockOwner(owner), wanted);
            assert!(matches!(denied, Ok(OwnerLockOutcome::Denied(_))));
        }
    });
    assert!(steps < 2 * STEPS_OF_RANGE * 1000, "{steps}");
}
