//! Byte-range locks: LOCK, LOCKT, LOCKU. RFC 8881 18.10 to 18.12.

use crate::codec::DecodeError;
use crate::nfs::reply::ResultBody;
use crate::nfs::xdr::{Decode, Encode, XdrReader, XdrWriter, xdr_struct};
use crate::nfs::{LockType, NfsStatus, StateId, StateOwner};

xdr_struct! {
    /// LOCK's arguments.
    #[derive(Copy)]
    struct LockArgs<'a> {
        /// Shared or exclusive.
        lock_type: LockType,
        /// True if the client reclaims a lock after a server restart.
        reclaim: bool,
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes; all ones extends to the end of the file.
        length: u64,
        /// The lock owner.
        locker: Locker<'a>,
    }

    /// The first lock of an owner on a file: `open_to_lock_owner4`.
    #[derive(Copy)]
    struct OpenToLockOwner<'a> {
        /// Unused since version 4.1.
        open_sequence_id: u32,
        /// State id of the open that the locks belong to.
        open_state_id: StateId,
        /// Unused since version 4.1.
        lock_sequence_id: u32,
        /// The lock owner.
        lock_owner: StateOwner<'a>,
    }

    /// A further lock of an owner on a file: `exist_lock_owner4`.
    #[derive(Copy)]
    struct ExistingLockOwner {
        /// State id of the owner's locks on the file.
        lock_state_id: StateId,
        /// Unused since version 4.1.
        lock_sequence_id: u32,
    }

    /// A conflicting lock: `LOCK4denied`.
    #[derive(Copy)]
    struct LockDenied<'a> {
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes; all ones extends to the end of the file.
        length: u64,
        /// Shared or exclusive.
        lock_type: LockType,
        /// Owner of the conflicting lock.
        owner: StateOwner<'a>,
    }

    /// LOCKT's arguments.
    #[derive(Copy)]
    struct LockTestArgs<'a> {
        /// Shared or exclusive.
        lock_type: LockType,
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes; all ones extends to the end of the file.
        length: u64,
        /// The lock owner.
        owner: StateOwner<'a>,
    }

    /// LOCKU's arguments. The result is the [`StateId`].
    #[derive(Copy)]
    struct UnlockArgs {
        /// Ignored.
        lock_type: LockType,
        /// Unused since version 4.1.
        sequence_id: u32,
        /// State id of the owner's locks on the file.
        lock_state_id: StateId,
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes; all ones extends to the end of the file.
        length: u64,
    }
}

/// The lock owner of LOCK: `locker4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locker<'a> {
    /// The owner has no locks on the file yet.
    New(OpenToLockOwner<'a>),
    /// The owner has locks on the file.
    Existing(ExistingLockOwner),
}

impl<'a> Decode<'a> for Locker<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        if r.bool("new_lock_owner")? { r.get().map(Self::New) } else { r.get().map(Self::Existing) }
    }
}

impl Encode for Locker<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::New(owner) => {
                w.bool(true);
                w.put(owner);
            }
            Self::Existing(owner) => {
                w.bool(false);
                w.put(owner);
            }
        }
    }
}

/// LOCK's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockReply<'a> {
    /// State id of the owner's locks on the file.
    Granted(StateId),
    /// DENIED: another owner holds a conflicting lock.
    Denied(LockDenied<'a>),
    /// Another failure.
    Failed(NfsStatus),
}

impl<'a> ResultBody<'a> for LockReply<'a> {
    fn status(&self) -> NfsStatus {
        match self {
            Self::Granted(_) => NfsStatus::OK,
            Self::Denied(_) => NfsStatus::DENIED,
            Self::Failed(status) => *status,
        }
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        match status {
            NfsStatus::OK => r.get().map(Self::Granted),
            NfsStatus::DENIED => r.get().map(Self::Denied),
            _ => Ok(Self::Failed(status)),
        }
    }

    fn encode_body(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Granted(state_id) => w.put(state_id),
            Self::Denied(denied) => w.put(denied),
            Self::Failed(_) => {}
        }
    }
}

/// LOCKT's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockTestReply<'a> {
    /// No conflict: the lock would be granted.
    Free,
    /// DENIED: another owner holds a conflicting lock.
    Denied(LockDenied<'a>),
    /// Another failure.
    Failed(NfsStatus),
}

impl<'a> ResultBody<'a> for LockTestReply<'a> {
    fn status(&self) -> NfsStatus {
        match self {
            Self::Free => NfsStatus::OK,
            Self::Denied(_) => NfsStatus::DENIED,
            Self::Failed(status) => *status,
        }
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        match status {
            NfsStatus::OK => Ok(Self::Free),
            NfsStatus::DENIED => r.get().map(Self::Denied),
            _ => Ok(Self::Failed(status)),
        }
    }

    fn encode_body(&self, w: &mut XdrWriter<'_>) {
        if let Self::Denied(denied) = self {
            w.put(denied);
        }
    }
}
