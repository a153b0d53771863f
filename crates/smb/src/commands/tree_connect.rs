//! TREE_CONNECT. MS-SMB2 3.3.5.7.

use crate::config::SmbShare;
use crate::limits::{NAME_POLL_INTERVAL, NAME_WAIT_MAX};
use crate::observe::audit;
use crate::observe::failure_report::report_share_gone;
use crate::request::context::{HandlerOutcome, Request, ResponseParts, malformed};
use crate::shares::tree::AdmittedShare;
use crate::shares::user::SessionUser;
use files::{Access, VolumeOptions};
use meter::ShareId;
use std::net::IpAddr;
use std::sync::Arc;
use wire::codec::utf16_units;
use wire::ntstatus::NtStatus;
use wire::smb::{TreeConnectRequest, TreeConnectResponse};

/// Longest path in UTF-16 units: a server name and a share name.
const PATH_UNITS_MAX: usize = 1024;
/// Longest share name (NNLEN of MS-SRVS).
const SHARE_NAME_MAX: usize = 80;

/// Connects a share, and audits the attempt.
pub async fn tree_connect(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body = TreeConnectRequest::decode(&mut request.body()?).map_err(malformed)?;
    let connected = connect(request, &body).await;
    let status = connected.as_ref().err().copied().unwrap_or_default();
    let whose = (request.header.message_id, request.channel.map(|channel| &channel.session));
    let meter = request.server.files.meter();
    audit::tree_connect(meter, request.shared.facts, whose, body.path, status);
    connected
}

async fn connect(
    request: &mut Request<'_>,
    body: &TreeConnectRequest<'_>,
) -> Result<HandlerOutcome, NtStatus> {
    let share = find_share(request, body.path)?;
    await_host_look_up(request, &share).await;
    let counted = request.files.meter().share(&share.name);
    request.related.counted = counted;
    let session = request.session()?;
    let user = session.user();
    let admitted = admit(share, counted, &user, request.shared.facts.peer.ip())?;
    let share = &admitted.share;
    // Every eavesdropper knows the keys of a guest or anonymous session.
    let has_keys = session.sealing.is_some() && session.has_proven_keys();
    if share.encryption_required && !has_keys {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if share.volume.as_ref().is_some_and(|volume| volume.is_gone()) {
        let host = &*request.server.host;
        let (facts, message) = (request.shared.facts, request.header.message_id);
        report_share_gone(host, facts, message, &user.account.name, &share.name);
        return Err(NtStatus::BAD_NETWORK_NAME);
    }
    if share.has_stopped(request.files) {
        return Err(NtStatus::UNEXPECTED_IO_ERROR);
    }
    let response = response(share, admitted.max_access(), request.may_persist(share));
    let tree = session.add_tree(admitted, &request.server.holdings.trees)?;
    request.related.tree = Some(tree.id);
    response.encode(&mut request.w);
    Ok(HandlerOutcome::Done(ResponseParts { tree_id: Some(tree.id), ..ResponseParts::default() }))
}

/// Waits until the look-up of the client's host name is complete, because SMB has no retry status.
/// A client whose look-up takes too long is refused.
async fn await_host_look_up(request: &Request<'_>, share: &SmbShare) {
    let peer = request.shared.facts.peer.ip();
    let mut left = NAME_WAIT_MAX.as_millis() / NAME_POLL_INTERVAL.as_millis();
    while left > 0 && share.admission.admits_host(peer).is_none() {
        request.server.files.pause(NAME_POLL_INTERVAL).await;
        left -= 1;
    }
}

/// The share with this user's access from this address.
fn admit(
    share: Arc<SmbShare>,
    counted: ShareId,
    user: &SessionUser,
    peer: IpAddr,
) -> Result<AdmittedShare, NtStatus> {
    let admission = &share.admission;
    if admission.admits_host(peer) != Some(true)
        || !admission.admits(&user.account, user.is_proven())
    {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let volume = share.volume.as_ref().map(|volume| {
        let read_only = !admission.may_write(&user.account, !volume.options.read_only);
        if read_only == volume.options.read_only {
            return volume.clone();
        }
        // The volume has the same files: opens are tracked by the backend.
        let options = VolumeOptions { read_only, ..volume.options.clone() };
        Arc::new(volume.with_options(options))
    });
    let forced = share.forced(&user.account.caller);
    Ok(AdmittedShare { share, volume, forced, counted })
}

fn find_share(request: &Request<'_>, path: &[u8]) -> Result<Arc<SmbShare>, NtStatus> {
    let units = utf16_units(path, "tree path").map_err(malformed)?;
    if units.len() > PATH_UNITS_MAX {
        return Err(NtStatus::BAD_NETWORK_NAME);
    }
    let text = String::from_utf16(&units).map_err(|_| NtStatus::BAD_NETWORK_NAME)?;
    let name = text.trim_end_matches('\0').rsplit('\\').next().unwrap_or_default();
    if name.is_empty() || name.len() > SHARE_NAME_MAX {
        return Err(NtStatus::BAD_NETWORK_NAME);
    }
    if name.eq_ignore_ascii_case("IPC$") {
        return Ok(request.server.ipc().clone());
    }
    let share = request.server.config().share(name).cloned();
    share.ok_or(NtStatus::BAD_NETWORK_NAME)
}

fn response(share: &SmbShare, max_access: Access, persists: bool) -> TreeConnectResponse {
    let mut flags = 0;
    if share.encryption_required {
        flags |= TreeConnectResponse::ENCRYPT_DATA;
    }
    if share.access_based_enumeration {
        flags |= TreeConnectResponse::ACCESS_BASED_ENUM;
    }
    if share.is_ipc() {
        flags |= TreeConnectResponse::NO_CACHING;
    }
    TreeConnectResponse {
        share_type: if share.is_ipc() {
            TreeConnectResponse::PIPE
        } else {
            TreeConnectResponse::DISK
        },
        flags,
        capabilities: if persists { TreeConnectResponse::CONTINUOUS_AVAILABILITY } else { 0 },
        maximal_access: max_access.0 & Access::FILE_ALL.0,
    }
}
