//! Byte-range locks: LOCK, LOCKT, LOCKU. RFC 8881 18.10 to 18.12.

use crate::codec::Malformed;
use crate::nfs::reply::Reply;
use crate::nfs::xdr::{Decode, Encode, XdrReader, XdrWriter, xdr_struct};
use crate::nfs::{LockType, NfsStatus, StateId, StateOwner};

xdr_struct! {
    /// LOCK's arguments.
    #[derive(Copy)]
    struct LockArgs<'a> {
        /// Shared or exclusive.
        lock_type: LockType,
        /// Whether it was held before the server restarted.
        reclaim: bool,
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes; all ones is to the end.
        length: u64,
        /// Whose.
        locker: Locker<'a>,
    }

    /// The first lock of an owner on a file: `open_to_lock_owner4`.
    #[derive(Copy)]
    struct OpenToLockOwner<'a> {
        /// Of version 4.0.
        open_sequence_id: u32,
        /// The open that it is made with.
        open_state_id: StateId,
        /// Of version 4.0.
        lock_sequence_id: u32,
        /// Its owner.
        lock_owner: StateOwner<'a>,
    }

    /// A further lock: `exist_lock_owner4`.
    #[derive(Copy)]
    struct ExistingLockOwner {
        /// The owner's locks on the file.
        lock_state_id: StateId,
        /// Of version 4.0.
        lock_sequence_id: u32,
    }

    /// A lock that is in the way: `LOCK4denied`.
    #[derive(Copy)]
    struct LockDenied<'a> {
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes; all ones is to the end.
        length: u64,
        /// Shared or exclusive.
        lock_type: LockType,
        /// Whose.
        owner: StateOwner<'a>,
    }

    /// LOCKT's arguments.
    #[derive(Copy)]
    struct LockTestArgs<'a> {
        /// Shared or exclusive.
        lock_type: LockType,
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes; all ones is to the end.
        length: u64,
        /// Whose.
        owner: StateOwner<'a>,
    }

    /// LOCKU's arguments. The result is the [`StateId`].
    #[derive(Copy)]
    struct UnlockArgs {
        /// Ignored.
        lock_type: LockType,
        /// Of version 4.0.
        sequence_id: u32,
        /// The owner's locks on the file.
        lock_state_id: StateId,
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes; all ones is to the end.
        length: u64,
    }
}

/// Whose lock it is: `locker4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locker<'a> {
    /// The first of its owner on the file.
    New(OpenToLockOwner<'a>),
    /// Not the first.
    Existing(ExistingLockOwner),
}

impl<'a> Decode<'a> for Locker<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
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
    /// The owner's locks on the file.
    Granted(StateId),
    /// Another's lock is in the way: DENIED.
    Denied(LockDenied<'a>),
    /// Something else is.
    Failed(NfsStatus),
}

impl<'a> Reply<'a> for LockReply<'a> {
    fn status(&self) -> NfsStatus {
        match self {
            Self::Granted(_) => NfsStatus::OK,
            Self::Denied(_) => NfsStatus::DENIED,
            Self::Failed(status) => *status,
        }
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
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
    /// A lock would be granted.
    Free,
    /// Another's lock is in the way: DENIED.
    Denied(LockDenied<'a>),
    /// Something else is.
    Failed(NfsStatus),
}

impl<'a> Reply<'a> for LockTestReply<'a> {
    fn status(&self) -> NfsStatus {
        match self {
            Self::Free => NfsStatus::OK,
            Self::Denied(_) => NfsStatus::DENIED,
            Self::Failed(status) => *status,
        }
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
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
