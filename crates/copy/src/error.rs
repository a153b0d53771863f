//! Errors of a copy, grouped by their remedy.

use client::Error as ClientError;
use std::fmt;
use std::io;
use wire::nfs::NfsStatus;
use wire::ntstatus::NtStatus;

/// The reason why an entry was not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The target's disk or quota is full; the partial copy stays and can be resumed.
    Full(String),
    /// The connection is lost and could not be re-established.
    Lost(String),
    /// The file or directory does not exist.
    Missing,
    /// The source changed while it was copied.
    Changed,
    /// The data read back differ from the written data.
    Differs,
    /// Another run copies this file.
    Busy,
    /// The name is not representable or not safe on the other side.
    BadName(&'static str),
    /// Another program has the file open or locked, with the side's text.
    InUse(String),
    /// Any other refusal of a side, with its text.
    Refused(String),
}

impl Error {
    /// Whether every further file would fail, too.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Lost(_))
    }

    /// Whether a later attempt may succeed.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Busy | Self::Changed | Self::InUse(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(why) => write!(f, "the target is full: {why}"),
            Self::Lost(why) => f.write_str(why),
            Self::Missing => f.write_str("it does not exist"),
            Self::Changed => f.write_str("it changed during the copy"),
            Self::Differs => f.write_str("the data read back differs from the written data"),
            Self::Busy => f.write_str("another run of anabranch copy is writing it"),
            Self::BadName(why) => write!(f, "its name {why}"),
            Self::InUse(why) | Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Refused(_, status) => match *status {
                NtStatus::DISK_FULL | NtStatus::QUOTA_EXCEEDED => Self::Full(error.to_string()),
                NtStatus::OBJECT_NAME_NOT_FOUND | NtStatus::OBJECT_PATH_NOT_FOUND => Self::Missing,
                NtStatus::SHARING_VIOLATION
                | NtStatus::FILE_LOCK_CONFLICT
                | NtStatus::DELETE_PENDING => Self::InUse(error.to_string()),
                _ => Self::Refused(error.to_string()),
            },
            ClientError::RefusedOperation(_, status) => match *status {
                NfsStatus::NOSPC | NfsStatus::DQUOT => Self::Full(error.to_string()),
                NfsStatus::NOENT => Self::Missing,
                NfsStatus::SHARE_DENIED | NfsStatus::LOCKED => Self::InUse(error.to_string()),
                _ => Self::Refused(error.to_string()),
            },
            ClientError::Lost { .. } | ClientError::Unreachable(..) => {
                Self::Lost(error.to_string())
            }
            _ => Self::Refused(error.to_string()),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full(error.to_string())
            }
            io::ErrorKind::ResourceBusy | io::ErrorKind::ExecutableFileBusy => {
                Self::InUse(error.to_string())
            }
            _ => Self::Refused(error.to_string()),
        }
    }
}

/// A file or directory that was not copied, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Its path, relative to the source.
    pub path: String,
    /// The error's text.
    pub why: String,
}
