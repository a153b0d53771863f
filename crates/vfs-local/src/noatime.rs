//! Reads that leave the last access time alone. open(2), O_NOATIME.

use crate::errors::refusal;
use crate::identity::IdentityGuard;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use vfs::{Result, ServerWork};

/// Reopens a file or directory for such reads. The kernel permits it to the owner and the superuser.
pub fn reopen(node: BorrowedFd<'_>, work: ServerWork) -> Result<OwnedFd> {
    let _acting = IdentityGuard::server(work)?;
    let flags = OFlags::RDONLY | OFlags::NOATIME | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", node.as_raw_fd());
    rustix::fs::open(path, flags, Mode::empty()).map_err(|e| refusal("open", e))
}
