//! Resolves paths to descriptors without leaving the tree.

use crate::case;
use crate::errors::refusal;
use crate::stream_store::reserved;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use vfs::{Case, FsError, Name, RelPath, Result, Wait};

/// Attempts when a concurrent rename disturbs a look-up (EAGAIN of RESOLVE_BENEATH).
const TRIES_MAX: u32 = 16;

/// Maximum path length of one system call: PATH_MAX without its NUL. path_resolution(7).
const PIECE_BYTES_MAX: usize = 4095;

/// Origin of paths, and the treatment of symbolic links in them.
#[derive(Clone, Copy)]
pub struct Root<'a> {
    pub fd: BorrowedFd<'a>,
    /// Fail with [`Errno::LOOP`] at every symbolic link.
    pub stops_at_links: bool,
}

/// Opens `path` below `root`, in one system call if it is short enough. Stream stores are hidden.
pub fn open_beneath(
    root: Root<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    wait: Wait,
) -> rustix::io::Result<OwnedFd> {
    if reserved::leads_into_store(path) {
        return Err(Errno::NOENT);
    }
    match path.len() {
        0..=PIECE_BYTES_MAX => open_piece(root, path, flags, mode, wait),
        _ => open_long(root, path, (flags, mode), wait, || {}),
    }
}

/// Opens a long path piece by piece. A directory between two pieces may be moved out of the tree
/// meanwhile. So the result counts only if the pieces lead to the same directories afterwards.
/// Links are followed within a piece; a link that leads above the piece is refused like one that
/// leads out of the tree.
///
/// `opened_one` is called before that verification.
fn open_long(
    root: Root<'_>,
    path: &[u8],
    (flags, mode): (OFlags, Mode),
    wait: Wait,
    mut opened_one: impl FnMut(),
) -> rustix::io::Result<OwnedFd> {
    if path.len() > RelPath::LENGTH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    let pieces = pieces(path).ok_or(Errno::NAMETOOLONG)?;
    let Some((last, upper)) = pieces.split_last() else { return Err(Errno::NOENT) };
    for _ in 0..TRIES_MAX {
        let directories = open_pieces(root, upper, wait)?;
        let at = Root { fd: directories.last().map_or(root.fd, AsFd::as_fd), ..root };
        let opened = open_piece(at, last, flags, mode, wait)?;
        opened_one();
        match open_pieces(root, upper, wait) {
            Ok(again) if keys(&again)? == keys(&directories)? => return Ok(opened),
            // A directory was moved, and the path may now lead elsewhere or nowhere.
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::AGAIN)
}

/// Opens the directories at the ends of the pieces of a path, each below the previous one.
fn open_pieces(root: Root<'_>, pieces: &[&[u8]], wait: Wait) -> rustix::io::Result<Vec<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut directories: Vec<OwnedFd> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let at = Root { fd: directories.last().map_or(root.fd, AsFd::as_fd), ..root };
        directories.push(open_piece(at, piece, flags, Mode::empty(), wait)?);
    }
    Ok(directories)
}

/// Keys of the open directories. Their inode numbers cannot be reused while they are open.
fn keys(directories: &[OwnedFd]) -> rustix::io::Result<Vec<(u64, u64)>> {
    let key = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino));
    directories.iter().map(key).collect()
}

/// Splits a path into pieces of whole components, each short enough for one system call.
fn pieces(path: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut pieces, mut rest) = (Vec::new(), path);
    while rest.len() > PIECE_BYTES_MAX {
        let end = rest[..=PIECE_BYTES_MAX].iter().rposition(|byte| *byte == b'/')?;
        pieces.push(&rest[..end]);
        rest = &rest[end + 1..];
    }
    pieces.push(rest);
    Some(pieces)
}

/// Opens a path in one system call.
fn open_piece(
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

/// Opens the parent directory of `path` in its stored spelling, and returns that spelling.
///
/// # Errors
/// [`FsError::PathNotFound`] if the directory does not exist.
pub fn open_directory(
    root: Root<'_>,
    path: &RelPath,
    case: Case,
    wait: Wait,
) -> Result<(OwnedFd, RelPath)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    // A link in the path may lead into a stream store.
    let not_store = |fd: OwnedFd, path| match reserved::is_store(fd.as_fd()) {
        true => Err(FsError::PathNotFound),
        false => Ok((fd, path)),
    };
    match open_beneath(root, path.as_bytes(), flags, Mode::empty(), wait) {
        Ok(fd) => not_store(fd, path.clone()),
        Err(Errno::NOENT) if case == Case::Insensitive && !path.is_root() => {
            let spelt = respell(root, path).map_err(|e| path_refusal("respell", e))?;
            let fd = open_beneath(root, spelt.as_bytes(), flags, Mode::empty(), Wait::Allowed)
                .map_err(|e| path_refusal("open directory", e))?;
            not_store(fd, spelt)
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

/// The stored spelling of a path, component by component; [`Errno::NOENT`] if a component has no
/// match. Each directory stays open, so that a concurrent rename cannot redirect the look-up.
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

/// The stored spelling of one name; the name itself if it exists.
pub fn find_spelling(directory: &impl AsFd, name: &[u8]) -> Option<Name> {
    let exact = rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    match exact {
        Ok(_) => Name::new(name).ok(),
        Err(_) => case::find(directory, name),
    }
}

/// The error for a missing file: whether its directory is missing, or only the name.
pub fn missing(root: Root<'_>, path: &RelPath, case: Case, wait: Wait) -> FsError {
    let Some(parent) = path.parent() else { return FsError::Stale };
    match open_directory(root, &parent, case, wait) {
        Ok(_) => FsError::NotFound,
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of `count` components of `component` bytes each.
    fn path(component: usize, count: usize) -> Vec<u8> {
        vec![vec![b'n'; component]; count].join(&b'/')
    }

    #[test]
    fn long_path_never_leads_into_a_moved_out_directory() {
        let folder = tempfile::tempdir().unwrap();
        let (share, outside) = (folder.path().join("share"), folder.path().join("outside"));
        std::fs::create_dir(&share).unwrap();
        let root: OwnedFd = std::fs::File::open(&share).unwrap().into();
        let root = Root { fd: root.as_fd(), stops_at_links: true };
        let path = path(200, 30);
        let directory = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut at = root.fd.try_clone_to_owned().unwrap();
        for name in path.split(|byte| *byte == b'/') {
            rustix::fs::mkdirat(&at, name, Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, name, directory, Mode::empty()).unwrap();
        }
        let how = (OFlags::PATH, Mode::empty());
        assert!(open_long(root, &path, how, Wait::Allowed, || {}).is_ok());
        let top = "n".repeat(200);
        let mut moves = 0;
        let moved = open_long(root, &path, how, Wait::Allowed, || {
            std::fs::rename(share.join(&top), &outside).unwrap();
            moves += 1;
        });
        assert_eq!((moved.map(drop), moves), (Err(Errno::NOENT), 1));
        // The directory returns, so the node that is opened then is in the tree.
        std::fs::rename(&outside, share.join(&top)).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let came_back = open_long(root, &path, how, Wait::Allowed, || {
            let _ = std::fs::rename(share.join(&top), outside.join("top"));
            let _ = std::fs::rename(outside.join("top"), share.join(&top));
        });
        assert!(came_back.is_ok());
        let longer = [b"n".as_slice(); RelPath::LENGTH_MAX].join(&b'/');
        let longer = open_beneath(root, &longer, OFlags::PATH, Mode::empty(), Wait::Allowed);
        assert_eq!(longer.map(drop), Err(Errno::NAMETOOLONG));
    }

    #[test]
    fn path_pieces_are_whole_components_within_path_max() {
        for (component, count) in [(255, 64), (1, 8190), (200, 81), (63, 65)] {
            let path = path(component, count);
            let pieces = pieces(&path).unwrap();
            assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES_MAX));
            assert_eq!(pieces.join(&b'/'), path, "{component} bytes");
            let fewest = path.len().div_ceil(PIECE_BYTES_MAX - 255);
            assert!(pieces.len() <= fewest, "{} pieces", pieces.len());
        }
        assert_eq!(pieces(&[b'n'; 5000]), None, "no name is so long");
    }
}
