//! Open files and directories.

use crate::compression::set_compressed;
use crate::dos_attributes::{self, StoredDos};
use crate::errors::refusal;
use crate::identity::IdentityGuard;
use crate::listing_changes::UnreportedChange;
use crate::posix_acl::PermissionState;
use crate::resident::{is_all_in_memory, is_cached, is_of_memory};
use crate::xattrs::{self, Place};
use crate::{listing, noatime, posix_acl, security, stream_store, streams, times, xattr_notes};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, SeekFrom, StatxAttributes, StatxFlags, StatxTimestamp,
    Timespec, Timestamps, XattrFlags,
};
use rustix::io::Errno;
use rustix::path::Arg;
use std::sync::{Arc, OnceLock};
use sync::Mutex;
use vfs::{
    Actor, AttributeChanges, AttributeRequest, Attributes, Case, Device, DirEntry, DosInfo,
    FileKey, FileKind, FsError, ListSink, ListingRequest, MetadataPresence, Name, Node,
    OwnerChange, PosixAcl, Protection, RelPath, Replace, Result, SecurityChange, ServerWork,
    StreamEntry, StreamName, TimeChange, Timestamp, Wait, XattrName,
};

/// Maximum length of an extended attribute on Linux.
pub const XATTR_BYTES_MAX: usize = 64 * 1024;
/// Length from which a node retains the path by which it was opened.
const LONG_PATH_BYTES: usize = 1024;
/// Buffer for the names of a listed file's extended attributes.
const CHILD_NAMES_BYTES_MAX: usize = 1024;
/// Samba's extended attribute for reparse data.
const REPARSE_NAME: &str = "user.SmbReparse";
/// Extended attribute with the verifier of an exclusive create.
const VERIFIER_NAME: &str = "user.anabranch.verifier";
/// Maximum number of bytes that one call copies before other work gets its turn.
const COPY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// An open node.
#[derive(Debug)]
pub struct LocalNode {
    fd: OwnedFd,
    pub key: FileKey,
    /// Creation time, if the file system stores it.
    pub born: Option<Timestamp>,
    kind: FileKind,
    /// O_PATH descriptor: no I/O, and no attributes by descriptor.
    path_only: bool,
    readable: bool,
    /// The path by which the node was opened, if it is long: see [`crate::location`].
    opened_at: Option<RelPath>,
    /// The kernel does not notify every directory that lists this node of changes through this
    /// descriptor.
    pub is_unreported: bool,
    /// Serializes listings, because the directory position belongs to the descriptor.
    pub listing: Mutex<()>,
    /// For a directory with an O_PATH descriptor: the descriptor to sync it with, opened by the
    /// first sync. Few directories have name changes, and each change is synced.
    syncing: OnceLock<OwnedFd>,
    /// Cached answer to whether the file system is in memory only.
    of_memory: OnceLock<bool>,
}

impl LocalNode {
    /// Wraps a descriptor.
    ///
    /// # Errors
    /// [`FsError::NotFound`] for a stream store or a file in it.
    pub fn new(
        fd: OwnedFd,
        path_only: bool,
        readable: bool,
        wanted: AttributeRequest,
    ) -> Result<(Self, Attributes)> {
        let attributes = stat(fd.as_fd(), c"", wanted, path_only)?;
        if stream_store::is_reserved(fd.as_fd(), path_only, &attributes) {
            return Err(FsError::NotFound);
        }
        Ok((Self::of_stat(fd, path_only, readable, &attributes), attributes))
    }

    /// Wraps a stream's data file, which is open for reading.
    pub fn of_stream(fd: OwnedFd) -> Result<Self> {
        let attributes = stat(fd.as_fd(), c"", AttributeRequest::default(), false)?;
        Ok(Self::of_stat(fd, false, true, &attributes))
    }

    fn of_stat(fd: OwnedFd, path_only: bool, readable: bool, attributes: &Attributes) -> Self {
        let kind = attributes.kind;
        let readable = readable && !path_only && kind == FileKind::File;
        let (key, born, listing) = (attributes.key, attributes.born, Mutex::new(()));
        let is_unreported = kind != FileKind::Directory && attributes.links > 1;
        Self {
            fd,
            key,
            born,
            kind,
            path_only,
            readable,
            opened_at: None,
            is_unreported,
            listing,
            syncing: OnceLock::new(),
            of_memory: OnceLock::new(),
        }
    }

    /// Records the path by which the node was opened.
    pub fn opened_by(self, path: &RelPath) -> Self {
        // With the root's path it may exceed the kernel's limit.
        let is_long = path.as_bytes().len() > LONG_PATH_BYTES;
        Self { opened_at: is_long.then(|| path.clone()), ..self }
    }

    /// See [`LocalNode::opened_by`].
    pub fn opened_at(&self) -> Option<&RelPath> {
        self.opened_at.as_ref()
    }

    /// Downcasts the trait object; `None` for a node of another backend.
    pub fn of(node: &dyn Node) -> Option<&Self> {
        node.as_any().downcast_ref()
    }

    /// True for an O_PATH descriptor.
    pub fn is_path_only(&self) -> bool {
        self.path_only
    }

    /// The descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A path that refers to this node, for calls that take no descriptor.
    pub fn proc_path(&self) -> String {
        proc_path(self.fd.as_fd())
    }

    /// The attributes by `fstat`.
    pub fn raw_stat(&self) -> Result<rustix::fs::Stat> {
        rustix::fs::fstat(&self.fd).map_err(|e| refusal("stat", e))
    }

    /// True if the file system has free blocks, so that ENOSPC means another shortage.
    pub fn has_free_blocks(&self) -> bool {
        rustix::fs::fstatvfs(&self.fd).is_ok_and(|stat| stat.f_bavail > 0)
    }

    /// The value of an extended attribute.
    pub fn get_xattr(&self, name: impl Arg + Copy) -> rustix::io::Result<Vec<u8>> {
        get_xattr(self.fd.as_fd(), self.path_only, name)
    }

    /// Sets or removes an extended attribute.
    pub fn put_xattr(
        &self,
        name: impl Arg,
        value: Option<&[u8]>,
        flags: XattrFlags,
    ) -> rustix::io::Result<()> {
        let _change = (self.unreported_change(), vfs::freshness::begin_change());
        match (value, self.path_only) {
            (Some(value), false) => rustix::fs::fsetxattr(&self.fd, name, value, flags),
            (Some(value), true) => rustix::fs::setxattr(self.proc_path(), name, value, flags),
            (None, false) => rustix::fs::fremovexattr(&self.fd, name),
            (None, true) => rustix::fs::removexattr(self.proc_path(), name),
        }
    }

    /// The names of all extended attributes, each with a NUL.
    pub fn list_xattrs(&self) -> rustix::io::Result<Vec<u8>> {
        let list = |buffer: &mut [u8]| {
            if self.path_only {
                rustix::fs::listxattr(self.proc_path(), buffer)
            } else {
                rustix::fs::flistxattr(&self.fd, buffer)
            }
        };
        let mut small = [0u8; 512];
        match list(&mut small) {
            Ok(length) => Ok(small[..length].to_vec()),
            Err(Errno::RANGE) => {
                let mut large = vec![0; XATTR_BYTES_MAX];
                let length = list(&mut large)?;
                large.truncate(length);
                Ok(large)
            }
            Err(errno) => Err(errno),
        }
    }

    /// The caller holds the value until the change is complete.
    pub fn unreported_change(&self) -> Option<UnreportedChange> {
        self.is_unreported.then(UnreportedChange::begin)
    }

    /// Changes owner and group with the rights that the thread has.
    pub fn change_owner(&self, owner: OwnerChange) -> Result<()> {
        let uid = owner.uid.map(rustix::fs::Uid::from_raw);
        let gid = owner.gid.map(rustix::fs::Gid::from_raw);
        rustix::fs::chownat(rustix::fs::CWD, self.proc_path(), uid, gid, AtFlags::empty())
            .map_err(|e| refusal("chown", e))?;
        streams::give(self);
        Ok(())
    }

    /// Changes the mode with the rights that the thread has.
    pub fn change_mode(&self, mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        rustix::fs::chmodat(rustix::fs::CWD, self.proc_path(), mode, AtFlags::empty())
            .map_err(|e| refusal("chmod", e))
    }

    /// Changes owner and mode. A power failure may separate the two calls, so the state in between
    /// grants nobody more than both the old and the new state.
    fn give_with_mode(&self, owner: OwnerChange, mode: u32) -> Result<()> {
        let present = PermissionState::of(self)?;
        let narrowed = present.narrowed_to(&PosixAcl::of_mode(mode));
        let is_narrowed = narrowed & 0o777 != present.mode & 0o777;
        if is_narrowed {
            self.change_mode(narrowed)?;
        }
        let given = self.change_owner(owner);
        if given.is_err() && is_narrowed {
            let now = self.raw_stat()?.st_mode;
            // Another process's change is newer. Set-ID bits stay cleared: the content may have
            // changed since.
            if now & 0o1777 == narrowed & 0o1777 {
                self.change_mode(now & 0o6000 | present.mode & 0o1777)?;
            }
        }
        given.and_then(|()| self.change_mode(mode))
    }

    /// Changes owner and mode with the rights that the thread has. The caller holds the file's
    /// [`security::lock`].
    pub fn change_rights(&self, changes: &AttributeChanges) -> Result<()> {
        let is_given = changes.owner != OwnerChange::default();
        match changes.mode {
            Some(mode) if is_given => self.give_with_mode(changes.owner, mode)?,
            Some(mode) => self.change_mode(mode)?,
            None if is_given => self.change_owner(changes.owner)?,
            None => {}
        }
        if changes.mode.is_some() {
            stream_store::record_known_rights(self);
        }
        Ok(())
    }

    /// The descriptor to sync an O_PATH directory with.
    fn syncing(&self, who: Actor<'_>) -> Result<&OwnedFd> {
        if let Some(syncing) = self.syncing.get() {
            return Ok(syncing);
        }
        let _acting = IdentityGuard::begin(who)?;
        let opened = rustix::fs::open(self.proc_path(), SYNC_FLAGS, Mode::empty());
        let opened = opened.map_err(|e| refusal("sync", e))?;
        // Another thread may have set it first.
        Ok(self.syncing.get_or_init(|| opened))
    }

    fn file(&self) -> Result<&OwnedFd> {
        match self.kind {
            FileKind::File if !self.path_only => Ok(&self.fd),
            FileKind::Directory => Err(FsError::IsDirectory),
            _ => Err(FsError::OpenMode),
        }
    }
}

impl LocalNode {
    /// Syncs the node's own data and attributes, without its long streams.
    pub fn sync_this(&self) -> rustix::io::Result<()> {
        let directory =
            if self.kind == FileKind::Directory { OFlags::DIRECTORY } else { OFlags::empty() };
        let file = rustix::fs::open(self.proc_path(), SYNC_FLAGS | directory, Mode::empty())?;
        rustix::fs::fsync(file)
    }
}

/// Flags for reopening an O_PATH node to sync it.
const SYNC_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Syncs an O_PATH node, which requires another descriptor.
fn sync_looked_at(fd: BorrowedFd<'_>, kind: FileKind) -> rustix::io::Result<()> {
    let (path, flags) = (proc_path(fd), SYNC_FLAGS);
    if kind == FileKind::File {
        return rustix::fs::fsync(rustix::fs::open(path, flags, Mode::empty())?);
    }
    // A link cannot be opened, and opening a pipe or device has side effects. So the complete file
    // system is synced, by the parent directory.
    let place = match rustix::fs::readlink(path, Vec::new()) {
        // The kernel cannot report the directory's path, so all file systems are synced.
        Err(Errno::NAMETOOLONG) => {
            rustix::fs::sync();
            return Ok(());
        }
        place => place?.into_bytes(),
    };
    let end = place.iter().rposition(|byte| *byte == b'/').ok_or(Errno::NOENT)?;
    let directory =
        rustix::fs::open(&place[..end.max(1)], flags | OFlags::DIRECTORY, Mode::empty())?;
    if rustix::fs::fstat(&directory)?.st_dev != rustix::fs::fstat(fd)?.st_dev {
        return Err(Errno::IO);
    }
    rustix::fs::syncfs(directory)
}

fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

pub fn get_xattr(
    fd: BorrowedFd<'_>,
    path_only: bool,
    name: impl Arg + Copy,
) -> rustix::io::Result<Vec<u8>> {
    let place = if path_only { Place::Looked(fd) } else { Place::Open(fd) };
    let mut small = [0u8; 256];
    let read = |buffer: &mut [u8]| name.into_with_c_str(|name| place.get(name, buffer));
    match read(&mut small) {
        Ok(length) => Ok(small[..length].to_vec()),
        Err(Errno::RANGE) => {
            let mut large = vec![0; XATTR_BYTES_MAX];
            let length = read(&mut large)?;
            large.truncate(length);
            Ok(large)
        }
        Err(errno) => Err(errno),
    }
}

/// The encoded DOS attributes before a change, if there were any.
#[derive(Debug)]
pub struct FormerDos(Option<Vec<u8>>);

/// Merges DOS attributes with the stored ones and stores the result. Returns the previous value.
pub fn store_dos(fd: BorrowedFd<'_>, path_only: bool, dos: &DosInfo) -> Result<FormerDos> {
    let former = match get_xattr(fd, path_only, dos_attributes::NAME) {
        Ok(value) => Some(value),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => None,
        // A value that cannot be read cannot be preserved.
        Err(errno) => return Err(refusal("read DOS attributes", errno)),
    };
    let stored = former.as_deref().and_then(dos_attributes::decode).unwrap_or_default().info;
    let merged =
        DosInfo { bits: dos.bits.or(stored.bits), created: dos.created.or(stored.created) };
    store_new_dos(fd, path_only, &merged)?;
    Ok(FormerDos(former))
}

/// Stores DOS attributes without merging, for instance for a new file.
pub fn store_new_dos(fd: BorrowedFd<'_>, path_only: bool, dos: &DosInfo) -> Result<()> {
    match set_dos(fd, path_only, &dos_attributes::encode(&StoredDos::from(*dos))) {
        // Without extended attributes the file system cannot store them.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM) => Ok(()),
        Err(errno) => Err(refusal("set DOS attributes", errno)),
    }
}

/// Restores the value from before [`store_dos`].
fn restore_dos(fd: BorrowedFd<'_>, path_only: bool, former: &FormerDos) {
    let restored = match &former.0 {
        Some(value) => set_dos(fd, path_only, value),
        None if path_only => rustix::fs::removexattr(proc_path(fd), dos_attributes::NAME),
        None => rustix::fs::fremovexattr(fd, dos_attributes::NAME),
    };
    match restored {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
        Err(error) => tracing::warn!(%error, "DOS attributes that were set alone stay"),
    }
}

pub fn set_dos(fd: BorrowedFd<'_>, path_only: bool, value: &[u8]) -> rustix::io::Result<()> {
    if path_only {
        rustix::fs::setxattr(proc_path(fd), dos_attributes::NAME, value, XattrFlags::empty())
    } else {
        rustix::fs::fsetxattr(fd, dos_attributes::NAME, value, XattrFlags::empty())
    }
}

/// Attributes of the open node, or of a directory's child by `name`, without following a link.
pub fn stat(
    fd: BorrowedFd<'_>,
    name: &std::ffi::CStr,
    wanted: AttributeRequest,
    path_only: bool,
) -> Result<Attributes> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = rustix::fs::statx(fd, name, flags, mask).map_err(|e| refusal("stat", e))?;
    let mut attributes = attributes_of(&stat);
    if let Some(work) = wanted.dos
        && matches!(attributes.kind, FileKind::File | FileKind::Directory)
    {
        let place = match (name.is_empty(), path_only) {
            (false, _) => Place::Child(fd, name),
            (true, true) => Place::Looked(fd),
            (true, false) => Place::Open(fd),
        };
        fill_stored(&mut attributes, place, work);
    }
    Ok(attributes)
}

/// Adds DOS attributes and the presence of other metadata, from the cache where it has them.
fn fill_stored(attributes: &mut Attributes, place: Place<'_>, work: ServerWork) {
    let notes = xattr_notes::Reader::of_device(attributes.key.device);
    if let Some(known) = notes.as_ref().and_then(|notes| notes.find(attributes)) {
        *attributes = known;
        return;
    }
    let is_complete = xattrs::fill_stored(attributes, place, work);
    notes.filter(|_| is_complete).inspect(|notes| notes.keep(attributes));
}

pub fn attributes_of(stat: &rustix::fs::Statx) -> Attributes {
    let time =
        |t: StatxTimestamp| Timestamp(i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_nsec));
    let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
    let kind = match rustix::fs::FileType::from_raw_mode(stat.stx_mode.into()) {
        rustix::fs::FileType::RegularFile => FileKind::File,
        rustix::fs::FileType::Directory => FileKind::Directory,
        rustix::fs::FileType::Symlink => FileKind::Symlink,
        rustix::fs::FileType::Fifo => FileKind::Fifo,
        rustix::fs::FileType::Socket => FileKind::Socket,
        _ => FileKind::Device,
    };
    let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    Attributes {
        key: FileKey { device, inode: stat.stx_ino },
        kind,
        mode: u32::from(stat.stx_mode) & 0o7777,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        links: stat.stx_nlink,
        size_bytes: stat.stx_size,
        allocated_bytes: stat.stx_blocks * 512,
        accessed: time(stat.stx_atime),
        modified: time(stat.stx_mtime),
        changed: time(stat.stx_ctime),
        change: time(stat.stx_ctime).0 as u64,
        born: has_birth.then(|| time(stat.stx_btime)),
        dos: DosInfo::default(),
        set_changed: None,
        stored: MetadataPresence::UNKNOWN,
        device: (kind == FileKind::Device).then(|| Device {
            is_block: rustix::fs::FileType::from_raw_mode(stat.stx_mode.into())
                == rustix::fs::FileType::BlockDevice,
            major: stat.stx_rdev_major,
            minor: stat.stx_rdev_minor,
        }),
        compressed: stat.stx_attributes.contains(StatxAttributes::COMPRESSED),
        protection: match stat.stx_attributes {
            flags if flags.contains(StatxAttributes::IMMUTABLE) => Protection::Immutable,
            flags if flags.contains(StatxAttributes::APPEND) => Protection::AppendOnly,
            _ => Protection::None,
        },
    }
}

pub fn timespec(change: TimeChange) -> Timespec {
    match change {
        TimeChange::Keep => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        TimeChange::Now => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
        TimeChange::Set(Timestamp(nanos)) => Timespec {
            tv_sec: i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or(i64::MAX),
            tv_nsec: nanos.rem_euclid(1_000_000_000) as _,
        },
    }
}

/// True if the file has the set-group-ID bit without group execution, which once meant mandatory
/// locking. A write by a member of that group preserves the bit. chmod(2).
fn is_group_marked(file: &OwnedFd) -> bool {
    // On an error the caller acts without privileges, and the kernel decides.
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_mode & 0o2010 == 0o2000)
}

impl Node for LocalNode {
    fn key(&self) -> FileKey {
        self.key
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn attributes(&self, wanted: AttributeRequest) -> Result<Attributes> {
        stat(self.fd.as_fd(), c"", wanted, self.path_only)
    }

    fn set_attributes(&self, who: Actor<'_>, changes: &AttributeChanges) -> Result<()> {
        if who.withholds(changes) {
            return Err(FsError::AccessDenied);
        }
        let _acting = IdentityGuard::begin(who)?;
        let _change = vfs::freshness::begin_change();
        // The kernel permits setting the access time alone to every reader.
        let alone = changes.accessed != TimeChange::Keep && changes.modified == TimeChange::Keep;
        let _change = (alone || self.is_unreported).then(UnreportedChange::begin);
        let path = self.proc_path();
        if changes.mode.is_some() || changes.owner != OwnerChange::default() {
            let _changing = security::lock(self.key);
            self.change_rights(changes)?;
        }
        // Other node types have no user extended attributes (xattr(7)), and report their own type
        // in any case.
        let has_place = matches!(self.kind, FileKind::File | FileKind::Directory);
        let dos = changes.dos.filter(|_| has_place);
        let changed = changes.changed.filter(|_| has_place);
        let _merging =
            (dos.is_some() || changed.is_some()).then(|| dos_attributes::lock_of(self.key.inode));
        let store = |dos| store_dos(self.fd.as_fd(), self.path_only, &dos);
        let former = dos.map(store).transpose()?;
        // Times come last, because the other changes would move them.
        if changes.accessed != TimeChange::Keep || changes.modified != TimeChange::Keep {
            let times = Timestamps {
                last_access: timespec(changes.accessed),
                last_modification: timespec(changes.modified),
            };
            let set = |times: &Timestamps| {
                rustix::fs::utimensat(rustix::fs::CWD, &*path, times, AtFlags::empty())
                    .map_err(|error| refusal("set times", error))
            };
            // The creation time is among them, so either all times are set, or none.
            times::set_nearest(self.fd.as_fd(), &times, set).inspect_err(|_| {
                former.iter().for_each(|it| restore_dos(self.fd.as_fd(), self.path_only, it));
            })?;
        }
        let Some(shown) = changed else { return Ok(()) };
        // The other changes have succeeded.
        let is_alone = *changes == AttributeChanges { changed, ..AttributeChanges::default() };
        // Stored last, because every later change would invalidate it.
        times::store_change_time(self.fd.as_fd(), self.path_only, shown, is_alone)
    }

    fn read(&self, offset: u64, length: usize, into: &mut Vec<u8>, wait: Wait) -> Result<usize> {
        let fd = self.file()?;
        let start = into.len();
        into.reserve(length);
        let mut done = 0;
        let mut flags = if wait == Wait::Never { libc::RWF_NOWAIT } else { 0 };
        while done < length {
            match read_some(fd, offset + done as u64, length - done, into, flags) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                // The file system does not support non-blocking reads, and memory needs none.
                Err(Errno::OPNOTSUPP) if flags != 0 && is_all_in_memory(fd, offset, length) => {
                    flags = 0;
                }
                Err(errno) => {
                    into.truncate(start);
                    return Err(refusal("read", errno));
                }
            }
        }
        Ok(done)
    }

    fn write(&self, who: Actor<'_>, offset: u64, data: &[u8]) -> Result<()> {
        let fd = self.file()?;
        let _acting = IdentityGuard::on_open_file(who, || is_group_marked(fd))?;
        let _change = self.unreported_change();
        let mut done = 0;
        while done < data.len() {
            match rustix::io::pwrite(fd, &data[done..], offset + done as u64) {
                Ok(0) => return Err(FsError::NoSpace),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refusal("write", errno)),
            }
        }
        Ok(())
    }

    fn append(&self, who: Actor<'_>, data: &[u8]) -> Result<()> {
        let fd = self.file()?;
        let _acting = IdentityGuard::on_open_file(who, || is_group_marked(fd))?;
        let _change = self.unreported_change();
        let mut rest = data;
        while !rest.is_empty() {
            // The kernel determines the end and writes under one lock.
            let part = [std::io::IoSlice::new(rest)];
            match rustix::io::pwritev2(fd, &part, 0, rustix::io::ReadWriteFlags::APPEND) {
                Ok(0) => return Err(FsError::NoSpace),
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refusal("append", errno)),
            }
        }
        Ok(())
    }

    fn syncs_without_waiting(&self) -> bool {
        // tmpfs has no device; the check skips file systems with one.
        let has_device = rustix::fs::major(self.key.device) != 0;
        !has_device && *self.of_memory.get_or_init(|| is_of_memory(&self.fd))
    }

    fn sync(&self, who: Actor<'_>, data_only: bool) -> Result<()> {
        // The attributes that refer to long streams count as this file's metadata.
        let data_only = !streams::sync(self, data_only)? && data_only;
        let result = match self.kind {
            FileKind::File | FileKind::Directory if !self.path_only => match data_only {
                true => rustix::fs::fdatasync(&self.fd),
                false => rustix::fs::fsync(&self.fd),
            },
            FileKind::Directory => rustix::fs::fsync(self.syncing(who)?),
            kind => {
                let _acting = IdentityGuard::begin(who)?;
                sync_looked_at(self.fd.as_fd(), kind)
            }
        };
        match result {
            // EINVAL: the node does not support syncing.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            // Linux remounts a file system read-only after an error, so EROFS means lost data.
            Err(Errno::ROFS) => Err(refusal("sync", Errno::IO)),
            Err(errno) => Err(refusal("sync", errno)),
        }
    }

    fn set_size(&self, who: Actor<'_>, size_bytes: u64) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        let _change = self.unreported_change();
        let result = rustix::fs::ftruncate(self.file()?, size_bytes);
        result
            .map_err(|e| if e == Errno::INVAL { FsError::TooLarge } else { refusal("truncate", e) })
    }

    fn allocate(&self, who: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        let _change = self.unreported_change();
        rustix::fs::fallocate(self.file()?, FallocateFlags::KEEP_SIZE, offset, length)
            .map_err(|e| refusal("allocate", e))
    }

    fn allocate_and_grow(&self, who: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        let _change = self.unreported_change();
        // The kernel compares the length and extends the file under one lock.
        rustix::fs::fallocate(self.file()?, FallocateFlags::empty(), offset, length)
            .map_err(|e| refusal("allocate", e))
    }

    fn punch_hole(&self, who: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        let _change = self.unreported_change();
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(self.file()?, flags, offset, length)
            .map_err(|e| refusal("punch hole", e))
    }

    fn next_data(&self, offset: u64) -> Result<Option<(u64, u64)>> {
        let fd = self.file()?;
        let start = match rustix::fs::seek(fd, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(errno) => return Err(refusal("seek data", errno)),
        };
        let end =
            rustix::fs::seek(fd, SeekFrom::Hole(start)).map_err(|e| refusal("seek hole", e))?;
        Ok(Some((start, end)))
    }

    fn copy_range(
        &self,
        who: Actor<'_>,
        offset: u64,
        source: &dyn Node,
        source_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let _acting = IdentityGuard::begin(who)?;
        let source = Self::of(source).ok_or(FsError::NotSupported)?;
        let _change = self.unreported_change();
        let (mut from, mut to) = (source_offset, offset);
        let length = usize::try_from(length.min(COPY_BYTES_MAX)).unwrap_or(usize::MAX);
        let copied = rustix::fs::copy_file_range(
            source.file()?,
            Some(&mut from),
            self.file()?,
            Some(&mut to),
            length,
        );
        match copied {
            Ok(count) => Ok(count as u64),
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                let mut buffer = Vec::new();
                let count =
                    source.read(source_offset, length.min(1 << 20), &mut buffer, Wait::Allowed)?;
                self.write(who, offset, &buffer)?;
                Ok(count as u64)
            }
            Err(errno) => Err(refusal("copy", errno)),
        }
    }

    fn clone_range(
        &self,
        who: Actor<'_>,
        offset: u64,
        source: &dyn Node,
        source_offset: u64,
        length: u64,
    ) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        let source = Self::of(source).ok_or(FsError::NotSupported)?;
        let _change = self.unreported_change();
        let range = libc::file_clone_range {
            src_fd: i64::from(source.file()?.as_raw_fd()),
            src_offset: source_offset,
            src_length: length,
            dest_offset: offset,
        };
        // SAFETY: the request reads one `file_clone_range` from the pointer, which lives until the
        // call returns; both descriptors are open.
        let result = unsafe { libc::ioctl(self.file()?.as_raw_fd(), libc::FICLONERANGE, &range) };
        match if result == 0 { Ok(()) } else { Err(last_errno()) } {
            Err(Errno::XDEV) => Err(FsError::CrossDevice),
            other => other.map_err(|e| refusal("clone", e)),
        }
    }

    fn set_compressed(&self, who: Actor<'_>, compressed: bool) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        // The kernel notifies no directory of flag changes.
        let _change = UnreportedChange::begin();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let reopened =
            self.path_only.then(|| rustix::fs::open(self.proc_path(), flags, Mode::empty()));
        let reopened = reopened.transpose().map_err(|e| refusal("open", e))?;
        let fd = reopened.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
        set_compressed(fd, compressed).map_err(|e| refusal("set compression", e))
    }

    fn list(&self, cookie: u64, each: &mut dyn FnMut(DirEntry) -> bool) -> Result<bool> {
        listing::names(self, cookie, each)
    }

    fn list_with_attributes(
        &self,
        who: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        listing::with_attributes(self, who, cookie, wanted, sink)
    }

    fn child_attributes(
        &self,
        who: Actor<'_>,
        name: &Name,
        wanted: AttributeRequest,
    ) -> Result<Attributes> {
        if stream_store::is_store_name(name.as_bytes()) {
            return Err(FsError::NotFound);
        }
        let _acting = IdentityGuard::begin(who)?;
        let name = std::ffi::CString::new(name.as_bytes()).map_err(|_| FsError::InvalidName)?;
        stat(self.fd.as_fd(), &name, wanted, self.path_only)
    }

    fn read_link(&self, who: Actor<'_>) -> Result<Vec<u8>> {
        if self.kind != FileKind::Symlink {
            return Err(FsError::NotSupported);
        }
        let _acting = IdentityGuard::begin(who)?;
        let target = rustix::fs::readlinkat(&self.fd, c"", Vec::new())
            .map_err(|e| refusal("read link", e))?;
        Ok(target.into_bytes())
    }

    fn reparse_data(&self, who: Actor<'_>) -> Result<Vec<u8>> {
        let _acting = IdentityGuard::begin(who)?;
        match self.get_xattr(REPARSE_NAME) {
            Ok(value) => Ok(value),
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Err(FsError::NotFound),
            Err(errno) => Err(refusal("get reparse data", errno)),
        }
    }

    fn set_reparse_data(&self, who: Actor<'_>, data: Option<&[u8]>) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        match self.put_xattr(REPARSE_NAME, data, XattrFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::NODATA) if data.is_none() => Ok(()),
            Err(errno) => Err(refusal("set reparse data", errno)),
        }
    }

    fn verifier(&self, who: Actor<'_>) -> Result<[u8; 8]> {
        let _acting = IdentityGuard::begin(who)?;
        let value = self.get_xattr(VERIFIER_NAME).map_err(|_| FsError::NotFound)?;
        value.try_into().map_err(|_| FsError::NotFound)
    }

    fn set_verifier(&self, who: Actor<'_>, verifier: [u8; 8]) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        match self.put_xattr(VERIFIER_NAME, Some(&verifier), XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(refusal("set verifier", errno)),
        }
    }

    fn xattr_names(&self, who: Actor<'_>) -> Result<Vec<XattrName>> {
        let _acting = IdentityGuard::begin(who)?;
        let listed = self.list_xattrs().map_err(|e| refusal("list attributes", e))?;
        Ok(listed.split(|&b| b == 0).filter_map(users_name).collect())
    }

    fn child_xattrs(&self, who: Actor<'_>, name: &Name) -> Vec<(XattrName, usize)> {
        let Ok(child) = std::str::from_utf8(name.as_bytes()) else { return Vec::new() };
        let Ok(_acting) = IdentityGuard::begin(who) else { return Vec::new() };
        let path = format!("{}/{child}", self.proc_path());
        // A longer list is rare, and treated as empty.
        let mut listed = [0u8; CHILD_NAMES_BYTES_MAX];
        let Ok(length) = rustix::fs::llistxattr(&*path, &mut listed[..]) else { return Vec::new() };
        let names = listed[..length].split(|&b| b == 0).filter_map(users_name);
        let read = |name: &[u8], room: &mut [u8]| rustix::fs::lgetxattr(&*path, name, room);
        let length_of = |name: &XattrName| {
            let name = user_name(name);
            match read(&name, &mut [0u8; 256]) {
                Err(Errno::RANGE) => read(&name, &mut vec![0; XATTR_BYTES_MAX]).ok(),
                other => other.ok(),
            }
        };
        names.filter_map(|name| length_of(&name).map(|length| (name, length))).collect()
    }

    fn xattr(&self, who: Actor<'_>, name: &XattrName) -> Result<Vec<u8>> {
        if is_private(name.as_bytes()) {
            return Err(FsError::NotFound);
        }
        let _acting = IdentityGuard::begin(who)?;
        self.get_xattr(user_name(name).as_slice()).map_err(|e| refusal("get attribute", e))
    }

    fn set_xattr(&self, who: Actor<'_>, name: &XattrName, value: Option<&[u8]>) -> Result<()> {
        if is_private(name.as_bytes()) {
            return Err(FsError::AccessDenied);
        }
        let _acting = IdentityGuard::begin(who)?;
        match self.put_xattr(user_name(name).as_slice(), value, XattrFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::NODATA) if value.is_none() => Ok(()),
            Err(Errno::NOSPC) if self.has_free_blocks() => Err(FsError::TooLarge),
            Err(Errno::RANGE | Errno::TOOBIG) => Err(FsError::TooLarge),
            Err(errno) => Err(refusal("set attribute", errno)),
        }
    }

    fn streams(&self, who: Actor<'_>) -> Result<Vec<StreamEntry>> {
        streams::list(self, who)
    }

    fn find_stream(&self, who: Actor<'_>, name: &StreamName, case: Case) -> Result<StreamEntry> {
        streams::find(self, who, name, case)
    }

    fn create_stream(&self, who: Actor<'_>, name: &StreamName, case: Case) -> Result<()> {
        streams::create(self, who, name, case)
    }

    fn read_stream(
        &self,
        who: Actor<'_>,
        name: &StreamName,
        offset: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) -> Result<usize> {
        streams::read(self, who, name, offset, length, into)
    }

    fn write_stream(
        &self,
        who: Actor<'_>,
        name: &StreamName,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        streams::write(self, who, name, offset, data)
    }

    fn stream_data(
        &self,
        who: Actor<'_>,
        name: &StreamName,
        writes: bool,
    ) -> Result<Option<Arc<dyn Node>>> {
        streams::data(self, who, name, writes)
    }

    fn set_stream_size(&self, who: Actor<'_>, name: &StreamName, size_bytes: u64) -> Result<()> {
        streams::set_size(self, who, name, size_bytes)
    }

    fn remove_stream(&self, who: Actor<'_>, name: &StreamName) -> Result<()> {
        streams::remove(self, who, name)
    }

    fn rename_stream(
        &self,
        who: Actor<'_>,
        from: &StreamName,
        to: &StreamName,
        replace: Replace,
    ) -> Result<()> {
        streams::rename(self, who, from, to, replace)
    }

    fn security_descriptor(&self) -> Result<Option<Vec<u8>>> {
        security::load(self)
    }

    fn posix_acl(&self) -> Result<Option<PosixAcl>> {
        posix_acl::load(self)
    }

    fn set_security(&self, who: Actor<'_>, change: &SecurityChange<'_>) -> Result<()> {
        let _change = vfs::freshness::begin_change();
        let stored = security::store(self, who, change);
        stream_store::record_known_rights(self);
        stored
    }

    fn noatime(&self, work: ServerWork) -> Option<Arc<dyn Node>> {
        let has_data = matches!(self.kind, FileKind::File | FileKind::Directory);
        let fd = has_data.then(|| noatime::reopen(self.fd.as_fd(), work))?.ok()?;
        let (node, _) = Self::new(fd, false, true, AttributeRequest::default()).ok()?;
        Some(Arc::new(Self { is_unreported: node.is_unreported || self.is_unreported, ..node }))
    }

    fn sendfile_source(&self) -> Option<BorrowedFd<'_>> {
        self.readable.then(|| self.fd.as_fd())
    }

    fn is_resident(&self, offset: u64, length: usize) -> bool {
        self.readable && is_cached(&self.fd, offset, length)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// The name without `user.`, if the attribute is a user attribute that clients may see.
pub fn users_name(full: &[u8]) -> Option<XattrName> {
    let name = full.strip_prefix(b"user.")?;
    (!is_private(name)).then(|| XattrName::new(name).ok()).flatten()
}

/// True if the attribute (without `user.`) holds data that other calls expose.
fn is_private(name: &[u8]) -> bool {
    name == b"DOSATTRIB"
        || name == b"SmbReparse"
        || streams::is_stream(name)
        || name.starts_with(b"anabranch.")
}

/// The name with `user.`.
fn user_name(name: &XattrName) -> Vec<u8> {
    [b"user.", name.as_bytes()].concat()
}

/// One `preadv2` into the spare capacity of `into`.
pub fn read_some(
    fd: &OwnedFd,
    offset: u64,
    length: usize,
    into: &mut Vec<u8>,
    flags: i32,
) -> rustix::io::Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| Errno::INVAL)?;
    let spare = &mut into.spare_capacity_mut()[..length];
    let vector = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: length };
    // SAFETY: the vector covers `length` bytes of spare capacity that nobody
    // else refers to while the call runs.
    let count = unsafe { libc::preadv2(fd.as_raw_fd(), &vector, 1, offset, flags) };
    let count = usize::try_from(count).map_err(|_| last_errno())?;
    // SAFETY: the kernel initialised `count` bytes after the present length,
    // and `count <= length <= spare capacity`.
    unsafe { into.set_len(into.len() + count) };
    Ok(count)
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
