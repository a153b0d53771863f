//! Races with other callers, and cancelled calls.

use crate::harness::*;
use files::{
    CallHolder, ClientProtocol, IfExists, IfMissing, OpenAction, OpenFile, OpenPlan,
    RequestContext, ShareMode, VolumeOptions, Workers,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vfs::{ArrivalOrder, FsError, Identity, Replace};

fn open_or_make(at: &str) -> OpenPlan {
    OpenPlan { if_exists: IfExists::Open, if_missing: IfMissing::Create, ..plan(at, ALL) }
}

#[test]
fn late_creator_opens_existing_file_or_fails() {
    let served = serve();
    served.hook_once(HookPoint::BeforeCreate, |vfs| make_beneath(vfs, "a"));
    let opened = served.try_open(open_or_make("a"));
    // Created by another user: the existing file decides the access.
    assert!(matches!(opened, Ok(o) if o.action == OpenAction::Opened) || served.is_root);
    served.hook_once(HookPoint::BeforeCreate, |vfs| make_beneath(vfs, "b"));
    assert_eq!(served.refusal(new_file("b")), FsError::AlreadyExists);
    served.assert_nothing_held();
}

#[test]
fn open_gives_up_on_endless_create_remove_races() {
    let served = serve();
    let tries = Arc::new(AtomicU32::new(0));
    let count = tries.clone();
    served.hook(move |vfs, at, _| {
        if at == HookPoint::BeforeCreate {
            count.fetch_add(1, Ordering::Relaxed);
            make_beneath(vfs, "other");
            remove_beneath(vfs, "other");
            return Err(FsError::AlreadyExists);
        }
        Ok(())
    });
    assert_eq!(served.refusal(open_or_make("file")), FsError::ShareViolation);
    assert!((2..=16).contains(&tries.load(Ordering::Relaxed)));
    served.assert_nothing_held();
}

#[test]
fn file_removed_between_lookups_is_created() {
    let served = serve();
    served.put("file", b"old");
    let opened = served.open("file", READ);
    remove_beneath(&*served.vfs, "file");
    let made = served.try_open(open_or_make("file")).unwrap();
    assert_eq!(made.action, OpenAction::Created);
    assert_ne!(made.open.key(), opened.key());
    assert_eq!(served.read(&opened).unwrap(), b"old");
}

#[test]
fn file_replaced_before_entry_is_not_opened_by_creator() {
    let served = serve();
    served.put("other", b"other");
    let mover = served.open("other", DELETE);
    let (files, open) = (served.files.clone(), mover.clone());
    served.hook_once(HookPoint::AfterCreate, move |_| {
        now(files.rename(&open, &path("file"), true)).unwrap();
    });
    let opened = served.try_open(open_or_make("file")).unwrap();
    assert_eq!((opened.action, opened.open.key()), (OpenAction::Opened, mover.key()));
}

#[test]
fn file_renamed_before_entry_is_opened_by_new_name() {
    let served = serve();
    let (files, volume) = (served.files.clone(), served.volume.clone());
    let caller = served.alice.clone();
    served.hook_once(HookPoint::AfterCreate, move |_| {
        let other = now(files.open(&volume, &caller, plan("file", DELETE))).unwrap().open;
        now(files.rename(&other, &path("moved"), false)).unwrap();
        now(files.close(other)).unwrap();
    });
    let made = served.try_open(new_file("file")).unwrap();
    assert_eq!((made.action, made.open.path()), (OpenAction::Created, path("moved")));
    assert!(!served.exists("file"));
}

#[test]
fn file_created_during_rename_by_another_name_is_opened_at_once() {
    let served = serve();
    served.put("other", b"other");
    let (files, volume) = (served.files.clone(), served.volume.clone());
    let caller = served.alice.clone();
    served.hook_once(HookPoint::BeforeRename, move |_| {
        let made = now(files.open(&volume, &caller, new_file("new"))).unwrap();
        assert_eq!(made.action, OpenAction::Created);
        now(files.close(made.open)).unwrap();
    });
    let mover = served.open("other", DELETE);
    now(served.files.rename(&mover, &path("moved"), false)).unwrap();
    assert!(served.exists("new"));
}

#[test]
fn file_created_during_rename_to_its_name_is_opened_as_new() {
    let served = serve();
    served.put("other", b"other");
    let made = Arc::new(Mutex::new(None));
    let (files, volume) = (served.files.clone(), served.volume.clone());
    let (caller, slot) = (served.alice.clone(), made.clone());
    served.hook_once(HookPoint::BeforeRename, move |_| {
        let opening = async move { files.open(&volume, &caller, new_file("moved")).await };
        let mut opening = Box::pin(opening);
        assert!(opening.as_mut().now_or_never().is_none(), "it waits for its turn");
        *slot.lock().unwrap() = Some(opening);
    });
    let mover = served.open("other", DELETE);
    let moved = now(served.files.rename(&mover, &path("moved"), false));
    assert_eq!(moved, Err(FsError::AlreadyExists));
    let opening = made.lock().unwrap().take().unwrap();
    assert_eq!(now(opening).unwrap().action, OpenAction::Created);
}

#[test]
fn open_during_rename_gets_file_of_its_path() {
    let served = serve();
    served.put("file", b"old");
    let mover = served.open("file", DELETE);
    let (files, open) = (served.files.clone(), mover.clone());
    served.hook_once(HookPoint::AfterOpen, move |vfs| {
        now(files.rename(&open, &path("moved"), false)).unwrap();
        make_beneath(vfs, "file");
    });
    let opened = served.try_open(plan("file", LOOK)).unwrap();
    served.unhook();
    assert_ne!(opened.open.key(), mover.key());
    assert_eq!(opened.open.path(), path("file"));
    assert_eq!(mover.path(), path("moved"));
}

#[test]
fn retried_open_deletes_nothing_before_close() {
    let served = serve();
    served.put("file", b"data");
    served.put("other", b"");
    let (files, open) = (served.files.clone(), served.open("other", DELETE));
    served.hook_once(HookPoint::AfterOpen, move |_| {
        now(files.rename(&open, &path("moved"), false)).unwrap();
    });
    let delete_on_close = OpenPlan { delete_on_close: true, ..plan("file", DELETE) };
    let opened = served.try_open(delete_on_close).unwrap().open;
    assert!(served.exists("file") && served.exists("moved"));
    served.close(opened);
    assert!(!served.exists("file"));
}

#[test]
fn overwrite_during_rename_truncates_its_path_only() {
    let served = serve();
    served.put("file", b"keep");
    let mover = served.open("file", DELETE);
    let (files, open) = (served.files.clone(), mover.clone());
    served.hook_once(HookPoint::AfterOpen, move |vfs| {
        now(files.rename(&open, &path("moved"), false)).unwrap();
        make_beneath(vfs, "file");
    });
    let overwrite = OpenPlan { if_exists: IfExists::Overwrite, ..plan("file", LOOK) };
    let opened = served.try_open(overwrite);
    // As another user it may not be overwritten, nor may the moved one.
    assert!(opened.is_ok() || !served.is_root);
    assert_eq!(served.get("moved").unwrap(), b"keep");
}

#[test]
fn locally_renamed_file_is_not_confused_at_delete() {
    let served = serve();
    served.put("victim", b"keep");
    let made =
        served.try_open(OpenPlan { delete_on_close: true, ..new_file("file") }).unwrap().open;
    let root = Identity::root();
    vfs::Vfs::rename(&*served.vfs, root.actor(), &path("file"), &path("elsewhere"), Replace::Never)
        .unwrap();
    vfs::Vfs::rename(&*served.vfs, root.actor(), &path("victim"), &path("file"), Replace::Never)
        .unwrap();
    served.close(made);
    assert_eq!(served.get("file").unwrap(), b"keep");
}

#[test]
fn cancelled_open_leaves_no_grant() {
    let later = Arc::new(DeferringWorkers::default());
    let served = serve_with(VolumeOptions::default(), later.clone());
    let mut opening = Box::pin(served.files.open(&served.volume, &served.alice, new_file("file")));
    let waker = futures_util::task::noop_waker();
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(opening.as_mut().poll(&mut cx).is_pending());
    drop(opening);
    for task in later.0.lock().unwrap().drain(..) {
        task();
    }
    assert!(served.exists("file"), "it was created all the same");
    served.assert_nothing_held();
}

#[test]
fn workers_that_drop_a_task_fail_the_call() {
    let later = Arc::new(DeferringWorkers::default());
    let served = serve_with(VolumeOptions::default(), later.clone());
    let mut opening = Box::pin(served.files.open(&served.volume, &served.alice, new_file("file")));
    let waker = futures_util::task::noop_waker();
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(opening.as_mut().poll(&mut cx).is_pending());
    later.0.lock().unwrap().clear();
    let std::task::Poll::Ready(result) = opening.as_mut().poll(&mut cx) else {
        panic!("the task was dropped")
    };
    assert_eq!(result.unwrap_err(), FsError::TooMany);
}

/// Runs deferred tasks until the work is done; returns the number of tasks.
fn finish<T>(later: &DeferringWorkers, work: impl Future<Output = T>) -> (T, usize) {
    let (mut work, mut turns) = (Box::pin(work), 0);
    loop {
        if let Some(result) = work.as_mut().now_or_never() {
            return (result, turns);
        }
        let mut tasks = std::mem::take(&mut *later.0.lock().unwrap());
        assert_eq!(tasks.len(), 1, "one turn after the other");
        tasks.remove(0)();
        turns += 1;
    }
}

#[test]
fn write_to_a_stream_waits_on_a_worker() {
    let later = Arc::new(DeferringWorkers::default());
    let served = serve_with(VolumeOptions::default(), later.clone());
    if !served.volume.has_streams() {
        return;
    }
    let stream = Some(vfs::StreamName::new(*b"s").unwrap());
    let how = OpenPlan { stream, ..new_file("file") };
    let opening = served.files.open(&served.volume, &served.alice, how);
    let open = finish(&later, opening).0.unwrap().open;
    // Too long for an attribute: it goes into a file, which is synced.
    let data = vec![1; 300_000];
    let (written, turns) = finish(&later, served.files.write_waiting(&open, 0, &data));
    assert_eq!((written, turns), (Ok(()), 1));
    let mut seen = Vec::new();
    finish(&later, served.files.read(&open, 0, 1 << 20, &mut seen)).0.unwrap();
    assert!(seen == data);
    finish(&later, served.files.close(open)).0.unwrap();
}

#[test]
fn long_copy_yields_between_worker_calls() {
    const MIB: u64 = 1 << 20;
    let later = Arc::new(DeferringWorkers::default());
    let served = serve_with(VolumeOptions::default(), later.clone());
    let data: Vec<u8> = (0..20 * MIB).map(|at| (at / 4096) as u8).collect();
    for (name, data) in [("from", &data[..]), ("to", b"")] {
        make_beneath(&*served.vfs, name);
        std::fs::write(served.dir.path().join(name), data).unwrap();
    }
    let open = |name, rights| {
        let opening = served.files.open(&served.volume, &served.alice, plan(name, rights));
        finish(&later, opening).0.unwrap().open
    };
    let (from, to) = (open("from", READ), open("to", READ | WRITE));
    let copy = |source: &Arc<OpenFile>, target: &Arc<OpenFile>, offset, length| {
        let by = target.caller();
        finish(&later, served.files.copy_range(by, (source, 0), (target, offset), length))
    };
    assert_eq!(copy(&from, &to, 0, 20 * MIB), (Ok(()), 3));
    assert!(std::fs::read(served.dir.path().join("to")).unwrap() == data);
    assert_eq!(copy(&to, &to, 8 * MIB, 12 * MIB), (Err(FsError::InvalidParameter), 0));
    for open in [from, to] {
        finish(&later, served.files.close(open)).0.unwrap();
    }
    served.assert_nothing_held();
}

/// Defers the calls of one holder and runs all others at once.
struct DelayedHolder(CallHolder, DeferringWorkers);

impl Workers for DelayedHolder {
    fn run(&self, holder: &CallHolder, task: Box<dyn FnOnce() + Send>) {
        if *holder == self.0 { self.1.run(holder, task) } else { task() }
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.1.sleep(time)
    }
}

#[test]
fn name_change_does_not_queue_behind_own_holder() {
    let holder = CallHolder::Client(HOLDER.clone());
    let workers = Arc::new(DelayedHolder(holder.clone(), DeferringWorkers::default()));
    let served = serve_with(VolumeOptions::default(), workers.clone());
    let context = RequestContext::new(ClientProtocol::Smb, [1; 16], None, ArrivalOrder::next());
    let files = served.files.for_request(&context, holder);
    served.put_directory("directory");
    for name in ["file", "empty", "large"] {
        served.put(name, &vec![0; if name == "large" { 2 << 20 } else { 0 }]);
    }
    let directory = served.open("directory", DELETE);
    let (moved, link) = (path("moved"), path("link"));
    let renamed = files.rename(&directory, &moved, false);
    assert_eq!(renamed.now_or_never(), Some(Ok(())), "others wait for it");
    let file = served.open("file", ALL);
    assert_eq!(files.link(&file, &link, false).now_or_never(), Some(Ok(())));
    let empty = served.open("empty", ALL);
    assert_eq!(files.set_symlink(&empty, b"file".to_vec()).now_or_never(), Some(Ok(())));
    let posix = OpenPlan { delete_on_close: true, ..OpenPlan::posix(DELETE, ShareMode::ALL) };
    let large = served.try_open(OpenPlan { path: path("large"), ..posix }).unwrap().open;
    assert_eq!(files.close(large).now_or_never(), Some(Ok(())));
    assert!(served.exists("moved") && served.exists("link") && !served.exists("large"));
    assert!(workers.1.0.lock().unwrap().is_empty());
}

#[test]
fn ranges_of_sparse_file_are_looked_for_by_a_worker() {
    let holder = CallHolder::Client(HOLDER.clone());
    let workers = Arc::new(DelayedHolder(holder.clone(), DeferringWorkers::default()));
    let served = serve_with(VolumeOptions::default(), workers.clone());
    let context = RequestContext::new(ClientProtocol::Smb, [1; 16], None, ArrivalOrder::next());
    let files = served.files.for_request(&context, holder);
    served.put("file", b"data");
    let open = served.open("file", ALL);
    let whole = Ok((vec![(0, 4)], false));
    assert_eq!(files.allocated_ranges(&open, 0, 9, 1).now_or_never(), Some(whole.clone()));
    served.files.set_sparse(&open, true).unwrap();
    let mut asked = Box::pin(files.allocated_ranges(&open, 0, 9, 1));
    assert_eq!(asked.as_mut().now_or_never(), None, "others' requests go on meanwhile");
    workers.1.0.lock().unwrap().remove(0)();
    assert_eq!(asked.now_or_never(), Some(whole));
}

#[test]
fn refused_open_leaves_no_grant() {
    let served = serve();
    served.put("file", b"data");
    let alone = served
        .try_open(OpenPlan { share: ShareMode::default(), ..plan("file", ALL) })
        .unwrap()
        .open;
    for _ in 0..3 {
        assert_eq!(served.refusal(plan("file", READ)), FsError::ShareViolation);
    }
    served.close(alone);
    served.assert_nothing_held();
    served.close(served.open("file", ALL));
}

/// Many threads create, open, rename and delete a few names. Every open reads its own data, and
/// without a rename its path refers to its file. In the end nothing is open.
#[test]
fn concurrent_name_changes_leave_table_empty() {
    let served = serve();
    served.put_directory("d");
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let served = &served;
            scope.spawn(move || {
                let mut random = thread + 1;
                for _ in 0..300 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    fight(served, random >> 33);
                }
            });
        }
    });
    served.assert_nothing_held();
}

fn fight(served: &ServedVolume, random: u64) {
    let names = ["a", "b", "d/c"];
    let at = names[random as usize % 3];
    let delete_on_close = random >> 4 & 3 == 0;
    let Ok(opened) = served.try_open(OpenPlan { delete_on_close, ..open_or_make(at) }) else {
        return;
    };
    let open = opened.open;
    match random >> 6 & 3 {
        0 => {
            let to = names[(random >> 8) as usize % 3];
            let _ = now(served.files.rename(&open, &path(to), random >> 12 & 1 == 0));
        }
        1 => {
            let _ = served.files.set_delete(&open, true, false);
        }
        _ => {
            served.files.write(open.caller(), &open, 0, &random.to_le_bytes()).unwrap();
        }
    }
    let found = served.look(std::str::from_utf8(open.path().as_bytes()).unwrap(), false);
    if let Some(found) = found
        && !open.is_delete_pending()
    {
        // Another thread may rename it before the lookup; its file is open too then.
        let _ = found.attributes.key == open.key();
    }
    now(served.files.close(open)).unwrap();
}
