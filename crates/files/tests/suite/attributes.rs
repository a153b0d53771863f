//! Times, DOS attributes, sizes, holes, extended attributes, reads and writes.

use crate::harness::*;
use files::{
    Access, BasicChange, CallHolder, Caller, ClientProtocol, Files, IfExists, NamePatterns,
    OpenPlan, RequestContext, ShareMode, TimeSetting, Volume, VolumeOptions, dos,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use limits::LedgerHolder;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vfs::memory::{CallOutcome, MemoryCall, MemoryOptions, MemoryVfs, Surroundings};
use vfs::{ArrivalOrder, Case, FsError, Identity, Timestamp};

const LONG_AGO: Timestamp = Timestamp(1_000_000_000_123_456_700);

fn settle(setting: TimeSetting) -> BasicChange {
    BasicChange { modified: setting, ..BasicChange::default() }
}

#[test]
fn set_time_is_frozen_for_its_open_only() {
    let served = serve();
    served.put("file", b"");
    let (open, other) = (served.open("file", ALL), served.open("file", ALL));
    let modified = || served.files.attributes(&open).unwrap().modified;
    served.files.set_attributes(&open, &settle(TimeSetting::Set(LONG_AGO))).unwrap();
    served.files.write(open.caller(), &open, 0, b"1").unwrap();
    now(served.files.set_size(open.caller(), &open, 9)).unwrap();
    assert_eq!(modified(), LONG_AGO);
    served.files.write(other.caller(), &other, 0, b"2").unwrap();
    assert_ne!(modified(), LONG_AGO);
}

#[test]
fn frozen_time_moves_after_thaw() {
    let served = serve();
    served.put("file", b"");
    let open = served.open("file", ALL);
    served.files.set_attributes(&open, &settle(TimeSetting::Set(LONG_AGO))).unwrap();
    served.files.set_attributes(&open, &settle(TimeSetting::Thaw)).unwrap();
    served.files.set_attributes(&open, &settle(TimeSetting::Freeze)).unwrap();
    served.files.write(open.caller(), &open, 0, b"1").unwrap();
    assert_eq!(served.files.attributes(&open).unwrap().modified, LONG_AGO);
    served.files.set_attributes(&open, &settle(TimeSetting::Thaw)).unwrap();
    served.files.write(open.caller(), &open, 0, b"1").unwrap();
    assert_ne!(served.files.attributes(&open).unwrap().modified, LONG_AGO);
}

/// Waits a clock tick of the file system: changes within one have the same time.
fn pass_a_tick() {
    std::thread::sleep(std::time::Duration::from_millis(25));
}

#[test]
fn set_change_time_is_frozen_for_its_open_only() {
    let served = serve();
    served.put("file", b"0123");
    let (open, other) = (served.open("file", ALL), served.open("file", ALL));
    let files = &served.files;
    let shown = || files.attributes(&other).unwrap().shown_changed();
    let set = |changed| BasicChange { changed, ..BasicChange::default() };
    files.set_attributes(&open, &set(TimeSetting::Set(LONG_AGO))).unwrap();
    assert_eq!(shown(), LONG_AGO);
    let bits = BasicChange { dos_bits: Some(dos::HIDDEN), ..BasicChange::default() };
    let changes: [&dyn Fn(); 5] = [
        &|| files.write(open.caller(), &open, 0, b"x").unwrap(),
        &|| now(files.set_size(open.caller(), &open, 3)).unwrap(),
        &|| now(files.set_allocation(open.caller(), &open, 8192)).unwrap(),
        &|| files.set_attributes(&open, &bits).unwrap(),
        &|| files.set_sparse(&open, true).unwrap(),
    ];
    for change in changes {
        pass_a_tick();
        change();
        assert_eq!(shown(), LONG_AGO);
    }
    pass_a_tick();
    files.write(other.caller(), &other, 0, b"y").unwrap();
    assert_ne!(shown(), LONG_AGO, "another open moves it");
    files.set_attributes(&open, &set(TimeSetting::Set(LONG_AGO))).unwrap();
    served.close(open);
    served.close(other);
    let open = served.open("file", ALL);
    assert_eq!(files.attributes(&open).unwrap().shown_changed(), LONG_AGO, "it is stored");
}

#[test]
fn frozen_change_time_moves_after_thaw() {
    let served = serve();
    served.put("file", b"");
    let open = served.open("file", ALL);
    // Stored times have Windows' precision.
    let shown = || served.files.attributes(&open).unwrap().shown_changed().0 / 100;
    let set = |changed| {
        served
            .files
            .set_attributes(&open, &BasicChange { changed, ..BasicChange::default() })
            .unwrap();
    };
    let before = shown();
    set(TimeSetting::Freeze);
    pass_a_tick();
    served.files.write(open.caller(), &open, 0, b"1").unwrap();
    assert_eq!(shown(), before);
    set(TimeSetting::Thaw);
    pass_a_tick();
    assert_eq!(shown(), before, "thawing changes nothing");
    served.files.write(open.caller(), &open, 0, b"1").unwrap();
    assert_ne!(shown(), before);
}

#[test]
fn write_moves_access_time_unless_frozen() {
    let served = serve();
    served.put("file", b"0123");
    let open = served.open("file", ALL);
    let accessed = || served.files.attributes(&open).unwrap().accessed;
    let set = |accessed| {
        served
            .files
            .set_attributes(&open, &BasicChange { accessed, ..BasicChange::default() })
            .unwrap();
    };
    set(TimeSetting::Set(LONG_AGO));
    served.files.write(open.caller(), &open, 0, b"x").unwrap();
    assert_eq!(accessed(), LONG_AGO, "it was set by this open");
    set(TimeSetting::Thaw);
    pass_a_tick();
    served.files.write(open.caller(), &open, 0, b"x").unwrap();
    assert!(accessed() > LONG_AGO);
    set(TimeSetting::Set(LONG_AGO));
    served.close(open.clone());
    let writer = served.open("file", WRITE);
    pass_a_tick();
    served.files.write(writer.caller(), &writer, 0, b"x").unwrap();
    served.close(writer);
    let reader = served.open("file", LOOK);
    let now = served.files.attributes(&reader).unwrap().accessed;
    assert!(now > LONG_AGO, "also by an open without queries");
}

/// A backend that runs a hook in the next write.
#[derive(Default)]
struct WriteHook {
    seconds: AtomicU64,
    next: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Surroundings for WriteHook {
    fn now(&self) -> Timestamp {
        let seconds = 1_750_000_000 + self.seconds.fetch_add(1, Ordering::Relaxed);
        Timestamp(i128::from(seconds) * 1_000_000_000)
    }

    fn before(&self, call: MemoryCall) -> CallOutcome {
        let hook =
            matches!(call, MemoryCall::Write { .. }).then(|| self.next.lock().unwrap().take());
        if let Some(Some(hook)) = hook {
            hook();
        }
        CallOutcome::Runs
    }
}

/// A write begins after another has read the times and before that has restored them.
#[test]
fn frozen_times_hold_over_concurrent_writes() {
    let hook = Arc::new(WriteHook::default());
    let vfs = Arc::new(MemoryVfs::new(MemoryOptions::default(), hook.clone()));
    let volume = Arc::new(Volume::new(vfs, VolumeOptions::default()));
    let root = Arc::new(Caller::of(Identity::root()));
    let files = Arc::new(Files::new(Arc::new(Inline))).for_server();
    let open = || {
        let plan = OpenPlan { desired: ALL, ..new_file("file") };
        let plan = OpenPlan { share: ShareMode::ALL, if_exists: IfExists::Open, ..plan };
        now(files.open(&volume, &root, plan)).unwrap().open
    };
    let (open, other) = (open(), open());
    let frozen = BasicChange {
        modified: TimeSetting::Set(LONG_AGO),
        changed: TimeSetting::Set(LONG_AGO),
        ..BasicChange::default()
    };
    files.set_attributes(&open, &frozen).unwrap();
    let inner = (files.clone(), open.clone(), other.clone());
    *hook.next.lock().unwrap() = Some(Box::new(move || {
        let (files, open, other) = inner;
        files.write(other.caller(), &other, 0, b"1").unwrap();
        files.write(open.caller(), &open, 0, b"2").unwrap();
    }));
    files.write(open.caller(), &open, 0, b"3").unwrap();
    let found = files.attributes(&other).unwrap();
    assert_eq!((found.modified, found.shown_changed()), (LONG_AGO, LONG_AGO));
    files.write(other.caller(), &other, 0, b"4").unwrap();
    let moved = files.attributes(&other).unwrap().modified;
    assert_ne!(moved, LONG_AGO, "others move it");
    files.write(open.caller(), &open, 0, b"5").unwrap();
    assert_eq!(files.attributes(&other).unwrap().modified, moved, "it is where others moved it");
}

/// A rename moves the change time alone, so the write times of others stay.
#[test]
fn rename_restores_change_time_and_leaves_writes_of_others() {
    let served = serve();
    served.put("file", b"");
    let (open, other) = (served.open("file", ALL), served.open("file", ALL));
    let setting = TimeSetting::Set(LONG_AGO);
    let frozen = BasicChange { modified: setting, changed: setting, ..BasicChange::default() };
    served.files.set_attributes(&open, &frozen).unwrap();
    let (files, writer) = (served.files.clone(), other.clone());
    served.hook_once(HookPoint::BeforeRename, move |_| {
        pass_a_tick();
        files.write(writer.caller(), &writer, 0, b"1").unwrap();
    });
    now(served.files.rename(&open, &path("new"), false)).unwrap();
    let found = served.files.attributes(&other).unwrap();
    assert_eq!(found.shown_changed(), LONG_AGO);
    assert_ne!(found.modified, LONG_AGO, "another open wrote");
}

#[test]
fn changes_of_streams_leave_stopped_times_of_their_file() {
    let served = serve();
    for name in ["source", "file"] {
        served.put(name, b"");
    }
    let stream = |name: &str| {
        let stream = Some(vfs::StreamName::new(&b"s"[..]).unwrap());
        let plan = OpenPlan { stream, if_exists: IfExists::Open, ..new_file(name) };
        let opened = served.try_open(OpenPlan { share: ShareMode::ALL, ..plan }).unwrap().open;
        served.files.write(opened.caller(), &opened, 0, b"data").unwrap();
        opened
    };
    served.close(stream("source"));
    let (source, file) = (served.open("source", ALL), served.open("file", ALL));
    let setting = TimeSetting::Set(LONG_AGO);
    let frozen = BasicChange { modified: setting, changed: setting, ..BasicChange::default() };
    let times = |open: &files::OpenFile| {
        let found = served.files.file_attributes(open).unwrap();
        [found.modified, found.shown_changed()]
    };
    served.files.set_attributes(&file, &frozen).unwrap();
    pass_a_tick();
    now(served.files.copy_streams(&source, &file)).unwrap();
    assert_eq!(times(&file), [LONG_AGO; 2]);
    let discarded = stream("file");
    served.files.set_attributes(&discarded, &frozen).unwrap();
    pass_a_tick();
    served.files.discard_stream(&discarded).unwrap();
    assert_eq!(times(&discarded), [LONG_AGO; 2]);
}

/// The client disconnects while a worker holds its request.
#[test]
fn abandoned_changes_on_a_worker_restore_frozen_times() {
    let later = Arc::new(DeferringWorkers::default());
    let served = serve_with(VolumeOptions::default(), later.clone());
    for name in ["file", "source"] {
        let file = served.dir.path().join(name);
        std::fs::write(&file, [7; 20_000]).unwrap();
        let owner = &served.alice.identity;
        std::os::unix::fs::chown(file, Some(owner.uid), Some(owner.gid)).unwrap();
    }
    let run = |work: &mut dyn FnMut() -> bool| {
        while !work() {
            let tasks = std::mem::take(&mut *later.0.lock().unwrap());
            tasks.into_iter().for_each(|task| task());
        }
    };
    let open = |name: &str| {
        let mut opening =
            Box::pin(served.files.open(&served.volume, &served.alice, plan(name, ALL)));
        let mut opened = None;
        run(&mut || {
            opened = opening.as_mut().now_or_never();
            opened.is_some()
        });
        opened.unwrap().unwrap().open
    };
    let (open, source) = (open("file"), open("source"));
    let setting = TimeSetting::Set(LONG_AGO);
    let frozen = BasicChange {
        accessed: setting,
        modified: setting,
        changed: setting,
        ..BasicChange::default()
    };
    served.files.set_attributes(&open, &frozen).unwrap();
    let (files, caller) = (&served.files, open.caller());
    let changes: [BoxFuture<'_, vfs::Result<()>>; 5] = [
        Box::pin(files.zero_range(caller, &open, 0, 100)),
        Box::pin(files.copy_range(caller, (&source, 0), (&open, 0), 4096)),
        Box::pin(files.set_allocation(caller, &open, 1 << 20)),
        Box::pin(files.set_size(caller, &open, 10_000)),
        Box::pin(files.set_reparse(&open, vec![7; 30], None)),
    ];
    for (number, mut change) in changes.into_iter().enumerate() {
        assert!(change.as_mut().now_or_never().is_none(), "{number} waits for a worker");
        drop(change);
        pass_a_tick();
        let tasks = std::mem::take(&mut *later.0.lock().unwrap());
        assert_eq!(tasks.len(), 1);
        tasks.into_iter().for_each(|task| task());
        let found = files.attributes(&open).unwrap();
        let times = [found.accessed, found.modified, found.shown_changed()];
        assert_eq!(times, [LONG_AGO; 3], "{number}");
    }
}

/// Reads with a stopped access time take a descriptor more, which counts as an open.
#[test]
fn descriptor_of_stopped_access_time_is_charged_to_the_opens() {
    let served = serve();
    served.put("file", b"0123");
    let open = served.open("file", ALL);
    let server = served.files.clone();
    let account = server.opens().account(&HOLDER);
    let context = RequestContext::new(ClientProtocol::Smb, [1; 16], None, ArrivalOrder::next());
    let files = server.for_request(&context, CallHolder::Client(HOLDER.clone()));
    let set = |accessed| {
        files.set_attributes(&open, &BasicChange { accessed, ..BasicChange::default() }).unwrap();
    };
    let read = || now(files.read(&open, 0, 4, &mut Vec::new())).unwrap();
    read();
    set(TimeSetting::Set(LONG_AGO));
    assert_eq!(account.used(), 0, "it is opened by the first read");
    let all = server.opens().account(&LedgerHolder::User("another".into())).force(u64::MAX >> 1);
    server.opens().set_max(1);
    let mine = account.force(64);
    read();
    assert_eq!(account.used(), 64, "the shared descriptor serves");
    drop((all, mine));
    server.opens().set_max(1000);
    set(TimeSetting::Set(LONG_AGO));
    pass_a_tick();
    read();
    assert_eq!(account.used(), 1);
    assert_eq!(files.attributes(&open).unwrap().accessed, LONG_AGO);
    read();
    assert_eq!(account.used(), 1, "once");
    set(TimeSetting::Thaw);
    assert_eq!(account.used(), 0);
    set(TimeSetting::Freeze);
    read();
    assert_eq!(account.used(), 1);
    served.close(open);
    assert_eq!(account.used(), 0);
}

/// The copy writes what the source has before it fails.
#[test]
fn failed_change_restores_frozen_times() {
    let served = serve();
    served.put("short", b"0123456789");
    served.put("file", b"");
    let (source, open) = (served.open("short", ALL), served.open("file", ALL));
    let setting = TimeSetting::Set(LONG_AGO);
    let frozen = BasicChange {
        accessed: setting,
        modified: setting,
        changed: setting,
        ..Default::default()
    };
    served.files.set_attributes(&open, &frozen).unwrap();
    pass_a_tick();
    let copied = now(served.files.copy_range(open.caller(), (&source, 0), (&open, 0), 20));
    assert_eq!(copied, Err(FsError::InvalidParameter));
    let found = served.files.attributes(&open).unwrap();
    let times = [found.accessed, found.modified, found.shown_changed()];
    assert_eq!(times, [LONG_AGO; 3]);
    assert_eq!(served.get("file").unwrap(), b"0123456789");
}

#[test]
fn frozen_change_time_survives_mode_without_rights() {
    let served = serve();
    if !served.is_root {
        return eprintln!("skipped: needs the superuser to act as another user");
    }
    served.put("file", b"");
    let owner = user(4003, 4001);
    std::os::unix::fs::chown(served.dir.path().join("file"), Some(4003), None).unwrap();
    let open = served.try_open_as(&owner, plan("file", ALL)).unwrap().open;
    let frozen = BasicChange { changed: TimeSetting::Set(LONG_AGO), ..BasicChange::default() };
    served.files.set_attributes(&open, &frozen).unwrap();
    pass_a_tick();
    served.files.set_mode(&open, 0).unwrap();
    assert_eq!(served.files.attributes(&open).unwrap().shown_changed(), LONG_AGO);
}

#[test]
fn frozen_times_hold_for_writer_that_is_not_owner() {
    let served = serve();
    if !served.is_root {
        return eprintln!("skipped: needs the superuser to act as two users");
    }
    served.put("file", b"");
    served.set_mode("file", 0o660);
    let colleague = user(4003, 4001);
    let open = served.try_open_as(&colleague, plan("file", READ | WRITE)).unwrap().open;
    let before = served.files.attributes(&open).unwrap().modified;
    served.files.set_attributes(&open, &settle(TimeSetting::Freeze)).unwrap();
    served.files.write(open.caller(), &open, 0, b"1").unwrap();
    assert_eq!(served.files.attributes(&open).unwrap().modified, before);
}

#[test]
fn data_change_sets_archive_attribute() {
    let served = serve();
    served.put("file", b"0123");
    let clear = BasicChange { dos_bits: Some(dos::NORMAL), ..BasicChange::default() };
    let open = served.open("file", ALL);
    let archived = || served.files.attributes(&open).unwrap().dos.bits.unwrap() & dos::ARCHIVE != 0;
    let changes: [&dyn Fn(); 4] = [
        &|| served.files.write(open.caller(), &open, 0, b"x").unwrap(),
        &|| now(served.files.set_size(open.caller(), &open, 3)).unwrap(),
        &|| now(served.files.zero_range(open.caller(), &open, 0, 2)).unwrap(),
        &|| now(served.files.copy_range(open.caller(), (&open, 0), (&open, 2), 1)).unwrap(),
    ];
    for change in changes {
        served.files.set_attributes(&open, &clear).unwrap();
        assert!(!archived());
        change();
        assert!(archived());
    }
    served.files.set_attributes(&open, &clear).unwrap();
    served.close(open.clone());
    let open = served.open("file", WRITE);
    served.files.write(open.caller(), &open, 0, b"x").unwrap();
    drop(open);
    assert!(archived(), "by a later open too");
}

#[test]
fn dos_attributes_must_suit_file_kind() {
    let served = serve();
    served.put("file", b"");
    served.put_directory("directory");
    let (file, directory) = (served.open("file", ALL), served.open("directory", ALL));
    let set = |open, bits| {
        served
            .files
            .set_attributes(open, &BasicChange { dos_bits: Some(bits), ..BasicChange::default() })
    };
    assert_eq!(set(&file, dos::DIRECTORY), Err(FsError::InvalidParameter));
    assert_eq!(set(&directory, dos::TEMPORARY), Err(FsError::InvalidParameter));
    set(&directory, dos::HIDDEN).unwrap();
    set(&file, dos::HIDDEN | dos::READONLY).unwrap();
    assert_eq!(
        served.files.attributes(&directory).unwrap().dos.bits,
        Some(dos::HIDDEN | dos::DIRECTORY)
    );
    assert_eq!(served.files.attributes(&file).unwrap().dos.bits, Some(dos::HIDDEN | dos::READONLY));
}

#[test]
fn each_call_needs_its_right() {
    let served = serve();
    served.put("file", b"data");
    let reader = served.open("file", Access::READ_DATA);
    let writer = served.open("file", Access::WRITE_DATA);
    let looker = served.open("file", Access::READ_ATTRIBUTES);
    let files = &served.files;
    let denied = Err(FsError::AccessDenied);
    assert!(files.attributes(&reader).is_err() && files.attributes(&looker).is_ok());
    assert_eq!(files.write(reader.caller(), &reader, 0, b"x"), denied);
    assert_eq!(now(files.set_size(reader.caller(), &reader, 0)), denied);
    assert_eq!(now(files.zero_range(reader.caller(), &reader, 0, 1)), denied);
    assert_eq!(files.set_attributes(&writer, &BasicChange::default()), denied);
    assert_eq!(served.read(&writer).unwrap_err(), FsError::AccessDenied);
    assert_eq!(now(files.copy_range(writer.caller(), (&writer, 0), (&writer, 0), 1)), denied);
    assert!(
        files.xattrs(&looker).is_err() && files.set_xattr(&looker, &xattr_name("n"), None).is_err()
    );
    assert!(now(files.allocated_ranges(&looker, 0, 1, 1)).is_err());
    served.put_directory("directory");
    let entered = served.open("directory", Access::READ_ATTRIBUTES);
    assert_eq!(files.readdir(&entered, 0, &mut |_| true), Err(FsError::AccessDenied));
}

#[test]
fn append_only_open_writes_and_cannot_truncate() {
    let served = serve();
    served.put("file", b"0123");
    let open = served.open("file", Access::APPEND_DATA);
    served.files.write(open.caller(), &open, 3, b"x").unwrap();
    served.files.write(open.caller(), &open, u64::MAX, b"45").unwrap();
    assert_eq!(served.get("file").unwrap(), b"012x45");
    assert_eq!(now(served.files.set_size(open.caller(), &open, 1)), Err(FsError::AccessDenied));
}

#[test]
fn size_and_allocation_change_as_requested() {
    let served = serve();
    served.put("file", b"0123456789");
    let open = served.open("file", ALL);
    let size = || served.files.attributes(&open).unwrap().size_bytes;
    now(served.files.set_allocation(open.caller(), &open, 1 << 20)).unwrap();
    assert_eq!(size(), 10);
    now(served.files.set_allocation(open.caller(), &open, 4)).unwrap();
    assert_eq!(size(), 4, "less space than data cuts the data");
    now(served.files.set_size(open.caller(), &open, 6)).unwrap();
    assert_eq!(served.get("file").unwrap(), b"0123\0\0");
    now(served.files.set_size(open.caller(), &open, 0)).unwrap();
    assert_eq!(size(), 0);
    served.put_directory("directory");
    let directory = served.open("directory", ALL);
    assert_eq!(
        now(served.files.set_size(directory.caller(), &directory, 0)),
        Err(FsError::InvalidParameter)
    );
}

#[test]
fn sparse_file_reports_its_data_ranges() {
    let served = serve();
    served.put("file", &[1; 256 * 1024]);
    let open = served.open("file", ALL);
    let ranges = |count| now(served.files.allocated_ranges(&open, 0, 1 << 20, count)).unwrap();
    assert_eq!(ranges(8), (vec![(0, 256 * 1024)], false), "not sparse: all of it");
    served.files.set_sparse(&open, true).unwrap();
    now(served.files.zero_range(open.caller(), &open, 64 * 1024, 64 * 1024)).unwrap();
    assert_eq!(ranges(8), (vec![(0, 64 * 1024), (128 * 1024, 128 * 1024)], false));
    assert_eq!(ranges(1), (vec![(0, 64 * 1024)], true));
    let data = served.get("file").unwrap();
    assert!(data[64 * 1024..128 * 1024].iter().all(|b| *b == 0) && data[128 * 1024] == 1);
}

#[test]
fn zeroed_range_does_not_extend_file() {
    let served = serve();
    served.put("file", b"0123");
    let open = served.open("file", ALL);
    now(served.files.zero_range(open.caller(), &open, 2, 1 << 40)).unwrap();
    assert_eq!(served.get("file").unwrap(), b"01\0\0");
    now(served.files.zero_range(open.caller(), &open, 0, 0)).unwrap();
    assert_eq!(
        now(served.files.zero_range(open.caller(), &open, u64::MAX, 2)),
        Err(FsError::InvalidParameter)
    );
}

#[test]
fn read_stops_at_end_and_appends_to_buffer() {
    let served = serve();
    served.put("file", b"0123");
    let open = served.open("file", READ);
    let mut data = b"head".to_vec();
    assert_eq!(now(served.files.read(&open, 2, 100, &mut data)), Ok(2));
    assert_eq!(data, b"head23");
    assert_eq!(now(served.files.read(&open, 4, 1, &mut data)), Ok(0));
    assert_eq!(
        now(served.files.read(&open, u64::MAX, 2, &mut data)),
        Err(FsError::InvalidParameter)
    );
    assert_eq!(data, b"head23");
    let resident = served.files.read_resident(&open, 1, 100).unwrap();
    assert!(resident.is_none_or(|r| (r.offset, r.length_bytes) == (1, 3)));
}

#[test]
fn copy_is_complete_or_reports_short_source() {
    let served = serve();
    served.put("from", b"0123456789");
    served.put("to", b"");
    let (from, to) = (served.open("from", READ), served.open("to", WRITE));
    now(served.files.copy_range(to.caller(), (&from, 2), (&to, 4), 5)).unwrap();
    assert_eq!(served.get("to").unwrap(), b"\0\0\0\x0023456");
    assert_eq!(
        now(served.files.copy_range(to.caller(), (&from, 8), (&to, 0), 5)),
        Err(FsError::InvalidParameter)
    );
    assert_eq!(
        now(served.files.copy_range(to.caller(), (&from, u64::MAX), (&to, 0), 5)),
        Err(FsError::InvalidParameter)
    );
}

#[test]
fn extended_attributes_are_found_in_any_case() {
    let served = serve();
    served.put("file", b"");
    let open = served.open("file", ALL);
    served.files.set_xattr(&open, &xattr_name("Note"), Some(b"1")).unwrap();
    served.files.set_xattr(&open, &xattr_name("NOTE"), Some(b"22")).unwrap();
    assert_eq!(served.files.xattrs(&open), Ok(vec![(xattr_name("Note"), b"22".to_vec())]));
    assert!(served.files.xattr_bytes(&open) > 0);
    served.files.set_xattr(&open, &xattr_name("note"), None).unwrap();
    assert_eq!(served.files.xattrs(&open), Ok(vec![]));
    assert_eq!(served.files.xattr_bytes(&open), 0);
}

#[test]
fn directory_listing_continues_after_cookie() {
    let served = serve();
    served.put_directory("directory");
    for n in 0..10 {
        served.put(&format!("directory/{n}"), b"");
    }
    let open = served.open("directory", READ);
    let (mut names, mut cookie) = (Vec::new(), 0);
    while !served
        .files
        .readdir(&open, cookie, &mut |entry| {
            cookie = entry.next;
            names.push(entry.name);
            names.len() % 3 != 0
        })
        .unwrap()
    {}
    names.sort();
    assert_eq!(names, (0..10).map(|n| name(&n.to_string())).collect::<Vec<_>>());
    assert_eq!(served.files.child_attributes(&open, &names[0]).unwrap().kind, vfs::FileKind::File);
    assert_eq!(served.files.child_attributes(&open, &name("no")), Err(FsError::NotFound));
}

/// Accepts all names but one, which it passes over.
#[derive(Default)]
struct PassingSink(Vec<(String, vfs::Attributes)>);

impl vfs::ListSink for PassingSink {
    fn choose(&mut self, name: &[u8], _: u64) -> vfs::EntryChoice {
        if name == b"passed" { vfs::EntryChoice::Pass } else { vfs::EntryChoice::Take }
    }

    fn put(&mut self, entry: vfs::ListedEntry<'_>) -> bool {
        let name = String::from_utf8_lossy(entry.name).into_owned();
        self.0.push((name, entry.attributes.unwrap()));
        true
    }
}

#[test]
fn listing_attributes_agree_with_open() {
    let hidden = NamePatterns::new(["dot*"], Case::Insensitive);
    let options = VolumeOptions { hidden_names: hidden, ..VolumeOptions::default() };
    let served = serve_with(options, Arc::new(Inline));
    served.put_directory("d");
    for (at, content) in [("dotted", &b"1"[..]), ("plain", b"22"), ("passed", b"")] {
        served.put(&format!("d/{at}"), content);
    }
    let open = served.open("d", READ);
    let mut sink = PassingSink::default();
    let wanted = vfs::ListingRequest {
        attributes: true,
        stored: Some(vfs::ServerWork::Metadata),
        few: false,
    };
    assert_eq!(served.files.readdir_with_attributes(&open, 0, wanted, &mut sink), Ok(true));
    let names: Vec<&str> = sink.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for (at, attributes) in &sink.0 {
        assert_eq!(served.files.child_attributes(&open, &name(at)), Ok(*attributes));
        let (_, found) = served.files.find_child(&open, &name(&at.to_uppercase())).unwrap();
        assert_eq!(found, *attributes, "by a name in another case");
        let is_hidden = attributes.dos.bits.unwrap_or(0) & dos::HIDDEN != 0;
        assert_eq!(is_hidden, at == "dotted");
    }
    let missing = served.files.find_child(&open, &name("missing"));
    assert_eq!(missing.unwrap_err(), FsError::NotFound);
}

#[test]
fn volume_reports_space_within_its_limit() {
    let limit = 1 << 20;
    let options = VolumeOptions { size_limit_bytes: Some(limit), ..VolumeOptions::default() };
    let served = serve_with(options, Arc::new(Inline));
    let space = served.files.space(&served.volume, &served.alice).unwrap();
    assert_eq!(space.total_bytes, limit);
    assert!(space.free_bytes <= limit && space.available_bytes <= limit);
    let open = serve();
    assert!(open.files.space(&open.volume, &open.alice).unwrap().total_bytes > limit);
}

#[test]
fn listing_ea_size_agrees_with_file() {
    let served = serve();
    served.put("plain", b"");
    served.put("file", b"");
    let open = served.open("file", ALL);
    if served.files.set_xattr(&open, &xattr_name("one"), Some(b"value")).is_err() {
        return; // None can be stored here.
    }
    served.files.set_xattr(&open, &xattr_name("another"), Some(&[7; 300])).unwrap();
    let root = served.open("", READ);
    let of_file = served.files.xattr_bytes(&open);
    assert_eq!(of_file, 4 + (9 + 3 + 5u32).next_multiple_of(4) + (9 + 7 + 300));
    assert_eq!(served.files.child_xattr_bytes(&root, &name("file")), of_file);
    assert_eq!(served.files.child_xattr_bytes(&root, &name("plain")), 0);
    assert_eq!(served.files.child_xattr_bytes(&root, &name("missing")), 0);
}

#[test]
fn extended_attribute_matches_any_case_and_preserves_it() {
    let served = serve();
    served.put("file", b"");
    let open = served.open("file", ALL);
    if served.files.set_xattr(&open, &xattr_name("One"), Some(b"1")).is_err() {
        return;
    }
    served.files.set_xattr(&open, &xattr_name("ONE"), Some(b"2")).unwrap();
    assert_eq!(served.files.xattrs(&open).unwrap(), [(xattr_name("One"), b"2".to_vec())]);
    served.files.set_xattr(&open, &xattr_name("one"), None).unwrap();
    assert!(served.files.xattrs(&open).unwrap().is_empty());
    let reads = served.open("file", Access::READ_EA);
    assert_eq!(
        served.files.set_xattr(&reads, &xattr_name("one"), Some(b"1")),
        Err(FsError::AccessDenied)
    );
    let looks = served.open("file", LOOK);
    assert_eq!(served.files.xattrs(&looks), Err(FsError::AccessDenied));
}

#[test]
fn basic_information_is_set_despite_mode() {
    let served = serve();
    if !served.is_root {
        return eprintln!("skipped: needs the superuser to act as another user");
    }
    served.put("file", b"");
    served.put_directory("folder");
    for (name, mode) in
        [("file", 0o444), ("file", 0o200), ("file", 0), ("folder", 0o555), ("folder", 0o200)]
    {
        served.set_mode(name, 0o700);
        let rights = Access::READ_ATTRIBUTES | Access::WRITE_ATTRIBUTES;
        let open = served.open(name, rights);
        let hide = BasicChange { dos_bits: Some(dos::HIDDEN), ..BasicChange::default() };
        served.files.set_attributes(&open, &hide).unwrap();
        served.set_mode(name, mode);
        let open = served.open(name, rights);
        let times = BasicChange {
            created: TimeSetting::Set(LONG_AGO),
            modified: TimeSetting::Set(LONG_AGO),
            ..BasicChange::default()
        };
        assert_eq!(served.files.set_attributes(&open, &times), Ok(()), "{name} {mode:o}");
        let now = served.files.attributes(&open).unwrap();
        assert_eq!(now.dos.created, Some(LONG_AGO), "{name} {mode:o}");
        assert_eq!(now.modified, LONG_AGO, "{name} {mode:o}");
        let bits = now.dos.bits.unwrap();
        assert_ne!(bits & dos::HIDDEN, 0, "{name} {mode:o}: retained beside the time");
    }
}
