//! From a path to a descriptor, without leaving the directory.

use crate::case;
use crate::errors::refusal;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use vfs::{Case, FsError, Name, RelPath, Result, Wait};

/// Tries when a rename elsewhere disturbs a look-up (EAGAIN of RESOLVE_BENEATH).
const TRIES_MAX: u32 = 16;

/// Where paths begin, and what becomes of symbolic links in them.
#[derive(Clone, Copy)]
pub struct Root<'a> {
    pub fd: BorrowedFd<'a>,
    /// [`Errno::LOOP`] for every link that is met.
    pub stops_at_links: bool,
}

/// Opens `path` below `root` in one system call.
pub fn open_beneath(
    root: Root<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    wait: Wait,
) -> rustix::io::Result<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if wait == Wait::Never {
        resolve |= ResolveFlags::CACHED;
    }
    if root.stops_at_links {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    let mut tries = 0;
    loop {
        match openat2(root.fd, path, flags | OFlags::CLOEXEC, mode, resolve) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if wait == Wait::Allowed && tries < TRIES_MAX => tries += 1,
            result => return result,
        }
    }
}

/// Opens the directory that `path` is in, spelt as stored; also gives the
/// spelling.
///
/// # Errors
/// [`FsError::PathNotFound`] if there is none.
pub fn open_directory(
    root: Root<'_>,
    path: &RelPath,
    case: Case,
    wait: Wait,
) -> Result<(OwnedFd, RelPath)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    match open_beneath(root, path.as_bytes(), flags, Mode::empty(), wait) {
        Ok(fd) => Ok((fd, path.clone())),
        Err(Errno::NOENT) if case == Case::Insensitive && !path.is_root() => {
            let spelt = respell(root, path).map_err(|e| path_refusal("respell", e))?;
            let fd = open_beneath(root, spelt.as_bytes(), flags, Mode::empty(), Wait::Allowed)
                .map_err(|e| path_refusal("open directory", e))?;
            Ok((fd, spelt))
        }
        Err(errno) => Err(path_refusal("open directory", errno)),
    }
}

fn path_refusal(operation: &'static str, errno: Errno) -> FsError {
    match refusal(operation, errno) {
        FsError::NotFound | FsError::NotDirectory => FsError::PathNotFound,
        other => other,
    }
}

/// The stored spelling of a path, component by component; [`Errno::NOENT`] if a
/// component has no match. Directories are held by descriptors, so that a rename on the
/// way cannot lead elsewhere.
pub fn respell(root: Root<'_>, path: &RelPath) -> rustix::io::Result<RelPath> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let mut directory =
        open_beneath(root, b"", flags | OFlags::DIRECTORY, Mode::empty(), Wait::Allowed)?;
    let mut spelt = RelPath::root();
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let name = find_spelling(&directory, component).ok_or(Errno::NOENT)?;
        if components.peek().is_some() {
            let next = open_beneath(
                root,
                spelt.join(&name).as_bytes(),
                flags,
                Mode::empty(),
                Wait::Allowed,
            );
            directory = next?;
        }
        spelt.push(&name);
    }
    Ok(spelt)
}

/// The stored spelling of one name: itself if it exists.
pub fn find_spelling(directory: &impl AsFd, name: &[u8]) -> Option<Name> {
    let exact = rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    match exact {
        Ok(_) => Name::new(name).ok(),
        Err(_) => case::find(directory, name),
    }
}

/// Whether a missing file lacks its directory, or only its own name.
pub fn missing(root: Root<'_>, path: &RelPath, case: Case, wait: Wait) -> FsError {
    let Some(parent) = path.parent() else { return FsError::Stale };
    match open_directory(root, &parent, case, wait) {
        Ok(_) => FsError::NotFound,
        Err(error) => error,
    }
}
