//! The file layer's use of the sync queue: late and missing threads.

use super::*;
use crate::{
    Access, CallHolder, Caller, Files, IfMissing, Inline, OpenPlan, RequestContext, ShareMode,
    Volume, VolumeOptions,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs::{Identity, Name, Vfs};

type DeferredTask = Box<dyn FnOnce() + Send>;

/// Defers tasks until they are run or dropped. Pauses end at once and are counted.
#[derive(Clone, Default)]
struct DeferredTasks(Arc<Mutex<Vec<DeferredTask>>>, Arc<Mutex<Vec<CallHolder>>>, Arc<AtomicU32>);

impl crate::Workers for DeferredTasks {
    fn run(&self, holder: &CallHolder, task: DeferredTask) {
        self.0.lock().push(task);
        self.1.lock().push(holder.clone());
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        self.2.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

impl DeferredTasks {
    fn take(&self) -> Vec<DeferredTask> {
        std::mem::take(&mut self.0.lock())
    }
}

fn object(inode: u64) -> SyncKey {
    SyncKey { file: FileKey { device: 1, inode }, writer: None }
}

struct SyncBench {
    later: DeferredTasks,
    files: RequestFiles,
    syncs: Arc<Mutex<Vec<u64>>>,
}

impl SyncBench {
    fn new() -> Self {
        let later = DeferredTasks::default();
        let files = Arc::new(Files::new(Arc::new(later.clone())));
        let files = files.for_request(&RequestContext::SERVER, CallHolder::Server);
        Self { later, files, syncs: Arc::default() }
    }

    /// Waits for objects by number, whose syncs have these results.
    fn wait(&self, objects: &[(u64, Result<()>)]) -> BoxFuture<'static, Result<()>> {
        let calls: Vec<(SyncKey, SyncCall)> = objects
            .iter()
            .map(|&(inode, result)| {
                let syncs = self.syncs.clone();
                let call: SyncCall = Box::new(move || {
                    syncs.lock().push(inode);
                    result
                });
                (object(inode), call)
            })
            .collect();
        let files = self.files.clone();
        Box::pin(async move { files.sync_all(calls.into_iter()).await })
    }
}

#[test]
fn requests_on_one_object_share_sync_without_threads() {
    let bench = SyncBench::new();
    let mut one = bench.wait(&[(7, Ok(())), (7, Ok(()))]);
    let mut two = bench.wait(&[(7, Ok(()))]);
    assert_eq!((one.as_mut().now_or_never(), two.as_mut().now_or_never()), (None, None));
    let tasks = bench.later.take();
    assert_eq!(tasks.len(), 1);
    tasks.into_iter().for_each(|task| task());
    assert_eq!((one.now_or_never(), two.now_or_never()), (Some(Ok(())), Some(Ok(()))));
    assert_eq!(*bench.syncs.lock(), [7]);
}

#[test]
fn failed_sync_is_reported_to_all_waiters_and_counted() {
    let bench = SyncBench::new();
    let before = bench.files.flushes_failed(FileKey { device: 1, inode: 7 });
    let mut one = bench.wait(&[(7, Err(FsError::Io)), (8, Ok(()))]);
    let mut two = bench.wait(&[(7, Err(FsError::Io))]);
    let mut three = bench.wait(&[(8, Ok(()))]);
    assert_eq!(one.as_mut().now_or_never(), None);
    assert_eq!(two.as_mut().now_or_never(), None);
    assert_eq!(three.as_mut().now_or_never(), None);
    bench.later.take().into_iter().for_each(|task| task());
    assert_eq!(one.now_or_never(), Some(Err(FsError::Io)));
    assert_eq!(two.now_or_never(), Some(Err(FsError::Io)));
    assert_eq!(three.now_or_never(), Some(Ok(())));
    let after = bench.files.flushes_failed(FileKey { device: 1, inode: 7 });
    assert!(after > before, "a write verifier is another one now");
}

/// A sync that waits for a local lease is retried, and the other descriptor has reported its loss
/// by then.
#[test]
fn failed_sync_is_reported_although_another_is_retried() {
    let bench = SyncBench::new();
    for results in [[Err(FsError::WouldBlock), Err(FsError::Io)], [Err(FsError::Io), Ok(())]] {
        let mut wait = bench.wait(&[(7, results[0]), (8, results[1])]);
        assert_eq!(wait.as_mut().now_or_never(), None);
        bench.later.take().into_iter().for_each(|task| task());
        assert_eq!(wait.now_or_never(), Some(Err(FsError::Io)));
    }
}

#[test]
fn dropped_sync_task_fails_its_waiters() {
    let bench = SyncBench::new();
    let mut one = bench.wait(&[(7, Ok(()))]);
    assert_eq!(one.as_mut().now_or_never(), None);
    drop(bench.later.take());
    assert_eq!(one.now_or_never(), Some(Err(FsError::TooMany)));
    // The next request gets its thread.
    let mut two = bench.wait(&[(7, Ok(()))]);
    assert_eq!(two.as_mut().now_or_never(), None);
    bench.later.take().into_iter().for_each(|task| task());
    assert_eq!(two.now_or_never(), Some(Ok(())));
}

#[test]
fn sync_is_charged_to_the_file_system_and_to_no_client() {
    let mut bench = SyncBench::new();
    let client = CallHolder::Client(limits::LedgerHolder::site([192, 0, 2, 1].into()));
    bench.files.holder = client;
    let mut one = bench.wait(&[(7, Ok(()))]);
    assert_eq!(one.as_mut().now_or_never(), None);
    assert_eq!(*bench.later.1.lock(), [CallHolder::Syncs { device: 1 }]);
    bench.later.take().into_iter().for_each(|task| task());
    assert_eq!(one.now_or_never(), Some(Ok(())));
}

#[test]
fn sync_that_panics_fails_its_waiters_and_no_others() {
    let bench = SyncBench::new();
    let key = object(7);
    let panics: SyncCall = Box::new(|| panic!("a file system's fault"));
    let files = bench.files.clone();
    let mut one = Box::pin(async move { files.sync_all([(key, panics)].into_iter()).await });
    assert_eq!(one.as_mut().now_or_never(), None);
    let mut two = bench.wait(&[(8, Ok(()))]);
    assert_eq!(two.as_mut().now_or_never(), None);
    let mut tasks = bench.later.take();
    assert_eq!(tasks.len(), 2);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(tasks.remove(0)));
    assert!(panicked.is_err());
    assert_eq!(one.now_or_never(), Some(Err(FsError::TooMany)));
    tasks.into_iter().for_each(|task| task());
    assert_eq!(two.now_or_never(), Some(Ok(())));
}

#[test]
fn empty_set_is_stable_at_once() {
    let bench = SyncBench::new();
    assert_eq!(bench.files.make_stable(UnstableObjects::default()).now_or_never(), Some(Ok(())));
    assert!(bench.later.take().is_empty());
}

/// Threads waiting for one journal commit; with four threads it would commit once for every four.
#[test]
fn client_syncs_32_objects_concurrently() {
    let bench = SyncBench::new();
    let objects: Vec<(u64, Result<()>)> = (0..100).map(|number| (number, Ok(()))).collect();
    let mut wait = bench.wait(&objects);
    assert!(wait.as_mut().now_or_never().is_none());
    let tasks = bench.later.take();
    assert_eq!(tasks.len(), 32);
    tasks.into_iter().for_each(|task| task());
    assert_eq!(wait.now_or_never(), Some(Ok(())));
    assert_eq!(bench.syncs.lock().len(), 100);
}

fn opened(files: &RequestFiles, volume: &Arc<Volume>) -> Arc<OpenFile> {
    let plan = OpenPlan {
        path: [Name::new(*b"f").unwrap()].into_iter().collect(),
        if_missing: IfMissing::Create,
        ..OpenPlan::posix(Access::READ_DATA | Access::WRITE_DATA, ShareMode::ALL)
    };
    let caller = Arc::new(Caller::of(Identity::root()));
    let opening = files.open(volume, &caller, plan);
    opening.now_or_never().expect("all is in memory").unwrap().open
}

/// Linux reports lost data once to each descriptor, so a flush by one does not cover another's
/// writes.
#[test]
fn flushes_of_two_opens_of_one_file_sync_by_each() {
    let bench = SyncBench::new();
    let vfs: Arc<dyn Vfs> =
        Arc::new(MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default())));
    let volume = Arc::new(Volume::new(vfs, VolumeOptions::default()));
    let opener = Arc::new(Files::new(Arc::new(Inline))).for_server();
    let opens = [opened(&opener, &volume), opened(&opener, &volume)];
    let mut waits: Vec<_> = [&opens[0], &opens[0], &opens[1]]
        .into_iter()
        .map(|open| Box::pin(bench.files.flush(open)))
        .collect();
    for wait in &mut waits {
        assert_eq!(wait.as_mut().now_or_never(), None, "it waits, and holds no thread");
    }
    let tasks = bench.later.take();
    assert_eq!(tasks.len(), 2);
    let is_sync = |holder: &CallHolder| matches!(holder, CallHolder::Syncs { .. });
    assert!(bench.later.1.lock().iter().all(is_sync));
    tasks.into_iter().for_each(|task| task());
    for wait in waits {
        assert_eq!(wait.now_or_never(), Some(Ok(())));
    }
}

#[test]
fn sync_of_locally_leased_file_waits_without_thread() {
    let bench = SyncBench::new();
    let files = bench.files.clone();
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let mut wait: BoxFuture<'static, Result<()>> = Box::pin(async move {
        let sync = || {
            let tries = counted.clone();
            let call: SyncCall = Box::new(move || match tries.fetch_add(1, Ordering::Relaxed) {
                0..3 => Err(FsError::WouldBlock),
                _ => Ok(()),
            });
            files.sync_all([(object(7), call)].into_iter())
        };
        files.after_local_leases(sync).await
    });
    for done in 0..4 {
        assert_eq!(wait.as_mut().now_or_never(), None);
        assert_eq!(bench.later.2.load(Ordering::Relaxed), done, "it pauses after each refusal");
        let tasks = bench.later.take();
        assert_eq!(tasks.len(), 1, "no thread waits for the lease");
        tasks.into_iter().for_each(|task| task());
    }
    assert_eq!(wait.now_or_never(), Some(Ok(())));
    assert_eq!(tries.load(Ordering::Relaxed), 4);
}

#[test]
fn sync_fails_after_retries_if_local_lease_stays() {
    let bench = SyncBench::new();
    let refused = || std::future::ready(Err(FsError::WouldBlock));
    let result = bench.files.after_local_leases(refused).now_or_never();
    assert_eq!(result, Some(Err(FsError::WouldBlock)));
    assert_eq!(bench.later.2.load(Ordering::Relaxed), LOCAL_LEASE_TRIES);
}
