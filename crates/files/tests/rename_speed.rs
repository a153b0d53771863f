//! Renames per second and CPU time of each, by threads in directories of their own on two shares.
//! It prints results: `TMPDIR=/dev/shm cargo test -p files --test rename_speed -- --ignored
//! --nocapture`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use files::{
    Access, Caller, Files, IfMissing, Inline, OpenFile, OpenPlan, RequestFiles, RequestedKind,
    Semantics, ShareMode, Volume, VolumeOptions,
};
use rustix::time::{ClockId, clock_gettime};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use vfs::{Identity, Name, RelPath, Timestamp};
use vfs_cache::{CacheOptions, CachedVfs, Clock};
use vfs_local::LocalVfs;

/// Repetitions of one figure, and the duration of each.
const TURNS: usize = 5;
const LONGEST: Duration = Duration::from_millis(1500);

/// Renames in a share by the thread of a number; returns how many.
type RenameLoop = fn(&SpeedShare, usize) -> u64;

struct UnparkWaker(Thread);

impl Wake for UnparkWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a request on this thread, which sleeps while it waits.
fn run<T>(request: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(UnparkWaker(std::thread::current())));
    let (mut request, mut context) = (pin!(request), Context::from_waker(&waker));
    loop {
        match request.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn path(text: &str) -> RelPath {
    text.split('/').map(name).collect()
}

struct SpeedShare {
    files: RequestFiles,
    volume: Arc<Volume>,
    caller: Arc<Caller>,
    _folder: tempfile::TempDir,
}

impl SpeedShare {
    fn new(files: &Arc<Files>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let clock = Clock(Arc::new(move || Timestamp(now() as i128)));
        let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
        let vfs = Arc::new(CachedVfs::new(local, CacheOptions::default(), clock));
        let volume = Arc::new(Volume::cached(vfs, VolumeOptions::default()));
        let caller = Arc::new(Caller::of(Identity::root()));
        Self { files: files.for_server(), volume, caller, _folder: folder }
    }

    fn open(&self, at: &str, kind: RequestedKind) -> Arc<OpenFile> {
        let plan = OpenPlan {
            path: path(at),
            if_missing: IfMissing::Create,
            kind,
            semantics: Semantics::Windows,
            ..OpenPlan::posix(Access::READ_DATA | Access::DELETE, ShareMode::ALL)
        };
        run(self.files.open(&self.volume, &self.caller, plan)).unwrap().open
    }

    /// Renames an open file, as SMB clients do, until the time has passed. Returns the number.
    fn rename_open(&self, number: usize) -> u64 {
        let directory = format!("d{number}");
        run(self.files.close(self.open(&directory, RequestedKind::Directory))).unwrap();
        let open = self.open(&format!("{directory}/x"), RequestedKind::File);
        let names = ["y", "x"].map(|end| path(&format!("{directory}/{end}")));
        let (begun, mut count) = (Instant::now(), 0);
        while begun.elapsed() < LONGEST {
            for to in &names {
                run(self.files.rename(&open, to, false)).unwrap();
                count += 1;
            }
        }
        count
    }

    /// Renames entries of a directory, as NFS clients do, until the time has passed.
    fn rename_entry(&self, number: usize) -> u64 {
        let directory = format!("d{number}");
        run(self.files.close(self.open(&directory, RequestedKind::Directory))).unwrap();
        run(self.files.close(self.open(&format!("{directory}/x"), RequestedKind::File))).unwrap();
        let root = run(self.files.root_object(&self.volume)).unwrap();
        let within = run(self.files.lookup(&self.caller, &root, &name(&directory))).unwrap();
        let names = [name("x"), name("y")];
        let (begun, mut count) = (Instant::now(), 0);
        while begun.elapsed() < LONGEST {
            for (from, to) in [(0, 1), (1, 0)] {
                let (from, to) = ((&within, &names[from]), (&within, &names[to]));
                run(self.files.rename_object(&self.caller, from, to)).unwrap();
                count += 1;
            }
        }
        count
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Renames per second and CPU time of each in microseconds.
fn measure(threads: usize, rename: RenameLoop) -> (f64, f64) {
    let files = Arc::new(Files::new(Arc::new(Inline)));
    let shares = [SpeedShare::new(&files), SpeedShare::new(&files)];
    let (count, cpu, begun) = (AtomicU64::new(0), cpu_time(), Instant::now());
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (count, share) = (&count, &shares[number % 2]);
            scope.spawn(move || count.fetch_add(rename(share, number), Ordering::Relaxed));
        }
    });
    let count = count.into_inner() as f64;
    let spent = (cpu_time() - cpu).as_secs_f64() * 1e6 / count;
    (count / begun.elapsed().as_secs_f64(), spent)
}

#[test]
#[ignore = "measures for a minute"]
fn rename_throughput_of_two_shares() {
    let kinds: [(&str, RenameLoop); 2] =
        [("open file", SpeedShare::rename_open), ("entry", SpeedShare::rename_entry)];
    for (kind, rename) in kinds {
        for threads in [1, 2, 8] {
            let runs: Vec<_> = (0..TURNS).map(|_| measure(threads, rename)).collect();
            let most = runs.iter().map(|run| run.0).fold(0.0, f64::max);
            let least = runs.iter().map(|run| run.1).fold(f64::MAX, f64::min);
            println!(
                "{kind:>9}, {threads} threads: {most:>8.0} renames/s, {least:>6.2} µs of CPU each"
            );
        }
    }
}
