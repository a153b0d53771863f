//! Features of a tree, and changes of a node's security.

use crate::{OwnerChange, PosixAcl};

/// Features of a tree. Constant while the tree is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeFeatures {
    /// The backend stores holes as holes, and frees the space of a range that is zeroed.
    pub sparse: bool,
    /// [`crate::FileExtents::clone_range`] shares extents.
    pub reflink: bool,
    /// The file system compresses files on request: [`crate::FileExtents::set_compressed`], unless it is
    /// mounted read-only.
    pub compression: bool,
    /// The backend follows symbolic links within the tree; else it refuses each with
    /// [`crate::FsError::SymlinkMet`].
    pub follows_links: bool,
    /// The backend stores extended attributes, and with them DOS attributes and descriptors.
    pub xattrs: bool,
    /// Longest named stream that the backend can store, in bytes; one file may hold less. Zero if
    /// it stores no streams.
    pub stream_bytes_max: u64,
    /// Other machines or processes change files without notice to this one, so the server could not
    /// recall what a client caches.
    pub misses_remote_changes: bool,
    /// Calls by path and changes of names are always too slow for a connection's task to wait for;
    /// none completes inline.
    pub always_waits: bool,
    /// A file can have several names.
    pub hard_links: bool,
    /// The backend stores symbolic links.
    pub symlinks: bool,
    /// Two names of a directory may differ in case only.
    pub case_sensitive: bool,
    /// Identifies the file system for good; see [`FileSystemId`].
    pub file_system: Option<FileSystemId>,
    /// Number that distinguishes this file system from others on the machine, until it is mounted
    /// again.
    pub serial: u64,
}

/// Identifies a file system across mounts, restarts and device numbers. Copies of a device share it.
/// Only a file system whose persistent ids ([`crate::PersistentHandles::persistent_id`]) are never
/// given to a second node has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileSystemId(pub [u8; 16]);

/// Change of security for [`crate::Node::set_security`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SecurityChange<'a> {
    /// Self-relative security descriptor; none removes the stored one.
    pub descriptor: Option<&'a [u8]>,
    /// POSIX owner and group.
    pub owner: OwnerChange,
    /// Permissions of local users.
    pub permissions: Option<&'a PosixAcl>,
}
