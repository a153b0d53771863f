//! What the file layer asks of a place where files are kept.
//!
//! A backend knows names, bytes and attributes. It knows nothing of protocols,
//! sessions, share modes or leases: those are decided in `files` and `grants`
//! before a call arrives here. Calls are synchronous; those that may take long
//! are documented as such, and `files` runs them on a worker.
//!
//! Names are bytes as the file system has them (UTF-8 by custom). What a
//! protocol cannot spell is mapped in that protocol's crate.
#![forbid(unsafe_code)]

mod attributes;
mod case;
mod changes;
mod child;
mod delayed;
mod error;
mod features;
pub mod freshness;
mod handle;
mod identity;
mod keyed;
mod known;
mod listed;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
mod opening;
mod outside;
mod path;
mod quota;
mod snapshots;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod suite;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

pub use acl::{PosixAcl, PosixName};
pub use attributes::{
    AttributeChanges, Attributes, Device, DosInfo, FileKey, FileKind, OwnerChange, Protection,
    Space, Stored, TimeChange, Timestamp, Wanted,
};
pub use case::{fold_case, has_case};
pub use changes::{ChangeFeed, FollowId, ListingFeed, NameChange};
pub use child::{ChildName, ChildRename, Expected, NameActor, NewChild, Replace};
pub use delayed::Delayed;
pub use error::{FsError, Result};
pub use features::{Features, SecurityChange};
pub use freshness::ArrivalOrder;
pub use handle::{Located, NodeHandle, SpecialKind};
pub use identity::{Actor, Elevated, Identity, Role, ServerWork};
pub use keyed::Keyed;
pub use known::{KnownOpen, KnownSecurity, KnownTotals, NameLook};
pub use listed::{Choice, ListSink, ListWanted, Listed};
pub use opening::{CreateHow, CreationMode, Initialisation, NodeInitialiser, OpenHow, Opened};
pub use outside::{
    OutsideChange, OutsideName, OutsideWatch, TellChanged, TellOutside, TellOutsideIn,
};
pub use path::{Name, RelPath, XattrName};
pub use quota::{Quota, QuotaLimits, QuotaState};
pub use snapshots::Snapshots;
pub use stream::{StreamEntry, StreamName};

/// Whether a call may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Answer from memory, or refuse with [`FsError::WouldBlock`].
    Never,
    /// Take the time it takes.
    Allowed,
}

/// How names are compared when a path is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Byte for byte.
    Sensitive,
    /// Exact match first, else the name that differs by case only.
    Insensitive,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without `.` and `..`, which are never listed.
    pub name: Name,
    /// The node's number in its file system.
    pub inode: u64,
    /// The kind, if the directory says it.
    pub kind: Option<FileKind>,
    /// Give this to [`Node::list`] to continue after this entry.
    pub next: u64,
}

/// A tree of files.
///
/// Every call may run concurrently with every other. Paths are relative to the
/// root and can never leave it, whatever symbolic links they meet. A call that the system may
/// refuse says who makes it: see [`Node`].
pub trait Vfs: Send + Sync + std::fmt::Debug {
    /// Opens an existing node, as `who`. The empty path is the root.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if only the last component is missing,
    /// [`FsError::PathNotFound`] if an earlier one is or is not a directory,
    /// [`FsError::AccessDenied`], [`FsError::WouldBlock`] (see [`OpenHow::wait`]),
    /// [`FsError::SymlinkLoop`] / [`FsError::SymlinkEscapes`] / [`FsError::SymlinkMet`]
    /// by the link policy ([`Features::follows_links`]).
    fn open(&self, who: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<Opened>;

    /// As [`Vfs::open`], with what is known of the node beside.
    ///
    /// # Errors
    /// As [`Vfs::open`].
    fn open_known(&self, who: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<KnownOpen> {
        self.open(who, path, how).map(KnownOpen::from)
    }

    /// Looks at a name in an open directory, for an actor that is known to be let through it, by rights
    /// that everybody has or as whom the thread acts already. What it found, or
    /// [`FsError::NotFound`] or [`FsError::WouldBlock`]; None where that is refused, or for a symbolic
    /// link that is to be followed: [`Vfs::open`] then says what the actor may.
    fn look_in(&self, who: Actor<'_>, child: ChildName<'_>, how: OpenHow) -> NameLook {
        let _ = (who, child, how);
        None
    }

    /// Opens a directory for looking at what may be done in it: the attributes are
    /// right as to its owner and permissions, others may be older.
    ///
    /// # Errors
    /// As [`Vfs::open`].
    fn open_directory(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        wait: Wait,
    ) -> Result<KnownOpen> {
        let (read, write, no_follow) = (false, false, false);
        let how = OpenHow { read, write, case, wanted: Wanted::default(), no_follow, wait };
        self.open_known(who, path, how)
    }

    /// Makes a file or directory, as `who`, exclusively, and opens it for
    /// reading and writing. With [`Case::Insensitive`] a name differing only
    /// in case counts as taken; earlier components are resolved by `case`.
    ///
    /// # Errors
    /// [`FsError::AlreadyExists`]; [`FsError::PathNotFound`]; [`FsError::AccessDenied`];
    /// [`FsError::NoSpace`]; [`FsError::NameTooLong`].
    fn create(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<Opened>;

    /// As [`Vfs::create`] in a directory that is open, to which `who` is known to be let
    /// through. No path is resolved, and no link followed.
    ///
    /// # Errors
    /// As [`Vfs::create`]; [`FsError::NotFound`] if the directory is gone.
    fn create_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<Opened> {
        self.create(who.for_path()?, child.path, case, how)
    }

    /// Makes what is neither a file nor a directory, as [`Vfs::create_in`] does, and opens it
    /// for looking.
    ///
    /// # Errors
    /// As [`Vfs::create_in`].
    fn make_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        new: NewChild<'_>,
    ) -> Result<Opened> {
        match new {
            NewChild::Symlink(target) => self.symlink(who.for_path()?, child.path, target),
            NewChild::Special { kind, mode } => {
                self.make_special(who.for_path()?, child.path, kind, mode)
            }
        }
    }

    /// Whether [`Vfs::create`] never waits for a disk.
    fn creates_at_once(&self) -> bool {
        true
    }

    /// Removes the name `path` (exact spelling), if it still names `expected`.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the name is gone or names another node,
    /// [`FsError::NotEmpty`], [`FsError::AccessDenied`]. May take long for large files.
    fn remove(&self, who: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()>;

    /// As [`Vfs::remove`] in a directory that is open, to which `who` is known to be let
    /// through. No path is resolved, and no link followed.
    ///
    /// # Errors
    /// As [`Vfs::remove`].
    fn remove_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        expected: Expected,
    ) -> Result<()> {
        self.remove(who.for_path()?, child.path, expected.key)
    }

    /// The change attribute of a directory before one of its names is changed, if that is known
    /// without asking: as [`Vfs::look_at_change`] saw it last, while nothing has been done to its
    /// names since. What else may change it, such as its being moved, is not told.
    fn known_change(&self, directory: &dyn Node, order: ArrivalOrder) -> Option<u64> {
        let _ = (directory, order);
        None
    }

    /// The change attribute of a directory, after one of its names was changed.
    ///
    /// # Errors
    /// As [`Node::attributes`].
    fn look_at_change(&self, who: Actor<'_>, directory: &dyn Node) -> Result<u64> {
        let _ = who;
        directory.attributes(Wanted::default()).map(|attributes| attributes.change)
    }

    /// Renames `from` (exact spelling) to `to`, atomically. Spelling a name's
    /// own case anew is a rename too, and never [`FsError::AlreadyExists`].
    ///
    /// # Errors
    /// As [`Vfs::create`] and [`Vfs::remove`]; [`FsError::IsDirectory`] when a
    /// directory would be replaced.
    fn rename(&self, who: Actor<'_>, from: &RelPath, to: &RelPath, replace: Replace) -> Result<()>;

    /// As [`Vfs::rename`] between directories that are open, if the names still name what is
    /// expected. No path is resolved, and no link followed.
    ///
    /// # Errors
    /// As [`Vfs::rename`]; [`FsError::NotFound`] if the present name names another node,
    /// [`FsError::AlreadyExists`] if the new one does.
    fn rename_in(&self, who: NameActor<'_>, rename: ChildRename<'_>) -> Result<()> {
        self.rename(who.for_path()?, rename.from.path, rename.to.path, rename.replace)
    }

    /// Gives `node` the further name `to`.
    ///
    /// # Errors
    /// As [`Vfs::create`]; [`FsError::NotSupported`] for directories.
    fn link(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath, replace: Replace) -> Result<()>;

    /// As [`Vfs::link`] to a name that is free, by the rules of POSIX alone: whoever may add the name
    /// may give it to any file. A host may keep its own users from files that they may not write
    /// (`fs.protected_hardlinks`, proc(5)), which is no rule of the protocol. link(3p).
    ///
    /// # Errors
    /// As [`Vfs::link`].
    fn link_as_posix(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath) -> Result<()> {
        self.link(who, node, to, Replace::Never)
    }

    /// Makes a symbolic link whose stored text is `target`.
    ///
    /// # Errors
    /// As [`Vfs::create`].
    fn symlink(&self, who: Actor<'_>, path: &RelPath, target: &[u8]) -> Result<Opened>;

    /// Size and free space of the root's file system, as `who` may use it.
    ///
    /// # Errors
    /// [`FsError::Io`] or [`FsError::Stale`] if the root is gone.
    fn space(&self, who: Actor<'_>) -> Result<Space>;

    /// As [`Vfs::space`], of the file system that `node` is in: another one may be mounted below
    /// the root.
    ///
    /// # Errors
    /// As [`Vfs::space`].
    fn space_of(&self, who: Actor<'_>, _node: &dyn Node) -> Result<Space> {
        self.space(who)
    }

    /// What is done about quotas of users; it may change while the tree is served.
    fn quota_state(&self) -> QuotaState {
        QuotaState::Absent
    }

    /// Whether the system lets nothing be changed here, as on a file system that is mounted
    /// read-only; it may change while the tree is served.
    fn is_read_only(&self) -> bool {
        false
    }

    /// What the user `uid` stores and may store. May take long.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if that is another user than `who`, who may not
    /// ([`Actor::may_know_quota_of`]); [`FsError::NotSupported`] where there are no quotas.
    fn quota(&self, _who: Actor<'_>, _uid: u32) -> Result<Quota> {
        Err(FsError::NotSupported)
    }

    /// The first user from `uid` on of whom something is counted. May take long.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if there is none; [`FsError::AccessDenied`] but for the superuser
    /// and the server; [`FsError::NotSupported`] where there are no quotas.
    fn next_quota(&self, _who: Actor<'_>, _uid: u32) -> Result<(u32, Quota)> {
        Err(FsError::NotSupported)
    }

    /// Limits what a user may store. May take long.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] but for the superuser, or if the process may not;
    /// [`FsError::NotSupported`] where there are no quotas.
    fn set_quota(&self, _who: Actor<'_>, _uid: u32, _limits: QuotaLimits) -> Result<()> {
        Err(FsError::NotSupported)
    }

    /// Makes the limits that were set survive a loss of power. Takes long.
    ///
    /// # Errors
    /// [`FsError::Io`]: they may be lost.
    fn sync_quotas(&self, _who: Actor<'_>) -> Result<()> {
        Ok(())
    }

    /// Tells what others than this process do to names in `directory`, which
    /// is open for listing; not what they do below it. Linux lets only those hear who may read
    /// it: who is told is decided by the caller.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where the system does not say; [`FsError::TooMany`].
    fn watch(
        &self,
        _work: ServerWork,
        _directory: &dyn Node,
        _tell: TellOutside,
    ) -> Result<Box<dyn OutsideWatch>> {
        Err(FsError::NotSupported)
    }

    /// Tells what others than this process do to names in any directory of the
    /// tree; but for those that are gone by the time it is heard.
    ///
    /// # Errors
    /// As [`Vfs::watch`].
    fn watch_tree(&self, work: ServerWork, tell: TellOutsideIn) -> Result<Box<dyn OutsideWatch>> {
        let _ = (work, tell);
        Err(FsError::NotSupported)
    }

    /// Tells that others than this process changed the data of `file`: with
    /// `every_write` whenever they do, which makes each write of this process
    /// to it dearer; else when they close it. What is written through mapped
    /// memory is told when it is closed only.
    ///
    /// # Errors
    /// As [`Vfs::watch`]; [`FsError::NotSupported`] for what is open for looking only.
    fn watch_file(
        &self,
        _work: ServerWork,
        _file: &Arc<dyn Node>,
        _every_write: bool,
        _tell: TellChanged,
    ) -> Result<Box<dyn OutsideWatch>> {
        Err(FsError::NotSupported)
    }

    /// What names `node` for longer than it is open.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where there is no such thing.
    fn handle(&self, who: Actor<'_>, node: &dyn Node) -> Result<NodeHandle> {
        let _ = (who, node);
        Err(FsError::NotSupported)
    }

    /// Bytes that tell `node` from every other node that its file system has or had, with the
    /// number of the node: over a new mount, a restart of the machine and another device number.
    /// They are for comparison only. None where the file system has no such thing.
    fn lasting_id(&self, node: &dyn Node) -> Option<NodeHandle> {
        let _ = node;
        None
    }

    /// As [`Vfs::handle`], of a node that was opened or made by this path.
    ///
    /// # Errors
    /// As [`Vfs::handle`].
    fn handle_at(&self, who: Actor<'_>, node: &dyn Node, path: &RelPath) -> Result<NodeHandle> {
        let _ = path;
        self.handle(who, node)
    }

    /// The attributes and the handle of the file at `path` (exact spelling), whose directory this
    /// is, as `who` may see them: only if both are known for sure and at once, without opening it,
    /// as of a file that was made a moment ago.
    fn remembered(
        &self,
        who: Actor<'_>,
        directory: &dyn Node,
        path: &RelPath,
    ) -> Option<(Attributes, NodeHandle)> {
        let _ = (who, directory, path);
        None
    }

    /// The handle of the child `name` (exact spelling) of this directory, the link
    /// itself if it is one, of which these attributes are known.
    ///
    /// # Errors
    /// As [`Vfs::handle`]; [`FsError::NotFound`].
    fn child_handle(
        &self,
        who: Actor<'_>,
        directory: &dyn Node,
        name: &Name,
        child: &Attributes,
    ) -> Result<NodeHandle> {
        let _ = (who, directory, name, child);
        Err(FsError::NotSupported)
    }

    /// Whether handles of files may be known beforehand: then [`Vfs::known_handles`] is worth
    /// asking.
    fn knows_handles(&self) -> bool {
        false
    }

    /// The handles of children of this directory, each with its attributes as they were just
    /// seen, as far as they are known without asking for them: as [`Vfs::child_handle`].
    fn known_handles(
        &self,
        directory: &dyn Node,
        children: &[(Name, Attributes)],
    ) -> Vec<Option<NodeHandle>> {
        let _ = directory;
        vec![None; children.len()]
    }

    /// Finds the node of a handle, wherever in the tree it is by now. The handle may be
    /// anybody's bytes: Linux opens one for the superuser only ([`ServerWork::LocateNode`]), and
    /// what the caller may do to the node is decided afterwards. What has no name any more, but
    /// is open still, may be found, too: [`Attributes::links`] says so.
    ///
    /// # Errors
    /// [`FsError::Stale`] if there is no such node in the tree any more;
    /// [`FsError::InvalidParameter`] for what no handle looks like.
    fn find(&self, who: Actor<'_>, handle: &NodeHandle, wanted: Wanted) -> Result<Located> {
        let _ = (who, handle, wanted);
        Err(FsError::NotSupported)
    }

    /// The node of a handle and its path, if both are known without a look: as surely as
    /// [`Vfs::find`] finds them, and at once.
    fn find_known(
        &self,
        handle: &NodeHandle,
        order: ArrivalOrder,
    ) -> Option<(Arc<dyn Node>, RelPath)> {
        let _ = (handle, order);
        None
    }

    /// Where a node is now: one of its paths, of which none has to be known of what
    /// is no directory ([`RelPath::nameless`]).
    ///
    /// # Errors
    /// [`FsError::Stale`] if it has left the tree, or has no name any more.
    fn path_of(&self, who: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        let _ = (who, node);
        Err(FsError::NotSupported)
    }

    /// As [`Vfs::path_of`], or where it was since the request of `who` came
    /// ([`Actor::in_order`]): to begin with, not to be sure afterwards that it has not moved.
    ///
    /// # Errors
    /// As [`Vfs::path_of`].
    fn path_since(&self, who: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        self.path_of(who, node)
    }

    /// Opens a node anew, as `who`, by no path: that very one, wherever it is. Of `how`
    /// the path's part does not count, and the answer has none.
    ///
    /// # Errors
    /// As [`Vfs::open`]; [`FsError::Stale`] if it is gone.
    fn open_node(&self, who: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<Opened> {
        let _ = (who, node, how);
        Err(FsError::NotSupported)
    }

    /// Makes a pipe, a socket or a device, exclusively.
    ///
    /// # Errors
    /// As [`Vfs::create`].
    fn make_special(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        kind: SpecialKind,
        mode: CreationMode,
    ) -> Result<Opened> {
        let _ = (who, path, kind, mode);
        Err(FsError::NotSupported)
    }

    /// Tells what everyone does to names in directories that are followed, with
    /// certainty as soon as it is asked.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where the system does not say; [`FsError::TooMany`].
    fn change_feed(&self) -> Result<Box<dyn ChangeFeed>> {
        Err(FsError::NotSupported)
    }

    /// Tells when listings have changed.
    ///
    /// # Errors
    /// As [`Vfs::change_feed`].
    fn listing_feed(&self) -> Result<Box<dyn ListingFeed>> {
        Err(FsError::NotSupported)
    }

    /// As [`Node::list_with_attributes`] of `directory`, which is open for listing.
    ///
    /// # Errors
    /// As [`Node::list_with_attributes`].
    fn list_with_attributes(
        &self,
        directory: &dyn Node,
        who: Actor<'_>,
        cookie: u64,
        wanted: ListWanted,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        directory.list_with_attributes(who, cookie, wanted, sink)
    }

    /// What is known still of what `directory` lists, as [`Node::list_with_attributes`] tells it:
    /// to whom it was told before, and who may still open it for listing, which it need not be.
    /// None if it has to be opened to go on behind what was told.
    ///
    /// # Errors
    /// As [`Node::list_with_attributes`].
    fn list_known(
        &self,
        _directory: &dyn Node,
        _who: Actor<'_>,
        _cookie: u64,
        _wanted: ListWanted,
        _sink: &mut dyn ListSink,
    ) -> Result<Option<bool>> {
        Ok(None)
    }

    /// Whether names are compared by case in the backend itself, whether
    /// sparse files, reflinks, extended attributes exist: constant per tree.
    fn features(&self) -> Features;
}

/// An open file or directory.
///
/// Calls may run concurrently. Rights were checked when it was opened; calls that take an
/// [`Actor`] are made as that one, and what the system asks of it is asked again. The others are
/// those of which `cargo xtask tidy` has a list: they look at the open descriptor, for which the
/// system asks nobody for permission, or at memory.
pub trait Node: Send + Sync + std::fmt::Debug {
    /// What the node is, for ever: never reused while this handle lives.
    fn key(&self) -> FileKey;

    /// File, directory, or another kind.
    fn kind(&self) -> FileKind;

    /// Present attributes.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn attributes(&self, wanted: Wanted) -> Result<Attributes>;

    /// Changes attributes, all or (documented by the backend) as many as it could.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`], [`FsError::NoSpace`], [`FsError::ReadOnly`].
    fn set_attributes(&self, who: Actor<'_>, changes: &AttributeChanges) -> Result<()>;

    /// Appends up to `length` bytes at `offset` to `into`, without moving what
    /// is already there; returns how many: fewer only at the end of the file.
    ///
    /// # Errors
    /// [`FsError::WouldBlock`] with nothing appended, [`FsError::IsDirectory`], [`FsError::Io`].
    fn read(&self, offset: u64, length: usize, into: &mut Vec<u8>, wait: Wait) -> Result<usize>;

    /// Writes all of `data` at `offset` or fails. Survives this process being
    /// killed once it has returned.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::TooLarge`], [`FsError::Io`].
    fn write(&self, who: Actor<'_>, offset: u64, data: &[u8]) -> Result<()>;

    /// Writes all of `data` behind the end of the file, wherever that is by then:
    /// nobody else's write comes in between, where the backend says so.
    ///
    /// # Errors
    /// As [`Node::write`]. What was written of it by then may stay.
    fn append(&self, who: Actor<'_>, data: &[u8]) -> Result<()> {
        self.write(who, self.attributes(Wanted::default())?.size_bytes, data)
    }

    /// Makes data (and unless `data_only`, attributes) survive power loss: of a directory the
    /// names in it, too. Takes long. Works for nodes of every kind, however they were opened: what
    /// is open for looking only is opened anew as `who`.
    ///
    /// # Errors
    /// [`FsError::Io`]: data may be lost, and the caller must be told.
    fn sync(&self, who: Actor<'_>, data_only: bool) -> Result<()>;

    /// Whether [`Node::sync`] waits for nothing, since nothing here survives power loss anyway. A
    /// hint: false negatives are allowed.
    fn syncs_at_once(&self) -> bool {
        false
    }

    /// Sets the length in bytes; new bytes read as zero.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::TooLarge`].
    fn set_size(&self, who: Actor<'_>, size_bytes: u64) -> Result<()>;

    /// Reserves space for the range without changing what reads return or the length.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::NotSupported`].
    fn allocate(&self, who: Actor<'_>, offset: u64, length: u64) -> Result<()>;

    /// As [`Node::allocate`], and a file that ends before the range's end grows to it, in one
    /// step: it is never cut, whatever is written meanwhile.
    ///
    /// # Errors
    /// As [`Node::allocate`]; [`FsError::TooLarge`].
    fn allocate_and_grow(&self, who: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        let _ = (who, offset, length);
        Err(FsError::NotSupported)
    }

    /// Makes the range read as zeros and frees its space where possible; the
    /// length of the file stays.
    ///
    /// # Errors
    /// [`FsError::NotSupported`], [`FsError::NoSpace`].
    fn punch_hole(&self, who: Actor<'_>, offset: u64, length: u64) -> Result<()>;

    /// The first range at or after `offset` that holds data, as
    /// (start, end); none if only a hole is left.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn next_data(&self, offset: u64) -> Result<Option<(u64, u64)>>;

    /// Copies up to `length` bytes from `source`, within the backend where it
    /// can; returns how many. Takes long.
    ///
    /// # Errors
    /// As [`Node::read`] and [`Node::write`]; [`FsError::NotSupported`] if
    /// `source` belongs to another backend.
    fn copy_range(
        &self,
        who: Actor<'_>,
        offset: u64,
        source: &dyn Node,
        source_offset: u64,
        length: u64,
    ) -> Result<u64>;

    /// Shares extents of `source` (reflink): all of the range, or nothing. Takes long.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where the file system cannot; [`FsError::CrossDevice`] if
    /// `source` lies elsewhere; [`FsError::InvalidParameter`] for a range that does not
    /// begin and end with a block (or with the source), or that overlaps its own copy.
    fn clone_range(
        &self,
        who: Actor<'_>,
        offset: u64,
        source: &dyn Node,
        source_offset: u64,
        length: u64,
    ) -> Result<()>;

    /// Has the file system keep the data of this file, or of files that are made in
    /// this directory, compressed or not. What reads return is the same.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where the file system cannot; [`FsError::AccessDenied`].
    fn set_compressed(&self, who: Actor<'_>, compressed: bool) -> Result<()> {
        let _ = (who, compressed);
        Err(FsError::NotSupported)
    }

    /// Gives entries after `cookie` (0: from the start) to `each`, until it
    /// returns false or the directory ends. Returns true at the end.
    ///
    /// # Errors
    /// [`FsError::NotDirectory`], [`FsError::Io`].
    fn list(&self, cookie: u64, each: &mut dyn FnMut(DirEntry) -> bool) -> Result<bool>;

    /// As [`Node::list`], with what `wanted` says of each entry that `sink` chooses, as
    /// `who`: in one pass where the backend can. The sink may call back.
    ///
    /// # Errors
    /// As [`Node::list`]; [`FsError::AccessDenied`] if no entry may be looked at.
    fn list_with_attributes(
        &self,
        who: Actor<'_>,
        cookie: u64,
        wanted: ListWanted,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        listed::list_one_by_one(self, who, cookie, wanted, sink)
    }

    /// Attributes of the child `name` (exact spelling) of this directory as `who` may see
    /// them, of the link itself if it is one.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::AccessDenied`].
    fn child_attributes(&self, who: Actor<'_>, name: &Name, wanted: Wanted) -> Result<Attributes>;

    /// Whether a directory has no entries.
    ///
    /// # Errors
    /// [`FsError::NotDirectory`], [`FsError::Io`].
    fn is_empty(&self) -> Result<bool> {
        let mut found = false;
        self.list(0, &mut |_| {
            found = true;
            false
        })?;
        Ok(!found)
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] for other kinds.
    fn read_link(&self, who: Actor<'_>) -> Result<Vec<u8>>;

    /// What the node stands for, as a protocol stored it.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it stands for itself.
    fn reparse_data(&self, who: Actor<'_>) -> Result<Vec<u8>> {
        let _ = who;
        Err(FsError::NotFound)
    }

    /// Stores what the node stands for, or that it stands for itself.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where none can be stored; [`FsError::NoSpace`],
    /// [`FsError::AccessDenied`].
    fn set_reparse_data(&self, who: Actor<'_>, data: Option<&[u8]>) -> Result<()> {
        let _ = (who, data);
        Err(FsError::NotSupported)
    }

    /// What [`Node::set_verifier`] stored. The mode that the file was made with may keep its
    /// maker from reading it.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if nothing was.
    fn verifier(&self, who: Actor<'_>) -> Result<[u8; 8]> {
        let _ = who;
        Err(FsError::NotFound)
    }

    /// Stores the number by which its maker knows the file again; to be called while the file is
    /// open for writing. The mode that it was made with may keep its maker from writing it.
    ///
    /// # Errors
    /// [`FsError::NoSpace`]. Where it cannot be stored nothing is done.
    fn set_verifier(&self, who: Actor<'_>, verifier: [u8; 8]) -> Result<()> {
        let _ = (who, verifier);
        Ok(())
    }

    /// Users' extended attributes: names without the `user.` prefix; those
    /// that store what other calls speak of (DOS attributes, streams,
    /// descriptors) are not listed.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where none can be stored.
    fn xattr_names(&self, who: Actor<'_>) -> Result<Vec<XattrName>>;

    /// Names and lengths of the users' extended attributes of the child `name`
    /// (exact spelling) of this directory, the link itself if it is one; none
    /// where that cannot be told.
    fn child_xattrs(&self, who: Actor<'_>, name: &Name) -> Vec<(XattrName, usize)> {
        let _ = (who, name);
        Vec::new()
    }

    /// One extended attribute's value.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::AccessDenied`].
    fn xattr(&self, who: Actor<'_>, name: &XattrName) -> Result<Vec<u8>>;

    /// Sets, or with `None` removes, an extended attribute.
    ///
    /// # Errors
    /// [`FsError::TooLarge`] past the file system's limit, [`FsError::AccessDenied`].
    fn set_xattr(&self, who: Actor<'_>, name: &XattrName, value: Option<&[u8]>) -> Result<()>;

    /// All named streams, in no order. Names and lengths are not data, but Linux asks for the
    /// right to read data for the lengths.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::AccessDenied`].
    fn streams(&self, who: Actor<'_>) -> Result<Vec<StreamEntry>> {
        let _ = who;
        Ok(Vec::new())
    }

    /// The stream called `name`: as [`Node::streams`].
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::AccessDenied`].
    fn find_stream(&self, who: Actor<'_>, name: &StreamName, case: Case) -> Result<StreamEntry> {
        let _ = (who, name, case);
        Err(FsError::NotFound)
    }

    /// Makes an empty stream, exclusively; with [`Case::Insensitive`] a name
    /// differing only in case counts as taken.
    ///
    /// # Errors
    /// [`FsError::AlreadyExists`], [`FsError::AccessDenied`], [`FsError::NoSpace`],
    /// [`FsError::NameTooLong`], [`FsError::NotSupported`], [`FsError::AttributesFull`].
    fn create_stream(&self, who: Actor<'_>, name: &StreamName, case: Case) -> Result<()> {
        let _ = (who, name, case);
        Err(FsError::NotSupported)
    }

    /// Appends up to `length` bytes of the stream `name` (exact spelling, here
    /// and below) at `offset` to `into`; returns how many. May wait for a disk.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if there is no such stream any more, [`FsError::AccessDenied`].
    fn read_stream(
        &self,
        who: Actor<'_>,
        name: &StreamName,
        offset: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) -> Result<usize> {
        let _ = (who, name, offset, length, into);
        Err(FsError::NotSupported)
    }

    /// Writes all of `data` at `offset` of the stream `name`, or nothing.
    ///
    /// # Errors
    /// As [`Node::read_stream`]; [`FsError::NoSpace`]; [`FsError::TooLarge`] if it would grow past
    /// what can be stored; [`FsError::AttributesFull`].
    fn write_stream(
        &self,
        who: Actor<'_>,
        name: &StreamName,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let _ = (who, name, offset, data);
        Err(FsError::NotSupported)
    }

    /// The file that has the data of the stream `name`, for calls that go to data alone; none where
    /// they are kept beside those of the node. It stays when the stream is renamed. With `writes`
    /// the actor must be allowed to write the stream, and data may be changed by way of it.
    ///
    /// # Errors
    /// As [`Node::read_stream`].
    fn stream_data(
        &self,
        who: Actor<'_>,
        name: &StreamName,
        writes: bool,
    ) -> Result<Option<Arc<dyn Node>>> {
        let _ = (who, name, writes);
        Ok(None)
    }

    /// Sets the length of the stream `name` in bytes; new bytes read as zero.
    ///
    /// # Errors
    /// As [`Node::write_stream`].
    fn set_stream_size(&self, who: Actor<'_>, name: &StreamName, size_bytes: u64) -> Result<()> {
        let _ = (who, name, size_bytes);
        Err(FsError::NotSupported)
    }

    /// Removes the stream `name`.
    ///
    /// # Errors
    /// As [`Node::read_stream`].
    fn remove_stream(&self, who: Actor<'_>, name: &StreamName) -> Result<()> {
        let _ = (who, name);
        Err(FsError::NotSupported)
    }

    /// Gives the stream `from` the name `to`.
    ///
    /// # Errors
    /// As [`Node::read_stream`] and [`Node::create_stream`].
    fn rename_stream(
        &self,
        who: Actor<'_>,
        from: &StreamName,
        to: &StreamName,
        replace: Replace,
    ) -> Result<()> {
        let _ = (who, from, to, replace);
        Err(FsError::NotSupported)
    }

    /// The stored Windows security descriptor, self-relative, if there is one
    /// and neither owner nor permissions were changed since by others.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn security_descriptor(&self) -> Result<Option<Vec<u8>>>;

    /// Permissions of named users and groups; none where the mode says all.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn posix_acl(&self) -> Result<Option<PosixAcl>> {
        Ok(None)
    }

    /// Stores a Windows security descriptor together with what POSIX is to
    /// show of it. Whether the caller may was decided before: this is done
    /// with the power of the process.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where none can be stored, with nothing
    /// changed; [`FsError::NoSpace`]; [`FsError::AccessDenied`] for an owner
    /// that the process may not set.
    fn set_security(&self, who: Actor<'_>, change: &SecurityChange<'_>) -> Result<()>;

    /// The descriptor to `sendfile` from, if the node is a plain local file
    /// open for reading.
    fn sendfile_source(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether the whole range is in memory, so that reading it will not wait
    /// for a disk. A hint: false negatives are allowed.
    fn is_resident(&self, offset: u64, length: usize) -> bool {
        let _ = (offset, length);
        false
    }

    /// For backends to recognise their own nodes in [`Node::copy_range`].
    fn as_any(&self) -> &dyn std::any::Any;
}
