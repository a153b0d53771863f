//! OPLOCK_BREAK acknowledgments. MS-SMB2 3.3.5.22. No oplock or lease is
//! granted yet, so nobody can have one to give back.

use crate::dispatch::{Outcome, Request, malformed};
use wire::ntstatus::NtStatus;
use wire::smb::OplockBreakAck;

/// Refuses an acknowledgment of what was never granted.
pub fn oplock_break(request: &mut Request<'_>) -> Result<Outcome, NtStatus> {
    match OplockBreakAck::decode(&mut request.body()?).map_err(malformed)? {
        OplockBreakAck::Oplock { file_id, .. } => {
            request.open(file_id)?;
            Err(NtStatus::INVALID_PARAMETER)
        }
        OplockBreakAck::Lease { .. } => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
    }
}
