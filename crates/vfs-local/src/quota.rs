//! User quotas by `quotactl_fd(2)`, which Linux has since 5.14. The calls for ext4 and others also
//! work on XFS.
//!
//! The kernel authorizes by CAP_SYS_ADMIN, which a thread that acts as a user retains. So this
//! module checks the authorization itself.

use crate::errors::refusal;
use crate::identity::IdentityGuard;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use vfs::{Actor, FsError, Quota, QuotaLimits, QuotaState, Result, Space};

/// Commands of `linux/quota.h` and `linux/dqblk_xfs.h`.
const GET_QUOTA: u32 = 0x80_0007;
const SET_QUOTA: u32 = 0x80_0008;
const GET_NEXT_QUOTA: u32 = 0x80_0009;
const GET_STATE: u32 = 0x5805;
/// User quotas, not group or project quotas.
const OF_USERS: u32 = 0;
/// Mask: set the space limits.
const BLOCK_LIMITS: u32 = 1;
/// Unit of limits, in bytes, independent of the file system's block size.
const LIMIT_BLOCK_BYTES: u64 = 1024;
/// State bits: accounting and enforcement are on.
const COUNTED: u16 = 1;
const ENFORCED: u16 = 2;

/// `if_nextdqblk`, which starts like `if_dqblk`.
#[repr(C)]
#[derive(Default)]
struct Block {
    hard_blocks: u64,
    soft_blocks: u64,
    used_bytes: u64,
    nodes: [u64; 3],
    grace: [u64; 2],
    valid: u32,
    id: u32,
}

/// `fs_quota_stat`, of which only the flags are used.
#[repr(C)]
#[derive(Default)]
struct FsQuotaStat {
    version: i8,
    flags: u16,
    rest: [u64; 16],
}

/// Quota state of the file system.
pub fn state(root: BorrowedFd<'_>) -> QuotaState {
    let mut state = FsQuotaStat::default();
    match call(root, GET_STATE, 0, &mut state) {
        Ok(()) if state.flags & ENFORCED != 0 => QuotaState::Enforced,
        Ok(()) if state.flags & COUNTED != 0 => QuotaState::Counted,
        _ => QuotaState::Absent,
    }
}

/// Size and free space of a node's file system, within the user's quota.
pub fn space(node: BorrowedFd<'_>, who: Actor<'_>) -> Result<Space> {
    let _acting = IdentityGuard::begin(who)?;
    let stat = rustix::fs::fstatvfs(node).map_err(|e| refusal("statvfs", e))?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    let space = Space {
        total_bytes: bytes(stat.f_blocks),
        free_bytes: bytes(stat.f_bfree),
        available_bytes: bytes(stat.f_bavail),
        block_bytes: u32::try_from(stat.f_frsize).unwrap_or(4096),
        nodes_total: stat.f_files,
        nodes_free: stat.f_ffree,
    };
    if state(node) != QuotaState::Enforced {
        return Ok(space);
    }
    Ok(space.within(&get(node, who, who.creator().uid).unwrap_or_default()))
}

/// See [`vfs::UserQuotas::quota`].
pub fn get(root: BorrowedFd<'_>, who: Actor<'_>, uid: u32) -> Result<Quota> {
    if !who.may_know_quota_of(uid) {
        return Err(FsError::AccessDenied);
    }
    let mut block = Block::default();
    match call(root, GET_QUOTA, uid, &mut block) {
        // The file system has no entry for this user.
        Err(Errno::NOENT) => Ok(Quota::default()),
        result => result.map(|()| block.quota()).map_err(refused),
    }
}

/// See [`vfs::UserQuotas::next_quota`].
pub fn get_next(root: BorrowedFd<'_>, who: Actor<'_>, uid: u32) -> Result<(u32, Quota)> {
    if !who.may_know_all_quotas() {
        return Err(FsError::AccessDenied);
    }
    let mut block = Block::default();
    match call(root, GET_NEXT_QUOTA, uid, &mut block) {
        Err(Errno::NOENT) => Err(FsError::NotFound),
        result => result.map(|()| (block.id, block.quota())).map_err(refused),
    }
}

/// See [`vfs::UserQuotas::set_quota`].
pub fn set(root: BorrowedFd<'_>, who: Actor<'_>, uid: u32, limits: QuotaLimits) -> Result<()> {
    if !who.may_set_quotas() {
        return Err(FsError::AccessDenied);
    }
    let blocks = |bytes: Option<u64>| {
        // Zero means unlimited, so a limit that rounds to zero becomes one block.
        bytes.map_or(0, |bytes| (bytes / LIMIT_BLOCK_BYTES).max(1))
    };
    let (hard_blocks, soft_blocks) = (blocks(limits.hard_bytes), blocks(limits.soft_bytes));
    let mut block = Block { hard_blocks, soft_blocks, valid: BLOCK_LIMITS, ..Block::default() };
    call(root, SET_QUOTA, uid, &mut block).map_err(refused)
}

impl Block {
    fn quota(&self) -> Quota {
        let bytes = |blocks: u64| (blocks != 0).then(|| blocks.saturating_mul(LIMIT_BLOCK_BYTES));
        let limits = QuotaLimits {
            soft_bytes: bytes(self.soft_blocks),
            hard_bytes: bytes(self.hard_blocks),
        };
        Quota { used_bytes: self.used_bytes, limits }
    }
}

fn refused(error: Errno) -> FsError {
    match error {
        // The kernel or the file system has no quotas, or they are off.
        Errno::NOSYS | Errno::SRCH | Errno::OPNOTSUPP | Errno::INVAL => FsError::NotSupported,
        other => refusal("quotactl", other),
    }
}

/// `data` must have the layout that `command` requires.
fn call<T>(root: BorrowedFd<'_>, command: u32, id: u32, data: &mut T) -> rustix::io::Result<()> {
    let command = (command << 8) | OF_USERS;
    // SAFETY: the descriptor is open; `data` is ours, and at least as large as the structure of the
    // command.
    let result = unsafe {
        libc::syscall(
            libc::SYS_quotactl_fd,
            root.as_raw_fd(),
            command,
            id,
            std::ptr::from_mut(data),
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use vfs::{ElevationReason, Identity, ServerWork};

    #[test]
    fn quota_structures_have_the_kernel_layout() {
        assert_eq!(std::mem::offset_of!(Block, valid), 64);
        assert_eq!(std::mem::offset_of!(Block, id), 68);
        assert_eq!(std::mem::size_of::<Block>(), 72);
        assert_eq!(std::mem::offset_of!(FsQuotaStat, flags), 2);
        // The structure has 80 bytes in the kernel.
        assert!(std::mem::size_of::<FsQuotaStat>() >= 80);
    }

    /// The kernel would permit every thread of a server with CAP_SYS_ADMIN.
    #[test]
    fn other_users_quota_is_refused_without_a_system_call() {
        let folder = std::fs::File::open("/").expect("a directory");
        let (root, user) = (folder.as_fd(), Identity { uid: 4001, gid: 4001, groups: vec![0] });
        let beyond = ElevationReason::ALL.map(|elevated| Actor::elevate(&user, elevated));
        for who in beyond.into_iter().chain([user.actor()]) {
            assert_eq!(set(root, who, 4001, QuotaLimits::default()), Err(FsError::AccessDenied));
            assert_eq!(get(root, who, 4002), Err(FsError::AccessDenied));
            assert_eq!(get_next(root, who, 0), Err(FsError::AccessDenied));
        }
        let server = Actor::server(ServerWork::ShareRoot);
        assert_eq!(set(root, server, 4001, QuotaLimits::default()), Err(FsError::AccessDenied));
        assert_ne!(get(root, user.actor(), 4001), Err(FsError::AccessDenied), "its own");
    }

    #[test]
    fn quota_limit_is_in_blocks_and_zero_is_unlimited() {
        let block = Block { hard_blocks: 3, used_bytes: 5, ..Block::default() };
        let limits = QuotaLimits { soft_bytes: None, hard_bytes: Some(3072) };
        assert_eq!(block.quota(), Quota { used_bytes: 5, limits });
    }
}
