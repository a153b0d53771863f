//! Opens whose clients are disconnected and may reconnect: they cannot acknowledge a break before.
//! MS-SMB2 3.3.4.6, 3.3.4.7, 3.3.5.9 (FILE_NOT_AVAILABLE).

use super::{BlockedOperation, FileGrants, GrantRefusal, OpenId, owner};
use crate::{CacheOwner, CachingRights};

/// Behaviour of an open while its client is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// A break counts as acknowledged at once: a resilient open.
    YieldsCaching,
    /// A break waits until the client reconnects, as on Windows: a persistent open, whose client
    /// may have unwritten data. If no break can resolve a conflict, the other open is refused.
    RetainsCaching,
}

impl FileGrants {
    /// Records that an open's client is absent, or is back.
    pub fn set_absence(&mut self, id: OpenId, absence: Option<Absence>) {
        let Some(at) = self.find(id) else { return };
        self.absent -= usize::from(self.opens[at].absent.is_some());
        self.absent += usize::from(absence.is_some());
        self.opens[at].absent = absence;
        // An open that waits for its acknowledgement must retry.
        if absence == Some(Absence::YieldsCaching) {
            self.caches.wake_waiters();
        }
    }

    /// Whether an absent client's open blocks others and no break can resolve that: it lacks handle
    /// caching, or holds locks without write caching.
    pub(super) fn is_blocked_by_absent(&self) -> bool {
        let needed = if self.locks.is_empty() {
            CachingRights::HANDLE
        } else {
            CachingRights::HANDLE | CachingRights::WRITE
        };
        self.opens.iter().any(|open| {
            let has = || self.caches.state(owner(open.id, open.key)).has;
            open.absent == Some(Absence::RetainsCaching) && !has().contains(needed)
        })
    }

    /// Returns the wait for outstanding breaks. The break of an absent, yielding owner ends
    /// instead, so that a retry may succeed.
    ///
    /// # Errors
    /// [`GrantRefusal::Breaking`].
    pub(super) fn wait_for_breaks(
        &mut self,
        awaited: &BlockedOperation,
    ) -> Result<(), GrantRefusal> {
        let Some(owner) = self.absent_blocker(awaited) else {
            return Err(GrantRefusal::Breaking(self.caches.latest_break()));
        };
        self.caches.end_break(owner);
        Ok(())
    }

    /// An absent, yielding owner that blocks the operation. Delegations have no absent clients.
    pub(super) fn absent_blocker(&self, awaited: &BlockedOperation) -> Option<CacheOwner> {
        if self.absent == 0 {
            return None;
        }
        let owners = match awaited {
            BlockedOperation::Open(wish) => {
                let request = self.demand(wish, self.check_open(wish))?;
                self.caches.blocking_owners(&request)
            }
            BlockedOperation::NameChange(by) => self.caches.handle_caching_owners(*by),
            BlockedOperation::Recall(_) => return None,
        };
        owners.into_iter().find(|owner| self.yields(*owner))
    }

    /// Whether all opens of the owner are absent and yield.
    fn yields(&self, of: CacheOwner) -> bool {
        let mut own = self.opens.iter().filter(|open| owner(open.id, open.key) == of);
        own.all(|open| open.absent == Some(Absence::YieldsCaching))
    }
}
