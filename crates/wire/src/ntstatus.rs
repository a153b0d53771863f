//! NTSTATUS codes of SMB responses. MS-ERREF 2.3.

use std::fmt;

/// A 32-bit NTSTATUS.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct NtStatus(pub u32);

macro_rules! table {
    ($($name:ident = $value:literal, $meaning:literal;)*) => {
        impl NtStatus {
            $(#[doc = $meaning] pub const $name: Self = Self($value);)*

            /// The symbolic name, without `STATUS_`.
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
    SUCCESS = 0x0000_0000, "The operation succeeded.";
    PENDING = 0x0000_0103, "The operation is in progress; the final response follows.";
    SOME_NOT_MAPPED = 0x0000_0107, "Some of the names or security identifiers could not be resolved.";
    NOTIFY_CLEANUP = 0x0000_010B, "The handle of the watched directory was closed.";
    NOTIFY_ENUM_DIR = 0x0000_010C, "The directory changed too much to report each change; list it again.";
    BUFFER_OVERFLOW = 0x8000_0005, "The response exceeds the client's buffer and was truncated.";
    NO_MORE_FILES = 0x8000_0006, "The directory has no more entries.";
    NO_MORE_EAS = 0x8000_0012, "The file has no more extended attributes.";
    NO_MORE_ENTRIES = 0x8000_001A, "The enumeration has no more entries.";
    EA_LIST_INCONSISTENT = 0x8000_0014, "The list of extended attributes is malformed.";
    INVALID_EA_NAME = 0x8000_0013, "The name of the extended attribute contains an invalid character.";
    STOPPED_ON_SYMLINK = 0x8000_002D, "The path contains a symbolic link that the client must resolve.";
    SHORT_NAMES_NOT_ENABLED_ON_VOLUME = 0xC000_019F, "The volume does not support short (8.3) names.";
    NOT_REDUNDANT_STORAGE = 0xC000_0479, "The volume stores only one copy of the data.";
    DIRECTORY_NOT_SUPPORTED = 0xC000_047C, "The operation is not supported on a directory.";
    NO_RANGES_PROCESSED = 0xC000_0460, "The server could process none of the ranges.";
    INTEGER_OVERFLOW = 0xC000_0095, "A number in the request is too large.";
    UNSUCCESSFUL = 0xC000_0001, "The operation failed without a more specific reason.";
    NOT_IMPLEMENTED = 0xC000_0002, "The server does not implement the operation.";
    INVALID_INFO_CLASS = 0xC000_0003, "The information class is not valid for this object.";
    INFO_LENGTH_MISMATCH = 0xC000_0004, "The length of the data does not match the information class.";
    INVALID_HANDLE = 0xC000_0008, "The handle is not valid.";
    INVALID_PARAMETER = 0xC000_000D, "A parameter of the request is not valid.";
    NO_SUCH_DEVICE = 0xC000_000E, "The device does not exist.";
    NO_SUCH_FILE = 0xC000_000F, "The directory has no entry that matches the pattern.";
    INVALID_DEVICE_REQUEST = 0xC000_0010, "The operation is not valid for this kind of file, share or device.";
    END_OF_FILE = 0xC000_0011, "The requested position is at or beyond the end of the file.";
    MORE_PROCESSING_REQUIRED = 0xC000_0016, "Authentication continues; the client must send its next token.";
    ACCESS_DENIED = 0xC000_0022, "The server denies the requested access.";
    BUFFER_TOO_SMALL = 0xC000_0023, "The client's buffer is too small for the response.";
    OBJECT_TYPE_MISMATCH = 0xC000_0024, "The object has a different type than the request requires.";
    OBJECT_NAME_INVALID = 0xC000_0033, "The name is too long or reserved, or contains an invalid character.";
    OBJECT_NAME_NOT_FOUND = 0xC000_0034, "The file or directory does not exist.";
    OBJECT_NAME_COLLISION = 0xC000_0035, "A file or directory with this name already exists.";
    OBJECT_PATH_INVALID = 0xC000_0039, "A parent component of the path is not a directory.";
    OBJECT_PATH_NOT_FOUND = 0xC000_003A, "A parent directory of the path does not exist.";
    OBJECT_PATH_SYNTAX_BAD = 0xC000_003B, "The syntax of the path is not valid.";
    SHARING_VIOLATION = 0xC000_0043, "Another open of the file does not share the requested access.";
    QUOTA_EXCEEDED = 0xC000_0044, "The user's disk quota is exhausted.";
    EAS_NOT_SUPPORTED = 0xC000_004F, "The file system does not support extended attributes.";
    EA_TOO_LARGE = 0xC000_0050, "The extended attributes are larger than the server permits.";
    NONEXISTENT_EA_ENTRY = 0xC000_0051, "The file does not have the requested extended attribute.";
    FILE_LOCK_CONFLICT = 0xC000_0054, "A byte-range lock of another open conflicts with the read or write.";
    LOCK_NOT_GRANTED = 0xC000_0055, "Another byte-range lock conflicts with the requested one.";
    DELETE_PENDING = 0xC000_0056, "The file is delete pending: closing its last handle removes it.";
    INVALID_OWNER = 0xC000_005A, "The caller may not make this user the owner.";
    PRIVILEGE_NOT_HELD = 0xC000_0061, "The operation requires a privilege that the user does not hold.";
    NONE_MAPPED = 0xC000_0073, "None of the names or security identifiers could be resolved.";
    LOGON_FAILURE = 0xC000_006D, "The user name or the password is wrong.";
    ACCOUNT_RESTRICTION = 0xC000_006E, "A restriction of the account prevents this logon.";
    PASSWORD_EXPIRED = 0xC000_0071, "The user's password has expired.";
    ACCOUNT_DISABLED = 0xC000_0072, "The account is disabled.";
    INVALID_SID = 0xC000_0078, "The security identifier (SID) is malformed.";
    INVALID_SECURITY_DESCR = 0xC000_0079, "The security descriptor is malformed.";
    RANGE_NOT_LOCKED = 0xC000_007E, "The range to unlock is not locked.";
    DISK_FULL = 0xC000_007F, "The volume has no free space.";
    ALLOTTED_SPACE_EXCEEDED = 0xC000_0099, "The object would exceed its maximum size.";
    INVALID_LOCK_RANGE = 0xC000_01A1, "The end of the lock range exceeds the largest file offset.";
    INSUFFICIENT_RESOURCES = 0xC000_009A, "The server has too few resources, or a configured limit is reached.";
    MEDIA_WRITE_PROTECTED = 0xC000_00A2, "The file system is read-only, or the path refers to a previous version.";
    PIPE_NOT_AVAILABLE = 0xC000_00AC, "The named pipe has no free instance.";
    PIPE_BUSY = 0xC000_00AE, "The named pipe is busy.";
    PIPE_DISCONNECTED = 0xC000_00B0, "The named pipe is disconnected.";
    PIPE_CLOSING = 0xC000_00B1, "The other end is closing the named pipe.";
    PIPE_EMPTY = 0xC000_00D9, "The named pipe contains no data.";
    PIPE_BROKEN = 0xC000_014B, "The other end closed the named pipe.";
    INVALID_DEVICE_STATE = 0xC000_0184, "The open is not in a valid state: for example, no oplock break is outstanding.";
    IO_TIMEOUT = 0xC000_00B5, "The operation exceeded its time limit.";
    FILE_FORCED_CLOSED = 0xC000_00B6, "Another open of the same application replaced this one.";
    FILE_IS_A_DIRECTORY = 0xC000_00BA, "The operation requires a file, but the path refers to a directory.";
    NOT_SUPPORTED = 0xC000_00BB, "The server does not support the request.";
    BAD_NETWORK_PATH = 0xC000_00BE, "The network path does not exist.";
    NETWORK_ACCESS_DENIED = 0xC000_00CA, "The server denies access from the network.";
    BAD_NETWORK_NAME = 0xC000_00CC, "The share does not exist.";
    BAD_DEVICE_TYPE = 0xC000_00CB, "The share is not of the requested type.";
    REQUEST_OUT_OF_SEQUENCE = 0xC000_042A, "The request is out of order in its exchange.";
    REQUEST_NOT_ACCEPTED = 0xC000_00D0, "The server does not accept a further connection or channel of this kind.";
    NOT_SAME_DEVICE = 0xC000_00D4, "The source and the target are on different file systems.";
    INVALID_OPLOCK_PROTOCOL = 0xC000_00E3, "The oplock acknowledgment does not match an outstanding break.";
    FILE_RENAMED = 0xC000_00D5, "The file was renamed.";
    REDIRECTOR_NOT_STARTED = 0xC000_00FB, "The network redirector is not started.";
    DIRECTORY_NOT_EMPTY = 0xC000_0101, "The directory is not empty.";
    NOT_A_DIRECTORY = 0xC000_0103, "The operation requires a directory, but the path refers to another kind of file.";
    NAME_TOO_LONG = 0xC000_0106, "The file name is too long.";
    FILES_OPEN = 0xC000_0107, "Files below the directory are open.";
    CANCELLED = 0xC000_0120, "The request was cancelled.";
    CANNOT_DELETE = 0xC000_0121, "The file cannot be deleted: it is read-only or in use.";
    FILE_DELETED = 0xC000_0123, "The file is already deleted.";
    FILE_CLOSED = 0xC000_0128, "The handle is already closed.";
    INVALID_LEVEL = 0xC000_0148, "The server does not know the information level.";
    TOO_MANY_LINKS = 0xC000_0265, "The file has the maximum number of hard links.";
    FILE_SYSTEM_LIMITATION = 0xC000_0427, "A limitation of the file system prevents the operation.";
    WRONG_VOLUME = 0xC000_0012, "The device contains a different volume.";
    UNEXPECTED_IO_ERROR = 0xC000_00E9, "The server's disk or file system reported an I/O error.";
    INTERNAL_ERROR = 0xC000_00E5, "The server has an internal error; its log contains the reason.";
    FILE_INVALID = 0xC000_0098, "The volume of the open file changed, so the open is no longer valid.";
    NETWORK_NAME_DELETED = 0xC000_00C9, "The tree connection to the share no longer exists.";
    INVALID_BUFFER_SIZE = 0xC000_0206, "The size of the buffer is not valid.";
    INVALID_ADDRESS_COMPONENT = 0xC000_0207, "A component of the address is not valid.";
    USER_SESSION_DELETED = 0xC000_0203, "The session no longer exists.";
    NOT_FOUND = 0xC000_0225, "The object does not exist.";
    TOO_MANY_OPENED_FILES = 0xC000_011F, "The maximum number of open files is reached.";
    PATH_NOT_COVERED = 0xC000_0257, "The server does not serve this part of the DFS namespace.";
    NOT_A_REPARSE_POINT = 0xC000_0275, "The file is not a reparse point.";
    IO_REPARSE_TAG_MISMATCH = 0xC000_0277, "The file has a different reparse tag than the request.";
    IO_REPARSE_TAG_NOT_HANDLED = 0xC000_0279, "The file is a reparse point that the server does not follow.";
    IO_REPARSE_DATA_INVALID = 0xC000_0278, "The reparse data is malformed.";
    NTLM_BLOCKED = 0xC000_0418, "The server does not accept NTLM authentication.";
    NETWORK_SESSION_EXPIRED = 0xC000_035C, "The session has expired; the client must authenticate again.";
    SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP = 0xC05D_0000, "The client and the server have no preauthentication integrity hash in common.";
    SMB_BAD_CLUSTER_DIALECT = 0xC05D_0001, "The dialect does not match the cluster's maximum dialect.";
    FS_DRIVER_REQUIRED = 0xC000_019C, "The server does not support this control code, for example a DFS referral request.";
    FILE_NOT_AVAILABLE = 0xC000_0467, "The file is temporarily unavailable; retry the request.";
    HANDLE_NO_LONGER_VALID = 0xC019_0028, "The handle is no longer valid.";
    OFFLOAD_READ_FILE_NOT_SUPPORTED = 0xC000_A2A3, "The file does not support offload reads (ODX).";
    DUPLICATE_OBJECTID = 0xC000_022A, "Another file of the volume has this object identifier.";
    VOLUME_NOT_UPGRADED = 0xC000_029C, "The file system does not support object identifiers.";
    OBJECTID_NOT_FOUND = 0xC000_02F0, "The file has no object identifier.";
    BAD_IMPERSONATION_LEVEL = 0xC000_00A5, "The impersonation level is not valid.";
    INVALID_VIEW_SIZE = 0xC000_001F, "The range extends beyond the end of the file.";
    NO_EAS_ON_FILE = 0xC000_0052, "The file has no extended attributes.";
}

impl NtStatus {
    /// True if the operation was carried out (severity success or informational).
    #[must_use]
    pub fn is_success(self) -> bool {
        self.0 < 0x8000_0000
    }

    /// True for an error, false for a warning.
    #[must_use]
    pub fn is_error(self) -> bool {
        self.0 >= 0xC000_0000
    }
}

impl fmt::Debug for NtStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "NtStatus({:#010x})", self.0),
        }
    }
}

impl fmt::Display for NtStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some(meaning) => write!(f, "{self:?}: {meaning}"),
            None => write!(f, "{self:?}"),
        }
    }
}
