//! Attributes of open nodes by descriptor: statx(2) and the extended attributes beside it.

use crate::compression::compresses;
use crate::dos_attributes::{self, StoredDos};
use crate::errors::refusal;
use crate::xattr_notes;
use crate::xattrs::{self, NodeAddress};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, StatxTimestamp, Timespec, XattrFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use vfs::{
    AttributeRequest, Attributes, Device, DosInfo, FileKey, FileKind, MetadataPresence, Protection,
    Result, ServerWork, TimeChange, Timestamp,
};

/// Maximum length of an extended attribute on Linux.
pub const XATTR_BYTES_MAX: usize = 64 * 1024;

/// A path that refers to an open node, for calls that take no descriptor.
pub fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// The value of an extended attribute.
pub fn get_xattr(
    fd: BorrowedFd<'_>,
    path_only: bool,
    name: impl Arg + Copy,
) -> rustix::io::Result<Vec<u8>> {
    let place = if path_only { NodeAddress::Looked(fd) } else { NodeAddress::Open(fd) };
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
pub fn restore_dos(fd: BorrowedFd<'_>, path_only: bool, former: &FormerDos) {
    let restored = match &former.0 {
        Some(value) => set_dos(fd, path_only, value),
        None if path_only => rustix::fs::removexattr(proc_path(fd), dos_attributes::NAME),
        None => rustix::fs::fremovexattr(fd, dos_attributes::NAME),
    };
    match restored {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
        Err(error) => {
            tracing::warn!(%error, "a change of attributes failed in part and cannot be undone: the new DOS attributes stay")
        }
    }
}

/// Stores encoded DOS attributes.
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
    let mut attributes = attributes_of(&stat, fd);
    if let Some(work) = wanted.dos
        && matches!(attributes.kind, FileKind::File | FileKind::Directory)
    {
        let place = match (name.is_empty(), path_only) {
            (false, _) => NodeAddress::Child(fd, name),
            (true, true) => NodeAddress::Looked(fd),
            (true, false) => NodeAddress::Open(fd),
        };
        fill_stored(&mut attributes, place, work);
    }
    Ok(attributes)
}

/// Adds DOS attributes and the presence of other metadata, from the cache where it has them.
fn fill_stored(attributes: &mut Attributes, place: NodeAddress<'_>, work: ServerWork) {
    let notes = xattr_notes::XattrNoteReader::of_device(attributes.key.device);
    if let Some(known) = notes.as_ref().and_then(|notes| notes.find(attributes)) {
        *attributes = known;
        return;
    }
    let is_complete = xattrs::fill_stored(attributes, place, work);
    notes.filter(|_| is_complete).inspect(|notes| notes.keep(attributes));
}

/// Attributes in the words of `vfs`. `fd` is the node or its directory. ext4 stores the compression
/// flag without compressing, so a flagged file costs a look at the kind of its file system.
pub fn attributes_of(stat: &rustix::fs::Statx, fd: BorrowedFd<'_>) -> Attributes {
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
        compressed: stat.stx_attributes.contains(StatxAttributes::COMPRESSED) && compresses(fd),
        protection: match stat.stx_attributes {
            flags if flags.contains(StatxAttributes::IMMUTABLE) => Protection::Immutable,
            flags if flags.contains(StatxAttributes::APPEND) => Protection::AppendOnly,
            _ => Protection::None,
        },
    }
}

/// The argument of utimensat(2) for a change.
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
