//! Untrusted file handles: none leads out of the share.
//!
//! The first byte of an input selects a tree and a valid handle. The rest is pairs of an offset and
//! a byte to put there; with the highest bit set, it is the handle itself.

use files::{
    Caller, Files, Inline, ListWish, Object, ObjectHandle, RequestFiles, Volume, VolumeId,
    VolumeOptions,
};
use futures_util::FutureExt;
use std::sync::{Arc, LazyLock};
use sync::Mutex;
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs::{Actor, FileKey, Identity, Name, Vfs};
use vfs_local::LocalVfs;

/// A served tree, its content, and valid handles: of that content and, where something lies beside
/// the tree, of that as another server issues them.
struct ServedTree {
    files: RequestFiles,
    volume: Arc<Volume>,
    inside: Vec<FileKey>,
    handles: Vec<ObjectHandle>,
}

const V: VolumeId = VolumeId(1);
const LISTED: ListWish = ListWish {
    cookie: 0,
    count_max: 100,
    name_bytes_max: 10_000,
    bytes_max: 10_000,
    entry_bytes: 0,
    handles: None,
    stored: false,
};

impl ServedTree {
    fn of(vfs: Arc<dyn Vfs>, whole: Option<Arc<dyn Vfs>>) -> Self {
        let volume = |vfs| Arc::new(Volume::new(vfs, VolumeOptions::default()));
        let mut tree = Self {
            files: Arc::new(Files::new(Arc::new(Inline))).for_server(),
            volume: volume(vfs),
            inside: Vec::new(),
            handles: Vec::new(),
        };
        let objects = tree.objects(&tree.volume);
        tree.inside = objects.iter().map(Object::key).collect();
        let outside = whole.map(|whole| tree.objects(&volume(whole))).unwrap_or_default();
        for object in objects.iter().chain(&outside) {
            tree.handles.extend(tree.files.handle(V, object));
        }
        tree
    }

    /// The root, its entries, and their entries.
    fn objects(&self, volume: &Arc<Volume>) -> Vec<Object> {
        let caller = Arc::new(Caller::of(Identity::root()));
        let root = self.files.root_object(volume).now_or_never().unwrap().unwrap();
        let mut objects = vec![root];
        let mut at = 0;
        while let Some(object) = objects.get(at).cloned() {
            at += 1;
            let list = self.files.readdir_object(&caller, &object, LISTED);
            let Ok(listed) = list.now_or_never().unwrap() else { continue };
            for entry in listed.entries {
                let found = self.files.lookup(&caller, &object, &entry.name);
                objects.extend(found.now_or_never().unwrap());
            }
        }
        objects
    }
}

/// The directory of [`LOCAL`]. A static is never dropped, so [`remove_files`] removes it.
static HOUSE: Mutex<Option<tempfile::TempDir>> = Mutex::new(None);

static LOCAL: LazyLock<ServedTree> = LazyLock::new(|| {
    let house = tempfile::tempdir().unwrap();
    for at in ["share/d", "beside"] {
        std::fs::create_dir_all(house.path().join(at)).unwrap();
    }
    for at in ["share/f", "share/d/g", "beside/secret"] {
        std::fs::write(house.path().join(at), at).unwrap();
    }
    let whole = Arc::new(LocalVfs::open(house.path()).unwrap());
    let share = Arc::new(LocalVfs::open(&house.path().join("share")).unwrap());
    let tree = ServedTree::of(share, Some(whole));
    *HOUSE.lock() = Some(house);
    tree
});

/// Removes the target's files on disk; the target must not run again in this process.
pub fn remove_files() {
    drop(HOUSE.lock().take());
}

static MEMORY: LazyLock<ServedTree> = LazyLock::new(|| {
    let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
    for name in ["f", "g"] {
        let path = [Name::new(name.as_bytes()).unwrap()].into_iter().collect();
        vfs.symlink(Actor::SUPERUSER, &path, b"nowhere").unwrap();
    }
    ServedTree::of(Arc::new(vfs), None)
});

/// Serves both trees.
pub fn set_up() {
    LazyLock::force(&LOCAL);
    LazyLock::force(&MEMORY);
}

/// Resolves a handle, which must lead into the share or nowhere.
pub fn handles(input: &[u8]) {
    let Some((&first, rest)) = input.split_first() else { return };
    let tree = if first & 1 == 0 { &*LOCAL } else { &*MEMORY };
    let bytes = if first & 0x80 != 0 {
        rest.to_vec()
    } else {
        let good = &tree.handles[usize::from(first >> 1) % tree.handles.len()];
        let mut bytes = good.as_bytes().to_vec();
        for pair in rest.chunks_exact(2) {
            let at = usize::from(pair[0]) % bytes.len();
            bytes[at] = pair[1];
        }
        bytes
    };
    let Ok(handle) = tree.files.parse_handle(&bytes) else { return };
    assert_eq!(handle.as_bytes(), bytes);
    let found = tree.files.find_object(&tree.volume, &handle).now_or_never().unwrap();
    if let Ok(object) = found {
        assert!(tree.inside.contains(&object.key()), "{bytes:?} leads to {object:?}");
        assert!(tree.files.object_attributes(&object).is_ok());
    }
}
