//! Extended attributes by descriptor, by O_PATH descriptor or by name.

use crate::dos_attributes;
use crate::dos_attributes::{SetChangeTime, StoredDos};
use crate::errors::refusal;
use crate::identity::as_server;
use crate::xattr_names::{descriptor_attribute, is_stream, users_name};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::path::DecInt;
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::{Attributes, MetadataPresence, ServerWork};

/// Buffer for the names of a file's extended attributes. A longer list is not examined.
const NAMES_BYTES_MAX: usize = 1024;

/// How a node is addressed.
#[derive(Clone, Copy)]
pub enum NodeAddress<'a> {
    /// A descriptor that is open for data.
    Open(BorrowedFd<'a>),
    /// An O_PATH descriptor, which calls on descriptors reject.
    Looked(BorrowedFd<'a>),
    /// A name in a directory; a symbolic link is not followed.
    Child(BorrowedFd<'a>, &'a CStr),
}

impl NodeAddress<'_> {
    /// The names of all extended attributes, each with a NUL.
    pub fn list(self, into: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::Open(fd) => rustix::fs::flistxattr(fd, into),
            Self::Child(directory, name) => {
                list_at(RelativeName { directory, name, follows: false }, into)
            }
            Self::Looked(fd) => match descriptors() {
                Some(directory) => list_at(
                    RelativeName { directory, name: number_of(fd).as_c_str(), follows: true },
                    into,
                ),
                None => rustix::fs::listxattr(path_of(fd), into),
            },
        }
    }

    /// The value of one attribute.
    pub fn get(self, attribute: &CStr, into: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::Open(fd) => rustix::fs::fgetxattr(fd, attribute, into),
            Self::Child(directory, name) => {
                get_at(RelativeName { directory, name, follows: false }, attribute, into)
            }
            Self::Looked(fd) => match descriptors() {
                Some(directory) => {
                    let name = number_of(fd);
                    let at = RelativeName { directory, name: name.as_c_str(), follows: true };
                    get_at(at, attribute, into)
                }
                None => rustix::fs::getxattr(path_of(fd), attribute, into),
            },
        }
    }
}

/// Completes attributes that were just read with the values in extended attributes: DOS attributes,
/// the change time that a client set, and the presence of others. Returns false if a read failed,
/// so that the values must not be cached.
pub fn fill_stored(attributes: &mut Attributes, place: NodeAddress<'_>, work: ServerWork) -> bool {
    let (dos, stored) = read_stored(place, work);
    let is_complete = dos.is_some() && stored != MetadataPresence::UNKNOWN;
    let dos = dos.unwrap_or_default();
    (attributes.dos, attributes.stored) = (dos.info, stored);
    let valid = |set: &SetChangeTime| set.is_of(attributes.changed);
    attributes.set_changed = dos.changed.filter(valid).map(|set| set.shown);
    is_complete
}

/// DOS attributes, and which other values extended attributes hold. No DOS attributes if they could
/// not be read.
fn read_stored(place: NodeAddress<'_>, work: ServerWork) -> (Option<StoredDos>, MetadataPresence) {
    let mut names = [0u8; NAMES_BYTES_MAX];
    let listed = match place.list(&mut names) {
        Ok(length) => &names[..length],
        Err(Errno::OPNOTSUPP | Errno::NODATA) => {
            return (Some(StoredDos::default()), MetadataPresence::NOTHING);
        }
        Err(_) => return (read_dos(place, work), MetadataPresence::UNKNOWN),
    };
    let (mut stored, mut has_dos) = (MetadataPresence::NOTHING, false);
    for full in listed.split(|&byte| byte == 0).filter(|full| !full.is_empty()) {
        has_dos |= full == dos_attributes::NAME.as_bytes();
        stored.xattrs |= users_name(full).is_some();
        stored.streams |= full.strip_prefix(b"user.").is_some_and(is_stream);
        stored.descriptor |= full == descriptor_attribute().as_bytes();
        stored.posix_acl |= full == b"system.posix_acl_access";
    }
    let dos = if has_dos { read_dos(place, work) } else { Some(StoredDos::default()) };
    (dos, stored)
}

/// Reads DOS attributes, which are visible to everybody who may see the file, as the server if
/// necessary. If the user may read the data, no credentials change. `None` if they cannot be read;
/// damaged ones are the default.
fn read_dos(place: NodeAddress<'_>, work: ServerWork) -> Option<StoredDos> {
    let mut value = [0u8; 256];
    let mut read = || place.get(c"user.DOSATTRIB", &mut value);
    let length = match read() {
        Err(Errno::ACCESS) => as_server(work, || read().map_err(|e| refusal("stat", e))).ok(),
        Err(Errno::NODATA) => return Some(StoredDos::default()),
        other => other.ok(),
    }?;
    Some(dos_attributes::decode(&value[..length]).unwrap_or_default())
}

/// Linux before 6.13 has no extended attribute calls that take a directory.
static WITHOUT_AT: AtomicBool = AtomicBool::new(false);

/// The directory of this process's descriptors. From there a descriptor has a path of one
/// component, which saves a third of the time.
fn descriptors() -> Option<BorrowedFd<'static>> {
    static ALL: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let all = ALL.get_or_init(|| rustix::fs::open("/proc/self/fd", flags, Mode::empty()).ok());
    all.as_ref().filter(|_| !WITHOUT_AT.load(Ordering::Relaxed)).map(AsFd::as_fd)
}

/// A name relative to a directory. A link of `/proc` refers to the node itself and must be
/// followed; other links must not.
#[derive(Clone, Copy)]
struct RelativeName<'a> {
    directory: BorrowedFd<'a>,
    name: &'a CStr,
    follows: bool,
}

impl RelativeName<'_> {
    fn flags(self) -> libc::c_int {
        if self.follows { 0 } else { libc::AT_SYMLINK_NOFOLLOW }
    }

    /// The path, for calls that take no directory.
    fn path(self) -> Vec<u8> {
        let mut path = path_of(self.directory).into_bytes();
        path.push(b'/');
        path.extend_from_slice(self.name.to_bytes());
        path
    }
}

fn list_at(at: RelativeName<'_>, into: &mut [u8]) -> rustix::io::Result<usize> {
    const SYS_LISTXATTRAT: libc::c_long = 465;
    if !WITHOUT_AT.load(Ordering::Relaxed) {
        // SAFETY: the call reads the name up to its NUL and writes at most `into.len()`
        // bytes into `into`, which nobody else refers to.
        let result = unsafe {
            libc::syscall(
                SYS_LISTXATTRAT,
                at.directory.as_raw_fd(),
                at.name.as_ptr(),
                at.flags(),
                into.as_mut_ptr(),
                into.len(),
            )
        };
        match length_of(result) {
            Err(Errno::NOSYS) => WITHOUT_AT.store(true, Ordering::Relaxed),
            other => return other,
        }
    }
    match at.follows {
        true => rustix::fs::listxattr(at.path(), into),
        false => rustix::fs::llistxattr(at.path(), into),
    }
}

fn get_at(at: RelativeName<'_>, attribute: &CStr, into: &mut [u8]) -> rustix::io::Result<usize> {
    /// `struct xattr_args` of the kernel.
    #[repr(C)]
    struct Arguments {
        value: u64,
        size: u32,
        flags: u32,
    }
    const SYS_GETXATTRAT: libc::c_long = 464;
    if !WITHOUT_AT.load(Ordering::Relaxed) {
        let size = u32::try_from(into.len()).unwrap_or(u32::MAX);
        let arguments = Arguments { value: into.as_mut_ptr() as u64, size, flags: 0 };
        // SAFETY: the call reads both names up to their NUL and the arguments, and
        // writes at most `size` bytes into `into`, which nobody else refers to.
        let result = unsafe {
            libc::syscall(
                SYS_GETXATTRAT,
                at.directory.as_raw_fd(),
                at.name.as_ptr(),
                at.flags(),
                attribute.as_ptr(),
                &raw const arguments,
                size_of::<Arguments>(),
            )
        };
        match length_of(result) {
            Err(Errno::NOSYS) => WITHOUT_AT.store(true, Ordering::Relaxed),
            other => return other,
        }
    }
    match at.follows {
        true => rustix::fs::getxattr(at.path(), attribute, into),
        false => rustix::fs::lgetxattr(at.path(), attribute, into),
    }
}

fn length_of(result: libc::c_long) -> rustix::io::Result<usize> {
    let errno = || Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
    usize::try_from(result).map_err(|_| errno())
}

/// A descriptor's name in `/proc/self/fd`.
fn number_of(fd: BorrowedFd<'_>) -> DecInt {
    DecInt::from_fd(fd)
}

fn path_of(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::XattrFlags;
    use std::fs::File;
    use vfs::DosInfo;

    #[test]
    fn both_xattr_read_paths_agree() {
        let folder = tempfile::tempdir().unwrap();
        let directory = File::open(folder.path()).unwrap();
        let info = DosInfo { bits: Some(3), created: None };
        let value = dos_attributes::encode(&info.into());
        for name in ["plain", "marked"] {
            let file = File::create(folder.path().join(name)).unwrap();
            if name == "marked" {
                let set = |name, value| {
                    rustix::fs::fsetxattr(&file, name, value, XattrFlags::empty()).unwrap();
                };
                set(dos_attributes::NAME, &value);
                set("user.note", b"1");
                set("user.DosStream.a:$DATA", b"2");
            }
        }
        let read =
            |name| read_stored(NodeAddress::Child(directory.as_fd(), name), ServerWork::Metadata);
        let looked = rustix::fs::open(
            folder.path().join("marked"),
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let looked = looked.unwrap();
        let all = || {
            let looked = read_stored(NodeAddress::Looked(looked.as_fd()), ServerWork::Metadata);
            [read(c"plain"), read(c"marked"), read(c"missing"), looked]
        };
        let first = all();
        WITHOUT_AT.store(true, Ordering::Relaxed);
        let second = all();
        WITHOUT_AT.store(false, Ordering::Relaxed);
        assert_eq!(first, second);
        assert_eq!(first[0], (Some(StoredDos::default()), MetadataPresence::NOTHING));
        let marked = MetadataPresence { xattrs: true, streams: true, ..MetadataPresence::NOTHING };
        assert_eq!(first[1], (Some(info.into()), marked));
        assert_eq!(first[3], first[1]);
        let file = File::open(folder.path().join("marked")).unwrap();
        assert_eq!(read_stored(NodeAddress::Open(file.as_fd()), ServerWork::Metadata), first[1]);
    }
}
