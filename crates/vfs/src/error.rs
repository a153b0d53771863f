//! Why a backend or the file layer refused.

use std::fmt;

/// Result of every backend and file-layer call.
pub type Result<T> = std::result::Result<T, FsError>;

/// Why the file layer or a backend refused. The set is closed on purpose: each
/// protocol maps every case in one table, and a new case does not compile
/// until every table answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FsError {
    /// The caller's identity lacks the right.
    AccessDenied,
    /// The name is taken.
    AlreadyExists,
    /// What is kept beside a file's data, such as the names of its streams, takes all the room that
    /// the file system has for it; or the file system keeps nothing of this kind.
    AttributesFull,
    /// The file, or its directory, cannot be removed: it is in use, read-only, or a mount point.
    CannotDelete,
    /// The wait was given up at the caller's wish.
    Cancelled,
    /// The node will vanish at its last close and may not be opened.
    DeletePending,
    /// The directory, or the file system, is full.
    NoSpace,
    /// Whose file it is stores as much as they may.
    OverQuota,
    /// The backend failed; the cause was logged where it happened.
    Io,
    /// A file was needed, a directory was found.
    IsDirectory,
    /// A symbolic link was found that this caller follows itself.
    IsSymlink,
    /// A byte-range lock of another owner covers the range (met by READ or WRITE).
    LockConflict,
    /// A byte-range lock could not be had at once.
    LockNotGranted,
    /// The name, or a value, has a form the backend cannot store.
    InvalidName,
    /// Whom the file was to be given to may not own it, or not by this caller's will.
    InvalidOwner,
    /// The arguments contradict each other.
    InvalidParameter,
    /// A component of the name is longer than the backend stores.
    NameTooLong,
    /// A directory was needed, something else was found.
    NotDirectory,
    /// The directory still has entries.
    NotEmpty,
    /// The last component of the path does not exist.
    NotFound,
    /// The backend, or the file system under it, cannot do this at all.
    NotSupported,
    /// The open exists but was not granted this kind of access.
    OpenMode,
    /// A component before the last does not exist or is not a directory.
    PathNotFound,
    /// The caller lacks a privilege, which no file can grant.
    PrivilegeNotHeld,
    /// No unlock matches: the range was not locked by this owner.
    RangeNotLocked,
    /// The file system is read-only, or a state that was kept.
    ReadOnly,
    /// The share is served read-only.
    ShareReadOnly,
    /// Another open's share mode forbids this access, or this share mode another's access.
    ShareViolation,
    /// The handle names a file, or the share a directory, that is gone.
    Stale,
    /// The node stands for something else, and was not asked for as what it is.
    ReparsePoint,
    /// A symbolic link leads out of the share.
    SymlinkEscapes,
    /// Too many symbolic links.
    SymlinkLoop,
    /// A symbolic link is in the path, and clients of the share follow links themselves.
    SymlinkMet,
    /// The file would grow past what the file system stores.
    TooLarge,
    /// Somebody who is away for a while has it to themselves; the same again may do later.
    Unavailable,
    /// The file has as many names as the file system lets it have.
    TooManyLinks,
    /// A named limit of this server was reached (opens, locks, descriptors).
    TooMany,
    /// The file has as many opens as its share allows of one file at once.
    TooManyHandles,
    /// The answer is not in memory; ask again where waiting is allowed.
    WouldBlock,
    /// The two names lie on different file systems.
    CrossDevice,
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FsError {
    /// Whether of an entry that is refused so the others of a listing are told all the same: it
    /// is gone, not to be seen, or on a file system that fails.
    #[must_use]
    pub fn leaves_out_entry(self) -> bool {
        matches!(self, Self::NotFound | Self::AccessDenied | Self::Io | Self::Stale)
    }
}

impl std::error::Error for FsError {}
