//! Data changes in watched directories: their time and frequency. And the kind under which each way
//! to change a file is reported.

use crate::harness::*;
use crate::watch::WatchedDirectory;
use files::{
    BasicChange, Descriptor, ObjectChanges, OpenFile, OpenPlan, SecurityParts, TimeSetting,
    VolumeOptions, WatchFilter, XattrSetMode,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{DosInfo, ExternalChange, ExternalName, FsError, StreamName, TimeChange, Timestamp};

fn write(served: &ServedVolume, open: &Arc<OpenFile>, offset: u64, data: &[u8]) {
    served.files.write(open.caller(), open, offset, data).unwrap();
}

fn set_size(served: &ServedVolume, open: &Arc<OpenFile>, size_bytes: u64) {
    now(served.files.set_size(open.caller(), open, size_bytes)).unwrap();
}

fn stream_of(plan: OpenPlan, name: &str) -> OpenPlan {
    OpenPlan { stream: Some(StreamName::new(name.as_bytes()).unwrap()), ..plan }
}

#[test]
fn data_change_is_reported_once_and_not_at_close() {
    let served = serve();
    served.put("f", b"1");
    let sizes = served.watch("", WatchFilter::SIZE, false);
    let writes = served.watch("", WatchFilter::LAST_WRITE, false);
    let names = served.watch("", WatchFilter::FILE_NAME, false);
    let open = served.open("f", ALL);
    write(&served, &open, 0, b"22");
    assert_eq!((sizes.reported().as_str(), writes.reported().as_str()), ("!f", "!f"), "it grows");
    write(&served, &open, 0, b"33");
    assert_eq!((sizes.reported().as_str(), writes.reported().as_str()), ("", "!f"), "it does not");
    set_size(&served, &open, 1);
    assert_eq!((sizes.reported().as_str(), writes.reported().as_str()), ("!f", "!f"), "it is cut");
    now(served.files.flush(&open)).unwrap();
    served.close(open);
    served.close(served.open("f", ALL));
    assert_eq!((sizes.reported(), writes.reported(), names.reported()), Default::default());
}

/// The change precedes the watch, and waits like any that is pending: MS-FSA 2.1.1.4, 2.1.5.5. A
/// client that lists the directory after its watch began sees it anyway.
#[test]
fn write_before_the_watch_is_reported_by_flush_or_close() {
    for is_flushed in [true, false] {
        let served = serve();
        served.put("f", b"");
        let open = served.open("f", ALL);
        write(&served, &open, 0, b"1");
        let watch = served.watch("", WatchFilter::SIZE | WatchFilter::LAST_WRITE, false);
        served.files.handle_tick();
        assert_eq!(watch.reported(), "", "no later change");
        if is_flushed {
            now(served.files.flush(&open)).unwrap();
            assert_eq!(watch.reported(), "!f");
        }
        served.close(open);
        assert_eq!(watch.reported(), if is_flushed { "" } else { "!f" });
    }
}

#[test]
fn busy_writer_costs_a_few_answers_between_two_ticks() {
    let served = serve();
    served.put("f", b"");
    let tree = served.watch("", WatchFilter::SIZE | WatchFilter::FILE_NAME, true);
    let open = served.open("f", ALL);
    let answers = |from: u64| {
        let reported = (from..from + 100).filter(|at| {
            write(&served, &open, *at, b"x");
            tree.reported() == "!f"
        });
        reported.count()
    };
    assert_eq!(answers(0), 3);
    served.files.handle_tick();
    assert_eq!(tree.reported(), "!f", "the last ones");
    assert_eq!(tree.reported(), "");
    assert_eq!(answers(100), 2, "the tick's own counts");
    served.files.handle_tick();
    assert_eq!(tree.reported(), "!f");
    served.files.handle_tick();
    assert_eq!(tree.reported(), "", "nothing was written since");
    assert_eq!(answers(200), 3);
    // A further change follows the deferred ones.
    served.put("g", b"");
    assert_eq!(tree.reported(), "!f +g");
}

#[test]
fn busy_attribute_setter_costs_few_answers_between_ticks() {
    let served = serve();
    served.put("f", b"");
    let watches = [false, true].map(|tree| served.watch("", WatchFilter::ATTRIBUTES, tree));
    let open = served.open("f", ALL);
    let set = |hidden: bool| {
        let dos_bits = Some(if hidden { 2 } else { 0x20 });
        let change = BasicChange { dos_bits, ..BasicChange::default() };
        served.files.set_attributes(&open, &change).unwrap();
    };
    let answers = || {
        let reported = (0..100).filter(|at| {
            set(at % 2 == 0);
            let reports = watches.each_ref().map(|watch| watch.reported());
            assert_eq!(reports[0], reports[1]);
            reports[0] == "!f"
        });
        reported.count()
    };
    assert_eq!(answers(), 4);
    served.files.handle_tick();
    assert_eq!(watches[0].reported(), "!f", "the last ones");
    served.files.handle_tick();
    assert_eq!(watches[0].reported(), "", "nothing was set since");
    assert_eq!(answers(), 4);
    served.close(open);
    assert_eq!(watches[0].reported(), "!f", "the rest at the close");
}

#[test]
fn deferred_changes_of_many_files_are_reported_together() {
    let served = serve();
    for number in 0..10 {
        served.put(&number.to_string(), b"");
    }
    let tree = served.watch("", WatchFilter::SIZE, true);
    for round in 0..2 {
        for number in 0..10 {
            let open = served.open(&number.to_string(), ALL);
            write(&served, &open, round, b"x");
            served.close(open);
        }
    }
    assert_eq!(tree.reported(), "!0 !1 !2");
    served.files.handle_tick();
    assert_eq!(tree.reported(), "!3 !4 !5 !6 !7 !8 !9 !0 !1 !2");
}

#[test]
fn busy_writer_notifies_a_new_watch_with_the_tick() {
    let served = serve();
    served.put("f", b"");
    let first = served.watch("", WatchFilter::SIZE | WatchFilter::LAST_WRITE, false);
    let open = served.open("f", ALL);
    (0..10).for_each(|at| write(&served, &open, at, b"x"));
    assert_eq!(first.reported(), "!f");
    // The new watch has received nothing; the writer's earlier reports delay it.
    let second = served.watch("", WatchFilter::SIZE, true);
    for at in 10..20 {
        write(&served, &open, at, b"x");
        now(served.files.flush(&open)).unwrap();
        assert_eq!(second.reported(), "");
    }
    served.files.handle_tick();
    assert_eq!((first.reported().as_str(), second.reported().as_str()), ("!f", "!f"));
    (20..30).for_each(|at| write(&served, &open, at, b"x"));
    assert_eq!(second.reported(), "!f", "a few at once again");
    served.close(open);
    assert_eq!(second.reported(), "!f", "the rest at the close");
    served.files.handle_tick();
    assert_eq!((first.reported().as_str(), second.reported().as_str()), ("!f", ""));
    drop((first, second));
    served.assert_nothing_held();
}

#[test]
fn too_many_deferred_files_overflow() {
    let served = serve();
    let open = |number: usize| served.try_open(new_file(&number.to_string())).unwrap().open;
    let opens: Vec<_> = (0..200).map(open).collect();
    let tree = served.watch("", WatchFilter::SIZE, true);
    let answers = |at| {
        let write = |open| {
            write(&served, open, at, b"x");
            tree.reported()
        };
        let reported = opens.iter().map(write).filter(|reported| !reported.is_empty());
        reported.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(answers(0), "!0, !1, !2, Overflow");
    for at in 1..4 {
        served.files.handle_tick();
        assert_eq!(tree.reported(), "Overflow", "of the later ones");
        assert_eq!(answers(at), "!0, !1, Overflow");
    }
    served.files.handle_tick();
    assert_eq!((tree.reported().as_str(), tree.reported().as_str()), ("Overflow", ""));
    served.files.handle_tick();
    assert_eq!(tree.reported(), "");
}

#[test]
fn watch_without_list_right_costs_one_lookup_a_tick() {
    let options =
        VolumeOptions { directory_mode: 0o700, file_mode: 0o600, ..VolumeOptions::default() };
    let served = serve_with(options, Arc::new(Inline));
    if !served.is_root {
        return;
    }
    served.put_directory("private");
    served.put("private/f", b"");
    let bob = user(4002, 4002);
    let others = served.watch_as(&bob, "", WatchFilter::SIZE, true);
    let opens: Vec<_> = (0..30).map(|_| served.open("private/f", ALL)).collect();
    let grow = |round: u64| {
        let before = served.vfs.opens.load(Ordering::Relaxed);
        for (number, open) in (0..).zip(&opens) {
            write(&served, open, round * 30 + number, b"x");
        }
        (others.reported(), served.vfs.opens.load(Ordering::Relaxed) - before)
    };
    assert_eq!(grow(0), (String::new(), 1));
    assert_eq!(grow(1), (String::new(), 0));
    let wrote = ExternalChange::DataModified(ExternalName { name: name("g"), is_directory: false });
    served.somebody_did_in("private", &wrote);
    assert_eq!(grow(2), (String::new(), 0), "the cached right holds for local writers, too");
    let set_mode = |mode| {
        let (object, mode) = (served.object("private").unwrap(), Some(mode));
        let changes = ObjectChanges { mode, ..ObjectChanges::default() };
        now(served.files.set_object_attributes(&served.alice, &object, None, &changes)).unwrap();
    };
    set_mode(0o755);
    assert_eq!(grow(3).0, "!private/f", "it may list it now");
    set_mode(0o700);
    served.files.handle_tick();
    assert_eq!(grow(4).0, "");
    served.set_mode("private", 0o755);
    served.files.handle_tick();
    assert_eq!(grow(5).0, "!private/f", "local changes are reported with the tick");
}

#[test]
fn deferred_changes_are_charged_until_reported() {
    let served = serve();
    let tree = served.watch("", WatchFilter::SIZE, true);
    let bytes = served.files.watch_bytes();
    for name in ["a", "b", "c", "d"] {
        served.put(name, b"x");
    }
    assert_eq!(tree.reported(), "!a !b !c");
    assert!(bytes.usage().used > 0, "one is deferred");
    served.files.handle_tick();
    assert_eq!(tree.reported(), "!d");
    assert_eq!(bytes.usage().used, 0);
    drop(tree);
    served.assert_nothing_held();
}

#[test]
fn newer_watch_and_path_are_seen_by_open() {
    let served = serve();
    served.put_directory("d");
    served.put("f", b"");
    let open = served.open("f", ALL);
    let elsewhere = served.watch("d", WatchFilter::SIZE, false);
    write(&served, &open, 0, b"1");
    assert_eq!(elsewhere.reported(), "");
    let root = served.watch("", WatchFilter::SIZE, false);
    write(&served, &open, 1, b"1");
    assert_eq!((root.reported().as_str(), elsewhere.reported().as_str()), ("!f", ""));
    now(served.files.rename(&open, &path("d/f"), false)).unwrap();
    write(&served, &open, 2, b"1");
    assert_eq!((root.reported().as_str(), elsewhere.reported().as_str()), ("", "!f"));
}

#[test]
fn busy_local_writer_costs_a_few_answers_between_two_ticks() {
    let served = serve();
    served.put_directory("d");
    let watched = served.watch("d", WatchFilter::SIZE, false);
    let wrote = ExternalChange::DataModified(ExternalName { name: name("f"), is_directory: false });
    let mut answers = 0;
    for _ in 0..100 {
        served.somebody_did(&wrote);
        answers += usize::from(watched.reported() == "!f");
    }
    assert_eq!(answers, 3);
    served.files.handle_tick();
    assert_eq!(watched.reported(), "!f");
}

/// A watch for each kind of change.
struct KindWatches<'a>(Vec<(&'static str, WatchedDirectory<'a>)>);

const KINDS: [(&str, WatchFilter); 12] = [
    ("name", WatchFilter::FILE_NAME),
    ("directory", WatchFilter::DIRECTORY_NAME),
    ("attributes", WatchFilter::ATTRIBUTES),
    ("size", WatchFilter::SIZE),
    ("write", WatchFilter::LAST_WRITE),
    ("access", WatchFilter::LAST_ACCESS),
    ("creation", WatchFilter::CREATION),
    ("ea", WatchFilter::EXTENDED_ATTRIBUTES),
    ("security", WatchFilter::SECURITY),
    ("stream-name", WatchFilter::STREAM_NAME),
    ("stream-size", WatchFilter::STREAM_SIZE),
    ("stream-write", WatchFilter::STREAM_WRITE),
];

impl<'a> KindWatches<'a> {
    fn of(served: &'a ServedVolume) -> Self {
        Self(KINDS.map(|(kind, filter)| (kind, served.watch("", filter, false))).into())
    }

    /// Notices of each watch since the last call; watches without any are omitted.
    fn reports(&self) -> String {
        let reported = self.0.iter().map(|(kind, watch)| (kind, watch.reported()));
        let reported = reported.filter(|(_, reported)| !reported.is_empty());
        reported.map(|(kind, reported)| format!("{kind}[{reported}]")).collect::<Vec<_>>().join(" ")
    }
}

/// Whether a change was made; only a file system without a place for it may refuse.
fn is_supported<T>(changed: Result<T, FsError>) -> bool {
    match changed {
        Err(FsError::NotSupported) => {
            eprintln!("skipped: no extended attributes or descriptors here");
            false
        }
        changed => changed.map(|_| true).unwrap(),
    }
}

#[test]
fn each_smb_change_is_reported_as_its_kind() {
    let served = serve();
    served.put("f", b"12345");
    let kinds = KindWatches::of(&served);
    let tick = || served.files.handle_tick();
    let (files, open) = (&served.files, served.open("f", ALL));
    write(&served, &open, 0, b"x");
    assert_eq!(kinds.reports(), "write[!f]", "write");
    write(&served, &open, 5, b"6");
    assert_eq!(kinds.reports(), "size[!f] write[!f]", "extend");
    tick();
    set_size(&served, &open, 3);
    assert_eq!(kinds.reports(), "size[!f] write[!f]", "truncate");
    now(files.set_allocation(open.caller(), &open, 1 << 16)).unwrap();
    assert_eq!(kinds.reports(), "size[!f]", "reserve");
    tick();
    let set = TimeSetting::Set(Timestamp(1_000_000_000));
    let basic = |change| files.set_attributes(&open, &change).unwrap();
    basic(BasicChange { accessed: set, modified: set, created: set, ..BasicChange::default() });
    assert_eq!(kinds.reports(), "write[!f] access[!f] creation[!f]", "set times");
    basic(BasicChange { dos_bits: Some(2), ..BasicChange::default() });
    assert_eq!(kinds.reports(), "attributes[!f]", "attributes");
    if is_supported(files.set_xattr(&open, &xattr_name("note"), Some(b"1"))) {
        assert_eq!(kinds.reports(), "ea[!f]", "extended attributes");
    }
    let all = SecurityParts { dacl: true, ..SecurityParts::default() };
    let present: Descriptor = files.descriptor(&open, all).unwrap();
    if is_supported(files.set_descriptor(&open, &present, all)) {
        assert_eq!(kinds.reports(), "security[!f]", "security");
    }
    tick();
    write(&served, &open, 0, b"y");
    assert_eq!(kinds.reports(), "write[!f]");
    served.close(open);
    assert_eq!(kinds.reports(), "", "close after write");
}

#[test]
fn each_smb_name_change_is_reported_as_its_kind() {
    let served = serve();
    let kinds = KindWatches::of(&served);
    served.put("f", b"");
    assert_eq!(kinds.reports(), "name[+f]", "made");
    served.put_directory("d");
    assert_eq!(kinds.reports(), "directory[+d]", "made");
    let open = served.open("f", DELETE);
    now(served.files.rename(&open, &path("g"), false)).unwrap();
    assert_eq!(kinds.reports(), "name[<f >g]", "rename");
    served.close(open);
    assert_eq!(kinds.reports(), "attributes[!g]", "the archive bit");
    for (at, expected) in [("g", "name[-g]"), ("d", "directory[-d]")] {
        let open = served.open(at, DELETE);
        served.files.set_delete(&open, true, false).unwrap();
        assert_eq!(kinds.reports(), "");
        served.close(open);
        assert_eq!(kinds.reports(), expected, "removed");
    }
}

#[test]
fn each_smb_stream_change_is_reported_as_its_kind() {
    let served = serve();
    if !served.volume.has_streams() {
        eprintln!("skipped: no streams here");
        return;
    }
    served.put("f", b"");
    let kinds = KindWatches::of(&served);
    let open = served.try_open(stream_of(new_file("f"), "s")).unwrap().open;
    assert_eq!(kinds.reports(), "stream-name[+f:s]", "made");
    write(&served, &open, 0, b"12");
    let grown = "write[!f] stream-size[!f:s] stream-write[!f:s]";
    assert_eq!(kinds.reports(), grown, "grown");
    write(&served, &open, 0, b"3");
    assert_eq!(kinds.reports(), "write[!f] stream-write[!f:s]", "written");
    served.files.handle_tick();
    set_size(&served, &open, 1);
    assert_eq!(kinds.reports(), grown, "cut");
    served.files.set_delete(&open, true, false).unwrap();
    served.close(open);
    assert_eq!(kinds.reports(), "stream-name[-f:s]", "removed");
}

#[test]
fn each_nfs_change_is_reported_as_its_kind() {
    let served = serve();
    served.put("f", b"12345");
    let kinds = KindWatches::of(&served);
    let object = served.object("f").unwrap();
    let set = |changes: &ObjectChanges| {
        now(served.files.set_object_attributes(&served.alice, &object, None, changes)).unwrap();
    };
    // A WRITE uses an open, as with SMB.
    set(&ObjectChanges { size_bytes: Some(9), ..ObjectChanges::default() });
    assert_eq!(kinds.reports(), "size[!f] write[!f]", "extend");
    set(&ObjectChanges { size_bytes: Some(1), ..ObjectChanges::default() });
    assert_eq!(kinds.reports(), "size[!f] write[!f]", "truncate");
    served.files.handle_tick();
    let time = TimeChange::Set(Timestamp(1_000_000_000));
    set(&ObjectChanges { accessed: time, modified: time, ..ObjectChanges::default() });
    assert_eq!(kinds.reports(), "write[!f] access[!f]", "set times");
    let created = DosInfo { bits: None, created: Some(Timestamp(1_000_000_000)) };
    set(&ObjectChanges { dos: Some(created), ..ObjectChanges::default() });
    assert_eq!(kinds.reports(), "creation[!f]", "set the time of creation");
    let hidden = DosInfo { bits: Some(2), created: None };
    set(&ObjectChanges { dos: Some(hidden), ..ObjectChanges::default() });
    assert_eq!(kinds.reports(), "attributes[!f]", "attributes");
    set(&ObjectChanges { mode: Some(0o640), ..ObjectChanges::default() });
    assert_eq!(kinds.reports(), "attributes[!f] security[!f]", "mode");
    let note = xattr_name("note");
    let wish = XattrSetMode::Either;
    let value = Some(b"1".to_vec());
    if is_supported(now(served.files.set_object_xattr(&served.alice, &object, &note, value, wish)))
    {
        assert_eq!(kinds.reports(), "ea[!f]", "extended attributes");
    }
    let root = served.root();
    let (from, to) = (name("f"), name("g"));
    now(served.files.rename_object(&served.alice, (&root, &from), (&root, &to))).unwrap();
    assert_eq!(kinds.reports(), "name[<f >g] attributes[!g]", "rename, and the archive bit");
    now(served.files.remove_object(&served.alice, &root, &to)).unwrap();
    assert_eq!(kinds.reports(), "name[-g]", "removed");
}

#[test]
fn each_local_change_is_reported_as_its_kind() {
    let served = serve();
    let kinds = KindWatches::of(&served);
    let of = |text: &str, is_directory| ExternalName { name: name(text), is_directory };
    let attributes = "attributes[!f] write[!f] access[!f] creation[!f] ea[!f] security[!f]";
    for (change, expected) in [
        (ExternalChange::Added(of("f", false)), "name[+f]"),
        (ExternalChange::Added(of("d", true)), "directory[+d]"),
        (ExternalChange::DataModified(of("f", false)), "size[!f] write[!f]"),
        (ExternalChange::AttributesModified(of("f", false)), attributes),
        (ExternalChange::Renamed(of("f", false), name("g")), "name[<f >g]"),
        (ExternalChange::Removed(of("g", false)), "name[-g]"),
        (ExternalChange::Removed(of("d", true)), "directory[-d]"),
    ] {
        served.somebody_did(&change);
        assert_eq!(kinds.reports(), expected, "{change:?}");
    }
}
