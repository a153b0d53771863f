//! Byte-range locks. RFC 8881 9, 18.10, 18.12.

use super::client::refused;
use super::export::{Export, File, PUT, for_put, put, result};
use crate::error::Error;
use wire::nfs::ops::{LockArgs, Locker, OpenToLockOwner, UnlockArgs};
use wire::nfs::xdr::Opaque;
use wire::nfs::{LockType, Operation, OperationNumber, StateId, StateOwner};

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// From where, in bytes.
    pub offset: u64,
    /// How much, in bytes; all ones is to the end.
    pub length: u64,
}

/// A range that this client has locked.
#[derive(Debug)]
pub struct Locked {
    state_id: StateId,
    range: Range,
}

impl Export {
    /// Locks a range of an open file for `owner`: for itself, or against writing. Does not wait.
    ///
    /// # Errors
    /// DENIED by what others have locked; else see [`Export::make_directory`].
    pub async fn lock(
        &self,
        file: &File,
        owner: &str,
        range: Range,
        is_exclusive: bool,
    ) -> Result<Locked, Error> {
        let client_id = self.client().id();
        // Of each owner's first lock in a file; of a further one the server takes it, too.
        let locker = Locker::New(OpenToLockOwner {
            open_sequence_id: 0,
            open_state_id: file.state_id,
            lock_sequence_id: 0,
            lock_owner: StateOwner { client_id, owner: Opaque(owner.as_bytes()) },
        });
        let lock_type = if is_exclusive { LockType::Write } else { LockType::Read };
        let Range { offset, length } = range;
        let lock = LockArgs { lock_type, reclaim: false, offset, length, locker };
        let answer = self.client().compound(&[put(&file.handle), Operation::Lock(lock)]).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        let number = OperationNumber::LOCK;
        let state_id = results.succeed(number).map_err(refused(number))?;
        Ok(Locked { state_id, range })
    }

    /// Unlocks it.
    ///
    /// # Errors
    /// See [`Export::make_directory`].
    pub async fn unlock(&self, file: &File, locked: Locked) -> Result<(), Error> {
        let Range { offset, length } = locked.range;
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
