//! CHANGE_NOTIFY. MS-SMB2 3.3.5.19. Not served yet, and refused as a server
//! refuses whose file system cannot watch: clients then poll.

use crate::dispatch::{Outcome, Request, malformed};
use wire::ntstatus::NtStatus;
use wire::smb::ChangeNotifyRequest;

/// Checks the request as if it could be served, then says that it cannot.
pub fn change_notify(request: &mut Request<'_>) -> Result<Outcome, NtStatus> {
    let body = ChangeNotifyRequest::decode(&mut request.body()?).map_err(malformed)?;
    request.check_payload(0, body.output_bytes as usize)?;
    let open = request.open(body.file_id)?;
    if !open.file()?.is_directory() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Err(NtStatus::NOT_SUPPORTED)
}
