//! POSIX opens beside Windows opens.

use crate::harness::*;
use files::{
    Access, BasicChange, IfExists, IfMissing, NewMode, OpenFile, OpenPlan, OpenResult, Semantics,
    TimeSetting, dos,
};
use std::sync::Arc;
use vfs::{Actor, FileKind, FsError, Timestamp, Vfs};

fn posix(plan: OpenPlan) -> OpenPlan {
    OpenPlan { semantics: Semantics::Posix, ..plan }
}

fn delete_on_close(plan: OpenPlan) -> OpenPlan {
    OpenPlan { delete_on_close: true, ..plan }
}

fn open(served: &ServedVolume, at: &str, desired: Access) -> Arc<OpenFile> {
    served.try_open(posix(plan(at, desired))).unwrap().open
}

fn unlink(served: &ServedVolume, at: &str) -> Result<(), FsError> {
    let open = served.try_open(posix(delete_on_close(plan(at, DELETE))))?.open;
    now(served.files.close(open))
}

fn rename(served: &ServedVolume, from: &str, to: &str) -> Result<(), FsError> {
    let source = open(served, from, DELETE);
    now(served.files.rename(&source, &path(to), true))
}

#[test]
fn names_differing_in_case_are_distinct_for_posix() {
    let served = serve();
    served.put("file", b"small");
    assert_eq!(served.refusal(posix(plan("FILE", READ))), FsError::NotFound);
    assert_eq!(served.refusal(posix(plan("no/FILE", READ))), FsError::PathNotFound);
    served.close(served.try_open(posix(new_file("FILE"))).unwrap().open);
    assert_eq!(served.read(&open(&served, "file", READ)).unwrap(), b"small");
    assert_eq!(served.read(&open(&served, "FILE", READ)).unwrap(), b"");
    assert_eq!(served.refusal(posix(new_file("FILE"))), FsError::AlreadyExists);
    rename(&served, "FILE", "File").unwrap();
    assert!(served.exists("file") && served.exists("File"));
}

/// futimens(2), then write(2): the Linux client sends a change time with each.
#[test]
fn times_set_by_posix_clients_are_moved_by_their_writes() {
    let served = serve();
    let open = served.try_open(posix(new_file("file"))).unwrap().open;
    let then = TimeSetting::Set(Timestamp(1_000_000_000_123_456_700));
    let before = served.files.attributes(&open).unwrap();
    let change =
        BasicChange { accessed: then, modified: then, changed: then, ..BasicChange::default() };
    served.files.set_attributes(&open, &change).unwrap();
    let set = served.files.attributes(&open).unwrap();
    assert_eq!(TimeSetting::Set(set.modified), then);
    assert_eq!(set.set_changed, None, "the change time is the server's");
    assert_eq!(set.dos, before.dos, "nothing is stored beside");
    std::thread::sleep(std::time::Duration::from_millis(25));
    served.files.write(open.caller(), &open, 0, b"x").unwrap();
    let written = served.files.attributes(&open).unwrap();
    assert!(written.modified > set.modified && written.changed > set.changed);
}

#[test]
fn posix_create_has_mode_and_no_descriptor() {
    let served = serve();
    let wide = posix(OpenPlan { mode: Some(NewMode::exactly(0o1640)), ..new_file("file") });
    let OpenResult { open, attributes, .. } = served.try_open(wide).unwrap();
    assert_eq!(attributes.mode, 0o1640);
    assert_eq!(open.semantics(), Semantics::Posix);
    served.close(open);
    let narrow = posix(OpenPlan { mode: Some(NewMode::exactly(0o700)), ..new_directory("d") });
    assert_eq!(served.try_open(narrow).unwrap().attributes.mode, 0o700);
    let none = posix(OpenPlan { mode: Some(NewMode::exactly(0)), ..new_file("none") });
    let OpenResult { open, .. } = served.try_open(none).unwrap();
    served.files.write(open.caller(), &open, 0, b"by its maker").unwrap();
    let closed = posix(OpenPlan { mode: Some(NewMode::exactly(0)), ..new_directory("closed") });
    assert_eq!(served.try_open(closed).unwrap().attributes.mode, 0, "it grants nothing");
    assert!(served.look("none", false).unwrap().node.security_descriptor().unwrap().is_none());
}

#[test]
fn new_mode_replaces_stored_descriptor() {
    let served = serve();
    served.put("file", b"");
    let made = open(&served, "file", ALL);
    let descriptor =
        served.files.descriptor(&made, files::SecurityParts { dacl: true, ..Default::default() });
    let dacl = files::SecurityParts { dacl: true, ..Default::default() };
    served.files.set_descriptor(&made, &descriptor.unwrap(), dacl).unwrap();
    served.files.set_mode(&made, 0o4751).unwrap();
    let looked = served.look("file", false).unwrap();
    assert_eq!(looked.attributes.mode, 0o4751);
    assert!(looked.node.security_descriptor().unwrap().is_none());
    let reader = open(&served, "file", READ);
    assert_eq!(served.files.set_mode(&reader, 0o600), Err(FsError::AccessDenied));
}

#[test]
fn posix_open_survives_unlink() {
    let served = serve();
    served.put("file", b"data");
    let reader = open(&served, "file", READ | WRITE);
    unlink(&served, "file").unwrap();
    assert!(!served.exists("file"));
    assert_eq!(served.refusal(posix(plan("file", READ))), FsError::NotFound);
    assert_eq!(served.read(&reader).unwrap(), b"data");
    served.files.write(reader.caller(), &reader, 4, b" more").unwrap();
    assert!(!reader.is_delete_pending());
    assert_eq!(served.files.attributes(&reader).unwrap().links, 0);

    served.put("file", b"another");
    assert_eq!(served.read(&reader).unwrap(), b"data more");
    served.close(reader);
    assert_eq!(served.get("file").unwrap(), b"another");
    served.assert_nothing_held();
}

#[test]
fn windows_open_pins_name_until_close() {
    let served = serve();
    served.put("file", b"data");
    let windows = served.open("file", READ);
    let reader = open(&served, "file", READ);
    unlink(&served, "file").unwrap();
    assert!(served.exists("file"));
    assert_eq!(served.refusal(posix(plan("file", READ))), FsError::DeletePending);
    served.close(windows);
    assert!(!served.exists("file"));
    served.close(reader);
    served.assert_nothing_held();
}

#[test]
fn open_of_unlinked_file_ignores_name_reuse() {
    let served = serve();
    served.put("file", b"old");
    let old = open(&served, "file", DELETE | READ);
    unlink(&served, "file").unwrap();
    served.put("file", b"new");
    assert_eq!(now(served.files.rename(&old, &path("moved"), true)), Err(FsError::NotFound));
    served.files.set_delete(&old, true, false).unwrap();
    served.close(old);
    assert_eq!(served.get("file").unwrap(), b"new");
    assert!(!served.exists("moved"));
    served.assert_nothing_held();
}

#[test]
fn rename_replaces_file_with_posix_opens() {
    let served = serve();
    served.put("new", b"new");
    served.put("old", b"old");
    let reader = open(&served, "old", READ);
    let windows = served.open("old", READ);
    assert_eq!(rename(&served, "new", "old"), Err(FsError::AccessDenied), "Windows has it open");
    served.close(windows);
    rename(&served, "new", "old").unwrap();
    assert_eq!(served.get("old").unwrap(), b"new");
    assert_eq!(served.read(&reader).unwrap(), b"old");
    assert!(!served.exists("new"));
    served.close(reader);
    assert_eq!(served.get("old").unwrap(), b"new");
    served.assert_nothing_held();
}

#[test]
fn rename_between_hard_links_leaves_both() {
    let served = serve();
    served.put("one", b"data");
    let source = open(&served, "one", DELETE);
    now(served.files.link(&source, &path("two"), false)).unwrap();
    now(served.files.rename(&source, &path("two"), true)).unwrap();
    assert!(served.exists("one") && served.exists("two"));
    assert_eq!(source.path(), path("one"));
}

#[test]
fn directory_with_posix_opens_below_is_renamed() {
    let served = serve();
    served.put_directory("d");
    served.put_directory("d/e");
    served.put("d/e/file", b"data");
    let file = open(&served, "d/e/file", READ | DELETE);
    let below = open(&served, "d/e", READ);
    let windows = served.open("d/e/file", LOOK);
    assert_eq!(rename(&served, "d", "f"), Err(FsError::AccessDenied), "Windows has a file open");
    served.close(windows);
    let plain = served.open("d", DELETE);
    assert_eq!(now(served.files.rename(&plain, &path("f"), false)), Err(FsError::AccessDenied));
    served.close(plain);
    rename(&served, "d", "f").unwrap();
    assert_eq!(file.path(), path("f/e/file"));
    assert_eq!(below.path(), path("f/e"));
    served.files.set_delete(&file, true, false).unwrap();
    served.close(file);
    assert!(!served.exists("f/e/file"), "it is found by its new path");
    served.close(below);
    served.assert_nothing_held();
}

#[test]
fn dos_attributes_do_not_bind_posix_opens() {
    let served = serve();
    let bits = dos::READONLY | dos::HIDDEN;
    for at in ["gone", "replaced"] {
        served.close(served.try_open(OpenPlan { dos_bits: bits, ..new_file(at) }).unwrap().open);
    }
    unlink(&served, "gone").unwrap();
    assert!(!served.exists("gone"));
    let again = OpenPlan {
        if_exists: IfExists::Overwrite,
        if_missing: IfMissing::Fail,
        ..plan("replaced", ALL)
    };
    assert_eq!(served.refusal(posix(again)), FsError::AccessDenied, "it is not written to either");
    served.put("file", b"new");
    rename(&served, "file", "replaced").unwrap();
    assert_eq!(served.get("replaced").unwrap(), b"new");
}

#[test]
fn posix_open_reports_symlink_or_opens_it_itself() {
    let served = serve();
    served.put("file", b"data");
    served.vfs.symlink(Actor::SUPERUSER, &path("link"), b"file").unwrap();
    assert_eq!(served.read(&served.open("link", READ)).unwrap(), b"data", "Windows is led on");
    assert_eq!(served.refusal(posix(plan("link", READ))), FsError::IsSymlink);
    let link = posix(OpenPlan { no_follow: true, ..plan("link", LOOK | DELETE) });
    let link = served.try_open(link).unwrap().open;
    assert_eq!(link.kind(), FileKind::Symlink);
    assert_eq!(served.files.readlink(&link).unwrap(), b"file");
    served.files.set_delete(&link, true, false).unwrap();
    served.close(link);
    assert!(!served.exists("link") && served.exists("file"));
}
