//! Look-ups in directories that everybody may search, without switching to the user's identity.
//!
//! Switching a thread to a user and back takes four changes of credentials, longer than the look-up
//! itself. A caller that may search an open directory can open every name that a thread without
//! privileges can open there. O_PATH gives a descriptor that only refers to the node, so the node's
//! own permissions are not checked. open(2). The open descriptor guarantees that it is the
//! directory whose permissions were checked.

use crate::identity::IdentityGuard;
use crate::resolve::{Root, open_beneath};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU32, Ordering};
use vfs::{Actor, Name, OpenHow, Wait};

/// Look-ups to skip after a refusal, because most names below a closed directory are closed, too.
const LOOKS_PASSED_OVER: u32 = 64;

/// Whether unprivileged look-ups are worth trying in a tree.
#[derive(Debug, Default)]
pub struct PublicLooks {
    /// Number of look-ups to skip. Approximate: concurrent threads may decrement it once for two.
    passed_over: AtomicU32,
}

/// Result of an unprivileged look-up.
#[derive(Debug)]
pub enum Look {
    /// The node. The guard covers further queries of it.
    Found(OwnedFd, IdentityGuard),
    /// The name does not exist, or the directory was removed.
    Absent,
    /// The answer is not in memory, and the caller must not block. The user's own look-up would
    /// give the same result.
    WouldBlock,
}

impl PublicLooks {
    /// Looks up a name in a directory without privileges, or as `who` if the thread already acts as
    /// that user. Follows no symbolic link. `None` if the attempt is refused or not worthwhile.
    pub fn look(
        &self,
        who: Actor<'_>,
        (parent, name): (BorrowedFd<'_>, &Name),
        how: &OpenHow,
    ) -> Option<Look> {
        if how.read || how.write {
            return None;
        }
        let own = IdentityGuard::on_present(who);
        let is_public = own.is_none();
        let acting = own.or_else(IdentityGuard::on_public_name)?;
        if is_public && self.is_passed_over() {
            return None;
        }
        let root = Root { fd: parent, stops_at_links: true };
        let flags = if how.no_follow { OFlags::NOFOLLOW } else { OFlags::empty() };
        match open_beneath(root, name.as_bytes(), flags | OFlags::PATH, Mode::empty(), how.wait) {
            Ok(fd) => Some(Look::Found(fd, acting)),
            Err(Errno::NOENT) => Some(Look::Absent),
            Err(Errno::AGAIN) if how.wait == Wait::Never => Some(Look::WouldBlock),
            Err(errno) => {
                if is_public && errno == Errno::ACCESS {
                    self.passed_over.store(LOOKS_PASSED_OVER, Ordering::Relaxed);
                }
                None
            }
        }
    }

    fn is_passed_over(&self) -> bool {
        let left = self.passed_over.load(Ordering::Relaxed);
        if left > 0 {
            self.passed_over.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}
