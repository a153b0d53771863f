//! CREATE of an application instance that may have the file open on another machine. MS-SMB2
//! 3.3.5.9.13.

use crate::opens::app_instances::AppInstance;
use crate::opens::durable::has_path;
use crate::request::context::Request;
use crate::shares::tree::TreeConnect;
use files::{Access, Caller};
use wire::ntstatus::NtStatus;

/// Closes the opens that other clients have of the file `name` for the same application instance,
/// if the user may read it.
///
/// # Errors
/// `FILE_FORCED_CLOSED` if the existing open has an equal or higher version, or only it has one.
pub(super) async fn close_others(
    request: &Request<'_>,
    tree: &TreeConnect,
    caller: &Caller,
    instance: AppInstance,
    name: &[u8],
) -> Result<(), NtStatus> {
    let server = request.server;
    let client = request.negotiated.client_guid;
    for member in server.app_instances.of_others(instance.id, client) {
        let Some(open) = server.find_open(member.client, member.open) else { continue };
        if open.tree.share.name != tree.share.name || !has_path(&open, name) {
            continue;
        }
        if instance.is_older_than(member.version) {
            return Err(NtStatus::FILE_FORCED_CLOSED);
        }
        let file = open.file()?;
        let may = request.files.maximal_access_of(file, caller);
        if may.is_ok_and(|may| may.contains(Access::FILE_READ)) {
            server.force_close(request.files, member.client, &open).await;
        }
    }
    Ok(())
}
