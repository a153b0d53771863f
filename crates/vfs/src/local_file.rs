//! The capability of a node to be a file of this machine's kernel.

use crate::{Node, Result, ServerWork};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Capability: the node is a descriptor of this machine's kernel, with its page cache. Both protocols
/// use it to save copies and waits.
///
/// Without it, data passes through a buffer, each read and sync that may wait does so on a worker, and
/// a read moves the last access time.
pub trait LocalFile: Send + Sync + std::fmt::Debug {
    /// This node with reads that leave the last access time alone, by a descriptor of its own with
    /// O_NOATIME.
    ///
    /// # Errors
    /// [`FsError::NotSupported`]; [`FsError::AccessDenied`] if the process is neither root nor the
    /// owner; [`FsError::TooMany`] without descriptors.
    fn noatime(&self, work: ServerWork) -> Result<Arc<dyn Node>>;

    /// Whether the kernel leaves the last access time of this node: by the mount's option `noatime`, or
    /// by a flag of the node, chattr(1) `+A`.
    fn is_noatime(&self) -> bool;

    /// Advances the last access time to now as a read of no data does: the change time stays. A file
    /// whose times another machine or a FUSE server advances stays as it is.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] for other kinds than files; errors of opening a file for reading that
    /// this node cannot read.
    fn advance_access_time(&self, work: ServerWork) -> Result<()>;

    /// The descriptor for `sendfile`, if the node is a plain local file that is open for reading.
    fn sendfile_source(&self) -> Option<BorrowedFd<'_>>;

    /// Whether the whole range is in the page cache, so that a read will not wait for a disk. A
    /// hint: false negatives are allowed.
    fn is_resident(&self, offset: u64, length: usize) -> bool;

    /// Whether [`Node::sync`] returns at once, since nothing here survives a power loss. A hint:
    /// false negatives are allowed.
    fn syncs_without_waiting(&self) -> bool;
}
