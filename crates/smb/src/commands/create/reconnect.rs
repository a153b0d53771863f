//! CREATE that reconnects a durable open. MS-SMB2 3.3.5.9.7, 3.3.5.9.12.

use super::plan::RequestedContexts;
use super::{client_of, respond};
use crate::conversion::status::status_of;
use crate::limits::RECONNECT_WAIT_MAX;
use crate::opens::durable::Reconnect;
use crate::opens::durable::ReconnectingClient;
use crate::opens::open::Open;
use crate::request::context::{HandlerOutcome, Request, ResponseParts};
use crate::session::state::SmbSession;
use crate::shares::tree::TreeConnect;
use crate::shares::user::SessionUser;
use files::{OpenAction, OpenResult};
use std::sync::Arc;
use wire::ntstatus::NtStatus;

/// Reconnects an open to this connection. If another connection still has it, waits up to
/// [`RECONNECT_WAIT_MAX`] and a tick for the end of that connection.
///
/// # Errors
/// The errors of [`reattach_open`].
pub(super) async fn reconnect(
    request: &mut Request<'_>,
    tree: &Arc<TreeConnect>,
    requested: &RequestedContexts,
    wish: &Reconnect,
    name: &[u8],
) -> Result<HandlerOutcome, NtStatus> {
    // Only a continuously available share has persistent opens.
    let persistent = wish.persistent && request.may_persist(&tree.share);
    let wish = Reconnect { persistent, ..*wish };
    let mut taken = reattach_open(request, tree.clone(), &wish, name);
    if let Err(NtStatus::OBJECT_NAME_NOT_FOUND) = taken {
        wait_for_detach(request, &tree.share.name, &wish, name).await?;
        taken = reattach_open(request, tree.clone(), &wish, name);
    }
    answer(request, requested, &taken?, OpenAction::Opened)
}

/// Waits until the open is detached. If another connection has it, waits for the end of that
/// connection, because the client may notice it sooner than the server.
///
/// # Errors
/// `OBJECT_NAME_NOT_FOUND` if the open does not exist, or is not detached within
/// [`RECONNECT_WAIT_MAX`] and a tick. The other errors of [`Reconnect::check`] are returned at once.
pub(super) async fn wait_for_detach(
    request: &Request<'_>,
    share: &str,
    wish: &Reconnect,
    name: &[u8],
) -> Result<(), NtStatus> {
    let (server, session) = (request.server, request.session()?);
    let until = server.host.instant() + RECONNECT_WAIT_MAX;
    loop {
        let elsewhere = server.find_elsewhere(wish.id, session);
        let elsewhere = elsewhere.filter(|open| open.durability().is_some());
        // The same checks as after the detachment.
        let user = session.user();
        let by = client_of_session(session, &user);
        elsewhere.iter().try_for_each(|open| wish.check(open, by, share, name))?;
        let may_come = elsewhere.is_some() || server.durable.is_detaching();
        let look = may_come.then(|| server.durable.expect(wish.id, until));
        // The open may have been detached meanwhile.
        if server.durable.is_detached(wish.id) {
            return Ok(());
        }
        let look = look.filter(|_| server.host.instant() < until);
        look.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?.raised().await;
    }
}

/// A reconnected open.
pub(super) struct ReattachedOpen {
    pub open: Arc<Open>,
    /// Its caching breaks, of which the client is notified after the response.
    has_unsent_break: bool,
}

/// Takes a detached open, and adds it to the session.
///
/// # Errors
/// `OBJECT_NAME_NOT_FOUND` if the open does not exist, or belongs to another client;
/// `ACCESS_DENIED` for another user; `INVALID_PARAMETER` if the client claims persistence that it
/// lacks, or if a leased file has another name.
pub(super) fn reattach_open(
    request: &mut Request<'_>,
    tree: Arc<TreeConnect>,
    wish: &Reconnect,
    name: &[u8],
) -> Result<ReattachedOpen, NtStatus> {
    let session = request.session()?.clone();
    let server = request.server.clone();
    let now = server.host.instant();
    let user = session.user();
    let by = client_of_session(&session, &user);
    let detached = server.durable.reattach(wish, by, &tree.share.name, name, now)?;
    // The volatile half may change (MS-SMB2 2.2.14.1), but some clients compare it.
    let id = detached.id;
    let file = detached.file()?.clone();
    let client = client_of(request, &session, &tree, id);
    let oplock = detached.oplock.as_ref().map(|oplock| oplock.handle_reattached(client));
    let lease = detached.lease.as_ref().map(|lease| lease.handle_reattached(id.persistent));
    let has_unsent_break = lease.or(oplock).unwrap_or(false);
    // Its caching broke on the way here, when no client could be notified: the open is lost.
    let lasts =
        detached.durability().is_some_and(|durability| durability.kind.survives_conflicts());
    if !lasts && file.is_breaking() {
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
    let open = detached.successor(id, tree, request.header.channel_sequence());
    let open = Arc::new(open.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?);
    if let Err(status) = session.add_open(open.clone()) {
        // The session ended meanwhile, so the open stays detached.
        server.detach_all(vec![open]);
        return Err(status);
    }
    if open.origin.persistence.is_some() {
        server.persistent.enter(&open)?;
    }
    if lasts {
        request.files.set_absence(&file, None);
    }
    open.allow_replay();
    Ok(ReattachedOpen { open, has_unsent_break })
}

/// The client and account that a session stands for.
fn client_of_session<'a>(session: &SmbSession, user: &'a SessionUser) -> ReconnectingClient<'a> {
    ReconnectingClient { guid: session.client_guid, account: &user.account.name }
}

/// Writes the response for a reconnected open.
pub(super) fn answer(
    request: &mut Request<'_>,
    requested: &RequestedContexts,
    ReattachedOpen { open, has_unsent_break }: &ReattachedOpen,
    action: OpenAction,
) -> Result<HandlerOutcome, NtStatus> {
    let file = open.file()?;
    let files = request.files;
    let attributes = files.attributes_unchecked(file).map_err(status_of)?;
    let (mut caching, granted) = file.repeat_grant();
    if *has_unsent_break && caching.is_breaking {
        // The response shows the state before the break that is notified next.
        caching.is_breaking = false;
        caching.epoch = caching.epoch.wrapping_sub(1);
    }
    // The notification is repeated after the response, because the earlier one went out on a lost
    // connection.
    file.repeat_break(files.context());
    let opened = OpenResult { open: file.clone(), action, attributes, caching, granting: None };
    respond::respond(&mut request.w, files, requested, open, &opened);
    request.related.failed = None;
    request.related.open = Some(open.clone());
    Ok(HandlerOutcome::Done(ResponseParts { granted, ..ResponseParts::default() }))
}
