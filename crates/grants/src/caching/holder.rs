//! Caching of one owner, and sums over all owners of a file.

use super::{BreakNumber, CacheOwner, CacheState, Caching, Demanding};

/// An outstanding break.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breaking {
    /// Caching that the notification named.
    pub asked: Caching,
    /// Caching that remains after all steps, if further breaks came meanwhile.
    pub required: Caching,
    pub number: BreakNumber,
    /// Whether its timeout was restarted: [`super::Caches::handle_returned`].
    pub is_renewed: bool,
}

/// Caching of one owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub owner: CacheOwner,
    pub has: Caching,
    pub breaking: Option<Breaking>,
    pub epoch: u16,
    /// Number of the owner's opens.
    pub opens: u32,
    /// Number of opens with more than attribute access.
    pub beyond_looking: u32,
    /// Whether it is a delegation, which lasts until its return: see [`super::Wanting::firm`].
    pub firm: bool,
}

impl Holder {
    pub fn new(owner: CacheOwner, has: Caching, epoch: u16) -> Self {
        Self { owner, has, breaking: None, epoch, opens: 0, beyond_looking: 0, firm: false }
    }

    pub fn state(&self) -> CacheState {
        CacheState { has: self.has, is_breaking: self.breaking.is_some(), epoch: self.epoch }
    }

    pub fn is_lease(&self) -> bool {
        matches!(self.owner, CacheOwner::Key(_))
    }

    pub fn is_breaking_lease(&self) -> bool {
        self.is_lease() && self.breaking.is_some()
    }

    /// Whether it is a delegation in force.
    pub fn keeps_firmly(&self) -> bool {
        self.firm && self.has != Caching::NONE
    }

    /// Whether the request conflicts with the delegation.
    pub fn is_recalled_by(&self, demanding: &Demanding) -> bool {
        self.keeps_firmly() && (demanding.intrudes || self.has.contains(Caching::WRITE))
    }

    pub fn is_asked_by(&self, demanding: &Demanding) -> bool {
        let is_spared = demanding.spares_leases && self.is_lease() && !self.firm;
        self.owner != demanding.by && !is_spared
    }

    /// Whether a requesting open must wait for this owner. MS-FSA 2.1.4.12.
    pub fn is_in_the_way(&self, demanding: &Demanding) -> bool {
        let keeps = self.is_breaking_lease() || self.has.intersects(demanding.demand.waits_for());
        let is_in_the_way = if self.firm { self.is_recalled_by(demanding) } else { keeps };
        self.is_asked_by(demanding) && is_in_the_way
    }

    /// Whether it has read caching without a notification to drop it.
    fn reads_on(&self) -> bool {
        let forgets = self.breaking.is_some_and(|b| b.required == Caching::NONE);
        self.has.contains(Caching::READ) && !forgets
    }
}

/// Number of holders of one file, in total and by kind. Each belongs to an open, of which there
/// are never 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub holders: u32,
    pub keeping: u32,
    pub writing: u32,
    pub keeping_handles: u32,
    /// Oplocks with handle caching.
    pub batch: u32,
    pub oplocks: u32,
    pub breaking_leases: u32,
    pub reading_on: u32,
    /// Delegations.
    pub firm: u32,
}

impl Tally {
    pub fn add(&mut self, holder: &Holder) {
        self.each(holder, |count| *count += 1);
    }

    pub fn remove(&mut self, holder: &Holder) {
        self.each(holder, |count| *count -= 1);
    }

    /// The counts without `own`.
    pub fn without(mut self, own: Option<&Holder>) -> Self {
        if let Some(own) = own {
            self.remove(own);
        }
        self
    }

    fn each(&mut self, holder: &Holder, change: impl Fn(&mut u32)) {
        let handles = holder.has.contains(Caching::HANDLE);
        let counts = [
            (&mut self.holders, true),
            (&mut self.keeping, holder.has != Caching::NONE),
            (&mut self.writing, holder.has.contains(Caching::WRITE)),
            (&mut self.keeping_handles, handles),
            (&mut self.batch, handles && !holder.is_lease()),
            (&mut self.oplocks, !holder.is_lease()),
            (&mut self.breaking_leases, holder.is_breaking_lease()),
            (&mut self.reading_on, holder.reads_on()),
            (&mut self.firm, holder.keeps_firmly()),
        ];
        counts.into_iter().filter(|(_, is)| *is).for_each(|(count, _)| change(count));
    }
}
