//! Files that were made a moment ago are looked at and removed without being opened, and never as
//! they were.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use files::{
    Access, Caller, Files, IfExists, IfMissing, Inline, Object, ObjectOpen, OpenAt, OpenFile,
    OpenPlan, Share, Volume, VolumeId, VolumeOptions, WishedKind,
};
use futures_util::FutureExt;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::memory::{Call, Fate, MemoryOptions, MemoryVfs, Surroundings};
use vfs::{Attributes, FsError, Identity, Name, Result, Timestamp, Vfs};
use vfs_cache::{CacheOptions, CachedVfs, Clock};
use vfs_local::LocalVfs;

const V: VolumeId = VolumeId(7);

struct Served {
    files: Files,
    caller: Arc<Caller>,
    directory: Object,
    /// The same directory, of which nothing is remembered.
    plain: Object,
}

fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().expect("nothing is waited for")
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Serves the directory `d`, and knows it by having made some files in it.
fn serve(inner: Arc<dyn Vfs>, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Served {
    let clock = Clock(Arc::new(clock));
    let cached = CachedVfs::new(inner.clone(), CacheOptions::default(), clock);
    let caller = Arc::new(Caller::of(Identity::root()));
    let files = Files::new(Arc::new(Inline));
    let directory = |vfs: Arc<dyn Vfs>| {
        let volume = Arc::new(Volume { vfs, options: VolumeOptions::default() });
        let root = now(files.root_object(&volume)).unwrap();
        now(files.look_up(&caller, &root, &name("d"))).unwrap()
    };
    let (plain, directory) = (directory(inner), directory(Arc::new(cached)));
    let served = Served { files, caller, directory, plain };
    (0..4).for_each(|number| drop(served.make(&format!("before{number}"))));
    served
}

fn local(folder: &Path) -> Served {
    std::fs::create_dir(folder.join("d")).unwrap();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    serve(Arc::new(LocalVfs::open(folder).unwrap()), move || Timestamp(now() as i128))
}

impl Served {
    fn open(&self, at: &str, if_missing: IfMissing, share: Share) -> Result<Arc<OpenFile>> {
        let if_exists =
            if if_missing == IfMissing::Create { IfExists::Fail } else { IfExists::Open };
        let kind = WishedKind::File;
        let posix = OpenPlan::posix(Access::READ_DATA | Access::WRITE_DATA, share);
        let plan = OpenPlan { if_exists, if_missing, kind, ..posix };
        let at = OpenAt::Name(self.directory.clone(), name(at));
        let opened = self.files.open_object(&self.caller, &at, plan, ObjectOpen::default());
        now(opened).map(|opened| opened.open)
    }

    /// Makes a file and asks what it is called, as a client does.
    fn make(&self, at: &str) -> (Vec<u8>, Arc<OpenFile>) {
        let open = self.open(at, IfMissing::Create, Share::ALL).unwrap();
        let handle = self.files.handle(V, &open.object()).unwrap();
        (handle.as_bytes().to_vec(), open)
    }

    fn remembered(&self, at: &str) -> Option<(Vec<u8>, Attributes)> {
        let known = self.files.look_remembered(&self.caller, &self.directory, &name(at), V);
        known.map(|(handle, attributes)| (handle.as_bytes().to_vec(), attributes))
    }

    fn remove(&self, at: &str) -> Result<()> {
        now(self.files.remove_object(&self.caller, &self.directory, &name(at)))
    }
}

impl Served {
    /// What [`Served::remembered`] says, by opening the file.
    fn looked(&self, at: &str) -> (Vec<u8>, Attributes) {
        let looked = now(self.files.look_at(&self.caller, &self.plain, &name(at)));
        let (object, attributes) = looked.unwrap();
        (self.files.handle(V, &object).unwrap().as_bytes().to_vec(), attributes)
    }
}

#[test]
fn what_was_made_is_told_as_it_is_now_and_as_long_as_the_name_leads_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let served = local(folder.path());
    let at = |name: &str| folder.path().join("d").join(name);
    let (handle, open) = served.make("file");
    let known = served.remembered("file").unwrap();
    assert_eq!((&known.0, &known), (&handle, &served.looked("file")));
    // By whatever name, and whoever does it.
    served.files.write(&open, 0, b"content").unwrap();
    assert_eq!(served.remembered("file"), Some(served.looked("file")));
    drop(open);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(at("file"), mode).unwrap();
    std::fs::hard_link(at("file"), at("link")).unwrap();
    let known = served.remembered("file").unwrap();
    assert_eq!((known.1.mode, known.1.links, known.1.size_bytes), (0o600, 2, 7));
    assert_eq!(known, served.looked("file"));
    assert_eq!(served.remembered("link"), None, "nobody has made it here");
    std::fs::rename(at("before0"), at("file")).unwrap();
    assert_eq!(served.remembered("file"), None, "another file is there now");
    assert_ne!(served.looked("file").0, handle);
}

#[test]
fn what_local_processes_remove_move_and_make_again_is_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let served = local(folder.path());
    let at = |name: &str| folder.path().join("d").join(name);
    for round in 0..50 {
        let [gone, moved, again] = ["gone", "moved", "again"].map(|name| format!("{name}{round}"));
        let made = [&gone, &moved, &again].map(|name| served.make(name).0);
        assert!([&gone, &moved, &again].iter().all(|name| served.remembered(name).is_some()));
        std::fs::remove_file(at(&gone)).unwrap();
        std::fs::rename(at(&moved), at(&format!("to{round}"))).unwrap();
        std::fs::remove_file(at(&again)).unwrap();
        // Mostly of the same number and the same moment.
        std::fs::write(at(&again), b"").unwrap();
        assert!([&gone, &moved, &again].iter().all(|name| served.remembered(name).is_none()));
        assert_ne!(served.looked(&again).0, made[2]);
        assert_eq!(served.looked(&format!("to{round}")).0, made[1]);
        assert_eq!(served.remove(&gone), Err(FsError::NotFound));
        assert_eq!(served.remove(&again), Ok(()));
        assert!(!at(&again).exists());
    }
}

#[test]
fn a_directory_that_local_processes_move_takes_what_was_made_along() {
    let folder = tempfile::tempdir().unwrap();
    let served = local(folder.path());
    served.make("file");
    assert!(served.remembered("file").is_some());
    std::fs::rename(folder.path().join("d"), folder.path().join("e")).unwrap();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::fs::write(folder.path().join("d/file"), b"another").unwrap();
    assert_eq!(served.remembered("file"), None, "its path leads elsewhere");
    assert_eq!(served.remove("file"), Ok(()));
    assert!(!folder.path().join("e/file").exists(), "by the handle of the directory");
    assert!(folder.path().join("d/file").exists());
}

#[test]
fn who_may_not_look_there_is_told_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let served = local(folder.path());
    if !rustix::process::geteuid().is_root() {
        return;
    }
    served.make("file");
    let mode =
        |mode| -> std::fs::Permissions { std::os::unix::fs::PermissionsExt::from_mode(mode) };
    std::fs::set_permissions(folder.path(), mode(0o755)).unwrap();
    let alice = Arc::new(Caller::of(Identity { uid: 4001, gid: 4001, groups: Vec::new() }));
    let directory = &served.directory;
    let ask = || {
        let known = served.files.look_remembered(&alice, directory, &name("file"), V);
        let at = vfs::RelPath::root().join(&name("d"));
        let (case, wait) = (vfs::Case::Sensitive, vfs::Wait::Allowed);
        let _ = directory.volume().vfs.open_directory(&alice.identity, &at, case, wait);
        known.is_some()
    };
    (0..4).for_each(|_| _ = ask());
    assert!(ask(), "who is let through it is told");
    // The thread acts as the last user.
    directory.volume().vfs.space(&Identity::root()).unwrap();
    std::fs::set_permissions(folder.path().join("d"), mode(0o700)).unwrap();
    assert!(!ask());
    let removed = now(served.files.remove_object(&alice, directory, &name("file")));
    directory.volume().vfs.space(&Identity::root()).unwrap();
    assert_eq!(removed, Err(FsError::AccessDenied));
    assert!(folder.path().join("d/file").exists());
}

#[test]
fn what_somebody_has_open_goes_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let served = local(folder.path());
    let at = |name: &str| folder.path().join("d").join(name);
    let (_, open) = served.make("open");
    assert_eq!(served.remove("open"), Ok(()));
    assert!(!at("open").exists(), "as POSIX has it");
    served.files.write(&open, 0, b"content").unwrap();
    let (_, open) = served.make("kept");
    drop(open);
    let keeping = Share(Share::ALL.0 & !Share::DELETE.0);
    let kept = served.open("kept", IfMissing::Fail, keeping).unwrap();
    assert_eq!(served.remove("kept"), Err(FsError::ShareViolation));
    now(served.files.close(kept)).unwrap();
    assert_eq!(served.remove("kept"), Ok(()));
    let (_, open) = served.make("large");
    now(served.files.set_size(&open, 64 << 20)).unwrap();
    drop(open);
    assert_eq!(served.remove("large"), Ok(()));
    assert_eq!(served.remove("large"), Err(FsError::NotFound));
    assert_eq!(served.files.open_file_count(), 1, "what has lost its name");
}

/// Keeps what was asked of the backend.
#[derive(Default)]
struct Counting {
    calls: Mutex<Vec<Call>>,
}

impl Surroundings for Counting {
    fn now(&self) -> Timestamp {
        Timestamp(1_750_000_000_000_000_000)
    }

    fn before(&self, call: Call) -> Fate {
        self.calls.lock().unwrap().push(call);
        Fate::Runs
    }
}

#[test]
fn what_was_made_is_looked_at_and_removed_by_as_few_calls_as_can_be() {
    let counting = Arc::<Counting>::default();
    let memory = MemoryVfs::new(MemoryOptions::default(), counting.clone());
    let path = vfs::RelPath::root().join(&name("d"));
    let (kind, mode, dos) = (vfs::FileKind::Directory, 0o755, None);
    let how = vfs::CreateHow { kind, mode, dos, wanted: vfs::Wanted::default() };
    memory.create(&Identity::root(), &path, vfs::Case::Sensitive, how).unwrap();
    let served = serve(Arc::new(memory), || Timestamp(1_750_000_001_000_000_000));
    let (handle, open) = served.make("file");
    drop(open);
    let calls = |work: &dyn Fn()| {
        counting.calls.lock().unwrap().clear();
        work();
        std::mem::take(&mut *counting.calls.lock().unwrap())
    };
    let looked = calls(&|| assert_eq!(served.remembered("file").unwrap().0, handle));
    assert_eq!(looked, [Call::Attributes]);
    let removed = calls(&|| assert_eq!(served.remove("file"), Ok(())));
    assert_eq!(removed, [Call::Attributes, Call::Remove]);
    assert_eq!(served.remembered("file"), None);
}
