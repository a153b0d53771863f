//! Delegations: grants at OPEN, DELEGRETURN, and attributes of a file under another client's write
//! delegation. RFC 8881 10.4, 18.6, 20.1.

use crate::callback::call::CallbackReply;
use crate::callback::recall::start_recall;
use crate::clients::client::ClientIncarnation;
use crate::clients::held_state::HeldDelegation;
use crate::exports::export::Export;
use crate::limits::{CB_GETATTR_TIMEOUT, DELEGATIONS_PER_CLIENT_MAX};
use crate::request::place::HandleTarget;
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use files::{ClientProtocol, DelegationKind, Object, OpenFile, RequestContext};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{Attributes, FileKey};
use wire::nfs::acl::{AceFlags, AceMask, AceType, NfsAce, who};
use wire::nfs::attributes::{Fattr, attribute};
use wire::nfs::callback::{Callback, CbGetAttrArgs};
use wire::nfs::ops::{
    DelegReturnArgs, DelegationType, NoDelegation, OpenClaim, OpenDelegation, ReadDelegation,
    ShareAccess, SpaceLimit, WriteDelegation,
};
use wire::nfs::{Bitmap4, CallbackNumber, FileHandle, NfsStatus, StateId};

/// Attributes that the holder of a write delegation knows better.
const WRITER_ATTRIBUTES: Bitmap4 = Bitmap4::of(&[
    attribute::CHANGE,
    attribute::SIZE,
    attribute::SPACE_USED,
    attribute::TIME_METADATA,
    attribute::TIME_MODIFY,
]);

/// Coarsest clock tick of file systems, in nanoseconds.
const TIME_STEP_MAX_NS: i128 = 20_000_000;

/// Reason why an OPEN grants no delegation, if the client asked for one. RFC 8881 18.16.3.
fn none(wanted: ShareAccess, why: NoDelegation) -> OpenDelegation<'static> {
    match wanted {
        ShareAccess(0) => OpenDelegation::None,
        _ => OpenDelegation::NoneWhy(why),
    }
}

/// Grants a delegation with an OPEN, if possible.
pub(crate) fn grant(
    run: &mut CompoundRun<'_>,
    client: &Arc<ClientIncarnation>,
    (access, claim): (ShareAccess, &OpenClaim<'_>),
    (open, export): (&Arc<OpenFile>, &Arc<Export>),
) -> OpenDelegation<'static> {
    let wanted = access.wanted_delegation();
    let kind = match (claim, wanted) {
        (OpenClaim::Previous(before), _) => match before {
            DelegationType::Read | DelegationType::ReadAttributes => DelegationKind::Read,
            DelegationType::Write | DelegationType::WriteAttributes => DelegationKind::Write,
            DelegationType::None | DelegationType::NoneWhy => return OpenDelegation::None,
        },
        (_, ShareAccess::WANT_NO_DELEG) => return none(wanted, NoDelegation::NotWanted),
        (_, ShareAccess::WANT_CANCEL) => return none(wanted, NoDelegation::Cancelled),
        (_, ShareAccess::WANT_READ_DELEG) => DelegationKind::Read,
        // A write delegation includes reads, so the open must be for both.
        _ if access.access() == ShareAccess::BOTH => DelegationKind::Write,
        _ => DelegationKind::Read,
    };
    // A reclaim does not need a tested backchannel.
    let is_again = matches!(claim, OpenClaim::Previous(_));
    if !is_again && !client.answers_callbacks() {
        return none(wanted, NoDelegation::Resource(false));
    }
    let Some(id) = try_grant(run, client, kind, (open, export)) else {
        return none(wanted, NoDelegation::Contention(false));
    };
    let is_recalled = is_again && has_changed_since_start(run, open);
    if is_recalled {
        start_recall(run.server(), client, open.key());
    }
    granted(kind, id, is_recalled)
}

/// Whether an SMB client or a local process may have changed the file between the server's start
/// and the reclaim of its delegation. The client's cache may then be stale, so the server grants
/// the delegation only to recall it: the client flushes its writes and returns it. RFC 8881 10.2.1.
fn has_changed_since_start(run: &CompoundRun<'_>, open: &Arc<OpenFile>) -> bool {
    let changed = run.files().attributes_unchecked(open).map(|known| known.changed);
    // File systems record times in ticks.
    changed.is_ok_and(|changed| changed.0 + TIME_STEP_MAX_NS >= run.server().started.0)
}

fn try_grant(
    run: &mut CompoundRun<'_>,
    client: &Arc<ClientIncarnation>,
    kind: DelegationKind,
    (open, export): (&Arc<OpenFile>, &Arc<Export>),
) -> Option<StateId> {
    let file = open.key();
    let begins = client.with_states(|states| {
        states.delegation_count() < DELEGATIONS_PER_CLIENT_MAX && states.begin_delegation(file)
    });
    if !begins {
        return None;
    }
    let id = grant_alone(run, client, kind, (open, export));
    client.with_states(|states| states.end_begun_delegation(file));
    id
}

/// Delegates a file while no other open of the client does.
fn grant_alone(
    run: &mut CompoundRun<'_>,
    client: &Arc<ClientIncarnation>,
    kind: DelegationKind,
    (open, export): (&Arc<OpenFile>, &Arc<Export>),
) -> Option<StateId> {
    let server = run.server().clone();
    if server.make_room(client, 0).is_err() {
        return None;
    }
    let (file, now) = (open.key(), server.host.now().instant);
    let account = server.holdings.delegations.account(&client.holder);
    let mut entry = server.delegations.enter(file, &account, now)?;
    let delegation = run.files().grant_delegation(open, kind).ok().flatten()?;
    let grants = delegation.granting();
    let handle = HandleTarget::of(export.clone(), open.object()).handle(run.files()).ok()?;
    if kind == DelegationKind::Write {
        entry.set_writer(file, client, run.change_of(&open.object()));
    }
    let referring = run.referring();
    let held = HeldDelegation { entry, is_recalled: false, delegation, handle, referring };
    let is_write = kind == DelegationKind::Write;
    let id = client.with_states(|states| {
        let number = states.add_delegation(file, is_write, held).ok()?;
        Some(states.id(number))
    });
    // A recall is deferred until the reply is sent.
    run.grants.extend(grants);
    id
}

fn granted(kind: DelegationKind, state_id: StateId, is_recalled: bool) -> OpenDelegation<'static> {
    // The permissions grant nothing: clients check each user by ACCESS.
    let permissions = NfsAce {
        ace_type: AceType::Allow,
        flags: AceFlags(0),
        mask: AceMask(0),
        who: who::EVERYONE,
    };
    match kind {
        DelegationKind::Read => {
            OpenDelegation::Read(ReadDelegation { state_id, is_recalled, permissions })
        }
        // No space is reserved: clients flush at CLOSE, so that the closing application sees a full
        // disk.
        DelegationKind::Write => OpenDelegation::Write(WriteDelegation {
            state_id,
            is_recalled,
            space_limit: SpaceLimit::SizeBytes(0),
            permissions,
        }),
    }
}

/// Checks that the client has the delegation that the OPEN refers to. RFC 8881 18.16.3.
pub(crate) fn check_claim(
    client: &ClientIncarnation,
    claim: &OpenClaim<'_>,
) -> Result<(), NfsStatus> {
    match claim {
        OpenClaim::DelegateCurrent(id, _) | OpenClaim::DelegateCurrentFileHandle(id) => {
            client.with_states(|states| states.find_delegation(id).map(|_| ()))
        }
        _ => Ok(()),
    }
}

pub(crate) async fn delegreturn(
    run: &mut CompoundRun<'_>,
    args: &DelegReturnArgs,
) -> Result<(), NfsStatus> {
    let id = run.resolve_id(args.state_id)?;
    let files = run.files().clone();
    let handle = run.place()?.handle(&files)?;
    let ended = run.client()?.with_states(|states| {
        let (number, held) = states.find_delegation(&id)?;
        if held.handle != handle {
            return Err(NfsStatus::BAD_STATEID);
        }
        Ok(states.remove(number))
    })?;
    for held in ended.delegations {
        let HeldDelegation { delegation, entry, .. } = held;
        drop(entry);
        crate::callback::recall::return_status(files.return_delegation(delegation).await)?;
    }
    Ok(())
}

/// Attributes in the reply of a write delegation's holder to CB_GETATTR.
struct CbGetattrReply {
    change: u64,
    size_bytes: u64,
}

/// Whether another client's write delegation may make requested attributes stale.
pub(crate) fn may_be_stale(run: &CompoundRun<'_>, requested: Bitmap4, key: FileKey) -> bool {
    let writer = |client: Arc<ClientIncarnation>| run.server().delegations.writer(key, &client);
    !(requested & WRITER_ATTRIBUTES).is_empty()
        && run.client().is_ok_and(|client| writer(client).is_some())
}

/// Updates attributes by those that the holder of a write delegation caches. RFC 8881 10.4.3.
pub(crate) async fn with_writer_attributes(
    run: &mut CompoundRun<'_>,
    object: &Object,
    attributes: Attributes,
) -> Result<Attributes, NfsStatus> {
    let server = run.server().clone();
    let Ok(requester) = run.client() else { return Ok(attributes) };
    let Some((writer, granted)) = server.delegations.writer(object.key(), &requester) else {
        return Ok(attributes);
    };
    // A courtesy client cannot reply, and a look at its file costs it nothing.
    if writer.is_expired(server.host.now().instant, server.config().lease) {
        return Ok(attributes);
    }
    let handle = run.place()?.handle(&server.files)?;
    let mut reply = None;
    // The server waits for an unresponsive holder once, else a listing would wait for each file.
    if !writer.is_unresponsive.load(Ordering::Acquire) {
        let query = pin!(query_writer(run, &writer, handle));
        match select(query, server.files.pause_for(CB_GETATTR_TIMEOUT)).await {
            Either::Left((answered, _)) => reply = answered,
            Either::Right(_) => writer.is_unresponsive.store(true, Ordering::Release),
        }
    }
    if reply.is_none() && writer.is_unresponsive.load(Ordering::Acquire) {
        // The holder must return the delegation, or loses it.
        start_recall(&server, &writer, object.key());
    }
    let Some(reply) = reply.filter(|reply| reply.change != granted) else { return Ok(attributes) };
    // The holder has changes that it has not flushed, so the file counts as changed at each look,
    // even if the client never flushes.
    let export = run.object_place()?.export.clone();
    let caller = run.caller(&export);
    // The change counts as the holder's, so that it does not recall the delegation.
    let by_writer = RequestContext::new(ClientProtocol::Nfs, writer.tag(), None, run.call.order);
    let files = server.files.for_request(&by_writer, run.call.holder());
    let touch = files.touch_delegated(&caller, object).await;
    touch.or_status()?;
    let attributes = run.files().object_attributes(object).or_status()?;
    Ok(Attributes { size_bytes: reply.size_bytes, ..attributes })
}

async fn query_writer(
    run: &CompoundRun<'_>,
    writer: &ClientIncarnation,
    handle: FileHandle,
) -> Option<CbGetattrReply> {
    let requested = Bitmap4::of(&[attribute::CHANGE, attribute::SIZE]);
    let callback = Callback::GetAttr(CbGetAttrArgs { handle, requested });
    let answer = writer.call_back(run.files(), &callback, None).await.ok()?;
    decode_reply(&answer)
}

fn decode_reply(answer: &CallbackReply) -> Option<CbGetattrReply> {
    let attributes: Fattr<'_> = answer.result(CallbackNumber::GETATTR).ok()?;
    let named = attributes.attributes().ok()?;
    Some(CbGetattrReply { change: named.change?, size_bytes: named.size? })
}
