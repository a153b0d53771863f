//! What nodes are opened and made by, and what comes of it.

use crate::{Attributes, Case, DosInfo, FileKind, Node, RelPath, Result, Wait, Wanted};
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
        let (case, wanted) = (Case::Sensitive, Wanted { dos: None });
        Self { read: false, write: false, case, wanted, no_follow: true, wait }
    }
}

/// What to make when a name does not exist.
#[derive(Clone, Copy, Debug)]
pub struct CreateHow<'a> {
    /// A file or a directory; other kinds have calls of their own.
    pub kind: FileKind,
    /// POSIX permission bits of the new node (the process umask is not applied).
    pub mode: CreationMode,
    /// DOS attributes and creation time to store with the new node, if any.
    pub dos: Option<DosInfo>,
    /// Which attributes to return with the node.
    pub wanted: Wanted,
    /// Gives the new node what belongs to it from the beginning, if there is such.
    pub initialiser: Option<&'a dyn NodeInitialiser>,
}

impl CreateHow<'_> {
    /// With exactly these permission bits, and nothing more.
    #[must_use]
    pub fn plain(kind: FileKind, mode: u32) -> Self {
        let mode = CreationMode::exactly(mode);
        Self { kind, mode, dos: None, wanted: Wanted::default(), initialiser: None }
    }
}

/// Permission bits of a new node. Where the directory has a default access list, that list limits
/// them in place of the umask. RFC 8275 4; acl(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreationMode {
    /// The bits asked for.
    pub bits: u32,
    /// The creator's umask: bits that a node does not get below a directory without such a list.
    pub umask: u32,
}

impl CreationMode {
    /// These bits, with no umask beside them.
    #[must_use]
    pub const fn exactly(bits: u32) -> Self {
        Self { bits, umask: 0 }
    }

    /// The bits below a directory without a default list.
    #[must_use]
    pub const fn without_list(self) -> u32 {
        self.bits & !self.umask
    }

    /// As this, with no bits but those of `within`.
    #[must_use]
    pub const fn limited_to(self, within: u32) -> Self {
        Self { bits: self.bits & within, ..self }
    }
}

/// What a new node has beside its name, mode and DOS attributes.
///
/// A loss of power leaves the node without a name, or with all of it. A backend that cannot create
/// a node without a name keeps everybody but the creator from it until it is complete.
pub trait NodeInitialiser: std::fmt::Debug {
    /// Whether the security that it stores takes the place of the mode.
    fn replaces_mode(&self) -> bool;

    /// Stores all of it.
    ///
    /// # Errors
    /// Those of the backend: the node is not created then.
    fn initialise(&self, new: &Opened) -> Result<Initialisation>;
}

/// How a node was initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initialisation {
    /// With all that it was to have.
    Complete,
    /// Without a descriptor, which this node cannot store: its mode is all that there is.
    WithoutDescriptor,
}

impl CreateHow<'_> {
    /// Initialises what a backend has created that nobody else sees before this returns.
    ///
    /// # Errors
    /// Those of the initialiser and of [`Node::attributes`].
    pub fn initialised(&self, mut opened: Opened) -> Result<Opened> {
        if let Some(initialiser) = self.initialiser {
            initialiser.initialise(&opened)?;
            opened.attributes = opened.node.attributes(self.wanted)?;
        }
        Ok(opened)
    }
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
