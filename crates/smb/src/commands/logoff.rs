//! LOGOFF. MS-SMB2 3.3.5.6.

use crate::dispatch::{Outcome, Reply, Request, malformed};
use wire::ntstatus::NtStatus;
use wire::smb::EmptyBody;

/// Ends the session and closes what it holds, but for what is durable: its
/// client may come back for that.
pub async fn logoff(request: &mut Request<'_>) -> Result<Outcome, NtStatus> {
    EmptyBody::decode(&mut request.body()?).map_err(malformed)?;
    let session = request.session()?;
    request.server.lose_session(session);
    EmptyBody.encode(&mut request.w);
    Ok(Outcome::Done(Reply { logged_off: Some(session.id), ..Reply::default() }))
}
