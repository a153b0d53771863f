//! CREATE that comes back for a durable open. MS-SMB2 3.3.5.9.7.

use super::plan::Asked;
use super::{client_of, respond};
use crate::dispatch::{Outcome, Reply, Request};
use crate::open::{Open, Target};
use crate::signal::Signal;
use crate::status::status_of;
use crate::tree::Tree;
use files::{OpenAction, OpenResult};
use std::sync::{Arc, Mutex};
use wire::ntstatus::NtStatus;
use wire::smb::FileId;

/// Goes on with the open `id` on this connection, as it was.
///
/// # Errors
/// `OBJECT_NAME_NOT_FOUND` if it is not there any more, or was never its client's;
/// `ACCESS_DENIED` for another user.
pub(super) fn reconnect(
    request: &mut Request<'_>,
    tree: Arc<Tree>,
    asked: &Asked,
    id: u64,
) -> Result<Outcome, NtStatus> {
    let session = request.session()?.clone();
    let server = request.server.clone();
    let kept = server.durable.reattach(id, &session, &tree.share.name)?;
    let Target::File(file) = &kept.target else { return Err(NtStatus::OBJECT_NAME_NOT_FOUND) };
    let id = FileId { volatile: server.new_file_id().volatile, ..kept.id };
    if let Some(oplock) = &kept.oplock {
        oplock.handle_reattached(client_of(request, &session, &tree, id));
    }
    let opened = OpenResult {
        open: file.clone(),
        action: OpenAction::Opened,
        attributes: server.files.attributes_unchecked(file).map_err(status_of)?,
        caching: file.caching(),
    };
    let open = Arc::new(Open {
        id,
        tree,
        target: Target::File(file.clone()),
        is_durable: true,
        oplock: kept.oplock.clone(),
        write_through: kept.write_through,
        mode: kept.mode,
        closed: Signal::default(),
        lock_sequences: Mutex::new(kept.take_lock_sequences()),
        scan: Mutex::default(),
    });
    session.add_open(open.clone())?;
    respond::respond(&mut request.w, &server.files, asked, &open, &opened);
    let granted = open.oplock.clone();
    request.related.failed = None;
    request.related.open = Some(open);
    Ok(Outcome::Done(Reply { granted, ..Reply::default() }))
}
