//! The stream store: files for streams that are too long for an extended attribute.
//!
//! Each file system has its stores: a directory `.anabranch-streams` in the root of a share, and in
//! each file system mounted below one. Each long stream is a file there. The stream's attribute
//! refers to it by an id ([`record::StoredId`]), so that a rename or a hard link of the host costs
//! nothing. The store file holds a record of its host, the file that the stream belongs to.
//!
//! No client reaches a store by a name, a handle or a link: [`reserved::is_store_name`] checks names, and
//! [`reserved::is_reserved`] checks every opened node. Local users cannot enter the directory, which belongs
//! to the superuser. A store file belongs to its host's owner, to whom its bytes are accounted.
//!
//! The caller decides which users may use a stream, by accessing the attribute with that user's
//! credentials. The store itself is accessed as the server, but data are written without its
//! privileges.
//!
//! A reference to an unreachable store file is an error, never a missing stream: the store may be
//! unmounted, unreachable or not restored yet. Only a record that refers to another existing file
//! proves that the reference was copied and is void.

mod adoption;
mod inventory;
mod mounts;
mod orphan_mark;
mod project;
mod record;
pub mod reserved;
mod restored;
mod roots;
mod sweep;

use crate::errors::refusal;
use crate::handles::{current_form, persistent_id};
use crate::identity::as_server;
use crate::local_node::LocalNode;
use crate::posix_acl::PermissionState;
use adoption::HostRelation;
pub use inventory::StreamInventory;
pub(crate) use mounts::mounts_in;
pub use record::StoredId;
use record::{HostIdentity, RECORD_BYTES_MAX, StoreFileRecord};
use reserved::{FILE_MODE, NAME, RECORD, STORE_MODE, is_directory, is_store_name};
pub use roots::{ServedRoot, serve};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Once};
use std::time::Duration;
pub use sweep::LosingHost;
use sync::{Condvar, Mutex, MutexGuard};
use vfs::{FileKey, FsError, Result, ServerWork};

/// Attempts to find a file in all stores while it may be moved between them.
const MOVED_TRIES_MAX: u32 = 16;
/// Attempts to find a file to sync, and the pause between them.
const WRITTEN_TRIES_MAX: u32 = 3;
const WRITTEN_PAUSE: Duration = Duration::from_millis(10);

/// Files whose streams are being changed.
static LOCKED: LazyLock<Mutex<HashSet<FileKey>>> = LazyLock::new(Mutex::default);
static UNLOCKED: Condvar = Condvar::new();

/// True once this process has opened a store. Before that, no stream that it wrote can be in one.
static HAS_STORE: AtomicBool = AtomicBool::new(false);

/// Exclusive right to change the streams of one file, until it is dropped. It may be held during a
/// sync, which delays changes of that file's streams only.
#[derive(Debug)]
pub struct StreamsLock(FileKey);

/// Waits for the exclusive right to change the streams of a file.
pub fn lock_streams(key: FileKey) -> StreamsLock {
    let mut locked = locked();
    while !locked.insert(key) {
        locked = UNLOCKED.wait(locked);
    }
    StreamsLock(key)
}

impl Drop for StreamsLock {
    fn drop(&mut self) {
        locked().remove(&self.0);
        UNLOCKED.notify_all();
    }
}

fn locked() -> MutexGuard<'static, HashSet<FileKey>> {
    LOCKED.lock()
}

/// True if a file may have unsynced long streams. Costs nothing.
pub fn may_be_used() -> bool {
    HAS_STORE.load(Ordering::Relaxed)
}

/// The error when a store, or a file in it, cannot be created.
fn refused(operation: &'static str, errno: Errno) -> FsError {
    match errno {
        // The process may not create a store there, or the file system has no extended attributes.
        Errno::ACCESS | Errno::PERM | Errno::OPNOTSUPP => FsError::AttributesFull,
        other => refusal(operation, other),
    }
}

/// The error when a store file is unreachable, which never means that it does not exist.
fn unreachable(operation: &'static str, errno: Errno) -> FsError {
    match refusal(operation, errno) {
        error @ (FsError::Io | FsError::TooMany | FsError::WouldBlock) => error,
        _ => FsError::Unavailable,
    }
}

/// Result of looking up a store file.
enum StoreLookup {
    Found(StoredFile),
    /// Its record refers to another existing file: the reference was copied.
    Foreign,
    /// Its host cannot be determined.
    Unclear,
    /// No reachable store has it.
    Missing,
}

/// Results of the stores without the file.
#[derive(Default)]
struct FailedLookups {
    error: Option<FsError>,
    is_unclear: bool,
    is_foreign: bool,
}

impl FailedLookups {
    fn note(&mut self, answer: Result<StoreLookup>) {
        match answer {
            Ok(StoreLookup::Foreign) => self.is_foreign = true,
            Ok(StoreLookup::Unclear) => self.is_unclear = true,
            Ok(StoreLookup::Missing | StoreLookup::Found(_)) => {}
            Err(failed) => self.error = self.error.take().or(Some(failed)),
        }
    }

    fn lookup(self) -> Result<StoreLookup> {
        match self.error {
            Some(error) => Err(error),
            None if self.is_unclear => Ok(StoreLookup::Unclear),
            None if self.is_foreign => Ok(StoreLookup::Foreign),
            None => Ok(StoreLookup::Missing),
        }
    }
}

/// An open store file.
#[derive(Debug)]
pub struct StoredFile {
    file: OwnedFd,
    store: OwnedFd,
    id: StoredId,
}

impl StoredFile {
    /// Opens the store file of a stream of `node`. A restored file is adopted by `node` if
    /// permitted: see [`adoption`].
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it certainly belongs to another file.
    /// [`FsError::Unavailable`] and others if that is uncertain: the stream may exist.
    pub fn open(node: &LocalNode, id: StoredId, writes: bool) -> Result<Self> {
        match Self::look(node, id, writes)? {
            StoreLookup::Found(stored) => Ok(stored),
            StoreLookup::Foreign => Err(FsError::NotFound),
            StoreLookup::Unclear => Err(FsError::Unavailable),
            StoreLookup::Missing => {
                let (inode, id) = (node.key.inode, id.file_name());
                tracing::error!(
                    inode,
                    id,
                    "a long stream is unavailable: no directory {NAME} contains its store file. Mount \
                     or restore that directory. If the file came from a share that is no longer \
                     served, serve that share again, or move the store file with this id from \
                     its {NAME} to that of this share. To discard the stream, remove its \
                     attribute (setfattr -x)"
                );
                Err(FsError::Unavailable)
            }
        }
    }

    /// Like [`StoredFile::open`], for reading; `None` if no reachable store has it for the node.
    ///
    /// # Errors
    /// Like [`StoredFile::open`].
    pub fn open_present(node: &LocalNode, id: StoredId) -> Result<Option<Self>> {
        match Self::look(node, id, false)? {
            StoreLookup::Found(stored) => Ok(Some(stored)),
            StoreLookup::Foreign | StoreLookup::Unclear | StoreLookup::Missing => Ok(None),
        }
    }

    /// Like [`StoredFile::open_present`], for a stream to sync. A missing file is an error if it is
    /// known to be the node's, because writes went there.
    ///
    /// # Errors
    /// Like [`StoredFile::open`].
    pub fn open_written(node: &LocalNode, id: StoredId) -> Result<Option<Self>> {
        for _ in 0..WRITTEN_TRIES_MAX {
            match Self::look(node, id, false)? {
                StoreLookup::Found(stored) => return Ok(Some(stored)),
                StoreLookup::Foreign => return Ok(None),
                StoreLookup::Unclear | StoreLookup::Missing if !sweep::has_stream(node.key, id) => {
                    return Ok(None);
                }
                // Another process may be moving it to another store.
                StoreLookup::Unclear | StoreLookup::Missing => std::thread::sleep(WRITTEN_PAUSE),
            }
        }
        Err(FsError::Unavailable)
    }

    /// Looks in the store of the last hit, and in all stores if the file is not there.
    fn look(node: &LocalNode, id: StoredId, writes: bool) -> Result<StoreLookup> {
        as_server(ServerWork::StreamStore, || {
            if let Some(store) = roots::last_store_of(node.key.device, id, writes)
                && let Ok(StoreLookup::Found(stored)) = look_in(Ok(store), node, id, writes)
            {
                return Ok(StoreLookup::Found(stored));
            }
            for _ in 0..MOVED_TRIES_MAX {
                let moves = roots::moves();
                let lookup = Self::look_everywhere(node, id, writes)?;
                // A file that moves between stores may be missed in both.
                if !matches!(lookup, StoreLookup::Missing) || roots::moves() == moves {
                    return Ok(lookup);
                }
            }
            Err(FsError::WouldBlock)
        })
    }

    /// Looks in the stores above the node, then in the other known ones. Copies of a store may be
    /// served, too, so that one of several files with the id may be the node's.
    fn look_everywhere(node: &LocalNode, id: StoredId, writes: bool) -> Result<StoreLookup> {
        let mut refused = FailedLookups::default();
        for found in roots::stores_above(node) {
            match look_in(found.store, node, id, writes) {
                Ok(StoreLookup::Found(stored)) => {
                    roots::note_store(id, found.place);
                    return Ok(StoreLookup::Found(stored));
                }
                other => refused.note(other),
            }
        }
        let knows_all_above = refused.error.is_none();
        for found in roots::stores_on(node.key.device) {
            match look_in(found.store, node, id, writes) {
                Ok(StoreLookup::Found(stored)) if knows_all_above && writes => {
                    return Ok(StoreLookup::Found(stored.moved_near(node, found.place)));
                }
                Ok(StoreLookup::Found(stored)) => {
                    // A read changes nothing, because the share may be read-only.
                    if knows_all_above {
                        roots::note_store_for_reads(id, found.place);
                    }
                    return Ok(StoreLookup::Found(stored));
                }
                other => refused.note(other),
            }
        }
        refused.lookup()
    }

    /// Moves the file into the store for new streams of its host. The host came from another share,
    /// and after a restart nothing would lead to the file there.
    fn moved_near(self, node: &LocalNode, place: Option<roots::StorePlace>) -> Self {
        // A host with several names may be in both shares.
        let has_names =
            node.raw_stat().map_or(true, |stat| stat.st_nlink > 1 && !is_directory(&stat));
        let moved = match has_names {
            true => Err(Errno::MLINK),
            false => roots::store_for(node).and_then(|store| {
                let (name, flags) = (self.id.file_name(), RenameFlags::NOREPLACE);
                rustix::fs::renameat_with(&self.store, &name, &store, &name, flags).map(|()| store)
            }),
        };
        match moved {
            Ok(store) => {
                roots::count_move();
                roots::forget_store(self.id);
                Self { store, ..self }
            }
            // The file stays, because its store is on another mount, in a snapshot, or not
            // writable.
            Err(error) => {
                tracing::debug!(%error, "cannot move a long stream to the store of its file's share: it stays in the former one");
                roots::note_store(self.id, place);
                self
            }
        }
    }

    /// Creates the store file of a stream of `node` with `data`, and syncs it before the reference
    /// to it exists, because the reference may replace data on disk.
    ///
    /// # Errors
    /// [`FsError::AttributesFull`] if no store can be created; [`FsError::NoSpace`],
    /// [`FsError::OverQuota`].
    pub fn create(node: &LocalNode, data: &[u8]) -> Result<Self> {
        as_server(ServerWork::StreamStore, || {
            let store = roots::store_for(node).map_err(|e| refused("open stream store", e))?;
            HAS_STORE.store(true, Ordering::Relaxed);
            let new = NewFile::create(store.as_fd()).map_err(|e| refused("create stream", e))?;
            let (file, id, is_named) = (new.file, new.id, new.is_named);
            let stored = Self { file, store, id };
            let filled = stored.fill(node, data).and_then(|()| stored.make_named(is_named));
            if let Err(error) = filled {
                stored.remove();
                return Err(error);
            }
            sweep::host_added(node.key, id);
            Ok(stored)
        })
    }

    /// Sets the file's owner, record and data.
    fn fill(&self, node: &LocalNode, data: &[u8]) -> Result<()> {
        let failed = |errno| refused("create stream", errno);
        let owner = node.raw_stat()?;
        give_file(self.file.as_fd(), owner.st_uid, owner.st_gid).map_err(failed)?;
        project::copy_project(node, self.file.as_fd()).map_err(failed)?;
        // The sticky bit survives writes and changes of the owner.
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(FILE_MODE)).map_err(failed)?;
        self.record_host(node)?;
        write_all(&self.file, 0, data).map_err(failed)
    }

    /// Links the file if it has no name yet, and syncs file and directory. On btrfs a nameless file
    /// may not be synced at all.
    fn make_named(&self, is_named: bool) -> Result<()> {
        let failed = |errno| refused("create stream", errno);
        if !is_named {
            let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let (store, name) = (&self.store, self.id.file_name());
            let link = || rustix::fs::linkat(CWD, &file, store, &name, AtFlags::SYMLINK_FOLLOW);
            match link() {
                // The store passes on a project other than the host's.
                Err(Errno::XDEV) => {
                    let listable = open_listable(store.as_fd()).map_err(failed)?;
                    project::stop_inheritance(listable.as_fd())
                        .and_then(|()| link())
                        .map_err(failed)?;
                }
                other => other.map_err(failed)?,
            }
        }
        rustix::fs::fsync(&self.file).map_err(failed)?;
        sync_directory(self.store.as_fd()).map_err(failed)
    }

    fn record_host(&self, node: &LocalNode) -> Result<()> {
        let record = StoreFileRecord {
            host: HostIdentity::of(node),
            host_rights: Some(PermissionState::of(node)?.hash()),
            host_handle: handle_of(node.as_fd()),
            own_handle: handle_of(self.file.as_fd()),
        };
        rustix::fs::fsetxattr(&self.file, RECORD, &record.encode(), XattrFlags::empty())
            .map_err(|e| refused("record stream", e))
    }

    /// Syncs the data, and unless `data_only` the attributes.
    pub fn sync(&self, data_only: bool) -> Result<()> {
        let synced = match data_only {
            true => rustix::fs::fdatasync(&self.file),
            false => rustix::fs::fsync(&self.file),
        };
        // A read-only file system has nothing to sync. So EROFS means that the file system shut
        // itself down after an error, and data may be lost.
        synced
            .map_err(|errno| if errno == Errno::ROFS { Errno::IO } else { errno })
            .map_err(|errno| unreachable("sync stream", errno))
    }

    /// The id by which the stream's attribute refers to it.
    pub fn id(&self) -> StoredId {
        self.id
    }

    /// The attributes by `fstat`.
    pub fn stat(&self) -> Result<Stat> {
        rustix::fs::fstat(&self.file).map_err(|e| refusal("stat stream", e))
    }

    /// Converts the stream's data into a file node.
    pub fn into_node(self) -> Result<LocalNode> {
        LocalNode::of_stream(self.file)
    }

    /// Removes the file.
    pub fn remove(&self) {
        remove_file(self.store.as_fd(), self.id);
    }
}

/// Looks up a store file in one store.
fn look_in(
    store: rustix::io::Result<OwnedFd>,
    node: &LocalNode,
    id: StoredId,
    writes: bool,
) -> Result<StoreLookup> {
    let failed = |errno| unreachable("open stream", errno);
    let store = store.map_err(failed)?;
    HAS_STORE.store(true, Ordering::Relaxed);
    let file = match open_file(store.as_fd(), id, writes) {
        Err(Errno::NOENT) => return Ok(StoreLookup::Missing),
        other => other.map_err(failed)?,
    };
    let stored = StoredFile { file, store, id };
    match stored.claim_for(node, writes)? {
        HostRelation::Own => {
            // For instance after a restart, when its store was unknown.
            sweep::host_found(node.key, id);
            if writes {
                stored.follow_owner(node);
            }
            Ok(StoreLookup::Found(stored))
        }
        HostRelation::Adopted => Ok(StoreLookup::Found(stored)),
        HostRelation::Foreign => Ok(StoreLookup::Foreign),
        HostRelation::Unclear => Ok(StoreLookup::Unclear),
    }
}

/// Removes the store file of a stream that `node` had, if its record refers to that node. An
/// unreachable file stays for the sweep.
pub fn remove(node: &LocalNode, id: StoredId) {
    let _ = as_server(ServerWork::StreamStore, || {
        let last = roots::last_store_of(node.key.device, id, false).into_iter();
        let others = roots::stores_above(node).chain(roots::stores_on(node.key.device));
        let others = others.filter_map(|found| found.store.ok());
        for store in last.chain(others) {
            let Ok(file) = open_file(store.as_fd(), id, false) else { continue };
            let stored = StoredFile { file, store, id };
            if !stored.is_own(node) {
                continue;
            }
            // After a power failure the removal of the file must not persist without that of the
            // reference. If the host cannot be synced, the file stays for the sweep.
            if !sweep::is_out_of_order(stored.store.as_fd()) || node.sync_this().is_ok() {
                stored.remove();
                sweep::host_dropped(node.key, id);
            }
            break;
        }
        Ok(())
    });
    roots::forget_store(id);
}

/// Like [`record_rights`], for the streams that the file is known to have. Costs nothing while no
/// file has any.
pub fn record_known_rights(node: &LocalNode) {
    record_rights(node, sweep::ids_of_host(node.key));
}

/// Accounts a file's long streams to its owner, and records its rights in their store files, so
/// that a backup contains them.
pub fn record_rights(node: &LocalNode, ids: Vec<StoredId>) {
    for id in ids {
        let recorded = StoredFile::open_present(node, id).and_then(|stored| {
            let refresh = |stored: StoredFile| {
                as_server(ServerWork::StreamStore, || stored.refresh_record(node))
            };
            stored.map_or(Ok(()), refresh)
        });
        if let Err(error) = recorded {
            tracing::warn!(%error, "cannot record the owner and permissions of a file with its long stream: quotas and backups have the former ones; the daily scan retries");
        }
    }
}

fn open_file(store: BorrowedFd<'_>, id: StoredId, writes: bool) -> rustix::io::Result<OwnedFd> {
    let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(store, id.file_name(), flags, Mode::empty())
}

/// A new file in a store.
struct NewFile {
    file: OwnedFd,
    id: StoredId,
    is_named: bool,
}

impl NewFile {
    /// Creates a file without a name, which gets its name after its record: a file without a record
    /// may come from a backup and is never removed. Some file systems lack nameless files.
    fn create(store: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let (access, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        match rustix::fs::openat(store, c".", access | OFlags::TMPFILE, mode) {
            Ok(file) => return Ok(Self { file, id: StoredId::new(), is_named: false }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
        const TRIES_MAX: u32 = 16;
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        for _ in 0..TRIES_MAX {
            let id = StoredId::new();
            match rustix::fs::openat(store, id.file_name(), flags, mode) {
                // The name exists, from a backup or another server.
                Err(Errno::EXIST) => {}
                other => return other.map(|file| Self { file, id, is_named: true }),
            }
        }
        Err(Errno::EXIST)
    }
}

/// An unprivileged process cannot change owners, so it owns all store files.
fn give_file(file: BorrowedFd<'_>, uid: u32, gid: u32) -> rustix::io::Result<()> {
    match rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))) {
        Err(Errno::PERM) => Ok(()),
        other => other,
    }
}

/// The record of a store file; `None` if it has none, or one of an unknown version.
fn record_of(file: BorrowedFd<'_>) -> rustix::io::Result<Option<StoreFileRecord>> {
    let mut value = [0; RECORD_BYTES_MAX];
    match rustix::fs::fgetxattr(file, RECORD, &mut value) {
        Ok(length) => Ok(StoreFileRecord::decode(&value[..length]).map(|record| {
            let [host_handle, own_handle] =
                [record.host_handle, record.own_handle].map(|id| current_form(file, id));
            StoreFileRecord { host_handle, own_handle, ..record }
        })),
        Err(Errno::NODATA | Errno::RANGE) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn handle_of(fd: BorrowedFd<'_>) -> Vec<u8> {
    persistent_id(fd).map(|handle| handle.as_bytes().to_vec()).unwrap_or_default()
}

fn remove_file(store: BorrowedFd<'_>, id: StoredId) {
    match rustix::fs::unlinkat(store, id.file_name(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT | Errno::ROFS) => {}
        Err(error) => {
            tracing::warn!(%error, "cannot remove the store file of a deleted stream; a later scan retries")
        }
    }
}

fn write_all(file: &OwnedFd, offset: u64, data: &[u8]) -> rustix::io::Result<()> {
    let mut done = 0;
    while done < data.len() {
        match rustix::io::pwrite(file, &data[done..], offset + done as u64) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn sync_directory(directory: BorrowedFd<'_>) -> rustix::io::Result<()> {
    rustix::fs::fsync(open_listable(directory)?)
}

/// Reopens an O_PATH directory for listing.
fn open_listable(directory: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, c".", flags, Mode::empty())
}

/// Opens the store in a directory. A store that does not belong to the server alone is refused: a
/// local user may have created it to obtain others' streams.
fn open_store(parent: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let store = rustix::fs::openat(parent, NAME, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&store)?;
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
    if !is_own {
        static LOGGED: Once = Once::new();
        LOGGED.call_once(|| {
            tracing::warn!(
                "a directory {NAME} is ignored, since a local user may have created it: it must \
                 belong to the server's user and be closed to others (chmod 700)"
            );
        });
        return Err(Errno::PERM);
    }
    Ok(store)
}

/// Opens the store in a directory, or creates it. A store that a crash left incomplete is
/// completed; its mode and record distinguish it from other directories.
fn make_store(parent: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let store = match open_store(parent) {
        Err(Errno::NOENT) => {
            match rustix::fs::mkdirat(parent, NAME, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            open_store(parent)?
        }
        other => other?,
    };
    if rustix::fs::fstat(&store)?.st_mode & 0o7777 == STORE_MODE {
        return Ok(store);
    }
    let listable = open_listable(store.as_fd())?;
    let user = rustix::process::geteuid();
    // The thread may still have the group of the user that it last acted as.
    let group = if user.is_root() { Gid::ROOT } else { rustix::process::getegid() };
    match rustix::fs::fchown(&listable, Some(user), Some(group)) {
        Ok(()) | Err(Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    rustix::fs::fsetxattr(&listable, RECORD, b"store", XattrFlags::empty())?;
    // The mode is set last, because it marks the store as complete.
    rustix::fs::fchmod(&listable, Mode::from_raw_mode(STORE_MODE))?;
    rustix::fs::fsync(&listable)?;
    sync_directory(parent)?;
    Ok(store)
}

fn key_of(stat: &Stat) -> FileKey {
    FileKey { device: stat.st_dev, inode: stat.st_ino }
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

#[cfg(test)]
mod tests;
