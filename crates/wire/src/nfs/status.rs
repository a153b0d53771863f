//! Status of operations: `nfsstat4`. RFC 8881 15, RFC 7862 11, RFC 8276 8.5.

use super::xdr::xdr_newtype;
use std::fmt;

/// Status of an operation.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NfsStatus(pub u32);

xdr_newtype!(NfsStatus);

macro_rules! table {
    ($($name:ident = $value:literal, $meaning:literal;)*) => {
        impl NfsStatus {
            $(#[doc = $meaning] pub const $name: Self = Self($value);)*

            /// All statuses of the specifications.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The symbolic name, without `NFS4ERR_`.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// Its meaning, in one sentence.
            #[must_use]
            pub fn meaning(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($meaning),)*
                    _ => None,
                }
            }
        }
    };
}

table! {
    OK = 0, "The operation succeeded.";
    PERM = 1, "The operation is reserved for the owner or the superuser.";
    NOENT = 2, "The file or directory does not exist.";
    IO = 5, "The server's disk or file system reported an I/O error.";
    NXIO = 6, "The device does not exist, or the file has no data or hole beyond this offset.";
    ACCESS = 13, "The permissions do not grant the requested access.";
    EXIST = 17, "A file or directory with this name already exists.";
    XDEV = 18, "The source and the target are on different file systems.";
    NOTDIR = 20, "The operation requires a directory, but the file handle refers to another kind of file.";
    ISDIR = 21, "The operation does not apply to a directory.";
    INVAL = 22, "An argument is not valid for this operation.";
    FBIG = 27, "The file would exceed its maximum size.";
    NOSPC = 28, "The file system has no free space.";
    ROFS = 30, "The file system is read-only.";
    MLINK = 31, "The file has the maximum number of hard links.";
    NAMETOOLONG = 63, "The file name is too long.";
    NOTEMPTY = 66, "The directory is not empty.";
    DQUOT = 69, "The user's disk quota is exhausted.";
    STALE = 70, "The file no longer exists, or the server does not export it to this client.";
    BADHANDLE = 10_001, "The file handle is malformed or belongs to another server.";
    BAD_COOKIE = 10_003, "The cookie of READDIR or LISTXATTRS is no longer valid; restart the listing.";
    NOTSUPP = 10_004, "The server does not support the operation.";
    TOOSMALL = 10_005, "The response exceeds the maximum size that the request permits.";
    SERVERFAULT = 10_006, "The server has an internal error; its log contains the reason.";
    BADTYPE = 10_007, "CREATE does not support this file type.";
    DELAY = 10_008, "The server cannot process the request yet; the client retries it.";
    SAME = 10_009, "NVERIFY found the same attributes.";
    DENIED = 10_010, "A lock of another owner conflicts with the requested one.";
    EXPIRED = 10_011, "The client's lease expired, and its state was revoked.";
    LOCKED = 10_012, "A mandatory byte-range lock prevents the read or write.";
    GRACE = 10_013, "The server restarted and accepts only reclaims until its grace period ends.";
    FHEXPIRED = 10_014, "The volatile file handle has expired.";
    SHARE_DENIED = 10_015, "Another open denies the requested access.";
    WRONGSEC = 10_016, "The export requires a different security flavor.";
    CLID_INUSE = 10_017, "Another principal uses this client identifier.";
    RESOURCE = 10_018, "The server has too few resources (NFSv4.0).";
    MOVED = 10_019, "The file system moved to another server.";
    NOFILEHANDLE = 10_020, "The compound has no current file handle.";
    MINOR_VERS_MISMATCH = 10_021, "The server does not support the minor version.";
    STALE_CLIENTID = 10_022, "The server does not know the client ID, for example after a restart.";
    STALE_STATEID = 10_023, "The state identifier is from before the server's restart.";
    OLD_STATEID = 10_024, "The state identifier has an outdated sequence number.";
    BAD_STATEID = 10_025, "The server does not know the state identifier.";
    BAD_SEQID = 10_026, "The owner's sequence number is out of order (NFSv4.0).";
    NOT_SAME = 10_027, "VERIFY found different attributes, or the READDIR verifier has changed.";
    LOCK_RANGE = 10_028, "The range does not exactly match one byte-range lock of the owner.";
    SYMLINK = 10_029, "The operation does not apply to a symbolic link.";
    RESTOREFH = 10_030, "The compound has no saved file handle.";
    LEASE_MOVED = 10_031, "A file system with state of the client moved to another server (NFSv4.0).";
    ATTRNOTSUPP = 10_032, "The server does not support an attribute of the request.";
    NO_GRACE = 10_033, "The server no longer accepts reclaims.";
    RECLAIM_BAD = 10_034, "The client did not hold this state before the server's restart.";
    RECLAIM_CONFLICT = 10_035, "The reclaim conflicts with state that another client holds.";
    BADXDR = 10_036, "The server cannot decode the arguments.";
    LOCKS_HELD = 10_037, "The open still has byte-range locks.";
    OPENMODE = 10_038, "The open or lock does not permit this kind of access.";
    BADOWNER = 10_039, "The server cannot map the owner or group to a local account.";
    BADCHAR = 10_040, "The name contains a character that the server does not support.";
    BADNAME = 10_041, "The server does not permit the name, for example a single or a double dot.";
    BAD_RANGE = 10_042, "The byte range exceeds the offsets that the server can lock.";
    LOCK_NOTSUPP = 10_043, "The server does not support changing the lock's type in place.";
    OP_ILLEGAL = 10_044, "The protocol does not define this operation.";
    DEADLOCK = 10_045, "The lock request would cause a deadlock.";
    FILE_OPEN = 10_046, "The file is open and cannot be removed or replaced.";
    ADMIN_REVOKED = 10_047, "An administrator revoked the state.";
    CB_PATH_DOWN = 10_048, "The server cannot reach the client's callback address (NFSv4.0).";
    BADIOMODE = 10_049, "The layout does not permit this kind of I/O.";
    BADLAYOUT = 10_050, "The layout is not valid.";
    BAD_SESSION_DIGEST = 10_051, "The session digest is wrong.";
    BADSESSION = 10_052, "The server does not know the session.";
    BADSLOT = 10_053, "The slot number exceeds the session's slots.";
    COMPLETE_ALREADY = 10_054, "The client already sent RECLAIM_COMPLETE.";
    CONN_NOT_BOUND_TO_SESSION = 10_055, "The connection is not bound to the session.";
    DELEG_ALREADY_WANTED = 10_056, "The client already requested this delegation.";
    BACK_CHAN_BUSY = 10_057, "The session's backchannel has outstanding callbacks.";
    LAYOUTTRYLATER = 10_058, "The layout is temporarily unavailable; the client retries.";
    LAYOUTUNAVAILABLE = 10_059, "The file system or file does not support this layout.";
    NOMATCHING_LAYOUT = 10_060, "The client holds no layout that matches the recall.";
    RECALLCONFLICT = 10_061, "An outstanding recall of a layout conflicts with the request.";
    UNKNOWN_LAYOUTTYPE = 10_062, "The layout type is unknown.";
    SEQ_MISORDERED = 10_063, "The sequence number of the slot is out of order.";
    SEQUENCE_POS = 10_064, "SEQUENCE is not the first operation of the compound.";
    REQ_TOO_BIG = 10_065, "The request exceeds the session's maximum request size.";
    REP_TOO_BIG = 10_066, "The reply would exceed the session's maximum reply size.";
    REP_TOO_BIG_TO_CACHE = 10_067, "The reply would exceed the session's maximum cached reply size.";
    RETRY_UNCACHED_REP = 10_068, "The server did not cache the reply to the original request.";
    UNSAFE_COMPOUND = 10_069, "The compound contains an unsafe mix of operations.";
    TOO_MANY_OPS = 10_070, "The compound exceeds the session's maximum number of operations.";
    OP_NOT_IN_SESSION = 10_071, "The operation requires a preceding SEQUENCE.";
    HASH_ALG_UNSUPP = 10_072, "The server supports none of the offered hash algorithms.";
    CLIENTID_BUSY = 10_074, "The client ID still has state.";
    PNFS_IO_HOLE = 10_075, "The range is in a hole of the sparse layout.";
    SEQ_FALSE_RETRY = 10_076, "The retry differs from the original request.";
    BAD_HIGH_SLOT = 10_077, "The highest slot number is not valid.";
    DEADSESSION = 10_078, "The persistent session is dead and accepts no new requests.";
    ENCR_ALG_UNSUPP = 10_079, "The server supports none of the offered encryption algorithms.";
    PNFS_NO_LAYOUT = 10_080, "The client does not hold the layout for this I/O.";
    NOT_ONLY_OP = 10_081, "The operation must be the only one of its compound.";
    WRONG_CRED = 10_082, "The request's credentials do not permit changing this state.";
    WRONG_TYPE = 10_083, "The operation does not apply to this file type.";
    DIRDELEG_UNAVAIL = 10_084, "The server cannot grant a delegation of the directory.";
    REJECT_DELEG = 10_085, "The client rejects the offered delegation.";
    RETURNCONFLICT = 10_086, "An outstanding layout return conflicts with the request.";
    DELEG_REVOKED = 10_087, "The server revoked the delegation.";
    PARTNER_NOTSUPP = 10_088, "The server does not support copies between servers.";
    PARTNER_NO_AUTH = 10_089, "The source server does not authorize the copy.";
    UNION_NOTSUPP = 10_090, "The server does not support this variant of the argument.";
    OFFLOAD_DENIED = 10_091, "The server denies the copy.";
    WRONG_LFS = 10_092, "The server does not support the security label's format.";
    BADLABEL = 10_093, "The security label is not valid.";
    OFFLOAD_NO_REQS = 10_094, "The server cannot meet the copy's requirements.";
    NOXATTR = 10_095, "The file does not have the requested extended attribute.";
    XATTR2BIG = 10_096, "The extended attribute is larger than the server permits.";
}

impl NfsStatus {
    /// True if the operation succeeded.
    #[must_use]
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }

    /// `Ok` if the operation succeeded, else the status as an error.
    ///
    /// # Errors
    /// The status itself.
    pub fn ok(self) -> Result<(), Self> {
        if self.is_ok() { Ok(()) } else { Err(self) }
    }
}

impl std::error::Error for NfsStatus {}

impl fmt::Debug for NfsStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "NfsStatus({})", self.0),
        }
    }
}

impl fmt::Display for NfsStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some(meaning) => write!(f, "{self:?}: {meaning}"),
            None => write!(f, "{self:?}"),
        }
    }
}
