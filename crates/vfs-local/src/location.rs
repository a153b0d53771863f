//! The current path of an open node.
//!
//! The kernel reports a path of at most 4,095 bytes, from the root of the process. For a deeper
//! node the path by which it was opened is tried first. Otherwise the names are collected upwards,
//! directory by directory, until the kernel knows the path of one. Unlike the kernel's report
//! neither is atomic, so the result counts only if it leads from the root of the tree to that very
//! node afterwards.

use crate::identity::as_server;
use crate::resolve::{Root, open_beneath};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use vfs::{FsError, Name, RelPath, ServerWork, Wait};

/// Attempts to collect names while directories are renamed.
const TRIES_MAX: u32 = 4;
/// Bytes read from a directory per call.
const BUFFER_BYTES: usize = 32 * 1024;

/// The path of an open directory below the directory `root`; `None` if it lies elsewhere or was
/// removed. `opened_at` is the path by which it was opened, if it is known and long.
pub fn path_below(
    root: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    opened_at: Option<&RelPath>,
) -> Option<RelPath> {
    // The kernel appends a suffix to the path of a removed directory.
    if rustix::fs::fstat(directory).ok()?.st_nlink == 0 {
        return None;
    }
    match kernel_path(directory) {
        Ok(path) => below(&kernel_path(root).ok()?, &path),
        Err(Errno::NAMETOOLONG) => long_path_below(root, directory, opened_at),
        Err(_) => None,
    }
}

/// Converts a path that the kernel reports ([`kernel_path`]) to a path below the directory `root`.
pub fn path_of_link(root: BorrowedFd<'_>, link: &[u8]) -> Option<RelPath> {
    below(&kernel_path(root).ok()?, link)
}

/// Like [`path_below`], for any node whose path exceeds the kernel's limit. For a node other than a
/// directory only the path by which it was opened can be tried.
pub fn known_path(
    root: BorrowedFd<'_>,
    node: BorrowedFd<'_>,
    opened_at: Option<&RelPath>,
) -> Option<RelPath> {
    let leads_here = |path: &&RelPath| leads_to(root, path, node);
    opened_at.filter(leads_here).cloned()
}

/// The path of an open node as the kernel reports it.
pub fn kernel_path(fd: BorrowedFd<'_>) -> rustix::io::Result<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::readlink(link, Vec::new()).map(std::ffi::CString::into_bytes)
}

/// The name of an open directory in its open parent.
pub fn name_of(parent: BorrowedFd<'_>, directory: BorrowedFd<'_>) -> Option<Name> {
    match kernel_path(directory) {
        Ok(path) => Name::new(path.rsplit(|b| *b == b'/').next()?).ok(),
        Err(Errno::NAMETOOLONG) => find_name(parent, directory).ok().flatten(),
        Err(_) => None,
    }
}

/// The part of a path below the root's path.
fn below(root: &[u8], path: &[u8]) -> Option<RelPath> {
    let below = match path.strip_prefix(root)? {
        below if root == b"/" => below,
        [] => &[],
        [b'/', below @ ..] => below,
        _ => return None,
    };
    let components = below.split(|b| *b == b'/').filter(|name| !name.is_empty());
    components.map(|name| Name::new(name).ok()).collect()
}

fn long_path_below(
    root: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    opened_at: Option<&RelPath>,
) -> Option<RelPath> {
    // Runs as the server, because the user may lack permission on a directory above.
    let found = as_server(ServerWork::LocateNode, || {
        if let Some(path) = known_path(root, directory, opened_at) {
            return Ok(Some(path));
        }
        for _ in 0..TRIES_MAX {
            let Some(path) = gather(root, directory) else { return Ok(None) };
            if leads_to(root, &path, directory) {
                return Ok(Some(path));
            }
        }
        Err(FsError::Stale)
    });
    found.ok().flatten()
}

/// Collects the names from a directory upwards, below the first directory whose path the kernel
/// reports.
fn gather(root: BorrowedFd<'_>, directory: BorrowedFd<'_>) -> Option<RelPath> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = kernel_path(root).ok()?;
    let mut names = Vec::new();
    let mut bytes = 0;
    let mut at: Option<OwnedFd> = None;
    while bytes <= RelPath::LENGTH_MAX {
        let lower = at.as_ref().map_or(directory, AsFd::as_fd);
        let parent = rustix::fs::openat(lower, c"..", flags, Mode::empty()).ok()?;
        let name = find_name(parent.as_fd(), lower).ok()??;
        bytes += name.as_bytes().len() + 1;
        names.push(name);
        match kernel_path(parent.as_fd()) {
            Ok(path) => {
                let mut path = below(&own, &path)?;
                names.iter().rev().for_each(|name| path.push(name));
                return Some(path);
            }
            Err(Errno::NAMETOOLONG) => at = Some(parent),
            Err(_) => return None,
        }
    }
    None
}

/// Finds the name in `parent` that refers to `directory`.
fn find_name(
    parent: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
) -> rustix::io::Result<Option<Name>> {
    let wanted = rustix::fs::fstat(directory)?;
    // The entry of a mount point has the inode number of the covered directory.
    let is_mounted = rustix::fs::fstat(parent)?.st_dev != wanted.st_dev;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let list = rustix::fs::openat(parent, c".", flags, Mode::empty())?;
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
    let mut entries = RawDir::new(list, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        let may_be = matches!(entry.file_type(), FileType::Directory | FileType::Unknown)
            && (is_mounted || entry.ino() == wanted.st_ino);
        if !may_be || matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let found = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino) {
            return Ok(Name::new(name.to_bytes()).ok());
        }
    }
    Ok(None)
}

/// True if a path leads to an open node without following a link.
fn leads_to(root: BorrowedFd<'_>, path: &RelPath, node: BorrowedFd<'_>) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let root = Root { fd: root, stops_at_links: true };
    let key = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino));
    match open_beneath(root, path.as_bytes(), flags, Mode::empty(), Wait::Allowed) {
        Ok(found) => key(found.as_fd()).is_ok_and(|found| key(node) == Ok(found)),
        Err(_) => false,
    }
}
