//! ECHO. MS-SMB2 3.3.5.17.

use crate::request::context::{HandlerOutcome, Request, malformed};
use wire::ntstatus::NtStatus;
use wire::smb::EmptyBody;

/// Answers an ECHO.
pub fn echo(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    EmptyBody::decode(&mut request.body()?).map_err(malformed)?;
    EmptyBody.encode(&mut request.w);
    Ok(HandlerOutcome::success())
}
