//! Rename and link. MS-FSA 2.1.5.15.6, 2.1.5.15.11.

use crate::harness::*;
use files::{BasicChange, OpenFile, OpenPlan, ShareMode, dos};
use std::sync::Arc;
use vfs::{FsError, Result};

fn rename(served: &ServedVolume, open: &Arc<OpenFile>, to: &str, replace: bool) -> Result<()> {
    now(served.files.rename(open, &path(to), replace))
}

#[test]
fn every_open_of_a_renamed_file_has_the_new_name() {
    let served = serve();
    served.put("old", b"data");
    served.put_directory("there");
    let reader = served.open("old", READ);
    let mover = served.open("old", DELETE);
    rename(&served, &mover, "THERE/new", false).unwrap();
    assert_eq!((reader.path(), mover.path()), (path("there/new"), path("there/new")));
    assert_eq!(served.read(&served.open("there/new", READ)).unwrap(), b"data");
    assert_eq!(served.refusal(plan("old", READ)), FsError::NotFound);
}

#[test]
fn rename_needs_delete_right() {
    let served = serve();
    served.put("file", b"");
    let open = served.open("file", READ | WRITE);
    assert_eq!(rename(&served, &open, "new", false), Err(FsError::AccessDenied));
}

#[test]
fn existing_target_is_refused_or_replaced() {
    let served = serve();
    served.put("a", b"a");
    served.put("b", b"b");
    let open = served.open("a", DELETE);
    assert_eq!(rename(&served, &open, "b", false), Err(FsError::AlreadyExists));
    rename(&served, &open, "b", true).unwrap();
    assert_eq!(served.get("b").unwrap(), b"a");
    assert!(!served.exists("a"));
}

#[test]
fn rename_replaces_no_open_readonly_or_directory() {
    let served = serve();
    for file in ["file", "open", "readonly"] {
        served.put(file, file.as_bytes());
    }
    served.put_directory("directory");
    let readonly = served.open("readonly", ALL);
    let change = BasicChange { dos_bits: Some(dos::READONLY), ..BasicChange::default() };
    served.files.set_attributes(&readonly, &change).unwrap();
    served.close(readonly);
    let _other = served.open("open", READ);
    let open = served.open("file", DELETE);
    for target in ["open", "readonly", "directory"] {
        assert_eq!(rename(&served, &open, target, true), Err(FsError::AccessDenied), "{target}");
    }
    let directory = served.open("directory", DELETE);
    assert_eq!(rename(&served, &directory, "readonly", true), Err(FsError::AccessDenied));
}

#[test]
fn directory_with_opens_below_is_not_renamed() {
    let served = serve();
    served.put_directory("a");
    served.put_directory("a/b");
    served.put("a/b/file", b"");
    let file = served.open("a/b/file", LOOK);
    let directory = served.open("a", DELETE);
    assert_eq!(rename(&served, &directory, "c", false), Err(FsError::AccessDenied));
    served.close(file);
    rename(&served, &directory, "c", false).unwrap();
    assert!(served.exists("c/b/file"));
    assert_eq!(
        rename(&served, &directory, "c/b/c", false),
        Err(FsError::AccessDenied),
        "into itself"
    );
}

#[test]
fn rename_changes_case_and_replaces_other_case() {
    let served = serve();
    served.put("name", b"1");
    let open = served.open("name", DELETE);
    rename(&served, &open, "Name", false).unwrap();
    assert_eq!(open.path(), path("Name"));
    assert!(served.exists("Name") && !served.exists("name"));
    served.put("other", b"2");
    served.close(open);
    let other = served.open("other", DELETE);
    rename(&served, &other, "NAME", true).unwrap();
    assert_eq!(other.path(), path("NAME"));
    assert_eq!(served.get("NAME").unwrap(), b"2");
    assert!(!served.exists("Name") && !served.exists("other"));
}

#[test]
fn failed_replacement_leaves_both_files() {
    let served = serve();
    served.put("a", b"a");
    served.put("B", b"b");
    let open = served.open("a", DELETE);
    served.hook(
        |_, at, _| if at == HookPoint::BeforeRename { Err(FsError::NoSpace) } else { Ok(()) },
    );
    assert_eq!(rename(&served, &open, "b", true), Err(FsError::NoSpace));
    served.unhook();
    assert_eq!(open.path(), path("a"));
    assert_eq!(
        (served.get("a").unwrap(), served.get("B").unwrap()),
        (b"a".to_vec(), b"b".to_vec())
    );
}

#[test]
fn rename_errors_distinguish_bad_targets() {
    let served = serve();
    served.put("file", b"");
    let open = served.open("file", DELETE);
    assert_eq!(rename(&served, &open, "no/such", false), Err(FsError::PathNotFound));
    assert_eq!(rename(&served, &open, "file/below", false), Err(FsError::PathNotFound));
    assert_eq!(rename(&served, &open, "", false), Err(FsError::AccessDenied));
    rename(&served, &open, "file", true).expect("its own name");
    assert!(served.exists("file"));
}

#[test]
fn hard_link_is_another_name_of_the_file() {
    let served = serve();
    served.put("file", b"data");
    served.put("taken", b"");
    served.put_directory("directory");
    let open = served.open("file", WRITE);
    let link = |to, replace| now(served.files.link(&open, &path(to), replace));
    assert_eq!(link("taken", false), Err(FsError::AlreadyExists));
    link("taken", true).unwrap();
    link("directory/new", false).unwrap();
    assert_eq!(served.get("taken").unwrap(), b"data");
    assert_eq!(served.open("directory/new", READ).key(), open.key());
    let directory = served.open("directory", LOOK);
    assert_eq!(now(served.files.link(&directory, &path("d"), false)), Err(FsError::IsDirectory));
}

#[test]
fn open_without_shared_deletion_blocks_rename() {
    let served = serve();
    served.put("file", b"");
    let _open = served.try_open(OpenPlan { share: ShareMode(3), ..plan("file", READ) }).unwrap();
    assert_eq!(served.refusal(plan("file", DELETE)), FsError::ShareViolation);
}

#[test]
fn directory_open_may_deny_new_names() {
    let served = serve();
    served.put_directory("d");
    served.put("d/file", b"");
    let file = served.open("d/file", DELETE);
    let hold = |desired, share| served.try_open(OpenPlan { share, ..plan("d", desired) }).unwrap();
    for (number, (desired, share, expected)) in [
        (READ | DELETE, ShareMode::ALL, Err(FsError::ShareViolation)),
        (READ, ShareMode(5), Err(FsError::ShareViolation)),
        (READ, ShareMode::ALL, Ok(())),
        (LOOK, ShareMode::default(), Ok(())),
    ]
    .into_iter()
    .enumerate()
    {
        let directory = hold(desired, share);
        assert_eq!(rename(&served, &file, "d/file", false), expected, "{desired:?} {share:?}");
        assert_eq!(now(served.files.link(&file, &path(&format!("d/{number}")), false)), expected);
        drop(directory);
    }
}

#[test]
fn rename_from_directory_that_cannot_be_claimed_is_refused() {
    let served = serve();
    ["a", "b"].into_iter().for_each(|at| served.put_directory(at));
    served.put("a/x", b"");
    let open = served.open("a/x", DELETE);
    served.hook(|_, at, found| match at == HookPoint::AfterOpen && *found == path("a") {
        true => Err(FsError::Io),
        false => Ok(()),
    });
    assert_eq!(now(served.files.rename(&open, &path("b/y"), false)), Err(FsError::Io));
    served.unhook();
    assert!(served.exists("a/x"));
    served.close(open);
    served.assert_nothing_held();
}
