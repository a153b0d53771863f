//! FLUSH. MS-SMB2 3.3.5.11.

use crate::conversion::status::status_of;
use crate::opens::open::OpenTarget;
use crate::request::context::{HandlerOutcome, Request, malformed};
use files::Access;
use limits::Cost;
use wire::ntstatus::NtStatus;
use wire::smb::{EmptyBody, FlushRequest};

/// Makes written data survive power loss. Apple clients mark some requests as F_FULLFSYNC (all ones
/// in the first reserved field); here every FLUSH is one.
pub async fn flush(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body = FlushRequest::decode(&mut request.body()?).map_err(malformed)?;
    let open = request.open(body.file_id)?;
    let open = request.admit(open, Cost::metadata()).await?;
    if let OpenTarget::File(file) = &open.target {
        // ADD_FILE and ADD_SUBDIRECTORY are the same bits for a directory.
        if !file.granted().intersects(Access::WRITE_DATA | Access::APPEND_DATA) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        request.files.flush(file).await.map_err(status_of)?;
    }
    EmptyBody.encode(&mut request.w);
    Ok(HandlerOutcome::success())
}
