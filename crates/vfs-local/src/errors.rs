//! Maps errno to file layer errors, in one table.

use rustix::io::Errno;
use vfs::FsError;

/// The file layer's error for an errno of `operation`. An unexpected errno is logged here, where it
/// occurs.
pub fn refusal(operation: &'static str, errno: Errno) -> FsError {
    match errno {
        Errno::ACCESS | Errno::PERM => FsError::AccessDenied,
        Errno::EXIST => FsError::AlreadyExists,
        Errno::BUSY | Errno::TXTBSY => FsError::CannotDelete,
        Errno::NOSPC => FsError::NoSpace,
        Errno::DQUOT => FsError::OverQuota,
        Errno::MLINK => FsError::TooManyLinks,
        Errno::ISDIR => FsError::IsDirectory,
        Errno::NOTDIR => FsError::PathNotFound,
        Errno::NOENT => FsError::NotFound,
        Errno::NOTEMPTY => FsError::NotEmpty,
        Errno::NAMETOOLONG => FsError::NameTooLong,
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => FsError::NotSupported,
        Errno::INVAL => FsError::InvalidParameter,
        Errno::ROFS => FsError::ReadOnly,
        Errno::STALE => FsError::Stale,
        Errno::XDEV => FsError::SymlinkEscapes,
        Errno::LOOP => FsError::SymlinkLoop,
        Errno::FBIG | Errno::OVERFLOW => FsError::TooLarge,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
            tracing::error!(operation, %errno, "a file system call failed for want of descriptors or memory; raise LimitNOFILE");
            FsError::TooMany
        }
        Errno::AGAIN => FsError::WouldBlock,
        Errno::NODATA => FsError::NotFound,
        Errno::BADF => FsError::OpenMode,
        _ => {
            tracing::error!(operation, %errno, "a file system call failed; check the kernel log and the file system");
            FsError::Io
        }
    }
}

/// Like [`refusal`], for a new name: EXDEV means another file system, whereas openat2 uses it for a
/// link that leads out of the tree.
pub fn refusal_of_name(operation: &'static str, errno: Errno) -> FsError {
    if errno == Errno::XDEV { FsError::CrossDevice } else { refusal(operation, errno) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_device_link_limit_and_quota_errors_are_distinct() {
        let errors = [Errno::XDEV, Errno::MLINK, Errno::DQUOT, Errno::NOSPC];
        let errors = errors.map(|errno| refusal_of_name("link", errno));
        let (link, quota) = (FsError::TooManyLinks, FsError::OverQuota);
        assert_eq!(errors, [FsError::CrossDevice, link, quota, FsError::NoSpace]);
        assert_eq!(refusal("open", Errno::XDEV), FsError::SymlinkEscapes);
    }
}
