//! CLOSE. MS-SMB2 3.3.5.10.

use crate::conversion::attributes::{allocation_bytes, attribute_bits, size_bytes, times};
use crate::conversion::status::status_of;
use crate::opens::open::OpenTarget;
use crate::opens::stable;
use crate::request::context::{HandlerOutcome, Request, malformed};
use limits::Cost;
use wire::ntstatus::NtStatus;
use wire::smb::{CloseRequest, CloseResponse};

/// Closes an open, and returns its attributes on request.
pub async fn close(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body = CloseRequest::decode(&mut request.body()?).map_err(malformed)?;
    let open = request.open(body.file_id)?;
    let open = request.admit(open, Cost::metadata()).await?;
    if let OpenTarget::File(file) = &open.target {
        request.files.break_handles_before_close(file).await.map_err(status_of)?;
    }
    request.session()?.remove_open(open.id)?;
    open.closed.raise();
    let mut response = CloseResponse::default();
    if let OpenTarget::File(file) = &open.target {
        let files = request.files;
        // The reply contains the access time that the close leaves.
        files.store_access_before_close(file);
        if body.flags & CloseRequest::POSTQUERY_ATTRIBUTES != 0
            && let Ok(attributes) = files.attributes_unchecked(file)
        {
            response = CloseResponse {
                flags: CloseRequest::POSTQUERY_ATTRIBUTES,
                times: times(&attributes),
                allocation_bytes: allocation_bytes(&attributes),
                size_bytes: size_bytes(&attributes),
                attributes: attribute_bits(&attributes),
            };
        }
        // The record is removed first. Otherwise a new file could get the inode number of the
        // deleted file.
        if !request.server.remove_record(&open).await {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        let unstable = stable::before_close(files, std::slice::from_ref(&open)).await?;
        files.close(file.clone()).await.map_err(status_of)?;
        files.make_stable(unstable).await.map_err(status_of)?;
    }
    response.encode(&mut request.w);
    Ok(HandlerOutcome::success())
}
