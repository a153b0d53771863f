//! LOGOFF. MS-SMB2 3.3.5.6.

use crate::opens::durable;
use crate::request::context::{HandlerOutcome, Request, ResponseParts, malformed};
use wire::ntstatus::NtStatus;
use wire::smb::EmptyBody;

/// Ends the session and closes its opens, except for durable opens, which the client may reconnect.
pub async fn logoff(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    EmptyBody::decode(&mut request.body()?).map_err(malformed)?;
    let session = request.session()?;
    let mut removing = session.opens();
    removing.retain(|open| {
        let removes = open.file().is_ok_and(|file| file.may_remove_at_close());
        removes && open.writes_through() && durable::detachable_as(open).is_none()
    });
    removing.retain(|open| session.remove_open(open.id).is_ok());
    request.server.disconnect_session(session);
    request.server.close_all_stable(request.files, removing).await?;
    EmptyBody.encode(&mut request.w);
    Ok(HandlerOutcome::Done(ResponseParts {
        logged_off: Some(session.id),
        ..ResponseParts::default()
    }))
}
