//! Byte-range locks.

use crate::{Files, OpenFile};
use grants::{LockKind, LockRefusal, Range};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use vfs::{FsError, Result};

/// A lock that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLock {
    /// Which bytes.
    pub range: Range,
    /// Against what.
    pub kind: LockKind,
}

impl Files {
    /// Locks all ranges, or none.
    ///
    /// # Errors
    /// [`FsError::LockNotGranted`], [`FsError::TooMany`].
    pub fn try_locks(&self, open: &OpenFile, wanted: &[RangeLock]) -> Result<()> {
        let mut grants = open.state.grants();
        for (done, lock) in wanted.iter().enumerate() {
            if let Err(refusal) = grants.locks.handle_lock(open.id, lock.range, lock.kind) {
                for lock in &wanted[..done] {
                    let undone = grants.locks.handle_unlock(open.id, lock.range);
                    debug_assert!(undone.is_ok(), "it was locked a moment ago");
                }
                open.state.note_locks(&grants);
                return Err(refused(refusal));
            }
        }
        open.state.note_locks(&grants);
        Ok(())
    }

    /// Locks a range, waiting until it is free. Dropping the future withdraws.
    ///
    /// # Errors
    /// [`FsError::TooMany`].
    pub async fn lock(&self, open: &Arc<OpenFile>, wanted: RangeLock) -> Result<()> {
        poll_fn(|cx| {
            // Registered before the look: a release in between wakes us.
            open.state.add_lock_waiter(cx.waker());
            match self.try_locks(open, &[wanted]) {
                Err(FsError::LockNotGranted) => Poll::Pending,
                other => Poll::Ready(other),
            }
        })
        .await
    }

    /// Gives one lock back.
    ///
    /// # Errors
    /// [`FsError::RangeNotLocked`] if this open has no lock with exactly this range.
    pub fn unlock(&self, open: &OpenFile, range: Range) -> Result<()> {
        let mut grants = open.state.grants();
        let result = grants.locks.handle_unlock(open.id, range).map_err(refused);
        open.state.note_locks(&grants);
        drop(grants);
        if result.is_ok() {
            open.state.wake_lock_waiters();
        }
        result
    }
}

fn refused(refusal: LockRefusal) -> FsError {
    match refusal {
        LockRefusal::Conflict => FsError::LockNotGranted,
        LockRefusal::NotLocked => FsError::RangeNotLocked,
        LockRefusal::TooMany => FsError::TooMany,
    }
}
