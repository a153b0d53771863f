//! Searches a file system for files that refer to orphaned store files.
//!
//! A file that a local program removed may be restored from a backup with another inode number, and
//! with the attribute that refers to its stream. Until a client opens the stream, only that
//! attribute reveals the restore. So the sweep removes an orphan only after a search of its file
//! system, from the roots of all its mounts and of the served trees. The file that refers to an
//! orphan adopts it ([`super::adoption`]). Other processes may serve trees that this one does not.
//!
//! An incomplete search has no result, and nothing is removed: for instance if something could not
//! be opened or read, or was moved or mounted meanwhile. Only an entry that disappears before it is
//! examined is skipped.

use super::mounts::Extent;
use super::record::StoredId;
use super::{StoredFile, is_store_name, roots};
use crate::local_node::LocalNode;
use crate::streams;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::mem::MaybeUninit;
use vfs::AttributeRequest;

/// Maximum number of directories still to be searched: some hundred megabytes of paths.
const DIRECTORIES_MAX: usize = 1 << 20;
/// Number of entries between pauses.
const BATCH_ENTRIES: usize = 64;
/// Bytes read from a directory per call.
const LIST_BYTES: usize = 32 * 1024;
/// Buffer for the names of a file's attributes: XATTR_LIST_MAX of Linux.
const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;

/// Searches a file system for references to these store files, which the referring files then
/// adopt. Returns the ids without a reference; `None` if the search was incomplete.
///
/// The search calls `pause` regularly.
pub(super) fn without_reference(
    device: u64,
    sought: HashSet<StoredId>,
    extent: &Extent,
    pause: &mut dyn FnMut(),
) -> Option<HashSet<StoredId>> {
    search(vec![0; ATTRIBUTES_BYTES_MAX], device, sought, extent, pause)
}

/// See [`without_reference`]. `names` is the buffer for the names of a file's attributes.
pub(super) fn search(
    names: Vec<u8>,
    device: u64,
    sought: HashSet<StoredId>,
    extent: &Extent,
    pause: &mut dyn FnMut(),
) -> Option<HashSet<StoredId>> {
    let mut search = Search { device, sought, names, entries: 0, pause };
    match search.run(extent) {
        Ok(()) => Some(search.sought),
        Err(error) => {
            tracing::info!(%error, "long streams without a file are retained: their file system \
                could not be searched completely");
            None
        }
    }
}

struct Search<'a> {
    device: u64,
    sought: HashSet<StoredId>,
    /// Buffer for the names of a file's attributes.
    names: Vec<u8>,
    entries: usize,
    pause: &'a mut dyn FnMut(),
}

impl Search<'_> {
    fn run(&mut self, extent: &Extent) -> std::io::Result<()> {
        let mounts = extent.mounts(self.device)?;
        for top in roots::tops_on(self.device, &mounts, extent.is_strict())? {
            if self.sought.is_empty() {
                return Ok(());
            }
            self.below(&top.open()?)?;
        }
        // A later mount was not searched, and may have hidden part of the tree.
        if extent.mounts(self.device)? == mounts { Ok(()) } else { Err(Errno::BUSY.into()) }
    }

    fn below(&mut self, top: &OwnedFd) -> rustix::io::Result<()> {
        if !super::is_directory(&rustix::fs::fstat(top)?) {
            let path = format!("/proc/self/fd/{}", top.as_raw_fd());
            let listed = rustix::fs::listxattr(path, &mut *self.names);
            return self.look_at(listed, || rustix::io::fcntl_dupfd_cloexec(top, 0));
        }
        let mut pending = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            if self.sought.is_empty() {
                return Ok(());
            }
            match open_below(top, &path) {
                Ok(directory) => {
                    // By descriptor, because a file system mounted on the name might block.
                    let listed = rustix::fs::flistxattr(&directory, &mut *self.names);
                    self.look_at(listed, || rustix::io::fcntl_dupfd_cloexec(&directory, 0))?;
                    self.list(&directory, &path, &mut pending)?;
                }
                // A mount point. A mount of the same file system is a search root of its own.
                Err(Errno::XDEV) => {}
                // The directory may have been moved to a part that was already searched.
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Searches a directory, and queues its subdirectories.
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
            let Some(kind) = kind_of(directory, name, entry.file_type())? else { continue };
            match kind {
                FileType::Directory => {
                    if pending.len() >= DIRECTORIES_MAX {
                        return Err(Errno::NOMEM);
                    }
                    let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
                    pending.push([path, separator, name].concat());
                }
                FileType::RegularFile => self.look_at_entry(directory, name)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Examines a directory entry, which may have disappeared.
    fn look_at_entry(&mut self, directory: &OwnedFd, name: &[u8]) -> rustix::io::Result<()> {
        let at = [format!("/proc/self/fd/{}/", directory.as_raw_fd()).as_bytes(), name].concat();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(directory, name, flags, Mode::empty());
        let listed = rustix::fs::llistxattr(&*at, &mut *self.names);
        match self.look_at(listed, open) {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }

    /// Examines one file or directory. It is opened only if its attribute names include a stream.
    fn look_at(
        &mut self,
        listed: rustix::io::Result<usize>,
        open: impl FnOnce() -> rustix::io::Result<OwnedFd>,
    ) -> rustix::io::Result<()> {
        let length = match listed {
            // Another file system may be mounted there.
            Err(Errno::OPNOTSUPP) => return Ok(()),
            other => other?,
        };
        if !streams::has_any(&self.names[..length]) {
            return Ok(());
        }
        let failed = |_| Errno::IO;
        let (node, attributes) =
            LocalNode::new(open()?, true, false, AttributeRequest::default()).map_err(failed)?;
        if node.key.device != self.device || attributes.links == 0 {
            return Ok(());
        }
        for id in streams::ids_of(&node).map_err(failed)? {
            if self.sought.remove(&id) {
                // The file adopts it, or the log gives the reason for the refusal.
                let _ = StoredFile::open(&node, id, false);
            }
        }
        Ok(())
    }
}

/// The type of an entry; `None` if it disappeared.
fn kind_of(
    directory: &OwnedFd,
    name: &[u8],
    listed: FileType,
) -> rustix::io::Result<Option<FileType>> {
    if listed != FileType::Unknown {
        return Ok(Some(listed));
    }
    match rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn open_below(top: &OwnedFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stays = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(top.as_fd(), path, flags, Mode::empty(), stays)
}
