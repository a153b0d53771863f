//! Times that an open stopped stand still, and others move no earlier than something happens.
//! MS-FSA 2.1.5.15.2, 2.1.4.17.

use crate::harness::*;
use files::{
    Access, BasicChange, Caller, Files, IfExists, ObjectChanges, OpenFile, OpenPlan, RequestFiles,
    ShareMode, TimeSetting, Volume, VolumeOptions,
};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::memory::{CallOutcome, MemoryCall, MemoryOptions, MemoryVfs, Surroundings};
use vfs::{FsError, Identity, StreamName, TimeChange, Timestamp};
use vfs_local::LocalVfs;

const LONG_AGO: Timestamp = Timestamp(1_000_000_000_123_456_700);
const IN_FUTURE: Timestamp = Timestamp(4_000_000_000_000_000_000);

/// A clock on which each reading is a second later.
#[derive(Default)]
struct SecondsClock(AtomicU64);

impl Surroundings for SecondsClock {
    fn now(&self) -> Timestamp {
        let seconds = 1_750_000_000 + self.0.fetch_add(1, Ordering::Relaxed);
        Timestamp(i128::from(seconds) * 1_000_000_000)
    }

    fn before(&self, _: MemoryCall) -> CallOutcome {
        CallOutcome::Runs
    }
}

/// A volume of one of the backends, and its files.
struct Bench {
    files: RequestFiles,
    volume: Arc<Volume>,
    caller: Arc<Caller>,
    /// For the local backend, the served directory.
    _served: Option<ServedVolume>,
}

/// Last access, last write and change time as presented; change times have Windows' precision.
type Times = (Timestamp, Timestamp, i128);

impl Bench {
    fn open(&self, at: &str) -> Arc<OpenFile> {
        let plan = OpenPlan { desired: ALL, if_exists: IfExists::Open, ..new_file(at) };
        let plan = OpenPlan { share: ShareMode::ALL, ..plan };
        now(self.files.open(&self.volume, &self.caller, plan)).unwrap().open
    }

    fn write(&self, open: &OpenFile) {
        pass_a_tick();
        self.files.write(open.caller(), open, 0, b"data").unwrap();
        pass_a_tick();
    }

    fn set(&self, open: &OpenFile, change: BasicChange) {
        self.files.set_attributes(open, &change).unwrap();
        pass_a_tick();
    }

    fn close(&self, open: Arc<OpenFile>) {
        now(self.files.close(open)).unwrap();
    }

    fn times(&self, open: &OpenFile) -> Times {
        let found = self.files.attributes(open).unwrap();
        (found.accessed, found.modified, found.shown_changed().0 / 100)
    }
}

/// Runs a check on each backend.
fn on_each_backend(check: impl Fn(&Bench)) {
    let served = serve();
    let (files, volume) = (served.files.clone(), served.volume.clone());
    let caller = served.alice.clone();
    check(&Bench { files, volume, caller, _served: Some(served) });
    let vfs = Arc::new(MemoryVfs::new(MemoryOptions::default(), Arc::new(SecondsClock::default())));
    let volume = Arc::new(Volume::new(vfs, VolumeOptions::default()));
    let files = Arc::new(Files::new(Arc::new(Inline))).for_server();
    let caller = Arc::new(Caller::of(Identity::root()));
    check(&Bench { files, volume, caller, _served: None });
}

/// Waits a clock tick of the file system: changes within one have the same time.
fn pass_a_tick() {
    std::thread::sleep(std::time::Duration::from_millis(25));
}

fn of_access(accessed: TimeSetting) -> BasicChange {
    BasicChange { accessed, ..BasicChange::default() }
}

fn of_all(setting: TimeSetting) -> BasicChange {
    let (accessed, modified, changed) = (setting, setting, setting);
    BasicChange { accessed, modified, changed, ..BasicChange::default() }
}

#[test]
fn stopped_times_are_those_seen_after_an_own_write() {
    for stop in [of_access, of_all] {
        on_each_backend(|bench| {
            let open = bench.open("file");
            bench.write(&open);
            let seen = bench.times(&open);
            bench.set(&open, stop(TimeSetting::Freeze));
            assert_eq!(bench.times(&open), seen);
            bench.write(&open);
            assert_eq!(bench.times(&open).0, seen.0);
            bench.close(open);
            let later = bench.open("file");
            assert_eq!(bench.times(&later).0, seen.0);
        });
    }
}

#[test]
fn access_time_of_write_survives_set_write_time() {
    on_each_backend(|bench| {
        let open = bench.open("file");
        bench.write(&open);
        let seen = bench.times(&open);
        let modified = TimeSetting::Set(LONG_AGO);
        bench.set(&open, BasicChange { modified, ..BasicChange::default() });
        assert_eq!(bench.times(&open).0, seen.0);
        bench.close(open);
        let later = bench.open("file");
        assert_eq!(bench.times(&later).0, seen.0);
    });
}

#[test]
fn resumed_times_stay_until_the_next_change() {
    for setting in [TimeSetting::Freeze, TimeSetting::Set(LONG_AGO)] {
        on_each_backend(|bench| {
            let open = bench.open("file");
            bench.set(&open, of_all(setting));
            bench.write(&open);
            let seen = bench.times(&open);
            bench.set(&open, of_all(TimeSetting::Thaw));
            assert_eq!(bench.times(&open), seen);
            bench.close(open);
            let later = bench.open("file");
            assert_eq!(bench.times(&later), seen);
        });
    }
}

#[test]
fn access_time_set_after_a_write_survives_the_close() {
    on_each_backend(|bench| {
        let (writer, other) = (bench.open("file"), bench.open("file"));
        bench.write(&writer);
        bench.set(&other, of_access(TimeSetting::Set(LONG_AGO)));
        assert_eq!([bench.times(&writer).0, bench.times(&other).0], [LONG_AGO; 2]);
        bench.close(writer);
        assert_eq!(bench.times(&other).0, LONG_AGO);
        bench.close(other);
        let later = bench.open("file");
        assert_eq!(bench.times(&later).0, LONG_AGO);
    });
}

#[test]
fn write_after_a_set_access_time_moves_it() {
    on_each_backend(|bench| {
        let (writer, other) = (bench.open("file"), bench.open("file"));
        bench.write(&writer);
        bench.set(&other, of_access(TimeSetting::Set(LONG_AGO)));
        bench.write(&writer);
        let (seen, modified, _) = bench.times(&writer);
        assert_eq!(seen, modified);
        assert_eq!(bench.times(&other).0, seen, "the other open sees it too");
        bench.close(other);
        assert!(bench.times(&writer).0 >= seen);
    });
}

#[test]
fn access_time_set_by_object_survives_the_close() {
    let served = serve();
    served.put("file", b"");
    let writer = served.open("file", ALL);
    served.files.write(writer.caller(), &writer, 0, b"data").unwrap();
    pass_a_tick();
    let object = served.object("file").unwrap();
    let accessed = TimeChange::Set(LONG_AGO);
    let changes = ObjectChanges { accessed, ..ObjectChanges::default() };
    now(served.files.set_object_attributes(&served.alice, &object, None, &changes)).unwrap();
    let found = || served.files.attributes(&served.open("file", LOOK)).unwrap().accessed;
    assert_eq!(served.files.attributes(&writer).unwrap().accessed, LONG_AGO);
    served.close(writer);
    assert_eq!(found(), LONG_AGO);
}

#[test]
fn setting_by_a_stream_open_keeps_the_access_time_of_a_write() {
    let served = serve();
    if !served.volume.has_streams() {
        return eprintln!("skipped: no extended attributes here");
    }
    let modified = TimeSetting::Set(LONG_AGO);
    let set_modified = BasicChange { modified, ..BasicChange::default() };
    let stream = StreamName::new(*b"s").unwrap();
    for (at, change) in [("one", of_access(TimeSetting::Freeze)), ("two", set_modified)] {
        let writer = served.try_open(OpenPlan { desired: ALL, ..new_file(at) }).unwrap().open;
        let plan = OpenPlan { stream: Some(stream.clone()), desired: ALL, ..new_file(at) };
        let beside = served.try_open(plan).unwrap().open;
        pass_a_tick();
        served.files.write(writer.caller(), &writer, 0, b"data").unwrap();
        pass_a_tick();
        let accessed = |open: &OpenFile| served.files.attributes(open).unwrap().accessed;
        let seen = accessed(&writer);
        assert_eq!(accessed(&beside), seen, "the stream's open sees it too");
        served.files.set_attributes(&beside, &change).unwrap();
        assert_eq!([accessed(&writer), accessed(&beside)], [seen; 2]);
        served.close(beside);
        served.close(writer);
        assert_eq!(accessed(&served.open(at, LOOK)), seen);
    }
}

#[test]
fn setting_by_object_keeps_the_access_time_of_a_write() {
    let served = serve();
    served.put("file", b"");
    let writer = served.open("file", ALL);
    served.files.write(writer.caller(), &writer, 0, b"data").unwrap();
    pass_a_tick();
    let accessed = || served.files.attributes(&writer).unwrap().accessed;
    let seen = accessed();
    let object = served.object("file").unwrap();
    let changes = ObjectChanges { modified: TimeChange::Now, ..ObjectChanges::default() };
    now(served.files.set_object_attributes(&served.alice, &object, None, &changes)).unwrap();
    assert_eq!(accessed(), seen);
}

#[test]
fn refused_setting_by_object_leaves_the_times() {
    let served = serve();
    if !served.is_root {
        return eprintln!("skipped: needs root");
    }
    served.put("file", b"");
    served.set_mode("file", 0o644);
    let writer = served.open("file", ALL);
    let changed = TimeSetting::Set(LONG_AGO);
    served
        .files
        .set_attributes(&writer, &BasicChange { changed, ..BasicChange::default() })
        .unwrap();
    served.files.write(writer.caller(), &writer, 0, b"data").unwrap();
    pass_a_tick();
    let times = || {
        let found = served.files.attributes(&writer).unwrap();
        (found.accessed, found.modified, found.shown_changed(), found.changed)
    };
    let seen = times();
    assert_eq!(seen.2, LONG_AGO);
    let (bob, object) = (user(2002, 2002), served.object("file").unwrap());
    let changes = ObjectChanges { modified: TimeChange::Set(LONG_AGO), ..Default::default() };
    let refused = now(served.files.set_object_attributes(&bob, &object, None, &changes));
    assert_eq!(refused, Err(FsError::AccessDenied));
    assert_eq!(times(), seen);
    served.close(writer);
    let after = served.files.attributes(&served.open("file", LOOK)).unwrap();
    assert!(after.accessed >= seen.0, "the close advances it");
}

#[test]
fn access_time_of_write_survives_close_without_read_access() {
    let served = serve();
    served.put("file", b"");
    served.set_mode("file", 0o200);
    let desired = Access::WRITE_DATA | Access::READ_ATTRIBUTES | Access::WRITE_ATTRIBUTES;
    let [writer, other] = [(); 2].map(|()| served.open("file", desired));
    let times = || {
        let found = served.files.attributes(&other).unwrap();
        (found.accessed, found.modified, found.shown_changed().0 / 100)
    };
    let changed = TimeSetting::Set(LONG_AGO);
    served
        .files
        .set_attributes(&writer, &BasicChange { changed, ..BasicChange::default() })
        .unwrap();
    pass_a_tick();
    served.files.write(writer.caller(), &writer, 0, b"data").unwrap();
    pass_a_tick();
    let seen = times();
    assert_eq!((seen.0, seen.2), (seen.1, LONG_AGO.0 / 100));
    served.close(writer);
    assert_eq!(times(), seen);
}

/// -1 comes after the write, so that the close is the only later change.
#[test]
fn change_time_stopped_after_a_write_survives_the_close() {
    let served = serve();
    for (at, mode, offset) in [("plain", 0o644, 0), ("write-only", 0o200, 0), ("hole", 0o644, 9999)]
    {
        served.put(at, b"");
        served.set_mode(at, mode);
        let desired = Access::WRITE_DATA | Access::READ_ATTRIBUTES | Access::WRITE_ATTRIBUTES;
        let [writer, other] = [(); 2].map(|()| served.open(at, desired));
        let times = || {
            let found = served.files.attributes(&other).unwrap();
            (found.accessed, found.modified, found.shown_changed().0 / 100)
        };
        pass_a_tick();
        served.files.write(writer.caller(), &writer, offset, b"data").unwrap();
        pass_a_tick();
        let stop = BasicChange { changed: TimeSetting::Freeze, ..BasicChange::default() };
        served.files.set_attributes(&writer, &stop).unwrap();
        let seen = times();
        served.close(writer);
        let after = times();
        assert_eq!((after.1, after.2), (seen.1, seen.2), "{at}");
        assert!(after.0 >= seen.0, "{at}");
    }
}

/// A CLOSE shows the times that it leaves, also where no time was stopped.
#[test]
fn stored_access_time_leaves_the_change_time_of_the_write() {
    let served = serve();
    for (at, mode, offset) in [("plain", 0o644, 0), ("write-only", 0o200, 0), ("hole", 0o644, 9999)]
    {
        served.put(at, b"");
        served.set_mode(at, mode);
        let desired = Access::WRITE_DATA | Access::READ_ATTRIBUTES | Access::WRITE_ATTRIBUTES;
        let [writer, other] = [(); 2].map(|()| served.open(at, desired));
        let times = |open: &OpenFile| {
            let found = served.files.attributes(open).unwrap();
            (found.accessed, found.modified, found.shown_changed())
        };
        pass_a_tick();
        served.files.write(writer.caller(), &writer, offset, b"data").unwrap();
        pass_a_tick();
        let written = times(&writer);
        served.files.store_access_before_close(&writer);
        let replied = times(&writer);
        assert_eq!((replied.1, replied.2), (written.1, written.2), "{at}");
        pass_a_tick();
        served.close(writer);
        assert_eq!(times(&other), replied, "{at}");
    }
}

#[test]
fn own_write_shows_as_access_while_the_write_time_is_stopped() {
    for setting in [TimeSetting::Freeze, TimeSetting::Set(LONG_AGO), TimeSetting::Set(IN_FUTURE)] {
        on_each_backend(|bench| {
            let open = bench.open("file");
            bench.set(&open, BasicChange { modified: setting, ..BasicChange::default() });
            let stopped = bench.times(&open);
            bench.write(&open);
            let seen = bench.times(&open);
            assert_eq!(seen.1, stopped.1, "{setting:?}");
            assert!(seen.0 > stopped.0 && seen.0 < IN_FUTURE, "{setting:?}: {seen:?}");
            bench.close(open);
            let later = bench.open("file");
            assert_eq!(bench.times(&later).0, seen.0, "{setting:?}: the time of the write");
        });
    }
}

/// Allocation changes no data, so no access shows.
#[test]
fn allocation_with_a_stopped_write_time_leaves_the_access_time() {
    on_each_backend(|bench| {
        let open = bench.open("file");
        let modified = TimeSetting::Set(LONG_AGO);
        bench.set(&open, BasicChange { modified, ..BasicChange::default() });
        let seen = bench.times(&open);
        now(bench.files.set_allocation(&bench.caller, &open, 1 << 16)).unwrap();
        let after = bench.times(&open);
        assert_eq!((after.0, after.1), (seen.0, seen.1));
    });
}

#[test]
fn write_to_a_file_with_noatime_flag_leaves_the_access_time() {
    let served = serve();
    served.put("file", b"");
    let flagged = Command::new("chattr").arg("+A").arg(served.dir.path().join("file")).status();
    if !flagged.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no such flag here");
    }
    check_access_stays(&served, "file");
}

/// The access time of a file whose reads do not move it: neither does a write, nor its close.
fn check_access_stays(served: &ServedVolume, at: &str) {
    let [writer, other] = [(); 2].map(|()| served.open(at, ALL));
    let accessed = |open: &OpenFile| served.files.attributes(open).unwrap().accessed;
    let before = accessed(&other);
    pass_a_tick();
    served.files.write(writer.caller(), &writer, 0, b"data").unwrap();
    let written = [&writer, &other].map(|open| accessed(open));
    served.close(writer);
    assert_eq!((written, accessed(&other)), ([before; 2], before));
}

#[test]
fn open_of_a_written_file_shows_the_write_as_access() {
    on_each_backend(|bench| {
        let writer = bench.open("file");
        bench.write(&writer);
        let seen = bench.times(&writer);
        let plan = OpenPlan { desired: ALL, if_exists: IfExists::Open, ..new_file("file") };
        let plan = OpenPlan { share: ShareMode::ALL, ..plan };
        let opened = now(bench.files.open(&bench.volume, &bench.caller, plan)).unwrap();
        assert_eq!(opened.attributes.accessed, seen.0);
    });
}

#[test]
fn overwriting_open_counts_as_access() {
    on_each_backend(|bench| {
        let first = bench.open("file");
        bench.set(&first, of_access(TimeSetting::Set(LONG_AGO)));
        bench.close(first);
        let plan = OpenPlan { desired: ALL, if_exists: IfExists::Overwrite, ..new_file("file") };
        let opened = now(bench.files.open(&bench.volume, &bench.caller, plan)).unwrap();
        assert_eq!(opened.attributes.accessed, opened.attributes.modified);
    });
}

/// FSCTL_SET_REPARSE_POINT replaces the node under the name.
#[test]
fn reparse_point_has_the_stopped_times_of_its_file() {
    let served = serve();
    for (at, stop) in [("one", TimeSetting::Set(LONG_AGO)), ("two", TimeSetting::Freeze)] {
        served.put(at, b"");
        let (open, other) = (served.open(at, ALL), served.open(at, ALL));
        served.files.set_attributes(&other, &of_all(TimeSetting::Set(LONG_AGO))).unwrap();
        served.close(other);
        served.files.set_attributes(&open, &of_all(stop)).unwrap();
        pass_a_tick();
        now(served.files.set_symlink(&open, b"target".to_vec())).unwrap();
        let times = || {
            let found = served.files.attributes(&open).unwrap();
            (found.accessed, found.modified)
        };
        assert_eq!(times(), (LONG_AGO, LONG_AGO), "{at}");
        served.files.readlink(&open).unwrap();
        assert_eq!(times(), (LONG_AGO, LONG_AGO), "{at}: read");
        // A link has no place for a change time.
        served.close(open);
        let plan = OpenPlan { no_follow: true, ..plan(at, ALL) };
        let link = served.try_open(plan).unwrap().open;
        served.files.set_attributes(&link, &of_all(TimeSetting::Set(LONG_AGO))).unwrap();
        pass_a_tick();
        now(served.files.delete_reparse(&link)).unwrap();
        let found = served.files.attributes(&link).unwrap();
        assert_eq!((found.accessed, found.modified), (LONG_AGO, LONG_AGO), "{at}: removed");
        served.close(link);
    }
}

/// The module's tests on further file systems, and a mount with `noatime` below the served root.
#[test]
fn stopped_times_hold_on_each_file_system() {
    let folder = tempfile::tempdir().unwrap();
    if is_on_mounted(folder.path()) || !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: file systems are mounted for it, which takes root");
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", EACH_FILE_SYSTEM]);
    command.arg(folder.path()).arg(std::env::current_exe().unwrap());
    let run = command.output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{text}{errors}");
    eprintln!("{errors}");
}

/// Whether a temporary directory lies on a file system that the test below has mounted.
fn is_on_mounted(folder: &Path) -> bool {
    folder.with_file_name("mounted-for-tests").exists()
}

/// Mounts what this machine can and runs the module there. `$0` is an empty directory, `$1` this
/// program.
const EACH_FILE_SYSTEM: &str = r#"
set -e
cd "$0"
kinds="tmpfs"
for kind in ext4 xfs btrfs; do
    truncate -s 320M "$kind.image"
    mkdir "$kind"
    if "mkfs.$kind" -q "$kind.image" > /dev/null 2>&1 && mount -o loop "$kind.image" "$kind" 2> /dev/null
    then kinds="$kinds $kind"
    else echo "skipped: $kind cannot be mounted here" >&2
    fi
done
mkdir tmpfs && mount -t tmpfs tmpfs tmpfs
for upper in $kinds; do
    mkdir "$upper/lower" "$upper/upper" "$upper/work" "over-$upper"
    layers="lowerdir=$upper/lower,upperdir=$upper/upper,workdir=$upper/work"
    if mount -t overlay overlay -o "$layers" "over-$upper" 2> /dev/null
    then kinds="$kinds over-$upper"
    else echo "skipped: no overlayfs over $upper here" >&2
    fi
done
for kind in $kinds; do
    mkdir "$kind/tests"
    touch "$kind/tests/mounted-for-tests"
    chmod 777 "$kind/tests"
    echo "$kind:"
    TMPDIR="$0/$kind/tests" "$1" --exact frozen_times::write_below_noatime_mount_leaves_the_access_time
    TMPDIR="$0/$kind/tests" "$1" frozen_times::
done
"#;

#[test]
fn write_below_noatime_mount_leaves_the_access_time() {
    let served = serve();
    if !is_on_mounted(served.dir.path()) {
        return eprintln!("skipped: runs within stopped_times_hold_on_each_file_system");
    }
    served.put_directory("below");
    let below = served.dir.path().join("below");
    let mount = |arguments: &[&str]| {
        let status = Command::new("mount").args(arguments).arg(&below).status().unwrap();
        assert!(status.success(), "{arguments:?}");
    };
    mount(&["--bind", below.to_str().unwrap()]);
    mount(&["-o", "remount,bind,noatime"]);
    std::fs::set_permissions(&below, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    served.put("below/file", b"");
    check_access_stays(&served, "below/file");
    assert!(Command::new("umount").args(["--lazy"]).arg(&below).status().unwrap().success());
}

#[test]
fn two_opens_stop_different_times() {
    on_each_backend(|bench| {
        let (one, two) = (bench.open("file"), bench.open("file"));
        let changed = TimeSetting::Freeze;
        bench.set(&one, BasicChange { changed, ..BasicChange::default() });
        let modified = TimeSetting::Freeze;
        bench.set(&two, BasicChange { modified, ..BasicChange::default() });
        let first = bench.times(&one);
        bench.write(&one);
        let second = bench.times(&two);
        assert!(second.0 > first.0 && second.1 > first.1, "{second:?}");
        assert_eq!(second.2, first.2);
        bench.write(&two);
        let third = bench.times(&one);
        assert!(third.0 > second.0 && third.2 > second.2, "{third:?}");
        assert_eq!(third.1, second.1);
        bench.close(one);
        bench.close(two);
        let later = bench.open("file");
        let after = bench.times(&later);
        assert_eq!(after, third);
    });
}

#[test]
fn access_time_stopped_by_one_open_stays_at_anothers_write() {
    on_each_backend(|bench| {
        let (stopped, writer) = (bench.open("file"), bench.open("file"));
        let accessed = TimeSetting::Freeze;
        bench.set(&stopped, BasicChange { accessed, ..BasicChange::default() });
        let first = bench.times(&stopped);
        bench.write(&writer);
        let seen = bench.times(&stopped);
        assert!(seen.0 > first.0, "the other open's write is an access");
        bench.write(&stopped);
        let after = bench.times(&stopped);
        assert_eq!(after.0, seen.0);
        assert!(after.1 > seen.1);
        bench.close(stopped);
        bench.close(writer);
        let later = bench.open("file");
        assert_eq!(bench.times(&later), after);
    });
}

/// Also on file systems that share extents and read nothing for it. MS-FSA 2.1.4.19.
#[test]
fn copy_moves_the_access_time_of_its_source_unless_stopped() {
    let served = serve();
    served.put("from", &[7; 1 << 16]);
    served.put("to", b"");
    let [from, stopped, to] = ["from", "from", "to"].map(|at| served.open(at, ALL));
    served.files.set_attributes(&stopped, &of_access(TimeSetting::Set(LONG_AGO))).unwrap();
    let accessed = || served.files.attributes(&from).unwrap().accessed;
    for (source, stays) in [(&stopped, true), (&from, false)] {
        pass_a_tick();
        let copied = served.files.copy_range(to.caller(), (source, 0), (&to, 0), 1 << 16);
        now(copied).unwrap();
        assert_eq!(accessed() == LONG_AGO, stays);
    }
}

/// FSCTL_DUPLICATE_EXTENTS_TO_FILE, on file systems that share extents.
#[test]
fn clone_leaves_times_that_both_opens_stopped() {
    let served = serve();
    let data = vec![7; 1 << 16];
    for (at, stop) in [("one", TimeSetting::Set(LONG_AGO)), ("two", TimeSetting::Freeze)] {
        let [from, to] = ["from", "to"].map(|side| {
            let at = format!("{at}-{side}");
            served.put(&at, &data);
            served.open(&at, ALL)
        });
        if !to.features().reflink {
            return eprintln!("skipped: no shared extents here");
        }
        for open in [&from, &to] {
            served.files.set_attributes(open, &of_all(stop)).unwrap();
        }
        let times = |open: &OpenFile| {
            let found = served.files.attributes(open).unwrap();
            (found.accessed, found.modified, found.shown_changed().0 / 100)
        };
        let before = [times(&from), times(&to)];
        pass_a_tick();
        now(served.files.clone_range(&served.alice, (&from, 0), (&to, 0), 1 << 16)).unwrap();
        assert_eq!([times(&from), times(&to)], before, "{at}");
        served.close(from);
        served.close(to);
        let after = ["from", "to"].map(|side| times(&served.open(&format!("{at}-{side}"), LOOK)));
        assert_eq!(after, before, "{at}: closed");
    }
}

#[test]
fn removed_name_leaves_a_stopped_change_time() {
    let served = serve();
    served.put("one", b"data");
    let one = served.open("one", ALL);
    now(served.files.link(&one, &path("two"), false)).unwrap();
    let two = served.open("two", LOOK);
    let changed = || served.files.attributes(&two).unwrap().shown_changed();
    let changed_by_set = TimeSetting::Set(LONG_AGO);
    let stop = BasicChange { changed: changed_by_set, ..BasicChange::default() };
    served.files.set_attributes(&one, &stop).unwrap();
    pass_a_tick();
    served.files.set_delete(&one, true, false).unwrap();
    served.close(one);
    assert!(!served.exists("one"));
    assert_eq!(changed(), LONG_AGO);
}

#[test]
fn removed_or_renamed_stream_leaves_a_stopped_change_time() {
    let served = serve();
    if !served.volume.has_streams() {
        return eprintln!("skipped: no extended attributes here");
    }
    let stream = |name: &str| StreamName::new(name.as_bytes()).unwrap();
    let plan = OpenPlan { stream: Some(stream("s")), desired: ALL, ..new_file("file") };
    let open = served.try_open(plan).unwrap().open;
    served.files.write(open.caller(), &open, 0, b"data").unwrap();
    let file = served.open("file", LOOK);
    let changed = || served.files.attributes(&file).unwrap().shown_changed();
    let stop = BasicChange { changed: TimeSetting::Set(LONG_AGO), ..BasicChange::default() };
    served.files.set_attributes(&open, &stop).unwrap();
    pass_a_tick();
    now(served.files.rename_stream(&open, &stream("t"), false)).unwrap();
    assert_eq!(changed(), LONG_AGO, "renamed");
    served.files.set_delete(&open, true, false).unwrap();
    served.close(open);
    assert!(served.files.streams(&file).unwrap().is_empty());
    assert_eq!(changed(), LONG_AGO, "removed");
}

#[test]
fn read_of_a_link_leaves_a_stopped_access_time() {
    let mut served = serve();
    let vfs = Arc::new(LocalVfs::open_with(served.dir.path(), false).unwrap());
    served.volume = Arc::new(Volume::new(vfs, VolumeOptions::default()));
    std::os::unix::fs::symlink("directory/file", served.dir.path().join("link")).unwrap();
    let root = Arc::new(Caller::of(Identity::root()));
    let caller = if served.is_root { &root } else { &served.alice };
    let open_link = || {
        let plan = OpenPlan { no_follow: true, share: ShareMode::ALL, ..plan("link", ALL) };
        served.try_open_as(caller, plan).unwrap().open
    };
    let (open, other) = (open_link(), open_link());
    // The kernel moves an access time that is older than the change time.
    served.files.set_attributes(&other, &of_access(TimeSetting::Set(LONG_AGO))).unwrap();
    let accessed = || {
        use std::os::unix::fs::MetadataExt;
        let found = served.dir.path().join("link").symlink_metadata().unwrap();
        (found.atime(), found.atime_nsec())
    };
    let before = accessed();
    pass_a_tick();
    served.files.set_attributes(&open, &of_access(TimeSetting::Freeze)).unwrap();
    assert_eq!(accessed(), before, "stopped");
    pass_a_tick();
    served.files.reparse(&open).unwrap();
    served.files.readlink(&open).unwrap();
    assert_eq!(accessed(), before, "read");
    served.files.attributes(&open).unwrap();
    assert_eq!(accessed(), before, "attributes");
}

#[test]
fn check_for_emptiness_leaves_a_stopped_access_time() {
    let served = serve();
    served.put_directory("directory");
    let open = served.open("directory", ALL);
    served.files.set_attributes(&open, &of_access(TimeSetting::Set(LONG_AGO))).unwrap();
    pass_a_tick();
    served.files.set_delete(&open, true, false).unwrap();
    served.files.set_delete(&open, false, false).unwrap();
    assert_eq!(served.files.attributes(&open).unwrap().accessed, LONG_AGO);
}
