//! The file layer over a real directory: the promises of SEMANTICS.md.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use files::{
    Access, Caller, Files, IfExists, IfMissing, Inline, LockKind, OpenAction, OpenFile, OpenPlan,
    OpenResult, Range, RangeLock, RequestFiles, RequestedKind, Semantics, ShareMode, Volume,
    VolumeOptions,
};
use files::{CacheBreak, CacheHolder, CacheKey, CacheKeyWish, CacheWish, CachingRights};
use futures_util::FutureExt;
use limits::LedgerHolder;
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::time::Duration;
use vfs::{FsError, Identity, Name, RelPath, Result};

/// Holder that is charged for byte ranges.
static HOLDER: LazyLock<LedgerHolder> = LazyLock::new(|| LedgerHolder::User("somebody".into()));

struct Fixture {
    folder: tempfile::TempDir,
    files: RequestFiles,
    volume: Arc<Volume>,
    caller: Arc<Caller>,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let vfs = Arc::new(vfs_local::LocalVfs::open(folder.path()).unwrap());
    let volume = Arc::new(Volume::new(vfs, VolumeOptions::default()));
    let caller = Arc::new(Caller::of(Identity::root()));
    Fixture { folder, files: Arc::new(Files::new(Arc::new(Inline))).for_server(), volume, caller }
}

fn path(text: &str) -> RelPath {
    text.split('/').map(|part| Name::new(part.as_bytes()).unwrap()).collect()
}

fn plan(text: &str) -> OpenPlan {
    OpenPlan {
        path: path(text),
        if_missing: IfMissing::Create,
        kind: RequestedKind::Any,
        semantics: Semantics::Windows,
        ..OpenPlan::posix(Access::FILE_ALL, ShareMode::ALL)
    }
}

impl Fixture {
    fn open(&self, plan: OpenPlan) -> Result<OpenResult> {
        now(self.files.open(&self.volume, &self.caller, plan))
    }

    fn file(&self, text: &str) -> Arc<OpenFile> {
        self.open(plan(text)).unwrap().open
    }

    fn directory(&self, text: &str) -> Arc<OpenFile> {
        self.open(OpenPlan { kind: RequestedKind::Directory, ..plan(text) }).unwrap().open
    }

    fn exists(&self, text: &str) -> bool {
        self.folder.path().join(text).exists()
    }
}

/// Runs a future that must not wait, since inline workers only wait for locks.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("answered at once")
}

#[test]
fn written_data_is_read_back_and_survives_close() {
    let f = fixture();
    let open = f.file("a");
    f.files.write(open.caller(), &open, 3, b"data").unwrap();
    let mut read = b"head".to_vec();
    assert_eq!(now(f.files.read(&open, 0, 100, &mut read)), Ok(7));
    assert_eq!(read, b"head\0\0\0data");
    now(f.files.close(open)).unwrap();
    assert_eq!(std::fs::read(f.folder.path().join("a")).unwrap(), b"\0\0\0data");
}

#[test]
fn delete_pending_file_refuses_opens_until_last_close() {
    let f = fixture();
    let first = f.file("a");
    let second = f.file("a");
    f.files.set_delete(&first, true, false).unwrap();
    assert_eq!(f.open(plan("a")).unwrap_err(), FsError::DeletePending);
    now(f.files.close(first)).unwrap();
    assert!(f.exists("a"));
    drop(second);
    assert!(!f.exists("a"), "dropping closes");
    assert_eq!(f.open(plan("a")).unwrap().action, OpenAction::Created);
}

#[test]
fn names_match_in_any_case_and_preserve_case() {
    let f = fixture();
    f.directory("Dir");
    drop(f.file("Dir/ReadMe"));
    let open = f.open(plan("dIR/README")).unwrap();
    assert_eq!(open.action, OpenAction::Opened);
    assert_eq!(open.open.path(), path("Dir/ReadMe"));
    let collision = OpenPlan { if_exists: IfExists::Fail, ..plan("DIR/readme") };
    assert_eq!(f.open(collision).unwrap_err(), FsError::AlreadyExists);
}

#[test]
fn symbolic_link_does_not_leave_volume() {
    let f = fixture();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), b"x").unwrap();
    std::os::unix::fs::symlink(outside.path(), f.folder.path().join("absolute")).unwrap();
    std::os::unix::fs::symlink("../..", f.folder.path().join("climbing")).unwrap();
    let only_open =
        |text| OpenPlan { if_missing: IfMissing::Fail, desired: Access::FILE_READ, ..plan(text) };
    for text in ["absolute", "absolute/secret", "climbing", "climbing/etc"] {
        assert!(f.open(only_open(text)).is_err(), "{text}");
    }
}

#[test]
fn directory_is_not_renamed_above_open_files() {
    let f = fixture();
    let directory = f.directory("d");
    let below = f.file("d/x");
    assert_eq!(now(f.files.rename(&directory, &path("e"), false)), Err(FsError::AccessDenied));
    now(f.files.close(below)).unwrap();
    assert_eq!(now(f.files.rename(&directory, &path("e"), false)), Ok(()));
    assert_eq!(directory.path(), path("e"));
    assert!(f.exists("e/x"));
}

#[test]
fn refused_open_leaves_no_grant() {
    let f = fixture();
    let exclusive = f.open(OpenPlan { share: ShareMode::default(), ..plan("a") }).unwrap().open;
    assert_eq!(f.open(plan("a")).unwrap_err(), FsError::ShareViolation);
    let wrong_kind =
        OpenPlan { kind: RequestedKind::Directory, if_missing: IfMissing::Fail, ..plan("a") };
    assert_eq!(f.open(wrong_kind).unwrap_err(), FsError::NotDirectory);
    now(f.files.close(exclusive)).unwrap();
    assert_eq!(f.files.open_file_count(), 0);
    assert!(f.open(OpenPlan { share: ShareMode::default(), ..plan("a") }).is_ok());
}

#[test]
fn overwrite_truncates_and_needs_hidden_attribute() {
    let f = fixture();
    let open = f.open(OpenPlan { dos_bits: files::dos::HIDDEN, ..plan("a") }).unwrap().open;
    f.files.write(open.caller(), &open, 0, b"data").unwrap();
    drop(open);
    let overwrite = OpenPlan { if_exists: IfExists::Overwrite, ..plan("a") };
    assert_eq!(f.open(overwrite.clone()).unwrap_err(), FsError::AccessDenied);
    let result = f.open(OpenPlan { dos_bits: files::dos::HIDDEN, ..overwrite }).unwrap();
    assert_eq!((result.action, result.attributes.size_bytes), (OpenAction::Overwritten, 0));
}

#[test]
fn waiting_lock_is_granted_on_release_or_dropped() {
    let f = fixture();
    let (first, second) = (f.file("a"), f.file("a"));
    let range = Range::new(0, 10).unwrap();
    let wanted = RangeLock { range, kind: LockKind::Exclusive };
    f.files.try_locks(&first, &[wanted], &HOLDER).unwrap();
    assert_eq!(f.files.try_locks(&second, &[wanted], &HOLDER), Err(FsError::LockNotGranted));
    assert!(
        f.files.lock(&second, wanted, &HOLDER).now_or_never().is_none(),
        "it waits, and is dropped"
    );
    assert_eq!(f.files.write(second.caller(), &second, 0, b"x"), Err(FsError::LockConflict));
    f.files.unlock(&first, range).unwrap();
    assert_eq!(f.files.lock(&second, wanted, &HOLDER).now_or_never(), Some(Ok(())));
    now(f.files.close(second)).unwrap();
    assert_eq!(f.files.try_locks(&first, &[wanted], &HOLDER), Ok(()), "closing gives locks back");
}

#[test]
fn nonempty_directory_refuses_delete_pending() {
    let f = fixture();
    let directory = f.directory("d");
    drop(f.file("d/x"));
    assert_eq!(f.files.set_delete(&directory, true, false), Err(FsError::NotEmpty));
}

#[test]
fn open_rights_decide_and_reader_may_not_write() {
    let f = fixture();
    drop(f.file("a"));
    let reader = f.open(OpenPlan { desired: Access::FILE_READ, ..plan("a") }).unwrap().open;
    assert_eq!(f.files.write(reader.caller(), &reader, 0, b"x"), Err(FsError::AccessDenied));
    assert_eq!(now(f.files.set_size(reader.caller(), &reader, 0)), Err(FsError::AccessDenied));
    assert_eq!(f.files.set_delete(&reader, true, false), Err(FsError::AccessDenied));
}

/// A client that forwards its break notifications.
#[derive(Debug)]
struct LocalClient(Mutex<mpsc::Sender<CachingRights>>);

impl CacheHolder for LocalClient {
    fn handle_break(&self, cache_break: &CacheBreak) {
        let _ = self.0.lock().unwrap().send(cache_break.to);
    }
}

#[test]
fn local_write_breaks_cached_file() {
    let f = fixture();
    std::fs::write(f.folder.path().join("log"), b"line 1\n").unwrap();
    std::fs::create_dir(f.folder.path().join("dir")).unwrap();
    let leased = |at: &str, number: u8| {
        let (sender, breaks) = mpsc::channel();
        let key = CacheKey { client: [1; 16], key: [number; 16] };
        let key = CacheKeyWish { key, epoch: 0, parent: None, of_directories: true };
        let holder = Arc::new(LocalClient(Mutex::new(sender)));
        let caching = CacheWish { wanted: CachingRights(3), key: Some(key), holder };
        let plan = OpenPlan { desired: Access::FILE_READ, caching: Some(caching), ..plan(at) };
        (f.open(plan).unwrap(), breaks)
    };
    let ((log, log_breaks), (_dir, dir_breaks)) = (leased("log", 1), leased("dir", 2));
    let how = vfs::OpenHow {
        read: true,
        write: false,
        case: vfs::Case::Sensitive,
        wanted: vfs::AttributeRequest::default(),
        no_follow: false,
        wait: vfs::Wait::Allowed,
    };
    let root = f.volume.vfs.open(f.caller.identity.actor(), &RelPath::root(), how).unwrap();
    if f.volume
        .vfs
        .external_watches()
        .unwrap()
        .watch(vfs::ServerWork::Watch, &*root.node, Arc::new(|_| {}))
        .is_err()
    {
        // Old kernels, and file systems without handles.
        return;
    }
    let shell = |script| {
        let mut shell = std::process::Command::new("sh");
        let done = shell.arg("-c").arg(script).current_dir(f.folder.path()).status().unwrap();
        assert!(done.success());
    };
    let soon = Duration::from_secs(20);
    shell("echo line 2 >> log; touch dir/new");
    assert_eq!(log_breaks.recv_timeout(soon), Ok(CachingRights::NONE));
    assert_eq!(dir_breaks.recv_timeout(soon), Ok(CachingRights::NONE));
    assert_eq!(log.open.caching(), CachingRights(3), "until it is acknowledged");
}

#[test]
fn concurrent_appends_lose_nothing() {
    const EACH: usize = 500;
    let f = fixture();
    f.file("log");
    let local = || {
        let path = f.folder.path().join("log");
        std::fs::OpenOptions::new().append(true).open(path).unwrap()
    };
    std::thread::scope(|scope| {
        for letter in *b"abc" {
            let open = f.open(OpenPlan { desired: Access::APPEND_DATA, ..plan("log") });
            let (files, open) = (&f.files, open.unwrap().open);
            scope.spawn(move || {
                for _ in 0..EACH {
                    files.write(open.caller(), &open, u64::MAX, &[letter; 16]).unwrap();
                }
            });
        }
        let mut local = local();
        scope.spawn(move || {
            for _ in 0..EACH {
                std::io::Write::write_all(&mut local, &[b'l'; 16]).unwrap();
            }
        });
    });
    let log = std::fs::read(f.folder.path().join("log")).unwrap();
    let (records, []) = log.as_chunks::<16>() else { panic!("a record is torn") };
    for letter in *b"abcl" {
        assert_eq!(records.iter().filter(|record| **record == [letter; 16]).count(), EACH);
    }
}
