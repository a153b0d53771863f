//! Project ids of store files, for project quotas as on XFS and ext4: FS_IOC_FSGETXATTR and
//! FS_IOC_FSSETXATTR, `linux/fs.h`.

use crate::local_node::LocalNode;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, opcode};
use std::sync::Once;

/// `struct fsxattr`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FileFlags {
    flags: u32,
    extent_bytes: u32,
    extents: u32,
    project: u32,
    copied_extent_bytes: u32,
    padding: [u8; 8],
}

const GET: Opcode = opcode::read::<FileFlags>(b'X', 31);
const SET: Opcode = opcode::write::<FileFlags>(b'X', 32);
/// Files created in or linked into the directory inherit its project (FS_XFLAG_PROJINHERIT).
const INHERITS: u32 = 0x200;

/// Assigns a store file to its host's project. Does nothing on file systems without projects.
///
/// # Errors
/// [`Errno::DQUOT`] if the project's quota is exhausted.
pub fn copy_project(host: &LocalNode, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let (Some(of_host), Ok(own)) = (project_of(host), read(file)) else { return Ok(()) };
    if own.project == of_host {
        return Ok(());
    }
    match write(file, FileFlags { project: of_host, ..own }) {
        // In a user namespace the kernel refuses the change, but host and store inherit the same
        // project.
        Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => {
            static WARNED: Once = Once::new();
            WARNED.call_once(|| {
                tracing::warn!(
                    "the kernel refuses to assign long streams to the projects of their files: \
                     project quotas may not include them"
                );
            });
            Ok(())
        }
        other => other,
    }
}

/// Clears project inheritance of a directory. While it is set, the directory refuses links of files
/// with another project.
pub fn stop_inheritance(directory: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let own = read(directory)?;
    write(directory, FileFlags { flags: own.flags & !INHERITS, ..own })
}

/// Assigns a file to a project.
#[cfg(test)]
pub fn give(file: BorrowedFd<'_>, project: u32) -> rustix::io::Result<()> {
    write(file, FileFlags { project, ..read(file)? })
}

/// Sets project inheritance of a directory.
#[cfg(test)]
pub fn start_inheritance(directory: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let own = read(directory)?;
    write(directory, FileFlags { flags: own.flags | INHERITS, ..own })
}

/// The project of a file; `None` on file systems without projects.
pub fn project_of(node: &LocalNode) -> Option<u32> {
    if let Ok(found) = read(node.as_fd()) {
        return Some(found.project);
    }
    // The call requires a descriptor other than O_PATH. The open must not wait for local leases.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(node.proc_path(), flags, Mode::empty()).ok()?;
    read(file.as_fd()).ok().map(|found| found.project)
}

fn read(fd: BorrowedFd<'_>) -> rustix::io::Result<FileFlags> {
    // SAFETY: the call fills the structure that its number says, which has no invalid values.
    unsafe { rustix::ioctl::ioctl(fd, Getter::<GET, FileFlags>::new()) }
}

fn write(fd: BorrowedFd<'_>, flags: FileFlags) -> rustix::io::Result<()> {
    // SAFETY: the call reads the structure that its number says, and no pointer in it.
    unsafe { rustix::ioctl::ioctl(fd, Setter::<SET, FileFlags>::new(flags)) }
}
