//! Facts that a tree can store, and changes of a node's security.

use crate::{OwnerChange, PosixAcl};

/// Facts that a tree can store. Constant while it is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Holes are kept as holes.
    pub sparse: bool,
    /// [`Node::clone_range`] shares extents.
    pub reflink: bool,
    /// [`Node::set_compressed`] works.
    pub compression: bool,
    /// Symbolic links in paths are followed, within the tree; else every one that is met
    /// is [`FsError::SymlinkMet`].
    pub follows_links: bool,
    /// Extended attributes, and with them DOS attributes and descriptors, are stored.
    pub xattrs: bool,
    /// Longest named stream that can be stored, in bytes: a file may take less.
    /// Zero where there are no streams.
    pub stream_bytes_max: u64,
    /// Other machines or processes change files without this one hearing of it: what a client
    /// keeps of them could not be asked back.
    pub changed_unheard: bool,
    /// Reading moves no time of access: the administrator mounted it so.
    pub noatime: bool,
    /// Calls by a path, and those that change names, take longer than other requests of a
    /// connection can wait for, always: none is made at once.
    pub waits: bool,
    /// A number that tells this file system from others on the machine.
    pub serial: u64,
}

/// Security that [`Node::set_security`] is to store.
#[derive(Clone, Copy, Debug, Default)]
pub struct SecurityChange<'a> {
    /// The descriptor, self-relative; none to remove what is stored.
    pub descriptor: Option<&'a [u8]>,
    /// POSIX owner and group.
    pub owner: OwnerChange,
    /// Rights of local users.
    pub permissions: Option<&'a PosixAcl>,
}
