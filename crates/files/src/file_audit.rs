//! Audit of file operations: the operations that a share reports, and the event of each.
//!
//! SMB and NFS share this decision. A share without an audit costs one check per operation, and
//! reads and writes of an open one load. The sink must not block; it bounds and counts what it
//! cannot take.

use crate::context::ClientOrigin;
use acl::Sid;
use std::fmt::Debug;
use std::sync::Arc;
use vfs::{FileKey, FsError, RelPath, Result};

/// Operation of a client on a file, as an audit reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditedOperation {
    /// A new file, directory, symbolic link or special file.
    Create,
    /// Removal of a name or of a named stream.
    Delete,
    /// A further name for a file.
    Link,
    /// Open of an existing file or directory.
    Open,
    /// Open that discards the data of an existing file.
    Overwrite,
    /// First read by an open.
    Read,
    /// Change of a name.
    Rename,
    /// Change of times, DOS attributes, extended attributes or reparse data.
    SetAttributes,
    /// Change of the mode, the owner or the access control list.
    SetPermissions,
    /// First change of data or size by an open.
    Write,
}

impl AuditedOperation {
    /// All operations.
    pub const ALL: [Self; 10] = [
        Self::Create,
        Self::Delete,
        Self::Link,
        Self::Open,
        Self::Overwrite,
        Self::Read,
        Self::Rename,
        Self::SetAttributes,
        Self::SetPermissions,
        Self::Write,
    ];

    /// The name in audit records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Delete => "Delete",
            Self::Link => "Link",
            Self::Open => "Open",
            Self::Overwrite => "Overwrite",
            Self::Read => "Read",
            Self::Rename => "Rename",
            Self::SetAttributes => "SetAttributes",
            Self::SetPermissions => "SetPermissions",
            Self::Write => "Write",
        }
    }

    /// The kind by which a share selects the operation.
    #[must_use]
    pub fn kind(self) -> FileAuditKind {
        match self {
            Self::Create | Self::Link => FileAuditKind::Create,
            Self::Delete => FileAuditKind::Delete,
            Self::Open => FileAuditKind::Open,
            Self::Overwrite | Self::Write => FileAuditKind::Write,
            Self::Read => FileAuditKind::Read,
            Self::Rename => FileAuditKind::Rename,
            Self::SetAttributes => FileAuditKind::Attributes,
            Self::SetPermissions => FileAuditKind::Permissions,
        }
    }
}

/// Kind of operation that a share can audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAuditKind {
    /// Changes of times, DOS attributes, extended attributes and reparse data.
    Attributes,
    /// New files, directories, links and special files.
    Create,
    /// Removals.
    Delete,
    /// Opens of existing files and directories.
    Open,
    /// Changes of mode, owner and access control list.
    Permissions,
    /// The first read of each open.
    Read,
    /// Operations of any kind that are refused for lack of a right.
    Refused,
    /// Renames.
    Rename,
    /// The first write of each open, and opens that discard data.
    Write,
}

impl FileAuditKind {
    /// All kinds, in the order of their names.
    pub const ALL: [Self; 9] = [
        Self::Attributes,
        Self::Create,
        Self::Delete,
        Self::Open,
        Self::Permissions,
        Self::Read,
        Self::Refused,
        Self::Rename,
        Self::Write,
    ];

    /// The name in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Attributes => "attributes",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Open => "open",
            Self::Permissions => "permissions",
            Self::Read => "read",
            Self::Refused => "refused",
            Self::Rename => "rename",
            Self::Write => "write",
        }
    }
}

/// A set of [`FileAuditKind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileAuditKinds(u16);

impl FileAuditKinds {
    /// Whether the set contains `kind`.
    #[must_use]
    pub fn contains(self, kind: FileAuditKind) -> bool {
        self.0 & 1 << kind as u16 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<FileAuditKind> for FileAuditKinds {
    fn from_iter<T: IntoIterator<Item = FileAuditKind>>(kinds: T) -> Self {
        Self(kinds.into_iter().fold(0, |bits, kind| bits | 1 << kind as u16))
    }
}

/// User of an audited operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedUser {
    /// Name of the logon, if the protocol has one.
    pub name: Option<Arc<str>>,
    /// Uid with which files are accessed.
    pub uid: u32,
    /// SID of the user's token.
    pub sid: Option<Sid>,
}

/// Path of an audited operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditedPath {
    /// Path in the share, and for a named stream `:` and its name.
    Known(Vec<u8>),
    /// The path is not known without a search; the key identifies the file.
    Unknown(FileKey),
}

impl From<&RelPath> for AuditedPath {
    fn from(path: &RelPath) -> Self {
        Self::Known(path.as_bytes().to_vec())
    }
}

/// One audited operation. Paths and names may come from clients and must not be trusted.
#[derive(Clone, Debug)]
pub struct FileEvent {
    /// Name of the share.
    pub share: Arc<str>,
    /// The operation.
    pub operation: AuditedOperation,
    /// Its user.
    pub user: AuditedUser,
    /// Its client; none for work that the server does for a client that is gone.
    pub origin: Option<ClientOrigin>,
    /// Path of the file.
    pub path: AuditedPath,
    /// New path of a rename or link.
    pub new_path: Option<AuditedPath>,
    /// Result of the operation.
    pub outcome: Result<()>,
}

/// Receiver of audited operations. It must neither block nor grow without bound.
pub trait FileEventSink: Send + Sync + Debug {
    /// Takes an event.
    fn take(&self, event: FileEvent);
}

/// The audit of one share.
#[derive(Clone, Debug)]
pub struct FileAudit {
    pub(crate) share: Arc<str>,
    kinds: FileAuditKinds,
    pub(crate) sink: Arc<dyn FileEventSink>,
}

impl FileAudit {
    /// The audit of operations of `kinds` in the share with this name.
    #[must_use]
    pub fn new(share: &str, kinds: FileAuditKinds, sink: Arc<dyn FileEventSink>) -> Self {
        Self { share: share.into(), kinds, sink }
    }

    /// Whether a result is reported: a success by its kind, and a refusal by
    /// [`FileAuditKind::Refused`]. Other failures changed and disclosed nothing.
    pub(crate) fn selects(&self, operation: AuditedOperation, outcome: Result<()>) -> bool {
        match outcome {
            Ok(()) => self.kinds.contains(operation.kind()),
            Err(error) => self.kinds.contains(FileAuditKind::Refused) && is_refusal(error),
        }
    }

    /// Uses of a new open that are not reported yet, as bits of [`OpenUse`].
    pub(crate) fn unreported_uses(&self) -> u8 {
        let when = |kind, bits| if self.kinds.contains(kind) { bits } else { 0 };
        when(FileAuditKind::Read, OpenUse::READ.done)
            | when(FileAuditKind::Write, OpenUse::WRITE.done)
            | when(FileAuditKind::Refused, OpenUse::READ.refused | OpenUse::WRITE.refused)
    }
}

/// Bits of the first successful and the first refused use of an open.
#[derive(Clone, Copy)]
pub(crate) struct OpenUse {
    pub operation: AuditedOperation,
    pub done: u8,
    pub refused: u8,
}

impl OpenUse {
    pub const READ: Self = Self { operation: AuditedOperation::Read, done: 1, refused: 2 };
    pub const WRITE: Self = Self { operation: AuditedOperation::Write, done: 4, refused: 8 };
}

/// Whether a failure is a refusal for lack of a right, by the file, the share or the open.
pub(crate) fn is_refusal(error: FsError) -> bool {
    match error {
        FsError::AccessDenied
        | FsError::CannotDelete
        | FsError::InvalidOwner
        | FsError::OpenMode
        | FsError::PrivilegeNotHeld
        | FsError::ReadOnly
        | FsError::ShareReadOnly
        | FsError::SymlinkEscapes => true,
        FsError::AlreadyExists
        | FsError::AttributesFull
        | FsError::Cancelled
        | FsError::CrossDevice
        | FsError::DeletePending
        | FsError::InvalidName
        | FsError::InvalidParameter
        | FsError::Io
        | FsError::IsDirectory
        | FsError::IsSymlink
        | FsError::LockConflict
        | FsError::LockNotGranted
        | FsError::NameTooLong
        | FsError::NoSpace
        | FsError::NotDirectory
        | FsError::NotEmpty
        | FsError::NotFound
        | FsError::NotSupported
        | FsError::OverQuota
        | FsError::PathNotFound
        | FsError::RangeNotLocked
        | FsError::ReparsePoint
        | FsError::ShareViolation
        | FsError::Stale
        | FsError::SymlinkLoop
        | FsError::SymlinkMet
        | FsError::TooLarge
        | FsError::TooMany
        | FsError::TooManyHandles
        | FsError::TooManyLinks
        | FsError::Unavailable
        | FsError::WouldBlock => false,
    }
}

/// The outcome without its value.
pub(crate) fn outcome_of<T>(result: &Result<T>) -> Result<()> {
    result.as_ref().map(drop).map_err(|error| *error)
}
