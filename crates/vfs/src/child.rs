//! Operations on names in open directories, which resolve no path.
//!
//! The server decides about a directory on an open node of it. By the time of the operation the
//! path may lead elsewhere, because a user who may rename or link above it can swap it. An
//! operation beyond the caller's own rights therefore takes an open directory, never a path.

use crate::{Actor, FileKey, FsError, Identity, Name, Node, RelPath, Result, SpecialKind};

/// Policy of a rename whose target name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Refuses with [`FsError::AlreadyExists`].
    Never,
    /// Replaces a file atomically.
    File,
    /// Replaces as POSIX does: a directory may replace an empty directory, too.
    Any,
}

/// Node that a name to be removed must refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedChild {
    /// Identity of the node.
    pub key: FileKey,
    /// The caller has just seen that the name refers to this node and that it is a file, so the
    /// backend need not check again.
    pub is_file_as_seen: bool,
}

/// Actor that changes a name in an open directory, and the right by which it may. No call that
/// resolves a path takes one: see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameActor<'a> {
    /// The actor's own rights; it may resolve paths ([`Actor::may_resolve_paths`]).
    Own(Actor<'a>),
    /// A right beyond POSIX: a stored descriptor lets the user add, rename or remove the name. The
    /// user owns a created node. MS-FSA 2.1.5.1.2.1.
    Granted(&'a Identity),
}

impl<'a> NameActor<'a> {
    /// The actor with its own rights, which owns a created node.
    #[must_use]
    pub fn actor(self) -> Actor<'a> {
        match self {
            Self::Own(actor) => actor,
            Self::Granted(user) => user.actor(),
        }
    }

    /// Whether the backend skips the POSIX permissions of the directory and its sticky bit.
    #[must_use]
    pub fn is_granted(self) -> bool {
        matches!(self, Self::Granted(_))
    }

    /// Whether the actor may create device nodes: see [`Actor::may_make_devices`].
    #[must_use]
    pub fn may_make_devices(self) -> bool {
        !self.is_granted() && self.actor().may_make_devices()
    }

    /// The actor for a call that resolves a path.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] for a right beyond the actor's own.
    pub fn for_path(self) -> Result<Actor<'a>> {
        match self {
            Self::Own(actor) => Ok(actor),
            Self::Granted(_) => Err(FsError::NotSupported),
        }
    }
}

/// A name in an open directory.
#[derive(Clone, Copy, Debug)]
pub struct ChildName<'a> {
    /// The open directory, wherever it now is.
    pub directory: &'a dyn Node,
    /// Path of the name when the directory was opened, for replies and caches. The backend looks up
    /// its last component only.
    pub path: &'a RelPath,
}

impl ChildName<'_> {
    /// The last component of the path.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] for the root and for a nameless node.
    pub fn name(&self) -> Result<Name> {
        self.path.name().ok_or(FsError::AccessDenied)
    }
}

/// A rename between two open directories.
#[derive(Clone, Copy, Debug)]
pub struct ChildRename<'a> {
    /// The current name.
    pub from: ChildName<'a>,
    /// Node that `from` must refer to.
    pub moved: FileKey,
    /// The new name.
    pub to: ChildName<'a>,
    /// Policy if `to` refers to `replaced`.
    pub replace: Replace,
    /// The only node that `to` may refer to; none if the name must be free.
    pub replaced: Option<FileKey>,
}

/// A new node that is neither a file nor a directory: a non-regular file by RFC 8881 18.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewChild<'a> {
    /// A symbolic link with this target.
    Symlink(&'a [u8]),
    /// A FIFO, a socket or a device.
    Special {
        /// Kind of the special node.
        kind: SpecialKind,
        /// POSIX permission bits.
        mode: crate::CreationMode,
    },
}
