//! Registry of stores: in the roots of the served trees, and in file systems mounted below one.
//!
//! Shares may overlap, and a file may be moved between shares of one file system while its store
//! files stay in place. So a stream is looked up in each directory above its host: a store stays in
//! place when its share is reconfigured or removed, and is found there. Then it is looked up in
//! every other known store of the file system, and moved to where the first look-up finds it. The
//! location is cached, so that the cost of a call is independent of the number of shares.

use super::mounts::{Mount, mounts_in};
use super::record::StoredId;
use super::{key_of, make_store, open_store};
use crate::local_node::LocalNode;
use crate::location::kernel_path;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use sync::{Mutex, MutexGuard};
use vfs::{FileKey, FileKind};

/// Maximum number of directories examined above a file, more than any path has.
const LEVELS_MAX: usize = 16 * 1024;
/// Maximum number of cached stores outside share roots. Further ones are found again by the walk
/// upwards.
const PLACES_MAX: usize = 256;

/// The root of a served tree.
#[derive(Debug)]
pub struct ServedRoot {
    fd: Arc<OwnedFd>,
    pub(super) key: FileKey,
    /// Only served files refer to its store; false for a snapshot.
    pub(super) is_swept: bool,
    /// Number of times its store was opened.
    #[cfg(test)]
    pub(super) looks: AtomicU64,
}

impl Drop for ServedRoot {
    /// A retired share may hold streams of files that were moved to other shares. Its file system
    /// may block, so another thread registers them.
    fn drop(&mut self) {
        if self.is_swept {
            roots().retired.push((self.key.device, self.fd.clone()));
            super::sweep::ask();
        }
    }
}

/// Registers the stores of retired roots: those of a device, or all.
fn settle_retired(device: Option<u64>) {
    let is_meant = |of: u64| device.is_none_or(|device| device == of);
    let retired: Vec<_> = roots().retired.iter().filter(|(of, _)| is_meant(*of)).cloned().collect();
    for (device, fd) in &retired {
        if open_store(fd.as_fd()).is_ok() {
            remember(*device, fd.as_fd());
        }
    }
    // Not earlier, because concurrent look-ups would find such a store in neither list. Registering
    // twice is harmless.
    let is_settled = |fd: &Arc<OwnedFd>| retired.iter().any(|(_, done)| Arc::ptr_eq(fd, done));
    roots().retired.retain(|(_, fd)| !is_settled(fd));
}

/// A directory with a store that is no share root. It is not held open, so that its file system can
/// be unmounted.
#[derive(Debug)]
pub(super) struct OtherPlace {
    device: u64,
    path: Vec<u8>,
}

/// A directory with a store.
#[derive(Clone, Debug)]
pub(super) enum StorePlace {
    Root(Weak<ServedRoot>),
    Other(Arc<OtherPlace>),
}

/// An open store, and its location if it can be cached.
pub(super) struct FoundStore {
    pub store: rustix::io::Result<OwnedFd>,
    pub place: Option<StorePlace>,
}

struct Roots {
    served: Vec<Weak<ServedRoot>>,
    places: Vec<Arc<OtherPlace>>,
    /// Retired roots with their devices, until a thread has examined them.
    retired: Vec<(u64, Arc<OwnedFd>)>,
}

/// Maximum number of store files whose store is cached: a few megabytes.
const STORES_NOTED_MAX: usize = 1 << 14;

/// The store of each recently found store file.
static NOTED: LazyLock<Mutex<HashMap<StoredId, NotedStore>>> = LazyLock::new(Mutex::default);

/// See [`NOTED`].
#[derive(Clone, Debug)]
struct NotedStore {
    place: StorePlace,
    /// A write does not move the file out of this store.
    is_for_writes: bool,
}

fn noted() -> MutexGuard<'static, HashMap<StoredId, NotedStore>> {
    NOTED.lock()
}

/// Number of store files moved between stores.
static MOVES: AtomicU64 = AtomicU64::new(0);

/// Number of moves of store files between stores.
pub(super) fn moves() -> u64 {
    MOVES.load(Ordering::SeqCst)
}

/// Counts a move of a store file between stores.
pub(super) fn count_move() {
    MOVES.fetch_add(1, Ordering::SeqCst);
}

/// Caches the store in which a store file was found.
pub(super) fn note_store(id: StoredId, place: Option<StorePlace>) {
    note(id, place, true);
}

/// Caches a store from which the next write moves the store file.
pub(super) fn note_store_for_reads(id: StoredId, place: Option<StorePlace>) {
    note(id, place, false);
}

fn note(id: StoredId, place: Option<StorePlace>, is_for_writes: bool) {
    let Some(place) = place else { return };
    let mut noted = noted();
    if noted.len() >= STORES_NOTED_MAX && !noted.contains_key(&id) {
        noted.clear();
    }
    noted.insert(id, NotedStore { place, is_for_writes });
}

/// Removes a deleted store file from the cache.
pub(super) fn forget_store(id: StoredId) {
    noted().remove(&id);
}

/// The cached store of a store file.
pub(super) fn last_store_of(device: u64, id: StoredId, writes: bool) -> Option<OwnedFd> {
    let noted = noted().get(&id).filter(|noted| noted.is_for_writes || !writes).cloned()?;
    match noted.place {
        StorePlace::Root(root) => {
            let root = root.upgrade().filter(|root| root.key.device == device)?;
            root.open_store().ok()
        }
        StorePlace::Other(place) if place.device == device => place.open().ok(),
        StorePlace::Other(_) => None,
    }
}

static ROOTS: Mutex<Roots> =
    Mutex::new(Roots { served: Vec::new(), places: Vec::new(), retired: Vec::new() });

fn roots() -> MutexGuard<'static, Roots> {
    ROOTS.lock()
}

/// Registers a tree's stores for the lifetime of the returned value.
pub fn serve(root: BorrowedFd<'_>, is_swept: bool) -> rustix::io::Result<Arc<ServedRoot>> {
    let key = key_of(&rustix::fs::fstat(root)?);
    let served = Arc::new(ServedRoot {
        fd: Arc::new(root.try_clone_to_owned().map_err(|_| Errno::MFILE)?),
        key,
        is_swept,
        #[cfg(test)]
        looks: AtomicU64::new(0),
    });
    let mut roots = roots();
    roots.served.retain(|root| root.strong_count() > 0);
    roots.served.push(Arc::downgrade(&served));
    drop(roots);
    if is_swept {
        let has_mounted = remember_mounted(served.fd.as_fd());
        if has_mounted || open_store(served.fd.as_fd()).is_ok() {
            super::sweep::ask();
        }
    }
    Ok(served)
}

/// Registers the stores of file systems mounted below a directory, so that streams of their files
/// are found and removed with the files. Returns whether there is one.
fn remember_mounted(root: BorrowedFd<'_>) -> bool {
    let (Ok(path), Ok(mounts)) = (kernel_path(root), std::fs::read("/proc/self/mountinfo")) else {
        return false;
    };
    // Other file systems may block, or be automounted by the access.
    let local = mounts_in(&mounts).filter(Mount::is_local);
    let below = local.filter(|mount| is_below(&mount.at, &path)).take(PLACES_MAX);
    let remembered = below.filter(|mount| {
        let Ok(directory) = open_directory(&mount.at) else { return false };
        let Ok(stat) = rustix::fs::fstat(&directory) else { return false };
        open_store(directory.as_fd()).is_ok() && remember(stat.st_dev, directory.as_fd()).is_some()
    });
    remembered.count() > 0
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    path.strip_prefix(directory).is_some_and(|rest| rest.len() > 1 && rest[0] == b'/')
}

/// All served roots.
pub(super) fn served() -> Vec<Arc<ServedRoot>> {
    roots().served.iter().filter_map(Weak::upgrade).collect()
}

impl ServedRoot {
    fn open_store(&self) -> rustix::io::Result<OwnedFd> {
        #[cfg(test)]
        self.looks.fetch_add(1, Ordering::Relaxed);
        open_store(self.fd.as_fd())
    }
}

/// The known stores of a device, opened on demand. A location without a store is skipped. Any other
/// failure means that streams may exist in an unreachable store.
pub(super) fn stores_on(device: u64) -> impl Iterator<Item = FoundStore> {
    let on_device = move |root: &Arc<ServedRoot>| root.key.device == device;
    let in_roots = served().into_iter().filter(on_device).map(|root| FoundStore {
        store: root.open_store(),
        place: Some(StorePlace::Root(Arc::downgrade(&root))),
    });
    let elsewhere = places_on(device)
        .into_iter()
        .map(|place| FoundStore { store: place.open(), place: Some(StorePlace::Other(place)) });
    in_roots.chain(elsewhere).filter(|found| is_store(&found.store))
}

fn is_store(store: &rustix::io::Result<OwnedFd>) -> bool {
    !matches!(store, Err(Errno::NOENT | Errno::NOTDIR | Errno::XDEV))
}

/// A directory below which files may refer to streams, or such a file. It is not held open.
#[derive(Debug)]
pub(super) struct SearchTop {
    source: TopSource,
    key: (u64, FileKey),
}

#[derive(Debug)]
enum TopSource {
    Mount(Vec<u8>),
    Root(Arc<ServedRoot>),
    Place(Arc<OtherPlace>),
}

impl TopSource {
    fn open(&self) -> rustix::io::Result<OwnedFd> {
        match self {
            Self::Mount(path) => open_mounted(path),
            Self::Root(root) => open_directory_at(root.fd.as_fd(), c"."),
            Self::Place(place) => place.open_directory(),
        }
    }

    fn into_top(self) -> rustix::io::Result<SearchTop> {
        let key = key_in_mount(&self.open()?)?;
        Ok(SearchTop { source: self, key })
    }
}

impl SearchTop {
    /// Opens it with O_PATH.
    ///
    /// # Errors
    /// [`Errno::STALE`] if it is another node by now.
    pub(super) fn open(&self) -> rustix::io::Result<OwnedFd> {
        let fd = self.source.open()?;
        if key_in_mount(&fd)? == self.key { Ok(fd) } else { Err(Errno::STALE) }
    }
}

/// Search roots for references to streams in the stores of a device: the roots of its mounts, and
/// the current and former served trees on it, without those below another one in the same mount.
///
/// # Errors
/// A search root cannot be opened. Unless `is_strict`, a former root may be missing.
pub(super) fn tops_on(
    device: u64,
    mounts: &[Mount],
    is_strict: bool,
) -> rustix::io::Result<Vec<SearchTop>> {
    let (mut all, is_whole) = mounted_tops(device, mounts)?;
    for root in served().into_iter().filter(|root| root.key.device == device) {
        all.push(TopSource::Root(root).into_top()?);
    }
    for place in places_on(device) {
        match TopSource::Place(place).into_top() {
            Ok(top) => all.push(top),
            // The complete file system is searched, so the location is covered.
            Err(_) if is_whole => {}
            Err(Errno::NOENT | Errno::NOTDIR | Errno::XDEV) if !is_strict => {}
            Err(errno) => return Err(errno),
        }
    }
    let keys: HashSet<_> = all.iter().map(|top| top.key).collect();
    let (mut seen, mut tops) = (HashSet::new(), Vec::new());
    for top in all {
        if seen.insert(top.key) && !has_above(&top.open()?, &keys)? {
            tops.push(top);
        }
    }
    Ok(tops)
}

fn open_mounted(path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Inode number of the root of each btrfs subvolume.
const SUBVOLUME_INODE: u64 = 256;

/// The roots of a device's mounts, and whether one of them is the root of the file system.
fn mounted_tops(device: u64, mounts: &[Mount]) -> rustix::io::Result<(Vec<SearchTop>, bool)> {
    let (mut tops, mut opened, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_whole = false;
    for mount in mounts {
        match open_mounted(&mount.at).and_then(rustix::fs::fstat) {
            Ok(stat) if stat.st_dev == device => {
                is_whole |= match mount.has_subvolumes() {
                    true => stat.st_ino == SUBVOLUME_INODE,
                    false => mount.root == b"/",
                };
                opened.push(mount);
                tops.push(TopSource::Mount(mount.at.clone()).into_top()?);
            }
            // Another subvolume.
            Ok(_) if mount.has_subvolumes() => {}
            // Another file system is mounted over it.
            Ok(_) => failed.push((mount, Errno::XDEV)),
            Err(errno) => failed.push((mount, errno)),
        }
    }
    let is_covered = |mount: &Mount| opened.iter().any(|other| mount.is_within(other));
    match failed.into_iter().find(|(mount, _)| !is_covered(mount)) {
        Some((_, errno)) => Err(errno),
        None => Ok((tops, is_whole)),
    }
}

/// Mount id and key of a descriptor. In another mount something else may be mounted on a
/// subdirectory.
fn key_in_mount(fd: &OwnedFd) -> rustix::io::Result<(u64, FileKey)> {
    let flags = rustix::fs::AtFlags::EMPTY_PATH;
    let stat = rustix::fs::statx(fd, c"", flags, rustix::fs::StatxFlags::MNT_ID)?;
    Ok((stat.stx_mnt_id, key_of(&rustix::fs::fstat(fd)?)))
}

/// Whether a look-up finds the name, or `None` if it is denied or skipped; and the thread's user
/// id.
fn has_above(directory: &OwnedFd, keys: &HashSet<(u64, FileKey)>) -> rustix::io::Result<bool> {
    if !super::is_directory(&rustix::fs::fstat(directory)?) {
        return Ok(false);
    }
    let mut at = directory.try_clone().map_err(|_| Errno::MFILE)?;
    for _ in 0..LEVELS_MAX {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let stays = ResolveFlags::NO_XDEV;
        let above = match rustix::fs::openat2(&at, c"..", flags, Mode::empty(), stays) {
            Err(Errno::XDEV) => return Ok(false),
            other => other?,
        };
        let key = key_in_mount(&above)?;
        if key == key_in_mount(&at)? {
            return Ok(false);
        }
        if keys.contains(&key) {
            return Ok(true);
        }
        at = above;
    }
    Err(Errno::NAMETOOLONG)
}

/// The stores that are swept.
pub(super) fn swept_stores() -> impl Iterator<Item = (OwnedFd, u64)> {
    let swept = served().into_iter().filter(|root| root.is_swept);
    let in_roots = swept.map(|root| (root.open_store(), root.key.device));
    settle_retired(None);
    let places = roots().places.clone();
    let elsewhere = places.into_iter().map(|place| (place.open(), place.device));
    in_roots.chain(elsewhere).filter_map(|(store, device)| Some((store.ok()?, device)))
}

impl OtherPlace {
    fn open(&self) -> rustix::io::Result<OwnedFd> {
        open_store(self.open_directory()?.as_fd())
    }

    fn open_directory(&self) -> rustix::io::Result<OwnedFd> {
        let directory = open_directory(&self.path)?;
        let is_same = rustix::fs::fstat(&directory)?.st_dev == self.device;
        if is_same { Ok(directory) } else { Err(Errno::XDEV) }
    }
}

fn places_on(device: u64) -> Vec<Arc<OtherPlace>> {
    // Roots on other devices may block.
    settle_retired(Some(device));
    roots().places.iter().filter(|place| place.device == device).cloned().collect()
}

/// The stores in the directories above a file, nearest first, up to the root of its file system.
/// Each is cached.
pub(super) fn stores_above(node: &LocalNode) -> StoresAbove {
    StoresAbove { next: Some(parent_of(node)), device: node.key.device, levels: 0 }
}

/// See [`stores_above`].
pub(super) struct StoresAbove {
    next: Option<rustix::io::Result<OwnedFd>>,
    device: u64,
    levels: usize,
}

impl StoresAbove {
    fn above(&mut self, at: BorrowedFd<'_>) -> rustix::io::Result<Option<OwnedFd>> {
        self.levels += 1;
        if self.levels >= LEVELS_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let above = open_directory_at(at, c"..")?;
        let (key, own) = (key_of(&rustix::fs::fstat(&above)?), key_of(&rustix::fs::fstat(at)?));
        Ok((key != own && key.device == self.device).then_some(above))
    }
}

impl Iterator for StoresAbove {
    type Item = FoundStore;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = match self.next.take()? {
                Ok(at) => at,
                Err(errno) => return Some(FoundStore { store: Err(errno), place: None }),
            };
            self.next = self.above(at.as_fd()).transpose();
            let store = open_store(at.as_fd());
            let place = store.is_ok().then(|| remember(self.device, at.as_fd())).flatten();
            if is_store(&store) {
                return Some(FoundStore { store, place });
            }
        }
    }
}

/// The store for a new stream of a file.
pub(super) fn store_for(node: &LocalNode) -> rustix::io::Result<OwnedFd> {
    make_store(directory_for(node)?.as_fd())
}

/// The directory of the store for a file: the nearest served root above it, or the highest
/// directory below that root on the file's file system.
fn directory_for(node: &LocalNode) -> rustix::io::Result<OwnedFd> {
    let device = node.key.device;
    let roots: Vec<_> = served().iter().map(|root| root.key).collect();
    let mut at = match parent_of(node) {
        Ok(directory) => directory,
        // The path is too long, or the file has no name any more.
        Err(_) => return any_root(device),
    };
    let mut highest = None;
    for _ in 0..LEVELS_MAX {
        let key = key_of(&rustix::fs::fstat(&at)?);
        let above = open_directory_at(at.as_fd(), c"..")?;
        let is_served = roots.contains(&key);
        let is_top = key_of(&rustix::fs::fstat(&above)?) == key;
        if key.device == device {
            highest = Some(at);
        }
        if is_served {
            let is_mounted = key.device != device;
            let directory = highest.ok_or(Errno::NOENT)?;
            if is_mounted {
                remember(device, directory.as_fd());
            }
            return Ok(directory);
        }
        if is_top {
            break;
        }
        at = above;
    }
    any_root(device)
}

fn any_root(device: u64) -> rustix::io::Result<OwnedFd> {
    let served = served();
    let root = served.iter().find(|root| root.key.device == device).ok_or(Errno::OPNOTSUPP)?;
    open_directory_at(root.fd.as_fd(), c".")
}

/// Registers a directory with a store, unless it is a share root.
fn remember(device: u64, directory: BorrowedFd<'_>) -> Option<StorePlace> {
    let key = rustix::fs::fstat(directory).map(|stat| key_of(&stat)).ok()?;
    if let Some(root) = served().iter().find(|root| root.key == key) {
        return Some(StorePlace::Root(Arc::downgrade(root)));
    }
    let path = kernel_path(directory).ok()?;
    let mut roots = roots();
    let is_same = |place: &Arc<OtherPlace>| place.device == device && place.path == path;
    if let Some(known) = roots.places.iter().find(|place| is_same(place)) {
        return Some(StorePlace::Other(known.clone()));
    }
    if roots.places.len() >= PLACES_MAX {
        roots.places.remove(0);
    }
    let place = Arc::new(OtherPlace { device, path });
    roots.places.push(place.clone());
    Some(StorePlace::Other(place))
}

/// The parent directory of a file, or the directory itself.
fn parent_of(node: &LocalNode) -> rustix::io::Result<OwnedFd> {
    use vfs::Node;
    if node.kind() == FileKind::Directory {
        return open_directory_at(node.as_fd(), c".");
    }
    let path = kernel_path(node.as_fd())?;
    let end = path.iter().rposition(|byte| *byte == b'/').ok_or(Errno::NOENT)?;
    let (parent, name) = (&path[..end.max(1)], &path[end + 1..]);
    let directory = open_directory(parent)?;
    let found = rustix::fs::statat(&directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    if key_of(&found) == node.key { Ok(directory) } else { Err(Errno::NOENT) }
}

fn open_directory(path: &[u8]) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn open_directory_at(
    directory: BorrowedFd<'_>,
    name: &std::ffi::CStr,
) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

/// Number of retired roots that no thread has examined yet.
#[cfg(test)]
pub(super) fn retired_count(key: FileKey) -> usize {
    let retired = roots().retired.clone();
    let is_same = |fd: &OwnedFd| rustix::fs::fstat(fd).is_ok_and(|stat| key_of(&stat) == key);
    retired.iter().filter(|(_, fd)| is_same(fd)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_directory_are_recognized() {
        let at = b"/srv/a b\\";
        assert!(is_below(at, b"/srv") && is_below(at, b"/"));
        for other in [&b"/srv/a"[..], b"/srv/a b\\", b"/srv/a b\\/c"] {
            assert!(!is_below(at, other));
        }
    }
}
