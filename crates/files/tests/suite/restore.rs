//! Opens that are restored after a restart.

use crate::harness::*;
use crate::open_journal::SilentHolder;
use files::{
    Absence, Access, BasicChange, CacheHolder, CacheKey, CacheKeyWish, CacheWish, CachingRights,
    Files, LockKind, OpenFacts, OpenPlan, OpenResult, Range, RangeLock, ShareMode, TimeSetting,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{FsError, Timestamp};

fn lock(offset: u64) -> RangeLock {
    RangeLock { range: Range::new(offset, 10).unwrap(), kind: LockKind::Exclusive }
}

fn nobody() -> Arc<dyn CacheHolder> {
    Arc::new(SilentHolder)
}

fn leased(name: &str, wanted: u8, number: u8) -> OpenPlan {
    let key = CacheKey { client: [1; 16], key: [number; 16] };
    let parent = Some([9; 16]);
    let key = CacheKeyWish { key, epoch: 7, parent, of_directories: true };
    let caching = CacheWish { wanted: CachingRights(wanted), key: Some(key), holder: nobody() };
    OpenPlan { caching: Some(caching), share: ShareMode::ALL, ..plan(name, READ | WRITE) }
}

fn facts_of(made: &OpenResult) -> OpenFacts {
    made.open.facts(&made.open.identity(made.attributes.born)).unwrap()
}

#[test]
fn lease_is_restored_with_state_for_all_opens() {
    let served = serve();
    served.put("file", b"");
    let first = served.try_open(leased("file", 3, 1)).unwrap();
    let second = served.try_open(leased("file", 7, 1)).unwrap();
    assert_eq!((second.caching.has, second.caching.epoch), (CachingRights::BATCH, 9));
    let mut facts = [first, second].map(|made| {
        let facts = facts_of(&made);
        std::mem::forget(made);
        facts
    });
    // Its state before the second lease came.
    (facts[0].caching, facts[0].epoch) = (CachingRights(3), 8);
    let next = Arc::new(Files::new(Arc::new(Inline))).for_server();
    let again = facts.each_ref().map(|facts| {
        next.restore(&served.volume, &served.alice, facts, &nobody(), &HOLDER).unwrap()
    });
    for (open, facts) in again.iter().zip(&facts).rev() {
        next.restore_caching(open, facts, nobody());
    }
    assert_eq!(again[0].facts(&facts[1].identity), Some(facts[1].clone()));
    assert_eq!(again[1].facts(&facts[1].identity), Some(facts[1].clone()));
}

#[test]
fn restored_open_leaves_times_that_it_stopped() {
    let served = serve();
    served.put("file", b"data");
    let made = served.try_open(plan("file", ALL)).unwrap();
    let setting = TimeSetting::Set(Timestamp(1_000_000_000_123_456_700));
    let (accessed, modified, changed) = (setting, setting, setting);
    let stop = BasicChange { accessed, modified, changed, ..BasicChange::default() };
    served.files.set_attributes(&made.open, &stop).unwrap();
    let facts = facts_of(&made);
    std::mem::forget(made);
    let next = Arc::new(Files::new(Arc::new(Inline))).for_server();
    let open = next.restore(&served.volume, &served.alice, &facts, &nobody(), &HOLDER).unwrap();
    let times = || {
        let found = next.attributes(&open).unwrap();
        [found.accessed, found.modified, found.shown_changed()].map(TimeSetting::Set)
    };
    next.write(open.caller(), &open, 0, b"more").unwrap();
    now(next.read(&open, 0, 4, &mut Vec::new())).unwrap();
    assert_eq!(times(), [setting; 3]);
    assert_eq!(open.facts(&facts.identity).map(|facts| facts.stopped_times.bits()), Some(7));
    let resume = BasicChange { modified: TimeSetting::Thaw, ..BasicChange::default() };
    next.set_attributes(&open, &resume).unwrap();
    next.write(open.caller(), &open, 0, b"more").unwrap();
    assert_ne!(times()[1], setting);
}

#[test]
fn conflicting_leases_are_restored_partially() {
    let served = serve();
    served.put("file", b"");
    let next = Arc::new(Files::new(Arc::new(Inline))).for_server();
    let facts = [1, 2].map(|number| {
        let made = served.try_open(leased("file", 3, number)).unwrap();
        let facts = facts_of(&made);
        std::mem::forget(made);
        // Recorded before the other one came.
        files::OpenFacts { caching: CachingRights::BATCH, ..facts }
    });
    let again = facts.each_ref().map(|facts| {
        next.restore(&served.volume, &served.alice, facts, &nobody(), &HOLDER).unwrap()
    });
    for (open, facts) in again.iter().zip(&facts) {
        next.restore_caching(open, facts, nobody());
    }
    for (open, facts) in again.iter().zip(&facts) {
        let state = open.cache_state();
        assert_eq!((state.has, state.epoch), (CachingRights(3), facts.epoch + 1));
    }
}

#[test]
fn open_is_restored_with_rights_share_mode_and_locks() {
    let served = serve();
    served.put("file", b"data");
    let both = READ | WRITE;
    let first = served.try_open(OpenPlan { share: ShareMode::READ, ..plan("file", both) }).unwrap();
    served.files.try_locks(&first.open, &[lock(0), lock(100)], &HOLDER).unwrap();
    let facts = facts_of(&first);
    drop(first);

    let again =
        served.files.restore(&served.volume, &served.alice, &facts, &nobody(), &HOLDER).unwrap();
    assert_eq!(again.facts(&facts.identity), Some(facts));
    assert_eq!(served.read(&again).unwrap(), b"data");
    served.files.set_absence(&again, Some(Absence::RetainsCaching));
    assert_eq!(served.refusal(plan("file", READ)), FsError::Unavailable);
    served.files.set_absence(&again, None);
    assert_eq!(served.refusal(plan("file", WRITE)), FsError::ShareViolation);
    let other = served.open("file", READ);
    assert_eq!(served.files.try_locks(&other, &[lock(105)], &HOLDER), Err(FsError::LockNotGranted));
    drop((again, other));
    served.assert_nothing_held();
}

#[test]
fn delete_pending_is_restored_and_done_at_close() {
    let served = serve();
    for (name, on_close) in [("marked", false), ("on close", true)] {
        served.put(name, b"");
        let plan = OpenPlan { delete_on_close: on_close, ..plan(name, DELETE) };
        let first = served.try_open(plan).unwrap();
        if !on_close {
            served.files.set_delete(&first.open, true, false).unwrap();
        }
        let facts = facts_of(&first);
        assert_eq!((facts.delete_on_close, facts.delete_pending), (on_close, !on_close));
        // As after a kill: nothing is closed.
        std::mem::forget(first);
        let next = Arc::new(Files::new(Arc::new(Inline))).for_server();
        let again =
            next.restore(&served.volume, &served.alice, &facts, &nobody(), &HOLDER).unwrap();
        assert!(served.exists(name));
        now(next.close(again)).unwrap();
        assert!(!served.exists(name));
    }
}

#[test]
fn other_file_of_same_name_is_not_restored() {
    let served = serve();
    served.put("file", b"old");
    let first = served.try_open(plan("file", READ | Access::DELETE)).unwrap();
    let facts = facts_of(&first);
    drop(first);
    served.put("next", b"new");
    std::fs::rename(served.dir.path().join("next"), served.dir.path().join("file")).unwrap();
    let refused = served.files.restore(&served.volume, &served.alice, &facts, &nobody(), &HOLDER);
    assert_eq!(refused.err(), Some(FsError::Stale));
    served.assert_nothing_held();
}

#[test]
fn open_is_restored_under_another_device_number() {
    let served = serve();
    served.put("file", b"data");
    let first = served.try_open(plan("file", READ)).unwrap();
    let (facts, before) = (facts_of(&first), first.attributes.key.device);
    std::mem::forget(first);
    served.vfs.device_shift.store(7, Ordering::Relaxed);
    let next = Arc::new(Files::new(Arc::new(Inline))).for_server();
    let again = next.restore(&served.volume, &served.alice, &facts, &nobody(), &HOLDER).unwrap();
    let device = now(next.root_object(&served.volume)).unwrap().key().device;
    assert_eq!(device, before, "of the node itself, which the test does not change");
    assert_eq!(served.read(&again).unwrap(), b"data");
}

#[test]
fn file_of_other_generation_is_not_restored() {
    let served = serve();
    served.put("file", b"old");
    served.put("other", b"new");
    let [file, other] = ["file", "other"].map(|name| {
        let made = served.try_open(plan(name, READ)).unwrap();
        facts_of(&made)
    });
    if file.identity.lasting.is_none() {
        return eprintln!("SKIPPED: this file system has no handles");
    }
    assert_ne!(file.identity.lasting, other.identity.lasting);
    let restore = |facts: &OpenFacts| {
        served.files.restore(&served.volume, &served.alice, facts, &nobody(), &HOLDER).map(drop)
    };
    let mut changed = file.clone();
    changed.identity.lasting = other.identity.lasting;
    assert_eq!(restore(&changed), Err(FsError::Stale));
    // Recorded by a server without lasting identifiers.
    changed.identity.lasting = None;
    assert_eq!(restore(&changed), Ok(()));
    assert_eq!(restore(&file), Ok(()));
}
