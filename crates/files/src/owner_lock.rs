//! Byte-range locks as POSIX has them: of an owner rather than of an open, which merge
//! and split. They meet the locks of opens in one list ([`grants::RangeLocks`]).
//! RFC 8881 9, 18.10 to 18.12.

use crate::{Files, Object, OpenFile};
use grants::{LockHeld, LockOwner, OwnerLocking, Range, RangeLock};
use std::sync::Arc;
use vfs::{FsError, Result};

impl Files {
    /// Locks a range for `owner`, in place of what it has of it already: part of a lock
    /// may become another kind. `open` is what it is locked by, and gone with.
    ///
    /// # Errors
    /// [`FsError::TooMany`]; [`FsError::RangeNotLocked`] if the open has been closed.
    pub fn lock_owned(
        &self,
        open: &OpenFile,
        owner: LockOwner,
        wanted: RangeLock,
    ) -> Result<OwnerLocking> {
        let _ = (open, owner, wanted);
        Err(FsError::NotSupported)
    }

    /// Unlocks what `owner` has of the range, if anything.
    ///
    /// # Errors
    /// [`FsError::TooMany`] if it would leave more locks than there may be.
    pub fn unlock_owned(&self, open: &OpenFile, owner: LockOwner, range: Range) -> Result<()> {
        let _ = (open, owner, range);
        Err(FsError::NotSupported)
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
        let _ = (object, owner, wanted);
        None
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
        let _ = (open, owner, wanted);
        Err(FsError::NotSupported)
    }
}

impl OpenFile {
    /// Whether `owner` has locks on the file.
    #[must_use]
    pub fn has_locks_of(&self, owner: LockOwner) -> bool {
        let _ = owner;
        false
    }
}
