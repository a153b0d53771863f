//! A search for files that refer to streams' files whose host is gone.
//!
//! A file that a local program has removed may come back from a backup under another number, with
//! the attribute that refers to its stream. Until a client opens the stream nothing says so but that
//! attribute. So a stream's file that the look through a store finds without a host is removed only
//! after a search of its file system, from the roots of all its mounts and of what is served: the
//! file that refers to it has the stream from then on ([`super::adoption`]). Other processes may
//! serve what this one does not.
//!
//! A search that could not look at everything has found nothing out, and nothing is removed: where
//! something could not be opened or read, was moved meanwhile, or mounted. Only an entry that is gone
//! when it is looked at is passed over.

use super::mounts::Extent;
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
pub(super) fn without_reference(
    device: u64,
    sought: HashSet<StoredId>,
    extent: &Extent,
    pause: &mut dyn FnMut(),
) -> Option<HashSet<StoredId>> {
    search(vec![0; ATTRIBUTES_BYTES_MAX], device, sought, extent, pause)
}

/// See [`without_reference`]. The names of a file's attributes go into `names`.
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
            tracing::info!(%error, "long streams of files that may come back are kept: not all of \
                their file system could be searched");
            None
        }
    }
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
    fn run(&mut self, extent: &Extent) -> std::io::Result<()> {
        let mounts = extent.mounts(self.device)?;
        for top in roots::tops_on(self.device, &mounts, extent.is_strict())? {
            if self.sought.is_empty() {
                return Ok(());
            }
            self.below(&top.open()?)?;
        }
        // A later mount was not searched, and may have hidden what should have been.
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
                    // Not by its name: what is mounted there need not answer.
                    let listed = rustix::fs::flistxattr(&directory, &mut *self.names);
                    self.look_at(listed, || rustix::io::fcntl_dupfd_cloexec(&directory, 0))?;
                    self.list(&directory, &path, &mut pending)?;
                }
                // Something is mounted there: what is of the same file system is another top.
                Err(Errno::XDEV) => {}
                // It may have been moved to where the search has been.
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

    /// Looks at an entry of a directory, which may be gone by now.
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

    /// Looks at one file or directory, which is opened only if it has streams by the names of its
    /// attributes.
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
            LocalNode::new(open()?, true, false, Wanted::default()).map_err(failed)?;
        if node.key.device != self.device || attributes.links == 0 {
            return Ok(());
        }
        for id in streams::ids_of(&node).map_err(failed)? {
            if self.sought.remove(&id) {
                // It becomes that file's; or is kept, and the log says why it does not.
                let _ = StoredFile::open(&node, id, false);
            }
        }
        Ok(())
    }
}

/// The type of an entry; none if it is gone.
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
