//! The interface between the file layer and a storage backend.
//!
//! A backend knows names, bytes and attributes. It knows nothing of protocols, sessions, share
//! modes or leases: `files` and `grants` decide those before they call. Calls are synchronous. The
//! documentation marks calls that may take long, and `files` runs them on a worker.
//!
//! Names are bytes as the file system stores them (UTF-8 by custom). Each protocol's crate maps the
//! names that its protocol cannot express.
#![forbid(unsafe_code)]

mod attributes;
mod case;
mod changes;
mod child;
mod delayed;
mod error;
mod exclusive_creation;
mod extended_attributes;
mod external;
mod features;
mod file_extents;
pub mod freshness;
mod handle;
mod identity;
mod keyed_hash;
mod listing;
mod local_file;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
mod name_cache;
mod named_streams;
mod node_security;
mod opening;
mod pass_on;
mod path;
mod quota;
mod reparse_data;
mod snapshots;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod suite;
mod user_quotas;

pub use acl::{PosixAcl, PosixName};
pub use attributes::{
    AttributeChanges, AttributeRequest, Attributes, Device, DosInfo, FileKey, FileKind,
    MetadataPresence, OwnerChange, Protection, Space, TimeChange, Timestamp,
};
pub use case::{fold_case, has_case};
pub use changes::{ChangeFeed, ChangeFeeds, FollowId, ListingFeed, NameChange};
pub use child::{ChildName, ChildRename, ExpectedChild, NameActor, NewChild, Replace};
pub use delayed::DelayedVfs;
pub use error::{FsError, Result};
pub use exclusive_creation::ExclusiveCreation;
pub use extended_attributes::ExtendedAttributes;
pub use external::{
    ExternalChange, ExternalChangeCallback, ExternalName, ExternalWatch, ExternalWatches,
    FileChangeCallback, TreeChangeCallback,
};
pub use features::{FileSystemId, SecurityChange, TreeFeatures};
pub use file_extents::FileExtents;
pub use freshness::ArrivalOrder;
pub use handle::{LocatedNode, NodeHandle, PersistentHandles, SpecialKind};
pub use identity::{Actor, ElevationReason, Identity, Role, ServerWork};
pub use keyed_hash::KeyedBuildHasher;
pub use listing::{EntryChoice, ListSink, ListedEntry, ListingRequest};
pub use local_file::LocalFile;
pub use name_cache::{NameCache, NameLookup};
pub use named_streams::NamedStreams;
pub use node_security::{ChildLookup, NodeSecurityCache, OpenWithSecurity, SecurityCacheTotals};
pub use opening::{CreateHow, CreationMode, Initialisation, NodeInitialiser, OpenHow, OpenedNode};
pub use path::{Name, RelPath, XattrName};
pub use quota::{Quota, QuotaLimits, QuotaState};
pub use reparse_data::ReparseData;
pub use snapshots::Snapshots;
pub use stream::{StreamEntry, StreamName};
pub use user_quotas::UserQuotas;

/// Whether a call may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Answers from memory, or refuses with [`FsError::WouldBlock`].
    Never,
    /// Waits as long as necessary.
    Allowed,
}

/// Comparison of names during path resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Byte for byte.
    Sensitive,
    /// Exact match first, else a name that differs in case only.
    Insensitive,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name; `.` and `..` are never listed.
    pub name: Name,
    /// Inode number in its file system.
    pub inode: u64,
    /// The kind, if the directory stores it.
    pub kind: Option<FileKind>,
    /// Cookie for [`Node::readdir`] to continue after this entry.
    pub next: u64,
}

/// A tree of files.
///
/// Every call may run concurrently with every other. Paths are relative to the root and never leave
/// it, whatever symbolic links they contain. Each call that the system may refuse takes its actor:
/// see [`Node`].
///
/// A capability is a promise of some file systems only: a trait of its own that a caller asks for. Its documentation states what the server does without it.
pub trait Vfs: Send + Sync + std::fmt::Debug {
    /// Opens an existing node as `actor`. The empty path is the root.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if only the last component is missing,
    /// [`FsError::PathNotFound`] if an earlier one is or is not a directory,
    /// [`FsError::AccessDenied`], [`FsError::WouldBlock`] (see [`OpenHow::wait`]),
    /// [`FsError::SymlinkLoop`] / [`FsError::SymlinkEscapes`] / [`FsError::SymlinkMet`]
    /// by the link policy ([`TreeFeatures::follows_links`]).
    fn open(&self, actor: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<OpenedNode>;

    /// Looks up a name in an open directory, for an actor with known search permission on it.
    /// Everyone has it, or the thread already has the actor's identity. Reports the node,
    /// [`FsError::NotFound`] or [`FsError::WouldBlock`]. None if the system refuses, or for a
    /// symbolic link to follow: the caller then uses [`Vfs::open`], which checks permission.
    fn lookup_child(&self, actor: Actor<'_>, child: ChildName<'_>, how: OpenHow) -> ChildLookup {
        let _ = (actor, child, how);
        None
    }

    /// Creates a file or directory as `actor`, exclusively, and opens it for reading and writing.
    /// With [`Case::Insensitive`] a name that differs in case only counts as existing. `case` also
    /// applies to earlier components.
    ///
    /// # Errors
    /// [`FsError::AlreadyExists`]; [`FsError::PathNotFound`]; [`FsError::AccessDenied`];
    /// [`FsError::NoSpace`]; [`FsError::NameTooLong`].
    fn create(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode>;

    /// As [`Vfs::create`] in an open directory, on which `actor` is known to have search permission.
    /// Resolves no path and follows no link.
    ///
    /// # Errors
    /// As [`Vfs::create`]; [`FsError::NotFound`] if the directory is deleted.
    fn create_in(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        self.create(actor.for_path()?, child.path, case, how)
    }

    /// Creates a node that is neither file nor directory, as [`Vfs::create_in`] does, and opens it
    /// as with `O_PATH`.
    ///
    /// # Errors
    /// As [`Vfs::create_in`].
    fn create_special_in(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        new: NewChild<'_>,
    ) -> Result<OpenedNode> {
        match new {
            NewChild::Symlink(target) => self.symlink(actor.for_path()?, child.path, target),
            NewChild::Special { kind, mode } => {
                self.create_special(actor.for_path()?, child.path, kind, mode)
            }
        }
    }

    /// Whether [`Vfs::create`] never waits for a disk.
    fn creates_without_waiting(&self) -> bool {
        true
    }

    /// Removes the name `path` (exact spelling), if it still refers to `expected`.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the name is gone or refers to another node, [`FsError::NotEmpty`],
    /// [`FsError::AccessDenied`]. May take long for large files.
    fn remove(&self, actor: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()>;

    /// As [`Vfs::remove`] in an open directory, on which `actor` is known to have search permission.
    /// Resolves no path and follows no link.
    ///
    /// # Errors
    /// As [`Vfs::remove`].
    fn remove_in(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        expected: ExpectedChild,
    ) -> Result<()> {
        self.remove(actor.for_path()?, child.path, expected.key)
    }

    /// Renames `from` (exact spelling) to `to`, atomically. A change of a name's own case is a
    /// rename too, and never [`FsError::AlreadyExists`].
    ///
    /// # Errors
    /// As [`Vfs::create`] and [`Vfs::remove`]; [`FsError::IsDirectory`] if `to` is a directory.
    fn rename(
        &self,
        actor: Actor<'_>,
        from: &RelPath,
        to: &RelPath,
        replace: Replace,
    ) -> Result<()>;

    /// As [`Vfs::rename`] between open directories, if both names still refer to the expected
    /// nodes. Resolves no path and follows no link.
    ///
    /// # Errors
    /// As [`Vfs::rename`]; [`FsError::NotFound`] if the current name refers to another node,
    /// [`FsError::AlreadyExists`] if the new one does.
    fn rename_in(&self, actor: NameActor<'_>, rename: ChildRename<'_>) -> Result<()> {
        self.rename(actor.for_path()?, rename.from.path, rename.to.path, rename.replace)
    }

    /// Adds the hard link `to` to `node`.
    ///
    /// # Errors
    /// As [`Vfs::create`]; [`FsError::NotSupported`] for directories.
    fn link(&self, actor: Actor<'_>, node: &dyn Node, to: &RelPath, replace: Replace)
    -> Result<()>;

    /// As [`Vfs::link`] to a free name, by the rules of POSIX alone: an actor that may add the name
    /// may link any file. A host may deny its own users links to files that they may not write
    /// (`fs.protected_hardlinks`, proc(5)), which is no rule of the protocol. link(3p).
    ///
    /// # Errors
    /// As [`Vfs::link`].
    fn link_as_posix(&self, actor: Actor<'_>, node: &dyn Node, to: &RelPath) -> Result<()> {
        self.link(actor, node, to, Replace::Never)
    }

    /// Creates a symbolic link with the text `target`.
    ///
    /// # Errors
    /// As [`Vfs::create`].
    fn symlink(&self, actor: Actor<'_>, path: &RelPath, target: &[u8]) -> Result<OpenedNode>;

    /// Size and free space of the root's file system, as `actor` may use it.
    ///
    /// # Errors
    /// [`FsError::Io`] or [`FsError::Stale`] if the root is gone.
    fn space(&self, actor: Actor<'_>) -> Result<Space>;

    /// As [`Vfs::space`], for the file system of `node`: another one may be mounted below the root.
    ///
    /// # Errors
    /// As [`Vfs::space`].
    fn space_of(&self, actor: Actor<'_>, _node: &dyn Node) -> Result<Space> {
        self.space(actor)
    }

    /// Whether the system refuses every change, as on a read-only mount; it may change while the
    /// tree is served.
    fn is_read_only(&self) -> bool {
        false
    }

    /// As [`Vfs::is_read_only`], for the mount of `node`.
    fn is_read_only_at(&self, _node: &dyn Node) -> bool {
        self.is_read_only()
    }

    /// Reopens this very node as `actor`, wherever it is, by no path. Ignores the path options of
    /// `how`, and returns no path.
    ///
    /// # Errors
    /// As [`Vfs::open`]; [`FsError::Stale`] if the node is gone.
    fn open_node(&self, actor: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<OpenedNode>;

    /// Creates a FIFO, a socket or a device, exclusively.
    ///
    /// # Errors
    /// As [`Vfs::create`]; [`FsError::NotSupported`] if the file system has no such nodes.
    fn create_special(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        kind: SpecialKind,
        mode: CreationMode,
    ) -> Result<OpenedNode>;

    /// The persistent handles of nodes, which NFS needs; see [`PersistentHandles`].
    fn handles(&self) -> Option<&dyn PersistentHandles> {
        None
    }

    /// User quotas, if the file system can have any; see [`UserQuotas`].
    fn quotas(&self) -> Option<&dyn UserQuotas> {
        None
    }

    /// Watches for changes by other processes; see [`ExternalWatches`].
    fn external_watches(&self) -> Option<&dyn ExternalWatches> {
        None
    }

    /// Feeds of all changes, on which a cache can rely; see [`ChangeFeeds`].
    fn feeds(&self) -> Option<&dyn ChangeFeeds> {
        None
    }

    /// Features of the tree. Constant while the tree is served.
    fn features(&self) -> TreeFeatures;

    /// As [`Vfs::features`], with the properties of the file system of `node`: another one may be
    /// mounted below the root. The first call for a file system may take long.
    fn features_of(&self, _node: &dyn Node) -> TreeFeatures {
        self.features()
    }
}

impl dyn Vfs + '_ {
    /// The persistent handles, for a caller that has no fallback.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the backend has none.
    pub fn need_handles(&self) -> Result<&dyn PersistentHandles> {
        self.handles().ok_or(FsError::NotSupported)
    }
}

/// An open file or directory.
///
/// Calls may run concurrently. The open has checked permissions. A call that takes an [`Actor`]
/// runs as that actor, and the system checks it again. The other calls are on a list in
/// `cargo xtask tidy`: they use the open descriptor, for which the system checks no permission, or
/// memory.
///
/// The methods without a body are what every node is, and what NFS needs of each. A capability is a
/// trait of its own that a caller asks for, as of [`Vfs`]: its documentation states which protocol uses
/// it, and what the server does without it.
pub trait Node: Send + Sync + std::fmt::Debug {
    /// Identity of the node: never reused while this handle lives.
    fn key(&self) -> FileKey;

    /// Kind of the node.
    fn kind(&self) -> FileKind;

    /// Current attributes.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn attributes(&self, wanted: AttributeRequest) -> Result<Attributes>;

    /// Changes attributes: all, or as many as the backend documents.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`], [`FsError::NoSpace`], [`FsError::ReadOnly`].
    fn set_attributes(&self, actor: Actor<'_>, changes: &AttributeChanges) -> Result<()>;

    /// Appends up to `length` bytes at `offset` to `into`, without moving its content. Returns the
    /// count, which is smaller only at the end of the file.
    ///
    /// # Errors
    /// [`FsError::WouldBlock`] with nothing appended, [`FsError::IsDirectory`], [`FsError::Io`].
    fn read(&self, offset: u64, length: usize, into: &mut Vec<u8>, wait: Wait) -> Result<usize>;

    /// Writes all of `data` at `offset` or fails. After the return the data survives the death of
    /// this process.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::TooLarge`], [`FsError::Io`].
    fn write(&self, actor: Actor<'_>, offset: u64, data: &[u8]) -> Result<()>;

    /// Writes all of `data` at the current end of the file, atomically where the backend says so.
    ///
    /// # Errors
    /// As [`Node::write`]. A part of the data may stay.
    fn append(&self, actor: Actor<'_>, data: &[u8]) -> Result<()> {
        self.write(actor, self.attributes(AttributeRequest::default())?.size_bytes, data)
    }

    /// Makes data, and attributes unless `data_only`, survive a power loss; for a directory its
    /// names, too. Takes long. Works for nodes of every kind, however opened: a node opened with
    /// `O_PATH` is reopened as `actor`.
    ///
    /// # Errors
    /// [`FsError::Io`]: data may be lost, and the caller must report it.
    fn sync(&self, actor: Actor<'_>, data_only: bool) -> Result<()>;

    /// Sets the length in bytes; new bytes read as zero.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::TooLarge`].
    fn set_size(&self, actor: Actor<'_>, size_bytes: u64) -> Result<()>;

    /// Copies up to `length` bytes from `source`, within the backend if possible. Returns the
    /// count. Takes long.
    ///
    /// # Errors
    /// As [`Node::read`] and [`Node::write`]; [`FsError::NotSupported`] if
    /// `source` belongs to another backend.
    fn copy_range(
        &self,
        actor: Actor<'_>,
        offset: u64,
        source: &dyn Node,
        source_offset: u64,
        length: u64,
    ) -> Result<u64>;

    /// Passes the entries after `cookie` (0: from the start) to `each`, until it returns false or
    /// the directory ends. Returns true at the end.
    ///
    /// # Errors
    /// [`FsError::NotDirectory`], [`FsError::Io`].
    fn readdir(&self, cookie: u64, each: &mut dyn FnMut(DirEntry) -> bool) -> Result<bool>;

    /// As [`Node::readdir`], with the attributes that `wanted` requests of each entry that `sink`
    /// chooses, as `actor`; in one pass if the backend can. The sink may call back.
    ///
    /// # Errors
    /// As [`Node::readdir`]; [`FsError::AccessDenied`] if `actor` may stat no entry.
    fn readdir_with_attributes(
        &self,
        actor: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        listing::readdir_one_by_one(self, actor, cookie, wanted, sink)
    }

    /// Attributes of the child `name` (exact spelling) of this directory as `actor` may see them; of
    /// the link itself if it is one.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::AccessDenied`].
    fn child_attributes(
        &self,
        actor: Actor<'_>,
        name: &Name,
        wanted: AttributeRequest,
    ) -> Result<Attributes>;

    /// Whether the directory has no entries.
    ///
    /// # Errors
    /// [`FsError::NotDirectory`], [`FsError::Io`].
    fn is_empty(&self) -> Result<bool> {
        let mut found = false;
        self.readdir(0, &mut |_| {
            found = true;
            false
        })?;
        Ok(!found)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] for other kinds.
    fn readlink(&self, actor: Actor<'_>) -> Result<Vec<u8>>;

    /// The stored self-relative Windows security descriptor; none if a local user has changed owner
    /// or permissions since.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn security_descriptor(&self) -> Result<Option<Vec<u8>>>;

    /// The POSIX access list; none if the mode expresses all permissions.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn posix_acl(&self) -> Result<Option<PosixAcl>> {
        Ok(None)
    }

    /// Stores a Windows security descriptor with its POSIX representation. The caller has checked
    /// permission: the backend acts with the power of the process.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] with nothing changed if the backend stores none;
    /// [`FsError::NoSpace`]; [`FsError::AccessDenied`] for an owner that the process may not set.
    fn set_security(&self, actor: Actor<'_>, change: &SecurityChange<'_>) -> Result<()>;

    /// Control of where the data lies, if the node has it; see [`FileExtents`].
    fn file_extents(&self) -> Option<&dyn FileExtents> {
        None
    }

    /// Named streams, if the node can have any; see [`NamedStreams`].
    fn named_streams(&self) -> Option<&dyn NamedStreams> {
        None
    }

    /// Extended attributes of users, if the node can have any; see [`ExtendedAttributes`].
    fn extended_attributes(&self) -> Option<&dyn ExtendedAttributes> {
        None
    }

    /// Reparse data of clients, if the node can carry any; see [`ReparseData`].
    fn reparse_store(&self) -> Option<&dyn ReparseData> {
        None
    }

    /// The verifier of an exclusive create, if the node can retain one; see [`ExclusiveCreation`].
    fn exclusive_creation(&self) -> Option<&dyn ExclusiveCreation> {
        None
    }

    /// The node as a file of this machine's kernel, if it is one; see [`LocalFile`].
    fn local_file(&self) -> Option<&dyn LocalFile> {
        None
    }

    /// For a backend to recognise its own nodes in [`Node::copy_range`].
    fn as_any(&self) -> &dyn std::any::Any;
}
