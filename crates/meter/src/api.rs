//! The commands of SMB and the operations of NFS as fixed tables.

/// Protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MeteredProtocol {
    /// SMB 2 and 3.
    Smb,
    /// NFS 4.1 and 4.2.
    Nfs,
}

impl MeteredProtocol {
    /// The displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Smb => "SMB",
            Self::Nfs => "NFS",
        }
    }
}

/// Initiator of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionType {
    /// A client.
    User,
    /// The server itself.
    System,
}

impl TransactionType {
    /// The displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::System => "System",
        }
    }
}

/// SMB commands by number (MS-SMB2 2.2.1.2), then pseudo-commands.
const SMB: [&str; 21] = [
    "Negotiate",
    "SessionSetup",
    "Logoff",
    "TreeConnect",
    "TreeDisconnect",
    "Create",
    "Close",
    "Flush",
    "Read",
    "Write",
    "Lock",
    "Ioctl",
    "Cancel",
    "Echo",
    "QueryDirectory",
    "ChangeNotify",
    "QueryInfo",
    "SetInfo",
    "OplockBreak",
    "OplockBreakNotification",
    "Unknown",
];

/// The table of NFS operations.
macro_rules! nfs_operations {
    ($($name:ident = $number:literal,)*) => {
        /// NFS operations by number. RFC 8881 16.2.3, RFC 7862 15, RFC 8276 8.4.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names of the specifications")]
        #[repr(u8)]
        pub enum NfsOperation {
            $($name = $number,)*
        }

        impl NfsOperation {
            const ALL: &[Self] = &[$(Self::$name,)*];

            /// The operation of a number that a client sent.
            #[must_use]
            pub fn of_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The displayed name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

nfs_operations! {
    Access = 3,
    Close = 4,
    Commit = 5,
    Create = 6,
    DelegPurge = 7,
    DelegReturn = 8,
    GetAttr = 9,
    GetFh = 10,
    Link = 11,
    Lock = 12,
    LockTest = 13,
    Unlock = 14,
    Lookup = 15,
    LookupParent = 16,
    NVerify = 17,
    Open = 18,
    OpenAttr = 19,
    OpenConfirm = 20,
    OpenDowngrade = 21,
    PutFh = 22,
    PutPubFh = 23,
    PutRootFh = 24,
    Read = 25,
    ReadDir = 26,
    ReadLink = 27,
    Remove = 28,
    Rename = 29,
    Renew = 30,
    RestoreFh = 31,
    SaveFh = 32,
    SecInfo = 33,
    SetAttr = 34,
    SetClientId = 35,
    SetClientIdConfirm = 36,
    Verify = 37,
    Write = 38,
    ReleaseLockOwner = 39,
    BackchannelCtl = 40,
    BindConnToSession = 41,
    ExchangeId = 42,
    CreateSession = 43,
    DestroySession = 44,
    FreeStateId = 45,
    GetDirDelegation = 46,
    GetDeviceInfo = 47,
    GetDeviceList = 48,
    LayoutCommit = 49,
    LayoutGet = 50,
    LayoutReturn = 51,
    SecInfoNoName = 52,
    Sequence = 53,
    SetSsv = 54,
    TestStateId = 55,
    WantDelegation = 56,
    DestroyClientId = 57,
    ReclaimComplete = 58,
    Allocate = 59,
    Copy = 60,
    CopyNotify = 61,
    Deallocate = 62,
    IoAdvise = 63,
    LayoutError = 64,
    LayoutStats = 65,
    OffloadCancel = 66,
    OffloadStatus = 67,
    ReadPlus = 68,
    Seek = 69,
    WriteSame = 70,
    Clone = 71,
    GetXattr = 72,
    SetXattr = 73,
    ListXattrs = 74,
    RemoveXattr = 75,
}

/// NFS pseudo-operations.
const NFS_OTHER: [&str; 3] = ["Null", "Callback", "Unknown"];

/// Number of NFS names.
const NFS_COUNT: usize = NfsOperation::ALL.len() + NFS_OTHER.len();

// The indices in the table follow from the numbers.
const _: () = {
    let mut at = 0;
    while at < NfsOperation::ALL.len() {
        assert!(NfsOperation::ALL[at] as usize == NFS_FIRST + at);
        at += 1;
    }
};

/// Number of the first NFS operation.
const NFS_FIRST: usize = 3;

/// Any command or operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Api(u8);

impl Api {
    /// Number of all commands and operations.
    pub(crate) const COUNT: usize = SMB.len() + NFS_COUNT;
    /// SMB: notification of an oplock or lease break.
    pub const OPLOCK_BREAK_NOTIFICATION: Self = Self(19);
    /// NFS: the NULL procedure.
    pub const NULL: Self = Self((SMB.len() + NfsOperation::ALL.len()) as u8);
    /// NFS: callbacks of the server.
    pub const CALLBACK: Self = Self((SMB.len() + NfsOperation::ALL.len() + 1) as u8);
    /// NFS: an unknown operation number.
    pub const NFS_UNKNOWN: Self = Self((SMB.len() + NfsOperation::ALL.len() + 2) as u8);

    /// The SMB command of a number.
    #[must_use]
    pub fn smb(command: u16) -> Self {
        let known = usize::from(command) < 19;
        Self(if known { command as u8 } else { SMB.len() as u8 - 1 })
    }

    /// An NFS operation.
    #[must_use]
    pub fn nfs(operation: NfsOperation) -> Self {
        Self((SMB.len() + operation as usize - NFS_FIRST) as u8)
    }

    /// The NFS operation of a number that a client sent, or [`Api::NFS_UNKNOWN`].
    #[must_use]
    pub fn of_nfs_number(number: u32) -> Self {
        NfsOperation::of_number(number).map_or(Self::NFS_UNKNOWN, Self::nfs)
    }

    /// All commands and operations.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The protocol.
    #[must_use]
    pub fn protocol(self) -> MeteredProtocol {
        if self.index() < SMB.len() { MeteredProtocol::Smb } else { MeteredProtocol::Nfs }
    }

    /// The displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.index().checked_sub(SMB.len()) {
            None => SMB[self.index()],
            Some(at) => match NfsOperation::ALL.get(at) {
                Some(operation) => operation.name(),
                None => NFS_OTHER[at - NfsOperation::ALL.len()],
            },
        }
    }

    /// The initiator.
    #[must_use]
    pub fn transaction_type(self) -> TransactionType {
        if self == Self::OPLOCK_BREAK_NOTIFICATION || self == Self::CALLBACK {
            TransactionType::System
        } else {
            TransactionType::User
        }
    }

    /// Whether the operation only sets the context of others and is no transaction by itself:
    /// SEQUENCE, PUTFH and the like.
    #[must_use]
    pub fn is_context(self) -> bool {
        self.protocol() == MeteredProtocol::Nfs
            && matches!(
                self.name(),
                "Sequence" | "PutFh" | "PutPubFh" | "PutRootFh" | "GetFh" | "SaveFh" | "RestoreFh"
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_numbers_have_the_names_of_the_specifications() {
        for (number, name) in [(0, "Negotiate"), (8, "Read"), (18, "OplockBreak"), (19, "Unknown")]
        {
            assert_eq!(Api::smb(number).name(), name);
            assert_eq!(Api::smb(number).protocol(), MeteredProtocol::Smb);
        }
        let nfs = [(3, "Access"), (25, "Read"), (38, "Write"), (53, "Sequence"), (60, "Copy")];
        for (number, name) in nfs.into_iter().chain([(75, "RemoveXattr"), (76, "Unknown")]) {
            assert_eq!(Api::of_nfs_number(number).name(), name);
            assert_eq!(Api::of_nfs_number(number).protocol(), MeteredProtocol::Nfs);
        }
        assert_eq!(Api::of_nfs_number(u32::MAX).name(), "Unknown");
        assert_eq!((Api::NULL.name(), Api::CALLBACK.name()), ("Null", "Callback"));
        assert_eq!(Api::OPLOCK_BREAK_NOTIFICATION.name(), "OplockBreakNotification");
    }

    #[test]
    fn context_only_operation_is_not_a_transaction() {
        let context: Vec<u32> = (0..90).filter(|n| Api::of_nfs_number(*n).is_context()).collect();
        assert_eq!(context, [10, 22, 23, 24, 31, 32, 53]);
        assert!((0..90).all(|n| !Api::smb(n).is_context()));
    }
}
