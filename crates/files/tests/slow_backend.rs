//! A backend with a delay in each call: cached results need no call.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use files::{
    Access, CallHolder, Caller, Files, IfMissing, Inline, OpenPlan, RequestFiles, RequestedKind,
    Semantics, ShareMode, Volume, VolumeOptions, Workers,
};
use futures_util::FutureExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vfs::memory::{CallOutcome, MemoryCall, MemoryOptions, MemoryVfs, Surroundings};
use vfs::{Actor, FsError, Identity, Name, RelPath, Timestamp, Vfs, Wait};
use vfs_cache::{CacheOptions, CachedVfs, Clock};

/// Duration of a call.
const CALL_TAKES: Duration = Duration::from_millis(1);
const ROUNDS: u64 = 40;

/// Nothing is cached. Every call that may block is counted and delayed, except on an open node,
/// which a system has in memory, as `vfs::DelayedVfs` models it. The clock advances a second with
/// each reading.
#[derive(Default)]
struct SlowBackend {
    calls: AtomicU64,
    seconds: AtomicU64,
}

impl Surroundings for SlowBackend {
    fn now(&self) -> Timestamp {
        let seconds = 1_750_000_000 + self.seconds.fetch_add(1, Ordering::Relaxed);
        Timestamp(i128::from(seconds) * 1_000_000_000)
    }

    fn before(&self, call: MemoryCall) -> CallOutcome {
        if matches!(call, MemoryCall::Open(Wait::Never) | MemoryCall::Read(Wait::Never)) {
            return CallOutcome::Fails(FsError::WouldBlock);
        }
        if matches!(call, MemoryCall::Attributes | MemoryCall::Xattr) {
            return CallOutcome::Runs;
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(CALL_TAKES);
        CallOutcome::Runs
    }
}

struct Fixture {
    files: RequestFiles,
    volume: Arc<Volume>,
    caller: Arc<Caller>,
    slow: Arc<SlowBackend>,
}

fn fixture(is_cached: bool) -> Fixture {
    let slow = Arc::new(SlowBackend::default());
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new(MemoryOptions::default(), slow.clone()));
    let volume = Arc::new(if is_cached {
        let now = slow.clone();
        let clock = Clock(Arc::new(move || now.now()));
        let cache = CachedVfs::new(vfs, CacheOptions::default(), clock);
        Volume::cached(Arc::new(cache), VolumeOptions::default())
    } else {
        Volume::new(vfs, VolumeOptions::default())
    });
    let caller = Arc::new(Caller::of(Identity::root()));
    Fixture { files: Arc::new(Files::new(Arc::new(Inline))).for_server(), volume, caller, slow }
}

fn path(text: &str) -> RelPath {
    text.split('/').map(|part| Name::new(part.as_bytes()).unwrap()).collect()
}

impl Fixture {
    fn open(&self, at: &str, desired: Access, if_missing: IfMissing, kind: RequestedKind) -> bool {
        let plan = OpenPlan {
            path: path(at),
            if_missing,
            kind,
            semantics: Semantics::Windows,
            ..OpenPlan::posix(desired, ShareMode::ALL)
        };
        let opened = self.files.open(&self.volume, &self.caller, plan).now_or_never().unwrap();
        let Ok(opened) = opened else { return false };
        if desired == Access::DELETE {
            self.files.set_delete(&opened.open, true, false).unwrap();
        }
        self.files.close(opened.open).now_or_never().unwrap().unwrap();
        true
    }

    fn make(&self, at: &str) {
        assert!(self.open(at, Access::FILE_ALL, IfMissing::Create, RequestedKind::File));
    }

    fn look(&self, at: &str, desired: Access) -> bool {
        self.open(at, desired, IfMissing::Fail, RequestedKind::Any)
    }

    /// Calls and time of each round.
    fn cost(&self, mut round: impl FnMut(u64)) -> (f64, Duration) {
        let (calls, start) = (self.slow.calls.load(Ordering::Relaxed), Instant::now());
        (0..ROUNDS).for_each(&mut round);
        let calls = self.slow.calls.load(Ordering::Relaxed) - calls;
        (calls as f64 / ROUNDS as f64, start.elapsed() / ROUNDS as u32)
    }

    /// Costs of creating, opening, looking up, missing and deleting a file.
    fn costs(&self) -> Vec<(&'static str, (f64, Duration))> {
        assert!(self.open("Dir", Access::FILE_ALL, IfMissing::Create, RequestedKind::Directory));
        assert!(!self.look("Dir/none", Access::READ_ATTRIBUTES));
        let name = |number: u64| format!("Dir/File{number}");
        self.make("Dir/hot");
        (0..2).for_each(|_| assert!(self.look("Dir/hot", Access::READ_DATA)));
        let create = self.cost(|number| self.make(&name(number)));
        // Repeated lookups are cached.
        let known = (0..2 * ROUNDS).map(|n| name(n % ROUNDS));
        known.for_each(|name| assert!(self.look(&name, Access::READ_DATA)));
        vec![
            ("create", create),
            ("open", self.cost(|_| assert!(self.look("Dir/hot", Access::READ_DATA)))),
            ("miss", self.cost(|n| assert!(!self.look(&format!("Dir/x{n}"), Access::READ_DATA)))),
            ("delete", self.cost(|number| assert!(self.look(&name(number), Access::DELETE)))),
        ]
    }
}

#[test]
fn hot_paths_call_slow_backend_a_third_less() {
    let (on, off) = (fixture(true).costs(), fixture(false).costs());
    let (mut all_on, mut all_off) = ((0.0, 0.0), (0.0, 0.0));
    for ((what, (calls_on, time_on)), (_, (calls_off, time_off))) in on.into_iter().zip(off) {
        println!("{what}: {calls_on} calls and {time_on:?}, without {calls_off} and {time_off:?}");
        assert!(3.0 * calls_on <= 2.0 * calls_off, "{what}: {calls_on} calls, without {calls_off}");
        all_on = (all_on.0 + calls_on, all_on.1 + time_on.as_secs_f64());
        all_off = (all_off.0 + calls_off, all_off.1 + time_off.as_secs_f64());
    }
    // Times are printed only: they depend on the load of this machine.
    assert!(all_off.0 >= 1.6 * all_on.0, "{all_on:?}, without {all_off:?}");
}

/// Runs tasks immediately and counts them.
#[derive(Debug, Default)]
struct CountingWorkers(AtomicU64);

impl Workers for CountingWorkers {
    fn run(&self, _: &CallHolder, run: Box<dyn FnOnce() + Send>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        run();
    }

    fn sleep(&self, time: Duration) -> futures_util::future::BoxFuture<'static, ()> {
        Inline.sleep(time)
    }
}

/// A backend in memory without delay.
#[derive(Debug)]
struct QuickBackend;

impl Surroundings for QuickBackend {
    fn now(&self) -> Timestamp {
        Timestamp(1_750_000_000_000_000_000)
    }
}

/// Renames of a directory take turns, so each thread change would delay all of them.
#[test]
fn rename_to_known_free_name_runs_inline() {
    let workers = Arc::new(CountingWorkers::default());
    let vfs: Arc<dyn Vfs> =
        Arc::new(MemoryVfs::new(MemoryOptions::default(), Arc::new(QuickBackend)));
    let clock = Clock(Arc::new(|| QuickBackend.now()));
    let cache = Arc::new(CachedVfs::new(vfs, CacheOptions::default(), clock));
    let volume = Arc::new(Volume::cached(cache, VolumeOptions::default()));
    let (files, caller) = (
        Arc::new(Files::new(workers.clone())).for_server(),
        Arc::new(Caller::of(Identity::root())),
    );
    let make = |name: &str| {
        let plan = OpenPlan {
            path: path(name),
            if_missing: IfMissing::Create,
            kind: RequestedKind::File,
            semantics: Semantics::Windows,
            ..OpenPlan::posix(Access::FILE_ALL, ShareMode::ALL)
        };
        files.open(&volume, &caller, plan).now_or_never().unwrap().unwrap().open
    };
    let (file, other) = (make("a"), make("other"));
    let before = workers.0.load(Ordering::Relaxed);
    assert_eq!(files.rename(&file, &path("b"), false).now_or_never(), Some(Ok(())));
    assert_eq!(workers.0.load(Ordering::Relaxed), before, "the name was free");
    files.close(other).now_or_never().unwrap().unwrap();
    assert_eq!(files.rename(&file, &path("other"), true).now_or_never(), Some(Ok(())));
    assert_eq!(
        workers.0.load(Ordering::Relaxed),
        before + 1,
        "the replaced file is freed on a worker"
    );
}

thread_local! {
    static ON_WORKER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs tasks immediately, marked as on a worker.
#[derive(Debug)]
struct MarkedWorkers;

impl Workers for MarkedWorkers {
    fn run(&self, _: &CallHolder, run: Box<dyn FnOnce() + Send>) {
        ON_WORKER.set(true);
        run();
        ON_WORKER.set(false);
    }

    fn sleep(&self, time: Duration) -> futures_util::future::BoxFuture<'static, ()> {
        Inline.sleep(time)
    }
}

/// Backend calls of an SMB user who creates, opens, looks up, renames and removes files, where
/// every call is slow.
fn calls_of_a_user(is_cached: bool) -> Vec<(&'static str, u64)> {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let pause = move || {
        assert!(ON_WORKER.get(), "a connection waits, and all its requests");
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let slow: Arc<dyn Surroundings> = Arc::new(QuickBackend);
    let inner: Arc<dyn Vfs> = Arc::new(MemoryVfs::new(MemoryOptions::default(), slow));
    let how = vfs::CreateHow::plain(vfs::FileKind::Directory, 0o777);
    let case = vfs::Case::Sensitive;
    inner.create(Actor::SUPERUSER, &path("Dir"), case, how).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(vfs::DelayedVfs::new(inner, Arc::new(pause)));
    let volume = Arc::new(if is_cached {
        // Later than all changes.
        let clock = Clock(Arc::new(|| Timestamp(QuickBackend.now().0 + 1_000_000_000)));
        let cache = CachedVfs::new(vfs, CacheOptions::default(), clock);
        Volume::cached(Arc::new(cache), VolumeOptions::default())
    } else {
        Volume::new(vfs, VolumeOptions::default())
    });
    let files = Arc::new(Files::new(Arc::new(MarkedWorkers))).for_server();
    let who = Identity { uid: 1000, gid: 1000, ..Identity::root() };
    let caller = Arc::new(Caller::of(who));
    let open = |at: &str, desired, if_missing, delete_on_close| {
        let plan = OpenPlan {
            path: path(at),
            if_missing,
            kind: RequestedKind::File,
            semantics: Semantics::Windows,
            delete_on_close,
            ..OpenPlan::posix(desired, ShareMode::ALL)
        };
        let opened = files.open(&volume, &caller, plan).now_or_never().unwrap();
        opened.map(|opened| opened.open)
    };
    let close = |open| files.close(open).now_or_never().unwrap().unwrap();
    let (make, fail) = (IfMissing::Create, IfMissing::Fail);
    let round = |number: u64| {
        let mut costs = Vec::new();
        let mut cost = |what, call: &dyn Fn()| {
            let before = calls.load(Ordering::Relaxed);
            call();
            costs.push((what, calls.load(Ordering::Relaxed) - before));
        };
        let (one, other) = (format!("Dir/File{number}"), format!("Dir/Other{number}"));
        cost("create", &|| close(open(&one, Access::FILE_ALL, make, false).unwrap()));
        cost("open", &|| close(open("Dir/File0", Access::READ_DATA, fail, false).unwrap()));
        cost("write", &|| close(open("Dir/File0", Access::WRITE_DATA, fail, false).unwrap()));
        cost("miss", &|| assert!(open(&other, Access::READ_DATA, fail, false).is_err()));
        cost("delete", &|| close(open(&one, Access::DELETE, fail, true).unwrap()));
        cost("create again", &|| close(open(&one, Access::FILE_ALL, make, false).unwrap()));
        cost("marked and deleted", &|| {
            let open = open(&one, Access::DELETE, fail, false).unwrap();
            files.mark_deleted(&open, true, false).now_or_never().unwrap().unwrap();
            close(open);
        });
        costs
    };
    let first = open("Dir/File0", Access::FILE_ALL, make, false).unwrap();
    close(first);
    // Repeated lookups are cached.
    let _ = (1..4).map(round).collect::<Vec<_>>();
    round(4)
}

#[test]
fn only_workers_wait_for_slow_backend() {
    let (on, off) = (calls_of_a_user(true), calls_of_a_user(false));
    for ((what, on), (_, off)) in on.into_iter().zip(off) {
        println!("{what}: {on} calls, without {off}");
        assert!(3 * on <= off, "{what}: {on} calls, without {off}");
    }
}

/// Drops every task.
struct FullWorkers;

impl Workers for FullWorkers {
    fn run(&self, _: &CallHolder, task: Box<dyn FnOnce() + Send>) {
        drop(task);
    }

    fn sleep(&self, _: Duration) -> futures_util::future::BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn buffer_survives_read_dropped_by_workers() {
    let f = fixture(false);
    f.make("file");
    let plan =
        || OpenPlan { path: path("file"), ..OpenPlan::posix(Access::READ_DATA, ShareMode::ALL) };
    let open = f.files.open(&f.volume, &f.caller, plan()).now_or_never().unwrap().unwrap().open;
    let mut into = b"head".to_vec();
    let read = Arc::new(Files::new(Arc::new(FullWorkers)))
        .for_server()
        .read(&open, 0, 100, &mut into)
        .now_or_never()
        .unwrap();
    assert_eq!((read, into), (Err(FsError::TooMany), b"head".to_vec()));
}
