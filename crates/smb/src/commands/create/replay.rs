//! CREATE with a CreateGuid, which clients may replay. MS-SMB2 3.3.5.9.10.

use super::plan::RequestedContexts;
use super::{reconnect, respond};
use crate::conversion::status::status_of;
use crate::opens::create_guids::{ClaimOutcome, CreateGuidClaim, CreateKey, Guid};
use crate::opens::durable::Reconnect;
use crate::opens::open::Open;
use crate::opens::oplock::{LEVEL_BATCH, caching_of};
use crate::request::context::{HandlerOutcome, Request, ResponseParts};
use crate::shares::tree::TreeConnect;
use files::{CachingRights, OpenResult};
use std::sync::Arc;
use wire::ntstatus::NtStatus;
use wire::smb::{CreateRequest, Flags};

/// The role of a CREATE with a CreateGuid.
pub(super) enum ReplayLookup {
    /// The first with its CreateGuid, to be processed.
    First(CreateGuidClaim<Open>),
    /// A replay, with its response.
    Replayed(HandlerOutcome),
}

/// Looks up the CreateGuid of a CREATE.
///
/// # Errors
/// - `FILE_NOT_AVAILABLE` while the first CREATE waits for another client. Windows returns
///   ACCESS_DENIED, which its clients report to their programs; this status makes them retry.
/// - `INVALID_PARAMETER` if the first CREATE requested a persistent open and the replay does not.
/// - `DUPLICATE_OBJECTID` without the replay flag, or if another session keeps the open.
/// - The errors of a reconnect.
pub(super) async fn look_up_create_guid(
    request: &mut Request<'_>,
    tree: &Arc<TreeConnect>,
    body: &CreateRequest<'_>,
    guid: Guid,
    requested: RequestedContexts,
) -> Result<ReplayLookup, NtStatus> {
    let replays = request.header.flags.contains(Flags::REPLAY);
    let persistent =
        requested.durable.is_some_and(|wish| wish.persistent) && request.may_persist(&tree.share);
    let key = CreateKey { client: request.negotiated.client_guid, create: guid };
    let open = loop {
        match request.server.create_guids.claim(key) {
            // The client lost the reply of a persistent open that is no more. Samba's suite demands
            // this answer (smb2.persistent-open.replay-multi) where 3.3.5.9.10 would open anew.
            ClaimOutcome::Fresh(_) if replays && persistent => {
                return Err(NtStatus::FILE_NOT_AVAILABLE);
            }
            ClaimOutcome::Fresh(claim) => return Ok(ReplayLookup::First(claim)),
            // It completes even if its channel is lost.
            ClaimOutcome::InProgress(ended) if replays => ended.raised().await,
            ClaimOutcome::InProgress(_) | ClaimOutcome::Waits => {
                return Err(NtStatus::FILE_NOT_AVAILABLE);
            }
            ClaimOutcome::Done(open) => break open,
        }
    };
    if !replays {
        return Err(NtStatus::DUPLICATE_OBJECTID);
    }
    // Windows denies this access, which its clients never request. A restored open may lack a lease
    // that was not persisted.
    let lease_key = open.lease.as_ref().map(|lease| lease.key().key);
    let is_restored = open.origin.persistence.as_ref().is_some_and(|p| p.is_restored);
    let lost_lease = is_restored && open.lease.is_none();
    // A lease beside the level of no oplock counts for a durable request, which a directory has none
    // of: the first CREATE got no lease either.
    let is_directory = open.file().is_ok_and(|file| file.is_directory());
    let ungranted_lease = is_directory && open.lease.is_none() && !requested.leases_directory;
    let has_lease = !lost_lease && !ungranted_lease;
    if has_lease && lease_key != requested.lease.map(|lease| lease.key) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if open.origin.persistence.is_some() && !persistent {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let wish = Reconnect {
        id: open.id.persistent,
        create_guid: Some(guid),
        persistent,
        lease_key: requested.lease.map(|lease| lease.key),
    };
    let is_kept = reconnect::wait_for_detach(request, &tree.share.name, &wish, body.name).await;
    if is_kept.is_ok() {
        let taken = reconnect::reattach_open(request, tree.clone(), &wish, body.name)?;
        let action = taken.open.origin.action;
        return reconnect::answer(request, &requested, &taken, action).map(ReplayLookup::Replayed);
    }
    if open.closed.is_raised() {
        return Err(NtStatus::FILE_NOT_AVAILABLE);
    }
    answer(request, tree, body, requested, &open).map(ReplayLookup::Replayed)
}

/// Repeats the response of the first CREATE, except for the oplock level: the replay's level is
/// echoed, and durability is reported as if it were granted.
fn answer(
    request: &mut Request<'_>,
    tree: &Arc<TreeConnect>,
    body: &CreateRequest<'_>,
    mut requested: RequestedContexts,
    open: &Arc<Open>,
) -> Result<HandlerOutcome, NtStatus> {
    let known = request.session()?.open(open.id);
    if !known.is_ok_and(|known| Arc::ptr_eq(&known, open)) || open.tree.id != tree.id {
        return Err(NtStatus::DUPLICATE_OBJECTID);
    }
    let file = open.file()?;
    let files = request.files;
    // If the first response was lost with its channel, this one grants the caching.
    let (mut caching, granted) = file.repeat_grant();
    if open.lease.is_none() {
        caching.has = caching_of(body.oplock).unwrap_or(CachingRights::NONE);
        let persists = open.origin.persistence.is_some();
        requested.durable = requested.durable.filter(|_| persists || body.oplock == LEVEL_BATCH);
    }
    let opened = OpenResult {
        open: file.clone(),
        action: open.origin.action,
        attributes: files.attributes_unchecked(file).map_err(status_of)?,
        caching,
        granting: None,
    };
    respond::respond(&mut request.w, files, &requested, open, &opened);
    request.related.failed = None;
    request.related.open = Some(open.clone());
    Ok(HandlerOutcome::Done(ResponseParts { granted, ..ResponseParts::default() }))
}
