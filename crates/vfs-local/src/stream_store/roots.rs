//! Where stores are: in the roots of what this process serves, and where a file system is mounted
//! below one.
//!
//! Shares may overlap, and a file may be moved from one to another of the same file system, with
//! its streams' files where they are. So a stream is looked for in every store of the file system.

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
/// File systems below shares whose mount points are known.
const MOUNTED_MAX: usize = 256;

/// The root of a tree that is served.
#[derive(Debug)]
pub struct ServedRoot {
    fd: OwnedFd,
    pub(super) key: FileKey,
    /// Nothing refers to files in its store but what is served: not so in a snapshot.
    pub(super) is_swept: bool,
}

/// A file system that is mounted below a root. It is not held open, or it could not be unmounted.
struct Mounted {
    device: u64,
    path: Vec<u8>,
}

struct Roots {
    served: Vec<Weak<ServedRoot>>,
    mounted: Vec<Mounted>,
}

static ROOTS: Mutex<Roots> = Mutex::new(Roots { served: Vec::new(), mounted: Vec::new() });

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

/// The store of a root, if there is one.
pub(super) fn store_of(root: &ServedRoot) -> Option<OwnedFd> {
    open_store(root.fd.as_fd()).ok()
}

/// The stores in which a file's streams may be.
pub(super) fn stores_of(node: &LocalNode) -> Vec<OwnedFd> {
    let mut found = stores_on(node.key.device);
    if found.is_empty() {
        let above = directory_for(node).and_then(|directory| open_store(directory.as_fd()));
        found.extend(above);
    }
    found
}

/// The stores on a device that are known.
pub(super) fn stores_on(device: u64) -> Vec<OwnedFd> {
    let on_device = |root: &Arc<ServedRoot>| root.key.device == device;
    let mut found: Vec<_> =
        served().iter().filter(|r| on_device(r)).filter_map(|r| store_of(r)).collect();
    for path in mounted_on(device) {
        let store = open_directory(&path).and_then(|directory| {
            let stat = rustix::fs::fstat(&directory)?;
            if stat.st_dev == device { open_store(directory.as_fd()) } else { Err(Errno::XDEV) }
        });
        found.extend(store);
    }
    found
}

fn mounted_on(device: u64) -> Vec<Vec<u8>> {
    let roots = roots();
    let here = roots.mounted.iter().filter(|mounted| mounted.device == device);
    here.map(|mounted| mounted.path.clone()).collect()
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
                remember_mounted(device, directory.as_fd());
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

fn remember_mounted(device: u64, directory: BorrowedFd<'_>) {
    let Ok(path) = kernel_path(directory) else { return };
    let mut roots = roots();
    roots.mounted.retain(|mounted| mounted.device != device || mounted.path != path);
    if roots.mounted.len() >= MOUNTED_MAX {
        roots.mounted.remove(0);
    }
    roots.mounted.push(Mounted { device, path });
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
