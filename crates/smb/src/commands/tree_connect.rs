//! TREE_CONNECT. MS-SMB2 3.3.5.7.

use crate::config::SmbShare;
use crate::limits::{ADMISSION_TRIES_MAX, NAME_POLL_INTERVAL, NAME_WAIT_MAX};
use crate::observe::audit;
use crate::observe::failure_report::report_share_gone;
use crate::request::context::{HandlerOutcome, Request, ResponseParts, malformed};
use crate::shares::tree::AdmittedShare;
use crate::shares::user::SessionUser;
use crate::shares::user_volumes::{HOMES, UserVolumeRefusal, VolumeRequester};
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
    let admitted = admit(request, body.path).await?;
    let session = request.session()?;
    let share = &admitted.share;
    if share.volume.as_ref().is_some_and(|volume| volume.is_gone()) {
        let host = &*request.server.host;
        let (facts, message) = (request.shared.facts, request.header.message_id);
        report_share_gone(host, facts, message, &session.user().account.name, &share.name);
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

/// Admits the session's user to a share. Opening a user's directory may take seconds, in which a
/// reload may remove the share or deny the user, and the session may be re-authenticated. So the
/// decision is repeated until the share and the user are those by which it was made.
async fn admit(request: &mut Request<'_>, path: &[u8]) -> Result<AdmittedShare, NtStatus> {
    for _ in 0..ADMISSION_TRIES_MAX {
        let share = find_share(request, path)?;
        await_host_look_up(request, &share).await;
        let counted = request.files.meter().share(&share.name);
        request.related.counted = counted;
        let session = request.session()?;
        let user = session.user();
        let peer = request.shared.facts.peer.ip();
        check_admission(&share, &user, peer)?;
        // Every eavesdropper knows the keys of a guest or anonymous session.
        let has_keys = session.sealing.is_some() && session.has_proven_keys();
        if share.encryption_required && !has_keys {
            return Err(NtStatus::ACCESS_DENIED);
        }
        let opened = for_user(share.clone(), &user, peer).await?;
        let is_present = Arc::ptr_eq(&find_share(request, path)?, &share);
        if is_present && Arc::ptr_eq(&request.session()?.user(), &user) {
            return Ok(grant(opened, counted, &user));
        }
    }
    Err(NtStatus::ACCESS_DENIED)
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

/// Checks that this user may connect from this address.
fn check_admission(share: &SmbShare, user: &SessionUser, peer: IpAddr) -> Result<(), NtStatus> {
    let admission = &share.admission;
    let is_admitted = admission.admits_host(peer) == Some(true)
        && admission.admits(&user.account, user.is_proven());
    if is_admitted { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) }
}

/// The share with the volume of one user, if its volume depends on the user.
async fn for_user(
    share: Arc<SmbShare>,
    user: &SessionUser,
    peer: IpAddr,
) -> Result<Arc<SmbShare>, NtStatus> {
    let Some(volumes) = &share.user_volumes else { return Ok(share) };
    // Anyone may claim the name of a guest.
    if !user.is_proven() {
        return Err(UserVolumeRefusal::Denied.status());
    }
    let identity = &user.account.caller.identity;
    let forced = share.forced(&user.account.caller);
    let requester = VolumeRequester {
        account: user.account.name.clone(),
        uid: identity.uid,
        gid: identity.gid,
        forced: forced.map(|forced| (forced.identity.uid, forced.identity.gid)),
        peer: peer.to_canonical(),
    };
    let volume = volumes.open(requester).await.map_err(UserVolumeRefusal::status)?;
    Ok(Arc::new(SmbShare { volume: Some(volume), user_volumes: None, ..(*share).clone() }))
}

/// The share with this user's access.
fn grant(share: Arc<SmbShare>, counted: ShareId, user: &SessionUser) -> AdmittedShare {
    let admission = &share.admission;
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
    AdmittedShare { share, volume, forced, counted }
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
    let config = request.server.config();
    let share = config.share(name).or_else(|| {
        let user = request.session().ok()?.user();
        let is_own = user.is_proven() && user.account.name.to_lowercase() == name.to_lowercase();
        config.share(HOMES).filter(|homes| is_own && homes.user_volumes.is_some())
    });
    share.cloned().ok_or(NtStatus::BAD_NETWORK_NAME)
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
