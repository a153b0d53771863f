//! Options of opens and creations, and their result.

use crate::{AttributeRequest, Attributes, Case, DosInfo, FileKind, Node, RelPath, Result, Wait};
use std::sync::Arc;

/// Options of an open, as `struct open_how` of openat2(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHow {
    /// The caller will read data, or list the directory.
    pub read: bool,
    /// The caller will write data.
    pub write: bool,
    /// Comparison of the path's components.
    pub case: Case,
    /// Attributes to return with the node.
    pub wanted: AttributeRequest,
    /// Open a final symbolic link itself instead of its target.
    pub no_follow: bool,
    /// [`Wait::Never`]: refuse with [`crate::FsError::WouldBlock`] if the path is not in memory.
    pub wait: Wait,
}

impl OpenHow {
    /// Opens the node of exactly this spelling without access to its data, as
    /// `O_PATH | O_NOFOLLOW`.
    #[must_use]
    pub const fn looking(wait: Wait) -> Self {
        let (case, wanted) = (Case::Sensitive, AttributeRequest { dos: None });
        Self { read: false, write: false, case, wanted, no_follow: true, wait }
    }
}

/// Options of a creation.
#[derive(Clone, Copy, Debug)]
pub struct CreateHow<'a> {
    /// A file or a directory; other kinds have their own calls.
    pub kind: FileKind,
    /// POSIX permission bits of the new node (the process umask is not applied).
    pub mode: CreationMode,
    /// DOS attributes and creation time to store with the new node, if any.
    pub dos: Option<DosInfo>,
    /// Attributes to return with the node.
    pub wanted: AttributeRequest,
    /// Stores further initial state of the new node, if any.
    pub initialiser: Option<&'a dyn NodeInitialiser>,
}

impl CreateHow<'_> {
    /// A creation with exactly these permission bits, and nothing more.
    #[must_use]
    pub fn plain(kind: FileKind, mode: u32) -> Self {
        let mode = CreationMode::exactly(mode);
        Self { kind, mode, dos: None, wanted: AttributeRequest::default(), initialiser: None }
    }
}

/// Permission bits of a new node. A default access list of the directory limits them in place of
/// the umask. RFC 8275 4; acl(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreationMode {
    /// The requested bits.
    pub bits: u32,
    /// The creator's umask, which applies if the directory has no default access list.
    pub umask: u32,
}

impl CreationMode {
    /// Exactly these bits, without a umask.
    #[must_use]
    pub const fn exactly(bits: u32) -> Self {
        Self { bits, umask: 0 }
    }

    /// The bits in a directory without a default access list.
    #[must_use]
    pub const fn without_list(self) -> u32 {
        self.bits & !self.umask
    }

    /// These bits, restricted to `within`.
    #[must_use]
    pub const fn limited_to(self, within: u32) -> Self {
        Self { bits: self.bits & within, ..self }
    }
}

/// Initial state of a new node beside its name, mode and DOS attributes.
///
/// A power loss leaves the node without a name, or complete. A backend that cannot create a
/// nameless node denies access to everyone but the creator until the node is complete.
pub trait NodeInitialiser: std::fmt::Debug {
    /// Whether the stored security replaces the mode.
    fn replaces_mode(&self) -> bool;

    /// Stores the initial state.
    ///
    /// # Errors
    /// The errors of the backend, which then creates no node.
    fn initialise(&self, new: &OpenedNode) -> Result<Initialisation>;
}

/// Outcome of an initialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initialisation {
    /// The node has its whole initial state.
    Complete,
    /// This node cannot store a descriptor: the mode is its only security.
    WithoutDescriptor,
}

impl CreateHow<'_> {
    /// Initialises a created node that no other caller can see before the return.
    ///
    /// # Errors
    /// The errors of the initialiser and of [`Node::attributes`].
    pub fn initialised(&self, mut opened: OpenedNode) -> Result<OpenedNode> {
        if let Some(initialiser) = self.initialiser {
            initialiser.initialise(&opened)?;
            opened.attributes = opened.node.attributes(self.wanted)?;
        }
        Ok(opened)
    }
}

/// A node that was opened or created.
#[derive(Clone, Debug)]
pub struct OpenedNode {
    /// The open node.
    pub node: Arc<dyn Node>,
    /// Its attributes at that moment, as requested.
    pub attributes: Attributes,
    /// The path with every component as the backend stores it.
    pub path: RelPath,
}
