//! Operation numbers. RFC 8881 16.2.3 and 20, RFC 7862 15, RFC 8276 8.4.

use super::xdr::xdr_newtype;
use std::fmt;

/// NFS program number. RFC 8881 16.
pub const NFS_PROGRAM: u32 = 100_003;
/// NFS program version.
pub const NFS_VERSION: u32 = 4;
/// Version of the callback program. The client chooses the program's number.
pub const CALLBACK_VERSION: u32 = 1;
/// NULL procedure of both programs.
pub const PROCEDURE_NULL: u32 = 0;
/// COMPOUND procedure of both programs.
pub const PROCEDURE_COMPOUND: u32 = 1;

/// Number of a fore channel operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationNumber(pub u32);

/// Number of a callback operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallbackNumber(pub u32);

xdr_newtype!(OperationNumber CallbackNumber);

macro_rules! numbers {
    ($type:ident $($name:ident = $value:literal,)*) => {
        #[allow(missing_docs)]
        impl $type {
            $(pub const $name: Self = Self($value);)*

            /// Its name in the specification, without `OP_`.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}({})", stringify!($type), self.0),
                }
            }
        }
    };
}

numbers! { OperationNumber
    ACCESS = 3,
    CLOSE = 4,
    COMMIT = 5,
    CREATE = 6,
    DELEGPURGE = 7,
    DELEGRETURN = 8,
    GETATTR = 9,
    GETFH = 10,
    LINK = 11,
    LOCK = 12,
    LOCKT = 13,
    LOCKU = 14,
    LOOKUP = 15,
    LOOKUPP = 16,
    NVERIFY = 17,
    OPEN = 18,
    OPENATTR = 19,
    OPEN_CONFIRM = 20,
    OPEN_DOWNGRADE = 21,
    PUTFH = 22,
    PUTPUBFH = 23,
    PUTROOTFH = 24,
    READ = 25,
    READDIR = 26,
    READLINK = 27,
    REMOVE = 28,
    RENAME = 29,
    RENEW = 30,
    RESTOREFH = 31,
    SAVEFH = 32,
    SECINFO = 33,
    SETATTR = 34,
    SETCLIENTID = 35,
    SETCLIENTID_CONFIRM = 36,
    VERIFY = 37,
    WRITE = 38,
    RELEASE_LOCKOWNER = 39,
    BACKCHANNEL_CTL = 40,
    BIND_CONN_TO_SESSION = 41,
    EXCHANGE_ID = 42,
    CREATE_SESSION = 43,
    DESTROY_SESSION = 44,
    FREE_STATEID = 45,
    GET_DIR_DELEGATION = 46,
    GETDEVICEINFO = 47,
    GETDEVICELIST = 48,
    LAYOUTCOMMIT = 49,
    LAYOUTGET = 50,
    LAYOUTRETURN = 51,
    SECINFO_NO_NAME = 52,
    SEQUENCE = 53,
    SET_SSV = 54,
    TEST_STATEID = 55,
    WANT_DELEGATION = 56,
    DESTROY_CLIENTID = 57,
    RECLAIM_COMPLETE = 58,
    ALLOCATE = 59,
    COPY = 60,
    COPY_NOTIFY = 61,
    DEALLOCATE = 62,
    IO_ADVISE = 63,
    LAYOUTERROR = 64,
    LAYOUTSTATS = 65,
    OFFLOAD_CANCEL = 66,
    OFFLOAD_STATUS = 67,
    READ_PLUS = 68,
    SEEK = 69,
    WRITE_SAME = 70,
    CLONE = 71,
    GETXATTR = 72,
    SETXATTR = 73,
    LISTXATTRS = 74,
    REMOVEXATTR = 75,
    ILLEGAL = 10_044,
}

numbers! { CallbackNumber
    GETATTR = 3,
    RECALL = 4,
    LAYOUTRECALL = 5,
    NOTIFY = 6,
    PUSH_DELEG = 7,
    RECALL_ANY = 8,
    RECALLABLE_OBJ_AVAIL = 9,
    RECALL_SLOT = 10,
    SEQUENCE = 11,
    WANTS_CANCELLED = 12,
    NOTIFY_LOCK = 13,
    NOTIFY_DEVICEID = 14,
    OFFLOAD = 15,
    ILLEGAL = 10_044,
}

impl OperationNumber {
    /// True if a version of the protocol defines the operation. The server answers a defined but
    /// unimplemented operation with NOTSUPP under its own number. It answers an undefined one with
    /// OP_ILLEGAL under [`OperationNumber::ILLEGAL`]. RFC 8881 16.2.3.
    #[must_use]
    pub fn is_defined(self) -> bool {
        (Self::ACCESS..=Self::REMOVEXATTR).contains(&self)
    }

    /// True if only version 4.0 has the operation; the server answers NOTSUPP. RFC 8881 17.
    #[must_use]
    pub fn is_obsolete(self) -> bool {
        matches!(
            self,
            Self::OPEN_CONFIRM
                | Self::RENEW
                | Self::SETCLIENTID
                | Self::SETCLIENTID_CONFIRM
                | Self::RELEASE_LOCKOWNER
        )
    }

    /// True if version 4.2 or one of its extensions added the operation.
    #[must_use]
    pub fn is_of_minor_version_2(self) -> bool {
        (Self::ALLOCATE..=Self::REMOVEXATTR).contains(&self)
    }
}

impl CallbackNumber {
    /// True if a version of the protocol defines the callback.
    #[must_use]
    pub fn is_defined(self) -> bool {
        (Self::GETATTR..=Self::OFFLOAD).contains(&self)
    }
}
