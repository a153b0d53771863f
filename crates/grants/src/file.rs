//! Opens of one file, what they tolerate of each other, and which of the
//! file's names are about to vanish. MS-FSA 2.1.5.1.2, 2.1.5.5, 2.1.5.15.3.

mod absence;

use crate::caching::{Demand, Demanding, Wanting};
use crate::{
    Access, BreakNumber, CacheKey, CacheOwner, CacheState, Caches, Caching, RangeLocks,
    insert_snugly,
};

pub use absence::Absence;

/// Number of an open, unique in the process. Later opens have larger numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenId(pub u64);

/// One of a file's names, as far as somebody has it open: the number is given
/// by [`FileGrants::new_link`] and means nothing for another file. The default is no name's.
///
/// Share modes belong to the file, deletion to one name of it: a hard link
/// that nobody deletes stays usable. MS-FSA 2.1.1.5 (Link.IsDeleted).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// What an open lets others do meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share(pub u32);

impl Share {
    /// Others may read.
    pub const READ: Self = Self(1);
    /// Others may write.
    pub const WRITE: Self = Self(2);
    /// Others may delete and rename.
    pub const DELETE: Self = Self(4);
    /// Others may do anything.
    pub const ALL: Self = Self(7);

    /// Whether all of `other` are in the set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What an open is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenWish {
    /// Number of the open.
    pub id: OpenId,
    /// The name it comes by.
    pub link: LinkId,
    /// That is the only name the file has: whoever deletes any name of it
    /// deletes this one.
    pub only_link: bool,
    /// Rights that it will have.
    pub access: Access,
    /// Rights used by the act of opening and not kept: cutting a file to
    /// nothing is a write that others may forbid.
    pub once: Access,
    /// What it tolerates.
    pub share: Share,
    /// The name is to vanish when this open is closed.
    pub delete_on_close: bool,
    /// What its client would like to keep to itself.
    pub caching: Caching,
    /// It is used as POSIX has it: its name may be taken away while it is open.
    pub posix: bool,
    /// The key that it names that by, with other opens of the file.
    pub key: Option<CacheKey>,
    /// Where it counts changes from, if nothing is kept under the key yet.
    pub epoch: u16,
    /// The file's length: locks beyond it keep nobody from caching.
    pub size_bytes: u64,
    /// It takes the place of this open, which has nothing from then on.
    pub instead_of: Option<OpenId>,
    /// It is there for a delegation, and does nothing by itself.
    pub firm: bool,
}

impl OpenWish {
    /// An open that keeps nothing to itself, by a name to be filled in.
    #[must_use]
    pub fn new(id: OpenId, access: Access, share: Share) -> Self {
        Self {
            id,
            link: LinkId::default(),
            only_link: false,
            access,
            once: Access::NONE,
            share,
            delete_on_close: false,
            caching: Caching::NONE,
            key: None,
            epoch: 0,
            size_bytes: u64::MAX,
            posix: false,
            instead_of: None,
            firm: false,
        }
    }

    /// Whose caching it comes under.
    #[must_use]
    pub fn owner(&self) -> CacheOwner {
        owner(self.id, self.key)
    }

    fn used(&self) -> Access {
        self.access | self.once
    }

    /// Whether it does not share deletion: only opens with a counted right deny anything.
    #[must_use]
    pub fn denies_delete(&self) -> bool {
        self.used().intersects(COUNTED) && !self.share.contains(Share::DELETE)
    }
}

fn owner(id: OpenId, key: Option<CacheKey>) -> CacheOwner {
    key.map_or(CacheOwner::Open(id), CacheOwner::Key)
}

/// What somebody waits for who was told [`Refusal::Breaking`], or may not
/// change a name yet: to be given to [`FileGrants::holds_up`].
#[derive(Clone, Copy, Debug)]
pub enum Awaited {
    /// To open.
    Open(OpenWish),
    /// That leases of others than this one keep no handles.
    NameChange(CacheOwner),
    /// That others than this one have no delegation.
    Recall(CacheOwner),
}

/// Why an open is not possible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name is about to vanish.
    DeletePending,
    /// An open forbids this access, or this share mode forbids an open's access.
    ShareViolation,
    /// Others were asked to give back what they keep; try again once
    /// [`Caches::poll_settled`] says so, or after [`Caches::handle_timeout`] with this number.
    Breaking(BreakNumber),
    /// Somebody who is away has it open, and nothing that could be asked back: see
    /// [`Absence::Keeps`].
    Away,
    /// [`FileGrants::OPENS_MAX`] was reached.
    TooMany,
}

/// What closing an open leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// The file has no open any more.
    pub last: bool,
    /// The name that must be removed now; tell the end of it by
    /// [`FileGrants::handle_removed`]. Until then it cannot be opened.
    pub remove: Option<LinkId>,
}

/// An open that is held.
#[derive(Clone, Copy, Debug)]
struct Held {
    id: OpenId,
    link: LinkId,
    access: Access,
    share: Share,
    delete_on_close: bool,
    posix: bool,
    key: Option<CacheKey>,
    /// Its client is away and will come back: see [`FileGrants::set_away`].
    away: Option<Absence>,
    /// See [`OpenWish::firm`].
    firm: bool,
}

/// All that is held on one file.
///
/// Owns no clock, no lock and no effects: inputs are `handle_*`, what must be
/// done elsewhere is their answer or taken by `poll_*` ([`RangeLocks`]).
#[derive(Debug, Default)]
pub struct FileGrants {
    /// By number, which is the order of opening.
    opens: Vec<Held>,
    /// How many of them use a right, or deny it: the share check looks at
    /// these six numbers and not at the opens.
    counts: Counts,
    /// Names that vanish, or are vanishing. Seldom more than one.
    doomed: Vec<LinkId>,
    /// Those among them that are being removed: see [`Closed::remove`].
    vanishing: Vec<LinkId>,
    links: u64,
    /// Opens that do more than look at attributes.
    beyond_looking: usize,
    /// Opens whose clients are away.
    away: usize,
    /// Oplocks and leases.
    pub caches: Caches,
    /// Byte ranges.
    pub locks: RangeLocks,
}

/// Rights that count in share modes. Looking at attributes never conflicts.
const COUNTED: Access = Access(
    Access::READ_DATA.0
        | Access::WRITE_DATA.0
        | Access::APPEND_DATA.0
        | Access::EXECUTE.0
        | Access::DELETE.0,
);
/// Rights that disturb nobody's cache: such opens neither break oplocks nor
/// keep others from having one. MS-FSA 2.1.5.1.2.
const LOOKS: Access =
    Access(Access::READ_ATTRIBUTES.0 | Access::WRITE_ATTRIBUTES.0 | Access::SYNCHRONIZE.0);
/// Rights that disturb no lease. An oplock is disturbed by the last of them.
const LOOKS_BESIDE_LEASES: Access = Access(LOOKS.0 | Access::READ_CONTROL.0);
/// Rights whose use somebody must know of who has the file to read by itself.
const INTRUDES: Access = Access(Access::WRITE_DATA.0 | Access::APPEND_DATA.0 | Access::DELETE.0);
/// What a share mode is about: reading, writing, deleting.
const KINDS: [(Access, Share); 3] = [
    (Access(Access::READ_DATA.0 | Access::EXECUTE.0), Share::READ),
    (Access(Access::WRITE_DATA.0 | Access::APPEND_DATA.0), Share::WRITE),
    (Access::DELETE, Share::DELETE),
];

impl FileGrants {
    /// Opens of one file: what a table of a few megabytes holds.
    pub const OPENS_MAX: usize = 1 << 16;

    /// A number for a name that is not open yet.
    pub fn new_link(&mut self) -> LinkId {
        self.links += 1;
        LinkId(self.links)
    }

    /// Whether an open could be had now; enters nothing.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn check_open(&self, wish: &OpenWish) -> Result<(), Refusal> {
        if self.doomed.contains(&wish.link) || (wish.only_link && !self.doomed.is_empty()) {
            return Err(Refusal::DeletePending);
        }
        if self.opens.len() >= Self::OPENS_MAX {
            return Err(Refusal::TooMany);
        }
        if self.away > 0 && !LOOKS.contains(wish.access | wish.once) && self.is_kept_by_absent() {
            return Err(Refusal::Away);
        }
        let mut counts = self.counts;
        if let Some(at) = wish.instead_of.and_then(|id| self.find(id)) {
            let before = &self.opens[at];
            counts.remove(before.access, before.share);
        }
        if counts.conflict(wish.access | wish.once, wish.share) {
            return Err(Refusal::ShareViolation);
        }
        Ok(())
    }

    /// Enters an open; the answer is what its client may keep to itself. Its
    /// number must be larger than those before it.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing has changed then but the caches that break.
    pub fn handle_open(&mut self, wish: &OpenWish) -> Result<CacheState, Refusal> {
        self.ask(wish)?;
        let OpenWish { id, link, access, share, delete_on_close, key, posix, firm, .. } = *wish;
        let is_beyond_looking = !LOOKS.contains(access);
        let state = self.grant(wish, is_beyond_looking);
        // Two opens race to the table with numbers taken before: nearly sorted.
        let at = self.opens.partition_point(|held| held.id < id);
        let away = None;
        let held = Held { id, link, access, share, delete_on_close, key, posix, away, firm };
        insert_snugly(&mut self.opens, at, held);
        self.counts.add(access, share);
        self.beyond_looking += usize::from(is_beyond_looking);
        Ok(state)
    }

    /// An open that was entered instead of another has come to be: that one has no rights any
    /// more, denies nothing, and its locks are those of the new one. Until then it is what it was,
    /// as the new one may still fail.
    pub fn handle_taken_over(&mut self, before: OpenId, id: OpenId) {
        if self.handle_narrow(before, Access::NONE, Share::ALL) {
            self.locks.handle_moved(before, id);
        }
    }

    /// Whether ranges may be locked by an open: it is there, and no other has taken its place.
    #[must_use]
    pub fn may_lock(&self, id: OpenId) -> bool {
        self.find(id).is_some_and(|at| self.opens[at].access != Access::NONE)
    }

    /// An open has these rights and tolerates this from now on. False if it is not there.
    pub fn handle_narrow(&mut self, id: OpenId, access: Access, share: Share) -> bool {
        let Some(at) = self.find(id) else { return false };
        let open = self.opens[at];
        self.counts.remove(open.access, open.share);
        self.counts.add(access, share);
        (self.opens[at].access, self.opens[at].share) = (access, share);
        let (was_beyond, is_beyond) = (!LOOKS.contains(open.access), !LOOKS.contains(access));
        self.beyond_looking += usize::from(is_beyond);
        self.beyond_looking -= usize::from(was_beyond);
        self.caches.handle_narrow(owner(id, open.key), was_beyond, is_beyond);
        true
    }

    /// Has others give back what this open cannot be had with; enters nothing.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn ask(&mut self, wish: &OpenWish) -> Result<(), Refusal> {
        loop {
            let fits = self.check_open(wish);
            let Some(demanding) = self.demand(wish, fits) else { return fits };
            if !self.caches.handle_demand(&demanding) {
                return fits;
            }
            self.await_answers(&Awaited::Open(*wish))?;
        }
    }

    /// Asks all leases but that of `by` to let go of handles: the file's name is about to change
    /// or to go. MS-FSA 2.1.5.15.3, 2.1.5.15.11.
    ///
    /// # Errors
    /// [`Refusal::Breaking`] if that must be waited for.
    pub fn ask_for_handles(&mut self, by: CacheOwner) -> Result<(), Refusal> {
        while self.caches.handle_name_change(by) {
            self.await_answers(&Awaited::NameChange(by))?;
        }
        Ok(())
    }

    /// Whether somebody must wait on.
    #[must_use]
    pub fn holds_up(&self, awaited: &Awaited) -> bool {
        self.is_held_up(awaited) && self.yielding_in_the_way(awaited).is_none()
    }

    fn is_held_up(&self, awaited: &Awaited) -> bool {
        match awaited {
            Awaited::Open(wish) => self
                .demand(wish, self.check_open(wish))
                .is_some_and(|demanding| self.caches.holds_up(&demanding)),
            Awaited::NameChange(by) => self.caches.keep_handles(*by),
            Awaited::Recall(by) => self.caches.has_delegations(*by),
        }
    }

    fn grant(&mut self, wish: &OpenWish, is_beyond_looking: bool) -> CacheState {
        let owner = wish.owner();
        if wish.key.is_none() && wish.caching == Caching::NONE {
            return CacheState::default();
        }
        self.caches.grant(&Wanting {
            owner,
            wanted: wish.caching,
            epoch: wish.epoch,
            is_beyond_looking,
            others_are_beyond_looking: self.beyond_looking > self.caches.beyond_looking(owner),
            has_locks: wish.once == Access::NONE && self.locks.has_before(wish.size_bytes),
            firm: wish.firm,
            others_intrude: wish.firm && self.others_intrude(wish),
        })
    }

    /// Whether an open of others is for writing, or denies what a delegation would let
    /// its client open by itself.
    fn others_intrude(&self, wish: &OpenWish) -> bool {
        let needs = if wish.caching.contains(Caching::WRITE) {
            Share(Share::READ.0 | Share::WRITE.0)
        } else {
            Share::READ
        };
        self.opens.iter().any(|held| {
            owner(held.id, held.key) != wish.owner()
                && held.access.intersects(COUNTED)
                && (held.access.intersects(INTRUDES) || !held.share.contains(needs))
        })
    }

    /// An open that was entered with nothing to keep has what it had before, as far as
    /// the other opens leave it. To be called once all of them are there again.
    pub fn restore_caching(&mut self, id: OpenId, had: CacheState) {
        let Some(at) = self.find(id) else { return };
        let Held { access, key, .. } = self.opens[at];
        let owner = owner(id, key);
        let is_beyond_looking = !LOOKS.contains(access);
        let own = match key {
            Some(_) => self.caches.beyond_looking(owner),
            None => usize::from(is_beyond_looking),
        };
        self.caches.restore(&Wanting {
            owner,
            wanted: had.has,
            epoch: had.epoch,
            is_beyond_looking,
            others_are_beyond_looking: self.beyond_looking > own,
            has_locks: false,
            firm: false,
            others_intrude: false,
        });
    }

    /// What must be given back for an open, if anything.
    fn demand(&self, wish: &OpenWish, fits: Result<(), Refusal>) -> Option<Demanding> {
        let demand = match fits {
            _ if LOOKS.contains(wish.used()) => return None,
            Ok(()) if wish.once == Access::NONE => Demand::Share,
            Ok(()) => Demand::Replace,
            Err(Refusal::ShareViolation) => Demand::Conflict,
            Err(_) => return None,
        };
        let spares_leases = LOOKS_BESIDE_LEASES.contains(wish.used());
        let intrudes = wish.used().intersects(INTRUDES)
            || (wish.used().intersects(COUNTED) && !wish.share.contains(Share::READ));
        Some(Demanding { demand, by: wish.owner(), spares_leases, intrudes })
    }

    /// Takes an open out, with its locks; requests of it that wait are
    /// refused. One that is not there changes nothing.
    pub fn handle_close(&mut self, id: OpenId) -> Closed {
        let Some(at) = self.find(id) else { return Closed::default() };
        let open = self.opens.remove(at);
        self.counts.remove(open.access, open.share);
        let was_beyond_looking = !LOOKS.contains(open.access);
        self.beyond_looking -= usize::from(was_beyond_looking);
        self.away -= usize::from(open.away.is_some());
        self.locks.handle_close(id);
        self.caches.handle_close(owner(id, open.key), was_beyond_looking);
        if open.delete_on_close {
            self.doom(open.link);
        }
        let link = open.link;
        // Opens of POSIX do not keep a name. MS-FSA 2.1.5.5 asks for the last open.
        let kept = self.opens.iter().any(|held| held.link == link && !held.posix);
        let removes = !kept && self.doomed.contains(&link) && !self.vanishing.contains(&link);
        if removes {
            self.vanishing.push(link);
        }
        Closed { last: self.opens.is_empty(), remove: removes.then_some(link) }
    }

    /// Takes an open out that never came to be: its wish to delete is void.
    pub fn handle_withdraw(&mut self, id: OpenId) -> Closed {
        if let Some(at) = self.find(id) {
            self.opens[at].delete_on_close = false;
        }
        self.handle_close(id)
    }

    /// The name of [`Closed::remove`] is gone, or could not be removed: either
    /// way it can be opened, if it is there.
    pub fn handle_removed(&mut self, link: LinkId) {
        self.doomed.retain(|doomed| *doomed != link);
        self.vanishing.retain(|vanishing| *vanishing != link);
    }

    /// Marks the name that `id` came by to vanish at its last close, or no longer.
    pub fn handle_disposition(&mut self, id: OpenId, delete: bool) {
        let Some(at) = self.find(id) else { return };
        let link = self.opens[at].link;
        if self.vanishing.contains(&link) {
            return;
        }
        self.doomed.retain(|doomed| *doomed != link);
        if delete {
            self.doom(link);
        }
    }

    /// The name that `id` came by vanishes when it is closed.
    pub fn set_delete_on_close(&mut self, id: OpenId) {
        if let Some(at) = self.find(id) {
            self.opens[at].delete_on_close = true;
        }
    }

    /// Whether a name will vanish at its last close.
    #[must_use]
    pub fn is_delete_pending(&self, link: LinkId) -> bool {
        self.doomed.contains(&link)
    }

    /// Whether an open other than `id` does not share deletion: a rename or a
    /// replacement must not happen under it.
    #[must_use]
    pub fn others_forbid_delete(&self, id: OpenId) -> bool {
        let own = self.find(id).is_some_and(|at| {
            let held = &self.opens[at];
            held.access.intersects(COUNTED) && !held.share.contains(Share::DELETE)
        });
        self.counts.denies[2] > u32::from(own)
    }

    /// Whether an open has the right to delete: nothing may be opened that does not share that.
    #[must_use]
    pub fn is_open_for_delete(&self) -> bool {
        self.counts.uses[2] > 0
    }

    /// Whether every open lets its name be taken by another file, or its
    /// directory be renamed.
    #[must_use]
    pub fn all_posix(&self) -> bool {
        self.opens.iter().all(|held| held.posix)
    }

    /// Number of opens.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.opens.len()
    }

    /// Whether all opens are under leases that keep handles, or there for delegations:
    /// perhaps no program has the file open any more.
    #[must_use]
    pub fn is_open_by_handles_only(&self) -> bool {
        self.opens.iter().all(|held| {
            let keeps = |key| self.caches.of(CacheOwner::Key(key)).contains(Caching::HANDLE);
            held.firm || held.key.is_some_and(keeps)
        })
    }

    /// Whose caching an open comes under.
    #[must_use]
    pub fn owner(&self, id: OpenId) -> CacheOwner {
        owner(id, self.find(id).and_then(|at| self.opens[at].key))
    }

    /// Whether `id` is held.
    #[must_use]
    pub fn is_open(&self, id: OpenId) -> bool {
        self.find(id).is_some()
    }

    /// Whether nothing is held and nothing is going on: the file can be forgotten.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.opens.is_empty() && self.doomed.is_empty()
    }

    fn find(&self, id: OpenId) -> Option<usize> {
        self.opens.binary_search_by_key(&id, |held| held.id).ok()
    }

    fn doom(&mut self, link: LinkId) {
        if !self.doomed.contains(&link) {
            self.doomed.push(link);
        }
    }
}

/// How many opens use each of [`KINDS`], and how many deny it. Opens without
/// any counted right are in neither: MS-FSA 2.1.5.1.2 checks sharing only
/// where such a right is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    uses: [u32; 3],
    denies: [u32; 3],
}

impl Counts {
    fn conflict(&self, access: Access, share: Share) -> bool {
        access.intersects(COUNTED)
            && KINDS.iter().zip(0..).any(|(&(rights, shared), kind): (_, usize)| {
                (access.intersects(rights) && self.denies[kind] > 0)
                    || (!share.contains(shared) && self.uses[kind] > 0)
            })
    }

    fn add(&mut self, access: Access, share: Share) {
        self.each(access, share, |count| *count += 1);
    }

    fn remove(&mut self, access: Access, share: Share) {
        self.each(access, share, |count| *count -= 1);
    }

    fn each(&mut self, access: Access, share: Share, change: impl Fn(&mut u32)) {
        if !access.intersects(COUNTED) {
            return;
        }
        for (kind, (rights, shared)) in KINDS.into_iter().enumerate() {
            if access.intersects(rights) {
                change(&mut self.uses[kind]);
            }
            if !share.contains(shared) {
                change(&mut self.denies[kind]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
