//! An open file or directory: its descriptor and what is known of it. [`crate::node`] implements the
//! backend's interface for it.

use crate::attribute_calls::{XATTR_BYTES_MAX, get_xattr, proc_path, stat};
use crate::errors::refusal;
use crate::group_mark::UnmarkedVerdict;
use crate::identity::IdentityGuard;
use crate::stream_store::reserved::is_reserved;
use crate::unreported_change::UnreportedChange;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use std::sync::OnceLock;
use sync::Mutex;
use vfs::{
    Actor, AttributeRequest, Attributes, FileKey, FileKind, FsError, Node, RelPath, Result,
    Timestamp,
};

/// Length from which a node retains the path by which it was opened.
const LONG_PATH_BYTES: usize = 1024;

/// An open node.
#[derive(Debug)]
pub struct LocalNode {
    pub fd: OwnedFd,
    pub key: FileKey,
    /// Creation time, if the file system stores it.
    pub born: Option<Timestamp>,
    pub kind: FileKind,
    /// O_PATH descriptor: no I/O, and no attributes by descriptor.
    pub path_only: bool,
    pub readable: bool,
    /// The path by which the node was opened, if it is long: see [`crate::location`].
    opened_at: Option<RelPath>,
    /// The kernel does not notify every directory that lists this node of changes through this
    /// descriptor.
    pub is_unreported: bool,
    /// Serializes listings, because the directory position belongs to the descriptor.
    pub listing: Mutex<()>,
    /// For a directory with an O_PATH descriptor: the descriptor to sync it with, opened by the
    /// first sync. Few directories have name changes, and each change is synced.
    syncing: OnceLock<OwnedFd>,
    /// Cached answer to whether the file system is in memory only.
    pub of_memory: OnceLock<bool>,
    /// Whether a recent look found no set-group-ID bit that a write must preserve.
    pub unmarked: UnmarkedVerdict,
}

impl LocalNode {
    /// Wraps a descriptor.
    ///
    /// # Errors
    /// [`FsError::NotFound`] for a stream store or a file in it.
    pub fn new(
        fd: OwnedFd,
        path_only: bool,
        readable: bool,
        wanted: AttributeRequest,
    ) -> Result<(Self, Attributes)> {
        let attributes = stat(fd.as_fd(), c"", wanted, path_only)?;
        if is_reserved(fd.as_fd(), path_only, &attributes) {
            return Err(FsError::NotFound);
        }
        Ok((Self::of_stat(fd, path_only, readable, &attributes), attributes))
    }

    /// Wraps a stream's data file, which is open for reading.
    pub fn of_stream(fd: OwnedFd) -> Result<Self> {
        let attributes = stat(fd.as_fd(), c"", AttributeRequest::default(), false)?;
        Ok(Self::of_stat(fd, false, true, &attributes))
    }

    fn of_stat(fd: OwnedFd, path_only: bool, readable: bool, attributes: &Attributes) -> Self {
        let kind = attributes.kind;
        let readable = readable && !path_only && kind == FileKind::File;
        let (key, born, listing) = (attributes.key, attributes.born, Mutex::new(()));
        let is_unreported = kind != FileKind::Directory && attributes.links > 1;
        Self {
            fd,
            key,
            born,
            kind,
            path_only,
            readable,
            opened_at: None,
            is_unreported,
            listing,
            syncing: OnceLock::new(),
            of_memory: OnceLock::new(),
            unmarked: UnmarkedVerdict::default(),
        }
    }

    /// Records the path by which the node was opened.
    pub fn opened_by(self, path: &RelPath) -> Self {
        // With the root's path it may exceed the kernel's limit.
        let is_long = path.as_bytes().len() > LONG_PATH_BYTES;
        Self { opened_at: is_long.then(|| path.clone()), ..self }
    }

    /// See [`LocalNode::opened_by`].
    pub fn opened_at(&self) -> Option<&RelPath> {
        self.opened_at.as_ref()
    }

    /// Downcasts the trait object; `None` for a node of another backend.
    pub fn of(node: &dyn Node) -> Option<&Self> {
        node.as_any().downcast_ref()
    }

    /// True for an O_PATH descriptor.
    pub fn is_path_only(&self) -> bool {
        self.path_only
    }

    /// The descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A path that refers to this node, for calls that take no descriptor.
    pub fn proc_path(&self) -> String {
        proc_path(self.fd.as_fd())
    }

    /// The attributes by `fstat`.
    pub fn raw_stat(&self) -> Result<rustix::fs::Stat> {
        rustix::fs::fstat(&self.fd).map_err(|e| refusal("stat", e))
    }

    /// True if the file system has free blocks, so that ENOSPC means another shortage.
    pub fn has_free_blocks(&self) -> bool {
        rustix::fs::fstatvfs(&self.fd).is_ok_and(|stat| stat.f_bavail > 0)
    }

    /// The value of an extended attribute.
    pub fn get_xattr(&self, name: impl Arg + Copy) -> rustix::io::Result<Vec<u8>> {
        get_xattr(self.fd.as_fd(), self.path_only, name)
    }

    /// Sets or removes an extended attribute.
    pub fn put_xattr(
        &self,
        name: impl Arg,
        value: Option<&[u8]>,
        flags: XattrFlags,
    ) -> rustix::io::Result<()> {
        let _change = (self.unreported_change(), vfs::freshness::begin_change());
        match (value, self.path_only) {
            (Some(value), false) => rustix::fs::fsetxattr(&self.fd, name, value, flags),
            (Some(value), true) => rustix::fs::setxattr(self.proc_path(), name, value, flags),
            (None, false) => rustix::fs::fremovexattr(&self.fd, name),
            (None, true) => rustix::fs::removexattr(self.proc_path(), name),
        }
    }

    /// The names of all extended attributes, each with a NUL.
    pub fn list_xattrs(&self) -> rustix::io::Result<Vec<u8>> {
        let list = |buffer: &mut [u8]| {
            if self.path_only {
                rustix::fs::listxattr(self.proc_path(), buffer)
            } else {
                rustix::fs::flistxattr(&self.fd, buffer)
            }
        };
        let mut small = [0u8; 512];
        match list(&mut small) {
            Ok(length) => Ok(small[..length].to_vec()),
            Err(Errno::RANGE) => {
                let mut large = vec![0; XATTR_BYTES_MAX];
                let length = list(&mut large)?;
                large.truncate(length);
                Ok(large)
            }
            Err(errno) => Err(errno),
        }
    }

    /// The caller holds the value until the change is complete.
    pub fn unreported_change(&self) -> Option<UnreportedChange> {
        self.is_unreported.then(UnreportedChange::begin)
    }

    /// The descriptor to sync an O_PATH directory with.
    pub fn syncing(&self, who: Actor<'_>) -> Result<&OwnedFd> {
        if let Some(syncing) = self.syncing.get() {
            return Ok(syncing);
        }
        let _acting = IdentityGuard::begin(who)?;
        let opened = rustix::fs::open(self.proc_path(), SYNC_FLAGS, Mode::empty());
        let opened = opened.map_err(|e| refusal("sync", e))?;
        // Another thread may have set it first.
        Ok(self.syncing.get_or_init(|| opened))
    }

    /// The descriptor, if the node is a file that is open for data.
    ///
    /// # Errors
    /// [`FsError::IsDirectory`], [`FsError::OpenMode`].
    pub fn file(&self) -> Result<&OwnedFd> {
        match self.kind {
            FileKind::File if !self.path_only => Ok(&self.fd),
            FileKind::Directory => Err(FsError::IsDirectory),
            _ => Err(FsError::OpenMode),
        }
    }
}

impl LocalNode {
    /// Syncs the node's own data and attributes, without its long streams.
    pub fn sync_this(&self) -> rustix::io::Result<()> {
        let directory =
            if self.kind == FileKind::Directory { OFlags::DIRECTORY } else { OFlags::empty() };
        let file = rustix::fs::open(self.proc_path(), SYNC_FLAGS | directory, Mode::empty())?;
        rustix::fs::fsync(file)
    }
}

/// Flags for reopening an O_PATH node to sync it.
const SYNC_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Syncs an O_PATH node, which requires another descriptor.
pub fn sync_looked_at(fd: BorrowedFd<'_>, kind: FileKind) -> rustix::io::Result<()> {
    let (path, flags) = (proc_path(fd), SYNC_FLAGS);
    if kind == FileKind::File {
        return rustix::fs::fsync(rustix::fs::open(path, flags, Mode::empty())?);
    }
    // A link cannot be opened, and opening a pipe or device has side effects. So the complete file
    // system is synced, by the parent directory.
    let place = match rustix::fs::readlink(path, Vec::new()) {
        // The kernel cannot report the directory's path, so all file systems are synced.
        Err(Errno::NAMETOOLONG) => {
            rustix::fs::sync();
            return Ok(());
        }
        place => place?.into_bytes(),
    };
    let end = place.iter().rposition(|byte| *byte == b'/').ok_or(Errno::NOENT)?;
    let directory =
        rustix::fs::open(&place[..end.max(1)], flags | OFlags::DIRECTORY, Mode::empty())?;
    if rustix::fs::fstat(&directory)?.st_dev != rustix::fs::fstat(fd)?.st_dev {
        return Err(Errno::IO);
    }
    rustix::fs::syncfs(directory)
}
