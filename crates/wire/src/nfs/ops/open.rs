//! Opens and delegations: OPEN, OPEN_DOWNGRADE, DELEGRETURN, DELEGPURGE, WANT_DELEGATION,
//! GET_DIR_DELEGATION. RFC 8881 18.5, 18.6, 18.16, 18.18, 18.39, 18.49; RFC 9754 for the newer
//! kinds.

use crate::codec::DecodeError;
use crate::nfs::acl::NfsAce;
use crate::nfs::xdr::{Decode, Encode, XdrReader, XdrWriter, xdr_enum, xdr_flags, xdr_struct};
use crate::nfs::{Bitmap4, ChangeInfo, ClientId, Fattr, NfsTime, StateId, StateOwner, Verifier};

xdr_flags! {
    /// Share access of an open, and the delegation that the client wants: `share_access`.
    flags ShareAccess {
        /// To read.
        READ = 0x1,
        /// To write.
        WRITE = 0x2,
        /// Both.
        BOTH = 0x3,
        /// Mask of the delegation wants below.
        WANT_DELEG_MASK = 0xFF00,
        /// Wants a read delegation.
        WANT_READ_DELEG = 0x0100,
        /// Wants a write delegation.
        WANT_WRITE_DELEG = 0x0200,
        /// Wants either delegation.
        WANT_ANY_DELEG = 0x0300,
        /// Wants no delegation.
        WANT_NO_DELEG = 0x0400,
        /// Wants no delegation, and withdraws an earlier want.
        WANT_CANCEL = 0x0500,
        /// Wants a notification when the server has the resources for a delegation.
        WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL = 0x1_0000,
        /// Wants a delegation as soon as no conflict exists.
        WANT_PUSH_DELEG_WHEN_UNCONTENDED = 0x2_0000,
        /// Wants a delegation that includes the file's timestamps. RFC 9754 5.
        WANT_DELEG_TIMESTAMPS = 0x10_0000,
        /// Wants either a delegation or an open, not both. RFC 9754 4.
        WANT_OPEN_XOR_DELEGATION = 0x20_0000,
    }

    /// Share deny of an open: `share_deny`.
    flags ShareDeny {
        /// Denies reads.
        READ = 0x1,
        /// Denies writes.
        WRITE = 0x2,
        /// Denies both.
        BOTH = 0x3,
    }

    /// Flags of OPEN's results. RFC 8881 18.16.2.
    flags OpenResultFlags {
        /// Byte-range locks have POSIX semantics.
        LOCKTYPE_POSIX = 0x04,
        /// An unlinked file persists while it is open.
        PRESERVE_UNLINKED = 0x08,
        /// There is no open state id, only the delegation. RFC 9754 4.
        NO_OPEN_STATEID = 0x10,
        /// The server may send CB_NOTIFY_LOCK.
        MAY_NOTIFY_LOCK = 0x20,
    }
}

impl ShareAccess {
    /// The share access without the delegation wants.
    #[must_use]
    pub fn access(self) -> Self {
        self & Self::BOTH
    }

    /// The delegation want: one of the `WANT_…_DELEG` values, or 0.
    #[must_use]
    pub fn wanted_delegation(self) -> Self {
        self & Self::WANT_DELEG_MASK
    }
}

xdr_enum! {
    /// Delegation types: `open_delegation_type4`.
    enum DelegationType {
        /// No delegation.
        None = 0,
        /// Read delegation.
        Read = 1,
        /// Write delegation.
        Write = 2,
        /// No delegation, with a reason.
        NoneWhy = 3,
        /// Read delegation with timestamps. RFC 9754 5.
        ReadAttributes = 4,
        /// Write delegation with timestamps. RFC 9754 5.
        WriteAttributes = 5,
    }
}

xdr_struct! {
    /// OPEN's arguments.
    #[derive(Copy)]
    struct OpenArgs<'a> {
        /// Unused since version 4.1.
        sequence_id: u32,
        /// Share access and delegation want.
        share_access: ShareAccess,
        /// Share deny.
        share_deny: ShareDeny,
        /// Open owner.
        owner: StateOwner<'a>,
        /// Whether and how to create the file.
        how: NfsOpenHow<'a>,
        /// The file to open.
        claim: OpenClaim<'a>,
    }

    /// OPEN's results.
    #[derive(Copy)]
    struct NfsOpenResult<'a> {
        /// State id of the open.
        state_id: StateId,
        /// The directory's change attribute.
        change: ChangeInfo,
        /// Result flags.
        flags: OpenResultFlags,
        /// Attributes that were set.
        attributes_set: Bitmap4,
        /// A delegation.
        delegation: OpenDelegation<'a>,
    }

    /// OPEN_DOWNGRADE's arguments. The result is the [`StateId`].
    #[derive(Copy)]
    struct OpenDowngradeArgs {
        /// State id of the open.
        state_id: StateId,
        /// Unused since version 4.1.
        sequence_id: u32,
        /// New share access.
        share_access: ShareAccess,
        /// New share deny.
        share_deny: ShareDeny,
    }

    /// DELEGRETURN's arguments.
    #[derive(Copy)]
    struct DelegReturnArgs {
        /// State id of the delegation.
        state_id: StateId,
    }

    /// DELEGPURGE's arguments.
    #[derive(Copy)]
    struct DelegPurgeArgs {
        /// The client.
        client_id: ClientId,
    }

    /// A read delegation: `open_read_delegation4`.
    #[derive(Copy)]
    struct ReadDelegation<'a> {
        /// State id of the delegation.
        state_id: StateId,
        /// True if the server recalls the delegation immediately.
        is_recalled: bool,
        /// Principals that may open the file without an ACCESS call.
        permissions: NfsAce<'a>,
    }

    /// A write delegation: `open_write_delegation4`.
    #[derive(Copy)]
    struct WriteDelegation<'a> {
        /// State id of the delegation.
        state_id: StateId,
        /// True if the server recalls the delegation immediately.
        is_recalled: bool,
        /// Limit of the data that the client may cache until it closes the file.
        space_limit: SpaceLimit,
        /// Principals that may open the file without an ACCESS call.
        permissions: NfsAce<'a>,
    }

    /// WANT_DELEGATION's arguments. The result is [`OpenDelegation`].
    #[derive(Copy)]
    struct WantDelegationArgs {
        /// The wanted delegation.
        want: ShareAccess,
        /// Claim.
        claim: DelegationClaim,
    }

    /// GET_DIR_DELEGATION's arguments.
    #[derive(Copy)]
    struct GetDirDelegationArgs {
        /// The client wants a notification when a delegation becomes available.
        signal_available: bool,
        /// Requested notification types.
        notification_types: Bitmap4,
        /// Maximum delay of notifications about entries' attributes.
        child_attributes_delay: NfsTime,
        /// Maximum delay of notifications about the directory's attributes.
        directory_attributes_delay: NfsTime,
        /// Attributes of entries to report.
        child_attributes: Bitmap4,
        /// Attributes of the directory to report.
        directory_attributes: Bitmap4,
    }

    /// A directory delegation: `GET_DIR_DELEGATION4resok`.
    #[derive(Copy)]
    struct DirDelegation {
        /// Verifier of the cookies.
        cookie_verifier: Verifier,
        /// State id of the delegation.
        state_id: StateId,
        /// Notification types that the server will send.
        notification_types: Bitmap4,
        /// Attributes of entries that the server will report.
        child_attributes: Bitmap4,
        /// Attributes of the directory that the server will report.
        directory_attributes: Bitmap4,
    }
}

/// Create mode: `createhow4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsCreateHow<'a> {
    /// Creates the file, or opens an existing one.
    Unchecked(Fattr<'a>),
    /// Creates the file; it must not exist.
    Guarded(Fattr<'a>),
    /// Creates the file exclusively with this verifier. Obsolete.
    Exclusive(Verifier),
    /// Creates the file exclusively with this verifier and attributes.
    ExclusiveWithAttributes(Verifier, Fattr<'a>),
}

/// Whether and how OPEN creates the file: `openflag4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsOpenHow<'a> {
    /// The file must exist.
    NoCreate,
    /// Creates the file.
    Create(NfsCreateHow<'a>),
}

impl<'a> Decode<'a> for NfsOpenHow<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        match r.u32("opentype")? {
            0 => return Ok(Self::NoCreate),
            1 => {}
            _ => return Err(r.malformed("opentype")),
        }
        Ok(Self::Create(match r.u32("createmode")? {
            0 => NfsCreateHow::Unchecked(r.get()?),
            1 => NfsCreateHow::Guarded(r.get()?),
            2 => NfsCreateHow::Exclusive(r.get()?),
            3 => NfsCreateHow::ExclusiveWithAttributes(r.get()?, r.get()?),
            _ => return Err(r.malformed("createmode")),
        }))
    }
}

impl Encode for NfsOpenHow<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        let Self::Create(how) = self else { return w.u32(0) };
        w.u32(1);
        match how {
            NfsCreateHow::Unchecked(attributes) => {
                w.u32(0);
                w.put(attributes);
            }
            NfsCreateHow::Guarded(attributes) => {
                w.u32(1);
                w.put(attributes);
            }
            NfsCreateHow::Exclusive(verifier) => {
                w.u32(2);
                w.put(verifier);
            }
            NfsCreateHow::ExclusiveWithAttributes(verifier, attributes) => {
                w.u32(3);
                w.put(verifier);
                w.put(attributes);
            }
        }
    }
}

/// The file to open, and the claim to it: `open_claim4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenClaim<'a> {
    /// This name in the current directory.
    Null(&'a [u8]),
    /// Reclaims the current file after a server restart, with this delegation.
    Previous(DelegationType),
    /// This name, under a delegation that the client holds.
    DelegateCurrent(StateId, &'a [u8]),
    /// This name, under a delegation from before a client restart.
    DelegatePrevious(&'a [u8]),
    /// The current file.
    FileHandle,
    /// The current file, under a delegation that the client holds.
    DelegateCurrentFileHandle(StateId),
    /// The current file, under a delegation from before a client restart.
    DelegatePreviousFileHandle,
}

impl<'a> Decode<'a> for OpenClaim<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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

/// Limit of the data that a client may cache: `nfs_space_limit4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceLimit {
    /// Maximum file size, in bytes.
    SizeBytes(u64),
    /// Maximum number of modified blocks.
    Blocks {
        /// Number of blocks.
        count: u32,
        /// Size of a block, in bytes.
        block_bytes: u32,
    },
}

impl Decode<'_> for SpaceLimit {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
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

/// Why the server grants no delegation: `open_none_delegation4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDelegation {
    /// The client wanted none.
    NotWanted,
    /// A conflicting access exists. True if the server will push one later.
    Contention(bool),
    /// The server lacks resources. True if it will notify the client.
    Resource(bool),
    /// The file type does not support delegations.
    NotSupportedForType,
    /// The file type does not support write delegations.
    WriteNotSupportedForType,
    /// A read delegation cannot be upgraded.
    UpgradeNotSupported,
    /// A write delegation cannot be downgraded.
    DowngradeNotSupported,
    /// The client cancelled its want.
    Cancelled,
    /// The file is a directory.
    IsDirectory,
}

impl Decode<'_> for NoDelegation {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
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

/// The delegation of OPEN's results: `open_delegation4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenDelegation<'a> {
    /// No delegation.
    None,
    /// A read delegation.
    Read(ReadDelegation<'a>),
    /// A write delegation.
    Write(WriteDelegation<'a>),
    /// No delegation, with a reason.
    NoneWhy(NoDelegation),
    /// A read delegation with timestamps.
    ReadAttributes(ReadDelegation<'a>),
    /// A write delegation with timestamps.
    WriteAttributes(WriteDelegation<'a>),
}

impl<'a> Decode<'a> for OpenDelegation<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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

/// Claim of WANT_DELEGATION: `deleg_claim4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegationClaim {
    /// A new delegation of the current file.
    FileHandle,
    /// Reclaims a delegation from before a client restart.
    DelegatePreviousFileHandle,
    /// Reclaims a delegation from before a server restart.
    Previous(DelegationType),
}

impl Decode<'_> for DelegationClaim {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
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
    /// The delegation was granted.
    Granted(DirDelegation),
    /// No delegation. True if the server will notify the client when one is available.
    Unavailable(bool),
}

impl Decode<'_> for GetDirDelegationResult {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
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
