//! Named streams: their own properties, and those of their file. MS-FSA 2.1.5.1, 2.1.5.15.11.1.

use crate::harness::*;
use files::{
    Access, BasicChange, IfExists, IfMissing, LockKind, OpenAction, OpenFile, OpenPlan, Range,
    RangeLock, RequestedKind, ShareMode, dos,
};
use std::sync::Arc;
use vfs::{FileKind, FsError, StreamName};

fn stream(text: &str) -> StreamName {
    StreamName::new(text.as_bytes()).unwrap()
}

fn of(plan: OpenPlan, name: &str) -> OpenPlan {
    OpenPlan { stream: Some(stream(name)), ..plan }
}

fn delete_on_close(plan: OpenPlan) -> OpenPlan {
    OpenPlan { delete_on_close: true, ..plan }
}

fn sharing(share: ShareMode, plan: OpenPlan) -> OpenPlan {
    OpenPlan { share, ..plan }
}

/// None where the temporary directory supports no streams.
fn serve_streams() -> Option<ServedVolume> {
    let served = serve();
    if served.volume.has_streams() {
        return Some(served);
    }
    eprintln!("skipped: no extended attributes here");
    None
}

impl ServedVolume {
    /// Creates and closes a stream with these bytes.
    fn put_stream(&self, at: &str, name: &str, data: &[u8]) {
        let made = self.try_open(of(new_file(at), name)).unwrap();
        self.files.write(made.open.caller(), &made.open, 0, data).unwrap();
        self.close(made.open);
    }

    fn open_stream(&self, at: &str, name: &str, desired: Access) -> Arc<OpenFile> {
        self.try_open(of(plan(at, desired), name)).unwrap().open
    }

    /// Contents of a stream.
    fn get_stream(&self, at: &str, name: &str) -> Option<Vec<u8>> {
        let opened = self.try_open(of(plan(at, READ), name)).ok()?;
        self.read(&opened.open).ok()
    }

    fn names(&self, at: &str) -> Vec<String> {
        let open = self.open(at, LOOK);
        let mut names: Vec<_> = self
            .files
            .streams(&open)
            .unwrap()
            .into_iter()
            .map(|s| String::from_utf8(s.name.as_bytes().to_vec()).unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn share_without_streams_refuses_them() {
    let mut served = serve();
    served.put("file", b"");
    served.close(served.try_open(of(new_file("file"), "s")).unwrap().open);
    let options = files::VolumeOptions { streams: false, ..Default::default() };
    served.volume = Arc::new(files::Volume::new(served.vfs.clone(), options));
    for refused in [of(plan("file", READ), "s"), of(new_file("file"), "t"), of(new_file("n"), "t")]
    {
        assert_eq!(served.refusal(refused), FsError::InvalidName);
    }
    assert_eq!(served.files.streams(&served.open("file", READ)), Ok(vec![]));
    assert!(!served.exists("n"));
}

#[test]
fn stream_has_own_data_and_attributes_of_file() {
    let Some(served) = serve_streams() else { return };
    served.put("file", b"the file");
    let made = served.try_open(of(new_file("file"), "Stream")).unwrap();
    assert_eq!(made.action, OpenAction::Created);
    assert_eq!(made.attributes.size_bytes, 0);
    served.files.write(made.open.caller(), &made.open, 2, b"abc").unwrap();
    assert_eq!(served.read(&made.open).unwrap(), b"\0\0abc");
    assert_eq!(served.get("file").unwrap(), b"the file");

    let file = served.open("FILE", LOOK);
    let (of_file, of_stream) =
        (served.files.attributes(&file).unwrap(), served.files.attributes(&made.open).unwrap());
    assert_eq!(of_stream.size_bytes, 5);
    assert_eq!(of_stream.key, of_file.key);
    assert_eq!(made.open.key(), file.key());
    assert_eq!(served.files.file_attributes(&made.open).unwrap().size_bytes, 8);
    let change = BasicChange { dos_bits: Some(dos::HIDDEN), ..BasicChange::default() };
    served.files.set_attributes(&made.open, &change).unwrap();
    assert_eq!(served.files.attributes(&file).unwrap().dos.bits, Some(dos::HIDDEN));

    assert_eq!(served.get_stream("file", "sTREAM").unwrap(), b"\0\0abc");
    let found = served.open_stream("file", "STREAM", READ);
    assert_eq!(found.stream(), Some(stream("Stream")), "as created");
    assert_eq!(served.names("file"), ["Stream"]);
}

#[test]
fn stream_write_changes_its_file() {
    let Some(served) = serve_streams() else { return };
    served.put_stream("file", "s", b"");
    let file = served.open("file", ALL);
    let past = vfs::Timestamp(1_000_000_000_000_000_000);
    let change = BasicChange {
        modified: files::TimeSetting::Set(past),
        dos_bits: Some(dos::NORMAL),
        ..BasicChange::default()
    };
    served.files.set_attributes(&file, &change).unwrap();
    let open = served.open_stream("file", "s", WRITE);
    served.files.write(open.caller(), &open, 0, b"x").unwrap();
    let now = served.files.attributes(&file).unwrap();
    assert!(now.modified > past);
    assert_eq!(now.dos.bits, Some(dos::ARCHIVE));
}

/// Waits a clock tick of the file system: changes within one have the same time.
fn pass_a_tick() {
    std::thread::sleep(std::time::Duration::from_millis(25));
}

#[test]
fn stream_open_stops_and_resumes_times_of_its_directory() {
    let Some(served) = serve_streams() else { return };
    served.put_directory("directory");
    let directory = served.open("directory", ALL);
    let at_first = served.files.attributes(&directory).unwrap();
    pass_a_tick();
    let made = served.try_open(of(new_file("directory"), "s")).unwrap().open;
    // Stored times have Windows' precision.
    let times = |open| {
        let is = served.files.attributes(open).unwrap();
        (is.accessed, is.modified, is.shown_changed().0 / 100)
    };
    let before = times(&made);
    assert_eq!((before.0, before.1), (at_first.accessed, at_first.modified));
    let set_all = |setting| {
        let change = BasicChange {
            created: setting,
            accessed: setting,
            modified: setting,
            changed: setting,
            ..BasicChange::default()
        };
        served.files.set_attributes(&made, &change).unwrap();
    };
    set_all(files::TimeSetting::Freeze);
    pass_a_tick();
    now(served.files.set_size(made.caller(), &made, 4096)).unwrap();
    served.files.write(made.caller(), &made, 0, &[1; 4096]).unwrap();
    assert_eq!((times(&made), times(&directory)), (before, before));
    set_all(files::TimeSetting::Thaw);
    pass_a_tick();
    served.files.write(made.caller(), &made, 0, &[2; 4096]).unwrap();
    let after = times(&directory);
    assert!(after.1 > before.1 && after.2 > before.2);
    assert_eq!(times(&made), after);
}

#[test]
fn dispositions_apply_to_the_stream() {
    let Some(served) = serve_streams() else { return };
    assert_eq!(served.refusal(of(plan("file", READ), "s")), FsError::NotFound);
    served.put_stream("file", "s", b"data");
    assert!(served.exists("file"), "a stream makes its file");
    assert_eq!(served.refusal(of(new_file("file"), "S")), FsError::AlreadyExists);
    assert_eq!(served.refusal(of(plan("file", READ), "t")), FsError::NotFound);
    let cut = |disposition| OpenPlan { if_exists: disposition, ..of(plan("file", ALL), "s") };
    for (disposition, action) in [
        (IfExists::Open, OpenAction::Opened),
        (IfExists::Overwrite, OpenAction::Overwritten),
        (IfExists::Supersede, OpenAction::Superseded),
    ] {
        let opened = served.try_open(cut(disposition)).unwrap();
        assert_eq!(opened.action, action);
        let left = if action == OpenAction::Opened { 4 } else { 0 };
        assert_eq!(opened.attributes.size_bytes, left);
        served.files.write(opened.open.caller(), &opened.open, 0, b"data").unwrap();
        served.close(opened.open);
    }
    served.assert_nothing_held();
}

#[test]
fn failed_stream_create_leaves_no_file() {
    let Some(served) = serve_streams() else { return };
    let long = "n".repeat(250);
    assert_eq!(served.refusal(of(new_file("file"), &long)), FsError::NameTooLong);
    assert!(!served.exists("file"));
    let directory = OpenPlan { kind: RequestedKind::Directory, ..of(new_file("file"), "s") };
    assert_eq!(served.refusal(directory), FsError::NotDirectory);
    assert!(!served.exists("file"));
    served.assert_nothing_held();
}

#[test]
fn each_stream_has_share_modes_and_ranges() {
    let Some(served) = serve_streams() else { return };
    let alone = ShareMode(0);
    let plain = OpenPlan { desired: READ | WRITE, ..new_file("file") };
    let file = served.try_open(sharing(alone, plain)).unwrap().open;
    let one = served.try_open(sharing(alone, of(new_file("file"), "one"))).unwrap().open;
    let two = served.try_open(sharing(alone, of(new_file("file"), "two"))).unwrap().open;
    for taken in [plan("file", READ), of(plan("file", READ), "one"), of(plan("file", READ), "TWO")]
    {
        assert_eq!(served.refusal(taken), FsError::ShareViolation);
    }
    let all = Range::new(0, 10).unwrap();
    let lock = RangeLock { range: all, kind: LockKind::Exclusive };
    served.files.try_locks(&file, &[lock], &HOLDER).unwrap();
    served.files.try_locks(&one, &[lock], &HOLDER).unwrap();
    served.files.write(two.caller(), &two, 0, b"free").unwrap();
    served.close(one);
    let one = served.open_stream("file", "one", ALL);
    let other = served.open_stream("file", "one", ALL);
    served.files.try_locks(&one, &[lock], &HOLDER).unwrap();
    assert_eq!(served.files.write(other.caller(), &other, 0, b"x"), Err(FsError::LockConflict));
}

#[test]
fn stream_open_denies_file_deletion() {
    let Some(served) = serve_streams() else { return };
    let kept = ShareMode(ShareMode::READ.0 | ShareMode::WRITE.0);
    let open = served.try_open(sharing(kept, of(new_file("file"), "s"))).unwrap().open;
    assert_eq!(served.refusal(plan("file", DELETE)), FsError::ShareViolation);
    served.open("file", READ);
    served.close(open);
    served.open("file", DELETE);
    let file = served.try_open(sharing(kept, plan("file", READ))).unwrap().open;
    served.open_stream("file", "s", DELETE);
    served.close(file);
}

/// MS-FSA 2.1.5.1.2.2: a stream and its file or directory conflict by deletion only.
#[test]
fn stream_open_must_share_deletion_with_file_deleter() {
    let Some(served) = serve_streams() else { return };
    let kept = ShareMode(ShareMode::READ.0 | ShareMode::WRITE.0);
    for new in [new_file("file"), new_directory("dir")] {
        let path = new.path.clone();
        let name = std::str::from_utf8(path.as_bytes()).unwrap();
        drop(served.try_open(new).unwrap());
        let old = served.try_open(of(new_file(name), "old")).unwrap().open;
        let deleter = served.open(name, DELETE);
        for stream in ["old", "new"] {
            let wish = sharing(kept, of(new_or_there(name), stream));
            assert_eq!(served.refusal(wish), FsError::ShareViolation, "{name}:{stream}");
        }
        assert_eq!(served.get_stream(name, "new"), None, "nothing was created");
        let looking = sharing(kept, of(plan(name, Access::READ_ATTRIBUTES), "old"));
        served.close(served.try_open(looking).unwrap().open);
        served.close(served.open_stream(name, "old", READ));
        served.close(deleter);
        served.close(old);
        // An open of another stream does not count.
        let deleter = served.open_stream(name, "old", DELETE);
        let wish = sharing(kept, of(new_or_there(name), "new"));
        served.close(served.try_open(wish).unwrap().open);
        served.close(deleter);
    }
}

#[test]
fn deleted_file_stays_until_its_streams_are_closed() {
    let Some(served) = serve_streams() else { return };
    served.put_stream("file", "s", b"data");
    let open = served.open_stream("file", "s", READ);
    served.close(served.try_open(delete_on_close(plan("file", DELETE))).unwrap().open);
    assert!(served.exists("file"));
    assert!(open.is_delete_pending());
    assert_eq!(served.read(&open).unwrap(), b"data");
    assert_eq!(served.refusal(plan("file", READ)), FsError::DeletePending);
    assert_eq!(served.refusal(of(plan("file", READ), "s")), FsError::DeletePending);
    served.close(open);
    assert!(!served.exists("file"));
    served.assert_nothing_held();
}

#[test]
fn deleted_stream_goes_at_last_close_and_file_stays() {
    let Some(served) = serve_streams() else { return };
    served.put_stream("file", "one", b"1");
    served.put_stream("file", "two", b"2");
    let reader = served.open_stream("file", "one", READ);
    let deleter = served.open_stream("file", "one", DELETE);
    served.files.set_delete(&deleter, true, false).unwrap();
    served.close(deleter);
    assert_eq!(served.refusal(of(plan("file", READ), "ONE")), FsError::DeletePending);
    served.open_stream("file", "two", READ);
    served.open("file", DELETE);
    assert_eq!(served.read(&reader).unwrap(), b"1");
    served.close(reader);
    assert_eq!(served.names("file"), ["two"]);
    drop(served.try_open(delete_on_close(of(plan("file", DELETE), "two"))).unwrap());
    assert_eq!(served.names("file"), [""; 0]);
    assert!(served.exists("file"));
    served.assert_nothing_held();
}

#[test]
fn overwrite_removes_streams_unless_one_denies() {
    let Some(served) = serve_streams() else { return };
    served.put_stream("file", "s", b"data");
    let overwrite = || OpenPlan { if_exists: IfExists::Overwrite, ..plan("file", WRITE) };
    let kept = ShareMode(ShareMode::READ.0 | ShareMode::WRITE.0);
    let open = served.try_open(sharing(kept, of(plan("file", READ), "s"))).unwrap().open;
    assert_eq!(served.refusal(overwrite()), FsError::ShareViolation);
    assert_eq!(served.read(&open).unwrap(), b"data");
    served.close(open);
    let open = served.open_stream("file", "s", ALL);
    served.close(served.try_open(overwrite()).unwrap().open);
    assert_eq!(served.names("file"), [""; 0]);
    assert_eq!(served.read(&open), Err(FsError::Stale));
    assert_eq!(served.files.write(open.caller(), &open, 0, b"x"), Err(FsError::Stale));
    served.put_stream("file", "s", b"another");
    assert_eq!(served.read(&open), Err(FsError::Stale));
    served.close(open);
    assert_eq!(served.get_stream("file", "s").unwrap(), b"another");
    served.assert_nothing_held();
}

#[test]
fn stream_rename_reaches_all_opens() {
    let Some(served) = serve_streams() else { return };
    served.put_stream("file", "old", b"data");
    let rename = |open: &Arc<OpenFile>, to, replace| {
        now(served.files.rename_stream(open, &stream(to), replace))
    };
    let (open, other) =
        (served.open_stream("file", "old", ALL), served.open_stream("file", "old", ALL));
    rename(&open, "New", false).unwrap();
    assert_eq!(other.stream(), Some(stream("New")));
    served.files.write(other.caller(), &other, 0, b"DATA").unwrap();
    assert_eq!(served.get_stream("file", "new").unwrap(), b"DATA");
    rename(&open, "NEW", false).expect("another spelling is free");
    rename(&open, "NEW", false).expect("so is the same");
    assert_eq!(served.names("file"), ["NEW"]);
    let kept = ShareMode(ShareMode::READ.0 | ShareMode::WRITE.0);
    let third = served.try_open(sharing(kept, of(plan("file", READ), "new")));
    assert_eq!(third.unwrap_err(), FsError::ShareViolation, "both have DELETE");
    served.close(other);
    served.close(open);
    let reader = served.open_stream("file", "new", READ);
    assert_eq!(rename(&reader, "x", false), Err(FsError::AccessDenied));
}

#[test]
fn stream_rename_replaces_empty_stream_only() {
    let Some(served) = serve_streams() else { return };
    served.put_stream("file", "from", b"data");
    served.put_stream("file", "Full", b"x");
    served.put_stream("file", "Empty", b"");
    let open = served.open_stream("file", "from", ALL);
    let rename = |to, replace| now(served.files.rename_stream(&open, &stream(to), replace));
    assert_eq!(rename("empty", false), Err(FsError::AlreadyExists));
    assert_eq!(rename("full", true), Err(FsError::InvalidParameter));
    let user = served.open_stream("file", "empty", READ);
    assert_eq!(rename("empty", true), Err(FsError::AccessDenied));
    served.close(user);
    rename("empty", true).unwrap();
    assert_eq!(served.names("file"), ["Full", "empty"]);
    assert_eq!(served.get_stream("file", "empty").unwrap(), b"data");
    let elsewhere = now(served.files.rename(&open, &path("other"), false));
    assert_eq!(elsewhere, Err(FsError::InvalidParameter));
    let file = served.open("file", ALL);
    let of_file = now(served.files.rename_stream(&file, &stream("s"), false));
    assert_eq!(of_file, Err(FsError::NotSupported));
}

#[test]
fn file_with_an_open_stream_is_not_renamed() {
    let Some(served) = serve_streams() else { return };
    served.put_stream("file", "s", b"");
    let (file, open) = (served.open("file", DELETE), served.open_stream("file", "s", READ));
    let rename = || now(served.files.rename(&file, &path("new"), false));
    assert_eq!(rename(), Err(FsError::AccessDenied));
    served.close(open);
    rename().unwrap();
    assert_eq!(served.names("new"), ["s"]);
}

#[test]
fn directories_have_streams_too() {
    let Some(served) = serve_streams() else { return };
    served.put_directory("directory");
    let made = served.try_open(of(new_file("directory"), "s")).unwrap();
    assert_eq!(made.attributes.kind, FileKind::File);
    served.files.write(made.open.caller(), &made.open, 0, b"data").unwrap();
    assert_eq!(served.get_stream("directory", "s").unwrap(), b"data");
    let bits = served.look("directory", false).unwrap().attributes.dos.bits.unwrap_or(0);
    assert_eq!(bits & dos::ARCHIVE, 0);
    assert_eq!(served.names("directory"), ["s"]);
    served.close(made.open);
    served.close(served.try_open(delete_on_close(plan("directory", DELETE))).unwrap().open);
    assert!(!served.exists("directory"));
    let of_root = OpenPlan { desired: WRITE, ..of(new_file(""), "of the root") };
    served.close(served.try_open(of_root).unwrap().open);
    assert_eq!(served.names(""), ["of the root"]);
}

#[test]
fn read_only_file_takes_no_stream() {
    let Some(served) = serve_streams() else { return };
    served.put_stream("file", "s", b"data");
    let file = served.open("file", ALL);
    let change = BasicChange { dos_bits: Some(dos::READONLY), ..BasicChange::default() };
    served.files.set_attributes(&file, &change).unwrap();
    served.close(file);
    assert_eq!(served.refusal(of(new_file("file"), "t")), FsError::AccessDenied);
    assert_eq!(served.refusal(of(plan("file", WRITE), "s")), FsError::AccessDenied);
    assert_eq!(
        served.refusal(delete_on_close(of(plan("file", DELETE), "s"))),
        FsError::CannotDelete
    );
    assert_eq!(served.get_stream("file", "s").unwrap(), b"data");
}

#[test]
fn stream_create_needs_write_right_on_file() {
    let Some(served) = serve_streams() else { return };
    if !served.is_root {
        return eprintln!("skipped: needs the superuser to act as two users");
    }
    served.put_stream("file", "s", b"data");
    served.set_mode("file", 0o644);
    let bob = user(4002, 4002);
    let refused = |plan| served.try_open_as(&bob, plan).unwrap_err();
    let create = OpenPlan { desired: READ, ..of(new_file("file"), "t") };
    assert_eq!(refused(create), FsError::AccessDenied);
    assert_eq!(refused(of(plan("file", WRITE), "s")), FsError::AccessDenied);
    assert_eq!(refused(of(plan("file", DELETE), "s")), FsError::AccessDenied);
    let open = served.try_open_as(&bob, of(plan("file", READ), "s")).unwrap().open;
    assert_eq!(served.read(&open).unwrap(), b"data");
    assert_eq!(served.names("file"), ["s"]);
}

#[test]
fn oversized_stream_write_is_refused_without_change() {
    let Some(served) = serve_streams() else { return };
    served.put_stream("file", "s", b"data");
    let open = served.open_stream("file", "s", ALL);
    let most = served.volume.vfs.features().stream_bytes_max;
    assert_eq!(now(served.files.set_size(open.caller(), &open, most + 1)), Err(FsError::TooLarge));
    assert_eq!(
        now(served.files.set_allocation(open.caller(), &open, most + 1)),
        Err(FsError::TooLarge)
    );
    assert_eq!(served.files.write(open.caller(), &open, most, b"x"), Err(FsError::TooLarge));
    assert_eq!(served.read(&open).unwrap(), b"data");
    now(served.files.set_size(open.caller(), &open, 2)).unwrap();
    now(served.files.zero_range(open.caller(), &open, 1, most)).unwrap();
    assert_eq!(served.read(&open).unwrap(), b"d\0");
}

/// Longer than an extended attribute on Linux.
const LONG: usize = 300_000;

fn long(seed: u8) -> Vec<u8> {
    (0..LONG).map(|at| (at as u8).wrapping_mul(13).wrapping_add(seed)).collect()
}

#[test]
fn long_stream_behaves_like_short_one() {
    let Some(served) = serve_streams() else { return };
    let data = long(1);
    served.put_stream("file", "fork", &data);
    assert_eq!(served.get_stream("file", "fork").unwrap(), data);
    let open = served.open_stream("file", "fork", ALL);
    assert_eq!(served.files.streams(&open).unwrap()[0].size_bytes, LONG as u64);
    now(served.files.rename_stream(&open, &stream("moved"), false)).unwrap();
    served.files.write(open.caller(), &open, 7, b"x").unwrap();
    assert_eq!(served.read(&open).unwrap()[..9], [&data[..7], b"x", &data[8..9]].concat());
    now(served.files.set_size(open.caller(), &open, 10)).unwrap();
    now(served.files.set_size(open.caller(), &open, 12)).unwrap();
    assert_eq!(served.read(&open).unwrap()[10..], [0, 0]);
    now(served.files.set_allocation(open.caller(), &open, 1 << 20)).unwrap();
    assert_eq!(served.read(&open).unwrap().len(), 12, "reserved room is not data");
    now(served.files.flush(&open)).unwrap();
    served.close(open);
    assert_eq!(served.names("file"), ["moved"]);
    let overwritten = OpenPlan { if_exists: IfExists::Overwrite, ..plan("file", ALL) };
    served.close(served.try_open(overwritten).unwrap().open);
    assert_eq!(served.names("file"), [""; 0]);
    served.assert_nothing_held();
}

#[test]
fn long_stream_that_is_replaced_or_deleted_on_close_is_gone() {
    let Some(served) = serve_streams() else { return };
    served.put_stream("file", "s", &long(2));
    for if_exists in [IfExists::Overwrite, IfExists::Supersede] {
        let made = served.try_open(of(OpenPlan { if_exists, ..plan("file", ALL) }, "s")).unwrap();
        assert_eq!(served.read(&made.open).unwrap(), b"");
        served.files.write(made.open.caller(), &made.open, 0, &long(3)).unwrap();
        served.close(made.open);
        assert_eq!(served.get_stream("file", "s").unwrap(), long(3));
    }
    let last = served.try_open(delete_on_close(of(plan("file", ALL), "s"))).unwrap().open;
    assert_eq!(served.read(&last).unwrap(), long(3));
    served.close(last);
    assert_eq!(served.names("file"), [""; 0]);
}

#[test]
fn holes_of_a_long_stream_are_holes() {
    let Some(served) = serve_streams() else { return };
    served.put_stream("file", "s", b"x");
    let open = served.open_stream("file", "s", ALL);
    let far = 100 << 20;
    served.files.write(open.caller(), &open, far, b"y").unwrap();
    assert_eq!(served.files.streams(&open).unwrap()[0].size_bytes, far + 1);
    let file = served.open("file", ALL);
    served.files.set_sparse(&file, true).unwrap();
    let data = || {
        let (ranges, _) = now(served.files.allocated_ranges(&open, 0, u64::MAX, 16)).unwrap();
        ranges.iter().map(|(_, length)| length).sum::<u64>()
    };
    assert!(data() < far / 2);
    now(served.files.zero_range(open.caller(), &open, far, 1)).unwrap();
    let mut last = Vec::new();
    now(served.files.read(&open, far - 1, 9, &mut last)).unwrap();
    assert_eq!(last, [0, 0]);
}

/// Makes the files of long streams unreachable until the returned function is called.
fn hide_long_streams(root: &std::path::Path) -> impl FnOnce() + use<> {
    let store = root.join(".anabranch-streams");
    let file = std::fs::read_dir(&store).unwrap().next().unwrap().unwrap().path();
    let aside = root.join("aside");
    std::fs::rename(&file, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &file).unwrap();
    move || {
        std::fs::remove_file(&file).unwrap();
        std::fs::rename(&aside, &file).unwrap();
    }
}

#[test]
fn unreachable_long_stream_fails_its_users_and_stays() {
    let Some(served) = serve_streams() else { return };
    served.put("file", b"data");
    served.put_stream("file", "s", &[7; 300_000]);
    let open = served.open_stream("file", "s", ALL);
    let show = hide_long_streams(served.dir.path());
    assert_eq!(now(served.files.flush(&open)), Err(FsError::Unavailable));
    let file = served.open("file", ALL);
    assert_eq!(now(served.files.flush(&file)), Err(FsError::AccessDenied));
    served.close(file);
    served.close(open);
    let created = served.try_open(of(new_file("file"), "s"));
    assert_eq!(created.map(|_| ()), Err(FsError::Unavailable));
    let overwrite = OpenPlan { if_exists: IfExists::Overwrite, ..plan("file", ALL) };
    let overwritten = served.try_open(overwrite);
    assert_eq!(overwritten.map(|_| ()), Err(FsError::Unavailable));
    show();
    assert_eq!(served.get("file").unwrap(), b"data");
    assert_eq!(served.get_stream("file", "s").unwrap(), [7; 300_000]);
}

#[test]
fn data_is_copied_between_files_and_streams() {
    let Some(served) = serve_streams() else { return };
    served.put("file", b"0123456789");
    served.put_stream("file", "one", b"");
    served.put_stream("other", "two", b"");
    let copy = |from: &Arc<OpenFile>, to: &Arc<OpenFile>| {
        now(served.files.copy_range(to.caller(), (from, 2), (to, 2), 6)).unwrap();
    };
    let file = served.open("file", ALL);
    let (one, two) =
        (served.open_stream("file", "one", ALL), served.open_stream("other", "two", ALL));
    copy(&file, &one);
    copy(&one, &two);
    served.files.write(two.caller(), &two, 2, b"AB").unwrap();
    copy(&two, &file);
    assert_eq!(served.get("file").unwrap(), b"01AB456789");
    assert_eq!(served.read(&one).unwrap(), b"\0\x00234567");
}

#[test]
fn stream_create_uses_file_that_appeared() {
    let Some(served) = serve_streams() else { return };
    served.hook_once(HookPoint::BeforeCreate, |vfs| make_beneath(vfs, "file"));
    let create = OpenPlan { desired: WRITE, ..of(new_file("file"), "s") };
    let made = served.try_open(create).unwrap();
    assert_eq!(made.action, OpenAction::Created);
    served.close(made.open);
    assert_eq!(served.names("file"), ["s"]);
    served.assert_nothing_held();
}

#[test]
fn all_streams_of_a_file_are_copied_to_another() {
    let Some(served) = serve_streams() else { return };
    served.put("from", b"data");
    served.put("to", b"");
    for (at, name, data) in [("from", "a", "one"), ("from", "b", ""), ("to", "A", "longer than it")]
    {
        let made = served.try_open(of(new_or_there(at), name)).unwrap().open;
        served.files.write(made.caller(), &made, 0, data.as_bytes()).unwrap();
        served.close(made);
    }
    served.put_stream("from", "long", &long(4));
    let (from, to) = (served.open("from", READ), served.open("to", WRITE));
    now(served.files.copy_streams(&from, &to)).unwrap();
    assert_eq!(served.get_stream("to", "long").unwrap(), long(4));
    let mut names: Vec<_> = served.files.streams(&to).unwrap();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    let shown: Vec<_> = names.iter().map(|s| (s.name.as_bytes().to_vec(), s.size_bytes)).collect();
    let expected = [("A", 3), ("b", 0), ("long", LONG as u64)];
    assert_eq!(shown, expected.map(|(name, size)| (name.as_bytes().to_vec(), size)));
    let reader = served.open("to", READ);
    assert_eq!(now(served.files.copy_streams(&from, &reader)), Err(FsError::AccessDenied));
}

#[test]
fn discarded_stream_is_empty_and_removed_at_last_close() {
    let Some(served) = serve_streams() else { return };
    served.put("file", b"data");
    let made = served.try_open(of(new_or_there("file"), "s")).unwrap().open;
    served.files.write(made.caller(), &made, 0, b"bytes").unwrap();
    served.files.discard_stream(&made).unwrap();
    assert_eq!(served.files.streams(&made).unwrap()[0].size_bytes, 0);
    served.close(made);
    let file = served.open("file", READ);
    assert!(served.files.streams(&file).unwrap().is_empty());
    assert_eq!(served.files.discard_stream(&file), Err(FsError::NotSupported));
    assert_eq!(served.read(&file).unwrap(), b"data");
}

fn new_or_there(at: &str) -> OpenPlan {
    OpenPlan { if_exists: IfExists::Open, if_missing: IfMissing::Create, ..plan(at, ALL) }
}

#[test]
fn posix_truncation_leaves_streams_and_descriptor() {
    let Some(served) = serve_streams() else { return };
    served.put("file", b"data");
    served.put_stream("file", "s", b"kept");
    let made = served.open("file", ALL);
    let bits = dos::HIDDEN | dos::SYSTEM | dos::ARCHIVE;
    let change = BasicChange { dos_bits: Some(bits), ..Default::default() };
    served.files.set_attributes(&made, &change).unwrap();
    let dacl = files::SecurityParts { dacl: true, ..Default::default() };
    let descriptor = served.files.descriptor(&made, dacl).unwrap();
    served.files.set_descriptor(&made, &descriptor, dacl).unwrap();
    served.close(made);
    let stored = || served.look("file", false).unwrap().node.security_descriptor().unwrap();
    let before = (stored(), served.look("file", false).unwrap().attributes);
    assert!(before.0.is_some());
    let stream =
        served.try_open(sharing(ShareMode::READ, of(plan("file", READ), "s"))).unwrap().open;
    for size_before in [4, 0] {
        assert_eq!(served.look("file", false).unwrap().attributes.size_bytes, size_before);
        let cut = OpenPlan {
            semantics: files::Semantics::Posix,
            if_exists: IfExists::Overwrite,
            ..plan("file", WRITE)
        };
        let cut = served.try_open(cut).unwrap();
        assert_eq!((cut.action, cut.attributes.size_bytes), (OpenAction::Overwritten, 0));
        served.close(cut.open);
        assert_eq!(served.read(&stream).unwrap(), b"kept");
        let now_is = served.look("file", false).unwrap().attributes;
        assert_eq!((stored(), now_is.dos), (before.0.clone(), before.1.dos));
        assert!(now_is.changed > before.1.changed && now_is.modified > before.1.modified);
    }
    served.close(stream);
    assert_eq!(served.get_stream("file", "s").unwrap(), b"kept");
}
