//! Statuses for information classes that are not served. MS-SMB2 3.3.5.20, 3.3.5.21, MS-FSCC 2.4,
//! 2.5.

use wire::ntstatus::NtStatus;

/// File classes that MS-FSCC 2.4 marks as LOCAL: no client sends them over the network.
const LOCAL_FILE_CLASSES: [u8; 10] = [9, 26, 27, 29, 33, 36, 44, 46, 50, 54];
/// Classes of directory entries, which QUERY_DIRECTORY serves, and of quotas.
const LISTED_CLASSES: [u8; 12] = [1, 2, 3, 12, 32, 37, 38, 60, 78, 79, 80, 81];
/// FilePipeInformation, FilePipeLocalInformation and FilePipeRemoteInformation.
const PIPE_CLASSES: [u8; 3] = [23, 24, 25];
const FILE_PIPE_INFORMATION: u8 = 23;
const FILE_QUOTA_INFORMATION: u8 = 32;
const FILE_SHORT_NAME_INFORMATION: u8 = 40;
/// FileFsLabelInformation, FileFsDriverPathInformation and FileFsVolumeFlagsInformation.
const LOCAL_FS_CLASSES: [u8; 3] = [2, 9, 10];
/// FileFsControlInformation and FileFsObjectIdInformation.
const SETTABLE_FS_CLASSES: [u8; 2] = [6, 8];

/// The refusal of a file class in QUERY_INFO. MS-SMB2 3.3.5.20.1.
pub fn file_query_refusal(class: u8) -> NtStatus {
    if LOCAL_FILE_CLASSES.contains(&class) || LISTED_CLASSES.contains(&class) {
        NtStatus::NOT_SUPPORTED
    } else if PIPE_CLASSES.contains(&class) {
        NtStatus::INVALID_PARAMETER
    } else {
        NtStatus::INVALID_INFO_CLASS
    }
}

/// The refusal of a file class in SET_INFO. MS-SMB2 3.3.5.21.1.
pub fn file_set_refusal(class: u8) -> NtStatus {
    match class {
        FILE_QUOTA_INFORMATION => NtStatus::NOT_SUPPORTED,
        // MS-FSA 2.1.5.15.13: Volume.GenerateShortNames is FALSE.
        FILE_SHORT_NAME_INFORMATION => NtStatus::SHORT_NAMES_NOT_ENABLED_ON_VOLUME,
        FILE_PIPE_INFORMATION => NtStatus::INVALID_PARAMETER,
        class if LOCAL_FILE_CLASSES.contains(&class) => NtStatus::NOT_SUPPORTED,
        _ => NtStatus::INVALID_INFO_CLASS,
    }
}

/// The refusal of a file system class in QUERY_INFO. MS-SMB2 3.3.5.20.2.
pub fn fs_query_refusal(class: u8) -> NtStatus {
    match LOCAL_FS_CLASSES.contains(&class) {
        true => NtStatus::NOT_SUPPORTED,
        false => NtStatus::INVALID_INFO_CLASS,
    }
}

/// The refusal of a file system class in SET_INFO; none is served. `may_write`: the open may write
/// data. MS-SMB2 3.3.5.21.2.
pub fn fs_set_refusal(class: u8, may_write: bool) -> NtStatus {
    match (SETTABLE_FS_CLASSES.contains(&class), may_write) {
        (true, true) => NtStatus::INVALID_PARAMETER,
        (true, false) => NtStatus::ACCESS_DENIED,
        (false, _) => fs_query_refusal(class),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::fscc::{FileInfoClass, FsInfoClass};

    #[test]
    fn unserved_information_classes_are_refused_by_their_use() {
        for (class, queried, set) in [
            (1, NtStatus::NOT_SUPPORTED, NtStatus::INVALID_INFO_CLASS),
            (5, NtStatus::INVALID_INFO_CLASS, NtStatus::INVALID_INFO_CLASS),
            (20, NtStatus::INVALID_INFO_CLASS, NtStatus::INVALID_INFO_CLASS),
            (25, NtStatus::INVALID_PARAMETER, NtStatus::INVALID_INFO_CLASS),
            (29, NtStatus::NOT_SUPPORTED, NtStatus::NOT_SUPPORTED),
            (32, NtStatus::NOT_SUPPORTED, NtStatus::NOT_SUPPORTED),
            (40, NtStatus::INVALID_INFO_CLASS, NtStatus::SHORT_NAMES_NOT_ENABLED_ON_VOLUME),
            (200, NtStatus::INVALID_INFO_CLASS, NtStatus::INVALID_INFO_CLASS),
        ] {
            assert_eq!(
                (file_query_refusal(class), file_set_refusal(class)),
                (queried, set),
                "{class}"
            );
        }
        for (class, set) in [
            (2, NtStatus::NOT_SUPPORTED),
            (6, NtStatus::INVALID_PARAMETER),
            (8, NtStatus::INVALID_PARAMETER),
            (11, NtStatus::INVALID_INFO_CLASS),
            (12, NtStatus::INVALID_INFO_CLASS),
        ] {
            assert_eq!(fs_set_refusal(class, true), set, "{class}");
        }
        assert_eq!(fs_set_refusal(8, false), NtStatus::ACCESS_DENIED);
        assert!(LISTED_CLASSES.iter().all(|class| FileInfoClass::from_number(*class).is_none()));
        assert!(LOCAL_FS_CLASSES.iter().all(|class| FsInfoClass::from_number(*class).is_none()));
    }
}
