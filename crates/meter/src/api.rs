//! What is asked for: the commands of SMB and the operations of NFS, by fixed tables.

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// SMB 2 and 3.
    Smb,
    /// NFS 4.1 and 4.2.
    Nfs,
}

impl Protocol {
    /// What is shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Smb => "SMB",
            Self::Nfs => "NFS",
        }
    }
}

/// Who began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionType {
    /// A client.
    User,
    /// The server itself.
    System,
}

impl TransactionType {
    /// What is shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::System => "System",
        }
    }
}

/// SMB's commands by their numbers (MS-SMB2 2.2.1.2), then what has none.
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

/// NFS's operations by their numbers (RFC 8881 16.2.3, RFC 7862 15, RFC 8276 8.4), beginning with
/// ACCESS; then what has none.
const NFS: [&str; 76] = [
    "Access",
    "Close",
    "Commit",
    "Create",
    "DelegPurge",
    "DelegReturn",
    "GetAttr",
    "GetFh",
    "Link",
    "Lock",
    "LockTest",
    "Unlock",
    "Lookup",
    "LookupParent",
    "NVerify",
    "Open",
    "OpenAttr",
    "OpenConfirm",
    "OpenDowngrade",
    "PutFh",
    "PutPubFh",
    "PutRootFh",
    "Read",
    "ReadDir",
    "ReadLink",
    "Remove",
    "Rename",
    "Renew",
    "RestoreFh",
    "SaveFh",
    "SecInfo",
    "SetAttr",
    "SetClientId",
    "SetClientIdConfirm",
    "Verify",
    "Write",
    "ReleaseLockOwner",
    "BackchannelCtl",
    "BindConnToSession",
    "ExchangeId",
    "CreateSession",
    "DestroySession",
    "FreeStateId",
    "GetDirDelegation",
    "GetDeviceInfo",
    "GetDeviceList",
    "LayoutCommit",
    "LayoutGet",
    "LayoutReturn",
    "SecInfoNoName",
    "Sequence",
    "SetSsv",
    "TestStateId",
    "WantDelegation",
    "DestroyClientId",
    "ReclaimComplete",
    "Allocate",
    "Copy",
    "CopyNotify",
    "Deallocate",
    "IoAdvise",
    "LayoutError",
    "LayoutStats",
    "OffloadCancel",
    "OffloadStatus",
    "ReadPlus",
    "Seek",
    "WriteSame",
    "Clone",
    "GetXattr",
    "SetXattr",
    "ListXattrs",
    "RemoveXattr",
    "Null",
    "Callback",
    "Unknown",
];

/// The number of the first operation of NFS.
const NFS_FIRST: usize = 3;

/// One of all commands and operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Api(u8);

impl Api {
    /// How many there are.
    pub(crate) const COUNT: usize = SMB.len() + NFS.len();
    /// SMB: what the server tells a client of what it caches.
    pub const OPLOCK_BREAK_NOTIFICATION: Self = Self(19);
    /// NFS: the procedure that does nothing.
    pub const NULL: Self = Self((SMB.len() + 73) as u8);
    /// NFS: calls of the server to a client, and their answers.
    pub const CALLBACK: Self = Self((SMB.len() + 74) as u8);
    /// NFS: what is no operation.
    pub const NFS_UNKNOWN: Self = Self((SMB.len() + 75) as u8);

    /// The command of SMB with this number.
    #[must_use]
    pub fn smb(command: u16) -> Self {
        let known = usize::from(command) < 19;
        Self(if known { command as u8 } else { SMB.len() as u8 - 1 })
    }

    /// The operation of NFS with this number.
    #[must_use]
    pub fn nfs(operation: u32) -> Self {
        let at = (operation as usize).checked_sub(NFS_FIRST).filter(|at| *at < NFS.len() - 3);
        at.map_or(Self::NFS_UNKNOWN, |at| Self((SMB.len() + at) as u8))
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Which protocol's it is.
    #[must_use]
    pub fn protocol(self) -> Protocol {
        if self.index() < SMB.len() { Protocol::Smb } else { Protocol::Nfs }
    }

    /// What is shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.index().checked_sub(SMB.len()) {
            None => SMB[self.index()],
            Some(at) => NFS[at],
        }
    }

    /// Who begins it.
    #[must_use]
    pub fn transaction_type(self) -> TransactionType {
        if self == Self::OPLOCK_BREAK_NOTIFICATION || self == Self::CALLBACK {
            TransactionType::System
        } else {
            TransactionType::User
        }
    }

    /// Whether it only says what the operations beside it are about, and is no transaction by
    /// itself: SEQUENCE, PUTFH and their like.
    #[must_use]
    pub fn is_context(self) -> bool {
        self.protocol() == Protocol::Nfs
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
    fn numbers_have_the_names_of_the_specifications() {
        for (number, name) in [(0, "Negotiate"), (8, "Read"), (18, "OplockBreak"), (19, "Unknown")]
        {
            assert_eq!(Api::smb(number).name(), name);
            assert_eq!(Api::smb(number).protocol(), Protocol::Smb);
        }
        let nfs = [(3, "Access"), (25, "Read"), (38, "Write"), (53, "Sequence"), (60, "Copy")];
        for (number, name) in nfs.into_iter().chain([(75, "RemoveXattr"), (76, "Unknown")]) {
            assert_eq!(Api::nfs(number).name(), name);
            assert_eq!(Api::nfs(number).protocol(), Protocol::Nfs);
        }
        assert_eq!(Api::nfs(u32::MAX).name(), "Unknown");
        assert_eq!((Api::NULL.name(), Api::CALLBACK.name()), ("Null", "Callback"));
        assert_eq!(Api::OPLOCK_BREAK_NOTIFICATION.name(), "OplockBreakNotification");
    }

    #[test]
    fn what_only_says_what_others_are_about_is_no_transaction() {
        let context: Vec<u32> = (0..90).filter(|n| Api::nfs(*n).is_context()).collect();
        assert_eq!(context, [10, 22, 23, 24, 31, 32, 53]);
        assert!((0..90).all(|n| !Api::smb(n).is_context()));
    }
}
