//! Renames that wait for each other, and renames that do not: `docs/dev/design/rename.md`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use files::{
    Access, CallHolder, Caller, Files, IfMissing, Inline, Object, OpenFile, OpenPlan, RequestFiles,
    RequestedKind, Semantics, ShareMode, Volume, VolumeOptions, Workers,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::pin::pin;
use std::sync::Arc;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use vfs::memory::{CallOutcome, MemoryCall, MemoryOptions, MemoryVfs, Surroundings};
use vfs::{DelayedVfs, FsError, Identity, Name, RelPath, Timestamp, Vfs};
use vfs_local::LocalVfs;

/// Time after which a request counts as held up by another.
const HELD_UP: Duration = Duration::from_millis(100);
/// Time within which a request must end.
const DEADLINE: Duration = Duration::from_secs(20);

/// Blocks one call of the backend until it is opened.
#[derive(Default)]
struct RenameGate {
    state: Mutex<RenameGateState>,
    changed: Condvar,
}

#[derive(Default, PartialEq)]
enum RenameGateState {
    #[default]
    Open,
    /// The call after so many others blocks.
    Armed(u32),
    Blocking,
}

impl RenameGate {
    fn arm(&self, after: u32) {
        *self.state.lock().unwrap() = RenameGateState::Armed(after);
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        match *state {
            RenameGateState::Armed(0) => *state = RenameGateState::Blocking,
            RenameGateState::Armed(more) => return *state = RenameGateState::Armed(more - 1),
            _ => return,
        }
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| *state == RenameGateState::Blocking));
    }

    fn wait_until_blocking(&self) {
        let waited =
            self.changed.wait_timeout_while(self.state.lock().unwrap(), DEADLINE, |state| {
                matches!(state, RenameGateState::Armed(_))
            });
        assert!(!waited.unwrap().1.timed_out(), "no call came");
    }

    fn open(&self) {
        *self.state.lock().unwrap() = RenameGateState::Open;
        self.changed.notify_all();
    }
}

/// A backend in memory whose renames pass a gate.
struct GatedRenames(Arc<RenameGate>);

impl Surroundings for GatedRenames {
    fn now(&self) -> Timestamp {
        Timestamp(1_750_000_000_000_000_000)
    }

    fn before(&self, call: MemoryCall) -> CallOutcome {
        if call == MemoryCall::Rename {
            self.0.pass();
        }
        CallOutcome::Runs
    }
}

/// A thread for each call.
struct ThreadWorkers;

impl Workers for ThreadWorkers {
    fn run(&self, _: &CallHolder, task: Box<dyn FnOnce() + Send>) {
        std::thread::spawn(task);
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Inline.sleep(time)
    }
}

struct GatedShare {
    files: RequestFiles,
    volume: Arc<Volume>,
    caller: Arc<Caller>,
}

impl GatedShare {
    fn of(files: &Arc<Files>, vfs: Arc<dyn Vfs>) -> Self {
        let volume = Arc::new(Volume::new(vfs, VolumeOptions::default()));
        let caller = Arc::new(Caller::of(Identity::root()));
        Self { files: files.for_server(), volume, caller }
    }

    fn open(&self, at: &str, kind: RequestedKind, semantics: Semantics) -> Arc<OpenFile> {
        let plan = OpenPlan {
            path: path(at),
            if_missing: IfMissing::Create,
            kind,
            semantics,
            ..OpenPlan::posix(Access::READ_DATA | Access::DELETE, ShareMode::ALL)
        };
        run(self.files.open(&self.volume, &self.caller, plan)).unwrap().open
    }

    fn file(&self, at: &str) -> Arc<OpenFile> {
        self.open(at, RequestedKind::File, Semantics::Posix)
    }

    fn directory(&self, at: &str) -> Arc<OpenFile> {
        self.open(at, RequestedKind::Directory, Semantics::Posix)
    }

    /// Creates a directory without an open of it, which would keep new names out.
    fn create_directory(&self, at: &str) {
        run(self.files.close(self.directory(at))).unwrap();
    }

    fn is_directory(&self, at: &str) -> bool {
        let plan = OpenPlan {
            path: path(at),
            kind: RequestedKind::Directory,
            ..OpenPlan::posix(Access::READ_ATTRIBUTES, ShareMode::ALL)
        };
        run(self.files.open(&self.volume, &self.caller, plan)).is_ok()
    }

    /// Opens an existing file.
    fn opening(&self, at: &str) -> impl Future<Output = vfs::Result<Arc<OpenFile>>> + use<> {
        let (files, volume, caller) =
            (self.files.clone(), self.volume.clone(), self.caller.clone());
        let plan =
            OpenPlan { path: path(at), ..OpenPlan::posix(Access::READ_DATA, ShareMode::ALL) };
        async move { Ok(files.open(&volume, &caller, plan).await?.open) }
    }

    fn object(&self, name: &str) -> Object {
        let root = run(self.files.root_object(&self.volume)).unwrap();
        let name = Name::new(name.as_bytes()).unwrap();
        run(self.files.lookup(&self.caller, &root, &name)).unwrap()
    }

    fn renaming_object(
        &self,
        from: (&Object, &'static str),
        to: (&Object, &'static str),
    ) -> BoxFuture<'static, vfs::Result<()>> {
        let (files, caller) = (self.files.clone(), self.caller.clone());
        let [from, to] = [from, to]
            .map(|(directory, name)| (directory.clone(), Name::new(name.as_bytes()).unwrap()));
        Box::pin(
            async move { files.rename_object(&caller, (&from.0, &from.1), (&to.0, &to.1)).await },
        )
    }

    fn renaming(&self, open: &Arc<OpenFile>, to: &str) -> BoxFuture<'static, vfs::Result<()>> {
        let (files, open, to) = (self.files.clone(), open.clone(), path(to));
        Box::pin(async move { files.rename(&open, &to, true).await })
    }
}

fn path(text: &str) -> RelPath {
    text.split('/').map(|part| Name::new(part.as_bytes()).unwrap()).collect()
}

/// Polls a request until it ends or the time has passed.
fn run_for<T>(request: impl Future<Output = T>, limit: Duration) -> Option<T> {
    let (mut request, begun) = (pin!(request), Instant::now());
    loop {
        if let Some(result) = request.as_mut().now_or_never() {
            return Some(result);
        }
        if begun.elapsed() > limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn run<T>(request: impl Future<Output = T>) -> T {
    run_for(request, DEADLINE).expect("the request waits for another")
}

/// A delayed share whose renames pass the gate, and another share.
fn two_shares() -> (Arc<RenameGate>, GatedShare, GatedShare) {
    let gate = Arc::<RenameGate>::default();
    let memory = |serial, gate: Arc<RenameGate>| {
        let options = MemoryOptions { serial, ..MemoryOptions::default() };
        Arc::new(MemoryVfs::new(options, Arc::new(GatedRenames(gate))))
    };
    let files = Arc::new(Files::new(Arc::new(ThreadWorkers)));
    let delayed = DelayedVfs::new(memory(1, gate.clone()), Arc::new(|| {}));
    let slow = GatedShare::of(&files, Arc::new(delayed));
    let other = GatedShare::of(&files, memory(2, Arc::default()));
    (gate, slow, other)
}

#[test]
fn slow_rename_does_not_hold_up_another_share() {
    let (gate, slow, other) = two_shares();
    let (moved, file, directory) = (slow.file("x"), other.file("x"), other.directory("d"));
    gate.arm(0);
    let mut first = slow.renaming(&moved, "y");
    assert!(first.as_mut().now_or_never().is_none());
    gate.wait_until_blocking();
    assert_eq!(run(other.renaming(&file, "y")), Ok(()), "a file");
    assert_eq!(run(other.renaming(&directory, "e")), Ok(()), "a directory");
    other.file("new");
    gate.open();
    assert_eq!(run(first), Ok(()));
}

#[test]
fn slow_rename_does_not_hold_up_another_directory() {
    let (gate, slow, _) = two_shares();
    ["a", "b"].into_iter().for_each(|at| slow.create_directory(at));
    let (moved, file, unlinked) = (slow.file("a/x"), slow.file("b/x"), slow.file("b/u"));
    gate.arm(0);
    let mut first = slow.renaming(&moved, "a/y");
    assert!(first.as_mut().now_or_never().is_none());
    gate.wait_until_blocking();
    assert_eq!(run(slow.renaming(&file, "b/y")), Ok(()));
    run(slow.files.mark_deleted(&unlinked, true, false)).unwrap();
    assert_eq!(run(slow.files.close(unlinked)), Ok(()), "a removal");
    gate.open();
    assert_eq!(run(first), Ok(()));
}

#[test]
fn opens_by_other_names_complete_during_a_slow_rename() {
    let (gate, slow, _) = two_shares();
    ["a", "b"].into_iter().for_each(|at| slow.create_directory(at));
    let moved = slow.file("a/x");
    ["b/x1", "b/x2", "b/gone"].into_iter().for_each(|at| drop(slow.file(at)));
    let b = slow.object("b");
    gate.arm(0);
    let mut first = slow.renaming(&moved, "a/y");
    assert!(first.as_mut().now_or_never().is_none());
    gate.wait_until_blocking();
    drop(slow.open("b/x1", RequestedKind::File, Semantics::Windows));
    slow.open("b/new", RequestedKind::File, Semantics::Windows);
    slow.file("a/new");
    assert_eq!(run(slow.renaming_object((&b, "x1"), (&b, "z"))), Ok(()), "a rename over NFS");
    let (name, caller) = (Name::new(*b"gone").unwrap(), slow.caller.clone());
    assert_eq!(run(slow.files.remove_object(&caller, &b, &name)), Ok(()), "a removal over NFS");
    gate.open();
    assert_eq!(run(first), Ok(()));
    assert_eq!(moved.path(), path("a/y"));
}

/// An open by the rename's old or new name waits for the rename, and does not hold up others.
#[test]
fn open_by_the_names_of_a_slow_rename_waits_for_it_alone() {
    let (gate, slow, _) = two_shares();
    ["a", "b"].into_iter().for_each(|at| slow.create_directory(at));
    let (moved, file, b) = (slow.file("a/x"), slow.file("b/x"), slow.object("b"));
    gate.arm(0);
    let mut first = slow.renaming(&moved, "a/y");
    assert!(first.as_mut().now_or_never().is_none());
    gate.wait_until_blocking();
    let (old, new) = (slow.opening("a/x"), slow.opening("a/y"));
    let (mut old, mut new) = (Box::pin(old), Box::pin(new));
    assert!(run_for(&mut old, HELD_UP).is_none(), "the old name");
    assert!(run_for(&mut new, HELD_UP).is_none(), "the new name");
    assert_eq!(run(slow.renaming(&file, "b/y")), Ok(()), "another directory");
    assert_eq!(run(slow.renaming_object((&b, "y"), (&b, "x"))), Ok(()), "the same over NFS");
    gate.open();
    assert_eq!(run(first), Ok(()));
    assert_eq!(run(old).err(), Some(FsError::NotFound));
    assert_eq!(run(new).unwrap().key(), moved.key());
}

#[test]
fn slow_rename_holds_up_its_directories_and_directory_renames() {
    let (gate, slow, _) = two_shares();
    ["a", "b"].into_iter().for_each(|at| slow.create_directory(at));
    let directory = slow.directory("c");
    let (moved, file, unlinked) = (slow.file("a/x"), slow.file("b/x"), slow.file("a/u"));
    gate.arm(0);
    let mut first = slow.renaming(&moved, "b/y");
    assert!(first.as_mut().now_or_never().is_none());
    gate.wait_until_blocking();
    let mut same_target = slow.renaming(&file, "b/y");
    assert_eq!(run_for(&mut same_target, HELD_UP), None, "the same directory");
    run(slow.files.mark_deleted(&unlinked, true, false)).unwrap();
    let mut removal = Box::pin(slow.files.close(unlinked));
    assert_eq!(run_for(&mut removal, HELD_UP), None, "a removal from the same directory");
    let mut whole = slow.renaming(&directory, "d");
    assert_eq!(run_for(&mut whole, HELD_UP), None, "a directory");
    gate.open();
    assert_eq!(run(first), Ok(()));
    assert_eq!(run(same_target), Ok(()));
    assert_eq!(run(removal), Ok(()));
    assert_eq!(run(whole), Ok(()));
    assert_eq!((file.path(), directory.path()), (path("b/y"), path("d")));
}

/// Two shares of one tree, `outer` and its directory `d`.
#[test]
fn overlapping_shares_take_turns_by_directory() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("d/e")).unwrap();
    let files = Arc::new(Files::new(Arc::new(ThreadWorkers)));
    let gate = Arc::<RenameGate>::default();
    let pausing = gate.clone();
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let outer =
        GatedShare::of(&files, Arc::new(DelayedVfs::new(local, Arc::new(move || pausing.pass()))));
    let inner = GatedShare::of(&files, Arc::new(LocalVfs::open(&folder.path().join("d")).unwrap()));
    let open = |share: &GatedShare, at| share.open(at, RequestedKind::File, Semantics::Windows);
    let (moved, same, elsewhere) = (open(&outer, "d/x"), open(&inner, "z"), open(&inner, "e/x"));
    // The last call of a rename changes the name.
    const MANY: u32 = 1000;
    gate.arm(MANY);
    run(outer.renaming(&moved, "d/x1")).unwrap();
    let RenameGateState::Armed(left) = *gate.state.lock().unwrap() else { unreachable!() };
    gate.arm(MANY - left - 1);
    let mut first = outer.renaming(&moved, "d/x2");
    assert!(first.as_mut().now_or_never().is_none());
    gate.wait_until_blocking();
    assert_eq!(run(inner.renaming(&elsewhere, "e/y")), Ok(()));
    let mut second = inner.renaming(&same, "x2");
    assert_eq!(run_for(&mut second, HELD_UP), None, "the directory of both");
    gate.open();
    assert_eq!(run(first), Ok(()));
    // The target is open through the other share.
    assert_eq!(run(second), Err(FsError::AccessDenied));
}

#[test]
fn crossing_renames_end_and_keep_both_files() {
    let (_, share, _) = two_shares();
    let share = Arc::new(share);
    ["a", "b"].into_iter().for_each(|at| share.create_directory(at));
    let (x, y) = (share.file("a/x"), share.file("b/y"));
    let there_and_back = |open: Arc<OpenFile>, [there, back]: [&'static str; 2]| {
        let share = share.clone();
        std::thread::spawn(move || {
            for _ in 0..50 {
                run(share.renaming(&open, there)).unwrap();
                run(share.renaming(&open, back)).unwrap();
            }
        })
    };
    let threads =
        [there_and_back(x.clone(), ["b/x", "a/x"]), there_and_back(y.clone(), ["a/y", "b/y"])];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((x.path(), y.path()), (path("a/x"), path("b/y")));
    assert_eq!((share.file("a/x").key(), share.file("b/y").key()), (x.key(), y.key()));
}

/// Two directories that would each move into the other: one must be refused.
#[test]
fn directories_cannot_move_into_each_other() {
    for _ in 0..20 {
        let (_, share, _) = two_shares();
        ["a", "b"].into_iter().for_each(|at| share.create_directory(at));
        let (a, b) = (share.object("a"), share.object("b"));
        let root = run(share.files.root_object(&share.volume)).unwrap();
        let moving =
            |name: &'static str, into: Object| share.renaming_object((&root, name), (&into, name));
        let (mut into_b, mut into_a) = (moving("a", b), moving("b", a));
        let (mut results, begun) = ([None, None], Instant::now());
        while results.contains(&None) {
            assert!(begun.elapsed() < DEADLINE, "both wait");
            results[0] = results[0].or_else(|| into_b.as_mut().now_or_never());
            results[1] = results[1].or_else(|| into_a.as_mut().now_or_never());
        }
        let moved = results.map(|result| result == Some(Ok(())));
        assert_ne!(moved, [true, true]);
        assert_eq!(share.is_directory("a"), !moved[0], "{results:?}");
        assert_eq!(share.is_directory("b"), !moved[1], "{results:?}");
    }
}
