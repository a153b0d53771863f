//! The only mapping from refusals of the file layer to NTSTATUS.

use vfs::FsError;
use wire::ntstatus::NtStatus;

/// The NTSTATUS of a refusal.
#[must_use]
pub fn status_of(error: FsError) -> NtStatus {
    match error {
        FsError::AccessDenied | FsError::OpenMode | FsError::SymlinkEscapes => {
            NtStatus::ACCESS_DENIED
        }
        FsError::AlreadyExists => NtStatus::OBJECT_NAME_COLLISION,
        FsError::AttributesFull => NtStatus::FILE_SYSTEM_LIMITATION,
        FsError::CannotDelete => NtStatus::CANNOT_DELETE,
        FsError::Cancelled => NtStatus::CANCELLED,
        FsError::CrossDevice => NtStatus::NOT_SAME_DEVICE,
        FsError::DeletePending => NtStatus::DELETE_PENDING,
        // Quotas are reported as a full disk, as in Samba.
        FsError::NoSpace | FsError::OverQuota => NtStatus::DISK_FULL,
        FsError::Io => NtStatus::UNEXPECTED_IO_ERROR,
        FsError::IsDirectory => NtStatus::FILE_IS_A_DIRECTORY,
        FsError::IsSymlink => NtStatus::STOPPED_ON_SYMLINK,
        FsError::LockConflict => NtStatus::FILE_LOCK_CONFLICT,
        FsError::LockNotGranted => NtStatus::LOCK_NOT_GRANTED,
        FsError::InvalidName => NtStatus::OBJECT_NAME_INVALID,
        FsError::InvalidOwner => NtStatus::INVALID_OWNER,
        FsError::InvalidParameter | FsError::TooLarge => NtStatus::INVALID_PARAMETER,
        FsError::NameTooLong => NtStatus::OBJECT_NAME_INVALID,
        FsError::NotDirectory => NtStatus::NOT_A_DIRECTORY,
        FsError::NotEmpty => NtStatus::DIRECTORY_NOT_EMPTY,
        FsError::NotFound => NtStatus::OBJECT_NAME_NOT_FOUND,
        FsError::NotSupported => NtStatus::NOT_SUPPORTED,
        FsError::PathNotFound => NtStatus::OBJECT_PATH_NOT_FOUND,
        FsError::PrivilegeNotHeld => NtStatus::PRIVILEGE_NOT_HELD,
        FsError::RangeNotLocked => NtStatus::RANGE_NOT_LOCKED,
        FsError::ReadOnly => NtStatus::MEDIA_WRITE_PROTECTED,
        // MS-SMB2 3.3.5.9: the same status as for share permissions that grant read access only.
        FsError::ShareReadOnly => NtStatus::ACCESS_DENIED,
        FsError::ReparsePoint => NtStatus::IO_REPARSE_TAG_NOT_HANDLED,
        FsError::ShareViolation => NtStatus::SHARING_VIOLATION,
        FsError::Stale => NtStatus::FILE_DELETED,
        FsError::SymlinkMet => NtStatus::STOPPED_ON_SYMLINK,
        FsError::SymlinkLoop => NtStatus::OBJECT_PATH_NOT_FOUND,
        FsError::TooMany => NtStatus::INSUFFICIENT_RESOURCES,
        FsError::TooManyLinks => NtStatus::TOO_MANY_LINKS,
        FsError::TooManyHandles => NtStatus::TOO_MANY_OPENED_FILES,
        FsError::Unavailable => NtStatus::FILE_NOT_AVAILABLE,
        FsError::WouldBlock => NtStatus::INTERNAL_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceeded_quota_is_reported_as_a_full_disk() {
        let statuses = [FsError::OverQuota, FsError::NoSpace, FsError::TooManyLinks].map(status_of);
        assert_eq!(statuses, [NtStatus::DISK_FULL, NtStatus::DISK_FULL, NtStatus::TOO_MANY_LINKS]);
    }
}
