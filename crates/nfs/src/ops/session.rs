//! EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION, BACKCHANNEL_CTL, DESTROY_SESSION,
//! DESTROY_CLIENTID, RECLAIM_COMPLETE. RFC 8881 18.33 to 18.37, 18.50, 18.51.

use crate::clients::backchannel::{Backchannel, CallbackTarget};
use crate::clients::client::ExchangeIdRequest;
use crate::clients::client::{ClientFacts, ClientIncarnation};
use crate::clients::create_session::{CreateSessionStart, agree_back, agree_fore};
use crate::clients::session::NfsSession;
use crate::exports::config::NfsConfig;
use crate::limits::FACT_CHARS_MAX;
use crate::observe::audit;
use crate::request::run::CompoundRun;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::nfs::ops::{
    BackchannelCtlArgs, BindConnToSessionArgs, BindConnToSessionResult, ChannelFromClient,
    ChannelFromServer, CreateSessionArgs, CreateSessionFlags, CreateSessionResult,
    DestroyClientIdArgs, DestroySessionArgs, ExchangeIdArgs, ExchangeIdFlags, ExchangeIdResult,
    ImplementationId, ReclaimCompleteArgs, ServerOwner, StateProtectArgs, StateProtectResult,
};
use wire::nfs::xdr::Opaque;
use wire::nfs::{NfsStatus, NfsTime};

/// Flags that a client may set. EXCHGID4_FLAG_SUPP_FENCE_OPS (RFC 7862 14.1) concerns fencing of
/// storage, which clients do not request without layouts.
const CLIENT_FLAGS: ExchangeIdFlags = ExchangeIdFlags(
    ExchangeIdFlags::SUPP_MOVED_REFER.0
        | ExchangeIdFlags::SUPP_MOVED_MIGR.0
        | ExchangeIdFlags::BIND_PRINC_STATEID.0
        | ExchangeIdFlags::MASK_PNFS.0
        | ExchangeIdFlags::UPD_CONFIRMED_REC_A.0,
);
/// Flags of CREATE_SESSION.
const SESSION_FLAGS: u32 = CreateSessionFlags::PERSIST.0
    | CreateSessionFlags::CONN_BACK_CHAN.0
    | CreateSessionFlags::CONN_RDMA.0;

pub(crate) fn exchange_id<'r>(
    run: &CompoundRun<'_>,
    config: &'r NfsConfig,
    args: &ExchangeIdArgs<'_>,
) -> Result<ExchangeIdResult<'r>, NfsStatus> {
    if args.flags.0 & !CLIENT_FLAGS.0 != 0 {
        return Err(NfsStatus::INVAL);
    }
    match args.state_protect {
        StateProtectArgs::None => {}
        // It needs RPCSEC_GSS. RFC 8881 18.35.3.
        StateProtectArgs::MachineCredentials(_) => return Err(NfsStatus::INVAL),
        StateProtectArgs::Ssv(_) => return Err(NfsStatus::ENCR_ALG_UNSUPP),
    }
    let client = run.server().exchange_id(ExchangeIdRequest {
        owner: args.client_owner.owner_id.to_vec(),
        verifier: args.client_owner.verifier,
        principal: run.call.principal(),
        holder: limits::LedgerHolder::site(run.call.conn.link.facts.peer.ip()),
        id_high: run.server().random_id(),
        updates: args.flags.0 & ExchangeIdFlags::UPD_CONFIRMED_REC_A.0 != 0,
        facts: facts_of(run, args),
    })?;
    run.call.conn.set_identified();
    let confirmed = if client.is_confirmed() { ExchangeIdFlags::CONFIRMED_R.0 } else { 0 };
    Ok(ExchangeIdResult {
        client_id: client.id,
        sequence_id: client.create_session.lock().next(),
        flags: ExchangeIdFlags(ExchangeIdFlags::USE_NON_PNFS.0 | confirmed),
        state_protect: StateProtectResult::None,
        server_owner: ServerOwner { minor_id: 0, major_id: Opaque(&config.owner) },
        server_scope: Opaque(&config.owner),
        implementation_id: vec![implementation()].into(),
    })
}

/// Implementation id of the server. Linux clients show it in /proc/self/mountstats.
fn implementation() -> ImplementationId<'static> {
    let name = Opaque(concat!("Anabranch ", env!("CARGO_PKG_VERSION")).as_bytes());
    ImplementationId { domain: Opaque(b""), name, date: NfsTime::default() }
}

fn facts_of(run: &CompoundRun<'_>, args: &ExchangeIdArgs<'_>) -> ClientFacts {
    let shown = |bytes: &[u8]| -> String {
        String::from_utf8_lossy(bytes).chars().take(FACT_CHARS_MAX).collect()
    };
    ClientFacts {
        implementation: args
            .implementation_id
            .first()
            .map_or_else(String::new, |id| shown(&id.name)),
        owner: shown(&args.client_owner.owner_id),
        peer: run.call.conn.link.facts.peer.to_string(),
    }
}

/// RFC 8881 8.4.2.1: a client with a session may have state to reclaim after a restart. So its
/// record is stored before it learns of the session.
pub(crate) async fn create_session(
    run: &CompoundRun<'_>,
    args: &CreateSessionArgs<'_>,
) -> Result<CreateSessionResult, NfsStatus> {
    let client = run.server().find_client(args.client_id)?;
    let result = try_create_session(run, &client, args);
    audit::session_setup(
        run.server().files.meter(),
        &run.call.origin(),
        run.minor_version,
        result.as_ref().map(|r| &r.session_id).map_err(|status| *status),
    );
    let result = result?;
    if !client.has_record.load(Ordering::Acquire) {
        let record = client.record().encode();
        let has_record = run.server().host.remember_client(&record, true).await;
        client.has_record.store(has_record, Ordering::Release);
        if !has_record {
            // The client may proceed, so that a writable share stays usable.
            tracing::warn!(
                target: "nfs::condition",
                peer = %run.call.conn.link.facts.peer,
                owner = %client.facts().owner,
                "cannot store the record of an NFS client, so it would lose its opens and locks at a server restart; retrying every second: make the folder `state` writable, or free space on its disk"
            );
        }
    }
    Ok(result)
}

fn try_create_session(
    run: &CompoundRun<'_>,
    client: &Arc<ClientIncarnation>,
    args: &CreateSessionArgs<'_>,
) -> Result<CreateSessionResult, NfsStatus> {
    check_principal(run, client)?;
    let mut slot = client.create_session.lock();
    if let CreateSessionStart::Replay(result) = slot.begin(args.sequence_id)? {
        return Ok(*result);
    }
    let result = begin_session(run, client, args);
    match &result {
        Ok(result) => slot.finish(args.sequence_id, result.clone()),
        // A client retries DELAY with the same sequence id; the slot of a client that is gone does
        // not matter.
        Err(NfsStatus::DELAY | NfsStatus::STALE_CLIENTID) => {}
        Err(_) => slot.refuse(args.sequence_id),
    }
    result
}

/// Checks that the caller may create a session of the client, or end the client. A client id is no
/// secret: LOCK and LOCKT report it in conflicts (RFC 8881 18.10.4). A session id is one, so that a
/// connection bound to a session belongs to the client.
///
/// # Errors
/// CLID_INUSE for an unconfirmed client of another principal (RFC 8881 18.36.4), WRONG_CRED for a
/// confirmed one.
fn check_principal(
    run: &CompoundRun<'_>,
    client: &Arc<ClientIncarnation>,
) -> Result<(), NfsStatus> {
    if client.principal == run.call.principal() || run.call.conn.is_of(client) {
        return Ok(());
    }
    let is_confirmed = client.is_confirmed();
    Err(if is_confirmed { NfsStatus::WRONG_CRED } else { NfsStatus::CLID_INUSE })
}

fn begin_session(
    run: &CompoundRun<'_>,
    client: &Arc<ClientIncarnation>,
    args: &CreateSessionArgs<'_>,
) -> Result<CreateSessionResult, NfsStatus> {
    let server = run.server();
    let session = new_session(run, client, args)?;
    // The client is live, so that only others make room for its session.
    client.renew(server.host.now().instant);
    let takes_callbacks = args.flags.0 & CreateSessionFlags::CONN_BACK_CHAN.0 != 0;
    let granted = if takes_callbacks { CreateSessionFlags::CONN_BACK_CHAN.0 } else { 0 };
    server.add_session(session.clone())?;
    if !client.is_confirmed() {
        server.confirm(client);
    }
    run.call.conn.set_identified();
    run.call.conn.bind(&session);
    if takes_callbacks {
        session.back.bind(&run.call.conn.link);
        session.probe(server);
    }
    Ok(CreateSessionResult {
        session_id: session.id,
        sequence_id: args.sequence_id,
        flags: CreateSessionFlags(granted),
        fore_channel: session.fore.clone(),
        back_channel: session.back.attributes.clone(),
    })
}

/// Creates a session that is not in the table yet.
fn new_session(
    run: &CompoundRun<'_>,
    client: &Arc<ClientIncarnation>,
    args: &CreateSessionArgs<'_>,
) -> Result<Arc<NfsSession>, NfsStatus> {
    if args.flags.0 & !SESSION_FLAGS != 0 {
        return Err(NfsStatus::INVAL);
    }
    let mut fore = agree_fore(&args.fore_channel)?;
    let back = agree_back(&args.back_channel)?;
    let shares = run.server().charge_session(client, fore.requests_max)?;
    fore.requests_max = 1 + shares.slots.amount() as u32;
    let callback_target = CallbackTarget::of(args.callback_program, &args.callback_security);
    let id = run.server().new_session_id();
    Ok(Arc::new(NfsSession::new(
        id,
        client.clone(),
        fore,
        Backchannel::new(back, run.minor_version, callback_target),
        shares,
    )))
}

pub(crate) fn bind_connection(
    run: &CompoundRun<'_>,
    args: &BindConnToSessionArgs,
) -> Result<BindConnToSessionResult, NfsStatus> {
    let session = run.server().find_session(args.session_id)?;
    session.client.renew(run.server().host.now().instant);
    let conn = &run.call.conn;
    conn.set_identified();
    conn.bind(&session);
    let direction = match args.direction {
        ChannelFromClient::Fore => ChannelFromServer::Fore,
        ChannelFromClient::Back => ChannelFromServer::Back,
        ChannelFromClient::ForeOrBoth | ChannelFromClient::BackOrBoth => ChannelFromServer::Both,
    };
    if direction != ChannelFromServer::Fore {
        session.back.bind(&conn.link);
        session.probe(run.server());
    }
    let session_id = args.session_id;
    Ok(BindConnToSessionResult { session_id, direction, use_rdma: false })
}

pub(crate) fn backchannel_ctl(
    run: &CompoundRun<'_>,
    args: &BackchannelCtlArgs<'_>,
) -> Result<(), NfsStatus> {
    let session = run.session.as_ref().ok_or(NfsStatus::OP_NOT_IN_SESSION)?;
    let callback_target = CallbackTarget::of(args.callback_program, &args.callback_security);
    session.back.set_callback_target(callback_target.ok_or(NfsStatus::NOENT)?);
    session.probe(run.server());
    Ok(())
}

/// RFC 8881 18.37: within the destroyed session it must be the last operation.
pub(crate) fn destroy_session(
    run: &CompoundRun<'_>,
    args: &DestroySessionArgs,
    is_last: bool,
) -> Result<(), NfsStatus> {
    let own = run.session.as_ref().is_some_and(|session| session.id == args.session_id);
    if own && !is_last {
        return Err(NfsStatus::NOT_ONLY_OP);
    }
    let session = run.server().find_session(args.session_id)?;
    if run.call.conn.session(session.id).is_none() {
        return Err(NfsStatus::CONN_NOT_BOUND_TO_SESSION);
    }
    // Requests in flight must be answered first.
    if session.busy_count() > usize::from(own) {
        return Err(NfsStatus::DELAY);
    }
    run.server().remove_session(&session);
    Ok(())
}

pub(crate) fn destroy_client(
    run: &CompoundRun<'_>,
    args: &DestroyClientIdArgs,
) -> Result<(), NfsStatus> {
    let client = run.server().find_client(args.client_id)?;
    check_principal(run, &client)?;
    if !client.sessions().is_empty() || client.holds_state() || client.copies.is_busy() {
        return Err(NfsStatus::CLIENTID_BUSY);
    }
    run.server().remove_client(&client);
    Ok(())
}

pub(crate) fn reclaim_complete(
    run: &mut CompoundRun<'_>,
    args: &ReclaimCompleteArgs,
) -> Result<(), NfsStatus> {
    let client = run.client()?;
    if args.one_fs {
        // No file system migrates to this server.
        return run.place().map(|_| ());
    }
    if client.has_reclaimed.swap(true, Ordering::AcqRel) {
        return Err(NfsStatus::COMPLETE_ALREADY);
    }
    run.server().complete_reclaim(&client);
    Ok(())
}
