//! Byte-range locks.

use crate::context::RequestContext;
use crate::table::{LockAnswer, OpenFileState};
use crate::{OpenFile, RequestFiles};
use futures_channel::oneshot;
use grants::{LockProgress, LockRefusal, OpenId, Range, RangeLock, WaitId};
use limits::{LedgerAccount, LedgerHolder};
use std::sync::Arc;
use std::time::Duration;
use vfs::{FsError, Result};

/// Interval at which a lock request checks whether the grace period has ended.
const AWAITED_LOOK: Duration = Duration::from_millis(500);

impl RequestFiles {
    /// Locks all ranges, or none. They are charged to `holder`.
    ///
    /// # Errors
    /// [`FsError::LockNotGranted`], [`FsError::TooMany`], [`FsError::RangeNotLocked`]
    /// if the open has been closed.
    pub fn try_locks(
        &self,
        open: &OpenFile,
        wanted: &[RangeLock],
        holder: &LedgerHolder,
    ) -> Result<()> {
        // RFC 8881 8.4.2.1: reclaims precede new locks during the grace period.
        if !open.is_of_object() && self.table.is_in_grace(&open.volume().vfs) {
            return Err(FsError::LockNotGranted);
        }
        let account = self.lock_ranges.account(holder);
        match try_once(&self.context, open, wanted, &account) {
            Err(FsError::LockNotGranted) if self.table.revoke_courtesy_state(open.key()) => {
                try_once(&self.context, open, wanted, &account)
            }
            other => other,
        }
    }

    /// Locks a range, waiting in order of arrival until it is free. Dropping the future withdraws
    /// the request. It is charged to `holder` from the start.
    ///
    /// # Errors
    /// [`FsError::TooMany`]; [`FsError::RangeNotLocked`] once the open is closed.
    pub async fn lock(
        &self,
        open: &Arc<OpenFile>,
        wanted: RangeLock,
        holder: &LedgerHolder,
    ) -> Result<()> {
        while !open.is_of_object() && self.table.is_in_grace(&open.volume().vfs) {
            self.workers.sleep(AWAITED_LOOK).await;
        }
        let account = self.lock_ranges.account(holder);
        match lock_or_queue(&self.context, open, wanted, &account)? {
            None => Ok(()),
            Some(waiting) => {
                self.table.revoke_courtesy_state(open.key());
                waiting.decision().await.map_err(refused)
            }
        }
    }

    /// Releases one lock.
    ///
    /// # Errors
    /// [`FsError::RangeNotLocked`] if this open has no lock with exactly this range.
    pub fn unlock(&self, open: &OpenFile, range: Range) -> Result<()> {
        self.unlock_all(open, &[range])
    }

    /// Releases one lock for each of the ranges, up to the first that is not locked. Waiting
    /// requests are decided once, afterwards.
    ///
    /// # Errors
    /// [`FsError::RangeNotLocked`] if this open has no lock with exactly one of them.
    pub fn unlock_all(&self, open: &OpenFile, ranges: &[Range]) -> Result<()> {
        open.state.lock(&self.context).grants.locks.handle_unlocks(open.id, ranges).map_err(refused)
    }

    /// Releases those of the locks that the open still holds.
    pub fn release_all(&self, open: &OpenFile, locks: &[RangeLock]) {
        open.state.lock(&self.context).grants.locks.handle_releases(open.id, locks);
    }
}

impl OpenFile {
    /// Whether the open holds byte-range locks.
    #[must_use]
    pub fn has_locks(&self) -> bool {
        self.state.has_locks() && self.state.view().grants.locks.has_of(self.id)
    }

    /// Refuses access that another open's lock forbids: one load without locks.
    ///
    /// # Errors
    /// [`FsError::LockConflict`]; [`FsError::InvalidParameter`] for a range past the last offset.
    pub(crate) fn need_unlocked(&self, offset: u64, length: u64, writes: bool) -> Result<()> {
        let range = Range::new(offset, length).ok_or(FsError::InvalidParameter)?;
        if !self.state.has_locks() || self.is_unlocked(range, writes) {
            return Ok(());
        }
        match self.table.revoke_courtesy_state(self.key()) && self.is_unlocked(range, writes) {
            true => Ok(()),
            false => Err(FsError::LockConflict),
        }
    }

    fn is_unlocked(&self, range: Range, writes: bool) -> bool {
        let held = self.state.view();
        let locks = &held.grants.locks;
        match (self.is_of_object(), writes) {
            (true, writes) => locks.may_use_beside_owners(range, writes),
            (false, true) => locks.may_write(self.id, range),
            (false, false) => locks.may_read(self.id, range),
        }
    }
}

fn try_once(
    context: &RequestContext,
    open: &OpenFile,
    wanted: &[RangeLock],
    account: &Arc<LedgerAccount>,
) -> Result<()> {
    let mut held = open.state.lock(context);
    if !held.grants.is_open(open.id) {
        return Err(FsError::RangeNotLocked);
    }
    let charged = held.charge_ranges(open.id, wanted.len(), account);
    let locked = charged.and_then(|()| {
        held.grants.caches.handle_change(open.cache_owner());
        held.grants.locks.handle_locks(open.id, wanted).map_err(refused)
    });
    held.settle_ranges(open.id);
    locked
}

/// Locks at once, or queues the request.
fn lock_or_queue(
    context: &RequestContext,
    open: &OpenFile,
    wanted: RangeLock,
    account: &Arc<LedgerAccount>,
) -> Result<Option<QueuedLock>> {
    let mut held = open.state.lock(context);
    if !held.grants.is_open(open.id) {
        return Err(FsError::RangeNotLocked);
    }
    let charged = held.charge_ranges(open.id, 1, account);
    let locking = charged.and_then(|()| {
        held.grants.caches.handle_change(open.cache_owner());
        held.grants.locks.handle_lock_or_wait(open.id, wanted).map_err(refused)
    });
    held.settle_ranges(open.id);
    match locking? {
        LockProgress::Granted => Ok(None),
        LockProgress::Waits(wait) => {
            let (sender, receiver): (LockAnswer, _) = oneshot::channel();
            held.expect_decision(wait, sender);
            Ok(Some(QueuedLock {
                state: open.state.clone(),
                open: open.id,
                wanted,
                wait,
                receiver: Some(receiver),
            }))
        }
    }
}

/// A queued request, withdrawn on drop.
struct QueuedLock {
    state: Arc<OpenFileState>,
    open: OpenId,
    wanted: RangeLock,
    wait: WaitId,
    /// Taken once the decision has arrived.
    receiver: Option<oneshot::Receiver<std::result::Result<(), LockRefusal>>>,
}

impl QueuedLock {
    async fn decision(mut self) -> std::result::Result<(), LockRefusal> {
        let receiver = self.receiver.as_mut().expect("taken only here and on drop");
        let decided = receiver.await;
        self.receiver = None;
        // The sender is dropped only with the file's state.
        decided.unwrap_or(Err(LockRefusal::NotLocked))
    }
}

impl Drop for QueuedLock {
    fn drop(&mut self) {
        let Some(receiver) = &mut self.receiver else { return };
        let mut held = self.state.lock(&RequestContext::SERVER);
        if held.cancel_wait(self.wait) {
            return;
        }
        // The request was decided already. Closing first makes it certain: a decision in the
        // channel is visible, and a later one finds no receiver. The lock is released here in both
        // cases.
        receiver.close();
        let refused = matches!(receiver.try_recv(), Ok(Some(Err(_))));
        if !refused {
            // No effect if the open was closed since.
            held.grants.locks.handle_releases(self.open, &[self.wanted]);
        }
    }
}

pub(crate) fn refused(refusal: LockRefusal) -> FsError {
    match refusal {
        LockRefusal::Conflict => FsError::LockNotGranted,
        LockRefusal::NotLocked => FsError::RangeNotLocked,
        LockRefusal::TooMany => FsError::TooMany,
    }
}
