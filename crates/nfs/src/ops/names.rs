//! Names in requests, and the change information that operations on names return.

use crate::request::run::CompoundRun;
use crate::status::{OrStatus, status_of};
use files::Object;
use vfs::{FsError, Name};
use wire::nfs::{ChangeInfo, NfsStatus};

/// Decodes a name.
///
/// # Errors
/// INVAL for an empty name, BADNAME for `.` and `..`, BADCHAR, NAMETOOLONG.
pub(crate) fn name_of(bytes: &[u8]) -> Result<Name, NfsStatus> {
    match bytes {
        b"" => Err(NfsStatus::INVAL),
        b"." | b".." => Err(NfsStatus::BADNAME),
        _ if bytes.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(NfsStatus::BADCHAR),
        _ => Name::new(bytes).or_status(),
    }
}

/// Change attributes around a change of a directory; not atomic, since others may change it, too.
pub(crate) fn change_info(run: &CompoundRun<'_>, directory: &Object, before: u64) -> ChangeInfo {
    ChangeInfo { is_atomic: false, before, after: run.files().change_after(directory) }
}

/// The change attribute of a directory before its change.
pub(crate) fn change_before(run: &CompoundRun<'_>, directory: &Object) -> u64 {
    run.files().change_before(directory)
}

/// Status of a removal or rename that another open's share mode blocks.
pub(crate) fn in_use(error: FsError) -> NfsStatus {
    match error {
        FsError::ShareViolation => NfsStatus::FILE_OPEN,
        other => status_of(other),
    }
}
