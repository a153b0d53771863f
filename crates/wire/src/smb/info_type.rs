//! Information type of QUERY_INFO and SET_INFO. MS-SMB2 2.2.37, 2.2.39.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoType {
    /// Of a file.
    File,
    /// Of its file system.
    FileSystem,
    /// The security descriptor.
    Security,
    /// Quotas.
    Quota,
    /// None of these.
    Unknown(u8),
}

impl InfoType {
    pub(super) fn from_number(number: u8) -> Self {
        match number {
            1 => Self::File,
            2 => Self::FileSystem,
            3 => Self::Security,
            4 => Self::Quota,
            other => Self::Unknown(other),
        }
    }

    pub(super) fn number(self) -> u8 {
        match self {
            Self::File => 1,
            Self::FileSystem => 2,
            Self::Security => 3,
            Self::Quota => 4,
            Self::Unknown(other) => other,
        }
    }
}
