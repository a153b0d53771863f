//! CREATE that comes back for a durable open. MS-SMB2 3.3.5.9.7, 3.3.5.9.12.

use super::plan::Asked;
use super::{client_of, respond};
use crate::dispatch::{Outcome, Reply, Request};
use crate::durable::Reconnect;
use crate::limits::RECONNECT_WAITS;
use crate::open::Open;
use crate::status::status_of;
use crate::tree::Tree;
use files::{OpenAction, OpenResult};
use std::sync::Arc;
use wire::ntstatus::NtStatus;

/// Goes on with an open on this connection, as it was. If its own connection is there still, waits
/// up to [`RECONNECT_WAITS`] and a tick for the end of that.
///
/// # Errors
/// As [`take_up`].
pub(super) async fn reconnect(
    request: &mut Request<'_>,
    tree: &Arc<Tree>,
    asked: &Asked,
    wish: &Reconnect,
    name: &[u8],
) -> Result<Outcome, NtStatus> {
    // Elsewhere nothing is persistent, whatever is said.
    let persistent = wish.persistent && request.may_persist(&tree.share);
    let wish = Reconnect { persistent, ..*wish };
    let mut taken = take_up(request, tree.clone(), &wish, name);
    if let Err(NtStatus::OBJECT_NAME_NOT_FOUND) = taken {
        wait_for_its_end(request, &tree.share.name, &wish, name).await?;
        taken = take_up(request, tree.clone(), &wish, name);
    }
    answer(request, asked, &taken?, OpenAction::Opened)
}

/// Until what a client comes back for is kept for it. If another connection has it, waits for the
/// end of that: the client may have heard of it sooner than the server.
///
/// # Errors
/// `OBJECT_NAME_NOT_FOUND` if none has it, nor is it kept, or it is not over within
/// [`RECONNECT_WAITS`] and a tick. What is wrong with the wish beside is said at once, as
/// [`Reconnect::judge`] has it.
pub(super) async fn wait_for_its_end(
    request: &Request<'_>,
    share: &str,
    wish: &Reconnect,
    name: &[u8],
) -> Result<(), NtStatus> {
    let (server, session) = (request.server, request.session()?);
    let until = server.host.instant() + RECONNECT_WAITS;
    loop {
        let elsewhere = server.find_elsewhere(wish.id, session);
        let elsewhere = elsewhere.filter(|open| open.durability().is_some());
        // As it is answered once the open is kept.
        elsewhere.iter().try_for_each(|open| wish.judge(open, session, share, name))?;
        let may_come = elsewhere.is_some() || server.durable.is_losing();
        let look = may_come.then(|| server.durable.expect(wish.id, until));
        // Entered meanwhile, perhaps.
        if server.durable.is_kept(wish.id) {
            return Ok(());
        }
        let look = look.filter(|_| server.host.instant() < until);
        look.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?.raised().await;
    }
}

/// An open that was taken up.
pub(super) struct Taken {
    pub open: Arc<Open>,
    /// It breaks, which its client is told after the reply.
    is_untold: bool,
}

/// Takes up an open that waits for its client, and enters it.
///
/// # Errors
/// `OBJECT_NAME_NOT_FOUND` if it is not there any more, or was never its client's;
/// `ACCESS_DENIED` for another user; `INVALID_PARAMETER` if it does not outlive the
/// server and is said to, or is under a lease and of a file of another name.
pub(super) fn take_up(
    request: &mut Request<'_>,
    tree: Arc<Tree>,
    wish: &Reconnect,
    name: &[u8],
) -> Result<Taken, NtStatus> {
    let session = request.session()?.clone();
    let server = request.server.clone();
    let now = server.host.instant();
    let kept = server.durable.reattach(wish, &session, &tree.share.name, name, now)?;
    // The volatile half may change (MS-SMB2 2.2.14.1), and clients exist that compare it.
    let id = kept.id;
    let file = kept.file()?.clone();
    let client = client_of(request, &session, &tree, id);
    let oplock = kept.oplock.as_ref().map(|oplock| oplock.handle_reattached(client));
    let lease = kept.lease.as_ref().map(|lease| lease.handle_reattached(id.persistent));
    let is_untold = lease.or(oplock).unwrap_or(false);
    // Asked for its oplock on the way here, when nobody could be told: over.
    let lasts = kept.durability().is_some_and(|durability| durability.kind.lasts());
    if !lasts && file.is_breaking() {
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
    let open = kept.successor(id, tree, request.header.channel_sequence());
    let open = Arc::new(open.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?);
    if let Err(status) = session.add_open(open.clone()) {
        // The session ended meanwhile: it waits on.
        server.detach_all(vec![open]);
        return Err(status);
    }
    if open.origin.persistence.is_some() {
        server.persistent.enter(&open)?;
    }
    if lasts {
        request.files.set_away(&file, None);
    }
    open.answer_replays();
    Ok(Taken { open, is_untold })
}

/// Answers with an open that was taken up.
pub(super) fn answer(
    request: &mut Request<'_>,
    asked: &Asked,
    Taken { open, is_untold }: &Taken,
    action: OpenAction,
) -> Result<Outcome, NtStatus> {
    let file = open.file()?;
    let files = request.files;
    let attributes = files.attributes_unchecked(file).map_err(status_of)?;
    let (mut caching, granted) = file.grant_again();
    if *is_untold && caching.is_breaking {
        // As if it began with the notice.
        caching.is_breaking = false;
        caching.epoch = caching.epoch.wrapping_sub(1);
    }
    // After the reply: what it was told before went by a connection that is lost.
    file.ask_again(files.context());
    let opened = OpenResult { open: file.clone(), action, attributes, caching, granting: None };
    respond::respond(&mut request.w, files, asked, open, &opened);
    request.related.failed = None;
    request.related.open = Some(open.clone());
    Ok(Outcome::Done(Reply { granted, ..Reply::default() }))
}
