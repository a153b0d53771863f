//! Byte-range locks. RFC 8881 9, 18.10, 18.12.

use super::client::refused;
use super::export::{NfsExport, NfsFile, PUT, for_put, put, result};
use crate::error::Error;
use wire::nfs::ops::{LockArgs, Locker, OpenToLockOwner, UnlockArgs};
use wire::nfs::xdr::Opaque;
use wire::nfs::{LockType, Operation, OperationNumber, StateId, StateOwner};

/// A byte range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRange {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length, in bytes; all ones extends to the end of the file.
    pub length: u64,
}

/// A byte-range lock that this client holds.
#[derive(Debug)]
pub struct HeldRange {
    state_id: StateId,
    range: LockRange,
}

impl NfsExport {
    /// Locks a range of an open file for `owner`, exclusively or shared. Does not wait.
    ///
    /// # Errors
    /// DENIED for a conflicting lock; otherwise like [`NfsExport::make_directory`].
    pub async fn lock(
        &self,
        file: &NfsFile,
        owner: &str,
        range: LockRange,
        is_exclusive: bool,
    ) -> Result<HeldRange, Error> {
        let client_id = self.client().id();
        // The form for an owner's first lock on a file; servers accept it for further locks, too.
        let locker = Locker::New(OpenToLockOwner {
            open_sequence_id: 0,
            open_state_id: file.state_id,
            lock_sequence_id: 0,
            lock_owner: StateOwner { client_id, owner: Opaque(owner.as_bytes()) },
        });
        let lock_type = if is_exclusive { LockType::Write } else { LockType::Read };
        let LockRange { offset, length } = range;
        let lock = LockArgs { lock_type, reclaim: false, offset, length, locker };
        let answer = self.client().compound(&[put(&file.handle), Operation::Lock(lock)]).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        let number = OperationNumber::LOCK;
        let state_id = results.succeed(number).map_err(refused(number))?;
        Ok(HeldRange { state_id, range })
    }

    /// Unlocks the range.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn unlock(&self, file: &NfsFile, locked: HeldRange) -> Result<(), Error> {
        let LockRange { offset, length } = locked.range;
        let unlock = Operation::Unlock(UnlockArgs {
            lock_type: LockType::Write,
            sequence_id: 0,
            lock_state_id: locked.state_id,
            offset,
            length,
        });
        let answer = self.client().compound(&[put(&file.handle), unlock]).await?;
        result::<StateId>(&answer, PUT, OperationNumber::LOCKU).map(drop)
    }
}
