//! Caching granted to clients on one file, and its breaks: oplocks, SMB leases and NFS delegations.
//! MS-FSA 2.1.4.12, 2.1.5.18, 2.1.5.19; MS-SMB2 3.3.4.6, 3.3.4.7.
//!
//! Each [`CacheOwner`] has a set of [`CachingRights`]. An owner is one open, or a key that any
//! number of a client's opens share without conflict. A break begins here and is sent elsewhere
//! ([`Caches::poll_break`]). An operation that requires it waits until the acknowledgement, the
//! owner's last close, or [`Caches::handle_timeout`].

mod holder;
mod kinds;

use crate::{OpenId, insert_exact};
use holder::{HolderCounts, OutstandingBreak, OwnerCaching};
use std::collections::VecDeque;

pub use kinds::CachingRights;

/// Key of a lease or delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey {
    /// Identity of the client within its protocol.
    pub client: [u8; 16],
    /// Key within the client.
    pub key: [u8; 16],
}

/// Owner of caching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CacheOwner {
    /// One open: an oplock.
    Open(OpenId),
    /// A client's key, shared by its opens: a lease or delegation.
    Key(CacheKey),
}

/// Caching state of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheState {
    /// Granted caching.
    pub has: CachingRights,
    /// Whether a break is outstanding.
    pub is_breaking: bool,
    /// Epoch of a lease: it counts changes, starting at the client's value.
    pub epoch: u16,
}

/// Notification of a holder that its caching shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBreak {
    /// Owner of the caching.
    pub owner: CacheOwner,
    /// Caching before the break.
    pub from: CachingRights,
    /// Caching after the break.
    pub to: CachingRights,
    /// Whether the caching lasts until the client acknowledges; otherwise it is lost at once.
    pub acknowledge: bool,
    /// See [`CacheState::epoch`]: value after the change.
    pub epoch: u16,
}

/// Reason why an acknowledgement is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcknowledgeRefusal {
    /// No break is outstanding.
    NotBreaking,
    /// The client retains more than the break permits. An oplock is lost then; a lease break stays
    /// outstanding.
    TooMuch,
}

/// Number of a break, in order of their begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BreakNumber(u64);

/// Reason for breaks before an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakReason {
    /// The open is compatible: dirty data must be written back.
    Share,
    /// The open overwrites the file.
    Replace,
    /// The share mode conflicts, perhaps with an open that only a handle cache holds.
    Conflict,
}

impl BreakReason {
    /// Caching that the open is incompatible with.
    fn lost(self) -> CachingRights {
        match self {
            Self::Share => CachingRights::WRITE,
            Self::Replace => CachingRights::BATCH,
            Self::Conflict => CachingRights::HANDLE,
        }
    }

    /// Part of it that must be acknowledged first.
    fn waits_for(self) -> CachingRights {
        match self {
            Self::Share | Self::Replace => CachingRights::WRITE,
            Self::Conflict => CachingRights::HANDLE,
        }
    }
}

/// Break request of an open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BreakRequest {
    pub demand: BreakReason,
    /// Owner of the open, whose caching is unaffected.
    pub by: CacheOwner,
    /// Whether leases are unaffected, so that only oplocks break.
    pub spares_leases: bool,
    /// Whether the open writes, deletes or denies reading, which conflicts with a read delegation.
    pub conflicts_with_read: bool,
}

/// Caching request of an open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantRequest {
    pub owner: CacheOwner,
    pub wanted: CachingRights,
    /// Initial epoch of a new lease.
    pub epoch: u16,
    /// Whether the open has more than attribute access.
    pub is_non_stat: bool,
    /// Whether opens of other owners have more than attribute access.
    pub others_are_non_stat: bool,
    pub has_locks: bool,
    /// Whether it is a delegation: conflicting operations wait for its return, also for a read
    /// delegation. RFC 8881 10.4.
    pub is_delegation: bool,
    /// Whether opens of other owners write, or deny the requested access.
    pub others_conflict: bool,
}

/// All caching on one file.
#[derive(Debug, Default)]
pub struct Caches {
    /// Holders in order of their owner.
    holders: Vec<OwnerCaching>,
    /// Sums over the holders, so that searches without a result are skipped.
    counts: HolderCounts,
    breaks: VecDeque<CacheBreak>,
    removed_owners: Vec<CacheOwner>,
    begun: BreakNumber,
    settled: bool,
}

impl Caches {
    /// Whether no owner has caching.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.keeping == 0
    }

    /// Caching of an owner.
    #[must_use]
    pub fn of(&self, owner: CacheOwner) -> CachingRights {
        self.state(owner).has
    }

    /// Caching state of an owner.
    #[must_use]
    pub fn state(&self, owner: CacheOwner) -> CacheState {
        self.find(owner).map_or_else(|_| CacheState::default(), |at| self.holders[at].state())
    }

    /// Caching of an owner that is still valid after a restart, when a break in progress may not
    /// have reached it. Write caching lasts, since others wait for the write-back. Without write
    /// caching the break counts as complete, since cached reads may be stale.
    #[must_use]
    pub fn durable_state(&self, owner: CacheOwner) -> CacheState {
        let Ok(at) = self.find(owner) else { return CacheState::default() };
        let holder = &self.holders[at];
        let required = holder.breaking.filter(|_| !holder.has.contains(CachingRights::WRITE));
        let has = required.map_or(holder.has, |breaking| breaking.required);
        CacheState { has, is_breaking: false, epoch: holder.epoch }
    }

    /// Number of the latest break.
    #[must_use]
    pub fn latest_break(&self) -> BreakNumber {
        self.begun
    }

    /// Whether a break of `owner` is outstanding.
    #[must_use]
    pub fn is_breaking(&self, owner: CacheOwner) -> bool {
        self.state(owner).is_breaking
    }

    /// Number of the owner's opens with more than attribute access.
    pub(crate) fn non_stat_opens(&self, owner: CacheOwner) -> usize {
        self.find(owner).map_or(0, |at| self.holders[at].non_stat_opens as usize)
    }

    /// Grants an open as much of the requested caching as others permit. A key that has caching is
    /// only upgraded, in full or not at all: a smaller request takes nothing away.
    pub(crate) fn grant(&mut self, request: &GrantRequest) -> CacheState {
        let granted = self.permitted(request);
        let found = self.find(request.owner);
        let at = match found {
            Ok(at) => {
                self.upgrade(at, request.wanted, granted);
                at
            }
            Err(_)
                if granted == CachingRights::NONE
                    && matches!(request.owner, CacheOwner::Open(_)) =>
            {
                return CacheState::default();
            }
            Err(at) => {
                let counted = u16::from(granted != CachingRights::NONE);
                let epoch = request.epoch.wrapping_add(counted);
                insert_exact(
                    &mut self.holders,
                    at,
                    OwnerCaching::new(request.owner, granted, epoch),
                );
                self.counts.add(&self.holders[at]);
                at
            }
        };
        if request.is_delegation && self.holders[at].has == request.wanted {
            self.change(at, |holder| holder.is_delegation = true);
        }
        let holder = &mut self.holders[at];
        holder.opens += 1;
        holder.non_stat_opens += u32::from(request.is_non_stat);
        holder.state()
    }

    /// Restores caching of an open as far as others permit, unless another open of its key has
    /// restored some already.
    pub(crate) fn restore(&mut self, request: &GrantRequest) {
        if self.of(request.owner) != CachingRights::NONE {
            return;
        }
        let has = self.permitted(request);
        let epoch = request.epoch.wrapping_add(u16::from(has != request.wanted));
        match self.find(request.owner) {
            Ok(at) => self.change(at, |holder| {
                holder.has = has;
                holder.epoch = epoch;
            }),
            Err(_) if has == CachingRights::NONE => {}
            Err(at) => {
                let holder = OwnerCaching {
                    opens: 1,
                    non_stat_opens: u32::from(request.is_non_stat),
                    ..OwnerCaching::new(request.owner, has, epoch)
                };
                self.counts.add(&holder);
                insert_exact(&mut self.holders, at, holder);
            }
        }
    }

    /// Part of the requested caching that others permit. MS-FSA 2.1.5.18.
    fn permitted(&self, request: &GrantRequest) -> CachingRights {
        let own = self.find(request.owner).ok().map(|at| &self.holders[at]);
        let others = self.counts.without(own);
        let mut granted = request.wanted;
        if request.has_locks {
            granted = granted - (CachingRights::READ | CachingRights::HANDLE);
        }
        if request.others_are_non_stat || others.holders > 0 {
            granted = granted - CachingRights::WRITE;
        }
        // With a write cache present, only an attribute-only open gets here.
        if others.writing > 0 || (request.is_delegation && request.others_conflict) {
            return CachingRights::NONE;
        }
        match request.owner {
            // An oplock has handle caching only as part of a batch oplock.
            CacheOwner::Open(_) if others.handle_caching > 0 => CachingRights::NONE,
            CacheOwner::Open(_) => granted.as_oplock(),
            CacheOwner::Key(_) if others.oplocks > 0 => {
                (granted - CachingRights::HANDLE).as_lease()
            }
            CacheOwner::Key(_) => granted.as_lease(),
        }
    }

    fn upgrade(&mut self, at: usize, wanted: CachingRights, granted: CachingRights) {
        let holder = &self.holders[at];
        let is_more = wanted.contains(holder.has) && granted != holder.has;
        if is_more && granted == wanted && holder.breaking.is_none() {
            self.change(at, |holder| {
                holder.has = granted;
                holder.epoch = holder.epoch.wrapping_add(1);
            });
        }
    }

    /// Begins the breaks that an open requires. Returns true if it must wait.
    pub(crate) fn begin_breaks(&mut self, request: &BreakRequest) -> bool {
        let BreakRequest { demand, .. } = *request;
        if !self.affects_others(request) {
            return false;
        }
        let mut waits = false;
        for at in (0..self.holders.len()).rev() {
            let holder = &self.holders[at];
            if !holder.is_affected_by(request) {
                continue;
            }
            if holder.is_delegation {
                if holder.is_recalled_by(request) {
                    self.begin_break(at, CachingRights::NONE);
                    waits = true;
                }
                continue;
            }
            if !holder.has.intersects(demand.lost()) {
                waits |= holder.is_breaking_lease();
                continue;
            }
            waits |= holder.has.intersects(demand.waits_for());
            let to = match holder.owner {
                CacheOwner::Key(_) => holder.has - demand.lost(),
                // A broken oplock retains read caching only.
                CacheOwner::Open(_) => (holder.has & CachingRights::READ) - demand.lost(),
            };
            self.begin_break(at, to);
        }
        waits
    }

    /// Whether a waiting open must continue to wait. MS-FSA 2.1.4.12.
    pub(crate) fn holds_up(&self, request: &BreakRequest) -> bool {
        self.affects_others(request) && self.holders.iter().any(|holder| holder.blocks(request))
    }

    /// Owners whose acknowledgements an open waits for.
    pub(crate) fn blocking_owners(&self, request: &BreakRequest) -> Vec<CacheOwner> {
        let in_the_way = |holder: &&OwnerCaching| holder.blocks(request);
        self.holders.iter().filter(in_the_way).map(|holder| holder.owner).collect()
    }

    /// Owners of leases with handle caching other than `by`, which a name change waits for.
    pub(crate) fn handle_caching_owners(&self, by: CacheOwner) -> Vec<CacheOwner> {
        let retained = |holder: &&OwnerCaching| {
            holder.is_lease() && holder.owner != by && holder.has.contains(CachingRights::HANDLE)
        };
        self.holders.iter().filter(retained).map(|holder| holder.owner).collect()
    }

    /// Takes all caching from an owner that cannot acknowledge, and notifies it.
    pub(crate) fn end_break(&mut self, owner: CacheOwner) {
        let Ok(at) = self.find(owner) else { return };
        self.breaks.retain(|cache_break| cache_break.owner != owner);
        self.queue_break(at, self.holders[at].has, CachingRights::NONE, false);
        self.settle(at, CachingRights::NONE);
    }

    /// Makes waiting operations check whether they may proceed.
    pub(crate) fn wake_waiters(&mut self) {
        self.settled = true;
    }

    /// Whether an owner other than `by` may be affected.
    fn affects_others(&self, request: &BreakRequest) -> bool {
        let own = self.find(request.by).ok().map(|at| &self.holders[at]);
        let others = self.counts.without(own);
        let affected = match request.demand {
            BreakReason::Share => others.writing,
            BreakReason::Replace => others.keeping,
            BreakReason::Conflict => others.handle_caching,
        };
        affected > 0 || others.breaking_leases > 0 || others.is_delegation > 0
    }

    /// Breaks handle caching of all leases but that of `by`, since the file's name changes. Returns
    /// true if an acknowledgement is outstanding. MS-FSA 2.1.5.15.3, 2.1.5.15.11.
    pub fn handle_name_change(&mut self, by: CacheOwner) -> bool {
        if !self.has_handle_caching(by) {
            return false;
        }
        for at in (0..self.holders.len()).rev() {
            let OwnerCaching { owner, has, is_delegation, .. } = self.holders[at];
            if owner != by && matches!(owner, CacheOwner::Key(_)) {
                self.begin_break(
                    at,
                    if is_delegation { CachingRights::NONE } else { has - CachingRights::HANDLE },
                );
            }
        }
        true
    }

    /// Whether another lease than that of `by` has handle caching, or another owner a delegation.
    #[must_use]
    pub fn has_handle_caching(&self, by: CacheOwner) -> bool {
        let own = self.find(by).ok().map(|at| &self.holders[at]);
        let others = self.counts.without(own);
        others.handle_caching > others.batch || others.is_delegation > 0
    }

    /// Recalls all delegations but that of `by`, since attributes or names change, which only
    /// delegations cover. Returns true if a return is outstanding. RFC 8881 10.4.
    pub fn handle_recall(&mut self, by: CacheOwner) -> bool {
        if !self.has_delegations(by) {
            return false;
        }
        for at in (0..self.holders.len()).rev() {
            if self.holders[at].owner != by && self.holders[at].is_delegation() {
                self.begin_break(at, CachingRights::NONE);
            }
        }
        true
    }

    /// Prepares a shutdown: breaks write and handle caching and recalls delegations. Returns the
    /// number of holders with write caching.
    pub fn handle_shutdown(&mut self) -> usize {
        for at in (0..self.holders.len()).rev() {
            let OwnerCaching { has, is_delegation, .. } = self.holders[at];
            let stays = if is_delegation { CachingRights::NONE } else { has & CachingRights::READ };
            self.begin_break(at, stays);
        }
        self.holders.iter().filter(|holder| holder.has.contains(CachingRights::WRITE)).count()
    }

    /// Whether an owner other than `by` has a delegation.
    #[must_use]
    pub fn has_delegations(&self, by: CacheOwner) -> bool {
        let own = self.find(by).ok().map(|at| &self.holders[at]);
        self.counts.without(own).is_delegation > 0
    }

    /// Handles a data change by `by`: breaks read caching of others, and of its own oplock unless
    /// that includes write caching. MS-FSA 2.1.5.18.
    pub fn handle_change(&mut self, by: CacheOwner) {
        if self.counts.unbroken_readers == 0 || self.of(by).contains(CachingRights::WRITE) {
            return;
        }
        for at in (0..self.holders.len()).rev() {
            let OwnerCaching { owner, has, .. } = self.holders[at];
            let is_own_lease = owner == by && matches!(by, CacheOwner::Key(_));
            if !is_own_lease && has.contains(CachingRights::READ) {
                self.begin_break(at, CachingRights::NONE);
            }
        }
    }

    /// Handles a change in a directory: breaks its leases except those under the ParentLeaseKey of
    /// the change. MS-SMB2 3.2.4.3.8, MS-FSA 2.1.4.12.1.
    pub fn handle_entry_change(&mut self, except: Option<[u8; 16]>) {
        if self.counts.unbroken_readers == 0 {
            return;
        }
        for at in (0..self.holders.len()).rev() {
            let CacheOwner::Key(owner) = self.holders[at].owner else { continue };
            if except != Some(owner.key) {
                self.begin_break(at, CachingRights::NONE);
            }
        }
    }

    /// Handles the acknowledgement of `owner`, which retains `retained`. MS-SMB2 3.3.5.22.1,
    /// 3.3.5.22.2.
    ///
    /// # Errors
    /// See [`AcknowledgeRefusal`].
    pub fn handle_acknowledge(
        &mut self,
        owner: CacheOwner,
        retained: CachingRights,
    ) -> Result<(), AcknowledgeRefusal> {
        let at = self.find(owner).map_err(|_| AcknowledgeRefusal::NotBreaking)?;
        let breaking = self.holders[at].breaking.ok_or(AcknowledgeRefusal::NotBreaking)?;
        let is_lease = matches!(owner, CacheOwner::Key(_));
        if !breaking.notified.contains(retained) {
            if !is_lease {
                self.settle(at, CachingRights::NONE);
            }
            return Err(AcknowledgeRefusal::TooMuch);
        }
        if is_lease && !breaking.required.contains(retained) {
            self.begin_next_step(at, retained, breaking.required);
        } else {
            self.settle(at, retained);
        }
        Ok(())
    }

    /// Ends the delegation of `owner`: returned or revoked.
    pub fn handle_return(&mut self, owner: CacheOwner) {
        let Ok(at) = self.find(owner) else { return };
        if self.holders[at].is_delegation {
            self.breaks.retain(|cache_break| cache_break.owner != owner);
            self.settle(at, CachingRights::NONE);
            self.change(at, |holder| holder.is_delegation = false);
        }
    }

    /// Repeats an outstanding break for a client that has reconnected, and restarts its timeout
    /// once. Otherwise a timeout could take caching right after the client was notified of it.
    pub fn handle_reconnect(&mut self, owner: CacheOwner) {
        let Ok(at) = self.find(owner) else { return };
        let Some(breaking) = self.holders[at].breaking else { return };
        if !breaking.is_renewed {
            self.begun.0 += 1;
            let renewed = OutstandingBreak { number: self.begun, is_renewed: true, ..breaking };
            self.change(at, |holder| holder.breaking = Some(renewed));
        }
        self.repeat_break(owner);
    }

    /// Repeats an outstanding break, whose notification the client may have missed.
    pub fn repeat_break(&mut self, owner: CacheOwner) {
        let Ok(at) = self.find(owner) else { return };
        let OwnerCaching { has, breaking, .. } = self.holders[at];
        if let Some(breaking) = breaking {
            self.queue_break(at, has, breaking.notified, true);
        }
    }

    /// Begins the next step of a break that grew while it was outstanding. Windows steps over
    /// read-only caching.
    fn begin_next_step(&mut self, at: usize, retained: CachingRights, required: CachingRights) {
        if retained == CachingRights::READ {
            self.settle(at, CachingRights::NONE);
            self.queue_break(at, retained, CachingRights::NONE, false);
            return;
        }
        self.begun.0 += 1;
        let notified = (required | CachingRights::READ) & retained;
        let breaking =
            Some(OutstandingBreak { notified, required, number: self.begun, is_renewed: false });
        self.change(at, |holder| {
            holder.has = retained;
            holder.breaking = breaking;
        });
        self.queue_break(at, retained, notified, true);
    }

    /// Ends breaks up to `latest` without an acknowledgement. Delegations are left to
    /// [`Caches::handle_return`]: the granting protocol revokes them by the client's lease time and
    /// reports it.
    pub fn handle_timeout(&mut self, latest: BreakNumber) {
        for at in (0..self.holders.len()).rev() {
            if !self.holders[at].is_delegation
                && self.holders[at].breaking.is_some_and(|breaking| breaking.number <= latest)
            {
                self.settle(at, CachingRights::NONE);
            }
        }
    }

    /// Updates the count after an open was downgraded.
    pub(crate) fn handle_downgrade(
        &mut self,
        owner: CacheOwner,
        was_non_stat: bool,
        is_non_stat: bool,
    ) {
        self.settled = true;
        if let Ok(at) = self.find(owner) {
            let count = &mut self.holders[at].non_stat_opens;
            *count = *count + u32::from(is_non_stat) - u32::from(was_non_stat);
        }
    }

    /// Handles a close; the owner's caching ends with its last open.
    pub(crate) fn handle_close(&mut self, owner: CacheOwner, was_non_stat: bool) {
        // A waiting operation may have waited for this open.
        self.settled = true;
        let Ok(at) = self.find(owner) else { return };
        let holder = &mut self.holders[at];
        holder.opens -= 1;
        holder.non_stat_opens -= u32::from(was_non_stat);
        if holder.opens == 0 {
            self.breaks.retain(|cache_break| cache_break.owner != owner);
            self.remove(at);
        }
    }

    /// The next break to send.
    pub fn poll_break(&mut self) -> Option<CacheBreak> {
        self.breaks.pop_front()
    }

    /// The next owner without opens; poll it after the breaks.
    pub fn poll_removed_owner(&mut self) -> Option<CacheOwner> {
        self.removed_owners.pop()
    }

    /// Whether a break or an open has ended since the last call, so that waiting operations must
    /// check again.
    pub fn poll_settled(&mut self) -> bool {
        std::mem::take(&mut self.settled)
    }

    fn begin_break(&mut self, at: usize, to: CachingRights) {
        let OwnerCaching { owner, has, breaking, .. } = self.holders[at];
        let to = to & has;
        if let Some(breaking) = breaking {
            if matches!(owner, CacheOwner::Key(_)) {
                // The next step follows the acknowledgement of this one.
                let required = breaking.required & to;
                self.change(at, |h| h.breaking = Some(OutstandingBreak { required, ..breaking }));
            }
            return;
        }
        if to == has {
            return;
        }
        let acknowledge = has != CachingRights::READ || self.holders[at].is_delegation;
        self.holders[at].epoch = self.holders[at].epoch.wrapping_add(1);
        self.queue_break(at, has, to, acknowledge);
        if acknowledge {
            self.begun.0 += 1;
            let (number, is_renewed) = (self.begun, false);
            let breaking = OutstandingBreak { notified: to, required: to, number, is_renewed };
            self.change(at, |holder| holder.breaking = Some(breaking));
        } else {
            self.settle(at, to);
        }
    }

    fn queue_break(
        &mut self,
        at: usize,
        from: CachingRights,
        to: CachingRights,
        acknowledge: bool,
    ) {
        let Some(&OwnerCaching { owner, epoch, .. }) = self.holders.get(at) else { return };
        self.breaks.push_back(CacheBreak { owner, from, to, acknowledge, epoch });
    }

    /// Ends a break, if there is one. An oplock without caching is removed; a lease stays with its
    /// opens.
    fn settle(&mut self, at: usize, has: CachingRights) {
        self.settled |= self.holders[at].breaking.is_some();
        self.change(at, |holder| {
            holder.breaking = None;
            holder.has = has;
        });
        if has == CachingRights::NONE && matches!(self.holders[at].owner, CacheOwner::Open(_)) {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) {
        let holder = self.holders.remove(at);
        self.counts.remove(&holder);
        self.removed_owners.push(holder.owner);
    }

    fn change(&mut self, at: usize, how: impl FnOnce(&mut OwnerCaching)) {
        self.counts.remove(&self.holders[at]);
        how(&mut self.holders[at]);
        self.counts.add(&self.holders[at]);
    }

    fn find(&self, owner: CacheOwner) -> Result<usize, usize> {
        self.holders.binary_search_by_key(&owner, |holder| holder.owner)
    }
}

#[cfg(test)]
mod tests;
