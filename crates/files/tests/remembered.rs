//! Recently created files are looked up and removed without an open, and never with outdated state.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use files::{
    Access, Caller, Files, IfExists, IfMissing, Inline, ListWish, ListedObject, Object,
    ObjectListSink, ObjectOpen, OpenAt, OpenFile, OpenPlan, RequestFiles, RequestedKind, ShareMode,
    Volume, VolumeId, VolumeOptions,
};
use futures_util::FutureExt;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::memory::{CallOutcome, MemoryCall, MemoryOptions, MemoryVfs, Surroundings};
use vfs::{Actor, Attributes, FsError, Identity, Name, Result, Timestamp, Vfs};
use vfs_cache::{CacheOptions, CachedVfs, Clock};
use vfs_local::LocalVfs;

const V: VolumeId = VolumeId(7);

struct RecentShare {
    files: RequestFiles,
    caller: Arc<Caller>,
    directory: Object,
    /// The same directory without the cache of recent creates.
    plain: Object,
}

fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().expect("nothing is waited for")
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Serves the directory `d`, whose contents are known since the server created files in it.
fn serve(
    inner: Arc<dyn Vfs>,
    clock: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> RecentShare {
    let clock = Clock(Arc::new(clock));
    let cached = CachedVfs::new(inner.clone(), CacheOptions::default(), clock);
    let caller = Arc::new(Caller::of(Identity::root()));
    let files = Arc::new(Files::new(Arc::new(Inline))).for_server();
    let directory = |volume| {
        let volume = Arc::new(volume);
        let root = now(files.root_object(&volume)).unwrap();
        now(files.lookup(&caller, &root, &name("d"))).unwrap()
    };
    let (plain, directory) = (
        directory(Volume::new(inner, VolumeOptions::default())),
        directory(Volume::cached(Arc::new(cached), VolumeOptions::default())),
    );
    let served = RecentShare { files, caller, directory, plain };
    (0..4).for_each(|number| drop(served.make(&format!("before{number}"))));
    served
}

fn local(folder: &Path) -> RecentShare {
    std::fs::create_dir(folder.join("d")).unwrap();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    serve(Arc::new(LocalVfs::open(folder).unwrap()), move || Timestamp(now() as i128))
}

impl RecentShare {
    fn open(&self, at: &str, if_missing: IfMissing, share: ShareMode) -> Result<Arc<OpenFile>> {
        let if_exists =
            if if_missing == IfMissing::Create { IfExists::Fail } else { IfExists::Open };
        let kind = RequestedKind::File;
        let posix = OpenPlan::posix(Access::READ_DATA | Access::WRITE_DATA, share);
        let plan = OpenPlan { if_exists, if_missing, kind, ..posix };
        let at = OpenAt::Name(self.directory.clone(), name(at));
        let opened = self.files.open_object(&self.caller, &at, plan, ObjectOpen::default());
        now(opened).map(|opened| opened.open)
    }

    /// Creates a file and requests its handle, as a client does.
    fn make(&self, at: &str) -> (Vec<u8>, Arc<OpenFile>) {
        let open = self.open(at, IfMissing::Create, ShareMode::ALL).unwrap();
        let handle = self.files.handle(V, &open.object()).unwrap();
        (handle.as_bytes().to_vec(), open)
    }

    fn remembered(&self, at: &str) -> Option<(Vec<u8>, Attributes)> {
        let known = self.files.lookup_remembered(&self.caller, &self.directory, &name(at), V);
        known.map(|(handle, attributes)| (handle.as_bytes().to_vec(), attributes))
    }

    fn remove(&self, at: &str) -> Result<()> {
        now(self.files.remove_object(&self.caller, &self.directory, &name(at)))
    }
}

impl RecentShare {
    /// The result of [`RecentShare::remembered`], by opening the file.
    fn looked(&self, at: &str) -> (Vec<u8>, Attributes) {
        let looked = now(self.files.lookup_with_attributes(&self.caller, &self.plain, &name(at)));
        let (object, attributes) = looked.unwrap();
        (self.files.handle(V, &object).unwrap().as_bytes().to_vec(), attributes)
    }
}

#[test]
fn recent_create_is_current_while_name_refers_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let served = local(folder.path());
    let at = |name: &str| folder.path().join("d").join(name);
    let (handle, open) = served.make("file");
    let known = served.remembered("file").unwrap();
    assert_eq!((&known.0, &known), (&handle, &served.looked("file")));
    // Through any name and by any user.
    served.files.write(open.caller(), &open, 0, b"content").unwrap();
    assert_eq!(served.remembered("file"), Some(served.looked("file")));
    drop(open);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(at("file"), mode).unwrap();
    std::fs::hard_link(at("file"), at("link")).unwrap();
    let known = served.remembered("file").unwrap();
    assert_eq!((known.1.mode, known.1.links, known.1.size_bytes), (0o600, 2, 7));
    assert_eq!(known, served.looked("file"));
    assert_eq!(served.remembered("link"), None, "it was not created here");
    std::fs::rename(at("before0"), at("file")).unwrap();
    assert_eq!(served.remembered("file"), None, "another file is there now");
    assert_ne!(served.looked("file").0, handle);
}

#[test]
fn recent_create_is_dropped_after_local_name_change() {
    let folder = tempfile::tempdir().unwrap();
    let served = local(folder.path());
    let at = |name: &str| folder.path().join("d").join(name);
    let mut known = 0;
    for round in 0..50 {
        let [gone, moved, again] = ["gone", "moved", "again"].map(|name| format!("{name}{round}"));
        let made = [&gone, &moved, &again].map(|name| served.make(name).0);
        // An entry may evict another by a hash collision.
        let is_known = |name: &&String| served.remembered(name).is_some();
        known += [&gone, &moved, &again].into_iter().filter(is_known).count();
        std::fs::remove_file(at(&gone)).unwrap();
        std::fs::rename(at(&moved), at(&format!("to{round}"))).unwrap();
        std::fs::remove_file(at(&again)).unwrap();
        // Mostly with the same inode number and time.
        std::fs::write(at(&again), b"").unwrap();
        assert!([&gone, &moved, &again].iter().all(|name| served.remembered(name).is_none()));
        assert_ne!(served.looked(&again).0, made[2]);
        assert_eq!(served.looked(&format!("to{round}")).0, made[1]);
        assert_eq!(served.remove(&gone), Err(FsError::NotFound));
        assert_eq!(served.remove(&again), Ok(()));
        assert!(!at(&again).exists());
    }
    assert!(known > 130, "{known} of 150");
}

#[test]
fn recent_create_follows_locally_moved_directory() {
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
fn recent_create_is_hidden_without_search_permission() {
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
        let known = served.files.lookup_remembered(&alice, directory, &name("file"), V);
        let at = vfs::RelPath::root().join(&name("d"));
        let (case, wait) = (vfs::Case::Sensitive, vfs::Wait::Allowed);
        let _ = directory.volume().names().open_directory(alice.identity.actor(), &at, case, wait);
        known.is_some()
    };
    (0..4).for_each(|_| _ = ask());
    assert!(ask(), "search permission suffices");
    // Makes the thread act as root again.
    directory.volume().vfs.space(Actor::SUPERUSER).unwrap();
    std::fs::set_permissions(folder.path().join("d"), mode(0o700)).unwrap();
    assert!(!ask());
    let removed = now(served.files.remove_object(&alice, directory, &name("file")));
    directory.volume().vfs.space(Actor::SUPERUSER).unwrap();
    assert_eq!(removed, Err(FsError::AccessDenied));
    assert!(folder.path().join("d/file").exists());
}

#[test]
fn recent_create_with_opens_is_removed_normally() {
    let folder = tempfile::tempdir().unwrap();
    let served = local(folder.path());
    let at = |name: &str| folder.path().join("d").join(name);
    let (_, open) = served.make("open");
    assert_eq!(served.remove("open"), Ok(()));
    assert!(!at("open").exists(), "as POSIX has it");
    served.files.write(open.caller(), &open, 0, b"content").unwrap();
    let (_, open) = served.make("kept");
    drop(open);
    let keeping = ShareMode(ShareMode::ALL.0 & !ShareMode::DELETE.0);
    let kept = served.open("kept", IfMissing::Fail, keeping).unwrap();
    assert_eq!(served.remove("kept"), Err(FsError::ShareViolation));
    now(served.files.close(kept)).unwrap();
    assert_eq!(served.remove("kept"), Ok(()));
    let (_, open) = served.make("large");
    now(served.files.set_size(open.caller(), &open, 64 << 20)).unwrap();
    drop(open);
    assert_eq!(served.remove("large"), Ok(()));
    assert_eq!(served.remove("large"), Err(FsError::NotFound));
    assert_eq!(served.files.open_file_count(), 1, "the unlinked file");
}

impl RecentShare {
    /// Names and handles of a listing in sections of `count_max` entries.
    fn listed(&self, directory: &Object, count_max: usize) -> Vec<(String, Option<Vec<u8>>)> {
        let mut wish = ListWish {
            cookie: 0,
            count_max,
            name_bytes_max: usize::MAX,
            bytes_max: usize::MAX,
            entry_bytes: 0,
            handles: Some(V),
            stored: false,
        };
        let mut all = Vec::new();
        for _ in 0..10_000 {
            let part = now(self.files.readdir_object(&self.caller, directory, wish)).unwrap();
            wish.cookie = part.entries.last().map_or(wish.cookie, |last| last.cookie);
            all.extend(part.entries.into_iter().map(|entry| {
                let name = String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
                (name, entry.handle.map(|handle| handle.as_bytes().to_vec()))
            }));
            if part.is_end {
                return all;
            }
        }
        panic!("it does not end");
    }
}

#[test]
fn listed_handles_find_their_objects() {
    let folder = tempfile::tempdir().unwrap();
    let served = local(folder.path());
    let at = |name: &str| folder.path().join("d").join(name);
    let made: Vec<_> = (0..150).map(|n| served.make(&format!("file{n}")).0).collect();
    std::fs::write(at("foreign"), b"").unwrap();
    for round in 0..20 {
        let [again, over] = [format!("file{}", 2 * round), format!("file{}", 2 * round + 1)];
        std::fs::remove_file(at(&again)).unwrap();
        std::fs::write(at(&again), b"").unwrap();
        std::fs::write(at("new"), b"").unwrap();
        std::fs::rename(at("new"), at(&over)).unwrap();
        for count_max in [1, 7, 64, 1000] {
            let listed = served.listed(&served.directory, count_max);
            assert_eq!(listed, served.listed(&served.plain, count_max), "{round}, {count_max}");
            let handle_of = |name: &str| listed.iter().find(|entry| entry.0 == name).unwrap();
            assert_eq!(handle_of("file149").1.as_ref(), Some(&made[149]));
            assert_ne!(handle_of(&again).1.as_ref(), Some(&made[2 * round]));
        }
    }
}

/// Accepts a limited number of entries.
struct LimitedNames(Vec<String>, usize);

impl ObjectListSink for LimitedNames {
    fn take(&mut self, entry: ListedObject) -> bool {
        let takes = self.0.len() < self.1;
        if takes {
            self.0.push(String::from_utf8_lossy(entry.name.as_bytes()).into_owned());
        }
        takes
    }
}

#[test]
fn listing_stopped_by_sink_is_not_complete() {
    let folder = tempfile::tempdir().unwrap();
    let served = local(folder.path());
    (0..96).for_each(|n| drop(served.make(&format!("file{n}"))));
    let all: Vec<String> = served.listed(&served.plain, 1000).into_iter().map(|e| e.0).collect();
    assert_eq!(all.len(), 100);
    let wish = ListWish {
        cookie: 0,
        count_max: 1000,
        name_bytes_max: usize::MAX,
        bytes_max: usize::MAX,
        entry_bytes: 0,
        handles: Some(V),
        stored: false,
    };
    for count in [0, 1, 63, 64, 65, 99, 100, 101] {
        let few = LimitedNames(Vec::new(), count);
        let listed = served.files.readdir_object_into(&served.caller, &served.directory, wish, few);
        let (LimitedNames(names, _), is_end) = now(listed).unwrap();
        assert_eq!((&names[..], is_end), (&all[..count.min(100)], count >= 100), "{count}");
    }
}

/// Records the backend calls.
#[derive(Default)]
struct CallLog {
    calls: Mutex<Vec<MemoryCall>>,
}

impl Surroundings for CallLog {
    fn now(&self) -> Timestamp {
        Timestamp(1_750_000_000_000_000_000)
    }

    fn before(&self, call: MemoryCall) -> CallOutcome {
        self.calls.lock().unwrap().push(call);
        CallOutcome::Runs
    }
}

#[test]
fn recent_create_is_found_and_removed_in_fewest_calls() {
    let counting = Arc::<CallLog>::default();
    let memory = MemoryVfs::new(MemoryOptions::default(), counting.clone());
    let path = vfs::RelPath::root().join(&name("d"));
    let (kind, mode, dos) = (vfs::FileKind::Directory, 0o755, None);
    let how = vfs::CreateHow {
        kind,
        mode: vfs::CreationMode::exactly(mode),
        dos,
        wanted: vfs::AttributeRequest::default(),
        initialiser: None,
    };
    memory.create(Actor::SUPERUSER, &path, vfs::Case::Sensitive, how).unwrap();
    let served = serve(Arc::new(memory), || Timestamp(1_750_000_001_000_000_000));
    let (handle, open) = served.make("file");
    drop(open);
    let calls = |work: &dyn Fn()| {
        counting.calls.lock().unwrap().clear();
        work();
        std::mem::take(&mut *counting.calls.lock().unwrap())
    };
    let looked = calls(&|| assert_eq!(served.remembered("file").unwrap().0, handle));
    assert_eq!(looked, [MemoryCall::Attributes]);
    let removed = calls(&|| assert_eq!(served.remove("file"), Ok(())));
    assert_eq!(removed, [MemoryCall::Attributes, MemoryCall::Remove]);
    assert_eq!(served.remembered("file"), None);
}
