//! Reasons for which a backend or the file layer refuses a call.

use std::fmt;

/// Result of every backend and file-layer call.
pub type Result<T> = std::result::Result<T, FsError>;

/// Reason of a refusal by the file layer or a backend. The set is closed: each protocol maps every
/// case in one table, and a new case does not compile until every table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FsError {
    /// The caller's identity lacks the right.
    AccessDenied,
    /// The name exists.
    AlreadyExists,
    /// The file system has no room left for extended attributes of this file, such as stream names,
    /// or does not store this kind.
    AttributesFull,
    /// The file or its directory cannot be removed: it is in use, read-only, or a mount point.
    CannotDelete,
    /// The caller cancelled the wait.
    Cancelled,
    /// The node is delete pending and refuses new opens.
    DeletePending,
    /// The directory or the file system is full.
    NoSpace,
    /// The owner of the file has reached the quota.
    OverQuota,
    /// The backend failed; the cause was logged where it happened.
    Io,
    /// The call needs a file and found a directory.
    IsDirectory,
    /// The call found a symbolic link that this caller follows itself.
    IsSymlink,
    /// A byte-range lock of another owner covers the range (met by READ or WRITE).
    LockConflict,
    /// A byte-range lock conflicts and the caller does not wait.
    LockNotGranted,
    /// The name, or a value, has a form that the backend cannot store.
    InvalidName,
    /// The caller may not chown to this owner, or this owner may not own the file.
    InvalidOwner,
    /// The arguments contradict each other.
    InvalidParameter,
    /// A component of the name is longer than the backend stores.
    NameTooLong,
    /// The call needs a directory and found something else.
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
    /// The caller lacks a privilege, which no access list can grant.
    PrivilegeNotHeld,
    /// No lock of this owner matches the range to unlock.
    RangeNotLocked,
    /// The file system is read-only, or a snapshot.
    ReadOnly,
    /// The share is served read-only.
    ShareReadOnly,
    /// Another open's share mode forbids this access, or this share mode another's access.
    ShareViolation,
    /// The handle refers to a deleted file, or the share to a deleted directory.
    Stale,
    /// The node is a reparse point, and the caller did not open it as one.
    ReparsePoint,
    /// A symbolic link leads out of the share.
    SymlinkEscapes,
    /// Too many symbolic links.
    SymlinkLoop,
    /// The path contains a symbolic link, and clients of the share follow links themselves.
    SymlinkMet,
    /// The file would exceed the file system's size limit.
    TooLarge,
    /// Another client holds the file and is temporarily unreachable; a retry may succeed.
    Unavailable,
    /// The file has reached the file system's limit of hard links.
    TooManyLinks,
    /// A named limit of this server was reached (opens, locks, file descriptors).
    TooMany,
    /// The file has reached the share's limit of opens on one file.
    TooManyHandles,
    /// The answer is not in memory; retry with [`crate::Wait::Allowed`].
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
    /// Whether a listing omits an entry with this error and continues: the entry is gone, hidden
    /// from the caller, or on a failing file system.
    #[must_use]
    pub fn omits_entry(self) -> bool {
        matches!(self, Self::NotFound | Self::AccessDenied | Self::Io | Self::Stale)
    }
}

impl std::error::Error for FsError {}
