//! Speed of name operations and opens with and without the cache, in directories of any size, on
//! the disk of the temporary folder. It prints results and asserts only that they are right: `cargo
//! test -p files --test metadata_speed -- --ignored --nocapture`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use files::{
    Access, Caller, Files, IfMissing, Inline, OpenPlan, RequestFiles, RequestedKind, Semantics,
    ShareMode, Volume, VolumeOptions,
};
use futures_util::FutureExt;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use vfs::{Identity, Name, RelPath, Timestamp, Vfs};
use vfs_cache::{CacheOptions, CachedVfs, Clock};
use vfs_local::LocalVfs;

/// Repetitions of one figure, rounds of each, and their longest duration.
const TURNS: usize = 7;
const ROUNDS: usize = 400;
const LONGEST: Duration = Duration::from_millis(600);

struct Fixture {
    files: RequestFiles,
    volume: Arc<Volume>,
    caller: Arc<Caller>,
}

fn fixture(local: &Arc<LocalVfs>, is_cached: bool) -> Fixture {
    let vfs: Arc<dyn Vfs> = local.clone();
    let volume = Arc::new(if is_cached {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let clock = Clock(Arc::new(move || Timestamp(now() as i128)));
        let cache = CachedVfs::new(vfs, CacheOptions::default(), clock);
        Volume::cached(Arc::new(cache), VolumeOptions::default())
    } else {
        Volume::new(vfs, VolumeOptions::default())
    });
    let caller = Arc::new(Caller::of(Identity::root()));
    Fixture { files: Arc::new(Files::new(Arc::new(Inline))).for_server(), volume, caller }
}

/// CPU time of this thread, which shares the CPU.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

fn path(text: &str) -> RelPath {
    text.split('/').map(|part| Name::new(part.as_bytes()).unwrap()).collect()
}

impl Fixture {
    fn open(&self, at: &str, desired: Access, if_missing: IfMissing) -> bool {
        let plan = OpenPlan {
            path: path(at),
            if_missing,
            kind: RequestedKind::File,
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

    /// CPU time of each round, in microseconds.
    fn cost(&self, from: usize, round: &dyn Fn(&Self, usize)) -> f64 {
        let start = cpu_time();
        let mut rounds = 0;
        while rounds < ROUNDS && cpu_time() - start < LONGEST {
            round(self, from + rounds);
            rounds += 1;
        }
        (cpu_time() - start).as_secs_f64() * 1e6 / rounds as f64
    }
}

type Round<'a> = (&'static str, Box<dyn Fn(&Fixture, usize) + 'a>);

fn rounds(directory: &str, count: usize) -> Vec<Round<'_>> {
    let (read, look) = (Access::READ_DATA, Access::READ_ATTRIBUTES);
    let (write, delete) = (Access::WRITE_DATA, Access::DELETE);
    let hot = move |n: usize| format!("{directory}/File{}", n % count.min(100));
    let cold = move |n: usize| format!("{directory}/File{}", (n * 7919) % count);
    let new = move |n: usize| format!("{directory}/New{n}");
    let none = move |n: usize| format!("{directory}/x{n}");
    let fails = IfMissing::Fail;
    let creates = IfMissing::Create;
    vec![
        ("cold open", Box::new(move |f, n| assert!(f.open(&cold(n), read, fails)))),
        ("hot open", Box::new(move |f, n| assert!(f.open(&hot(n), read, fails)))),
        ("hot look", Box::new(move |f, n| assert!(f.open(&hot(n), look, fails)))),
        ("hot write", Box::new(move |f, n| assert!(f.open(&hot(n), write, fails)))),
        ("miss", Box::new(move |f, n| assert!(!f.open(&none(n), look, fails)))),
        ("other case", Box::new(move |f, n| assert!(f.open(&hot(n).to_uppercase(), look, fails)))),
        ("create", Box::new(move |f, n| assert!(f.open(&new(n), Access::FILE_ALL, creates)))),
        // Some are missing: without the cache fewer were created in the same time.
        ("delete", Box::new(move |f, n| assert!(f.open(&new(n), delete, fails) || n > 0))),
    ]
}

/// The minimum of several repetitions, alternately with and without the cache.
fn compare(on: &Fixture, off: &Fixture, round: &dyn Fn(&Fixture, usize)) -> (f64, f64) {
    let mut least = (f64::MAX, f64::MAX);
    for turn in 0..TURNS {
        let from = 2 * turn * ROUNDS;
        least.0 = least.0.min(on.cost(from, round));
        least.1 = least.1.min(off.cost(from + ROUNDS, round));
    }
    least
}

#[test]
#[ignore = "measures for minutes"]
fn metadata_operation_costs() {
    let folder = tempfile::tempdir().unwrap();
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    for count in [100, 10_000, 1_000_000] {
        let directory = format!("D{count}");
        let at = folder.path().join(&directory);
        std::fs::create_dir(&at).unwrap();
        (0..count).for_each(|n| std::fs::write(at.join(format!("File{n}")), b"").unwrap());
        std::thread::sleep(Duration::from_millis(100));
        let (on, off) = (fixture(&local, true), fixture(&local, false));
        let start = Instant::now();
        let missing = format!("{directory}/none");
        (0..3).for_each(|_| assert!(!on.open(&missing, Access::READ_DATA, IfMissing::Fail)));
        println!("{count:>8} names were read in {:?}", start.elapsed());
        for (what, round) in rounds(&directory, count) {
            let (on, off) = compare(&on, &off, &*round);
            println!("{count:>8} names, {what:<10}: {on:>9.2} µs with, {off:>11.2} µs without");
        }
    }
}
