//! Locks of opens and of owners together, in numbers that make blocks split and merge, against
//! fully scanned lists.

use super::*;
use proptest::test_runner::TestCaseResult;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldLock {
    open: OpenId,
    lock: RangeLock,
    owner: Option<LockOwner>,
}

impl HeldLock {
    fn blocks(&self, open: OpenId, wanted: RangeLock) -> bool {
        let is_own = self.open == open && self.owner.is_none();
        self.lock.range.overlaps(wanted.range)
            && match (self.lock.kind, wanted.kind) {
                (LockKind::Shared, LockKind::Shared) => false,
                (LockKind::Exclusive, LockKind::Shared) => !is_own,
                (_, LockKind::Exclusive) => true,
            }
    }

    fn is_in_the_way_of_owner(&self, owner: LockOwner, wanted: RangeLock) -> bool {
        let both_share = self.lock.kind == LockKind::Shared && wanted.kind == LockKind::Shared;
        self.owner != Some(owner) && !both_share && self.lock.range.overlaps(wanted.range)
    }
}

type ScanWaiter = (WaitId, HeldLock);

#[derive(Default)]
struct LockScan {
    held: Vec<HeldLock>,
    waiting: Vec<ScanWaiter>,
}

impl LockScan {
    fn can(&self, new: HeldLock) -> bool {
        match new.owner {
            None => !self.held.iter().any(|held| held.blocks(new.open, new.lock)),
            Some(owner) => !self.held.iter().any(|h| h.is_in_the_way_of_owner(owner, new.lock)),
        }
    }

    fn locks(&mut self, open: OpenId, wanted: &[RangeLock]) -> bool {
        let before = self.held.len();
        for &lock in wanted {
            let new = HeldLock { open, lock, owner: None };
            if !self.can(new) {
                self.held.truncate(before);
                return false;
            }
            self.held.push(new);
        }
        true
    }

    fn unlocks(&mut self, open: OpenId, ranges: &[Range]) -> bool {
        ranges.iter().all(|&range| {
            let find = |kind| {
                let wanted = HeldLock { open, lock: RangeLock { range, kind }, owner: None };
                self.held.iter().position(|held| *held == wanted)
            };
            let at = find(LockKind::Exclusive).or_else(|| find(LockKind::Shared));
            at.map(|at| self.held.remove(at)).is_some()
        })
    }

    /// Byte by byte, then merged again.
    fn owner_lock(&mut self, open: OpenId, owner: LockOwner, lock: RangeLock) -> bool {
        let can = self.can(HeldLock { open, lock, owner: Some(owner) });
        if can {
            let new = (lock.range.offset..=lock.range.last()).map(|at| (at, (open, lock.kind)));
            self.change(owner, |bytes| bytes.extend(new));
        }
        can
    }

    fn owner_unlock(&mut self, owner: LockOwner, range: Range) {
        self.change(owner, |bytes| {
            bytes.retain(|at, _| !(range.offset..=range.last()).contains(at));
        });
    }

    fn change(
        &mut self,
        owner: LockOwner,
        change: impl FnOnce(&mut BTreeMap<u64, (OpenId, LockKind)>),
    ) {
        let mut bytes = BTreeMap::new();
        for held in self.held.extract_if(.., |held| held.owner == Some(owner)) {
            let range = held.lock.range;
            bytes.extend((range.offset..=range.last()).map(|at| (at, (held.open, held.lock.kind))));
        }
        change(&mut bytes);
        for (at, (open, kind)) in bytes {
            match self.held.last_mut() {
                Some(last)
                    if (last.open, last.owner, last.lock.kind) == (open, Some(owner), kind)
                        && last.lock.range.last() + 1 == at =>
                {
                    last.lock.range.length += 1;
                }
                _ => {
                    let lock = RangeLock { range: Range { offset: at, length: 1 }, kind };
                    self.held.push(HeldLock { open, lock, owner: Some(owner) });
                }
            }
        }
    }

    fn close(&mut self, open: OpenId) -> Vec<LockDecision> {
        self.held.retain(|held| held.open != open);
        let refused = self.waiting.extract_if(.., |(_, held)| held.open == open);
        refused
            .map(|(wait, _)| LockDecision { wait, result: Err(LockRefusal::NotLocked) })
            .collect()
    }

    fn grant_waiting(&mut self) -> Vec<LockDecision> {
        let mut served = Vec::new();
        for (wait, new) in std::mem::take(&mut self.waiting) {
            if self.can(new) {
                self.held.extend(new.owner.is_none().then_some(new));
                served.push(LockDecision { wait, result: Ok(()) });
            } else {
                self.waiting.push((wait, new));
            }
        }
        served
    }

    fn rename(&mut self, from: OpenId, to: OpenId) {
        let waiting = self.waiting.iter_mut().map(|(_, held)| held);
        let all = self.held.iter_mut().chain(waiting).filter(|held| held.open == from);
        all.for_each(|held| held.open = to);
        let owners: BTreeSet<LockOwner> = self.held.iter().filter_map(|held| held.owner).collect();
        owners.into_iter().for_each(|owner| self.change(owner, |_| {}));
    }
}

/// Opens from this number on lock for owners.
const OF_OWNERS: u64 = 5;

#[derive(Clone, Debug)]
enum ScanStep {
    Locks(OpenId, Vec<RangeLock>),
    LockOrWait(OpenId, RangeLock),
    Unlocks(OpenId, Vec<Range>),
    UnlockHeld(Vec<usize>),
    Release(OpenId, Vec<RangeLock>),
    OwnerLock(OpenId, LockOwner, RangeLock),
    OwnerWait(OpenId, LockOwner, RangeLock),
    OwnerUnlock(LockOwner, Range),
    Cancel(usize),
    Close(OpenId),
    Move(OpenId, OpenId),
}

fn steps() -> impl Strategy<Value = Vec<ScanStep>> {
    let open = || (1..OF_OWNERS).prop_map(OpenId);
    let of_owner = || (OF_OWNERS..OF_OWNERS + 3).prop_map(OpenId);
    let owner = || (1..4u64).prop_map(LockOwner);
    let range = |least| {
        let length = prop_oneof![8 => least..4u64, 1 => 20..90u64];
        (0..400u64, length).prop_map(|(offset, length)| Range { offset, length })
    };
    let lock = move |least| {
        let kind = prop_oneof![Just(LockKind::Shared), Just(LockKind::Exclusive)];
        (range(least), kind).prop_map(|(range, kind)| RangeLock { range, kind })
    };
    let many = move || prop::collection::vec(lock(0), 1..12);
    let ranges = move || prop::collection::vec(range(0), 1..3);
    let held = prop::collection::vec(any::<usize>(), 1..20);
    let step = prop_oneof![
        30 => (open(), many()).prop_map(|(open, locks)| ScanStep::Locks(open, locks)),
        10 => (open(), lock(0)).prop_map(|(open, lock)| ScanStep::LockOrWait(open, lock)),
        4 => (open(), ranges()).prop_map(|(open, ranges)| ScanStep::Unlocks(open, ranges)),
        10 => held.prop_map(ScanStep::UnlockHeld),
        3 => (open(), many()).prop_map(|(open, locks)| ScanStep::Release(open, locks)),
        20 => (of_owner(), owner(), lock(1)).prop_map(|(a, b, c)| ScanStep::OwnerLock(a, b, c)),
        4 => (of_owner(), owner(), lock(1)).prop_map(|(a, b, c)| ScanStep::OwnerWait(a, b, c)),
        8 => (owner(), range(1)).prop_map(|(owner, range)| ScanStep::OwnerUnlock(owner, range)),
        2 => any::<usize>().prop_map(ScanStep::Cancel),
        1 => prop_oneof![open(), of_owner()].prop_map(ScanStep::Close),
        1 => (open(), open()).prop_map(|(from, to)| ScanStep::Move(from, to)),
        1 => (of_owner(), of_owner()).prop_map(|(from, to)| ScanStep::Move(from, to)),
    ];
    prop::collection::vec(step, 1..120)
}

fn owner_lock(
    locks: &mut RangeLocks,
    scan: &mut LockScan,
    (open, owner, lock): (OpenId, LockOwner, RangeLock),
) -> TestCaseResult {
    let locking = locks.handle_owner_lock(open, owner, lock).unwrap();
    prop_assert_eq!(locking == OwnerLockOutcome::Granted, scan.owner_lock(open, owner, lock));
    if let OwnerLockOutcome::Denied(denial) = locking {
        let is_it = |held: &HeldLock| {
            // Only the model merges adjoining pieces that have come to one open.
            (held.lock.kind, held.owner) == (denial.lock.kind, denial.owner)
                && held.lock.range.touches(denial.lock.range)
        };
        let in_the_way = |held: &HeldLock| held.is_in_the_way_of_owner(owner, lock);
        prop_assert!(scan.held.iter().any(|held| is_it(held) && in_the_way(held)));
    }
    Ok(())
}

/// One step of both; returns the decisions that the model expects.
fn step(
    locks: &mut RangeLocks,
    scan: &mut LockScan,
    step: ScanStep,
) -> Result<Vec<LockDecision>, TestCaseError> {
    match step {
        ScanStep::Locks(open, wanted) => {
            prop_assert_eq!(locks.handle_locks(open, &wanted).is_ok(), scan.locks(open, &wanted));
        }
        ScanStep::LockOrWait(open, lock) => match locks.handle_lock_or_wait(open, lock).unwrap() {
            LockProgress::Granted => prop_assert!(scan.locks(open, &[lock])),
            LockProgress::Waits(wait) => {
                prop_assert!(!scan.locks(open, &[lock]));
                scan.waiting.push((wait, HeldLock { open, lock, owner: None }));
            }
        },
        ScanStep::Unlocks(open, ranges) => {
            let unlocked = locks.handle_unlocks(open, &ranges).is_ok();
            prop_assert_eq!(unlocked, scan.unlocks(open, &ranges));
        }
        ScanStep::UnlockHeld(places) => {
            let own: Vec<_> =
                scan.held.iter().filter(|held| held.owner.is_none()).copied().collect();
            let Some(first) = own.get(places[0] % own.len().max(1)) else { return Ok(Vec::new()) };
            let own: Vec<_> = own.iter().filter(|held| held.open == first.open).collect();
            let chosen = places.iter().map(|at| own[at % own.len()].lock.range);
            let chosen: Vec<Range> = chosen.collect();
            let unlocked = locks.handle_unlocks(first.open, &chosen).is_ok();
            prop_assert_eq!(unlocked, scan.unlocks(first.open, &chosen));
        }
        ScanStep::Release(open, releases) => {
            locks.handle_releases(open, &releases);
            for lock in releases {
                let old = HeldLock { open, lock, owner: None };
                let at = scan.held.iter().position(|held| *held == old);
                at.map(|at| scan.held.remove(at));
            }
        }
        ScanStep::OwnerLock(open, owner, lock) => {
            owner_lock(locks, scan, (open, owner, lock))?;
        }
        ScanStep::OwnerWait(open, owner, lock) => {
            let wait = locks.handle_owner_wait(open, owner, lock).unwrap();
            scan.waiting.push((wait, HeldLock { open, lock, owner: Some(owner) }));
        }
        ScanStep::OwnerUnlock(owner, range) => {
            locks.handle_owner_unlock(owner, range).unwrap();
            scan.owner_unlock(owner, range);
        }
        ScanStep::Cancel(n) if !scan.waiting.is_empty() => {
            let (wait, _) = scan.waiting.remove(n % scan.waiting.len());
            prop_assert!(locks.handle_cancel(wait) && !locks.handle_cancel(wait));
        }
        ScanStep::Cancel(_) => {}
        ScanStep::Close(open) => {
            locks.handle_close(open);
            let mut expected = scan.close(open);
            expected.extend(scan.grant_waiting());
            return Ok(expected);
        }
        ScanStep::Move(from, to) => {
            locks.handle_transfer(from, to);
            scan.rename(from, to);
        }
    }
    Ok(scan.grant_waiting())
}

fn agrees(locks: &RangeLocks, scan: &LockScan) -> TestCaseResult {
    prop_assert_eq!(locks.is_empty(), scan.held.is_empty());
    let first = scan.held.iter().map(|held| held.lock.range.offset).min();
    for offset in [0, 1, 7, 100, u64::MAX] {
        prop_assert_eq!(locks.has_before(offset), first.is_some_and(|first| first < offset));
    }
    for open in (1..OF_OWNERS + 3).map(OpenId) {
        let of = scan.held.iter().filter(|held| held.open == open);
        let mut own: Vec<_> = of.clone().filter(|h| h.owner.is_none()).map(|h| h.lock).collect();
        own.sort_by_key(|lock| (lock.kind as usize, lock.range.offset, lock.range.length));
        let mut found: Vec<_> = locks.of(open).collect();
        found.sort_by_key(|lock| (lock.kind as usize, lock.range.offset, lock.range.length));
        prop_assert_eq!(found, own);
        let waiting = scan.waiting.iter().filter(|(_, held)| held.open == open).count();
        if open.0 < OF_OWNERS {
            prop_assert_eq!(locks.count_of(open), of.count() + waiting);
        }
        for at in (0..490).step_by(3) {
            let range = Range { offset: at, length: 1 + at % 5 };
            let meets = |kind| {
                scan.held
                    .iter()
                    .filter(move |h| h.lock.kind == kind && h.lock.range.overlaps(range))
            };
            let is_own = |held: &&HeldLock| held.open == open && held.owner.is_none();
            let foreign = meets(LockKind::Exclusive).any(|held| !is_own(&held));
            let shared = meets(LockKind::Shared).next().is_some();
            prop_assert_eq!(locks.may_read(open, range), !foreign);
            prop_assert_eq!(locks.may_write(open, range), !foreign && !shared);
            let of_opens = |kind| meets(kind).any(|held| held.owner.is_none());
            let (excluded, shares) = (of_opens(LockKind::Exclusive), of_opens(LockKind::Shared));
            prop_assert_eq!(locks.may_use_beside_owners(range, false), !excluded);
            prop_assert_eq!(locks.may_use_beside_owners(range, true), !excluded && !shares);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn indexed_locks_agree_with_a_full_scan(all in steps()) {
        let (mut locks, mut scan) = (RangeLocks::default(), LockScan::default());
        for one in all {
            let expected = step(&mut locks, &mut scan, one)?;
            prop_assert_eq!(decided(&mut locks), expected);
        }
        agrees(&locks, &scan)?;
    }
}
