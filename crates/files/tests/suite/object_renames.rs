//! Renames of objects: without a lookup of the new name before the try, or of the present one
//! before the change.

use crate::harness::*;
use files::{OpenPlan, ShareMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use vfs::FsError;

fn rename(served: &ServedVolume, old: &str, new: &str) -> vfs::Result<()> {
    let root = served.root();
    now(served.files.rename_object(&served.alice, (&root, &name(old)), (&root, &name(new))))
}

/// Counts the renames that reach the backend.
fn counted(served: &ServedVolume) -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let counting = count.clone();
    served.hook(move |_, at, _| {
        counting.fetch_add(u32::from(at == HookPoint::BeforeRename), Ordering::Relaxed);
        Ok(())
    });
    count
}

#[test]
fn free_name_takes_one_rename_and_taken_name_two() {
    let served = serve();
    served.put("file", b"x");
    served.put("taken", b"y");
    let count = counted(&served);
    rename(&served, "file", "free").unwrap();
    assert_eq!(count.swap(0, Ordering::Relaxed), 1);
    rename(&served, "free", "taken").unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 2);
    served.unhook();
    assert_eq!(served.get("taken").unwrap(), b"x");
    assert!(!served.exists("free") && !served.exists("file"));
    served.assert_nothing_held();
}

/// Gives the name `file` to `other`, as a local process, right before the first rename.
fn replaced_before_rename(served: &ServedVolume) {
    served.put("file", b"x");
    served.put("other", b"y");
    let [other, file] = ["other", "file"].map(|at| served.dir.path().join(at));
    served.hook_once(HookPoint::BeforeRename, move |_| std::fs::rename(&other, &file).unwrap());
}

#[test]
fn rename_opens_the_file_that_took_the_name() {
    let served = serve();
    replaced_before_rename(&served);
    rename(&served, "file", "moved").unwrap();
    assert_eq!(served.get("moved").unwrap(), b"y");
    assert!(!served.exists("file"));
    served.assert_nothing_held();
}

#[test]
fn rename_does_not_move_unchecked_file_that_took_the_name() {
    let served = serve();
    replaced_before_rename(&served);
    let exclusive = OpenPlan { share: ShareMode(0), ..plan("other", READ) };
    let holder = served.try_open(exclusive).unwrap().open;
    assert_eq!(rename(&served, "file", "moved"), Err(FsError::ShareViolation));
    assert!(!served.exists("moved"));
    assert_eq!(served.get("file").unwrap(), b"y");
    served.close(holder);
    served.assert_nothing_held();
}

#[test]
fn appearing_target_is_checked_before_replacement() {
    let served = serve();
    served.put("file", b"x");
    served.put("kept", b"y");
    let kept = served.open("kept", READ);
    let (from, to) = (served.dir.path().join("kept"), served.dir.path().join("taken"));
    served.hook_once(HookPoint::BeforeRename, move |_| std::fs::hard_link(&from, &to).unwrap());
    assert!(rename(&served, "file", "taken").is_err(), "the file is open");
    assert_eq!(served.get("taken").unwrap(), b"y");
    assert_eq!(served.get("file").unwrap(), b"x");
    served.close(kept);
    served.assert_nothing_held();
}
