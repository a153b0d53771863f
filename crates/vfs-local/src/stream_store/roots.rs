//! Places of stores: the roots of what this process serves, and where a file system is mounted
//! below one.
//!
//! Shares may overlap, and a file may be moved from one to another of the same file system, with
//! its streams' files where they are. So a stream is looked for in every store of the file system
//! that is known, and then in each directory above its file: a store stays where it is when the
//! share that made it is configured otherwise or not any more, and is found there.

use super::{key_of, make_store, open_store};
use crate::location::kernel_path;
use crate::node::LocalNode;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use vfs::{FileKey, FileKind};

/// Directories that are looked at above a file: more than any path has.
const LEVELS_MAX: usize = 16 * 1024;
/// Stores in no root of a share that are remembered. Others are found again by the walk upwards.
const PLACES_MAX: usize = 256;

/// The root of a tree that is served.
#[derive(Debug)]
pub struct ServedRoot {
    fd: OwnedFd,
    pub(super) key: FileKey,
    /// Nothing refers to files in its store but what is served: not so in a snapshot.
    pub(super) is_swept: bool,
}

/// A directory with a store that is no root of a share. It is not held open, or its file system
/// could not be unmounted.
#[derive(Clone)]
struct StorePlace {
    device: u64,
    path: Vec<u8>,
}

struct Roots {
    served: Vec<Weak<ServedRoot>>,
    places: Vec<StorePlace>,
}

static ROOTS: Mutex<Roots> = Mutex::new(Roots { served: Vec::new(), places: Vec::new() });

fn roots() -> MutexGuard<'static, Roots> {
    ROOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the streams of a tree found for as long as what is returned lives.
pub fn serve(root: BorrowedFd<'_>, is_swept: bool) -> rustix::io::Result<Arc<ServedRoot>> {
    let key = key_of(&rustix::fs::fstat(root)?);
    let served = Arc::new(ServedRoot {
        fd: root.try_clone_to_owned().map_err(|_| Errno::MFILE)?,
        key,
        is_swept,
    });
    let mut roots = roots();
    roots.served.retain(|root| root.strong_count() > 0);
    roots.served.push(Arc::downgrade(&served));
    drop(roots);
    if is_swept && open_store(served.fd.as_fd()).is_ok() {
        super::sweep::ask();
    }
    Ok(served)
}

/// All roots that are served.
pub(super) fn served() -> Vec<Arc<ServedRoot>> {
    roots().served.iter().filter_map(Weak::upgrade).collect()
}

/// The known stores of a device, each opened as it is asked for. A place without a store is
/// passed over; any other failure says that streams may be where nobody could look.
pub(super) fn stores_on(device: u64) -> impl Iterator<Item = rustix::io::Result<OwnedFd>> {
    let on_device = move |root: &Arc<ServedRoot>| root.key.device == device;
    let in_roots = served().into_iter().filter(on_device).map(|root| open_store(root.fd.as_fd()));
    let elsewhere = places_on(device).into_iter().map(|place| place.open());
    in_roots.chain(elsewhere).filter(is_store)
}

fn is_store(store: &rustix::io::Result<OwnedFd>) -> bool {
    !matches!(store, Err(Errno::NOENT | Errno::NOTDIR | Errno::XDEV))
}

/// The stores whose streams are removed with their files.
pub(super) fn swept_stores() -> impl Iterator<Item = (OwnedFd, u64)> {
    let swept = served().into_iter().filter(|root| root.is_swept);
    let in_roots = swept.map(|root| (open_store(root.fd.as_fd()), root.key.device));
    let places = roots().places.clone();
    let elsewhere = places.into_iter().map(|place| (place.open(), place.device));
    in_roots.chain(elsewhere).filter_map(|(store, device)| Some((store.ok()?, device)))
}

impl StorePlace {
    fn open(&self) -> rustix::io::Result<OwnedFd> {
        let directory = open_directory(&self.path)?;
        let is_same = rustix::fs::fstat(&directory)?.st_dev == self.device;
        if is_same { open_store(directory.as_fd()) } else { Err(Errno::XDEV) }
    }
}

fn places_on(device: u64) -> Vec<StorePlace> {
    roots().places.iter().filter(|place| place.device == device).cloned().collect()
}

/// The stores in the directories above a file, up to the root of its file system, nearest first.
/// Each is remembered.
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
    type Item = rustix::io::Result<OwnedFd>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = match self.next.take()? {
                Ok(at) => at,
                Err(errno) => return Some(Err(errno)),
            };
            self.next = self.above(at.as_fd()).transpose();
            let store = open_store(at.as_fd());
            if store.is_ok() {
                remember(self.device, at.as_fd());
            }
            if is_store(&store) {
                return Some(store);
            }
        }
    }
}

/// The store for a new stream of a file.
pub(super) fn store_for(node: &LocalNode) -> rustix::io::Result<OwnedFd> {
    make_store(directory_for(node)?.as_fd())
}

/// The directory that has the store for a file: the nearest root above it that is served, or the
/// highest directory below that which is on the file's file system.
fn directory_for(node: &LocalNode) -> rustix::io::Result<OwnedFd> {
    let device = node.key.device;
    let roots: Vec<_> = served().iter().map(|root| root.key).collect();
    let mut at = match parent_of(node) {
        Ok(directory) => directory,
        // Its path is too long, or it has no name any more.
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

fn remember(device: u64, directory: BorrowedFd<'_>) {
    let Ok(key) = rustix::fs::fstat(directory).map(|stat| key_of(&stat)) else { return };
    let Ok(path) = kernel_path(directory) else { return };
    if served().iter().any(|root| root.key == key) {
        return;
    }
    let mut roots = roots();
    roots.places.retain(|place| place.device != device || place.path != path);
    if roots.places.len() >= PLACES_MAX {
        roots.places.remove(0);
    }
    roots.places.push(StorePlace { device, path });
}

/// The directory that a file is in, or the directory that the node is.
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
