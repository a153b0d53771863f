//! OPLOCK_BREAK acknowledgments. MS-SMB2 3.3.5.22.1. Leases are not granted
//! yet, so nobody can have one to give back.

use crate::dispatch::{Outcome, Request, malformed};
use crate::oplock::{caching_of, level_of};
use wire::ntstatus::NtStatus;
use wire::smb::{OplockBreak, OplockBreakAck};

/// Takes back what a client kept to itself.
///
/// # Errors
/// `INVALID_OPLOCK_PROTOCOL` if it was not asked or keeps too much,
/// `INVALID_PARAMETER` for a level that is none.
pub fn oplock_break(request: &mut Request<'_>) -> Result<Outcome, NtStatus> {
    match OplockBreakAck::decode(&mut request.body()?).map_err(malformed)? {
        OplockBreakAck::Oplock { level, file_id } => {
            let open = request.open(file_id)?;
            let keeps = caching_of(level).ok_or(NtStatus::INVALID_PARAMETER)?;
            let files = &request.server.files;
            files
                .acknowledge(open.file()?, keeps)
                .map_err(|_| NtStatus::INVALID_OPLOCK_PROTOCOL)?;
            OplockBreak { level: level_of(keeps), file_id }.encode(&mut request.w);
            Ok(Outcome::success())
        }
        OplockBreakAck::Lease { .. } => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
    }
}
