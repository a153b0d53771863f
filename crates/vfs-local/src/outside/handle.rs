//! Directory handles: `name_to_handle_at(2)` and back.

use crate::location::{name_of, path_below};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use vfs::{FsError, Name, RelPath, Result};

/// Length of the file system's id, which precedes the handle.
const FILE_SYSTEM_BYTES: usize = 8;

/// A `file_handle` of the maximum size.
#[repr(C)]
struct KernelHandle {
    length: u32,
    kind: i32,
    bytes: [u8; libc::MAX_HANDLE_SZ as usize],
}

impl KernelHandle {
    fn empty() -> Self {
        let bytes = [0; libc::MAX_HANDLE_SZ as usize];
        Self { length: libc::MAX_HANDLE_SZ as u32, kind: 0, bytes }
    }

    /// Parses the form in which events contain handles.
    fn parse(key: &[u8]) -> Option<Self> {
        let handle = key.get(FILE_SYSTEM_BYTES..)?;
        let (length, rest) = handle.split_first_chunk()?;
        let (kind, bytes) = rest.split_first_chunk()?;
        let mut parsed = Self::empty();
        parsed.length = u32::from_ne_bytes(*length);
        parsed.kind = i32::from_ne_bytes(*kind);
        let bytes = bytes.get(..parsed.length as usize)?;
        parsed.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(parsed)
    }
}

/// File system id and handle of a directory, in the form in which events contain them.
pub fn handle_of(fd: BorrowedFd<'_>) -> Result<Box<[u8]>> {
    let mut handle = KernelHandle::empty();
    let mut mount = 0;
    // SAFETY: `handle` has the layout of `file_handle` with as much room as it says; the path is an
    // empty string, for the descriptor itself.
    let result = unsafe {
        libc::name_to_handle_at(
            fd.as_raw_fd(),
            c"".as_ptr(),
            (&raw mut handle).cast(),
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    let bytes = handle.bytes.get(..handle.length as usize);
    let (0, Some(bytes)) = (result, bytes) else { return Err(FsError::NotSupported) };
    let mut key = file_system_of(fd)?.to_vec();
    key.extend_from_slice(&handle.length.to_ne_bytes());
    key.extend_from_slice(&handle.kind.to_ne_bytes());
    key.extend_from_slice(bytes);
    Ok(key.into())
}

fn file_system_of(fd: BorrowedFd<'_>) -> Result<[u8; 8]> {
    // SAFETY: all zeros is a value of this structure of integers.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and `facts` is ours to be filled.
    if unsafe { libc::fstatfs(fd.as_raw_fd(), &raw mut facts) } != 0 {
        return Err(FsError::NotSupported);
    }
    // SAFETY: an `fsid_t` is two 32-bit integers without padding.
    Ok(unsafe { std::mem::transmute::<libc::fsid_t, [u8; 8]>(facts.f_fsid) })
}

/// The path of the directory with this handle in the tree of `root`; `None` if it lies elsewhere or
/// was removed.
pub fn place_of(root: BorrowedFd<'_>, key: &[u8]) -> Option<RelPath> {
    path_below(root, open(root, key)?.as_fd(), None)
}

/// Opens the directory with this handle on the file system of `root`, with O_PATH.
pub fn open(root: BorrowedFd<'_>, key: &[u8]) -> Option<OwnedFd> {
    let mut handle = KernelHandle::parse(key)?;
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: `handle` has the layout of `file_handle`, with as many bytes as it says.
    let fd = unsafe { libc::open_by_handle_at(root.as_raw_fd(), (&raw mut handle).cast(), flags) };
    // SAFETY: the call has just given it to us.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The handle of a directory's parent, and its name there.
pub fn parent_of(root: BorrowedFd<'_>, key: &[u8]) -> Option<(Box<[u8]>, Name)> {
    let directory = open(root, key)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::openat(&directory, c"..", flags, Mode::empty()).ok()?;
    let name = name_of(parent.as_fd(), directory.as_fd())?;
    Some((handle_of(parent.as_fd()).ok()?, name))
}
