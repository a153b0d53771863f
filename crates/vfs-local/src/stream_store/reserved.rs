//! Recognizes stores and their files, which no client may reach.

use crate::identity::as_server;
use crate::xattrs::NodeAddress;
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use vfs::{Attributes, FileKind, ServerWork};

/// Name of the store directory.
pub const NAME: &str = ".anabranch-streams";
/// The attribute that holds a record. The directory has one, too, that refers to no host.
pub const RECORD: &str = "user.anabranch.stream-of";
/// Mode of a store, by which opened nodes are recognized as one.
pub const STORE_MODE: u32 = 0o1700;
/// Mode of a store file.
pub const FILE_MODE: u32 = 0o1600;

/// True if a name is that of a store, ignoring case, because a file system may ignore it.
pub fn is_store_name(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(NAME.as_bytes())
}

/// True if a path leads through a store.
pub fn leads_into_store(path: &[u8]) -> bool {
    path.len() >= NAME.len() && path.split(|byte| *byte == b'/').any(is_store_name)
}

/// True if the opened node is a store or a store file, to which a link or a handle may have led.
pub fn is_reserved(fd: BorrowedFd<'_>, path_only: bool, attributes: &Attributes) -> bool {
    let mode = match attributes.kind {
        FileKind::File => FILE_MODE,
        FileKind::Directory => STORE_MODE,
        _ => return false,
    };
    if attributes.mode != mode {
        return false;
    }
    has_record(fd, path_only)
}

/// True if a file or directory has a record, or may have one.
fn has_record(fd: BorrowedFd<'_>, path_only: bool) -> bool {
    let place = if path_only { NodeAddress::Looked(fd) } else { NodeAddress::Open(fd) };
    let look = || Ok(place.get(c"user.anabranch.stream-of", &mut []));
    !matches!(
        as_server(ServerWork::StreamStore, look),
        Ok(Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::BADF))
    )
}

/// True if a directory is a store, to which a link in a path may have led.
pub fn is_store(directory: BorrowedFd<'_>) -> bool {
    let has_mode = |stat: Stat| stat.st_mode & 0o7777 == STORE_MODE && is_directory(&stat);
    rustix::fs::fstat(directory).is_ok_and(has_mode) && has_record(directory, true)
}

pub fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}
