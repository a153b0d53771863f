//! How fast names and opens are with the cache and without, in directories of any size,
//! on the disk that the temporary folder is on. Prints; asserts nothing but that the
//! answers are right: `cargo test -p files --test metadata_speed -- --ignored --nocapture`.
#![allow(missing_docs, clippy::unwrap_used)]

use files::{
    Access, Caller, Files, IfExists, IfMissing, OpenPlan, Semantics, Share, Volume, VolumeOptions,
    WishedKind, Workers,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use vfs::{Identity, Name, RelPath, Timestamp, Vfs};
use vfs_cache::{CacheOptions, CachedVfs, Clock};
use vfs_local::LocalVfs;

/// Rounds of one figure, and the longest that they may take.
const ROUNDS: usize = 4_000;
const LONGEST: Duration = Duration::from_secs(5);

struct Inline;

impl Workers for Inline {
    fn run(&self, task: Box<dyn FnOnce() + Send>) {
        task();
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

struct Fixture {
    files: Files,
    volume: Arc<Volume>,
    caller: Arc<Caller>,
}

fn fixture(local: &Arc<LocalVfs>, is_cached: bool) -> Fixture {
    let mut vfs: Arc<dyn Vfs> = local.clone();
    if is_cached {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let clock = Clock(Arc::new(move || Timestamp(now() as i128)));
        vfs = Arc::new(CachedVfs::new(vfs, CacheOptions::default(), clock));
    }
    let volume = Arc::new(Volume { vfs, options: VolumeOptions::default() });
    let caller = Arc::new(Caller::of(Identity::root()));
    Fixture { files: Files::new(Arc::new(Inline)), volume, caller }
}

fn path(text: &str) -> RelPath {
    text.split('/').map(|part| Name::new(part.as_bytes()).unwrap()).collect()
}

impl Fixture {
    fn open(&self, at: &str, desired: Access, if_missing: IfMissing) -> bool {
        let plan = OpenPlan {
            path: path(at),
            stream: None,
            desired,
            share: Share::ALL,
            if_exists: IfExists::Open,
            if_missing,
            kind: WishedKind::File,
            delete_on_close: false,
            dos_bits: 0,
            allocation_bytes: None,
            descriptor: None,
            xattrs: Vec::new(),
            no_follow: false,
            uncompressed: false,
            caching: None,
            semantics: Semantics::Windows,
            mode: None,
        };
        let opened = self.files.open(&self.volume, &self.caller, plan).now_or_never().unwrap();
        let Ok(opened) = opened else { return false };
        if desired == Access::DELETE {
            self.files.set_delete(&opened.open, true, false).unwrap();
        }
        self.files.close(opened.open).now_or_never().unwrap().unwrap();
        true
    }

    /// Microseconds of each round.
    fn cost(&self, round: impl Fn(usize)) -> f64 {
        let start = Instant::now();
        let mut rounds = 0;
        while rounds < ROUNDS && start.elapsed() < LONGEST {
            round(rounds);
            rounds += 1;
        }
        start.elapsed().as_secs_f64() * 1e6 / rounds as f64
    }

    fn costs(&self, directory: &str, count: usize) -> Vec<(&'static str, f64)> {
        let (read, look) = (Access::READ_DATA, Access::READ_ATTRIBUTES);
        let hot = |n: usize| format!("{directory}/File{}", n % count.min(500));
        let new = |n: usize| format!("{directory}/New{n}");
        let must = |done: bool| assert!(done);
        assert!(!self.open(&format!("{directory}/none"), look, IfMissing::Fail));
        let cold = |n: usize| format!("{directory}/File{}", (n * 7919) % count);
        vec![
            ("cold open", self.cost(|n| must(self.open(&cold(n), read, IfMissing::Fail)))),
            ("hot open", self.cost(|n| must(self.open(&hot(n), read, IfMissing::Fail)))),
            ("hot look", self.cost(|n| must(self.open(&hot(n), look, IfMissing::Fail)))),
            (
                "hot write",
                self.cost(|n| must(self.open(&hot(n), Access::WRITE_DATA, IfMissing::Fail))),
            ),
            (
                "miss",
                self.cost(|n| {
                    must(!self.open(&format!("{directory}/x{n}"), look, IfMissing::Fail))
                }),
            ),
            (
                "other case",
                self.cost(|n| must(self.open(&hot(n).to_uppercase(), look, IfMissing::Fail))),
            ),
            (
                "create",
                self.cost(|n| must(self.open(&new(n), Access::FILE_ALL, IfMissing::Create))),
            ),
            (
                "delete",
                self.cost(|n| {
                    let _ = self.open(&new(n), Access::DELETE, IfMissing::Fail);
                }),
            ),
        ]
    }
}

#[test]
#[ignore = "measures for minutes"]
fn what_each_operation_costs() {
    let folder = tempfile::tempdir().unwrap();
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    for count in [100, 10_000, 1_000_000] {
        let directory = format!("D{count}");
        std::fs::create_dir(folder.path().join(&directory)).unwrap();
        for number in 0..count {
            std::fs::write(folder.path().join(&directory).join(format!("File{number}")), b"")
                .unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
        let (on, off) = (fixture(&local, true), fixture(&local, false));
        // Once for the system's own caches.
        off.cost(|n| {
            drop(off.open(&format!("{directory}/File{n}"), Access::READ_DATA, IfMissing::Fail))
        });
        let (off, on) = (off.costs(&directory, count), on.costs(&directory, count));
        for ((what, off), (_, on)) in off.into_iter().zip(on) {
            println!("{count:>8} names, {what:<10}: {on:>9.2} µs with, {off:>11.2} µs without");
        }
    }
}
