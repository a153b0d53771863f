//! Queues and watches of inotify(7), and the file systems on which they miss changes.

use crate::attribute_calls::proc_path;
use crate::identity::IdentityGuard;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use vfs::{FollowId, FsError, Result, ServerWork};

/// File systems (statfs(2), `f_type`) that other machines or processes change without this kernel's
/// notice: AFS, Ceph, Coda, FUSE, GFS2, GPFS, Lustre, NCP, NFS, OCFS2, Plan 9, SMB of three kinds,
/// and shared folders of virtual machines.
const FILE_SYSTEMS_WITHOUT_EVENTS: [u32; 16] = [
    0x5346_414F,
    0x6B41_4653,
    0x00C3_6400,
    0x7375_7245,
    0x6573_5546,
    0x0116_1970,
    0x4750_4653,
    0x0BD0_0BD0,
    0x564C,
    0x6969,
    0x7461_636F,
    0x0102_1997,
    0x517B,
    0xFF53_4D42,
    0xFE53_4D42,
    0x786F_4256,
];

/// A queue of events without watches.
pub fn new_queue() -> Result<OwnedFd> {
    let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
    queue.map_err(|_| FsError::TooMany)
}

/// True if the file system can change without an event.
pub fn changes_without_events(node: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let facts = rustix::fs::fstatfs(node)?;
    Ok(FILE_SYSTEMS_WITHOUT_EVENTS.contains(&(facts.f_type as u32)))
}

/// Follows a directory, unless its file system can change without an event.
pub fn add_watch(
    queue: &OwnedFd,
    work: ServerWork,
    directory: BorrowedFd<'_>,
    what: WatchFlags,
) -> Result<FollowId> {
    if changes_without_events(directory).map_err(|_| FsError::NotSupported)? {
        return Err(FsError::NotSupported);
    }
    let _acting = IdentityGuard::server(work)?;
    match inotify::add_watch(queue, proc_path(directory), what) {
        Ok(watch) => Ok(FollowId(u64::from(watch.unsigned_abs()))),
        Err(Errno::NOSPC | Errno::NOMEM) => Err(FsError::TooMany),
        Err(_) => Err(FsError::NotSupported),
    }
}

/// Stops following a directory.
pub fn remove_watch(queue: &OwnedFd, directory: FollowId) {
    if let Ok(watch) = i32::try_from(directory.0) {
        // Fails if the directory was removed, which also ends the watch.
        let _ = inotify::remove_watch(queue, watch);
    }
}
