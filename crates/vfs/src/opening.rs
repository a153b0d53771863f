//! What nodes are opened and made by, and what comes of it.

use crate::{Attributes, Case, DosInfo, FileKind, Node, RelPath, Wait, Wanted};
use std::sync::Arc;

/// What an open file handle must be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHow {
    /// Data will be read (for a directory: it will be listed).
    pub read: bool,
    /// Data will be written.
    pub write: bool,
    /// How the path's components are compared.
    pub case: Case,
    /// Which attributes to return with the node.
    pub wanted: Wanted,
    /// Open a final symbolic link itself instead of what it points at.
    pub no_follow: bool,
    /// [`Wait::Never`]: refuse with [`FsError::WouldBlock`] if the path is not in memory.
    pub wait: Wait,
}

impl OpenHow {
    /// For a node that is to be looked at only: the one that is called just so, itself.
    #[must_use]
    pub const fn looking(wait: Wait) -> Self {
        let (case, wanted) = (Case::Sensitive, Wanted { dos: false });
        Self { read: false, write: false, case, wanted, no_follow: true, wait }
    }
}

/// What to make when a name does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateHow {
    /// A file or a directory; other kinds have calls of their own.
    pub kind: FileKind,
    /// POSIX permission bits of the new node (the process umask is not applied).
    pub mode: u32,
    /// DOS attributes and creation time to store with the new node, if any.
    pub dos: Option<DosInfo>,
    /// Which attributes to return with the node.
    pub wanted: Wanted,
}

/// A node that was opened or made.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The open node.
    pub node: Arc<dyn Node>,
    /// Its attributes at that moment, as far as they were wanted.
    pub attributes: Attributes,
    /// The path with every component spelt as the backend stores it.
    pub path: RelPath,
}
