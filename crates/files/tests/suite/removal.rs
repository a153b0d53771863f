//! Deletion: delete pending, last close, names. MS-FSA 2.1.5.5, 2.1.5.15.3.

use crate::harness::*;
use files::{BasicChange, OpenPlan, dos};
use std::sync::Arc;
use vfs::{Actor, FsError, Vfs};

fn delete_on_close(plan: OpenPlan) -> OpenPlan {
    OpenPlan { delete_on_close: true, ..plan }
}

#[test]
fn delete_on_close_removes_at_the_close_or_drop() {
    let served = serve();
    let made = served.try_open(delete_on_close(new_file("closed"))).unwrap();
    assert!(!made.open.is_delete_pending(), "it is not yet");
    served.close(made.open);
    assert!(!served.exists("closed"));
    drop(served.try_open(delete_on_close(new_file("dropped"))).unwrap());
    assert!(!served.exists("dropped"));
    served.put_directory("directory");
    served.close(served.try_open(delete_on_close(plan("directory", DELETE))).unwrap().open);
    assert!(!served.exists("directory"));
    served.assert_nothing_held();
}

#[test]
fn delete_pending_name_is_not_renamed_or_linked() {
    let served = serve();
    served.put("file", b"data");
    served.put("kept", b"kept");
    let open = served.open("file", READ | DELETE);
    let root = served.root();
    // The Windows open keeps the name that the NFS client has removed.
    now(served.files.remove_object(&served.alice, &root, &name("file"))).unwrap();
    assert!(open.is_delete_pending());
    let renamed = now(served.files.rename(&open, &path("kept"), true));
    assert_eq!(renamed, Err(FsError::AccessDenied));
    let linked = now(served.files.link(&open, &path("link"), false));
    assert_eq!(linked, Err(FsError::AccessDenied));
    let (file, kept) = (name("file"), name("kept"));
    let by_nfs = served.files.rename_object(&served.alice, (&root, &file), (&root, &kept));
    assert_eq!(now(by_nfs), Err(FsError::DeletePending));
    served.close(open);
    assert_eq!(served.get("kept").unwrap(), b"kept");
    assert!(!served.exists("file") && !served.exists("link"));
    served.assert_nothing_held();
}

#[test]
fn delete_pending_file_serves_existing_opens_only() {
    let served = serve();
    served.put("file", b"data");
    let reader = served.open("file", READ);
    let deleter = served.open("file", DELETE);
    served.files.set_delete(&deleter, true, false).unwrap();
    assert!(reader.is_delete_pending());
    assert_eq!(served.refusal(plan("file", READ)), FsError::DeletePending);
    assert_eq!(served.refusal(new_file("file")), FsError::AlreadyExists);
    served.close(deleter);
    assert_eq!(served.read(&reader).unwrap(), b"data");
    assert!(served.exists("file"));
    served.close(reader);
    assert!(!served.exists("file"));
    served.put("file", b"another");
    served.assert_nothing_held();
}

#[test]
fn cleared_delete_pending_removes_nothing() {
    let served = serve();
    served.put("file", b"");
    let open = served.open("file", DELETE);
    served.files.set_delete(&open, true, false).unwrap();
    served.files.set_delete(&open, false, false).unwrap();
    assert!(served.try_open(plan("file", READ)).is_ok());
    served.close(open);
    assert!(served.exists("file"));
}

#[test]
fn refused_delete_pending_reports_reason() {
    let served = serve();
    served.put("file", b"");
    served.put_directory("full");
    served.put("full/file", b"");
    let reader = served.open("file", READ);
    assert_eq!(served.files.set_delete(&reader, true, false), Err(FsError::AccessDenied));
    let full = served.open("full", DELETE);
    assert_eq!(served.files.set_delete(&full, true, false), Err(FsError::NotEmpty));
    let root = served.try_open_as(&user(0, 0), plan("", DELETE));
    if let Ok(root) = root {
        assert_eq!(served.files.set_delete(&root.open, true, false), Err(FsError::CannotDelete));
    }
    let readonly = served.open("file", DELETE | files::Access::WRITE_ATTRIBUTES);
    let change = BasicChange { dos_bits: Some(dos::READONLY), ..BasicChange::default() };
    served.files.set_attributes(&readonly, &change).unwrap();
    assert_eq!(served.files.set_delete(&readonly, true, false), Err(FsError::CannotDelete));
    served.files.set_delete(&readonly, true, true).expect("unless it is ignored");
}

#[test]
fn delete_pending_directory_refuses_create() {
    let served = serve();
    served.put_directory("directory");
    served.put("file", b"");
    let directory = served.open("directory", DELETE);
    served.files.set_delete(&directory, true, false).unwrap();
    assert_eq!(served.refusal(new_file("directory/file")), FsError::DeletePending);
    let file = served.open("file", DELETE);
    let moved = now(served.files.rename(&file, &path("directory/file"), false));
    assert_eq!(moved, Err(FsError::DeletePending));
    served.close(directory);
    assert!(!served.exists("directory"));
}

#[test]
fn locally_filled_directory_stays_at_close() {
    let served = serve();
    served.put_directory("directory");
    let directory = served.try_open(delete_on_close(plan("directory", DELETE))).unwrap().open;
    make_beneath(&*served.vfs, "directory/file");
    served.close(directory);
    assert!(served.exists("directory/file"));
    served.assert_nothing_held();
}

#[test]
fn deleting_one_name_of_a_file_leaves_the_other() {
    let served = serve();
    served.put("one", b"data");
    let one = served.open("one", DELETE);
    now(served.files.link(&one, &path("two"), false)).unwrap();
    served.close(one);
    let two = served.open("two", READ);
    let one = served.open("one", DELETE);
    served.files.set_delete(&one, true, false).unwrap();
    assert_eq!(served.refusal(plan("one", READ)), FsError::DeletePending);
    assert!(served.try_open(plan("two", READ)).is_ok());
    served.close(one);
    assert!(!served.exists("one") && served.exists("two"));
    assert!(!two.is_delete_pending());
    served.close(two);
    assert_eq!(served.get("two").unwrap(), b"data");
    served.assert_nothing_held();
}

#[test]
fn deleting_through_a_symbolic_link_removes_the_link() {
    let served = serve();
    served.put("target", b"data");
    served.vfs.symlink(Actor::SUPERUSER, &path("link"), b"target").unwrap();
    if served.is_root {
        assert!(served.try_open_as(&user(0, 0), delete_on_close(plan("link", DELETE))).is_ok());
    } else {
        served.close(served.try_open(delete_on_close(plan("link", DELETE))).unwrap().open);
    }
    assert!(!served.exists("link") && served.exists("target"));
}

#[test]
fn renamed_file_is_removed_by_new_name() {
    let served = serve();
    let made = served.try_open(delete_on_close(new_file("old"))).unwrap().open;
    now(served.files.rename(&made, &path("new"), false)).unwrap();
    served.put("old", b"another");
    served.close(made);
    assert!(!served.exists("new") && served.exists("old"));
}

#[test]
fn replacement_of_delete_pending_file_stays() {
    let served = serve();
    let made = served.try_open(delete_on_close(new_file("file"))).unwrap().open;
    remove_beneath(&*served.vfs, "file");
    make_beneath(&*served.vfs, "file");
    served.close(made);
    assert!(served.exists("file"));
}

#[test]
fn while_a_name_is_being_removed_it_cannot_be_opened() {
    let served = serve();
    let made = served.try_open(delete_on_close(new_file("file"))).unwrap().open;
    let (files, volume, alice) =
        (served.files.clone(), served.volume.clone(), served.alice.clone());
    let seen = Arc::new(std::sync::Mutex::new(None));
    let tell = seen.clone();
    served.hook_once(HookPoint::BeforeRemove, move |_| {
        let result = now(files.open(&volume, &alice, plan("file", READ)));
        *tell.lock().unwrap() = Some(result.map(|_| ()).unwrap_err());
    });
    served.close(made);
    assert_eq!(*seen.lock().unwrap(), Some(FsError::DeletePending));
    assert!(!served.exists("file"));
    served.assert_nothing_held();
}

#[test]
fn failed_removal_is_reported_and_file_stays_usable() {
    let served = serve();
    let made = served.try_open(delete_on_close(new_file("file"))).unwrap().open;
    served.hook(|_, at, _| if at == HookPoint::BeforeRemove { Err(FsError::Io) } else { Ok(()) });
    assert_eq!(now(served.files.close(made)), Err(FsError::Io));
    served.unhook();
    served.assert_nothing_held();
    assert!(served.try_open(plan("file", READ)).is_ok());
}

#[test]
fn unremovable_name_is_refused_before_close() {
    let served = serve();
    if !served.is_root {
        return eprintln!("skipped: needs the superuser to act as two users");
    }
    served.put_directory("directory");
    served.put("directory/file", b"");
    served.set_mode("directory", 0o555);
    assert_eq!(
        served.refusal(delete_on_close(plan("directory/file", DELETE))),
        FsError::AccessDenied
    );
    let open = served.open("directory/file", DELETE);
    assert_eq!(served.files.set_delete(&open, true, false), Err(FsError::AccessDenied));
    served.close(open);
    assert!(served.exists("directory/file"));
}
