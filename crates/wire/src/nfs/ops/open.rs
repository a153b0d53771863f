//! Opens and delegations: OPEN, OPEN_DOWNGRADE, CLOSE, DELEGRETURN, DELEGPURGE,
//! WANT_DELEGATION, GET_DIR_DELEGATION. RFC 8881 18.2, 18.5, 18.6, 18.16, 18.18,
//! 18.39, 18.49; RFC 9754 for the newer kinds.

use crate::codec::Malformed;
use crate::nfs::acl::Ace;
use crate::nfs::xdr::{Decode, Encode, XdrReader, XdrWriter, xdr_enum, xdr_flags, xdr_struct};
use crate::nfs::{Bitmap4, ChangeInfo, ClientId, Fattr, NfsTime, StateId, StateOwner, Verifier};

xdr_flags! {
    /// What an open is for, and wishes for a delegation: `share_access`.
    flags ShareAccess {
        /// To read.
        READ = 0x1,
        /// To write.
        WRITE = 0x2,
        /// Both.
        BOTH = 0x3,
        /// Where the wish for a delegation is; what follows are its values.
        WANT_DELEG_MASK = 0xFF00,
        /// To read.
        WANT_READ_DELEG = 0x0100,
        /// To write.
        WANT_WRITE_DELEG = 0x0200,
        /// Whichever.
        WANT_ANY_DELEG = 0x0300,
        /// None.
        WANT_NO_DELEG = 0x0400,
        /// None, and no longer what was wished before.
        WANT_CANCEL = 0x0500,
        /// Tell when there are means for one.
        WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL = 0x1_0000,
        /// Give one when no other is in the way.
        WANT_PUSH_DELEG_WHEN_UNCONTENDED = 0x2_0000,
        /// One that has the file's times in it. RFC 9754 5.
        WANT_DELEG_TIMESTAMPS = 0x10_0000,
        /// Either a delegation or an open. RFC 9754 4.
        WANT_OPEN_XOR_DELEGATION = 0x20_0000,
    }

    /// What others may not do: `share_deny`.
    flags ShareDeny {
        /// Read.
        READ = 0x1,
        /// Write.
        WRITE = 0x2,
        /// Either.
        BOTH = 0x3,
    }

    /// Properties of an open. RFC 8881 18.16.2.
    flags OpenResultFlags {
        /// Byte-range locks are those of POSIX.
        LOCKTYPE_POSIX = 0x04,
        /// The file lives on without a name while it is open.
        PRESERVE_UNLINKED = 0x08,
        /// There is no open, only the delegation. RFC 9754 4.
        NO_OPEN_STATEID = 0x10,
        /// The server may tell when a lock is free.
        MAY_NOTIFY_LOCK = 0x20,
    }
}

impl ShareAccess {
    /// What the open is for, without wishes.
    #[must_use]
    pub fn access(self) -> Self {
        self & Self::BOTH
    }

    /// The wish for a delegation, one of the `WANT_…_DELEG` values or nothing.
    #[must_use]
    pub fn wanted_delegation(self) -> Self {
        self & Self::WANT_DELEG_MASK
    }
}

xdr_enum! {
    /// Kinds of delegations: `open_delegation_type4`.
    enum DelegationType {
        /// None.
        None = 0,
        /// To read.
        Read = 1,
        /// To write.
        Write = 2,
        /// None, and why.
        NoneWhy = 3,
        /// To read, with times. RFC 9754 5.
        ReadAttributes = 4,
        /// To write, with times.
        WriteAttributes = 5,
    }
}

xdr_struct! {
    /// OPEN's arguments.
    #[derive(Copy)]
    struct OpenArgs<'a> {
        /// Of version 4.0.
        sequence_id: u32,
        /// What the open is for.
        share_access: ShareAccess,
        /// What others may not do.
        share_deny: ShareDeny,
        /// Who opens.
        owner: StateOwner<'a>,
        /// Whether and how the file is made.
        how: OpenHow<'a>,
        /// Which file.
        claim: OpenClaim<'a>,
    }

    /// OPEN's results.
    #[derive(Copy)]
    struct OpenResult<'a> {
        /// The open.
        state_id: StateId,
        /// The directory's change.
        change: ChangeInfo,
        /// Properties.
        flags: OpenResultFlags,
        /// Attributes that were set.
        attributes_set: Bitmap4,
        /// A delegation.
        delegation: OpenDelegation<'a>,
    }

    /// OPEN_DOWNGRADE's arguments. The result is the [`StateId`].
    #[derive(Copy)]
    struct OpenDowngradeArgs {
        /// The open.
        state_id: StateId,
        /// Of version 4.0.
        sequence_id: u32,
        /// What it is for from now on.
        share_access: ShareAccess,
        /// What others may not do from now on.
        share_deny: ShareDeny,
    }

    /// CLOSE's arguments. The result is a [`StateId`] that nobody must use.
    #[derive(Copy)]
    struct CloseArgs {
        /// Of version 4.0.
        sequence_id: u32,
        /// The open.
        state_id: StateId,
    }

    /// DELEGRETURN's arguments.
    #[derive(Copy)]
    struct DelegReturnArgs {
        /// The delegation.
        state_id: StateId,
    }

    /// DELEGPURGE's arguments.
    #[derive(Copy)]
    struct DelegPurgeArgs {
        /// The client.
        client_id: ClientId,
    }

    /// A delegation to read: `open_read_delegation4`.
    #[derive(Copy)]
    struct ReadDelegation<'a> {
        /// Its name.
        state_id: StateId,
        /// Whether it is to be given back at once.
        is_recalled: bool,
        /// Who needs not be asked about when the file is opened.
        permissions: Ace<'a>,
    }

    /// A delegation to write: `open_write_delegation4`.
    #[derive(Copy)]
    struct WriteDelegation<'a> {
        /// Its name.
        state_id: StateId,
        /// Whether it is to be given back at once.
        is_recalled: bool,
        /// How much the client may keep back.
        space_limit: SpaceLimit,
        /// Who needs not be asked about when the file is opened.
        permissions: Ace<'a>,
    }

    /// WANT_DELEGATION's arguments. The result is [`OpenDelegation`].
    #[derive(Copy)]
    struct WantDelegationArgs {
        /// Which.
        want: ShareAccess,
        /// With which right.
        claim: DelegationClaim,
    }

    /// GET_DIR_DELEGATION's arguments.
    #[derive(Copy)]
    struct GetDirDelegationArgs {
        /// Whether to tell when one is to be had.
        signal_available: bool,
        /// What to tell of: numbers of notifications.
        notification_types: Bitmap4,
        /// How late news of entries' attributes may be.
        child_attributes_delay: NfsTime,
        /// How late news of the directory's may be.
        directory_attributes_delay: NfsTime,
        /// Attributes of entries to tell of.
        child_attributes: Bitmap4,
        /// Attributes of the directory to tell of.
        directory_attributes: Bitmap4,
    }

    /// A delegation of a directory: `GET_DIR_DELEGATION4resok`.
    #[derive(Copy)]
    struct DirDelegation {
        /// Goes with the cookies.
        cookie_verifier: Verifier,
        /// Its name.
        state_id: StateId,
        /// What is told of.
        notification_types: Bitmap4,
        /// Attributes of entries that are told of.
        child_attributes: Bitmap4,
        /// Attributes of the directory that are told of.
        directory_attributes: Bitmap4,
    }
}

/// How a file is made: `createhow4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateHow<'a> {
    /// If it is missing.
    Unchecked(Fattr<'a>),
    /// It must be missing.
    Guarded(Fattr<'a>),
    /// Once by this verifier. Not to be used any more.
    Exclusive(Verifier),
    /// Once by this verifier, with attributes.
    ExclusiveWithAttributes(Verifier, Fattr<'a>),
}

/// Whether and how a file is made: `openflag4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenHow<'a> {
    /// It must be there.
    NoCreate,
    /// It is made.
    Create(CreateHow<'a>),
}

impl<'a> Decode<'a> for OpenHow<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        match r.u32("opentype")? {
            0 => return Ok(Self::NoCreate),
            1 => {}
            _ => return Err(r.malformed("opentype")),
        }
        Ok(Self::Create(match r.u32("createmode")? {
            0 => CreateHow::Unchecked(r.get()?),
            1 => CreateHow::Guarded(r.get()?),
            2 => CreateHow::Exclusive(r.get()?),
            3 => CreateHow::ExclusiveWithAttributes(r.get()?, r.get()?),
            _ => return Err(r.malformed("createmode")),
        }))
    }
}

impl Encode for OpenHow<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        let Self::Create(how) = self else { return w.u32(0) };
        w.u32(1);
        match how {
            CreateHow::Unchecked(attributes) => {
                w.u32(0);
                w.put(attributes);
            }
            CreateHow::Guarded(attributes) => {
                w.u32(1);
                w.put(attributes);
            }
            CreateHow::Exclusive(verifier) => {
                w.u32(2);
                w.put(verifier);
            }
            CreateHow::ExclusiveWithAttributes(verifier, attributes) => {
                w.u32(3);
                w.put(verifier);
                w.put(attributes);
            }
        }
    }
}

/// Which file is opened, and with which right: `open_claim4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenClaim<'a> {
    /// The one of this name in the current directory.
    Null(&'a [u8]),
    /// The current file, open before the server restarted, with such a delegation.
    Previous(DelegationType),
    /// The one of this name, by a delegation.
    DelegateCurrent(StateId, &'a [u8]),
    /// The one of this name, by a delegation from before the client restarted.
    DelegatePrevious(&'a [u8]),
    /// The current file.
    FileHandle,
    /// The current file, by a delegation.
    DelegateCurrentFileHandle(StateId),
    /// The current file, by a delegation from before the client restarted.
    DelegatePreviousFileHandle,
}

impl<'a> Decode<'a> for OpenClaim<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        Ok(match r.u32("open_claim_type")? {
            0 => Self::Null(r.get()?),
            1 => Self::Previous(r.get()?),
            2 => Self::DelegateCurrent(r.get()?, r.get()?),
            3 => Self::DelegatePrevious(r.get()?),
            4 => Self::FileHandle,
            5 => Self::DelegateCurrentFileHandle(r.get()?),
            6 => Self::DelegatePreviousFileHandle,
            _ => return Err(r.malformed("open_claim_type")),
        })
    }
}

impl Encode for OpenClaim<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Null(name) => {
                w.u32(0);
                w.put(name);
            }
            Self::Previous(delegation) => {
                w.u32(1);
                w.put(delegation);
            }
            Self::DelegateCurrent(delegation, name) => {
                w.u32(2);
                w.put(delegation);
                w.put(name);
            }
            Self::DelegatePrevious(name) => {
                w.u32(3);
                w.put(name);
            }
            Self::FileHandle => w.u32(4),
            Self::DelegateCurrentFileHandle(delegation) => {
                w.u32(5);
                w.put(delegation);
            }
            Self::DelegatePreviousFileHandle => w.u32(6),
        }
    }
}

/// How much a client may keep back: `nfs_space_limit4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceLimit {
    /// Until the file has so many bytes.
    SizeBytes(u64),
    /// So many blocks of so many bytes.
    Blocks {
        /// How many.
        count: u32,
        /// Bytes of each.
        block_bytes: u32,
    },
}

impl Decode<'_> for SpaceLimit {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, Malformed> {
        match r.u32("limit_by")? {
            1 => r.get().map(Self::SizeBytes),
            2 => Ok(Self::Blocks { count: r.get()?, block_bytes: r.get()? }),
            _ => Err(r.malformed("limit_by")),
        }
    }
}

impl Encode for SpaceLimit {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::SizeBytes(bytes) => {
                w.u32(1);
                w.put(bytes);
            }
            Self::Blocks { count, block_bytes } => {
                w.u32(2);
                w.put(count);
                w.put(block_bytes);
            }
        }
    }
}

/// Why there is no delegation: `open_none_delegation4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDelegation {
    /// None was wished.
    NotWanted,
    /// Others are in the way. Whether one will be given later.
    Contention(bool),
    /// The server lacks the means. Whether it tells when it has them.
    Resource(bool),
    /// Not for files of this type.
    NotSupportedForType,
    /// Not to write, for files of this type.
    WriteNotSupportedForType,
    /// A delegation to read does not become one to write.
    UpgradeNotSupported,
    /// Nor the other way around.
    DowngradeNotSupported,
    /// The client gave up its wish.
    Cancelled,
    /// It is a directory.
    IsDirectory,
}

impl Decode<'_> for NoDelegation {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, Malformed> {
        Ok(match r.u32("why_no_delegation")? {
            0 => Self::NotWanted,
            1 => Self::Contention(r.get()?),
            2 => Self::Resource(r.get()?),
            3 => Self::NotSupportedForType,
            4 => Self::WriteNotSupportedForType,
            5 => Self::UpgradeNotSupported,
            6 => Self::DowngradeNotSupported,
            7 => Self::Cancelled,
            8 => Self::IsDirectory,
            _ => return Err(r.malformed("why_no_delegation")),
        })
    }
}

impl Encode for NoDelegation {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::NotWanted => w.u32(0),
            Self::Contention(will_push) => {
                w.u32(1);
                w.bool(*will_push);
            }
            Self::Resource(will_signal) => {
                w.u32(2);
                w.bool(*will_signal);
            }
            Self::NotSupportedForType => w.u32(3),
            Self::WriteNotSupportedForType => w.u32(4),
            Self::UpgradeNotSupported => w.u32(5),
            Self::DowngradeNotSupported => w.u32(6),
            Self::Cancelled => w.u32(7),
            Self::IsDirectory => w.u32(8),
        }
    }
}

/// A delegation, or none: `open_delegation4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenDelegation<'a> {
    /// None.
    None,
    /// To read.
    Read(ReadDelegation<'a>),
    /// To write.
    Write(WriteDelegation<'a>),
    /// None, and why.
    NoneWhy(NoDelegation),
    /// To read, with times.
    ReadAttributes(ReadDelegation<'a>),
    /// To write, with times.
    WriteAttributes(WriteDelegation<'a>),
}

impl<'a> Decode<'a> for OpenDelegation<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        Ok(match r.get()? {
            DelegationType::None => Self::None,
            DelegationType::Read => Self::Read(r.get()?),
            DelegationType::Write => Self::Write(r.get()?),
            DelegationType::NoneWhy => Self::NoneWhy(r.get()?),
            DelegationType::ReadAttributes => Self::ReadAttributes(r.get()?),
            DelegationType::WriteAttributes => Self::WriteAttributes(r.get()?),
        })
    }
}

impl Encode for OpenDelegation<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::None => w.put(&DelegationType::None),
            Self::Read(delegation) => {
                w.put(&DelegationType::Read);
                w.put(delegation);
            }
            Self::Write(delegation) => {
                w.put(&DelegationType::Write);
                w.put(delegation);
            }
            Self::NoneWhy(reason) => {
                w.put(&DelegationType::NoneWhy);
                w.put(reason);
            }
            Self::ReadAttributes(delegation) => {
                w.put(&DelegationType::ReadAttributes);
                w.put(delegation);
            }
            Self::WriteAttributes(delegation) => {
                w.put(&DelegationType::WriteAttributes);
                w.put(delegation);
            }
        }
    }
}

/// With which right a delegation is wanted: `deleg_claim4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegationClaim {
    /// With none.
    FileHandle,
    /// It was held before the client restarted.
    DelegatePreviousFileHandle,
    /// It was held before the server restarted.
    Previous(DelegationType),
}

impl Decode<'_> for DelegationClaim {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, Malformed> {
        Ok(match r.u32("deleg_claim")? {
            1 => Self::Previous(r.get()?),
            4 => Self::FileHandle,
            6 => Self::DelegatePreviousFileHandle,
            _ => return Err(r.malformed("deleg_claim")),
        })
    }
}

impl Encode for DelegationClaim {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Previous(delegation) => {
                w.u32(1);
                w.put(delegation);
            }
            Self::FileHandle => w.u32(4),
            Self::DelegatePreviousFileHandle => w.u32(6),
        }
    }
}

/// GET_DIR_DELEGATION's results: `GET_DIR_DELEGATION4res_non_fatal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetDirDelegationResult {
    /// A delegation.
    Granted(DirDelegation),
    /// None now. Whether the server tells when one is to be had.
    Unavailable(bool),
}

impl Decode<'_> for GetDirDelegationResult {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, Malformed> {
        match r.u32("gddrnf_status")? {
            0 => r.get().map(Self::Granted),
            1 => r.get().map(Self::Unavailable),
            _ => Err(r.malformed("gddrnf_status")),
        }
    }
}

impl Encode for GetDirDelegationResult {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Granted(delegation) => {
                w.u32(0);
                w.put(delegation);
            }
            Self::Unavailable(will_signal) => {
                w.u32(1);
                w.bool(*will_signal);
            }
        }
    }
}
