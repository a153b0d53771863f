//! TREE_DISCONNECT. MS-SMB2 3.3.5.8.

use crate::request::context::{HandlerOutcome, Request, malformed};
use wire::ntstatus::NtStatus;
use wire::smb::EmptyBody;

/// Ends a tree connect and closes its opens.
pub async fn tree_disconnect(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    EmptyBody::decode(&mut request.body()?).map_err(malformed)?;
    let tree = request.tree()?.free_of_charge();
    let opens = request.session()?.remove_tree(tree.id)?;
    request.server.close_all_stable(request.files, opens).await?;
    EmptyBody.encode(&mut request.w);
    Ok(HandlerOutcome::success())
}
