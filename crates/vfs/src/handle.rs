//! What names a node for longer than it is open.

use crate::{Attributes, FsError, Node, RelPath};
use std::sync::Arc;

/// A backend's name for a node: it stays when the node is renamed, and when the
/// server starts again, as far as the backend can; it is never another node's.
/// For whom it is no secret, nor a proof of anything: it is checked when it comes back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeHandle(Box<[u8]>);

impl NodeHandle {
    /// Most bytes that one has: protocols allow 128, some of which are `files`'s.
    pub const BYTES_MAX: usize = 96;

    /// Takes bytes, which may be anybody's.
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

/// A node that was found by its handle, or where it is now.
#[derive(Clone, Debug)]
pub struct Located {
    /// The node, open for looking.
    pub node: Arc<dyn Node>,
    /// Its attributes at that moment.
    pub attributes: Attributes,
    /// One of its paths at that moment; [`RelPath::nameless`] where none is known, which
    /// happens to what is no directory.
    pub path: RelPath,
    /// It lies in the tree, or no name at all leads to it any more. Otherwise the
    /// backend cannot tell, and who has no other proof must take it for gone.
    pub is_certain: bool,
}

/// A node that is neither file nor directory, as it is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialKind {
    /// A named pipe.
    Fifo,
    /// A UNIX-domain socket.
    Socket,
    /// A device, which only the superuser makes.
    Device(crate::Device),
}
