//! A search for files that refer to streams' files whose host is gone.
//!
//! A file that a local program has removed may come back from a backup under another number, with
//! the attribute that refers to its stream. Until a client opens the stream nothing says so but that
//! attribute. So a stream's file that the look through a store finds without a host is removed only
//! after a search of what is served of its file system, and was: the file that refers to it has the
//! stream from then on ([`super::adoption`]). Where the search cannot look everywhere nothing is
//! removed.

use super::record::StoredId;
use super::{StoredFile, is_store_name, roots};
use crate::node::LocalNode;
use crate::streams;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::mem::MaybeUninit;
use vfs::Wanted;

/// Directories that are still to be searched: some hundred megabytes of paths.
const DIRECTORIES_MAX: usize = 1 << 20;
/// Entries after which others have their turn.
const BATCH_ENTRIES: usize = 64;
/// Bytes read from a directory at once.
const LIST_BYTES: usize = 32 * 1024;
/// Bytes of the names of a file's attributes: XATTR_LIST_MAX of Linux.
const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;

/// Searches a file system for files that refer to these streams' files, and has them adopt those.
/// Returns the ids that nothing refers to; none if the search could not be completed.
///
/// `pause` is called again and again.
pub fn without_reference(
    device: u64,
    sought: HashSet<StoredId>,
    pause: &mut dyn FnMut(),
) -> Option<HashSet<StoredId>> {
    let mut search =
        Search { device, sought, names: vec![0; ATTRIBUTES_BYTES_MAX], entries: 0, pause };
    for top in roots::tops_on(device) {
        if search.sought.is_empty() {
            break;
        }
        if let Err(error) = search.below(&top) {
            tracing::debug!(%error, "streams of files that may come back are kept");
            return None;
        }
    }
    Some(search.sought)
}

struct Search<'a> {
    device: u64,
    sought: HashSet<StoredId>,
    /// For the names of a file's attributes.
    names: Vec<u8>,
    entries: usize,
    pause: &'a mut dyn FnMut(),
}

impl Search<'_> {
    fn below(&mut self, top: &OwnedFd) -> rustix::io::Result<()> {
        self.look_at(top, b".");
        let mut pending = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            if self.sought.is_empty() {
                return Ok(());
            }
            match open_below(top, &path) {
                Ok(directory) => self.list(&directory, &path, &mut pending)?,
                // It is gone, or another file system is mounted there.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Looks at what is in a directory, and adds the directories in it to those to be searched.
    fn list(
        &mut self,
        directory: &OwnedFd,
        path: &[u8],
        pending: &mut Vec<Vec<u8>>,
    ) -> rustix::io::Result<()> {
        let mut buffer = vec![MaybeUninit::uninit(); LIST_BYTES];
        let mut entries = RawDir::new(directory, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || is_store_name(name) {
                continue;
            }
            self.entries += 1;
            if self.entries.is_multiple_of(BATCH_ENTRIES) {
                (self.pause)();
            }
            let kind = kind_of(directory, name, entry.file_type());
            if kind == FileType::Directory {
                if pending.len() >= DIRECTORIES_MAX {
                    return Err(Errno::NOMEM);
                }
                let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
                pending.push([path, separator, name].concat());
            }
            if matches!(kind, FileType::Directory | FileType::RegularFile) {
                self.look_at(directory, name);
            }
        }
        Ok(())
    }

    /// Looks at one file or directory.
    fn look_at(&mut self, directory: &OwnedFd, name: &[u8]) {
        let at = [format!("/proc/self/fd/{}/", directory.as_raw_fd()).as_bytes(), name].concat();
        let Ok(length) = rustix::fs::llistxattr(&*at, &mut *self.names) else { return };
        if !streams::has_any(&self.names[..length]) {
            return;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(fd) = rustix::fs::openat(directory, name, flags, Mode::empty()) else { return };
        let Ok((node, _)) = LocalNode::new(fd, true, false, Wanted::default()) else { return };
        if node.key.device != self.device {
            return;
        }
        for id in streams::ids_of(&node).unwrap_or_default() {
            if self.sought.remove(&id) {
                // It becomes that file's; or is kept, and the log says why it does not.
                let _ = StoredFile::open(&node, id, false);
            }
        }
    }
}

fn kind_of(directory: &OwnedFd, name: &[u8], listed: FileType) -> FileType {
    if listed != FileType::Unknown {
        return listed;
    }
    let found = rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    found.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

fn open_below(top: &OwnedFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stays = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(top.as_fd(), path, flags, Mode::empty(), stays)
}
