//! Names in directories that are open, for calls that resolve no path.
//!
//! A decision about a directory is made on an open node of it. By the time of the act its path
//! may lead elsewhere: anybody who may rename or link above it can swap it. A power beyond the
//! caller's own rights therefore takes these, and never a path.

use crate::{Actor, FileKey, FsError, Identity, Name, Node, RelPath, Result, SpecialKind};

/// How a rename treats a name that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Refuse with [`FsError::AlreadyExists`].
    Never,
    /// Replace it atomically, if it is a file.
    File,
    /// Replace it as POSIX has it: a directory takes the place of an empty one, too.
    Any,
}

/// What a name that is removed is expected to name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// This node.
    pub key: FileKey,
    /// It is a file, and the name was seen to name it a moment ago: that need not be looked at.
    pub is_file_as_seen: bool,
}

/// Who changes a name in a directory that is open, and by which right. No call that resolves
/// a path takes one: see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameActor<'a> {
    /// With its own rights: one that may resolve paths ([`Actor::may_resolve_paths`]).
    Own(Actor<'a>),
    /// Beyond what POSIX lets the user do: a stored descriptor grants adding, renaming or
    /// removing the name. What is created belongs to the user. MS-FSA 2.1.5.1.2.1.
    Granted(&'a Identity),
}

impl<'a> NameActor<'a> {
    /// The actor with its own rights: to it belongs what is created.
    #[must_use]
    pub fn actor(self) -> Actor<'a> {
        match self {
            Self::Own(actor) => actor,
            Self::Granted(user) => user.actor(),
        }
    }

    /// Whether POSIX permissions of the directory, and its sticky bit, are not asked.
    #[must_use]
    pub fn is_granted(self) -> bool {
        matches!(self, Self::Granted(_))
    }

    /// Whether it may make device nodes: see [`Actor::may_make_devices`].
    #[must_use]
    pub fn may_make_devices(self) -> bool {
        !self.is_granted() && self.actor().may_make_devices()
    }

    /// The actor for a call that resolves a path.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] for a power beyond its own rights.
    pub fn for_path(self) -> Result<Actor<'a>> {
        match self {
            Self::Own(actor) => Ok(actor),
            Self::Granted(_) => Err(FsError::NotSupported),
        }
    }
}

/// A name in a directory that is open.
#[derive(Clone, Copy, Debug)]
pub struct ChildName<'a> {
    /// The directory, wherever it is by now.
    pub directory: &'a dyn Node,
    /// The path of the name when the directory was found, for answers and for caches: no more
    /// of it is looked up than the last component.
    pub path: &'a RelPath,
}

impl ChildName<'_> {
    /// The name.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] for the root and for what has no name.
    pub fn name(&self) -> Result<Name> {
        self.path.name().ok_or(FsError::AccessDenied)
    }
}

/// A rename between directories that are open.
#[derive(Clone, Copy, Debug)]
pub struct ChildRename<'a> {
    /// The present name.
    pub from: ChildName<'a>,
    /// The node that `from` is expected to name.
    pub moved: FileKey,
    /// The new name.
    pub to: ChildName<'a>,
    /// How `to` is taken if it names `replaced`.
    pub replace: Replace,
    /// The only node that `to` may name; none if it must be free.
    pub replaced: Option<FileKey>,
}

/// A new node that is neither a file nor a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewChild<'a> {
    /// A symbolic link with this text.
    Symlink(&'a [u8]),
    /// A pipe, a socket or a device.
    Special {
        /// Which.
        kind: SpecialKind,
        /// POSIX permission bits.
        mode: crate::CreationMode,
    },
}
