//! What clients may keep to themselves of one file, and how they are asked to
//! give it back: oplocks, and leases as SMB has them or delegations as NFS.
//! MS-FSA 2.1.4.12, 2.1.5.18, 2.1.5.19; MS-SMB2 3.3.4.6, 3.3.4.7.
//!
//! What is kept is a set of [`Caching`] of one [`CacheOwner`]: of one open, or
//! of a key under which a client has any number of opens, which do not disturb
//! each other. A break is begun here and told elsewhere ([`Caches::poll_break`]);
//! what needs it waits until it is acknowledged, the last open of its owner is
//! closed, or [`Caches::handle_timeout`] ends it.

mod holder;
mod kinds;

use crate::{OpenId, insert_snugly};
use holder::{Breaking, Holder, Tally};
use std::collections::VecDeque;

pub use kinds::Caching;

/// A client and the key by which it names what it keeps of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey {
    /// The client, by whatever its protocol tells clients apart.
    pub client: [u8; 16],
    /// Its choice.
    pub key: [u8; 16],
}

/// Whose caching it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CacheOwner {
    /// One open's: an oplock.
    Open(OpenId),
    /// A client's, for all its opens under the key: a lease.
    Key(CacheKey),
}

/// What an owner has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheState {
    /// What it may keep.
    pub has: Caching,
    /// It was asked to give some of that back and has not yet.
    pub is_breaking: bool,
    /// Counts the changes of a lease, from where its client let it begin.
    pub epoch: u16,
}

/// A holder must be told that it has less now, or must give some back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBreak {
    /// Whose.
    pub owner: CacheOwner,
    /// What it had.
    pub from: Caching,
    /// What it may keep.
    pub to: Caching,
    /// It keeps the rest until it acknowledges. Otherwise it has lost it already.
    pub acknowledge: bool,
    /// See [`CacheState::epoch`]: after the change.
    pub epoch: u16,
}

/// Why an acknowledgment is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcknowledgeRefusal {
    /// Nobody asked for it.
    NotBreaking,
    /// It keeps more than it may. An oplock is lost by that; a lease goes on
    /// being asked for.
    TooMuch,
}

/// Number of a break, in the order they begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BreakNumber(u64);

/// Why caches must be given back before an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// It is compatible: what is kept back must be written.
    Share,
    /// It replaces what is in the file.
    Replace,
    /// Its share mode conflicts: perhaps with an open that only a cache keeps.
    Conflict,
}

impl Demand {
    /// What it cannot be had with.
    fn lost(self) -> Caching {
        match self {
            Self::Share => Caching::WRITE,
            Self::Replace => Caching::BATCH,
            Self::Conflict => Caching::HANDLE,
        }
    }

    /// What of that must be given back first.
    fn waits_for(self) -> Caching {
        match self {
            Self::Share | Self::Replace => Caching::WRITE,
            Self::Conflict => Caching::HANDLE,
        }
    }
}

/// An open that asks for caches to be given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demanding {
    pub demand: Demand,
    /// Whose it is, who need not give anything back.
    pub by: CacheOwner,
    /// It looks at what leases do not cover, and asks for oplocks only.
    pub spares_leases: bool,
    /// It writes, deletes, or keeps others from reading: what a client that may open by
    /// itself for reading must know of before.
    pub intrudes: bool,
}

/// An open that would like to keep something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanting {
    pub owner: CacheOwner,
    pub wanted: Caching,
    /// Where a new lease begins to count.
    pub epoch: u16,
    /// It does more than look at attributes.
    pub is_beyond_looking: bool,
    /// Opens of others do more than look at attributes.
    pub others_are_beyond_looking: bool,
    pub has_locks: bool,
    /// It is a delegation: its client opens by itself, and what would disturb it waits
    /// until it was given back, be it reads only. RFC 8881 10.4.
    pub firm: bool,
    /// Opens of others write, or keep others from what is wanted.
    pub others_intrude: bool,
}

/// Everything that is kept of one file.
#[derive(Debug, Default)]
pub struct Caches {
    /// By owner.
    holders: Vec<Holder>,
    /// Sums over the holders, so that nobody is looked for in vain.
    tally: Tally,
    breaks: VecDeque<CacheBreak>,
    gone: Vec<CacheOwner>,
    begun: BreakNumber,
    settled: bool,
}

impl Caches {
    /// Whether nobody keeps anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tally.keeping == 0
    }

    /// What an owner may keep.
    #[must_use]
    pub fn of(&self, owner: CacheOwner) -> Caching {
        self.state(owner).has
    }

    /// What an owner has.
    #[must_use]
    pub fn state(&self, owner: CacheOwner) -> CacheState {
        self.find(owner).map_or_else(|_| CacheState::default(), |at| self.holders[at].state())
    }

    /// What an owner has as far as it may be relied on later by whoever was not told of
    /// a break that is under way. Others wait for what is written back; what was
    /// read may be something else already.
    #[must_use]
    pub fn lasting(&self, owner: CacheOwner) -> CacheState {
        let Ok(at) = self.find(owner) else { return CacheState::default() };
        let holder = &self.holders[at];
        let required = holder.breaking.filter(|_| !holder.has.contains(Caching::WRITE));
        let has = required.map_or(holder.has, |breaking| breaking.required);
        CacheState { has, is_breaking: false, epoch: holder.epoch }
    }

    /// The latest break that has begun.
    #[must_use]
    pub fn latest_break(&self) -> BreakNumber {
        self.begun
    }

    /// Whether `owner` must give something back and has not yet.
    #[must_use]
    pub fn is_breaking(&self, owner: CacheOwner) -> bool {
        self.state(owner).is_breaking
    }

    /// How many opens of `owner` do more than look at attributes.
    pub(crate) fn beyond_looking(&self, owner: CacheOwner) -> usize {
        self.find(owner).map_or(0, |at| self.holders[at].beyond_looking as usize)
    }

    /// Gives an open as much of what it wants as the others leave. Under a key
    /// that has something already it gets all of what it asks for in addition,
    /// or nothing: what is there is not taken away by asking for less.
    pub(crate) fn grant(&mut self, wanting: &Wanting) -> CacheState {
        let granted = self.room(wanting);
        let found = self.find(wanting.owner);
        let at = match found {
            Ok(at) => {
                self.upgrade(at, wanting.wanted, granted);
                at
            }
            Err(_) if granted == Caching::NONE && matches!(wanting.owner, CacheOwner::Open(_)) => {
                return CacheState::default();
            }
            Err(at) => {
                let counted = u16::from(granted != Caching::NONE);
                let epoch = wanting.epoch.wrapping_add(counted);
                insert_snugly(&mut self.holders, at, Holder::new(wanting.owner, granted, epoch));
                self.tally.add(&self.holders[at]);
                at
            }
        };
        if wanting.firm && self.holders[at].has == wanting.wanted {
            self.change(at, |holder| holder.firm = true);
        }
        let holder = &mut self.holders[at];
        holder.opens += 1;
        holder.beyond_looking += u32::from(wanting.is_beyond_looking);
        holder.state()
    }

    /// Gives an open that is there again as much of what it had as the others leave,
    /// unless another open under its key brought something back already.
    pub(crate) fn restore(&mut self, wanting: &Wanting) {
        if self.of(wanting.owner) != Caching::NONE {
            return;
        }
        let has = self.room(wanting);
        let epoch = wanting.epoch.wrapping_add(u16::from(has != wanting.wanted));
        match self.find(wanting.owner) {
            Ok(at) => self.change(at, |holder| {
                holder.has = has;
                holder.epoch = epoch;
            }),
            Err(_) if has == Caching::NONE => {}
            Err(at) => {
                let holder = Holder {
                    opens: 1,
                    beyond_looking: u32::from(wanting.is_beyond_looking),
                    ..Holder::new(wanting.owner, has, epoch)
                };
                self.tally.add(&holder);
                insert_snugly(&mut self.holders, at, holder);
            }
        }
    }

    /// What the others leave of what is wanted. MS-FSA 2.1.5.18.
    fn room(&self, wanting: &Wanting) -> Caching {
        let own = self.find(wanting.owner).ok().map(|at| &self.holders[at]);
        let others = self.tally.without(own);
        let mut granted = wanting.wanted;
        if wanting.has_locks {
            granted = granted - (Caching::READ | Caching::HANDLE);
        }
        if wanting.others_are_beyond_looking || others.holders > 0 {
            granted = granted - Caching::WRITE;
        }
        // Only an open that looks at attributes gets here with a writer about.
        if others.writing > 0 || (wanting.firm && wanting.others_intrude) {
            return Caching::NONE;
        }
        match wanting.owner {
            // An oplock keeps its open only together with all else.
            CacheOwner::Open(_) if others.keeping_handles > 0 => Caching::NONE,
            CacheOwner::Open(_) => granted.as_oplock(),
            CacheOwner::Key(_) if others.oplocks > 0 => (granted - Caching::HANDLE).as_lease(),
            CacheOwner::Key(_) => granted.as_lease(),
        }
    }

    fn upgrade(&mut self, at: usize, wanted: Caching, granted: Caching) {
        let holder = &self.holders[at];
        let is_more = wanted.contains(holder.has) && granted != holder.has;
        if is_more && granted == wanted && holder.breaking.is_none() {
            self.change(at, |holder| {
                holder.has = granted;
                holder.epoch = holder.epoch.wrapping_add(1);
            });
        }
    }

    /// Asks back what an open cannot be had with. True if it must wait.
    pub(crate) fn handle_demand(&mut self, demanding: &Demanding) -> bool {
        let Demanding { demand, .. } = *demanding;
        if !self.concerns_others(demanding) {
            return false;
        }
        let mut waits = false;
        for at in (0..self.holders.len()).rev() {
            let holder = &self.holders[at];
            if !holder.is_asked_by(demanding) {
                continue;
            }
            if holder.firm {
                if holder.is_recalled_by(demanding) {
                    self.begin_break(at, Caching::NONE);
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
                // An oplock keeps nothing but reads once it is broken.
                CacheOwner::Open(_) => (holder.has & Caching::READ) - demand.lost(),
            };
            self.begin_break(at, to);
        }
        waits
    }

    /// Whether an open that waited must wait on. MS-FSA 2.1.4.12.
    pub(crate) fn holds_up(&self, demanding: &Demanding) -> bool {
        self.concerns_others(demanding)
            && self.holders.iter().any(|holder| holder.is_in_the_way(demanding))
    }

    /// Whose answers a demand waits for.
    pub(crate) fn owners_in_the_way(&self, demanding: &Demanding) -> Vec<CacheOwner> {
        let in_the_way = |holder: &&Holder| holder.is_in_the_way(demanding);
        self.holders.iter().filter(in_the_way).map(|holder| holder.owner).collect()
    }

    /// Whose answers the change of a name waits for: leases of others than `by`.
    pub(crate) fn keepers_of_handles(&self, by: CacheOwner) -> Vec<CacheOwner> {
        let keeps = |holder: &&Holder| {
            holder.is_lease() && holder.owner != by && holder.has.contains(Caching::HANDLE)
        };
        self.holders.iter().filter(keeps).map(|holder| holder.owner).collect()
    }

    /// `owner`, who cannot answer, has nothing from now on, and is told so.
    pub(crate) fn end_break(&mut self, owner: CacheOwner) {
        let Ok(at) = self.find(owner) else { return };
        self.breaks.retain(|told| told.owner != owner);
        self.tell(at, self.holders[at].has, Caching::NONE, false);
        self.settle(at, Caching::NONE);
    }

    /// Has whoever waits look whether it may go on.
    pub(crate) fn note_settled(&mut self) {
        self.settled = true;
    }

    /// Whether anybody but `by` may have to answer a demand.
    fn concerns_others(&self, demanding: &Demanding) -> bool {
        let own = self.find(demanding.by).ok().map(|at| &self.holders[at]);
        let others = self.tally.without(own);
        let affected = match demanding.demand {
            Demand::Share => others.writing,
            Demand::Replace => others.keeping,
            Demand::Conflict => others.keeping_handles,
        };
        affected > 0 || others.breaking_leases > 0 || others.firm > 0
    }

    /// Asks all leases but that of `by` to let go of handles: the file's name
    /// is about to change or to go. True if that must be waited for. MS-FSA
    /// 2.1.5.15.3, 2.1.5.15.11.
    pub fn handle_name_change(&mut self, by: CacheOwner) -> bool {
        if !self.keep_handles(by) {
            return false;
        }
        for at in (0..self.holders.len()).rev() {
            let Holder { owner, has, firm, .. } = self.holders[at];
            if owner != by && matches!(owner, CacheOwner::Key(_)) {
                self.begin_break(at, if firm { Caching::NONE } else { has - Caching::HANDLE });
            }
        }
        true
    }

    /// Whether a lease other than that of `by` keeps handles, or a delegation anything.
    #[must_use]
    pub fn keep_handles(&self, by: CacheOwner) -> bool {
        let own = self.find(by).ok().map(|at| &self.holders[at]);
        let others = self.tally.without(own);
        others.keeping_handles > others.batch || others.firm > 0
    }

    /// Something of the file changes that only delegations cover, its attributes or its
    /// names: all but that of `by` are asked back. True if that must be waited for.
    /// RFC 8881 10.4.
    pub fn handle_recall(&mut self, by: CacheOwner) -> bool {
        if !self.has_delegations(by) {
            return false;
        }
        for at in (0..self.holders.len()).rev() {
            if self.holders[at].owner != by && self.holders[at].keeps_firmly() {
                self.begin_break(at, Caching::NONE);
            }
        }
        true
    }

    /// The end of all opens is near: whoever keeps what is not written yet, or handles, is asked
    /// to let go of that, and delegations are asked back. How many still keep what is not written.
    pub fn handle_end_near(&mut self) -> usize {
        for at in (0..self.holders.len()).rev() {
            let Holder { has, firm, .. } = self.holders[at];
            let stays = if firm { Caching::NONE } else { has & Caching::READ };
            self.begin_break(at, stays);
        }
        self.holders.iter().filter(|holder| holder.has.contains(Caching::WRITE)).count()
    }

    /// Whether another than `by` has a delegation.
    #[must_use]
    pub fn has_delegations(&self, by: CacheOwner) -> bool {
        let own = self.find(by).ok().map(|at| &self.holders[at]);
        self.tally.without(own).firm > 0
    }

    /// What `by` changes is not what others have read; nor is it what an oplock
    /// of its own has read, unless it alone may write. MS-FSA 2.1.5.18.
    pub fn handle_change(&mut self, by: CacheOwner) {
        if self.tally.reading_on == 0 || self.of(by).contains(Caching::WRITE) {
            return;
        }
        for at in (0..self.holders.len()).rev() {
            let Holder { owner, has, .. } = self.holders[at];
            let is_own_lease = owner == by && matches!(by, CacheOwner::Key(_));
            if !is_own_lease && has.contains(Caching::READ) {
                self.begin_break(at, Caching::NONE);
            }
        }
    }

    /// Something in the directory that this is about has changed: leases on it
    /// are of no use, but for those under the key by which whoever changed it
    /// names the directory. MS-SMB2 3.2.4.3.8, MS-FSA 2.1.4.12.1.
    pub fn handle_entry_change(&mut self, except: Option<[u8; 16]>) {
        if self.tally.reading_on == 0 {
            return;
        }
        for at in (0..self.holders.len()).rev() {
            let CacheOwner::Key(owner) = self.holders[at].owner else { continue };
            if except != Some(owner.key) {
                self.begin_break(at, Caching::NONE);
            }
        }
    }

    /// `owner` gives back all but `keeps`. MS-SMB2 3.3.5.22.1, 3.3.5.22.2.
    ///
    /// # Errors
    /// See [`AcknowledgeRefusal`].
    pub fn handle_acknowledge(
        &mut self,
        owner: CacheOwner,
        keeps: Caching,
    ) -> Result<(), AcknowledgeRefusal> {
        let at = self.find(owner).map_err(|_| AcknowledgeRefusal::NotBreaking)?;
        let breaking = self.holders[at].breaking.ok_or(AcknowledgeRefusal::NotBreaking)?;
        let is_lease = matches!(owner, CacheOwner::Key(_));
        if !breaking.asked.contains(keeps) {
            if !is_lease {
                self.settle(at, Caching::NONE);
            }
            return Err(AcknowledgeRefusal::TooMuch);
        }
        if is_lease && !breaking.required.contains(keeps) {
            self.break_on(at, keeps, breaking.required);
        } else {
            self.settle(at, keeps);
        }
        Ok(())
    }

    /// The delegation that `owner` had is none any more.
    pub fn handle_return(&mut self, owner: CacheOwner) {
        let Ok(at) = self.find(owner) else { return };
        if self.holders[at].firm {
            self.breaks.retain(|told| told.owner != owner);
            self.settle(at, Caching::NONE);
            self.change(at, |holder| holder.firm = false);
        }
    }

    /// The client of `owner` was away, and may not have heard what it is to give back: it is told
    /// again, and its time to answer begins anew, once. A break whose time ends just then would
    /// take from it what it has just been told that it has.
    pub fn handle_returned(&mut self, owner: CacheOwner) {
        let Ok(at) = self.find(owner) else { return };
        let Some(breaking) = self.holders[at].breaking else { return };
        if !breaking.is_renewed {
            self.begun.0 += 1;
            let renewed = Breaking { number: self.begun, is_renewed: true, ..breaking };
            self.change(at, |holder| holder.breaking = Some(renewed));
        }
        self.handle_unheard(owner);
    }

    /// The client of `owner` may not have heard what it is to give back.
    pub fn handle_unheard(&mut self, owner: CacheOwner) {
        let Ok(at) = self.find(owner) else { return };
        let Holder { has, breaking, .. } = self.holders[at];
        if let Some(breaking) = breaking {
            self.tell(at, has, breaking.asked, true);
        }
    }

    /// More was asked for while a break was under way: the next step. Windows
    /// goes by way of reading alone.
    fn break_on(&mut self, at: usize, keeps: Caching, required: Caching) {
        if keeps == Caching::READ {
            self.settle(at, Caching::NONE);
            self.tell(at, keeps, Caching::NONE, false);
            return;
        }
        self.begun.0 += 1;
        let asked = (required | Caching::READ) & keeps;
        let breaking = Some(Breaking { asked, required, number: self.begun, is_renewed: false });
        self.change(at, |holder| {
            holder.has = keeps;
            holder.breaking = breaking;
        });
        self.tell(at, keeps, asked, true);
    }

    /// Breaks up to `latest` have had time enough: their holders have nothing. Delegations
    /// are taken away by [`Caches::handle_return`]: who gave them says when, since their
    /// clients have a lease of time, and are told of the loss.
    pub fn handle_timeout(&mut self, latest: BreakNumber) {
        for at in (0..self.holders.len()).rev() {
            if !self.holders[at].firm
                && self.holders[at].breaking.is_some_and(|breaking| breaking.number <= latest)
            {
                self.settle(at, Caching::NONE);
            }
        }
    }

    /// An open of `owner` does other things than before.
    pub(crate) fn handle_narrow(&mut self, owner: CacheOwner, was_beyond: bool, is_beyond: bool) {
        self.settled = true;
        if let Ok(at) = self.find(owner) {
            let count = &mut self.holders[at].beyond_looking;
            *count = *count + u32::from(is_beyond) - u32::from(was_beyond);
        }
    }

    /// An open is gone, and with the last of its owner what that had.
    pub(crate) fn handle_close(&mut self, owner: CacheOwner, was_beyond_looking: bool) {
        // Who waits may have waited for this open.
        self.settled = true;
        let Ok(at) = self.find(owner) else { return };
        let holder = &mut self.holders[at];
        holder.opens -= 1;
        holder.beyond_looking -= u32::from(was_beyond_looking);
        if holder.opens == 0 {
            self.breaks.retain(|told| told.owner != owner);
            self.remove(at);
        }
    }

    /// The next holder to tell.
    pub fn poll_break(&mut self) -> Option<CacheBreak> {
        self.breaks.pop_front()
    }

    /// The next owner that is none any more; to be asked for after the breaks.
    pub fn poll_gone(&mut self) -> Option<CacheOwner> {
        self.gone.pop()
    }

    /// Whether a break ended, or an open, since this was last asked: who waits
    /// may try again, or at least look whether it may.
    pub fn poll_settled(&mut self) -> bool {
        std::mem::take(&mut self.settled)
    }

    fn begin_break(&mut self, at: usize, to: Caching) {
        let Holder { owner, has, breaking, .. } = self.holders[at];
        let to = to & has;
        if let Some(breaking) = breaking {
            if matches!(owner, CacheOwner::Key(_)) {
                // Told once this step is acknowledged.
                let required = breaking.required & to;
                self.change(at, |h| h.breaking = Some(Breaking { required, ..breaking }));
            }
            return;
        }
        if to == has {
            return;
        }
        let acknowledge = has != Caching::READ || self.holders[at].firm;
        self.holders[at].epoch = self.holders[at].epoch.wrapping_add(1);
        self.tell(at, has, to, acknowledge);
        if acknowledge {
            self.begun.0 += 1;
            let (number, is_renewed) = (self.begun, false);
            let breaking = Breaking { asked: to, required: to, number, is_renewed };
            self.change(at, |holder| holder.breaking = Some(breaking));
        } else {
            self.settle(at, to);
        }
    }

    fn tell(&mut self, at: usize, from: Caching, to: Caching, acknowledge: bool) {
        let Some(&Holder { owner, epoch, .. }) = self.holders.get(at) else { return };
        self.breaks.push_back(CacheBreak { owner, from, to, acknowledge, epoch });
    }

    /// Ends a break, if there is one. An oplock that is none any more is gone;
    /// a lease stays with its opens.
    fn settle(&mut self, at: usize, has: Caching) {
        self.settled |= self.holders[at].breaking.is_some();
        self.change(at, |holder| {
            holder.breaking = None;
            holder.has = has;
        });
        if has == Caching::NONE && matches!(self.holders[at].owner, CacheOwner::Open(_)) {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) {
        let holder = self.holders.remove(at);
        self.tally.remove(&holder);
        self.gone.push(holder.owner);
    }

    fn change(&mut self, at: usize, how: impl FnOnce(&mut Holder)) {
        self.tally.remove(&self.holders[at]);
        how(&mut self.holders[at]);
        self.tally.add(&self.holders[at]);
    }

    fn find(&self, owner: CacheOwner) -> Result<usize, usize> {
        self.holders.binary_search_by_key(&owner, |holder| holder.owner)
    }
}

#[cfg(test)]
mod tests;
