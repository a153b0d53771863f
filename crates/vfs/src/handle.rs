//! Handles that refer to a node beyond its open.

use crate::{Actor, AttributeRequest, Attributes, FsError, Name, Node, RelPath, Result};
use std::sync::Arc;

/// A backend's persistent handle of a node. It survives renames and, as far as the backend can, a
/// restart of the server; the backend never reuses it. It is neither secret nor proof of a right:
/// the server checks each one that a client presents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeHandle(Box<[u8]>);

impl NodeHandle {
    /// Longest handle in bytes: protocols allow 128, of which `files` needs some.
    pub const BYTES_MAX: usize = 96;

    /// Takes untrusted bytes.
    ///
    /// # Errors
    /// [`FsError::InvalidParameter`] if there are none, or more than [`NodeHandle::BYTES_MAX`].
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self> {
        let bytes = bytes.into();
        if bytes.is_empty() || bytes.len() > Self::BYTES_MAX {
            return Err(FsError::InvalidParameter);
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A node with its current place.
#[derive(Clone, Debug)]
pub struct LocatedNode {
    /// The node, opened as with `O_PATH`.
    pub node: Arc<dyn Node>,
    /// Its attributes at that moment.
    pub attributes: Attributes,
    /// One of its paths at that moment; [`RelPath::nameless`] if the backend knows none, which
    /// happens for non-directories only.
    pub path: RelPath,
    /// The node lies in the tree, or has no name at all. If false, the backend cannot tell, and a
    /// caller without other proof must treat it as gone.
    pub is_certain: bool,
}

/// Kind of a node to create that is neither file, directory nor link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialKind {
    /// A named pipe.
    Fifo,
    /// A UNIX-domain socket.
    Socket,
    /// A device; only the superuser creates one.
    Device(crate::Device),
}

/// Capability: handles of nodes that outlive their opens, and the way back from a node to its path.
/// NFS needs it: a share whose backend lacks it is left out of the exports, with an error in the log at
/// start and at each reload. A local kernel looks a
/// path up in memory, so [`PersistentHandles::path_of`] is cheap there.
///
/// Without it, SMB recognises a file after a restart by inode number and creation time alone, finds
/// it by its recorded names alone, and takes the path of an open node to be the one that it was opened
/// by. A node that was reached over a symbolic link is then not found where names are vetoed.
pub trait PersistentHandles: Send + Sync + std::fmt::Debug {
    /// The persistent handle of `node`.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the backend has none.
    fn handle(&self, actor: Actor<'_>, node: &dyn Node) -> Result<NodeHandle>;

    /// Bytes that, with the inode number, distinguish `node` from every other node that its file
    /// system has or had, across mounts, restarts and device numbers. For comparison only. None if
    /// the file system has none.
    fn persistent_id(&self, node: &dyn Node) -> Option<NodeHandle>;

    /// The handle of the child `name` (exact spelling) of this directory, of the link itself if it
    /// is one. The caller has its attributes.
    ///
    /// # Errors
    /// As [`PersistentHandles::handle`]; [`FsError::NotFound`].
    fn child_handle(
        &self,
        actor: Actor<'_>,
        directory: &dyn Node,
        name: &Name,
        child: &Attributes,
    ) -> Result<NodeHandle>;

    /// Finds the node of a handle, wherever in the tree it now is. The bytes are untrusted. Linux
    /// opens a handle for the superuser only ([`ServerWork::LocateNode`]), so the caller checks
    /// permission on the node afterwards. A deleted node that is still open may be found, too:
    /// [`Attributes::links`] is then zero.
    ///
    /// # Errors
    /// [`FsError::Stale`] if the tree has no such node; [`FsError::InvalidParameter`] for malformed
    /// bytes.
    fn find(
        &self,
        actor: Actor<'_>,
        handle: &NodeHandle,
        wanted: AttributeRequest,
    ) -> Result<LocatedNode>;

    /// One current path of a node. For a non-directory it may be [`RelPath::nameless`].
    ///
    /// # Errors
    /// [`FsError::Stale`] if the node has left the tree or is deleted.
    fn path_of(&self, actor: Actor<'_>, node: &dyn Node) -> Result<RelPath>;
}
