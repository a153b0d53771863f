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
    SUCCESS = 0x0000_0000, "Done.";
    PENDING = 0x0000_0103, "The final answer follows later.";
    SOME_NOT_MAPPED = 0x0000_0107, "Some of the names or identifiers are not known.";
    NOTIFY_CLEANUP = 0x0000_010B, "The watched directory's handle was closed.";
    NOTIFY_ENUM_DIR = 0x0000_010C, "Too many changes to list; read the directory again.";
    BUFFER_OVERFLOW = 0x8000_0005, "The answer did not fit and was cut.";
    NO_MORE_FILES = 0x8000_0006, "The directory has no further entries.";
    NO_MORE_EAS = 0x8000_0012, "There are no further extended attributes.";
    NO_MORE_ENTRIES = 0x8000_001A, "There are no further entries.";
    EA_LIST_INCONSISTENT = 0x8000_0014, "The list of extended attributes is malformed.";
    INVALID_EA_NAME = 0x8000_0013, "The extended attribute's name is not valid.";
    STOPPED_ON_SYMLINK = 0x8000_002D, "The path leads over a symbolic link that the client must follow.";
    SHORT_NAMES_NOT_ENABLED_ON_VOLUME = 0xC000_019F, "There are no short names on this volume.";
    NOT_REDUNDANT_STORAGE = 0xC000_0479, "The data has one copy only.";
    DIRECTORY_NOT_SUPPORTED = 0xC000_047C, "This cannot be done with a directory.";
    NO_RANGES_PROCESSED = 0xC000_0460, "None of the ranges could be worked on.";
    INTEGER_OVERFLOW = 0xC000_0095, "A number is too large.";
    UNSUCCESSFUL = 0xC000_0001, "The operation failed.";
    NOT_IMPLEMENTED = 0xC000_0002, "The server does not implement this.";
    INVALID_INFO_CLASS = 0xC000_0003, "The information class does not exist.";
    INFO_LENGTH_MISMATCH = 0xC000_0004, "The length does not fit the information class.";
    INVALID_HANDLE = 0xC000_0008, "The handle is not valid.";
    INVALID_PARAMETER = 0xC000_000D, "A parameter is not valid.";
    NO_SUCH_DEVICE = 0xC000_000E, "The device does not exist.";
    NO_SUCH_FILE = 0xC000_000F, "No file matches.";
    INVALID_DEVICE_REQUEST = 0xC000_0010, "The request does not fit the kind of file.";
    END_OF_FILE = 0xC000_0011, "There is nothing at or after this position.";
    MORE_PROCESSING_REQUIRED = 0xC000_0016, "Authentication needs another round.";
    ACCESS_DENIED = 0xC000_0022, "Access is denied.";
    BUFFER_TOO_SMALL = 0xC000_0023, "The buffer cannot hold the answer.";
    OBJECT_TYPE_MISMATCH = 0xC000_0024, "The object has another type.";
    OBJECT_NAME_INVALID = 0xC000_0033, "The name is not a valid name.";
    OBJECT_NAME_NOT_FOUND = 0xC000_0034, "The name does not exist.";
    OBJECT_NAME_COLLISION = 0xC000_0035, "The name exists already.";
    OBJECT_PATH_INVALID = 0xC000_0039, "A component of the path is not a directory.";
    OBJECT_PATH_NOT_FOUND = 0xC000_003A, "A directory of the path does not exist.";
    OBJECT_PATH_SYNTAX_BAD = 0xC000_003B, "The path is malformed.";
    SHARING_VIOLATION = 0xC000_0043, "Another open forbids this kind of access.";
    QUOTA_EXCEEDED = 0xC000_0044, "The quota is used up.";
    EAS_NOT_SUPPORTED = 0xC000_004F, "Extended attributes cannot be stored here.";
    EA_TOO_LARGE = 0xC000_0050, "The extended attributes are too large.";
    NONEXISTENT_EA_ENTRY = 0xC000_0051, "The extended attribute does not exist.";
    FILE_LOCK_CONFLICT = 0xC000_0054, "A byte-range lock is in the way.";
    LOCK_NOT_GRANTED = 0xC000_0055, "The byte-range lock could not be had.";
    DELETE_PENDING = 0xC000_0056, "The file is about to be deleted.";
    INVALID_OWNER = 0xC000_005A, "Whom the file was to be given to may not own it.";
    PRIVILEGE_NOT_HELD = 0xC000_0061, "The user lacks a privilege.";
    NONE_MAPPED = 0xC000_0073, "None of the names or identifiers is known.";
    LOGON_FAILURE = 0xC000_006D, "The user name or the password is wrong.";
    ACCOUNT_RESTRICTION = 0xC000_006E, "The account may not log on this way.";
    PASSWORD_EXPIRED = 0xC000_0071, "The password has expired.";
    ACCOUNT_DISABLED = 0xC000_0072, "The account is disabled.";
    INVALID_SID = 0xC000_0078, "The security identifier is malformed.";
    INVALID_SECURITY_DESCR = 0xC000_0079, "The security descriptor is malformed.";
    RANGE_NOT_LOCKED = 0xC000_007E, "The range was not locked.";
    DISK_FULL = 0xC000_007F, "The disk is full.";
    ALLOTTED_SPACE_EXCEEDED = 0xC000_0099, "It would be longer than it may be.";
    INVALID_LOCK_RANGE = 0xC000_01A1, "The range wraps around.";
    INSUFFICIENT_RESOURCES = 0xC000_009A, "A limit of the server was reached.";
    MEDIA_WRITE_PROTECTED = 0xC000_00A2, "The file system is read-only, or a previous version.";
    PIPE_NOT_AVAILABLE = 0xC000_00AC, "The pipe has no free instance.";
    PIPE_BUSY = 0xC000_00AE, "The pipe is busy.";
    PIPE_DISCONNECTED = 0xC000_00B0, "The pipe is disconnected.";
    PIPE_CLOSING = 0xC000_00B1, "The other end of the pipe was closed.";
    PIPE_EMPTY = 0xC000_00D9, "The pipe holds no data.";
    PIPE_BROKEN = 0xC000_014B, "The pipe was closed.";
    INVALID_DEVICE_STATE = 0xC000_0184, "No oplock is being given back.";
    IO_TIMEOUT = 0xC000_00B5, "The operation took too long.";
    FILE_FORCED_CLOSED = 0xC000_00B6, "Another has taken the file over.";
    FILE_IS_A_DIRECTORY = 0xC000_00BA, "A file was wanted, this is a directory.";
    NOT_SUPPORTED = 0xC000_00BB, "This is not supported.";
    BAD_NETWORK_PATH = 0xC000_00BE, "The network path does not exist.";
    NETWORK_ACCESS_DENIED = 0xC000_00CA, "Network access is denied.";
    BAD_NETWORK_NAME = 0xC000_00CC, "The share does not exist.";
    BAD_DEVICE_TYPE = 0xC000_00CB, "The share has another type.";
    REQUEST_OUT_OF_SEQUENCE = 0xC000_042A, "The request does not fit the exchange under way.";
    REQUEST_NOT_ACCEPTED = 0xC000_00D0, "The server takes no more of these.";
    NOT_SAME_DEVICE = 0xC000_00D4, "The two names lie on different disks.";
    INVALID_OPLOCK_PROTOCOL = 0xC000_00E3, "No oplock was to be given back, or not this.";
    FILE_RENAMED = 0xC000_00D5, "The file was renamed.";
    REDIRECTOR_NOT_STARTED = 0xC000_00FB, "The redirector is not started.";
    DIRECTORY_NOT_EMPTY = 0xC000_0101, "The directory is not empty.";
    NOT_A_DIRECTORY = 0xC000_0103, "A directory was wanted, this is not one.";
    NAME_TOO_LONG = 0xC000_0106, "The name is too long.";
    FILES_OPEN = 0xC000_0107, "Files below are open.";
    CANCELLED = 0xC000_0120, "The request was cancelled.";
    CANNOT_DELETE = 0xC000_0121, "The file cannot be deleted.";
    FILE_DELETED = 0xC000_0123, "The file was deleted.";
    FILE_CLOSED = 0xC000_0128, "The handle was closed.";
    INVALID_LEVEL = 0xC000_0148, "The information level does not exist.";
    TOO_MANY_LINKS = 0xC000_0265, "The file has as many names as it may have.";
    FILE_SYSTEM_LIMITATION = 0xC000_0427, "The file system cannot store this.";
    WRONG_VOLUME = 0xC000_0012, "Another volume is in the device.";
    UNEXPECTED_IO_ERROR = 0xC000_00E9, "The disk failed.";
    INTERNAL_ERROR = 0xC000_00E5, "The server found itself in a state that must not be.";
    FILE_INVALID = 0xC000_0098, "The volume of the open file was changed.";
    NETWORK_NAME_DELETED = 0xC000_00C9, "The share connection does not exist any more.";
    INVALID_BUFFER_SIZE = 0xC000_0206, "The buffer has a size that is not valid.";
    INVALID_ADDRESS_COMPONENT = 0xC000_0207, "A component of the address is not valid.";
    USER_SESSION_DELETED = 0xC000_0203, "The session does not exist any more.";
    NOT_FOUND = 0xC000_0225, "It was not found.";
    TOO_MANY_OPENED_FILES = 0xC000_011F, "Too many files are open.";
    PATH_NOT_COVERED = 0xC000_0257, "The path is not covered by this server.";
    NOT_A_REPARSE_POINT = 0xC000_0275, "The file is not a reparse point.";
    IO_REPARSE_TAG_MISMATCH = 0xC000_0277, "The reparse tag is another.";
    IO_REPARSE_TAG_NOT_HANDLED = 0xC000_0279, "The file stands for something else that is not opened here.";
    IO_REPARSE_DATA_INVALID = 0xC000_0278, "The reparse data is malformed.";
    NTLM_BLOCKED = 0xC000_0418, "NTLM is not taken here.";
    NETWORK_SESSION_EXPIRED = 0xC000_035C, "The session must be authenticated anew.";
    SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP = 0xC05D_0000, "No preauthentication hash is common.";
    SMB_BAD_CLUSTER_DIALECT = 0xC05D_0001, "The dialect does not fit the cluster's.";
    FS_DRIVER_REQUIRED = 0xC000_019C, "No DFS is served here.";
    FILE_NOT_AVAILABLE = 0xC000_0467, "The file is not available now; the same again may do.";
    HANDLE_NO_LONGER_VALID = 0xC019_0028, "The handle is no longer valid.";
    OFFLOAD_READ_FILE_NOT_SUPPORTED = 0xC000_A2A3, "The file cannot be read by offload.";
    DUPLICATE_OBJECTID = 0xC000_022A, "The object id is in use.";
    VOLUME_NOT_UPGRADED = 0xC000_029C, "The file system has no object ids.";
    OBJECTID_NOT_FOUND = 0xC000_02F0, "The file has no object id.";
    BAD_IMPERSONATION_LEVEL = 0xC000_00A5, "The impersonation level is not one.";
    INVALID_VIEW_SIZE = 0xC000_001F, "The range ends after the file does.";
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
