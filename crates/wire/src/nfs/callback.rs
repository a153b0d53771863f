//! The backchannel: CB_COMPOUND and its operations. RFC 8881 20, RFC 7862 16.

use super::attributes::FsId;
use super::compound::{NoResult, Tag};
use super::limits::{NOTIFICATIONS_MAX, REFERRING_CALLS_MAX};
use super::ops::{LayoutIoMode, NfsWriteResponse, OpenDelegation};
use super::reply::ResultBody;
use super::xdr::{Decode, Encode, List, ReservedWord, XdrReader, XdrWriter, xdr_struct};
use super::{
    Bitmap4, CallbackNumber, Fattr, FileHandle, NfsSessionId, NfsStatus, StateId, StateOwner,
};
use crate::codec::DecodeError;

/// Maximum number of operations in one callback compound.
const CALLBACK_OPERATIONS_MAX: u32 = 64;

/// Kinds of recallable objects: bits of CB_RECALL_ANY's mask. RFC 8881 20.6.
pub mod recallable {
    /// Read delegations.
    pub const READ_DELEGATION: u32 = 0;
    /// Write delegations.
    pub const WRITE_DELEGATION: u32 = 1;
    /// Directory delegations.
    pub const DIRECTORY_DELEGATION: u32 = 2;
    /// File layouts.
    pub const FILE_LAYOUT: u32 = 3;
    /// Block layouts.
    pub const BLOCK_LAYOUT: u32 = 4;
}

/// Types of directory notifications. RFC 8881 20.4.
pub mod notification {
    /// An entry's attributes changed.
    pub const CHANGE_CHILD_ATTRS: u32 = 0;
    /// The directory's attributes changed.
    pub const CHANGE_DIR_ATTRS: u32 = 1;
    /// An entry was removed.
    pub const REMOVE_ENTRY: u32 = 2;
    /// An entry was added.
    pub const ADD_ENTRY: u32 = 3;
    /// An entry was renamed.
    pub const RENAME_ENTRY: u32 = 4;
    /// The cookie verifier changed.
    pub const CHANGE_COOKIE_VERIFIER: u32 = 5;
}

xdr_struct! {
    /// CB_GETATTR's arguments. The result is [`Fattr`].
    #[derive(Copy)]
    struct CbGetAttrArgs {
        /// The delegated file.
        handle: FileHandle,
        /// Requested attributes: change and size; with RFC 9754 also times.
        requested: Bitmap4,
    }

    /// CB_RECALL's arguments.
    #[derive(Copy)]
    struct CbRecallArgs {
        /// The delegation.
        state_id: StateId,
        /// True if the file is about to be truncated, so that the client need not flush its writes.
        truncate: bool,
        /// Its file.
        handle: FileHandle,
    }

    /// Byte range of a layout recall: `layoutrecall_file4`.
    #[derive(Copy)]
    struct LayoutRecallFile {
        /// The file.
        handle: FileHandle,
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes.
        length: u64,
        /// State id of the layouts.
        state_id: StateId,
    }

    /// CB_LAYOUTRECALL's arguments.
    #[derive(Copy)]
    struct CbLayoutRecallArgs {
        /// Layout type.
        layout_type: u32,
        /// I/O mode.
        io_mode: LayoutIoMode,
        /// True if the layout's data servers will change.
        is_changed: bool,
        /// The layouts to recall.
        what: LayoutRecall,
    }

    /// A notification about a directory or a device: `notify4`.
    #[derive(Copy)]
    struct Notification<'a> {
        /// Types: [`notification`].
        mask: Bitmap4,
        /// Type-specific values.
        values: &'a [u8],
    }

    /// CB_NOTIFY's arguments.
    struct CbNotifyArgs<'a> {
        /// The delegation.
        state_id: StateId,
        /// The directory.
        handle: FileHandle,
        /// The notifications.
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
        /// The number of objects that the client may retain.
        objects_to_keep: u32,
        /// Kinds of objects: [`recallable`].
        type_mask: Bitmap4,
    }

    /// CB_RECALL_SLOT's arguments.
    #[derive(Copy)]
    struct CbRecallSlotArgs {
        /// The highest slot id that the server wants the client to use.
        target_highest_slot_id: u32,
    }

    /// A request that a callback refers to: `referring_call4`.
    #[derive(Copy)]
    struct ReferringCall {
        /// Sequence id of the request in its slot.
        sequence_id: u32,
        /// Slot id.
        slot_id: u32,
    }

    /// Referring calls of one session: `referring_call_list4`.
    struct ReferringCalls {
        /// The session.
        session_id: NfsSessionId,
        /// The requests.
        calls: List<ReferringCall, REFERRING_CALLS_MAX>,
    }

    /// CB_SEQUENCE's arguments.
    struct CbSequenceArgs {
        /// The session.
        session_id: NfsSessionId,
        /// Sequence id of the callback in its slot.
        sequence_id: u32,
        /// Slot id.
        slot_id: u32,
        /// The highest slot id that the server uses.
        highest_slot_id: u32,
        /// True if the client must cache the reply.
        cache_this: bool,
        /// Requests whose replies the client must process before this callback.
        referring_calls: List<ReferringCalls, REFERRING_CALLS_MAX>,
    }

    /// CB_SEQUENCE's results.
    #[derive(Copy)]
    struct CbSequenceResult {
        /// The session.
        session_id: NfsSessionId,
        /// Sequence id of the request.
        sequence_id: u32,
        /// Slot id of the request.
        slot_id: u32,
        /// The highest slot id that the client accepts.
        highest_slot_id: u32,
        /// The highest slot id that the client wants the server to use.
        target_highest_slot_id: u32,
    }

    /// CB_WANTS_CANCELLED's arguments.
    #[derive(Copy)]
    struct CbWantsCancelledArgs {
        /// Cancels wants that wait for a conflict to end.
        contended: bool,
        /// Cancels wants that wait for server resources.
        resourced: bool,
    }

    /// CB_NOTIFY_LOCK's arguments.
    #[derive(Copy)]
    struct CbNotifyLockArgs<'a> {
        /// The file.
        handle: FileHandle,
        /// The owner that waits for the lock.
        lock_owner: StateOwner<'a>,
    }

    /// CB_NOTIFY_DEVICEID's arguments.
    struct CbNotifyDeviceIdArgs<'a> {
        /// The notifications.
        changes: List<Notification<'a>, NOTIFICATIONS_MAX>,
    }

    /// CB_OFFLOAD's arguments.
    struct CbOffloadArgs {
        /// The target file of the copy.
        handle: FileHandle,
        /// The copy.
        state_id: StateId,
        /// Outcome of the copy.
        outcome: OffloadOutcome,
    }
}

/// The layouts to recall: `layoutrecall4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutRecall {
    /// Layouts of a byte range.
    File(LayoutRecallFile),
    /// Layouts of a file system.
    FileSystem(FsId),
    /// All layouts.
    All,
}

impl Decode<'_> for LayoutRecall {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
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

/// Outcome of an asynchronous copy: `offload_info4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffloadOutcome {
    /// The copy succeeded.
    Done(NfsWriteResponse),
    /// The copy failed.
    Failed {
        /// Why.
        status: NfsStatus,
        /// Bytes that were copied before the failure.
        copied_bytes: u64,
    },
}

impl Decode<'_> for OffloadOutcome {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
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
            /// Its operation number.
            #[must_use]
            pub fn number(&self) -> CallbackNumber {
                match self {
                    $(Self::$variant(_) => CallbackNumber::$number,)*
                }
            }

            /// Decodes the arguments of the callback with this number.
            ///
            /// # Errors
            /// [`DecodeError`] if the arguments do not decode, or the number is undefined.
            pub fn decode(number: CallbackNumber, r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
                match number {
                    $(CallbackNumber::$number => r.get().map(Self::$variant),)*
                    _ => Err(r.malformed("callback number")),
                }
            }

            /// Writes the arguments, without the number.
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
            /// Its status.
            #[must_use]
            pub fn status(&self) -> NfsStatus {
                match self {
                    $(Self::$variant(result) => ResultBody::status(result),)*
                }
            }

            /// Decodes the body that follows the status.
            ///
            /// # Errors
            /// [`DecodeError`] if the body does not decode, or the number is undefined.
            pub fn decode(
                number: CallbackNumber,
                status: NfsStatus,
                r: &mut XdrReader<'a>,
            ) -> Result<Self, DecodeError> {
                match number {
                    $(CallbackNumber::$number => {
                        Result::<$result, NfsStatus>::decode_body(status, r).map(Self::$variant)
                    })*
                    _ => Err(r.malformed("callback number")),
                }
            }

            /// Writes the body that follows the status.
            pub fn encode_body(&self, w: &mut XdrWriter<'_>) {
                match self {
                    $(Self::$variant(result) => ResultBody::encode_body(result, w),)*
                }
            }
        }
    };
}

callbacks! {
    /// Requests attributes of a delegated file.
    GETATTR GetAttr(CbGetAttrArgs) -> Fattr<'a>;
    /// Recalls a delegation.
    RECALL Recall(CbRecallArgs) -> ();
    /// Recalls layouts.
    LAYOUTRECALL LayoutRecall(CbLayoutRecallArgs) -> ();
    /// Reports changes in a delegated directory.
    NOTIFY Notify(CbNotifyArgs<'a>) -> ();
    /// Grants a delegation.
    PUSH_DELEG PushDeleg(CbPushDelegArgs<'a>) -> ();
    /// Recalls some of the client's delegations or layouts.
    RECALL_ANY RecallAny(CbRecallAnyArgs) -> ();
    /// Reports that delegations are available.
    RECALLABLE_OBJ_AVAIL RecallableObjAvail(CbRecallAnyArgs) -> ();
    /// Requests the use of fewer slots.
    RECALL_SLOT RecallSlot(CbRecallSlotArgs) -> ();
    /// Identifies the session and slot of this compound.
    SEQUENCE Sequence(CbSequenceArgs) -> CbSequenceResult;
    /// Reports that wants will not be granted.
    WANTS_CANCELLED WantsCancelled(CbWantsCancelledArgs) -> ();
    /// Reports that a lock may be available.
    NOTIFY_LOCK NotifyLock(CbNotifyLockArgs<'a>) -> ();
    /// Reports device changes.
    NOTIFY_DEVICEID NotifyDeviceId(CbNotifyDeviceIdArgs<'a>) -> ();
    /// Reports the outcome of a copy.
    OFFLOAD Offload(CbOffloadArgs) -> ();
}

/// Encodes the arguments of a CB_COMPOUND.
#[derive(Clone, Copy, Debug)]
pub struct CallbackRequest {
    count: ReservedWord,
    operations: u32,
}

impl CallbackRequest {
    /// Writes the header of the compound.
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

    /// Patches the operation count.
    pub fn finish(self, w: &mut XdrWriter<'_>) {
        w.fill_u32(self.count, self.operations);
    }
}

/// Decodes the arguments of a CB_COMPOUND one callback at a time; for clients.
#[derive(Clone, Copy, Debug)]
pub struct CallbackCompound<'a> {
    /// Tag, which the reply echoes.
    pub tag: Tag<'a>,
    /// Minor version.
    pub minor_version: u32,
    left: u32,
    r: XdrReader<'a>,
}

impl<'a> CallbackCompound<'a> {
    /// Decodes the header of the compound.
    ///
    /// # Errors
    /// [`DecodeError`]: the client replies GARBAGE_ARGS.
    pub fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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
    /// A callback, or the number and status of an error reply, after which the iterator ends.
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

/// Encodes the results of a CB_COMPOUND; for clients.
#[derive(Clone, Copy, Debug)]
pub struct CallbackReplyEncoder {
    status: ReservedWord,
    count: ReservedWord,
    operations: u32,
}

impl CallbackReplyEncoder {
    /// Writes the header of the reply.
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
        reply: &impl ResultBody<'a>,
    ) {
        self.operations += 1;
        w.put(&number);
        w.put(&reply.status());
        reply.encode_body(w);
    }

    /// Patches the overall status, that of the last callback, and the result count.
    pub fn finish(self, w: &mut XdrWriter<'_>, status: NfsStatus) {
        w.fill_u32(self.status, status.0);
        w.fill_u32(self.count, self.operations);
    }
}

/// Decodes the results of a CB_COMPOUND; for servers.
#[derive(Clone, Copy, Debug)]
pub struct CallbackResults<'a> {
    /// Status of the last callback with a result.
    pub status: NfsStatus,
    left: u32,
    r: XdrReader<'a>,
}

impl<'a> CallbackResults<'a> {
    /// Decodes the header of the reply.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes end early.
    pub fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        let status = r.get()?;
        r.get::<Tag<'_>>()?;
        let left = r.count(CALLBACK_OPERATIONS_MAX as usize, "number of results")? as u32;
        Ok(Self { status, left, r: XdrReader::new(r.rest()) })
    }

    /// The result of the next callback, which must be a successful `number`.
    ///
    /// # Errors
    /// [`NoResult`] if this or an earlier callback failed, or the reply belongs to another
    /// callback.
    pub fn succeed<T>(&mut self, number: CallbackNumber) -> Result<T, NoResult>
    where
        Result<T, NfsStatus>: ResultBody<'a>,
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
