//! Handles that refer to a node beyond its open.

use crate::{Attributes, FsError, Node, RelPath};
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
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, FsError> {
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
