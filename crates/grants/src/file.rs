//! Opens of one file, their share modes, and which of its names are delete pending. MS-FSA
//! 2.1.5.1.2, 2.1.5.5, 2.1.5.15.3.

mod absence;

use crate::caching::{BreakReason, BreakRequest, GrantRequest};
use crate::{
    Access, BreakNumber, CacheKey, CacheOwner, CacheState, Caches, CachingRights, LinkId, OpenId,
    RangeLocks, insert_exact,
};

pub use absence::Absence;

/// Share mode: access that an open permits to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareMode(pub u32);

impl ShareMode {
    /// Others may read.
    pub const READ: Self = Self(1);
    /// Others may write.
    pub const WRITE: Self = Self(2);
    /// Others may delete and rename.
    pub const DELETE: Self = Self(4);
    /// Others may do anything.
    pub const ALL: Self = Self(7);

    /// Whether the set contains all of `other`.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Parameters of an open request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenWish {
    /// Identifier of the open.
    pub id: OpenId,
    /// Name through which the file is opened.
    pub link: LinkId,
    /// Whether the file has only this name, so that deleting any name deletes this one.
    pub only_link: bool,
    /// Rights of the open.
    pub access: Access,
    /// Rights that only the opening uses: an overwrite is a write, which others may deny.
    pub opening_access: Access,
    /// Share mode.
    pub share: ShareMode,
    /// Whether the name is deleted when this open is closed.
    pub delete_on_close: bool,
    /// Requested caching.
    pub caching: CachingRights,
    /// Whether POSIX rules apply: the name may be removed or replaced while the file is open.
    pub posix: bool,
    /// Lease or delegation key that the client's opens of the file share.
    pub key: Option<CacheKey>,
    /// Initial epoch of a new lease.
    pub epoch: u16,
    /// File size in bytes: locks beyond it do not prevent caching.
    pub size_bytes: u64,
    /// Open that this one replaces.
    pub instead_of: Option<OpenId>,
    /// Whether the open represents a delegation and makes no access of its own.
    pub is_delegation: bool,
}

impl OpenWish {
    /// An open without caching; the caller sets the link.
    #[must_use]
    pub fn new(id: OpenId, access: Access, share: ShareMode) -> Self {
        Self {
            id,
            link: LinkId::default(),
            only_link: false,
            access,
            opening_access: Access::NONE,
            share,
            delete_on_close: false,
            caching: CachingRights::NONE,
            key: None,
            epoch: 0,
            size_bytes: u64::MAX,
            posix: false,
            instead_of: None,
            is_delegation: false,
        }
    }

    /// Owner of the open's caching.
    #[must_use]
    pub fn owner(&self) -> CacheOwner {
        owner(self.id, self.key)
    }

    fn used(&self) -> Access {
        self.access | self.opening_access
    }

    /// Whether the open denies shared deletion; only an open with a right in `COUNTED` denies
    /// anything.
    #[must_use]
    pub fn denies_delete(&self) -> bool {
        self.used().intersects(COUNTED) && !self.share.contains(ShareMode::DELETE)
    }
}

fn owner(id: OpenId, key: Option<CacheKey>) -> CacheOwner {
    key.map_or(CacheOwner::Open(id), CacheOwner::Key)
}

/// Operation that waits after [`GrantRefusal::Breaking`] or a name change's break, for
/// [`FileGrants::holds_up`].
#[derive(Clone, Copy, Debug)]
pub enum BlockedOperation {
    /// An open.
    Open(OpenWish),
    /// A name change, which waits until no lease of another owner has handle caching.
    NameChange(CacheOwner),
    /// A recall, which waits until no other owner has a delegation.
    Recall(CacheOwner),
}

/// Reason why an open is not possible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRefusal {
    /// The name is delete pending.
    DeletePending,
    /// The access or share mode conflicts with another open.
    ShareViolation,
    /// Breaks were sent. Retry once [`Caches::poll_settled`] reports, or after
    /// [`Caches::handle_timeout`] with this number.
    Breaking(BreakNumber),
    /// An absent client's open conflicts and no break can resolve it: see
    /// [`Absence::RetainsCaching`].
    ClientAbsent,
    /// [`FileGrants::OPENS_MAX`] is reached.
    TooMany,
}

/// Result of a close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloseOutcome {
    /// Whether the file has no opens left.
    pub last: bool,
    /// Name that the caller must remove, then report with [`FileGrants::handle_removed`]. It cannot
    /// be opened until then.
    pub remove: Option<LinkId>,
}

/// A registered open.
#[derive(Clone, Copy, Debug)]
struct FileOpen {
    id: OpenId,
    link: LinkId,
    access: Access,
    share: ShareMode,
    delete_on_close: bool,
    posix: bool,
    key: Option<CacheKey>,
    /// Absence of its client: see [`FileGrants::set_absence`].
    absent: Option<Absence>,
    /// See [`OpenWish::is_delegation`].
    is_delegation: bool,
}

/// All grants on one file.
///
/// It has no clock, lock or effects: inputs are `handle_*`, and effects for the caller are returned
/// or taken with `poll_*` ([`RangeLocks`]).
#[derive(Debug, Default)]
pub struct FileGrants {
    /// Opens by identifier, which is the order of opening.
    opens: Vec<FileOpen>,
    /// Number of opens that use or deny each kind of access: the share check reads these six
    /// numbers only.
    counts: AccessCounts,
    /// Delete-pending names, seldom more than one.
    delete_pending: Vec<LinkId>,
    /// Names in removal: see [`CloseOutcome::remove`].
    in_removal: Vec<LinkId>,
    links: u64,
    /// Opens with more than attribute access.
    non_stat_opens: usize,
    /// Opens whose clients are absent.
    absent: usize,
    /// Oplocks, leases and delegations.
    pub caches: Caches,
    /// Byte-range locks.
    pub locks: RangeLocks,
}

/// Rights that take part in share mode checks; attribute access never conflicts.
const COUNTED: Access = Access(
    Access::READ_DATA.0
        | Access::WRITE_DATA.0
        | Access::APPEND_DATA.0
        | Access::EXECUTE.0
        | Access::DELETE.0,
);
/// Rights that do not affect caches: such an open neither breaks nor prevents an oplock. MS-FSA
/// 2.1.5.1.2.
const STAT_RIGHTS: Access =
    Access(Access::READ_ATTRIBUTES.0 | Access::WRITE_ATTRIBUTES.0 | Access::SYNCHRONIZE.0);
/// The same for leases, which READ_CONTROL does not affect either.
const LEASE_STAT_RIGHTS: Access = Access(STAT_RIGHTS.0 | Access::READ_CONTROL.0);
/// Rights that conflict with a read delegation.
const CONFLICTS_WITH_READ_DELEGATION: Access =
    Access(Access::WRITE_DATA.0 | Access::APPEND_DATA.0 | Access::DELETE.0);
/// Kinds of access that share modes govern: read, write, delete.
const KINDS: [(Access, ShareMode); 3] = [
    (Access(Access::READ_DATA.0 | Access::EXECUTE.0), ShareMode::READ),
    (Access(Access::WRITE_DATA.0 | Access::APPEND_DATA.0), ShareMode::WRITE),
    (Access::DELETE, ShareMode::DELETE),
];

impl FileGrants {
    /// Limit of opens of one file: a table of a few megabytes.
    pub const OPENS_MAX: usize = 1 << 16;

    /// Assigns an identifier to a name without opens.
    pub fn new_link(&mut self) -> LinkId {
        self.links += 1;
        LinkId(self.links)
    }

    /// Checks whether an open is possible now, without registering it.
    ///
    /// # Errors
    /// See [`GrantRefusal`].
    pub fn check_open(&self, wish: &OpenWish) -> Result<(), GrantRefusal> {
        if self.delete_pending.contains(&wish.link)
            || (wish.only_link && !self.delete_pending.is_empty())
        {
            return Err(GrantRefusal::DeletePending);
        }
        if self.opens.len() >= Self::OPENS_MAX {
            return Err(GrantRefusal::TooMany);
        }
        if self.absent > 0
            && !STAT_RIGHTS.contains(wish.access | wish.opening_access)
            && self.is_blocked_by_absent()
        {
            return Err(GrantRefusal::ClientAbsent);
        }
        let mut counts = self.counts;
        if let Some(at) = wish.instead_of.and_then(|id| self.find(id)) {
            let before = &self.opens[at];
            counts.remove(before.access, before.share);
        }
        if counts.conflict(wish.access | wish.opening_access, wish.share) {
            return Err(GrantRefusal::ShareViolation);
        }
        Ok(())
    }

    /// Registers an open, and returns its client's caching. Its identifier must be larger than all
    /// earlier ones.
    ///
    /// # Errors
    /// See [`GrantRefusal`]; only breaks may have begun then.
    pub fn handle_open(&mut self, wish: &OpenWish) -> Result<CacheState, GrantRefusal> {
        self.request_breaks(wish)?;
        let OpenWish {
            id, link, access, share, delete_on_close, key, posix, is_delegation, ..
        } = *wish;
        let is_non_stat = !STAT_RIGHTS.contains(access);
        let state = self.grant(wish, is_non_stat);
        // Two opens may reach the table out of order: the list is nearly sorted.
        let at = self.opens.partition_point(|held| held.id < id);
        let absent = None;
        let held = FileOpen {
            id,
            link,
            access,
            share,
            delete_on_close,
            key,
            posix,
            absent,
            is_delegation,
        };
        insert_exact(&mut self.opens, at, held);
        self.counts.add(access, share);
        self.non_stat_opens += usize::from(is_non_stat);
        Ok(state)
    }

    /// Completes the replacement of the open `before`: it loses its rights and share denials, and
    /// its locks pass to `id`. Until then it is unchanged, since the new open may fail.
    pub fn handle_replaced(&mut self, before: OpenId, id: OpenId) {
        if self.handle_downgrade(before, Access::NONE, ShareMode::ALL) {
            self.locks.handle_transfer(before, id);
        }
    }

    /// Whether the open may lock ranges: it exists and was not replaced.
    #[must_use]
    pub fn may_lock(&self, id: OpenId) -> bool {
        self.find(id).is_some_and(|at| self.opens[at].access != Access::NONE)
    }

    /// Reduces an open to these rights and this share mode. Returns false if it does not exist.
    pub fn handle_downgrade(&mut self, id: OpenId, access: Access, share: ShareMode) -> bool {
        let Some(at) = self.find(id) else { return false };
        let open = self.opens[at];
        self.counts.remove(open.access, open.share);
        self.counts.add(access, share);
        (self.opens[at].access, self.opens[at].share) = (access, share);
        let (was_non_stat, is_non_stat) =
            (!STAT_RIGHTS.contains(open.access), !STAT_RIGHTS.contains(access));
        self.non_stat_opens += usize::from(is_non_stat);
        self.non_stat_opens -= usize::from(was_non_stat);
        self.caches.handle_downgrade(owner(id, open.key), was_non_stat, is_non_stat);
        true
    }

    /// Begins the breaks that an open needs, without registering it.
    ///
    /// # Errors
    /// See [`GrantRefusal`].
    pub fn request_breaks(&mut self, wish: &OpenWish) -> Result<(), GrantRefusal> {
        loop {
            let fits = self.check_open(wish);
            let Some(request) = self.demand(wish, fits) else { return fits };
            if !self.caches.begin_breaks(&request) {
                return fits;
            }
            self.wait_for_breaks(&BlockedOperation::Open(*wish))?;
        }
    }

    /// Breaks handle caching of all leases but that of `by`, since the file's name changes. MS-FSA
    /// 2.1.5.15.3, 2.1.5.15.11.
    ///
    /// # Errors
    /// [`GrantRefusal::Breaking`] if an acknowledgement is outstanding.
    pub fn break_handles(&mut self, by: CacheOwner) -> Result<(), GrantRefusal> {
        while self.caches.handle_name_change(by) {
            self.wait_for_breaks(&BlockedOperation::NameChange(by))?;
        }
        Ok(())
    }

    /// Whether a waiting operation must continue to wait.
    #[must_use]
    pub fn holds_up(&self, awaited: &BlockedOperation) -> bool {
        self.is_blocked(awaited) && self.absent_blocker(awaited).is_none()
    }

    fn is_blocked(&self, awaited: &BlockedOperation) -> bool {
        match awaited {
            BlockedOperation::Open(wish) => self
                .demand(wish, self.check_open(wish))
                .is_some_and(|request| self.caches.holds_up(&request)),
            BlockedOperation::NameChange(by) => self.caches.has_handle_caching(*by),
            BlockedOperation::Recall(by) => self.caches.has_delegations(*by),
        }
    }

    fn grant(&mut self, wish: &OpenWish, is_non_stat: bool) -> CacheState {
        let owner = wish.owner();
        if wish.key.is_none() && wish.caching == CachingRights::NONE {
            return CacheState::default();
        }
        self.caches.grant(&GrantRequest {
            owner,
            wanted: wish.caching,
            epoch: wish.epoch,
            is_non_stat,
            others_are_non_stat: self.non_stat_opens > self.caches.non_stat_opens(owner),
            has_locks: wish.opening_access == Access::NONE
                && self.locks.has_before(wish.size_bytes),
            is_delegation: wish.is_delegation,
            others_conflict: wish.is_delegation && self.others_conflict(wish),
        })
    }

    /// Whether another open writes, or denies access that the delegation grants its client.
    fn others_conflict(&self, wish: &OpenWish) -> bool {
        let needs = if wish.caching.contains(CachingRights::WRITE) {
            ShareMode(ShareMode::READ.0 | ShareMode::WRITE.0)
        } else {
            ShareMode::READ
        };
        self.opens.iter().any(|held| {
            owner(held.id, held.key) != wish.owner()
                && held.access.intersects(COUNTED)
                && (held.access.intersects(CONFLICTS_WITH_READ_DELEGATION)
                    || !held.share.contains(needs))
        })
    }

    /// Restores the caching of a restored open as far as the others permit. Call it once all opens
    /// are restored.
    pub fn restore_caching(&mut self, id: OpenId, had: CacheState) {
        let Some(at) = self.find(id) else { return };
        let FileOpen { access, key, .. } = self.opens[at];
        let owner = owner(id, key);
        let is_non_stat = !STAT_RIGHTS.contains(access);
        let own = match key {
            Some(_) => self.caches.non_stat_opens(owner),
            None => usize::from(is_non_stat),
        };
        self.caches.restore(&GrantRequest {
            owner,
            wanted: had.has,
            epoch: had.epoch,
            is_non_stat,
            others_are_non_stat: self.non_stat_opens > own,
            has_locks: false,
            is_delegation: false,
            others_conflict: false,
        });
    }

    /// The breaks that an open requires, if any.
    fn demand(&self, wish: &OpenWish, fits: Result<(), GrantRefusal>) -> Option<BreakRequest> {
        let demand = match fits {
            _ if STAT_RIGHTS.contains(wish.used()) => return None,
            Ok(()) if wish.opening_access == Access::NONE => BreakReason::Share,
            Ok(()) => BreakReason::Replace,
            Err(GrantRefusal::ShareViolation) => BreakReason::Conflict,
            Err(_) => return None,
        };
        let spares_leases = LEASE_STAT_RIGHTS.contains(wish.used());
        let conflicts_with_read = wish.used().intersects(CONFLICTS_WITH_READ_DELEGATION)
            || (wish.used().intersects(COUNTED) && !wish.share.contains(ShareMode::READ));
        Some(BreakRequest { demand, by: wish.owner(), spares_leases, conflicts_with_read })
    }

    /// Withdraws an open and its locks, and refuses its waiting lock requests. An unknown open has
    /// no effect.
    pub fn handle_close(&mut self, id: OpenId) -> CloseOutcome {
        let Some(at) = self.find(id) else { return CloseOutcome::default() };
        let open = self.opens.remove(at);
        self.counts.remove(open.access, open.share);
        let was_non_stat = !STAT_RIGHTS.contains(open.access);
        self.non_stat_opens -= usize::from(was_non_stat);
        self.absent -= usize::from(open.absent.is_some());
        self.locks.handle_close(id);
        self.caches.handle_close(owner(id, open.key), was_non_stat);
        if open.delete_on_close {
            self.mark_delete_pending(open.link);
        }
        let link = open.link;
        // POSIX opens do not pin a name. MS-FSA 2.1.5.5 requires the last open.
        let is_pinned = self.opens.iter().any(|held| held.link == link && !held.posix);
        let removes =
            !is_pinned && self.delete_pending.contains(&link) && !self.in_removal.contains(&link);
        if removes {
            self.in_removal.push(link);
        }
        CloseOutcome { last: self.opens.is_empty(), remove: removes.then_some(link) }
    }

    /// Withdraws a failed open: its delete on close has no effect.
    pub fn handle_withdraw(&mut self, id: OpenId) -> CloseOutcome {
        if let Some(at) = self.find(id) {
            self.opens[at].delete_on_close = false;
        }
        self.handle_close(id)
    }

    /// Ends the removal of [`CloseOutcome::remove`], successful or not: an existing name can be
    /// opened again.
    pub fn handle_removed(&mut self, link: LinkId) {
        self.delete_pending.retain(|delete_pending| *delete_pending != link);
        self.in_removal.retain(|in_removal| *in_removal != link);
    }

    /// Sets or clears delete pending for the name of `id`.
    pub fn handle_disposition(&mut self, id: OpenId, delete: bool) {
        let Some(at) = self.find(id) else { return };
        let link = self.opens[at].link;
        if self.in_removal.contains(&link) {
            return;
        }
        self.delete_pending.retain(|delete_pending| *delete_pending != link);
        if delete {
            self.mark_delete_pending(link);
        }
    }

    /// Sets delete on close for an open.
    pub fn set_delete_on_close(&mut self, id: OpenId) {
        if let Some(at) = self.find(id) {
            self.opens[at].delete_on_close = true;
        }
    }

    /// Whether a name is delete pending.
    #[must_use]
    pub fn is_delete_pending(&self, link: LinkId) -> bool {
        self.delete_pending.contains(&link)
    }

    /// Whether an open other than `id` denies shared deletion, which forbids rename and
    /// replacement.
    #[must_use]
    pub fn others_forbid_delete(&self, id: OpenId) -> bool {
        let own = self.find(id).is_some_and(|at| {
            let held = &self.opens[at];
            held.access.intersects(COUNTED) && !held.share.contains(ShareMode::DELETE)
        });
        self.counts.denies[2] > u32::from(own)
    }

    /// Whether an open has DELETE, which an open that denies shared deletion conflicts with.
    #[must_use]
    pub fn is_open_for_delete(&self) -> bool {
        self.counts.uses[2] > 0
    }

    /// Whether every open tolerates that its name is replaced or its directory renamed.
    #[must_use]
    pub fn all_posix(&self) -> bool {
        self.opens.iter().all(|held| held.posix)
    }

    /// Number of opens.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.opens.len()
    }

    /// Whether all opens have handle caching or are delegations: perhaps no program has the file
    /// open.
    #[must_use]
    pub fn is_open_by_handles_only(&self) -> bool {
        self.opens.iter().all(|held| {
            let keeps = |key| self.caches.of(CacheOwner::Key(key)).contains(CachingRights::HANDLE);
            held.is_delegation || held.key.is_some_and(keeps)
        })
    }

    /// Owner of an open's caching.
    #[must_use]
    pub fn owner(&self, id: OpenId) -> CacheOwner {
        owner(id, self.find(id).and_then(|at| self.opens[at].key))
    }

    /// Whether the open exists.
    #[must_use]
    pub fn is_open(&self, id: OpenId) -> bool {
        self.find(id).is_some()
    }

    /// Whether nothing is open or in removal, so that the state can be dropped.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.opens.is_empty() && self.delete_pending.is_empty()
    }

    fn find(&self, id: OpenId) -> Option<usize> {
        self.opens.binary_search_by_key(&id, |held| held.id).ok()
    }

    fn mark_delete_pending(&mut self, link: LinkId) {
        if !self.delete_pending.contains(&link) {
            self.delete_pending.push(link);
        }
    }
}

/// Number of opens that use each of [`KINDS`], and that deny it. Opens without a counted right are
/// in neither: MS-FSA 2.1.5.1.2 checks sharing only where such a right is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AccessCounts {
    uses: [u32; 3],
    denies: [u32; 3],
}

impl AccessCounts {
    fn conflict(&self, access: Access, share: ShareMode) -> bool {
        access.intersects(COUNTED)
            && KINDS.iter().zip(0..).any(|(&(rights, shared), kind): (_, usize)| {
                (access.intersects(rights) && self.denies[kind] > 0)
                    || (!share.contains(shared) && self.uses[kind] > 0)
            })
    }

    fn add(&mut self, access: Access, share: ShareMode) {
        self.each(access, share, |count| *count += 1);
    }

    fn remove(&mut self, access: Access, share: ShareMode) {
        self.each(access, share, |count| *count -= 1);
    }

    fn each(&mut self, access: Access, share: ShareMode, change: impl Fn(&mut u32)) {
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
