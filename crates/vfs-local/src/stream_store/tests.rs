//! Tests of the stream store, through the tree and on disk.

mod moved;
mod out_of_reach;
mod projects;
mod restored;
mod searching;
mod sweeping;

use super::orphan_mark::{ClockReading, OrphanMark};
use super::*;
use crate::LocalVfs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::FileKind;
use vfs::{
    Actor, AttributeChanges, AttributeRequest, Case, ChildName, CreateHow, Identity, Name, Node,
    OpenHow, OwnerChange, PersistentHandles, RelPath, Replace, StreamName, Vfs, Wait, XattrName,
};

/// Longer than any extended attribute of Linux.
const LONG: usize = 300_000;
const WHO: Actor<'static> = Actor::SUPERUSER;

struct StreamStoreShare {
    root: PathBuf,
    vfs: LocalVfs,
}

fn path(text: &str) -> RelPath {
    text.split('/').map(|name| Name::new(name.as_bytes()).unwrap()).collect()
}

fn stream(text: &str) -> StreamName {
    StreamName::new(text.as_bytes()).unwrap()
}

fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

impl StreamStoreShare {
    fn open(root: &Path) -> Self {
        Self { root: root.to_path_buf(), vfs: LocalVfs::open(root).unwrap() }
    }

    fn create(&self, at: &str) -> Arc<dyn Node> {
        let how = CreateHow::plain(FileKind::File, 0o644);
        self.vfs.create(WHO, &path(at), Case::Sensitive, how).unwrap().node
    }

    fn look(&self, at: &str) -> Arc<dyn Node> {
        self.vfs.open(WHO, &path(at), OpenHow::looking(Wait::Allowed)).unwrap().node
    }

    /// A new file with a stream `s` of these bytes.
    fn put(&self, at: &str, data: &[u8]) -> Arc<dyn Node> {
        let node = self.create(at);
        node.need_streams().unwrap().create_stream(WHO, &stream("s"), Case::Insensitive).unwrap();
        node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, data).unwrap();
        node
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.root.join(NAME)) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Waits for the sweeping thread, and does its work.
    fn has_no_files_soon(&self) -> bool {
        (0..2000).any(|_| {
            sweep::look_at_pending_now();
            std::thread::yield_now();
            self.files().is_empty()
        })
    }
}

/// A share in a directory with extended attributes.
fn share() -> Option<(tempfile::TempDir, StreamStoreShare)> {
    let folder = tempfile::tempdir().unwrap();
    let share = StreamStoreShare::open(folder.path());
    if share.vfs.features().xattrs {
        return Some((folder, share));
    }
    eprintln!("skipped: no extended attributes here");
    None
}

fn read_named(node: &Arc<dyn Node>, name: &str) -> Result<Vec<u8>> {
    let mut into = Vec::new();
    node.need_streams().unwrap().read_stream(WHO, &stream(name), 0, 1 << 24, &mut into)?;
    Ok(into)
}

fn read(node: &Arc<dyn Node>) -> Result<Vec<u8>> {
    read_named(node, "s")
}

/// Like [`read`], for a restored stream: the scan of a concurrent test may have its former file
/// open, which then still exists.
fn read_soon(node: &Arc<dyn Node>) -> Result<Vec<u8>> {
    for _ in 0..500 {
        match read(node) {
            Err(FsError::Unavailable) => std::thread::sleep(std::time::Duration::from_millis(1)),
            other => return other,
        }
    }
    read(node)
}

/// Ages a store file's mark as after scans on many days and all searches but one.
fn age_mark(file: &Path) -> Option<()> {
    let file = std::fs::File::open(file).ok()?;
    let mark = OrphanMark::of(&file).ok()??;
    let last = ClockReading { wall: 0, awake: 0, boot: [0; 36] };
    let searches = orphan_mark::SEARCHES_MIN - 1;
    let aged = OrphanMark { since: 0, last, looks: orphan_mark::LOOKS_MIN, searches, ..mark };
    aged.put(&file, XattrFlags::REPLACE).ok()
}

/// Scans all streams, and again days later.
fn look_for_days(files: impl Fn() -> Vec<PathBuf>) {
    sweep::look_at_all(&mut sweep::Breaks::default());
    for file in files() {
        // Streams that were marked, and still exist.
        let _ = age_mark(&file);
    }
    sweep::look_at_all(&mut sweep::Breaks::default());
}

#[test]
fn long_stream_is_stored_listed_truncated_and_removed() {
    let Some((_folder, share)) = share() else { return };
    let data = bytes(LONG, 1);
    let node = share.put("f", &data[..100]);
    assert_eq!(share.files(), [""; 0].map(PathBuf::from), "a short one is in an attribute");
    for (at, piece) in data.chunks(60_000).enumerate() {
        node.need_streams()
            .unwrap()
            .write_stream(WHO, &stream("s"), 60_000 * at as u64, piece)
            .unwrap();
    }
    assert_eq!(read(&node).unwrap(), data);
    let listed = node.streams(WHO).unwrap();
    let shown: Vec<_> = listed.iter().map(|s| (s.name.clone(), s.size_bytes)).collect();
    assert_eq!(shown, [(stream("s"), LONG as u64)]);
    node.need_streams().unwrap().set_stream_size(WHO, &stream("s"), 5).unwrap();
    node.need_streams().unwrap().write_stream(WHO, &stream("s"), 9, b"x").unwrap();
    assert_eq!(read(&node).unwrap(), [&data[..5], &[0; 4], b"x"].concat());
    assert_eq!(
        node.need_xattrs().unwrap().xattr_names(WHO).unwrap(),
        [],
        "it is not shown as an attribute"
    );
    node.need_streams().unwrap().remove_stream(WHO, &stream("s")).unwrap();
    assert_eq!(read(&node), Err(FsError::NotFound));
    assert!(share.files().is_empty());
}

#[test]
fn store_file_belongs_to_the_host_owner() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 1));
    let store = std::fs::metadata(share.root.join(NAME)).unwrap();
    assert_eq!(store.mode() & 0o7777, STORE_MODE);
    assert_eq!(store.uid(), rustix::process::geteuid().as_raw());
    let owner_of = || {
        let file = std::fs::metadata(&share.files()[0]).unwrap();
        assert_eq!(file.mode() & 0o7777, FILE_MODE);
        (file.uid(), file.gid())
    };
    let file = std::fs::metadata(share.root.join("f")).unwrap();
    assert_eq!(owner_of(), (file.uid(), file.gid()));
    if rustix::process::geteuid().is_root() {
        let owner = OwnerChange { uid: Some(4001), gid: Some(4002) };
        let change = AttributeChanges { owner, ..Default::default() };
        node.set_attributes(WHO, &change).unwrap();
        assert_eq!(owner_of(), (4001, 4002));
        node.need_streams().unwrap().write_stream(WHO, &stream("s"), 1, b"x").unwrap();
        assert_eq!(owner_of(), (4001, 4002));
    }
}

/// Deterministic pseudo-random numbers.
struct StreamRandom(u64);

impl StreamRandom {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

#[test]
fn random_changes_at_the_attribute_limit_match_a_model() {
    let Some((_folder, share)) = share() else { return };
    let mut random = StreamRandom(7);
    for round in 0..24 {
        let file = format!("f{round}");
        let node = share.put(&file, b"");
        let mut model = Vec::new();
        let mut name = "s";
        for step in 0..40 {
            let at = random.below(if step % 3 == 0 { 9_000 } else { 90_000 }) as usize;
            match random.below(8) {
                0..=3 => {
                    let data = bytes(1 + random.below(20_000) as usize, step as u8);
                    node.need_streams()
                        .unwrap()
                        .write_stream(WHO, &stream(name), at as u64, &data)
                        .unwrap();
                    model.resize(model.len().max(at + data.len()), 0);
                    model[at..at + data.len()].copy_from_slice(&data);
                }
                4 | 5 => {
                    node.need_streams()
                        .unwrap()
                        .set_stream_size(WHO, &stream(name), at as u64)
                        .unwrap();
                    model.resize(at, 0);
                }
                6 => {
                    let to = if name == "s" { "t" } else { "s" };
                    node.need_streams()
                        .unwrap()
                        .rename_stream(WHO, &stream(name), &stream(to), Replace::Never)
                        .unwrap();
                    name = to;
                }
                _ => {
                    node.need_streams().unwrap().remove_stream(WHO, &stream(name)).unwrap();
                    node.need_streams()
                        .unwrap()
                        .create_stream(WHO, &stream(name), Case::Sensitive)
                        .unwrap();
                    model.clear();
                }
            }
            assert_eq!(read_named(&node, name).unwrap(), model, "round {round}, step {step}");
            let sizes: Vec<_> = node.streams(WHO).unwrap().iter().map(|s| s.size_bytes).collect();
            assert_eq!(sizes, [model.len() as u64]);
            assert!(share.files().len() <= 1);
        }
        let key = node.key();
        drop(node);
        share.vfs.remove(WHO, &path(&file), key).unwrap();
        assert!(share.has_no_files_soon());
    }
}

#[test]
fn stream_follows_its_host_and_ends_with_its_last_name() {
    let Some((_folder, share)) = share() else { return };
    let data = bytes(LONG, 2);
    let node = share.put("f", &data);
    share.vfs.rename(WHO, &path("f"), &path("g"), Replace::Never).unwrap();
    share.vfs.link(WHO, &*node, &path("h"), Replace::Never).unwrap();
    let key = node.key();
    share.vfs.remove(WHO, &path("g"), key).unwrap();
    sweep::look_at_pending_now();
    assert_eq!(read(&share.look("h")).unwrap(), data, "it has a name left");
    let other = share.put("other", b"short");
    drop(other);
    share.vfs.rename(WHO, &path("other"), &path("h"), Replace::Any).unwrap();
    sweep::look_at_pending_now();
    assert_eq!(read(&node).unwrap(), data, "it is open");
    drop(node);
    assert!(share.has_no_files_soon());
    assert_eq!(read(&share.look("h")).unwrap(), b"short");
}

#[test]
fn restarted_server_finds_streams_and_removes_orphans() {
    let Some((folder, share)) = share() else { return };
    let data = bytes(LONG, 3);
    share.put("kept", &data);
    share.put("gone", &data);
    drop(share);
    std::fs::remove_file(folder.path().join("gone")).unwrap();
    let share = StreamStoreShare::open(folder.path());
    sweep::look_at_all(&mut sweep::Breaks::default());
    assert_eq!(share.files().len(), 2, "it may come back within a day");
    let has_one = (0..2000).any(|_| {
        look_for_days(|| share.files());
        share.files().len() == 1
    });
    assert!(has_one);
    assert_eq!(read(&share.look("kept")).unwrap(), data);
}

#[test]
fn copied_reference_grants_no_access_to_the_stream() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 4));
    let copy = share.create("copy");
    let attribute = "user.DosStream.s:$DATA";
    copy_attribute(&share.root.join("f"), &share.root.join("copy"), attribute);
    assert_eq!(read(&copy), Err(FsError::NotFound));
    assert_eq!(
        copy.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, b"x"),
        Err(FsError::NotFound)
    );
    assert_eq!(copy.streams(WHO).unwrap(), []);
    copy.need_streams().unwrap().create_stream(WHO, &stream("s"), Case::Insensitive).unwrap();
    copy.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, b"own").unwrap();
    assert_eq!(read(&copy).unwrap(), b"own");
    copy_attribute(&share.root.join("f"), &share.root.join("copy"), attribute);
    copy.need_streams().unwrap().remove_stream(WHO, &stream("s")).unwrap();
    assert_eq!(read(&node).unwrap(), bytes(LONG, 4));
}

fn copy_attribute(from: &Path, to: &Path, name: &str) {
    let mut value = vec![0; 1 << 16];
    let length = rustix::fs::getxattr(from, name, &mut *value).unwrap();
    rustix::fs::setxattr(to, name, &value[..length], XattrFlags::empty()).unwrap();
}

/// Creates another file with the same data, attributes, owner and permissions, as from a backup.
fn restore(from: &Path, to: &Path, attribute: &str) {
    std::fs::copy(from, to).unwrap();
    copy_attribute(from, to, attribute);
    let mode = std::fs::metadata(from).unwrap().mode() & 0o7777;
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn restored_file_adopts_its_restored_stream() {
    let Some((folder, share)) = share() else { return };
    let data = bytes(LONG, 5);
    drop(share.put("f", &data));
    let backup = tempfile::tempdir().unwrap();
    let other = backup.path();
    std::fs::create_dir(other.join(NAME)).unwrap();
    let mode = std::fs::Permissions::from_mode(STORE_MODE);
    std::fs::set_permissions(other.join(NAME), mode).unwrap();
    let file = &share.files()[0];
    let restored = other.join(NAME).join(file.file_name().unwrap());
    restore(&share.root.join("f"), &other.join("f"), "user.DosStream.s:$DATA");
    restore(file, &restored, RECORD);
    std::fs::remove_file(share.root.join("f")).unwrap();
    drop(share);
    // Its store would be scanned, too.
    drop(folder);
    let share = StreamStoreShare::open(other);
    if persistent_id(std::fs::File::open(&restored).unwrap().as_fd()).is_none() {
        return; // No handles here.
    }
    sweep::look_at_all(&mut sweep::Breaks::default());
    let node = share.look("f");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&restored, Some(4001), None).unwrap();
        assert_eq!(read(&node), Err(FsError::Unavailable), "it is of another owner");
        std::os::unix::fs::chown(&restored, Some(0), None).unwrap();
    }
    assert_eq!(read_soon(&node).unwrap(), data);
    node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, b"new").unwrap();
    assert_eq!(read(&node).unwrap()[..4], [b'n', b'e', b'w', data[3]]);
    let record = record_of(std::fs::File::open(&restored).unwrap().as_fd()).unwrap().unwrap();
    assert_eq!(record.host, HostIdentity::of(LocalNode::of(&*node).unwrap()));
}

#[test]
fn store_is_unreachable_by_name_link_and_handle() {
    let Some((_folder, share)) = share() else { return };
    drop(share.put("f", &bytes(LONG, 6)));
    let inside = format!("{NAME}/{}", share.files()[0].file_name().unwrap().to_str().unwrap());
    let open = |at: &str| {
        let how = OpenHow { read: true, no_follow: false, ..OpenHow::looking(Wait::Allowed) };
        share.vfs.open(WHO, &path(at), how).map(|_| ())
    };
    assert_eq!(open(NAME), Err(FsError::NotFound));
    assert!(matches!(open(&inside), Err(FsError::NotFound | FsError::PathNotFound)));
    let spelt = OpenHow { case: Case::Insensitive, ..OpenHow::looking(Wait::Allowed) };
    let shouted = path(&NAME.to_uppercase());
    assert_eq!(share.vfs.open(WHO, &shouted, spelt).map(|_| ()), Err(FsError::NotFound));
    symlink(NAME, share.root.join("d")).unwrap();
    symlink(&inside, share.root.join("l")).unwrap();
    assert_eq!(open("d"), Err(FsError::NotFound));
    assert_eq!(open("l"), Err(FsError::NotFound));
    let root = share.vfs.open(WHO, &RelPath::root(), OpenHow { read: true, ..spelt }).unwrap().node;
    let mut names = Vec::new();
    root.readdir(0, &mut |entry| {
        names.push(entry.name.as_bytes().to_vec());
        true
    })
    .unwrap();
    names.retain(|name| !matches!(&name[..], b"." | b".."));
    names.sort();
    assert_eq!(names, [b"d", b"f", b"l"]);
    let store = Name::new(NAME.as_bytes()).unwrap();
    let look = root.child_attributes(WHO, &store, AttributeRequest::default());
    assert_eq!(look.map(|_| ()), Err(FsError::NotFound));
    let store_path = path(NAME);
    let child = ChildName { directory: &*root, path: &store_path };
    let how = CreateHow::plain(FileKind::Directory, 0o755);
    let created = share.vfs.create(WHO, &store_path, Case::Insensitive, how);
    assert_eq!(created.map(|_| ()), Err(FsError::AccessDenied));
    assert!(share.vfs.lookup_child(WHO, child, OpenHow::looking(Wait::Allowed)).is_none());
    for inside in ["d/new", "d/NEW"] {
        let how = CreateHow::plain(FileKind::File, 0o644);
        let created = share.vfs.create(WHO, &path(inside), Case::Insensitive, how);
        assert_eq!(created.map(|_| ()), Err(FsError::PathNotFound), "by a link in the path");
        let moved = share.vfs.rename(WHO, &path("f"), &path(inside), Replace::Any);
        assert_eq!(moved, Err(FsError::PathNotFound));
    }
    let file_inside = path(&inside.replace(NAME, "d"));
    let key = key_of(&rustix::fs::stat(&share.files()[0]).unwrap());
    assert_eq!(share.vfs.remove(WHO, &file_inside, key), Err(FsError::PathNotFound));
    assert_eq!(share.files().len(), 1);
    let moved = share.vfs.rename(WHO, &store_path, &path("moved"), Replace::Never);
    assert_eq!(moved, Err(FsError::AccessDenied));
    let over = share.vfs.rename(WHO, &path("f"), &store_path, Replace::Any);
    assert_eq!(over, Err(FsError::AccessDenied));
    let file = std::fs::File::open(&share.files()[0]).unwrap();
    if let Some(handle) = persistent_id(file.as_fd()) {
        let found = share.vfs.find(
            Actor::server(ServerWork::LocateNode),
            &handle,
            AttributeRequest::default(),
        );
        assert_eq!(found.map(|_| ()), Err(FsError::Stale));
    }
}

#[test]
fn concurrent_changes_during_growth_lose_nothing() {
    let Some((_folder, share)) = share() else { return };
    for round in 0..8u64 {
        let node = share.put(&format!("f{round}"), b"");
        let length = 40_000;
        std::thread::scope(|scope| {
            for part in 0..4u64 {
                let node = &node;
                scope.spawn(move || {
                    for step in 0..50 {
                        let at = (step * 4 + part) * 200;
                        let data = bytes(200, part as u8);
                        node.need_streams()
                            .unwrap()
                            .write_stream(WHO, &stream("s"), at, &data)
                            .unwrap();
                        let mut seen = Vec::new();
                        node.need_streams()
                            .unwrap()
                            .read_stream(WHO, &stream("s"), at, 200, &mut seen)
                            .unwrap();
                        assert_eq!(seen, data);
                    }
                });
            }
        });
        let expected: Vec<u8> =
            (0..length / 200).flat_map(|part| bytes(200, (part % 4) as u8)).collect();
        assert_eq!(read(&node).unwrap(), expected);
    }
}

#[test]
fn long_stream_is_denied_without_rights_to_its_host() {
    let Some((_folder, share)) = share() else { return };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let node = share.put("f", &bytes(LONG, 8));
    let stranger = Identity { uid: 4001, gid: 4001, groups: Vec::new() };
    let who = stranger.actor();
    let write = |at| node.need_streams().unwrap().write_stream(who, &stream("s"), at, b"x");
    let read =
        || node.need_streams().unwrap().read_stream(who, &stream("s"), 0, 10, &mut Vec::new());
    assert_eq!(read(), Ok(10), "all may read");
    assert_eq!(write(0), Err(FsError::AccessDenied));
    assert_eq!(
        node.need_streams().unwrap().set_stream_size(who, &stream("s"), 0),
        Err(FsError::AccessDenied)
    );
    assert_eq!(
        node.need_streams().unwrap().stream_data(who, &stream("s"), true).map(|_| ()),
        Err(FsError::AccessDenied)
    );
    assert_eq!(
        node.need_streams().unwrap().remove_stream(who, &stream("s")),
        Err(FsError::AccessDenied)
    );
    let closed = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(share.root.join("f"), closed).unwrap();
    assert_eq!(read(), Err(FsError::AccessDenied));
    node.need_streams().unwrap().create_stream(WHO, &stream("t"), Case::Insensitive).unwrap();
    let files = share.files().len();
    let grown = node.need_streams().unwrap().write_stream(who, &stream("t"), 0, &bytes(LONG, 1));
    assert_eq!(grown, Err(FsError::AccessDenied));
    assert_eq!(share.files().len(), files, "nothing is left of what was refused");
}

#[test]
fn full_attributes_are_distinguished_from_a_full_disk() {
    let Some((_folder, share)) = share() else { return };
    let node = share.create("f");
    let mut is_full = false;
    for number in 0..64 {
        let name = XattrName::new(format!("filler{number}").as_bytes()).unwrap();
        is_full |= node.need_xattrs().unwrap().set_xattr(WHO, &name, Some(&[1; 200])).is_err();
    }
    if !is_full {
        return; // This file system has no limit.
    }
    for number in 64..70 {
        let name = XattrName::new(format!("filler{number}").as_bytes()).unwrap();
        let _ = node.need_xattrs().unwrap().set_xattr(WHO, &name, Some(&[1; 20]));
    }
    let name = stream(&"n".repeat(200));
    let created = node.need_streams().unwrap().create_stream(WHO, &name, Case::Sensitive);
    assert_eq!(created, Err(FsError::AttributesFull));
}

#[test]
fn store_created_by_another_user_is_not_used() {
    let Some((_folder, share)) = share() else { return };
    let store = share.root.join(NAME);
    std::fs::create_dir(&store).unwrap();
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o777)).unwrap();
    let node = share.put("f", b"short");
    let grown = node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, &bytes(LONG, 1));
    assert_eq!(grown, Err(FsError::AttributesFull));
    assert_eq!(read(&node).unwrap(), b"short");
    assert!(share.files().is_empty());
}

#[test]
fn store_left_incomplete_by_a_crash_is_completed() {
    let Some((_folder, share)) = share() else { return };
    let store = share.root.join(NAME);
    std::fs::create_dir(&store).unwrap();
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o700)).unwrap();
    drop(share.put("f", &bytes(LONG, 1)));
    assert_eq!(std::fs::metadata(&store).unwrap().mode() & 0o7777, STORE_MODE);
    assert_eq!(rustix::fs::getxattr(&store, RECORD, &mut [0; 16]), Ok(b"store".len()));
}

#[test]
fn file_moved_to_another_share_keeps_its_streams() {
    let Some((_folder, outer)) = share() else { return };
    std::fs::create_dir(outer.root.join("inner")).unwrap();
    let inner = StreamStoreShare::open(&outer.root.join("inner"));
    let data = bytes(LONG, 9);
    drop(inner.put("f", &data));
    assert_eq!((inner.files().len(), outer.files().len()), (1, 0), "in the nearest root");
    assert_eq!(read(&outer.look("inner/f")).unwrap(), data);
    outer.vfs.rename(WHO, &path("inner/f"), &path("f"), Replace::Never).unwrap();
    assert_eq!(read(&outer.look("f")).unwrap(), data);
    let key = outer.look("f").key();
    outer.vfs.remove(WHO, &path("f"), key).unwrap();
    assert!(inner.has_no_files_soon());
}

#[test]
fn interrupted_move_leaves_the_stream_in_its_attribute() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", b"short");
    let local = LocalNode::of(&*node).unwrap();
    let made = StoredFile::create(local, b"short").unwrap();
    let record = record_of(made.file.as_fd()).unwrap().unwrap();
    assert_eq!(record.host, HostIdentity::of(local), "before anything refers to it");
    drop(made);
    assert_eq!(read(&node).unwrap(), b"short");
    sweep::look_at_all(&mut sweep::Breaks::default());
    assert_eq!(share.files().len(), 1, "another server may be about to refer to it");
    node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, &bytes(LONG, 1)).unwrap();
    assert_eq!(read(&node).unwrap(), bytes(LONG, 1));
    let key = node.key();
    drop(node);
    share.vfs.remove(WHO, &path("f"), key).unwrap();
    assert!(share.has_no_files_soon());
}
