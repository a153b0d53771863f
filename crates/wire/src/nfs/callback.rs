//! What a server asks of a client: CB_COMPOUND and its operations. RFC 8881 20,
//! RFC 7862 16.

use super::attributes::FsId;
use super::compound::{NoResult, Tag};
use super::limits::{NOTIFICATIONS_MAX, REFERRING_CALLS_MAX};
use super::ops::{LayoutIoMode, OpenDelegation, WriteResponse};
use super::reply::Reply;
use super::xdr::{Decode, Encode, List, Reserved, XdrReader, XdrWriter, xdr_struct};
use super::{
    Bitmap4, CallbackNumber, Fattr, FileHandle, NfsStatus, SessionId, StateId, StateOwner,
};
use crate::codec::Malformed;

/// Operations of one callback compound.
const CALLBACK_OPERATIONS_MAX: u32 = 64;

/// Kinds of what a client can give back: numbers in the set of CB_RECALL_ANY.
/// RFC 8881 20.6.
pub mod recallable {
    /// Delegations to read.
    pub const READ_DELEGATION: u32 = 0;
    /// Delegations to write.
    pub const WRITE_DELEGATION: u32 = 1;
    /// Delegations of directories.
    pub const DIRECTORY_DELEGATION: u32 = 2;
    /// Layouts of files.
    pub const FILE_LAYOUT: u32 = 3;
    /// Layouts of blocks.
    pub const BLOCK_LAYOUT: u32 = 4;
}

/// Kinds of news of a directory: numbers in sets. RFC 8881 20.4.
pub mod notification {
    /// An entry's attributes changed.
    pub const CHANGE_CHILD_ATTRS: u32 = 0;
    /// The directory's attributes changed.
    pub const CHANGE_DIR_ATTRS: u32 = 1;
    /// An entry is gone.
    pub const REMOVE_ENTRY: u32 = 2;
    /// An entry is new.
    pub const ADD_ENTRY: u32 = 3;
    /// An entry has another name.
    pub const RENAME_ENTRY: u32 = 4;
    /// The verifier of cookies is another.
    pub const CHANGE_COOKIE_VERIFIER: u32 = 5;
}

xdr_struct! {
    /// CB_GETATTR's arguments. The result is [`Fattr`].
    #[derive(Copy)]
    struct CbGetAttrArgs {
        /// A file that the client has a delegation of.
        handle: FileHandle,
        /// Attributes that are asked for: change and size, times with RFC 9754.
        requested: Bitmap4,
    }

    /// CB_RECALL's arguments.
    #[derive(Copy)]
    struct CbRecallArgs {
        /// The delegation.
        state_id: StateId,
        /// Whether the file is about to become empty, so that writes need not come.
        truncate: bool,
        /// Its file.
        handle: FileHandle,
    }

    /// Layouts of a part of a file: `layoutrecall_file4`.
    #[derive(Copy)]
    struct LayoutRecallFile {
        /// The file.
        handle: FileHandle,
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        /// The layouts.
        state_id: StateId,
    }

    /// CB_LAYOUTRECALL's arguments.
    #[derive(Copy)]
    struct CbLayoutRecallArgs {
        /// Their kind.
        layout_type: u32,
        /// What they are for.
        io_mode: LayoutIoMode,
        /// Whether the file will be elsewhere.
        is_changed: bool,
        /// Which.
        what: LayoutRecall,
    }

    /// News of a directory or a device: `notify4`.
    #[derive(Copy)]
    struct Notification<'a> {
        /// Of which kinds: [`notification`].
        mask: Bitmap4,
        /// What the kinds put there.
        values: &'a [u8],
    }

    /// CB_NOTIFY's arguments.
    struct CbNotifyArgs<'a> {
        /// The delegation.
        state_id: StateId,
        /// Its directory.
        handle: FileHandle,
        /// The news.
        changes: List<Notification<'a>, NOTIFICATIONS_MAX>,
    }

    /// CB_PUSH_DELEG's arguments.
    #[derive(Copy)]
    struct CbPushDelegArgs<'a> {
        /// The file.
        handle: FileHandle,
        /// The delegation.
        delegation: OpenDelegation<'a>,
    }

    /// CB_RECALL_ANY's arguments, and CB_RECALLABLE_OBJ_AVAIL's.
    #[derive(Copy)]
    struct CbRecallAnyArgs {
        /// How much the client may keep.
        objects_to_keep: u32,
        /// Of which kinds: [`recallable`].
        type_mask: Bitmap4,
    }

    /// CB_RECALL_SLOT's arguments.
    #[derive(Copy)]
    struct CbRecallSlotArgs {
        /// The highest slot that the server would like to be used.
        target_highest_slot_id: u32,
    }

    /// A call that a callback is about: `referring_call4`.
    #[derive(Copy)]
    struct ReferringCall {
        /// Its number in its slot.
        sequence_id: u32,
        /// Its slot.
        slot_id: u32,
    }

    /// Calls of one session: `referring_call_list4`.
    struct ReferringCalls {
        /// The session.
        session_id: SessionId,
        /// The calls.
        calls: List<ReferringCall, REFERRING_CALLS_MAX>,
    }

    /// CB_SEQUENCE's arguments.
    struct CbSequenceArgs {
        /// The session.
        session_id: SessionId,
        /// The number of the callback in its slot.
        sequence_id: u32,
        /// The slot.
        slot_id: u32,
        /// The highest slot that the server has in use.
        highest_slot_id: u32,
        /// Whether the reply is to be kept.
        cache_this: bool,
        /// Calls whose answers the client should have before it acts.
        referring_calls: List<ReferringCalls, REFERRING_CALLS_MAX>,
    }

    /// CB_SEQUENCE's results.
    #[derive(Copy)]
    struct CbSequenceResult {
        /// The session.
        session_id: SessionId,
        /// As in the arguments.
        sequence_id: u32,
        /// As in the arguments.
        slot_id: u32,
        /// The highest slot that the client keeps.
        highest_slot_id: u32,
        /// The highest slot that the client would like to be used.
        target_highest_slot_id: u32,
    }

    /// CB_WANTS_CANCELLED's arguments.
    #[derive(Copy)]
    struct CbWantsCancelledArgs {
        /// Wishes that others were in the way of.
        contended: bool,
        /// Wishes that means were missing for.
        resourced: bool,
    }

    /// CB_NOTIFY_LOCK's arguments.
    #[derive(Copy)]
    struct CbNotifyLockArgs<'a> {
        /// The file.
        handle: FileHandle,
        /// Who waited.
        lock_owner: StateOwner<'a>,
    }

    /// CB_NOTIFY_DEVICEID's arguments.
    struct CbNotifyDeviceIdArgs<'a> {
        /// The news.
        changes: List<Notification<'a>, NOTIFICATIONS_MAX>,
    }

    /// CB_OFFLOAD's arguments.
    struct CbOffloadArgs {
        /// The file that was copied to.
        handle: FileHandle,
        /// The copy.
        state_id: StateId,
        /// How it ended.
        outcome: OffloadOutcome,
    }
}

/// Which layouts are wanted back: `layoutrecall4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutRecall {
    /// Those of a part of a file.
    File(LayoutRecallFile),
    /// Those of a file system.
    FileSystem(FsId),
    /// All.
    All,
}

impl Decode<'_> for LayoutRecall {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, Malformed> {
        Ok(match r.u32("layoutrecall_type")? {
            1 => Self::File(r.get()?),
            2 => Self::FileSystem(r.get()?),
            3 => Self::All,
            _ => return Err(r.malformed("layoutrecall_type")),
        })
    }
}

impl Encode for LayoutRecall {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::File(file) => {
                w.u32(1);
                w.put(file);
            }
            Self::FileSystem(fsid) => {
                w.u32(2);
                w.put(fsid);
            }
            Self::All => w.u32(3),
        }
    }
}

/// How a copy ended: `offload_info4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffloadOutcome {
    /// It was made.
    Done(WriteResponse),
    /// It failed.
    Failed {
        /// Why.
        status: NfsStatus,
        /// Bytes that were copied before.
        copied_bytes: u64,
    },
}

impl Decode<'_> for OffloadOutcome {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, Malformed> {
        match r.get()? {
            NfsStatus::OK => r.get().map(Self::Done),
            status => Ok(Self::Failed { status, copied_bytes: r.get()? }),
        }
    }
}

impl Encode for OffloadOutcome {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Done(response) => {
                w.put(&NfsStatus::OK);
                w.put(response);
            }
            Self::Failed { status, copied_bytes } => {
                w.put(status);
                w.put(copied_bytes);
            }
        }
    }
}

macro_rules! callbacks {
    ($($(#[$meta:meta])* $number:ident $variant:ident($args:ty) -> $result:ty;)*) => {
        /// A callback with its arguments.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Callback<'a> {
            $($(#[$meta])* $variant($args),)*
        }

        impl<'a> Callback<'a> {
            /// Its number.
            #[must_use]
            pub fn number(&self) -> CallbackNumber {
                match self {
                    $(Self::$variant(_) => CallbackNumber::$number,)*
                }
            }

            /// Reads the arguments of the callback of this number.
            ///
            /// # Errors
            /// [`Malformed`] if they are not its arguments, or none has the number.
            pub fn decode(number: CallbackNumber, r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
                match number {
                    $(CallbackNumber::$number => r.get().map(Self::$variant),)*
                    _ => Err(r.malformed("callback number")),
                }
            }

            /// Writes its arguments, without the number.
            pub fn encode_args(&self, w: &mut XdrWriter<'_>) {
                match self {
                    $(Self::$variant(args) => w.put(args),)*
                }
            }
        }

        /// A callback with its results.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum CallbackResult<'a> {
            $($(#[$meta])* $variant(Result<$result, NfsStatus>),)*
        }

        impl<'a> CallbackResult<'a> {
            /// Its outcome.
            #[must_use]
            pub fn status(&self) -> NfsStatus {
                match self {
                    $(Self::$variant(result) => Reply::status(result),)*
                }
            }

            /// Reads what stands behind the status.
            ///
            /// # Errors
            /// [`Malformed`] if it is not what the callback gives, or none has the number.
            pub fn decode(
                number: CallbackNumber,
                status: NfsStatus,
                r: &mut XdrReader<'a>,
            ) -> Result<Self, Malformed> {
                match number {
                    $(CallbackNumber::$number => {
                        Result::<$result, NfsStatus>::decode_body(status, r).map(Self::$variant)
                    })*
                    _ => Err(r.malformed("callback number")),
                }
            }

            /// Writes what stands behind the status.
            pub fn encode_body(&self, w: &mut XdrWriter<'_>) {
                match self {
                    $(Self::$variant(result) => Reply::encode_body(result, w),)*
                }
            }
        }
    };
}

callbacks! {
    /// Asks for attributes of a delegated file.
    GETATTR GetAttr(CbGetAttrArgs) -> Fattr<'a>;
    /// Wants a delegation back.
    RECALL Recall(CbRecallArgs) -> ();
    /// Wants layouts back.
    LAYOUTRECALL LayoutRecall(CbLayoutRecallArgs) -> ();
    /// Tells what changed in a delegated directory.
    NOTIFY Notify(CbNotifyArgs<'a>) -> ();
    /// Gives a delegation.
    PUSH_DELEG PushDeleg(CbPushDelegArgs<'a>) -> ();
    /// Wants some back of what the client has.
    RECALL_ANY RecallAny(CbRecallAnyArgs) -> ();
    /// Tells that delegations are to be had.
    RECALLABLE_OBJ_AVAIL RecallableObjAvail(CbRecallAnyArgs) -> ();
    /// Wants fewer slots to be used.
    RECALL_SLOT RecallSlot(CbRecallSlotArgs) -> ();
    /// Says which slot of which session this compound has.
    SEQUENCE Sequence(CbSequenceArgs) -> CbSequenceResult;
    /// Tells that wishes will not be granted.
    WANTS_CANCELLED WantsCancelled(CbWantsCancelledArgs) -> ();
    /// Tells that a lock may be free.
    NOTIFY_LOCK NotifyLock(CbNotifyLockArgs<'a>) -> ();
    /// Tells what changed about devices.
    NOTIFY_DEVICEID NotifyDeviceId(CbNotifyDeviceIdArgs<'a>) -> ();
    /// Tells how a copy ended.
    OFFLOAD Offload(CbOffloadArgs) -> ();
}

/// The arguments of a CB_COMPOUND while they are written.
#[derive(Clone, Copy, Debug)]
pub struct CallbackRequest {
    count: Reserved,
    operations: u32,
}

impl CallbackRequest {
    /// Writes what stands before the callbacks.
    #[must_use]
    pub fn begin(w: &mut XdrWriter<'_>, tag: &[u8], minor_version: u32) -> Self {
        w.opaque(tag);
        w.u32(minor_version);
        w.u32(0); // callback_ident, of version 4.0
        Self { count: w.reserve_u32(), operations: 0 }
    }

    /// Writes a callback.
    pub fn push(&mut self, w: &mut XdrWriter<'_>, callback: &Callback<'_>) {
        self.operations += 1;
        w.put(&callback.number());
        callback.encode_args(w);
    }

    /// Writes how many there were.
    pub fn finish(self, w: &mut XdrWriter<'_>) {
        w.fill_u32(self.count, self.operations);
    }
}

/// The arguments of CB_COMPOUND, decoded one callback at a time, by a client.
#[derive(Clone, Copy, Debug)]
pub struct CallbackCompound<'a> {
    /// What the reply repeats.
    pub tag: Tag<'a>,
    /// Version 4 of what.
    pub minor_version: u32,
    left: u32,
    r: XdrReader<'a>,
}

impl<'a> CallbackCompound<'a> {
    /// Reads what stands before the callbacks.
    ///
    /// # Errors
    /// [`Malformed`]: the call is answered GARBAGE_ARGS.
    pub fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        let tag = r.get()?;
        let minor_version = r.u32("minorversion")?;
        r.u32("callback_ident")?;
        let left = r.u32("number of callbacks")?.min(CALLBACK_OPERATIONS_MAX);
        Ok(Self { tag, minor_version, left, r: XdrReader::new(r.rest()) })
    }

    fn decode_callback(&mut self) -> Result<Callback<'a>, (CallbackNumber, NfsStatus)> {
        let Ok(number) = self.r.get::<CallbackNumber>() else {
            return Err((CallbackNumber::ILLEGAL, NfsStatus::BADXDR));
        };
        let of_later_version = self.minor_version < 2 && number == CallbackNumber::OFFLOAD;
        if !number.is_defined() || of_later_version {
            return Err((CallbackNumber::ILLEGAL, NfsStatus::OP_ILLEGAL));
        }
        Callback::decode(number, &mut self.r).map_err(|_| (number, NfsStatus::BADXDR))
    }
}

impl<'a> Iterator for CallbackCompound<'a> {
    /// A callback, or the number and status to answer: none comes after that.
    type Item = Result<Callback<'a>, (CallbackNumber, NfsStatus)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let next = self.decode_callback();
        if next.is_err() {
            self.left = 0;
        }
        Some(next)
    }
}

/// The results of a CB_COMPOUND while they are written, by a client.
#[derive(Clone, Copy, Debug)]
pub struct CallbackReply {
    status: Reserved,
    count: Reserved,
    operations: u32,
}

impl CallbackReply {
    /// Writes what stands before the results.
    #[must_use]
    pub fn begin(w: &mut XdrWriter<'_>, tag: &[u8]) -> Self {
        let status = w.reserve_u32();
        w.opaque(tag);
        Self { status, count: w.reserve_u32(), operations: 0 }
    }

    /// Writes the results of a callback.
    pub fn push<'a>(
        &mut self,
        w: &mut XdrWriter<'_>,
        number: CallbackNumber,
        reply: &impl Reply<'a>,
    ) {
        self.operations += 1;
        w.put(&number);
        w.put(&reply.status());
        reply.encode_body(w);
    }

    /// Writes the status of all, which is that of the last, and how many there were.
    pub fn finish(self, w: &mut XdrWriter<'_>, status: NfsStatus) {
        w.fill_u32(self.status, status.0);
        w.fill_u32(self.count, self.operations);
    }
}

/// The results of a CB_COMPOUND, as a server reads them.
#[derive(Clone, Copy, Debug)]
pub struct CallbackResults<'a> {
    /// That of the last callback that has results.
    pub status: NfsStatus,
    left: u32,
    r: XdrReader<'a>,
}

impl<'a> CallbackResults<'a> {
    /// Reads what stands before the results.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes end early.
    pub fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        let status = r.get()?;
        r.get::<Tag<'_>>()?;
        let left = r.count(CALLBACK_OPERATIONS_MAX as usize, "number of results")? as u32;
        Ok(Self { status, left, r: XdrReader::new(r.rest()) })
    }

    /// What the next callback, of `number`, gives if it succeeded.
    ///
    /// # Errors
    /// [`NoResult`]: it failed, or one before did, or the answer is another.
    pub fn succeed<T>(&mut self, number: CallbackNumber) -> Result<T, NoResult>
    where
        Result<T, NfsStatus>: Reply<'a>,
    {
        let Some(left) = self.left.checked_sub(1) else {
            let short = self.r.malformed("number of results").into();
            return Err(if self.status.is_ok() { short } else { NoResult::Failed(self.status) });
        };
        self.left = left;
        let (found, status): (CallbackNumber, NfsStatus) = (self.r.get()?, self.r.get()?);
        if found != number && !status.is_ok() {
            return Err(NoResult::Failed(status));
        }
        if found != number {
            return Err(self.r.malformed("number of the result").into());
        }
        Result::<T, NfsStatus>::decode_body(status, &mut self.r)?.map_err(NoResult::Failed)
    }
}
