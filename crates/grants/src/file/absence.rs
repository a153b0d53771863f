//! Opens whose clients are disconnected and may reconnect: they cannot acknowledge a break before.
//! MS-SMB2 3.3.4.6, 3.3.4.7, 3.3.5.9 (FILE_NOT_AVAILABLE).

use super::{Awaited, FileGrants, OpenId, Refusal, owner};
use crate::{CacheOwner, Caching};

/// Behaviour of an open while its client is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// A break counts as acknowledged at once: a resilient open.
    Yields,
    /// A break waits until the client reconnects, as on Windows: a persistent open, whose client
    /// may have unwritten data. If no break can resolve a conflict, the other open is refused.
    Keeps,
}

impl FileGrants {
    /// Records that an open's client is absent, or is back.
    pub fn set_away(&mut self, id: OpenId, absence: Option<Absence>) {
        let Some(at) = self.find(id) else { return };
        self.away -= usize::from(self.opens[at].away.is_some());
        self.away += usize::from(absence.is_some());
        self.opens[at].away = absence;
        // An open that waits for its acknowledgement must retry.
        if absence == Some(Absence::Yields) {
            self.caches.note_settled();
        }
    }

    /// Whether an absent client's open blocks others and no break can resolve that: it lacks handle
    /// caching, or holds locks without write caching.
    pub(super) fn is_kept_by_absent(&self) -> bool {
        let needed =
            if self.locks.is_empty() { Caching::HANDLE } else { Caching::HANDLE | Caching::WRITE };
        self.opens.iter().any(|open| {
            let has = || self.caches.state(owner(open.id, open.key)).has;
            open.away == Some(Absence::Keeps) && !has().contains(needed)
        })
    }

    /// Returns the wait for outstanding breaks. The break of an absent, yielding owner ends
    /// instead, so that a retry may succeed.
    ///
    /// # Errors
    /// [`Refusal::Breaking`].
    pub(super) fn await_answers(&mut self, awaited: &Awaited) -> Result<(), Refusal> {
        let Some(owner) = self.yielding_in_the_way(awaited) else {
            return Err(Refusal::Breaking(self.caches.latest_break()));
        };
        self.caches.end_break(owner);
        Ok(())
    }

    /// An absent, yielding owner that blocks the operation. Delegations have no absent clients.
    pub(super) fn yielding_in_the_way(&self, awaited: &Awaited) -> Option<CacheOwner> {
        if self.away == 0 {
            return None;
        }
        let owners = match awaited {
            Awaited::Open(wish) => {
                let demanding = self.demand(wish, self.check_open(wish))?;
                self.caches.owners_in_the_way(&demanding)
            }
            Awaited::NameChange(by) => self.caches.keepers_of_handles(*by),
            Awaited::Recall(_) => return None,
        };
        owners.into_iter().find(|owner| self.yields(*owner))
    }

    /// Whether all opens of the owner are absent and yield.
    fn yields(&self, of: CacheOwner) -> bool {
        let mut own = self.opens.iter().filter(|open| owner(open.id, open.key) == of);
        own.all(|open| open.away == Some(Absence::Yields))
    }
}
