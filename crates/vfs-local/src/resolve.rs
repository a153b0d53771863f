//! From a path to a descriptor, without leaving the directory.

use crate::case;
use crate::errors::refusal;
use crate::stream_store;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use vfs::{Case, FsError, Name, RelPath, Result, Wait};

/// Tries when a rename elsewhere disturbs a look-up (EAGAIN of RESOLVE_BENEATH).
const TRIES_MAX: u32 = 16;

/// Longest path that one system call takes: PATH_MAX without its NUL. path_resolution(7).
const PIECE_BYTES_MAX: usize = 4095;

/// Where paths begin, and what becomes of symbolic links in them.
#[derive(Clone, Copy)]
pub struct Root<'a> {
    pub fd: BorrowedFd<'a>,
    /// [`Errno::LOOP`] for every link that is met.
    pub stops_at_links: bool,
}

/// Opens `path` below `root`: in one system call, if it takes so long a path. Stores of streams are
/// not there.
pub fn open_beneath(
    root: Root<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    wait: Wait,
) -> rustix::io::Result<OwnedFd> {
    if stream_store::leads_into_store(path) {
        return Err(Errno::NOENT);
    }
    match path.len() {
        0..=PIECE_BYTES_MAX => open_piece(root, path, flags, mode, wait),
        _ => open_long(root, path, (flags, mode), wait, || {}),
    }
}

/// Opens `path` piece by piece. A directory between two pieces may be moved out of the tree
/// meanwhile: what was opened counts if the pieces lead to the same directories afterwards. Links
/// are followed within a piece: one that leads above it is refused as one that leads out.
///
/// `opened_one`: called before that is looked at.
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
            // One has moved, and the path may lead elsewhere by now, or nowhere.
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::AGAIN)
}

/// The directories at the ends of the pieces of a path, each opened below the one before.
fn open_pieces(root: Root<'_>, pieces: &[&[u8]], wait: Wait) -> rustix::io::Result<Vec<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut directories: Vec<OwnedFd> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let at = Root { fd: directories.last().map_or(root.fd, AsFd::as_fd), ..root };
        directories.push(open_piece(at, piece, flags, Mode::empty(), wait)?);
    }
    Ok(directories)
}

/// Which directories are open: while they are, none of their numbers is given to another.
fn keys(directories: &[OwnedFd]) -> rustix::io::Result<Vec<(u64, u64)>> {
    let key = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino));
    directories.iter().map(key).collect()
}

/// A path in pieces, of as many whole components each as one system call takes.
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
    // A link in the path may lead into a store of streams.
    let not_store = |fd: OwnedFd, path| match stream_store::is_store(fd.as_fd()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of components of this many bytes each.
    fn path(component: usize, count: usize) -> Vec<u8> {
        vec![vec![b'n'; component]; count].join(&b'/')
    }

    #[test]
    fn long_path_does_not_lead_into_a_directory_that_was_moved_out() {
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
        // It comes back: what is opened then is in the tree.
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
    fn pieces_are_whole_components_that_one_call_takes() {
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
