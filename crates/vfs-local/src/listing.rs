//! A directory and what is in it, in one pass: one `statx` an entry, and one
//! `listxattrat` for those whose extended attributes are not known already.

use crate::errors::refusal;
use crate::identity::{act_as, as_root};
use crate::node::{LocalNode, attributes_of, users_name};
use crate::{dos_attributes, security, streams, xattr_notes};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::{
    Attributes, Choice, DirEntry, DosInfo, FileKind, FsError, Identity, ListSink, ListWanted,
    Listed, Name, Node, Result, Stored,
};

/// Bytes read from a directory at once.
const LIST_BYTES: usize = 32 * 1024;
/// The same where few entries will be taken: room for three of the longest names.
const FEW_BYTES: usize = 1024;
/// Bytes of the names of a listed file's extended attributes; more are not looked at one by one.
const NAMES_BYTES_MAX: usize = 1024;

/// Lists names.
pub fn names(
    node: &LocalNode,
    cookie: u64,
    each: &mut dyn FnMut(DirEntry) -> bool,
) -> Result<bool> {
    read_entries(node, cookie, LIST_BYTES, |entry| {
        let Ok(name) = Name::new(entry.file_name().to_bytes()) else { return Ok(true) };
        let kind = match entry.file_type() {
            rustix::fs::FileType::RegularFile => Some(FileKind::File),
            rustix::fs::FileType::Directory => Some(FileKind::Directory),
            rustix::fs::FileType::Symlink => Some(FileKind::Symlink),
            _ => None,
        };
        Ok(each(DirEntry { name, inode: entry.ino(), kind, next: entry.next_entry_cookie() }))
    })
}

/// Lists names with what they name.
pub fn with_attributes(
    node: &LocalNode,
    who: &Identity,
    cookie: u64,
    wanted: ListWanted,
    sink: &mut dyn ListSink,
) -> Result<bool> {
    let notes = xattr_notes::Reader::of(node.as_fd());
    let bytes = if wanted.few { FEW_BYTES } else { LIST_BYTES };
    read_entries(node, cookie, bytes, |entry| {
        let (name, next) = (entry.file_name(), entry.next_entry_cookie());
        if matches!(name.to_bytes(), b"." | b"..") {
            return Ok(true);
        }
        match sink.choose(name.to_bytes(), next) {
            Choice::Take => {}
            Choice::Pass => return Ok(true),
            Choice::Stop => return Ok(false),
        }
        let looks = wanted.attributes || wanted.stored;
        let look = || look_at(node.as_fd(), who, name, wanted.stored, &notes);
        let (attributes, stored) = match looks.then(look).transpose() {
            Err(FsError::NotFound | FsError::AccessDenied) => return Ok(true),
            Err(error) => return Err(error),
            Ok(Some((attributes, stored))) => (Some(attributes), stored),
            Ok(None) => (None, Stored::UNKNOWN),
        };
        Ok(sink.put(Listed { name: name.to_bytes(), attributes, stored, next }))
    })
}

fn read_entries(
    node: &LocalNode,
    cookie: u64,
    bytes: usize,
    mut each: impl FnMut(&rustix::fs::RawDirEntry<'_>) -> Result<bool>,
) -> Result<bool> {
    if node.kind() != FileKind::Directory {
        return Err(FsError::NotDirectory);
    }
    if node.is_path_only() {
        return Err(FsError::OpenMode);
    }
    if cookie == 0 {
        crate::case::count_scan();
    }
    let _one_at_a_time = node.listing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let fd = node.as_fd();
    rustix::fs::seek(fd, SeekFrom::Start(cookie)).map_err(|e| refusal("list", e))?;
    let mut buffer = vec![MaybeUninit::uninit(); bytes];
    let mut entries = rustix::fs::RawDir::new(fd, &mut buffer);
    while let Some(entry) = entries.next() {
        if !each(&entry.map_err(|e| refusal("list", e))?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn look_at(
    directory: BorrowedFd<'_>,
    who: &Identity,
    name: &CStr,
    stored: bool,
    notes: &xattr_notes::Reader,
) -> Result<(Attributes, Stored)> {
    // What the sink did for the entry before may have been done as somebody else.
    act_as(who)?;
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = rustix::fs::statx(directory, name, flags, mask).map_err(|e| refusal("stat", e))?;
    let mut attributes = attributes_of(&stat);
    if !stored || !matches!(attributes.kind, FileKind::File | FileKind::Directory) {
        return Ok((attributes, Stored::UNKNOWN));
    }
    if let Some((dos, stored)) = notes.find(&attributes) {
        attributes.dos = dos;
        return Ok((attributes, stored));
    }
    let (dos, stored) = read_stored(directory, name);
    attributes.dos = dos;
    notes.keep(&attributes, stored);
    Ok((attributes, stored))
}

/// DOS attributes of a child, and what else it has in extended attributes.
fn read_stored(directory: BorrowedFd<'_>, name: &CStr) -> (DosInfo, Stored) {
    let mut names = [0u8; NAMES_BYTES_MAX];
    let listed = match list_xattrs(directory, name, &mut names) {
        Ok(length) => &names[..length],
        Err(Errno::OPNOTSUPP | Errno::NODATA) => return (DosInfo::default(), Stored::NOTHING),
        Err(_) => return (read_dos(directory, name), Stored::UNKNOWN),
    };
    let (mut stored, mut has_dos) = (Stored::NOTHING, false);
    for full in listed.split(|&byte| byte == 0).filter(|full| !full.is_empty()) {
        has_dos |= full == dos_attributes::NAME.as_bytes();
        stored.xattrs |= users_name(full).is_some();
        stored.streams |= full.strip_prefix(b"user.").is_some_and(streams::is_stream);
        stored.descriptor |= full == security::name().as_bytes();
        stored.posix_acl |= full == b"system.posix_acl_access";
    }
    let dos = if has_dos { read_dos(directory, name) } else { DosInfo::default() };
    (dos, stored)
}

/// What is stored is shown to all who may list the directory; reading the
/// attribute takes what reading the file's data takes.
pub fn read_dos(directory: BorrowedFd<'_>, name: &CStr) -> DosInfo {
    let mut value = [0u8; 256];
    let read = match get_xattr(directory, name, &mut value) {
        Err(Errno::ACCESS) => {
            let again = || get_xattr(directory, name, &mut value).map_err(|e| refusal("list", e));
            as_root(again).ok()
        }
        other => other.ok(),
    };
    read.and_then(|length| dos_attributes::decode(&value[..length])).unwrap_or_default()
}

/// Linux before 6.13 has no such calls by a directory's descriptor.
static WITHOUT_AT: AtomicBool = AtomicBool::new(false);

fn list_xattrs(
    directory: BorrowedFd<'_>,
    name: &CStr,
    into: &mut [u8],
) -> rustix::io::Result<usize> {
    const SYS_LISTXATTRAT: libc::c_long = 465;
    if !WITHOUT_AT.load(Ordering::Relaxed) {
        // SAFETY: the call reads the name up to its NUL and writes at most `into.len()`
        // bytes into `into`, which nobody else refers to.
        let result = unsafe {
            libc::syscall(
                SYS_LISTXATTRAT,
                directory.as_raw_fd(),
                name.as_ptr(),
                libc::AT_SYMLINK_NOFOLLOW,
                into.as_mut_ptr(),
                into.len(),
            )
        };
        match length_of(result) {
            Err(Errno::NOSYS) => WITHOUT_AT.store(true, Ordering::Relaxed),
            other => return other,
        }
    }
    rustix::fs::llistxattr(path_of(directory, name), into)
}

fn get_xattr(directory: BorrowedFd<'_>, name: &CStr, into: &mut [u8]) -> rustix::io::Result<usize> {
    /// `struct xattr_args` of the kernel.
    #[repr(C)]
    struct Arguments {
        value: u64,
        size: u32,
        flags: u32,
    }
    const SYS_GETXATTRAT: libc::c_long = 464;
    const DOS: &CStr = c"user.DOSATTRIB";
    if !WITHOUT_AT.load(Ordering::Relaxed) {
        let size = u32::try_from(into.len()).unwrap_or(u32::MAX);
        let arguments = Arguments { value: into.as_mut_ptr() as u64, size, flags: 0 };
        // SAFETY: the call reads both names up to their NUL and the arguments, and
        // writes at most `size` bytes into `into`, which nobody else refers to.
        let result = unsafe {
            libc::syscall(
                SYS_GETXATTRAT,
                directory.as_raw_fd(),
                name.as_ptr(),
                libc::AT_SYMLINK_NOFOLLOW,
                DOS.as_ptr(),
                &raw const arguments,
                size_of::<Arguments>(),
            )
        };
        match length_of(result) {
            Err(Errno::NOSYS) => WITHOUT_AT.store(true, Ordering::Relaxed),
            other => return other,
        }
    }
    rustix::fs::lgetxattr(path_of(directory, name), DOS, into)
}

fn length_of(result: libc::c_long) -> rustix::io::Result<usize> {
    let errno = || Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
    usize::try_from(result).map_err(|_| errno())
}

/// A path to a child, for calls that take no directory.
fn path_of(directory: BorrowedFd<'_>, name: &CStr) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::XattrFlags;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn both_ways_to_read_extended_attributes_say_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let directory = File::open(folder.path()).unwrap();
        let value = dos_attributes::encode(&DosInfo { bits: Some(3), created: None });
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
        let read = |name| read_stored(directory.as_fd(), name);
        let all = || [c"plain", c"marked", c"missing"].map(read);
        let first = all();
        WITHOUT_AT.store(true, Ordering::Relaxed);
        let second = all();
        WITHOUT_AT.store(false, Ordering::Relaxed);
        assert_eq!(first, second);
        assert_eq!(first[0], (DosInfo::default(), Stored::NOTHING));
        let marked = Stored { xattrs: true, streams: true, ..Stored::NOTHING };
        assert_eq!(first[1], (DosInfo { bits: Some(3), created: None }, marked));
    }
}
