//! TREE_CONNECT. MS-SMB2 3.3.5.7.

use crate::config::Share;
use crate::dispatch::{Outcome, Reply, Request, malformed};
use crate::trouble::tell_gone;
use files::Access;
use std::sync::Arc;
use wire::codec::utf16_units;
use wire::ntstatus::NtStatus;
use wire::smb::{TreeConnectRequest, TreeConnectResponse};

/// Longest path taken, in UTF-16 units: a server name and a share name.
const PATH_UNITS_MAX: usize = 1024;
/// Longest share name (NNLEN of MS-SRVS).
const SHARE_NAME_MAX: usize = 80;

/// Connects a share.
pub fn tree_connect(request: &mut Request<'_>) -> Result<Outcome, NtStatus> {
    let body = TreeConnectRequest::decode(&mut request.body()?).map_err(malformed)?;
    let share = find_share(request, body.path)?;
    let session = request.session()?;
    let user = session.user();
    if user.is_anonymous && !share.is_ipc() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if !share.admits(&user.account.name) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if share.encryption_required && session.sealing.is_none() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if share.volume.as_ref().is_some_and(|volume| volume.is_gone()) {
        let host = &*request.server.host;
        tell_gone(host, request.shared.facts.peer, &user.account.name, &share.name);
        return Err(NtStatus::BAD_NETWORK_NAME);
    }
    let max_access = share.volume.as_ref().map_or(Access::FILE_ALL, |v| v.max_access());
    let tree = session.add_tree(share.clone(), max_access)?;
    request.related.tree = Some(tree.id);
    response(&share, max_access).encode(&mut request.w);
    Ok(Outcome::Done(Reply { tree_id: Some(tree.id), ..Reply::default() }))
}

fn find_share(request: &Request<'_>, path: &[u8]) -> Result<Arc<Share>, NtStatus> {
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

fn response(share: &Share, max_access: Access) -> TreeConnectResponse {
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
        capabilities: 0,
        maximal_access: max_access.0 & Access::FILE_ALL.0,
    }
}
