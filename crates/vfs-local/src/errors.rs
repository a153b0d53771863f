//! From errno to refusals: the one table.

use rustix::io::Errno;
use vfs::FsError;

/// What an errno of `operation` means to the file layer. One that nobody
/// expects is logged here, where it happened.
pub fn refusal(operation: &'static str, errno: Errno) -> FsError {
    match errno {
        Errno::ACCESS | Errno::PERM => FsError::AccessDenied,
        Errno::EXIST => FsError::AlreadyExists,
        Errno::BUSY | Errno::TXTBSY => FsError::CannotDelete,
        Errno::NOSPC | Errno::DQUOT => FsError::NoSpace,
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
            tracing::error!(operation, %errno, "out of descriptors or memory; raise LimitNOFILE");
            FsError::TooMany
        }
        Errno::AGAIN => FsError::WouldBlock,
        Errno::NODATA => FsError::NotFound,
        Errno::BADF => FsError::OpenMode,
        _ => {
            tracing::error!(operation, %errno, "the file system failed");
            FsError::Io
        }
    }
}
