//! Caching of one owner, and sums over all owners of a file.

use super::{BreakNumber, BreakRequest, CacheOwner, CacheState, CachingRights};

/// An outstanding break.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutstandingBreak {
    /// Caching that the notification named.
    pub notified: CachingRights,
    /// Caching that remains after all steps, if further breaks came meanwhile.
    pub required: CachingRights,
    pub number: BreakNumber,
    /// Whether its timeout was restarted: [`super::Caches::handle_reconnect`].
    pub is_renewed: bool,
}

/// Caching of one owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnerCaching {
    pub owner: CacheOwner,
    pub has: CachingRights,
    pub breaking: Option<OutstandingBreak>,
    pub epoch: u16,
    /// Number of the owner's opens.
    pub opens: u32,
    /// Number of opens with more than attribute access.
    pub non_stat_opens: u32,
    /// Whether it is a delegation, which lasts until its return: see
    /// [`super::GrantRequest::is_delegation`].
    pub is_delegation: bool,
}

impl OwnerCaching {
    pub fn new(owner: CacheOwner, has: CachingRights, epoch: u16) -> Self {
        Self {
            owner,
            has,
            breaking: None,
            epoch,
            opens: 0,
            non_stat_opens: 0,
            is_delegation: false,
        }
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
    pub fn is_delegation(&self) -> bool {
        self.is_delegation && self.has != CachingRights::NONE
    }

    /// Whether the request conflicts with the delegation.
    pub fn is_recalled_by(&self, request: &BreakRequest) -> bool {
        self.is_delegation()
            && (request.conflicts_with_read || self.has.contains(CachingRights::WRITE))
    }

    pub fn is_affected_by(&self, request: &BreakRequest) -> bool {
        let is_spared = request.spares_leases && self.is_lease() && !self.is_delegation;
        self.owner != request.by && !is_spared
    }

    /// Whether a requesting open must wait for this owner. MS-FSA 2.1.4.12.
    pub fn blocks(&self, request: &BreakRequest) -> bool {
        let keeps = self.is_breaking_lease() || self.has.intersects(request.demand.waits_for());
        let blocks = if self.is_delegation { self.is_recalled_by(request) } else { keeps };
        self.is_affected_by(request) && blocks
    }

    /// Whether it has read caching without a notification to drop it.
    fn has_unbroken_read(&self) -> bool {
        let forgets = self.breaking.is_some_and(|b| b.required == CachingRights::NONE);
        self.has.contains(CachingRights::READ) && !forgets
    }
}

/// Number of holders of one file, in total and by kind. Every open file has these counts, so they
/// are small: each holder belongs to an open, of which there are never 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HolderCounts {
    pub holders: u32,
    pub keeping: u32,
    pub writing: u32,
    pub handle_caching: u32,
    /// Oplocks with handle caching.
    pub batch: u32,
    pub oplocks: u32,
    pub breaking_leases: u32,
    pub unbroken_readers: u32,
    /// Delegations.
    pub is_delegation: u32,
}

impl HolderCounts {
    pub fn add(&mut self, holder: &OwnerCaching) {
        self.each(holder, |count| *count += 1);
    }

    pub fn remove(&mut self, holder: &OwnerCaching) {
        self.each(holder, |count| *count -= 1);
    }

    /// The counts without `own`.
    pub fn without(mut self, own: Option<&OwnerCaching>) -> Self {
        if let Some(own) = own {
            self.remove(own);
        }
        self
    }

    fn each(&mut self, holder: &OwnerCaching, change: impl Fn(&mut u32)) {
        let handles = holder.has.contains(CachingRights::HANDLE);
        let counts = [
            (&mut self.holders, true),
            (&mut self.keeping, holder.has != CachingRights::NONE),
            (&mut self.writing, holder.has.contains(CachingRights::WRITE)),
            (&mut self.handle_caching, handles),
            (&mut self.batch, handles && !holder.is_lease()),
            (&mut self.oplocks, !holder.is_lease()),
            (&mut self.breaking_leases, holder.is_breaking_lease()),
            (&mut self.unbroken_readers, holder.has_unbroken_read()),
            (&mut self.is_delegation, holder.is_delegation()),
        ];
        counts.into_iter().filter(|(_, is)| *is).for_each(|(count, _)| change(count));
    }
}
