//! POSIX byte-range locks: they belong to a lock owner instead of an open, and merge and split.
//! They share one list with the locks of opens ([`grants::RangeLocks`]). RFC 8881 9, 18.10 to
//! 18.12.

use crate::context::RequestContext;
use crate::lock::refused;
use crate::table::{LockAnswer, OpenFileState};
use crate::{Object, OpenFile, RequestFiles};
use futures_channel::oneshot;
use grants::{ConflictingLock, LockOwner, OwnerLockOutcome, Range, RangeLock, WaitId};
use limits::{LedgerAccount, LedgerHolder};
use std::sync::Arc;
use vfs::{FsError, Result};

impl RequestFiles {
    /// Locks a range for `owner`, in place of its present locks there: part of a lock may change
    /// its kind. The lock ends with `open`, and is charged to `holder`.
    ///
    /// # Errors
    /// [`FsError::InvalidParameter`] for an empty range; [`FsError::TooMany`];
    /// [`FsError::RangeNotLocked`] if the open was closed or replaced.
    pub fn lock_owned(
        &self,
        open: &OpenFile,
        owner: LockOwner,
        wanted: RangeLock,
        holder: &LedgerHolder,
    ) -> Result<OwnerLockOutcome> {
        if wanted.range.length == 0 {
            return Err(FsError::InvalidParameter);
        }
        let account = self.lock_ranges.account(holder);
        let locking = lock_once(&self.context, open, owner, wanted, &account)?;
        let is_denied = matches!(locking, OwnerLockOutcome::Denied(_));
        match is_denied && self.table.revoke_courtesy_state(open.key()) {
            true => lock_once(&self.context, open, owner, wanted, &account),
            false => Ok(locking),
        }
    }

    /// Releases the locks of `owner` in the range, if any.
    ///
    /// # Errors
    /// [`FsError::TooMany`] if a split would exceed the limit of locks, in total or for `holder`.
    pub fn unlock_owned(
        &self,
        open: &OpenFile,
        owner: LockOwner,
        range: Range,
        holder: &LedgerHolder,
    ) -> Result<()> {
        let account = self.lock_ranges.account(holder);
        let mut held = open.state.lock(&self.context);
        let charged = match held.grants.locks.splits(owner, range) {
            true => held.charge_ranges(open.id, 1, &account),
            false => Ok(()),
        };
        let unlocked = charged
            .and_then(|()| held.grants.locks.handle_owner_unlock(owner, range).map_err(refused));
        held.settle_ranges(open.id);
        unlocked
    }

    /// A lock that conflicts with `wanted` of `owner`, or of any owner if none. Needs no open.
    #[must_use]
    pub fn find_lock(
        &self,
        object: &Object,
        owner: Option<LockOwner>,
        wanted: RangeLock,
    ) -> Option<ConflictingLock> {
        let find = || self.table.find(object.key())?.view().grants.locks.find(owner, wanted);
        let held = find()?;
        if self.table.revoke_courtesy_state(object.key()) { find() } else { Some(held) }
    }

    /// Waits until a denied lock may be retried, in order of arrival; it locks nothing. Dropping
    /// the future withdraws the request.
    ///
    /// # Errors
    /// [`FsError::TooMany`]; [`FsError::RangeNotLocked`] once the open is closed.
    pub async fn wait_for_unlock(
        &self,
        open: &Arc<OpenFile>,
        owner: LockOwner,
        wanted: RangeLock,
    ) -> Result<()> {
        let (sender, receiver): (LockAnswer, _) = oneshot::channel();
        let waiting = {
            let mut held = open.state.lock(&self.context);
            if !held.grants.is_open(open.id) {
                return Err(FsError::RangeNotLocked);
            }
            let wait = held.grants.locks.handle_owner_wait(open.id, owner, wanted);
            let wait = wait.map_err(refused)?;
            held.expect_decision(wait, sender);
            QueuedOwnerLock { state: open.state.clone(), wait }
        };
        let decided = receiver.await;
        drop(waiting);
        // The sender is dropped only with the file's state.
        decided.map_or(Err(FsError::RangeNotLocked), |decided| decided.map_err(refused))
    }
}

fn lock_once(
    context: &RequestContext,
    open: &OpenFile,
    owner: LockOwner,
    wanted: RangeLock,
    account: &Arc<LedgerAccount>,
) -> Result<OwnerLockOutcome> {
    let mut held = open.state.lock(context);
    if !held.grants.may_lock(open.id) {
        return Err(FsError::RangeNotLocked);
    }
    // Charges the new lock and the two pieces of a lock that it may split.
    let charged = held.charge_ranges(open.id, 2, account);
    let locking = charged.and_then(|()| {
        held.grants.locks.handle_owner_lock(open.id, owner, wanted).map_err(refused)
    });
    if locking == Ok(OwnerLockOutcome::Granted) {
        held.grants.caches.handle_change(open.cache_owner());
    }
    held.settle_ranges(open.id);
    locking
}

impl OpenFile {
    /// Whether `owner` holds locks on the file.
    #[must_use]
    pub fn has_locks_of(&self, owner: LockOwner) -> bool {
        self.state.has_locks() && self.state.view().grants.locks.has_of_owner(owner)
    }
}

/// A queued request, withdrawn on drop.
struct QueuedOwnerLock {
    state: Arc<OpenFileState>,
    wait: WaitId,
}

impl Drop for QueuedOwnerLock {
    fn drop(&mut self) {
        self.state.lock(&RequestContext::SERVER).cancel_wait(self.wait);
    }
}
