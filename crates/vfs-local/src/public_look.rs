//! Looks at what everybody can reach, which take no user's identity.
//!
//! To make a thread a user and nobody again takes four changes of credentials, longer than the
//! look itself. A caller that is known to be let through a directory gets by its own rights what
//! a thread without power gets: a descriptor that only names the node, for which the node's own
//! permissions are not asked. open(2), `O_PATH`. The directory is open, so that it is the one of
//! which that is known.

use crate::identity::Acting;
use crate::resolve::{Root, open_beneath};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU32, Ordering};
use vfs::{Actor, Name, OpenHow, Wait};

/// Looks that are not tried after one was refused: below directories that are closed to others
/// most would be.
const LOOKS_PASSED_OVER: u32 = 64;

/// Whether looks without power are worth trying in a tree.
#[derive(Debug, Default)]
pub struct PublicLooks {
    /// How many are not to be tried. A guess: two threads may count one for both.
    passed_over: AtomicU32,
}

/// Result of a look.
#[derive(Debug)]
pub enum Look {
    /// What has the name. The guard is for what else is asked of the node.
    Found(OwnedFd, Acting),
    /// Nothing has it, or the directory has gone.
    Absent,
    /// It is not in memory, and is not to be waited for: the user would be told the same.
    WouldBlock,
}

impl PublicLooks {
    /// Looks at a name in a directory, without power or as `who`, if the thread acts as that by
    /// now, and through no symbolic link. None if that is not worth trying or is refused.
    pub fn look(
        &self,
        who: Actor<'_>,
        (parent, name): (BorrowedFd<'_>, &Name),
        how: &OpenHow,
    ) -> Option<Look> {
        if how.read || how.write {
            return None;
        }
        let own = Acting::on_present(who);
        let is_public = own.is_none();
        let acting = own.or_else(Acting::on_public_name)?;
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
