//! Opens that are made again after a restart.

use crate::harness::*;
use files::{Access, Files, LockKind, OpenPlan, Range, RangeLock, Share};
use std::sync::Arc;
use vfs::FsError;

fn lock(offset: u64) -> RangeLock {
    RangeLock { range: Range::new(offset, 10).unwrap(), kind: LockKind::Exclusive }
}

#[test]
fn an_open_is_made_again_with_its_rights_share_mode_and_locks() {
    let served = serve();
    served.put("file", b"data");
    let both = READ | WRITE;
    let first = served.try_open(OpenPlan { share: Share::READ, ..plan("file", both) }).unwrap();
    served.files.try_locks(&first.open, &[lock(0), lock(100)]).unwrap();
    let facts = first.open.facts(first.attributes.born).unwrap();
    drop(first);

    let again = served.files.restore(&served.volume, &served.alice, &facts).unwrap();
    assert_eq!(again.facts(facts.born), Some(facts));
    assert_eq!(served.read(&again).unwrap(), b"data");
    served.files.set_away(&again, true);
    assert_eq!(served.refusal(plan("file", READ)), FsError::Unavailable);
    served.files.set_away(&again, false);
    assert_eq!(served.refusal(plan("file", WRITE)), FsError::ShareViolation);
    let other = served.open("file", READ);
    assert_eq!(served.files.try_locks(&other, &[lock(105)]), Err(FsError::LockNotGranted));
    drop((again, other));
    served.assert_nothing_held();
}

#[test]
fn a_mark_to_vanish_is_made_again_and_carried_out_at_the_close() {
    let served = serve();
    for (name, on_close) in [("marked", false), ("on close", true)] {
        served.put(name, b"");
        let plan = OpenPlan { delete_on_close: on_close, ..plan(name, DELETE) };
        let first = served.try_open(plan).unwrap();
        if !on_close {
            served.files.set_delete(&first.open, true, false).unwrap();
        }
        let facts = first.open.facts(first.attributes.born).unwrap();
        assert_eq!((facts.delete_on_close, facts.delete_pending), (on_close, !on_close));
        // As if the process had been killed: nothing is closed.
        std::mem::forget(first);
        let next = Files::new(Arc::new(Inline));
        let again = next.restore(&served.volume, &served.alice, &facts).unwrap();
        assert!(served.exists(name));
        now(next.close(again)).unwrap();
        assert!(!served.exists(name));
    }
}

#[test]
fn another_file_under_the_same_name_is_not_taken_for_it() {
    let served = serve();
    served.put("file", b"old");
    let first = served.try_open(plan("file", READ | Access::DELETE)).unwrap();
    let facts = first.open.facts(first.attributes.born).unwrap();
    drop(first);
    served.put("next", b"new");
    std::fs::rename(served.dir.path().join("next"), served.dir.path().join("file")).unwrap();
    let refused = served.files.restore(&served.volume, &served.alice, &facts);
    assert_eq!(refused.err(), Some(FsError::Stale));
    served.assert_nothing_held();
}
