//! Arguments and results of every operation, grouped into files.
//!
//! [`Operation`] is an operation with its arguments, [`OperationResult`] one with its results.
//! Servers and clients that know the type of the next value decode it directly.

pub mod attributes;
pub mod copy;
pub mod data;
pub mod directory;
pub mod handle;
pub mod layout;
pub mod lock;
pub mod open;
pub mod security;
pub mod session;
pub mod space;
pub mod state;
pub mod xattr;

use super::reply::Reply;
use super::xdr::{Encode, XdrReader, XdrWriter};
use super::{
    Bitmap4, ChangeInfo, Fattr, FileHandle, NfsStatus, OperationNumber, StateId, Verifier,
};
use crate::codec::Malformed;
pub use attributes::*;
pub use copy::*;
pub use data::*;
pub use directory::*;
pub use handle::*;
pub use layout::*;
pub use lock::*;
pub use open::*;
pub use security::*;
pub use session::*;
pub use space::*;
pub use state::*;
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
            /// # Errors [`Malformed`] if the arguments do not decode, or the number is undefined.
            #[inline]
            pub fn decode(
                number: OperationNumber,
                r: &mut XdrReader<'a>,
            ) -> Result<Self, Malformed> {
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
                    $(Self::$variant(reply) => Reply::status(reply),)*
                }
            }

            /// Decodes the body that follows the status.
            ///
            /// # Errors [`Malformed`] if the body does not decode, or the number is undefined.
            pub fn decode(
                number: OperationNumber,
                status: NfsStatus,
                r: &mut XdrReader<'a>,
            ) -> Result<Self, Malformed> {
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
                    $(Self::$variant(reply) => Reply::encode_body(reply, w),)*
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
type OrStatus<T> = Result<T, NfsStatus>;

operations! {
    /// Sets the current file handle.
    PUTFH PutFh(PutFhArgs) -> OrStatus<()>;
    /// Sets the current file handle to the public one.
    PUTPUBFH PutPubFh -> OrStatus<()>;
    /// Sets the current file handle to the root.
    PUTROOTFH PutRootFh -> OrStatus<()>;
    /// Returns the current file handle.
    GETFH GetFh -> OrStatus<FileHandle>;
    /// Saves the current file handle and state id.
    SAVEFH SaveFh -> OrStatus<()>;
    /// Restores the saved file handle and state id.
    RESTOREFH RestoreFh -> OrStatus<()>;
    /// Looks up a name in the current directory.
    LOOKUP Lookup(LookupArgs<'a>) -> OrStatus<()>;
    /// Looks up the parent directory.
    LOOKUPP LookupParent -> OrStatus<()>;
    /// Opens the named attribute directory.
    OPENATTR OpenAttr(OpenAttrArgs) -> OrStatus<()>;

    /// Changes the backchannel's parameters.
    BACKCHANNEL_CTL BackchannelCtl(BackchannelCtlArgs<'a>) -> OrStatus<()>;
    /// Binds the connection to a session.
    BIND_CONN_TO_SESSION BindConnToSession(BindConnToSessionArgs) -> OrStatus<BindConnToSessionResult>;
    /// Registers a client.
    EXCHANGE_ID ExchangeId(ExchangeIdArgs<'a>) -> OrStatus<ExchangeIdResult<'a>>;
    /// Creates a session.
    CREATE_SESSION CreateSession(CreateSessionArgs<'a>) -> OrStatus<CreateSessionResult>;
    /// Destroys a session.
    DESTROY_SESSION DestroySession(DestroySessionArgs) -> OrStatus<()>;
    /// Destroys a client id.
    DESTROY_CLIENTID DestroyClientId(DestroyClientIdArgs) -> OrStatus<()>;
    /// Declares that the client has reclaimed its state.
    RECLAIM_COMPLETE ReclaimComplete(ReclaimCompleteArgs) -> OrStatus<()>;
    /// Identifies the session and slot of this compound.
    SEQUENCE Sequence(SequenceArgs) -> OrStatus<SequenceResult>;
    /// Changes the session's secret state verifier.
    SET_SSV SetSsv(SetSsvArgs<'a>) -> OrStatus<SetSsvResult<'a>>;

    /// Checks access rights.
    ACCESS Access(AccessArgs) -> OrStatus<AccessResult>;
    /// Returns attributes.
    GETATTR GetAttr(GetAttrArgs) -> OrStatus<Fattr<'a>>;
    /// Sets attributes.
    SETATTR SetAttr(SetAttrArgs<'a>) -> SetAttrReply;
    /// Continues only if the attributes are equal.
    VERIFY Verify(VerifyArgs<'a>) -> OrStatus<()>;
    /// Continues only if the attributes differ.
    NVERIFY NVerify(VerifyArgs<'a>) -> OrStatus<()>;

    /// Creates an object that is no regular file.
    CREATE Create(CreateArgs<'a>) -> OrStatus<CreateResult>;
    /// Creates a hard link.
    LINK Link(LinkArgs<'a>) -> OrStatus<ChangeInfo>;
    /// Lists a directory.
    READDIR ReadDir(ReadDirArgs) -> OrStatus<ReadDirResult<'a>>;
    /// Reads a symbolic link.
    READLINK ReadLink -> OrStatus<&'a [u8]>;
    /// Removes a directory entry.
    REMOVE Remove(RemoveArgs<'a>) -> OrStatus<ChangeInfo>;
    /// Renames a directory entry.
    RENAME Rename(RenameArgs<'a>) -> OrStatus<RenameResult>;

    /// Reads data.
    READ Read(ReadArgs) -> OrStatus<ReadResult<'a>>;
    /// Writes data.
    WRITE Write(WriteArgs<'a>) -> OrStatus<WriteResult>;
    /// Flushes written data to stable storage.
    COMMIT Commit(CommitArgs) -> OrStatus<Verifier>;

    /// Opens a file.
    OPEN Open(OpenArgs<'a>) -> OrStatus<OpenResult<'a>>;
    /// Reduces the access of an open.
    OPEN_DOWNGRADE OpenDowngrade(OpenDowngradeArgs) -> OrStatus<StateId>;
    /// Closes an open.
    CLOSE Close(CloseArgs) -> OrStatus<StateId>;
    /// Returns a delegation.
    DELEGRETURN DelegReturn(DelegReturnArgs) -> OrStatus<()>;
    /// Releases delegations that were not reclaimed.
    DELEGPURGE DelegPurge(DelegPurgeArgs) -> OrStatus<()>;
    /// Requests a delegation.
    WANT_DELEGATION WantDelegation(WantDelegationArgs) -> OrStatus<OpenDelegation<'a>>;
    /// Requests a directory delegation.
    GET_DIR_DELEGATION GetDirDelegation(GetDirDelegationArgs) -> OrStatus<GetDirDelegationResult>;

    /// Locks a byte range.
    LOCK Lock(LockArgs<'a>) -> LockReply<'a>;
    /// Tests for a conflicting lock.
    LOCKT LockTest(LockTestArgs<'a>) -> LockTestReply<'a>;
    /// Unlocks a byte range.
    LOCKU Unlock(UnlockArgs) -> OrStatus<StateId>;

    /// Frees a revoked state id.
    FREE_STATEID FreeStateId(FreeStateIdArgs) -> OrStatus<()>;
    /// Tests the validity of state ids.
    TEST_STATEID TestStateId(TestStateIdArgs) -> OrStatus<TestStateIdResult>;

    /// Returns the security mechanisms for a name.
    SECINFO SecInfo(SecInfoArgs<'a>) -> OrStatus<SecInfoResult<'a>>;
    /// Returns the security mechanisms for a file handle.
    SECINFO_NO_NAME SecInfoNoName(SecInfoNoNameArgs) -> OrStatus<SecInfoResult<'a>>;

    /// Reserves space.
    ALLOCATE Allocate(AllocateArgs) -> OrStatus<()>;
    /// Punches a hole.
    DEALLOCATE Deallocate(DeallocateArgs) -> OrStatus<()>;
    /// Finds the next data or hole.
    SEEK Seek(SeekArgs) -> OrStatus<SeekResult>;
    /// Reads data and holes.
    READ_PLUS ReadPlus(ReadPlusArgs) -> OrStatus<ReadPlusResult<'a>>;
    /// Announces an access pattern.
    IO_ADVISE IoAdvise(IoAdviseArgs) -> OrStatus<Bitmap4>;
    /// Writes a repeated pattern.
    WRITE_SAME WriteSame(WriteSameArgs<'a>) -> OrStatus<WriteResponse>;
    /// Copies data.
    COPY Copy(CopyArgs<'a>) -> CopyReply;
    /// Prepares an inter-server copy.
    COPY_NOTIFY CopyNotify(CopyNotifyArgs<'a>) -> OrStatus<CopyNotifyResult<'a>>;
    /// Shares extents between two files.
    CLONE Clone(CloneArgs) -> OrStatus<()>;
    /// Cancels an asynchronous copy.
    OFFLOAD_CANCEL OffloadCancel(OffloadArgs) -> OrStatus<()>;
    /// Returns the progress of an asynchronous copy.
    OFFLOAD_STATUS OffloadStatus(OffloadArgs) -> OrStatus<OffloadStatusResult>;

    /// Reads an extended attribute.
    GETXATTR GetXattr(GetXattrArgs<'a>) -> OrStatus<&'a [u8]>;
    /// Sets an extended attribute.
    SETXATTR SetXattr(SetXattrArgs<'a>) -> OrStatus<ChangeInfo>;
    /// Lists extended attributes.
    LISTXATTRS ListXattrs(ListXattrsArgs) -> OrStatus<ListXattrsResult<'a>>;
    /// Removes an extended attribute.
    REMOVEXATTR RemoveXattr(RemoveXattrArgs<'a>) -> OrStatus<ChangeInfo>;

    /// Requests a layout.
    LAYOUTGET LayoutGet(LayoutGetArgs) -> LayoutGetReply<'a>;
    /// Commits data that was written through a layout.
    LAYOUTCOMMIT LayoutCommit(LayoutCommitArgs<'a>) -> OrStatus<LayoutCommitResult>;
    /// Returns layouts.
    LAYOUTRETURN LayoutReturn(LayoutReturnArgs<'a>) -> OrStatus<LayoutReturnResult>;
    /// Reports layout errors.
    LAYOUTERROR LayoutError(LayoutErrorArgs) -> OrStatus<()>;
    /// Reports layout I/O statistics.
    LAYOUTSTATS LayoutStats(LayoutStatsArgs<'a>) -> OrStatus<()>;
    /// Returns a device's address.
    GETDEVICEINFO GetDeviceInfo(GetDeviceInfoArgs) -> GetDeviceInfoReply<'a>;
    /// Returns the list of devices.
    GETDEVICELIST GetDeviceList(GetDeviceListArgs) -> OrStatus<GetDeviceListResult>;
}
