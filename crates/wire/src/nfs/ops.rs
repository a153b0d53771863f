//! Arguments and results of every operation, in one file a group.
//!
//! [`Operation`] is an operation with its arguments, [`OperationResult`] one
//! with its results; servers and clients that know what comes decode the types
//! themselves.

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

/// The table of operations: what has no arguments has none here, what gives no
/// results gives `()`.
macro_rules! operations {
    ($($(#[$meta:meta])* $number:ident $variant:ident $(($args:ty))? -> $reply:ty;)*) => {
        /// An operation with its arguments.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Operation<'a> {
            $($(#[$meta])* $variant $(($args))?,)*
        }

        impl<'a> Operation<'a> {
            /// Its number.
            #[must_use]
            #[inline]
            pub fn number(&self) -> OperationNumber {
                match self {
                    $(operations!(@pattern $variant _unused $($args)?) => OperationNumber::$number,)*
                }
            }

            /// Reads the arguments of the operation of this number.
            ///
            /// # Errors
            /// [`Malformed`] if they are not its arguments, or no operation has the number.
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

            /// Writes its arguments, without the number.
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
            /// Its number.
            #[must_use]
            pub fn number(&self) -> OperationNumber {
                match self {
                    $(Self::$variant(_) => OperationNumber::$number,)*
                }
            }

            /// Its outcome.
            #[must_use]
            pub fn status(&self) -> NfsStatus {
                match self {
                    $(Self::$variant(reply) => Reply::status(reply),)*
                }
            }

            /// Reads what stands behind the status.
            ///
            /// # Errors
            /// [`Malformed`] if it is not what the operation gives, or no operation has
            /// the number.
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

            /// Writes what stands behind the status.
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

/// Results of an operation that gives them only if it succeeds.
type OrStatus<T> = Result<T, NfsStatus>;

operations! {
    /// Becomes the current file handle.
    PUTFH PutFh(PutFhArgs) -> OrStatus<()>;
    /// The public file handle becomes the current one.
    PUTPUBFH PutPubFh -> OrStatus<()>;
    /// The root becomes the current file handle.
    PUTROOTFH PutRootFh -> OrStatus<()>;
    /// Gives the current file handle.
    GETFH GetFh -> OrStatus<FileHandle>;
    /// Keeps the current file handle and state id.
    SAVEFH SaveFh -> OrStatus<()>;
    /// Takes up what was kept.
    RESTOREFH RestoreFh -> OrStatus<()>;
    /// Goes to a name in the current directory.
    LOOKUP Lookup(LookupArgs<'a>) -> OrStatus<()>;
    /// Goes to the directory above.
    LOOKUPP LookupParent -> OrStatus<()>;
    /// Goes to the named attributes.
    OPENATTR OpenAttr(OpenAttrArgs) -> OrStatus<()>;

    /// Changes how the server calls back.
    BACKCHANNEL_CTL BackchannelCtl(BackchannelCtlArgs<'a>) -> OrStatus<()>;
    /// Binds the connection to a session.
    BIND_CONN_TO_SESSION BindConnToSession(BindConnToSessionArgs) -> OrStatus<BindConnToSessionResult>;
    /// Begins a client.
    EXCHANGE_ID ExchangeId(ExchangeIdArgs<'a>) -> OrStatus<ExchangeIdResult<'a>>;
    /// Begins a session.
    CREATE_SESSION CreateSession(CreateSessionArgs<'a>) -> OrStatus<CreateSessionResult>;
    /// Ends a session.
    DESTROY_SESSION DestroySession(DestroySessionArgs) -> OrStatus<()>;
    /// Ends a client.
    DESTROY_CLIENTID DestroyClientId(DestroyClientIdArgs) -> OrStatus<()>;
    /// Says that nothing more will be reclaimed.
    RECLAIM_COMPLETE ReclaimComplete(ReclaimCompleteArgs) -> OrStatus<()>;
    /// Says which slot of which session this compound has.
    SEQUENCE Sequence(SequenceArgs) -> OrStatus<SequenceResult>;
    /// Changes the session's secret.
    SET_SSV SetSsv(SetSsvArgs<'a>) -> OrStatus<SetSsvResult<'a>>;

    /// Asks what is allowed.
    ACCESS Access(AccessArgs) -> OrStatus<AccessResult>;
    /// Asks for attributes.
    GETATTR GetAttr(GetAttrArgs) -> OrStatus<Fattr<'a>>;
    /// Sets attributes.
    SETATTR SetAttr(SetAttrArgs<'a>) -> SetAttrReply;
    /// Goes on only if attributes are these.
    VERIFY Verify(VerifyArgs<'a>) -> OrStatus<()>;
    /// Goes on only if they are not.
    NVERIFY NVerify(VerifyArgs<'a>) -> OrStatus<()>;

    /// Makes what is no regular file.
    CREATE Create(CreateArgs<'a>) -> OrStatus<CreateResult>;
    /// Gives a file another name.
    LINK Link(LinkArgs<'a>) -> OrStatus<ChangeInfo>;
    /// Lists a directory.
    READDIR ReadDir(ReadDirArgs) -> OrStatus<ReadDirResult<'a>>;
    /// Reads a symbolic link.
    READLINK ReadLink -> OrStatus<&'a [u8]>;
    /// Removes a name.
    REMOVE Remove(RemoveArgs<'a>) -> OrStatus<ChangeInfo>;
    /// Renames.
    RENAME Rename(RenameArgs<'a>) -> OrStatus<RenameResult>;

    /// Reads data.
    READ Read(ReadArgs) -> OrStatus<ReadResult<'a>>;
    /// Writes data.
    WRITE Write(WriteArgs<'a>) -> OrStatus<WriteResult>;
    /// Makes written data safe.
    COMMIT Commit(CommitArgs) -> OrStatus<Verifier>;

    /// Opens a file.
    OPEN Open(OpenArgs<'a>) -> OrStatus<OpenResult<'a>>;
    /// Opens it for less.
    OPEN_DOWNGRADE OpenDowngrade(OpenDowngradeArgs) -> OrStatus<StateId>;
    /// Closes it.
    CLOSE Close(CloseArgs) -> OrStatus<StateId>;
    /// Gives a delegation back.
    DELEGRETURN DelegReturn(DelegReturnArgs) -> OrStatus<()>;
    /// Gives up what was not reclaimed.
    DELEGPURGE DelegPurge(DelegPurgeArgs) -> OrStatus<()>;
    /// Asks for a delegation.
    WANT_DELEGATION WantDelegation(WantDelegationArgs) -> OrStatus<OpenDelegation<'a>>;
    /// Asks for a delegation of a directory.
    GET_DIR_DELEGATION GetDirDelegation(GetDirDelegationArgs) -> OrStatus<GetDirDelegationResult>;

    /// Locks a byte range.
    LOCK Lock(LockArgs<'a>) -> LockReply<'a>;
    /// Asks whether a lock would be granted.
    LOCKT LockTest(LockTestArgs<'a>) -> LockTestReply<'a>;
    /// Unlocks a byte range.
    LOCKU Unlock(UnlockArgs) -> OrStatus<StateId>;

    /// Gives up state that was lost.
    FREE_STATEID FreeStateId(FreeStateIdArgs) -> OrStatus<()>;
    /// Asks what became of state.
    TEST_STATEID TestStateId(TestStateIdArgs) -> OrStatus<TestStateIdResult>;

    /// Asks how a name may be reached.
    SECINFO SecInfo(SecInfoArgs<'a>) -> OrStatus<SecInfoResult<'a>>;
    /// Asks how a file handle may be reached.
    SECINFO_NO_NAME SecInfoNoName(SecInfoNoNameArgs) -> OrStatus<SecInfoResult<'a>>;

    /// Makes sure that there is space.
    ALLOCATE Allocate(AllocateArgs) -> OrStatus<()>;
    /// Gives space back.
    DEALLOCATE Deallocate(DeallocateArgs) -> OrStatus<()>;
    /// Looks for data or a hole.
    SEEK Seek(SeekArgs) -> OrStatus<SeekResult>;
    /// Reads data, and says where there is none.
    READ_PLUS ReadPlus(ReadPlusArgs) -> OrStatus<ReadPlusResult<'a>>;
    /// Says how a file will be used.
    IO_ADVISE IoAdvise(IoAdviseArgs) -> OrStatus<Bitmap4>;
    /// Writes a pattern.
    WRITE_SAME WriteSame(WriteSameArgs<'a>) -> OrStatus<WriteResponse>;
    /// Copies data.
    COPY Copy(CopyArgs<'a>) -> CopyReply;
    /// Lets another server read a file.
    COPY_NOTIFY CopyNotify(CopyNotifyArgs<'a>) -> OrStatus<CopyNotifyResult<'a>>;
    /// Lets two files share data.
    CLONE Clone(CloneArgs) -> OrStatus<()>;
    /// Ends a copy.
    OFFLOAD_CANCEL OffloadCancel(OffloadArgs) -> OrStatus<()>;
    /// Asks how far a copy is.
    OFFLOAD_STATUS OffloadStatus(OffloadArgs) -> OrStatus<OffloadStatusResult>;

    /// Reads an extended attribute.
    GETXATTR GetXattr(GetXattrArgs<'a>) -> OrStatus<&'a [u8]>;
    /// Sets an extended attribute.
    SETXATTR SetXattr(SetXattrArgs<'a>) -> OrStatus<ChangeInfo>;
    /// Lists extended attributes.
    LISTXATTRS ListXattrs(ListXattrsArgs) -> OrStatus<ListXattrsResult<'a>>;
    /// Removes an extended attribute.
    REMOVEXATTR RemoveXattr(RemoveXattrArgs<'a>) -> OrStatus<ChangeInfo>;

    /// Asks for a layout.
    LAYOUTGET LayoutGet(LayoutGetArgs) -> LayoutGetReply<'a>;
    /// Makes known what was written by layouts.
    LAYOUTCOMMIT LayoutCommit(LayoutCommitArgs<'a>) -> OrStatus<LayoutCommitResult>;
    /// Gives layouts back.
    LAYOUTRETURN LayoutReturn(LayoutReturnArgs<'a>) -> OrStatus<LayoutReturnResult>;
    /// Tells what went wrong with layouts.
    LAYOUTERROR LayoutError(LayoutErrorArgs) -> OrStatus<()>;
    /// Tells how much was done by layouts.
    LAYOUTSTATS LayoutStats(LayoutStatsArgs<'a>) -> OrStatus<()>;
    /// Asks where a device is.
    GETDEVICEINFO GetDeviceInfo(GetDeviceInfoArgs) -> GetDeviceInfoReply<'a>;
    /// Asks for devices.
    GETDEVICELIST GetDeviceList(GetDeviceListArgs) -> OrStatus<GetDeviceListResult>;
}
