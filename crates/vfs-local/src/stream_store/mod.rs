//! Files in which streams lie that are too long for an extended attribute.
//!
//! Each file system has its stores: a directory `.anabranch-streams` in the root of a share, and
//! of each file system that is mounted below one, in which each long stream is a file. The stream's
//! attribute refers to it by an id ([`record::StoredId`]), so that a rename or a further name of the
//! file costs nothing, and the stream's file has a record of the file that it belongs to.
//!
//! No client reaches a store by a name, a handle or a link: [`is_store_name`] is asked of names
//! and [`is_reserved`] of whatever was opened. Local users do not pass the directory, which is the
//! superuser's. A stream's file is of the owner of its file, to whom its bytes are counted.
//!
//! The caller decides who may use a stream, by asking the kernel for the attribute as that user.
//! What is done here is done for the server, but that data are written without its powers.

mod record;
mod roots;
mod sweep;

use crate::errors::refusal;
use crate::handles::lasting_id;
use crate::identity::as_server;
use crate::node::LocalNode;
use crate::xattrs::Place;
pub use record::StoredId;
use record::{Host, RECORD_BYTES_MAX, Record};
pub use roots::{ServedRoot, serve};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
pub use sweep::LosingHost;
use vfs::{Attributes, FileKey, FileKind, FsError, OwnerChange, Result, ServerWork};

/// The directory's name.
pub const NAME: &str = ".anabranch-streams";
/// The attribute that has a record; the directory itself has one, too, that names nothing.
const RECORD: &str = "user.anabranch.stream-of";
/// Permissions of a store, by which it is looked for among what was opened.
const STORE_MODE: u32 = 0o1700;
/// The same of a stream's file.
const FILE_MODE: u32 = 0o1600;

/// Files whose streams may be changed at the same time.
const TURNS: usize = 16;
static TURN: [Mutex<()>; TURNS] = [const { Mutex::new(()) }; TURNS];

/// The holder may change streams of the file.
pub fn turn(key: FileKey) -> MutexGuard<'static, ()> {
    TURN[key.inode as usize % TURNS].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a name is a store's, in any case: a file system may compare so.
pub fn is_store_name(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(NAME.as_bytes())
}

/// Whether a path goes through a store.
pub fn leads_into_store(path: &[u8]) -> bool {
    path.len() >= NAME.len() && path.split(|byte| *byte == b'/').any(is_store_name)
}

/// Whether what is open is a store, or a stream's file, which a link or a handle may lead to.
pub fn is_reserved(fd: BorrowedFd<'_>, path_only: bool, attributes: &Attributes) -> bool {
    let mode = match attributes.kind {
        FileKind::File => FILE_MODE,
        FileKind::Directory => STORE_MODE,
        _ => return false,
    };
    if attributes.mode != mode {
        return false;
    }
    let place = if path_only { Place::Looked(fd) } else { Place::Open(fd) };
    let mut value = [0; RECORD_BYTES_MAX];
    let look = || Ok(place.get(c"user.anabranch.stream-of", &mut value));
    !matches!(
        as_server(ServerWork::StreamStore, look),
        Ok(Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::BADF))
    )
}

/// What has become of the store for the server's calls on it.
fn refused(operation: &'static str, errno: Errno) -> FsError {
    match errno {
        // The process may not keep a store there, or the file system takes no attributes.
        Errno::ACCESS | Errno::PERM | Errno::OPNOTSUPP => FsError::AttributesFull,
        other => refusal(operation, other),
    }
}

/// A stream's file, open.
#[derive(Debug)]
pub struct StoredFile {
    file: OwnedFd,
    store: OwnedFd,
    id: StoredId,
}

impl StoredFile {
    /// Opens the file of a stream of `node`.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if there is none, or it is another file's.
    pub fn open(node: &LocalNode, id: StoredId, writes: bool) -> Result<Self> {
        as_server(ServerWork::StreamStore, || {
            let mut refusal = FsError::NotFound;
            for store in roots::stores_of(node) {
                let Ok(file) = open_file(store.as_fd(), id, writes) else { continue };
                let stored = Self { file, store, id };
                // A copy of the store may be served, too, as from a backup.
                match stored.check_host(node, writes) {
                    Ok(()) => return Ok(stored),
                    Err(error) => refusal = error,
                }
            }
            Err(refusal)
        })
    }

    /// Creates the file of a stream of `node` with `data` in it, and makes it stable: before the
    /// reference is, which may take the place of data that are.
    ///
    /// # Errors
    /// [`FsError::AttributesFull`] where no store can be kept; [`FsError::NoSpace`],
    /// [`FsError::OverQuota`].
    pub fn create(node: &LocalNode, data: &[u8]) -> Result<Self> {
        as_server(ServerWork::StreamStore, || {
            let store = roots::store_for(node).map_err(|e| refused("open stream store", e))?;
            let (file, id) = new_file(store.as_fd()).map_err(|e| refused("create stream", e))?;
            let stored = Self { file, store, id };
            let filled = stored.fill(node, data);
            if let Err(error) = filled {
                stored.remove();
                return Err(error);
            }
            sweep::host_added(node.key, id);
            Ok(stored)
        })
    }

    fn fill(&self, node: &LocalNode, data: &[u8]) -> Result<()> {
        let failed = |errno| refused("create stream", errno);
        let owner = node.raw_stat()?;
        give_file(self.file.as_fd(), owner.st_uid, owner.st_gid).map_err(failed)?;
        // Sticky, which neither a write nor a new owner takes away.
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(FILE_MODE)).map_err(failed)?;
        self.record_host(node).map_err(failed)?;
        write_all(&self.file, 0, data).map_err(failed)?;
        rustix::fs::fsync(&self.file).map_err(failed)?;
        sync_directory(self.store.as_fd()).map_err(failed)
    }

    fn record_host(&self, node: &LocalNode) -> rustix::io::Result<()> {
        let handle_of = |fd| lasting_id(fd).map(|h| h.as_bytes().to_vec()).unwrap_or_default();
        let record = Record {
            host: Host::of(node),
            host_handle: handle_of(node.as_fd()),
            own_handle: handle_of(self.file.as_fd()),
        };
        rustix::fs::fsetxattr(&self.file, RECORD, &record.encode(), XattrFlags::empty())
    }

    /// Whether the stream is one of `node`'s. A file that came out of a backup with its streams
    /// takes them over with the first that is written, if both are of one owner.
    fn check_host(&self, node: &LocalNode, writes: bool) -> Result<()> {
        let record = record_of(self.file.as_fd()).ok_or(FsError::NotFound)?;
        if record.host == Host::of(node) {
            return Ok(());
        }
        let (own, host) = (self.stat()?, node.raw_stat()?);
        let is_free = self.is_copied(&record) || sweep::is_host_gone(self.store.as_fd(), &record);
        if own.st_uid != host.st_uid || !is_free {
            return Err(FsError::NotFound);
        }
        if writes {
            self.record_host(node).map_err(|e| refused("take over stream", e))?;
            sweep::host_added(node.key, self.id);
        }
        Ok(())
    }

    /// Whether the file is not the one that its record was written to.
    fn is_copied(&self, record: &Record) -> bool {
        let own = lasting_id(self.file.as_fd());
        !record.own_handle.is_empty() && own.is_some_and(|id| id.as_bytes() != record.own_handle)
    }

    /// The id by which the stream's attribute refers to it.
    pub fn id(&self) -> StoredId {
        self.id
    }

    /// What `fstat` says.
    pub fn stat(&self) -> Result<Stat> {
        rustix::fs::fstat(&self.file).map_err(|e| refusal("stat stream", e))
    }

    /// The stream's data as those of a file.
    pub fn into_node(self) -> Result<LocalNode> {
        LocalNode::of_stream(self.file)
    }

    /// Removes the file.
    pub fn remove(&self) {
        remove_file(self.store.as_fd(), self.id);
    }
}

/// Removes the file of a stream that `node` had, if it is there and that node's.
pub fn remove(node: &LocalNode, id: StoredId) {
    if let Ok(stored) = StoredFile::open(node, id, false) {
        // The attribute is gone by now, and nothing leads to a file that stays but the sweep.
        let _ = as_server(ServerWork::StreamStore, || {
            stored.remove();
            Ok(())
        });
    }
}

/// Gives the files of a file's long streams to the owner that the file was given to.
pub fn give(node: &LocalNode, ids: impl IntoIterator<Item = StoredId>, owner: OwnerChange) {
    for id in ids {
        let given = StoredFile::open(node, id, false).and_then(|stored| {
            as_server(ServerWork::StreamStore, || {
                let uid = owner.uid.map(Uid::from_raw);
                let gid = owner.gid.map(Gid::from_raw);
                rustix::fs::fchown(&stored.file, uid, gid).map_err(|e| refusal("chown stream", e))
            })
        });
        if let Err(error) = given {
            tracing::warn!(%error, "a long stream is counted to the former owner of its file");
        }
    }
}

fn open_file(store: BorrowedFd<'_>, id: StoredId, writes: bool) -> rustix::io::Result<OwnedFd> {
    let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(store, id.file_name(), flags, Mode::empty())
}

fn new_file(store: BorrowedFd<'_>) -> rustix::io::Result<(OwnedFd, StoredId)> {
    const TRIES_MAX: u32 = 16;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..TRIES_MAX {
        let id = StoredId::new();
        match rustix::fs::openat(store, id.file_name(), flags, Mode::RUSR | Mode::WUSR) {
            // Restored from a backup, or another server's.
            Err(Errno::EXIST) => {}
            other => return other.map(|file| (file, id)),
        }
    }
    Err(Errno::EXIST)
}

/// A process that may not give files away owns all of them.
fn give_file(file: BorrowedFd<'_>, uid: u32, gid: u32) -> rustix::io::Result<()> {
    match rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))) {
        Err(Errno::PERM) => Ok(()),
        other => other,
    }
}

fn record_of(file: BorrowedFd<'_>) -> Option<Record> {
    let mut value = [0; RECORD_BYTES_MAX];
    let length = rustix::fs::fgetxattr(file, RECORD, &mut value).ok()?;
    Record::decode(&value[..length])
}

fn remove_file(store: BorrowedFd<'_>, id: StoredId) {
    match rustix::fs::unlinkat(store, id.file_name(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT | Errno::ROFS) => {}
        Err(error) => tracing::warn!(%error, "a stream's file stays, which nothing refers to"),
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

/// A directory that is open for looking, for more than that.
fn open_listable(directory: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, c".", flags, Mode::empty())
}

/// Opens the store that is in a directory. One that is not the server's alone is nobody's: a local
/// user may have made it, to be given others' streams.
fn open_store(parent: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let store = rustix::fs::openat(parent, NAME, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&store)?;
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
    if !is_own {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| {
            tracing::warn!("a directory {NAME} is not the server's own: it has no long streams");
        });
        return Err(Errno::PERM);
    }
    Ok(store)
}

/// Opens the store that is in a directory, or makes it.
fn make_store(parent: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    match open_store(parent) {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    match rustix::fs::mkdirat(parent, NAME, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let store = open_store(parent)?;
    let listable = open_listable(store.as_fd())?;
    let user = rustix::process::geteuid();
    // The thread has the group of the user for whom it worked last.
    let group = if user.is_root() { Gid::ROOT } else { rustix::process::getegid() };
    match rustix::fs::fchown(&listable, Some(user), Some(group)) {
        Ok(()) | Err(Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    rustix::fs::fchmod(&listable, Mode::from_raw_mode(STORE_MODE))?;
    rustix::fs::fsetxattr(&listable, RECORD, b"store", XattrFlags::empty())?;
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
