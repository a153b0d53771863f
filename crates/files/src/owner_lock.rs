//! Byte-range locks as POSIX has them: of an owner rather than of an open, which merge
//! and split. They meet the locks of opens in one list ([`grants::RangeLocks`]).
//! RFC 8881 9, 18.10 to 18.12.

use crate::context::RequestContext;
use crate::lock::refused;
use crate::table::{FileState, LockAnswer};
use crate::{Object, OpenFile, RequestFiles};
use futures_channel::oneshot;
use grants::{LockHeld, LockOwner, OwnerLocking, Range, RangeLock, WaitId};
use std::sync::Arc;
use vfs::{FsError, Result};

impl RequestFiles {
    /// Locks a range for `owner`, in place of what it has of it already: part of a lock
    /// may become another kind. `open` is what it is locked by, and gone with.
    ///
    /// # Errors
    /// [`FsError::InvalidParameter`] for an empty range; [`FsError::TooMany`];
    /// [`FsError::RangeNotLocked`] if the open has been closed, or another has taken its place.
    pub fn lock_owned(
        &self,
        open: &OpenFile,
        owner: LockOwner,
        wanted: RangeLock,
    ) -> Result<OwnerLocking> {
        if wanted.range.length == 0 {
            return Err(FsError::InvalidParameter);
        }
        let locking = lock_once(&self.context, open, owner, wanted)?;
        let is_denied = matches!(locking, OwnerLocking::Denied(_));
        match is_denied && self.table.let_go(open.key()) {
            true => lock_once(&self.context, open, owner, wanted),
            false => Ok(locking),
        }
    }

    /// Unlocks what `owner` has of the range, if anything.
    ///
    /// # Errors
    /// [`FsError::TooMany`] if it would leave more locks than there may be.
    pub fn unlock_owned(&self, open: &OpenFile, owner: LockOwner, range: Range) -> Result<()> {
        open.state
            .lock(&self.context)
            .grants
            .locks
            .handle_owner_unlock(owner, range)
            .map_err(refused)
    }

    /// The lock that keeps `owner` (none: anybody) from this one, if any does. Needs no
    /// open.
    #[must_use]
    pub fn find_lock(
        &self,
        object: &Object,
        owner: Option<LockOwner>,
        wanted: RangeLock,
    ) -> Option<LockHeld> {
        let find = || self.table.find(object.key())?.look().grants.locks.find(owner, wanted);
        let held = find()?;
        if self.table.let_go(object.key()) { find() } else { Some(held) }
    }

    /// Ends when a lock that could not be had can be tried for again: nothing is locked
    /// by it. Who came first is told first. Dropping the future withdraws.
    ///
    /// # Errors
    /// [`FsError::TooMany`]; [`FsError::RangeNotLocked`] once the open is closed.
    pub async fn until_unlocked(
        &self,
        open: &Arc<OpenFile>,
        owner: LockOwner,
        wanted: RangeLock,
    ) -> Result<()> {
        let (tell, told): (LockAnswer, _) = oneshot::channel();
        let waiting = {
            let mut held = open.state.lock(&self.context);
            if !held.grants.is_open(open.id) {
                return Err(FsError::RangeNotLocked);
            }
            let wait = held.grants.locks.handle_owner_wait(open.id, owner, wanted);
            let wait = wait.map_err(refused)?;
            held.expect_decision(wait, tell);
            Waiting { state: open.state.clone(), wait }
        };
        let decided = told.await;
        drop(waiting);
        // The teller goes only with the file itself.
        decided.map_or(Err(FsError::RangeNotLocked), |decided| decided.map_err(refused))
    }
}

fn lock_once(
    context: &RequestContext,
    open: &OpenFile,
    owner: LockOwner,
    wanted: RangeLock,
) -> Result<OwnerLocking> {
    let mut held = open.state.lock(context);
    if !held.grants.may_lock(open.id) {
        return Err(FsError::RangeNotLocked);
    }
    let locking = held.grants.locks.handle_owner_lock(open.id, owner, wanted);
    if locking == Ok(OwnerLocking::Granted) {
        held.grants.caches.handle_change(open.cache_owner());
    }
    locking.map_err(refused)
}

impl OpenFile {
    /// Whether `owner` has locks on the file.
    #[must_use]
    pub fn has_locks_of(&self, owner: LockOwner) -> bool {
        self.state.has_locks() && self.state.look().grants.locks.has_of_owner(owner)
    }
}

/// A place in the line, given up when dropped.
struct Waiting {
    state: Arc<FileState>,
    wait: WaitId,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.state.lock(&RequestContext::SERVER).cancel_wait(self.wait);
    }
}
