//! Arguments and results of every operation, grouped into files.
//!
//! [`Operation`] is an operation with its arguments, [`OperationResult`] one with its results.
//! Servers and clients that know the type of the next value decode it directly.

pub mod allocate;
pub mod attributes;
pub mod clone;
pub mod close;
pub mod commit;
pub mod copy;
pub mod create;
pub mod handle;
pub mod io_advise;
pub mod layout;
pub mod link;
pub mod lock;
pub mod open;
pub mod read;
pub mod read_plus;
pub mod readdir;
pub mod remove;
pub mod rename;
pub mod secinfo;
pub mod seek;
pub mod session;
pub mod state;
pub mod write;
pub mod write_same;
pub mod xattr;

use super::reply::ResultBody;
use super::xdr::{Encode, XdrReader, XdrWriter};
use super::{
    Bitmap4, ChangeInfo, Fattr, FileHandle, NfsStatus, OperationNumber, StateId, Verifier,
};
use crate::codec::DecodeError;
pub use allocate::*;
pub use attributes::*;
pub use clone::*;
pub use close::*;
pub use commit::*;
pub use copy::*;
pub use create::*;
pub use handle::*;
pub use io_advise::*;
pub use layout::*;
pub use link::*;
pub use lock::*;
pub use open::*;
pub use read::*;
pub use read_plus::*;
pub use readdir::*;
pub use remove::*;
pub use rename::*;
pub use secinfo::*;
pub use seek::*;
pub use session::*;
pub use state::*;
pub use write::*;
pub use write_same::*;
pub use xattr::*;

/// The table of operations. An operation without arguments lists none; one without results lists
/// `()`.
macro_rules! operations {
    ($($(#[$meta:meta])* $number:ident $variant:ident $(($args:ty))? -> $reply:ty;)*) => {
        /// An operation with its arguments.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Operation<'a> {
            $($(#[$meta])* $variant $(($args))?,)*
        }

        impl<'a> Operation<'a> {
            /// Its operation number.
            #[must_use]
            #[inline]
            pub fn number(&self) -> OperationNumber {
                match self {
                    $(operations!(@pattern $variant _unused $($args)?) => OperationNumber::$number,)*
                }
            }

            /// Decodes the arguments of the operation with this number.
            ///
            /// # Errors
            /// [`DecodeError`] if the arguments do not decode, or the number is undefined.
            #[inline]
            pub fn decode(
                number: OperationNumber,
                r: &mut XdrReader<'a>,
            ) -> Result<Self, DecodeError> {
                match number {
                    $(OperationNumber::$number => {
                        Ok(operations!(@value r $variant $($args)?))
                    })*
                    _ => Err(r.malformed("operation number")),
                }
            }

            /// Writes the arguments, without the number.
            #[inline]
            pub fn encode_args(&self, w: &mut XdrWriter<'_>) {
                match self {
                    $(operations!(@pattern $variant args $($args)?) => {
                        operations!(@encode w args $($args)?);
                    })*
                }
            }
        }

        /// An operation with its results.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum OperationResult<'a> {
            $($(#[$meta])* $variant($reply),)*
        }

        impl<'a> OperationResult<'a> {
            /// Its operation number.
            #[must_use]
            pub fn number(&self) -> OperationNumber {
                match self {
                    $(Self::$variant(_) => OperationNumber::$number,)*
                }
            }

            /// Its status.
            #[must_use]
            pub fn status(&self) -> NfsStatus {
                match self {
                    $(Self::$variant(reply) => ResultBody::status(reply),)*
                }
            }

            /// Decodes the body that follows the status.
            ///
            /// # Errors
            /// [`DecodeError`] if the body does not decode, or the number is undefined.
            pub fn decode(
                number: OperationNumber,
                status: NfsStatus,
                r: &mut XdrReader<'a>,
            ) -> Result<Self, DecodeError> {
                match number {
                    $(OperationNumber::$number => {
                        <$reply>::decode_body(status, r).map(Self::$variant)
                    })*
                    _ => Err(r.malformed("operation number")),
                }
            }

            /// Writes the body that follows the status.
            pub fn encode_body(&self, w: &mut XdrWriter<'_>) {
                match self {
                    $(Self::$variant(reply) => ResultBody::encode_body(reply, w),)*
                }
            }
        }
    };
    (@pattern $variant:ident $name:ident) => { Self::$variant };
    (@pattern $variant:ident $name:ident $args:ty) => { Self::$variant($name) };
    (@value $r:ident $variant:ident) => { Self::$variant };
    (@value $r:ident $variant:ident $args:ty) => { Self::$variant($r.get::<$args>()?) };
    (@encode $w:ident $name:ident) => {};
    (@encode $w:ident $name:ident $args:ty) => { Encode::encode($name, $w) };
}

/// Results of an operation that returns them only on success.
type StatusOr<T> = Result<T, NfsStatus>;

operations! {
    /// Sets the current file handle.
    PUTFH PutFh(PutFhArgs) -> StatusOr<()>;
    /// Sets the current file handle to the public one.
    PUTPUBFH PutPubFh -> StatusOr<()>;
    /// Sets the current file handle to the root.
    PUTROOTFH PutRootFh -> StatusOr<()>;
    /// Returns the current file handle.
    GETFH GetFh -> StatusOr<FileHandle>;
    /// Saves the current file handle and state id.
    SAVEFH SaveFh -> StatusOr<()>;
    /// Restores the saved file handle and state id.
    RESTOREFH RestoreFh -> StatusOr<()>;
    /// Looks up a name in the current directory.
    LOOKUP Lookup(LookupArgs<'a>) -> StatusOr<()>;
    /// Looks up the parent directory.
    LOOKUPP LookupParent -> StatusOr<()>;
    /// Opens the named attribute directory.
    OPENATTR OpenAttr(OpenAttrArgs) -> StatusOr<()>;

    /// Changes the backchannel's parameters.
    BACKCHANNEL_CTL BackchannelCtl(BackchannelCtlArgs<'a>) -> StatusOr<()>;
    /// Binds the connection to a session.
    BIND_CONN_TO_SESSION BindConnToSession(BindConnToSessionArgs) -> StatusOr<BindConnToSessionResult>;
    /// Registers a client.
    EXCHANGE_ID ExchangeId(ExchangeIdArgs<'a>) -> StatusOr<ExchangeIdResult<'a>>;
    /// Creates a session.
    CREATE_SESSION CreateSession(CreateSessionArgs<'a>) -> StatusOr<CreateSessionResult>;
    /// Destroys a session.
    DESTROY_SESSION DestroySession(DestroySessionArgs) -> StatusOr<()>;
    /// Destroys a client id.
    DESTROY_CLIENTID DestroyClientId(DestroyClientIdArgs) -> StatusOr<()>;
    /// Declares that the client has reclaimed its state.
    RECLAIM_COMPLETE ReclaimComplete(ReclaimCompleteArgs) -> StatusOr<()>;
    /// Identifies the session and slot of this compound.
    SEQUENCE Sequence(SequenceArgs) -> StatusOr<SequenceResult>;
    /// Changes the session's secret state verifier.
    SET_SSV SetSsv(SetSsvArgs<'a>) -> StatusOr<SetSsvResult<'a>>;

    /// Checks access rights.
    ACCESS Access(AccessArgs) -> StatusOr<AccessResult>;
    /// Returns attributes.
    GETATTR GetAttr(GetAttrArgs) -> StatusOr<Fattr<'a>>;
    /// Sets attributes.
    SETATTR SetAttr(SetAttrArgs<'a>) -> SetAttrReply;
    /// Continues only if the attributes are equal.
    VERIFY Verify(VerifyArgs<'a>) -> StatusOr<()>;
    /// Continues only if the attributes differ.
    NVERIFY NVerify(VerifyArgs<'a>) -> StatusOr<()>;

    /// Creates an object that is no regular file.
    CREATE Create(CreateArgs<'a>) -> StatusOr<CreateResult>;
    /// Creates a hard link.
    LINK Link(LinkArgs<'a>) -> StatusOr<ChangeInfo>;
    /// Lists a directory.
    READDIR ReadDir(ReadDirArgs) -> StatusOr<ReadDirResult<'a>>;
    /// Reads a symbolic link.
    READLINK ReadLink -> StatusOr<&'a [u8]>;
    /// Removes a directory entry.
    REMOVE Remove(RemoveArgs<'a>) -> StatusOr<ChangeInfo>;
    /// Renames a directory entry.
    RENAME Rename(RenameArgs<'a>) -> StatusOr<RenameResult>;

    /// Reads data.
    READ Read(ReadArgs) -> StatusOr<ReadResult<'a>>;
    /// Writes data.
    WRITE Write(WriteArgs<'a>) -> StatusOr<WriteResult>;
    /// Flushes written data to stable storage.
    COMMIT Commit(CommitArgs) -> StatusOr<Verifier>;

    /// Opens a file.
    OPEN Open(OpenArgs<'a>) -> StatusOr<NfsOpenResult<'a>>;
    /// Reduces the access of an open.
    OPEN_DOWNGRADE OpenDowngrade(OpenDowngradeArgs) -> StatusOr<StateId>;
    /// Closes an open.
    CLOSE Close(CloseArgs) -> StatusOr<StateId>;
    /// Returns a delegation.
    DELEGRETURN DelegReturn(DelegReturnArgs) -> StatusOr<()>;
    /// Releases delegations that were not reclaimed.
    DELEGPURGE DelegPurge(DelegPurgeArgs) -> StatusOr<()>;
    /// Requests a delegation.
    WANT_DELEGATION WantDelegation(WantDelegationArgs) -> StatusOr<OpenDelegation<'a>>;
    /// Requests a directory delegation.
    GET_DIR_DELEGATION GetDirDelegation(GetDirDelegationArgs) -> StatusOr<GetDirDelegationResult>;

    /// Locks a byte range.
    LOCK Lock(LockArgs<'a>) -> LockReply<'a>;
    /// Tests for a conflicting lock.
    LOCKT LockTest(LockTestArgs<'a>) -> LockTestReply<'a>;
    /// Unlocks a byte range.
    LOCKU Unlock(UnlockArgs) -> StatusOr<StateId>;

    /// Frees a revoked state id.
    FREE_STATEID FreeStateId(FreeStateIdArgs) -> StatusOr<()>;
    /// Tests the validity of state ids.
    TEST_STATEID TestStateId(TestStateIdArgs) -> StatusOr<TestStateIdResult>;

    /// Returns the security mechanisms for a name.
    SECINFO SecInfo(SecInfoArgs<'a>) -> StatusOr<SecInfoResult<'a>>;
    /// Returns the security mechanisms for a file handle.
    SECINFO_NO_NAME SecInfoNoName(SecInfoNoNameArgs) -> StatusOr<SecInfoResult<'a>>;

    /// Reserves space.
    ALLOCATE Allocate(AllocateArgs) -> StatusOr<()>;
    /// Punches a hole.
    DEALLOCATE Deallocate(DeallocateArgs) -> StatusOr<()>;
    /// Finds the next data or hole.
    SEEK Seek(SeekArgs) -> StatusOr<SeekResult>;
    /// Reads data and holes.
    READ_PLUS ReadPlus(ReadPlusArgs) -> StatusOr<ReadPlusResult<'a>>;
    /// Announces an access pattern.
    IO_ADVISE IoAdvise(IoAdviseArgs) -> StatusOr<Bitmap4>;
    /// Writes a repeated pattern.
    WRITE_SAME WriteSame(WriteSameArgs<'a>) -> StatusOr<NfsWriteResponse>;
    /// Copies data.
    COPY Copy(CopyArgs<'a>) -> CopyReply;
    /// Prepares an inter-server copy.
    COPY_NOTIFY CopyNotify(CopyNotifyArgs<'a>) -> StatusOr<CopyNotifyResult<'a>>;
    /// Shares extents between two files.
    CLONE Clone(CloneArgs) -> StatusOr<()>;
    /// Cancels an asynchronous copy.
    OFFLOAD_CANCEL OffloadCancel(OffloadArgs) -> StatusOr<()>;
    /// Returns the progress of an asynchronous copy.
    OFFLOAD_STATUS OffloadStatus(OffloadArgs) -> StatusOr<OffloadStatusResult>;

    /// Reads an extended attribute.
    GETXATTR GetXattr(GetXattrArgs<'a>) -> StatusOr<&'a [u8]>;
    /// Sets an extended attribute.
    SETXATTR SetXattr(SetXattrArgs<'a>) -> StatusOr<ChangeInfo>;
    /// Lists extended attributes.
    LISTXATTRS ListXattrs(ListXattrsArgs) -> StatusOr<ListXattrsResult<'a>>;
    /// Removes an extended attribute.
    REMOVEXATTR RemoveXattr(RemoveXattrArgs<'a>) -> StatusOr<ChangeInfo>;

    /// Requests a layout.
    LAYOUTGET LayoutGet(LayoutGetArgs) -> LayoutGetReply<'a>;
    /// Commits data that was written through a layout.
    LAYOUTCOMMIT LayoutCommit(LayoutCommitArgs<'a>) -> StatusOr<LayoutCommitResult>;
    /// Returns layouts.
    LAYOUTRETURN LayoutReturn(LayoutReturnArgs<'a>) -> StatusOr<LayoutReturnResult>;
    /// Reports layout errors.
    LAYOUTERROR LayoutError(LayoutErrorArgs) -> StatusOr<()>;
    /// Reports layout I/O statistics.
    LAYOUTSTATS LayoutStats(LayoutStatsArgs<'a>) -> StatusOr<()>;
    /// Returns a device's address.
    GETDEVICEINFO GetDeviceInfo(GetDeviceInfoArgs) -> GetDeviceInfoReply<'a>;
    /// Returns the list of devices.
    GETDEVICELIST GetDeviceList(GetDeviceListArgs) -> StatusOr<GetDeviceListResult>;
}
