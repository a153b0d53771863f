//! Opens whose clients are away and will come back: what is asked of those cannot be answered
//! before. MS-SMB2 3.3.4.6, 3.3.4.7, 3.3.5.9 (FILE_NOT_AVAILABLE).

use super::{Awaited, FileGrants, OpenId, Refusal, owner};
use crate::{CacheOwner, Caching};

/// State of an open whose client is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It is asked for what it keeps, and counts as having given it back: a resilient open.
    Yields,
    /// It is asked once it is back, and others wait for that, as Windows has it: a persistent
    /// open, whose client may have data that it has not written yet. Where there is nothing to
    /// ask for they are refused.
    Keeps,
}

impl FileGrants {
    /// The client of an open goes away for a while, or is back.
    pub fn set_away(&mut self, id: OpenId, absence: Option<Absence>) {
        let Some(at) = self.find(id) else { return };
        self.away -= usize::from(self.opens[at].away.is_some());
        self.away += usize::from(absence.is_some());
        self.opens[at].away = absence;
        // An open that waits for its answer is to be tried again.
        if absence == Some(Absence::Yields) {
            self.caches.note_settled();
        }
    }

    /// Whether somebody who keeps what it has is away and cannot be asked to give way: not having
    /// kept the handle, or keeping locks without the data under them.
    pub(super) fn is_kept_by_absent(&self) -> bool {
        let needed =
            if self.locks.is_empty() { Caching::HANDLE } else { Caching::HANDLE | Caching::WRITE };
        self.opens.iter().any(|open| {
            let has = || self.caches.state(owner(open.id, open.key)).has;
            open.away == Some(Absence::Keeps) && !has().contains(needed)
        })
    }

    /// Says that owners who were asked are to be waited for, unless one is away and yields: what it
    /// keeps counts as given back then, and it is worth another try.
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

    /// An owner that holds up what is awaited, is away, and yields. Delegations' clients are never
    /// away.
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

    /// Whether an owner is away and yields: all of its opens do.
    fn yields(&self, of: CacheOwner) -> bool {
        let mut own = self.opens.iter().filter(|open| owner(open.id, open.key) == of);
        own.all(|open| open.away == Some(Absence::Yields))
    }
}
