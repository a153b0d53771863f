//! Reads that leave the last access time alone (open(2), O_NOATIME), and reads that move it alone.

use crate::errors::refusal;
use crate::identity::IdentityGuard;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{IFlags, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use vfs::{Result, ServerWork};

/// Reopens a file or directory for such reads. The kernel permits it to the owner and the superuser.
pub fn reopen(node: BorrowedFd<'_>, work: ServerWork) -> Result<OwnedFd> {
    reopen_with(node, OFlags::NOATIME, work)
}

fn reopen_with(node: BorrowedFd<'_>, flags: OFlags, work: ServerWork) -> Result<OwnedFd> {
    let _acting = IdentityGuard::server(work)?;
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", node.as_raw_fd());
    rustix::fs::open(path, flags, Mode::empty()).map_err(|e| refusal("open", e))
}

/// Whether no read moves the last access time, by the mount or by the inode's own flag.
pub fn is_noatime(node: BorrowedFd<'_>) -> bool {
    let mount = rustix::fs::fstatvfs(node);
    // File systems without such flags refuse the call.
    mount.is_ok_and(|facts| facts.f_flag.contains(StatVfsMountFlags::NOATIME))
        || rustix::fs::ioctl_getflags(node).is_ok_and(|flags| flags.contains(IFlags::NOATIME))
}

/// Moves the last access time of a file by a read, through another descriptor if this one cannot read.
pub fn advance(file: BorrowedFd<'_>, work: ServerWork) -> Result<()> {
    let read = match read_at_end(file) {
        Err(Errno::BADF) => read_at_end(reopen_with(file, OFlags::empty(), work)?.as_fd()),
        other => other,
    };
    read.map_err(|errno| refusal("read", errno))
}

/// Reads at the end of a file: the kernel moves the last access time and reads no page, so that no
/// disk delays it. A read of the first byte would need RWF_NOWAIT, which overlayfs and tmpfs refuse.
fn read_at_end(file: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let end = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or_default();
    rustix::io::pread(file, &mut [0; 1], end).map(drop)
}
