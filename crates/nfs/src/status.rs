//! Mapping of refusals of the file layer to NFS statuses, the only one.

use vfs::FsError;
use wire::nfs::NfsStatus;

/// The status that an NFS client gets for a refusal of the file layer.
#[must_use]
pub fn status_of(error: FsError) -> NfsStatus {
    match error {
        FsError::AccessDenied => NfsStatus::ACCESS,
        FsError::AlreadyExists => NfsStatus::EXIST,
        // A mount point, or a file that a Windows client's share mode protects.
        FsError::CannotDelete => NfsStatus::FILE_OPEN,
        FsError::Cancelled | FsError::Unavailable | FsError::WouldBlock => NfsStatus::DELAY,
        FsError::DeletePending => NfsStatus::FILE_OPEN,
        FsError::NoSpace => NfsStatus::NOSPC,
        FsError::OverQuota => NfsStatus::DQUOT,
        FsError::Io => NfsStatus::IO,
        FsError::IsDirectory => NfsStatus::ISDIR,
        FsError::IsSymlink | FsError::SymlinkMet | FsError::SymlinkLoop => NfsStatus::SYMLINK,
        FsError::LockConflict => NfsStatus::LOCKED,
        FsError::LockNotGranted => NfsStatus::DENIED,
        FsError::InvalidName => NfsStatus::BADNAME,
        FsError::InvalidOwner | FsError::PrivilegeNotHeld => NfsStatus::PERM,
        FsError::InvalidParameter => NfsStatus::INVAL,
        FsError::NameTooLong => NfsStatus::NAMETOOLONG,
        FsError::NotDirectory => NfsStatus::NOTDIR,
        FsError::NotEmpty => NfsStatus::NOTEMPTY,
        FsError::NotFound | FsError::PathNotFound => NfsStatus::NOENT,
        FsError::NotSupported => NfsStatus::NOTSUPP,
        FsError::OpenMode => NfsStatus::OPENMODE,
        FsError::RangeNotLocked => NfsStatus::LOCK_RANGE,
        FsError::ReadOnly | FsError::ShareReadOnly => NfsStatus::ROFS,
        FsError::ShareViolation => NfsStatus::SHARE_DENIED,
        FsError::Stale => NfsStatus::STALE,
        FsError::ReparsePoint => NfsStatus::WRONG_TYPE,
        FsError::SymlinkEscapes => NfsStatus::ACCESS,
        // RFC 8276 8.4.2.
        FsError::AttributesFull => NfsStatus::NOSPC,
        FsError::TooLarge => NfsStatus::FBIG,
        FsError::TooManyLinks => NfsStatus::MLINK,
        FsError::TooMany | FsError::TooManyHandles => NfsStatus::DELAY,
        FsError::CrossDevice => NfsStatus::XDEV,
    }
}

/// Results of the file layer as results of operations.
pub trait OrStatus<T> {
    /// As [`status_of`].
    ///
    /// # Errors
    /// The status.
    fn or_status(self) -> Result<T, NfsStatus>;
}

impl<T> OrStatus<T> for vfs::Result<T> {
    fn or_status(self) -> Result<T, NfsStatus> {
        self.map_err(status_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_quota_and_device_errors_have_own_statuses() {
        let errors = [FsError::TooManyLinks, FsError::OverQuota, FsError::CrossDevice];
        let wanted = [NfsStatus::MLINK, NfsStatus::DQUOT, NfsStatus::XDEV];
        assert_eq!(errors.map(status_of), wanted);
    }
}
