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
    OK = 0, "Done.";
    PERM = 1, "Only the owner or the superuser may do this.";
    NOENT = 2, "There is no such name.";
    IO = 5, "The disk failed.";
    NXIO = 6, "There is no such device, or nothing behind the offset.";
    ACCESS = 13, "Permission was denied.";
    EXIST = 17, "The name exists.";
    XDEV = 18, "The two names lie on different file systems.";
    NOTDIR = 20, "A directory was wanted, this is not one.";
    ISDIR = 21, "This is a directory, it must not be.";
    INVAL = 22, "An argument is not valid.";
    FBIG = 27, "The file would become too large.";
    NOSPC = 28, "The disk is full.";
    ROFS = 30, "The file system is read-only.";
    MLINK = 31, "The file has too many names.";
    NAMETOOLONG = 63, "The name is too long.";
    NOTEMPTY = 66, "The directory is not empty.";
    DQUOT = 69, "The quota is used up.";
    STALE = 70, "The file is gone.";
    BADHANDLE = 10_001, "The file handle is not one of this server.";
    BAD_COOKIE = 10_003, "The place in the directory is not known.";
    NOTSUPP = 10_004, "The operation is not supported.";
    TOOSMALL = 10_005, "The answer does not fit the limits that the request gave.";
    SERVERFAULT = 10_006, "The server found itself in a state that must not be.";
    BADTYPE = 10_007, "CREATE does not make files of this type.";
    DELAY = 10_008, "Not now; the same again later.";
    SAME = 10_009, "The attributes are the same.";
    DENIED = 10_010, "Another holds a lock that conflicts.";
    EXPIRED = 10_011, "The lease ended, and the state with it.";
    LOCKED = 10_012, "A lock forbids it.";
    GRACE = 10_013, "The server waits for clients from before its restart.";
    FHEXPIRED = 10_014, "The file handle is no longer valid.";
    SHARE_DENIED = 10_015, "Another open forbids it.";
    WRONGSEC = 10_016, "The file wants other security.";
    CLID_INUSE = 10_017, "Another user has the client.";
    RESOURCE = 10_018, "The server ran out of resources (version 4.0).";
    MOVED = 10_019, "The file system is elsewhere.";
    NOFILEHANDLE = 10_020, "There is no current file handle.";
    MINOR_VERS_MISMATCH = 10_021, "The minor version is not spoken.";
    STALE_CLIENTID = 10_022, "The client is not known.";
    STALE_STATEID = 10_023, "The state is of an earlier instance of the server.";
    OLD_STATEID = 10_024, "The state has changed since.";
    BAD_STATEID = 10_025, "The state is not known.";
    BAD_SEQID = 10_026, "The owner's sequence is broken (version 4.0).";
    NOT_SAME = 10_027, "The attributes are not the same.";
    LOCK_RANGE = 10_028, "The range is not one that was locked.";
    SYMLINK = 10_029, "This is a symbolic link, it must not be.";
    RESTOREFH = 10_030, "There is no saved file handle.";
    LEASE_MOVED = 10_031, "A file system with state moved (version 4.0).";
    ATTRNOTSUPP = 10_032, "The attribute cannot be set or is not supported.";
    NO_GRACE = 10_033, "Nothing can be reclaimed now.";
    RECLAIM_BAD = 10_034, "It was not held before the restart.";
    RECLAIM_CONFLICT = 10_035, "Another has reclaimed what conflicts.";
    BADXDR = 10_036, "The arguments could not be decoded.";
    LOCKS_HELD = 10_037, "There are still locks.";
    OPENMODE = 10_038, "The open was not granted this kind of access.";
    BADOWNER = 10_039, "The owner is not known.";
    BADCHAR = 10_040, "The name has a character that cannot be.";
    BADNAME = 10_041, "The name cannot be.";
    BAD_RANGE = 10_042, "The range is beyond what can be locked.";
    LOCK_NOTSUPP = 10_043, "The lock cannot be changed in place.";
    OP_ILLEGAL = 10_044, "The operation is not one.";
    DEADLOCK = 10_045, "Waiting for the lock would never end.";
    FILE_OPEN = 10_046, "The file is open.";
    ADMIN_REVOKED = 10_047, "An administrator took the state away.";
    CB_PATH_DOWN = 10_048, "The server does not reach the client (version 4.0).";
    BADIOMODE = 10_049, "The layout is for the other kind of access.";
    BADLAYOUT = 10_050, "The layout is not valid.";
    BAD_SESSION_DIGEST = 10_051, "The digest is wrong.";
    BADSESSION = 10_052, "The session is not known.";
    BADSLOT = 10_053, "The session has no such slot.";
    COMPLETE_ALREADY = 10_054, "Reclaiming was ended before.";
    CONN_NOT_BOUND_TO_SESSION = 10_055, "The connection is not bound to the session.";
    DELEG_ALREADY_WANTED = 10_056, "The delegation was asked for before.";
    BACK_CHAN_BUSY = 10_057, "Callbacks are still on their way.";
    LAYOUTTRYLATER = 10_058, "There is no layout now.";
    LAYOUTUNAVAILABLE = 10_059, "There are no layouts for the file.";
    NOMATCHING_LAYOUT = 10_060, "There is no such layout.";
    RECALLCONFLICT = 10_061, "A recall of the layout is on its way.";
    UNKNOWN_LAYOUTTYPE = 10_062, "The type of layout is not known.";
    SEQ_MISORDERED = 10_063, "The slot expects another sequence number.";
    SEQUENCE_POS = 10_064, "SEQUENCE must be the first operation.";
    REQ_TOO_BIG = 10_065, "The request is larger than the session allows.";
    REP_TOO_BIG = 10_066, "The reply would be larger than the session allows.";
    REP_TOO_BIG_TO_CACHE = 10_067, "The reply would be larger than what the session keeps.";
    RETRY_UNCACHED_REP = 10_068, "The reply to the first try was not kept.";
    UNSAFE_COMPOUND = 10_069, "The operation must not stand in this compound.";
    TOO_MANY_OPS = 10_070, "There are more operations than the session allows.";
    OP_NOT_IN_SESSION = 10_071, "The operation needs a SEQUENCE before it.";
    HASH_ALG_UNSUPP = 10_072, "None of the hash algorithms is supported.";
    CLIENTID_BUSY = 10_074, "The client still has state.";
    PNFS_IO_HOLE = 10_075, "The range is a hole of a sparse layout.";
    SEQ_FALSE_RETRY = 10_076, "The retry is not the request that it repeats.";
    BAD_HIGH_SLOT = 10_077, "The highest slot is not valid.";
    DEADSESSION = 10_078, "The session ended.";
    ENCR_ALG_UNSUPP = 10_079, "None of the encryption algorithms is supported.";
    PNFS_NO_LAYOUT = 10_080, "The client has no layout for this.";
    NOT_ONLY_OP = 10_081, "The operation must stand alone.";
    WRONG_CRED = 10_082, "The user is not the one who may.";
    WRONG_TYPE = 10_083, "The file has a type that this does not work on.";
    DIRDELEG_UNAVAIL = 10_084, "There is no delegation of the directory.";
    REJECT_DELEG = 10_085, "The client does not want the delegation.";
    RETURNCONFLICT = 10_086, "A layout is being returned.";
    DELEG_REVOKED = 10_087, "The delegation was revoked.";
    PARTNER_NOTSUPP = 10_088, "Copies between servers are not supported.";
    PARTNER_NO_AUTH = 10_089, "The copy between servers is not allowed.";
    UNION_NOTSUPP = 10_090, "This kind of argument is not supported.";
    OFFLOAD_DENIED = 10_091, "The copy is not allowed.";
    WRONG_LFS = 10_092, "The format of the label is not supported.";
    BADLABEL = 10_093, "The label is not valid.";
    OFFLOAD_NO_REQS = 10_094, "The copy cannot be made in the way that was asked for.";
    NOXATTR = 10_095, "There is no such extended attribute.";
    XATTR2BIG = 10_096, "The extended attribute is too large.";
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
