//! CREATE. MS-SMB2 3.3.5.9.
//!
//! All branching is here; the stages are straight: plan (decode the request), `files.open`
//! (resolve, authorize, acquire, apply), respond.

mod application;
mod first_create;
mod plan;
mod reconnect;
mod replay;
mod respond;
mod symlink;

use crate::conversion::status::status_of;
use crate::extensions::apple;
use crate::extensions::quota;
use crate::observe::failure_report::report_share_gone;
use crate::opens::create_guids::CreateGuidClaim;
use crate::opens::durability::{Durability, DurableKind};
use crate::opens::lease::Lease;
use crate::opens::open::{Open, OpenParts, OpenTarget, Origin, Persistence};
use crate::opens::open_quotas::OpenQuotas;
use crate::opens::oplock::{Oplock, OplockClient};
use crate::opens::pipe::OpenPipe;
use crate::opens::stable;
use crate::persistent::NewRecord;
use crate::request::context::{AsyncReply, HandlerOutcome, Request, ResponseParts, malformed};
use crate::server::SmbServer;
use crate::session::state::SmbSession;
use crate::shares::holdings::Charges;
use crate::shares::tree::TreeConnect;
use files::{
    CacheGrant, CacheWish, CachingRights, OpenAction, OpenPlan, OpenProgress, OpenResult,
    RequestFiles, Volume, WaitingOpen,
};
use first_create::{CreateProgress, FirstCreate};
use limits::ResourceCharge;
use plan::{ContextPolicy, CreatePlan, Resumption};
use std::sync::Arc;
use vfs::FsError;
use wire::codec::Writer;
use wire::ntstatus::NtStatus;
use wire::rpc::{Pipe, RpcFacts, RpcInterface, SidNames, machine_sid};
use wire::smb::{CreateRequest, CreateResponse, FileId, Header, LeaseContext as LeaseRequest};

/// Opens or creates a file, a directory or a pipe.
pub async fn create(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let result = open_target(request).await;
    if let Err(status) = result {
        // The following requests of the chain fail like their CREATE.
        request.related.failed = Some(status);
        request.related.open = None;
    }
    result
}

async fn open_target(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body = CreateRequest::decode(&mut request.body()?).map_err(malformed)?;
    let tree = request.tree()?;
    let tree = request.admit_create(tree).await?;
    if tree.share.is_ipc() {
        return open_pipe(request, &tree, &body);
    }
    if quota::is_quota_file(&tree, body.name) {
        return open_quotas(request, &tree, &body);
    }
    let policy = ContextPolicy::on(request, &tree);
    let claim = match plan::resumption(&body, policy)? {
        Some(Resumption::Reconnect(wish, requested)) => {
            return reconnect::reconnect(request, &tree, &requested, &wish, body.name).await;
        }
        Some(Resumption::Replayable(guid, requested)) => {
            match replay::look_up_create_guid(request, &tree, &body, guid, requested).await? {
                replay::ReplayLookup::First(claim) => Some(claim),
                replay::ReplayLookup::Replayed(outcome) => return Ok(outcome),
            }
        }
        None => None,
    };
    let mut volume = tree.volume()?.clone();
    let mut plan = CreatePlan::of(&body, request.header, policy)?;
    if let Some(at) = plan.as_of {
        volume = request.files.snapshot(&volume, at).await.map_err(status_of)?;
    }
    settle_path(request, &tree, &volume, &mut plan).await?;
    let mut creating = PendingCreate::new(request, tree, plan, claim)?;
    let user = creating.session.user();
    let caller = creating.tree.caller(&user).clone();
    if let Some(instance) = creating.plan.requested.app_instance {
        application::close_others(request, &creating.tree, &caller, instance, body.name).await?;
    }
    let plan = creating.take_plan();
    let (creating, begun) = if creating.claim.is_some() {
        match FirstCreate::new(creating, volume.clone(), caller.clone(), plan).await {
            CreateProgress::Complete(answer) => return complete_encoded(request, answer?),
            CreateProgress::Waits(creating, waiting) => {
                let rest = Box::pin(creating.finish_waiting(*waiting));
                // Another channel can ask for it by its CreateGuid.
                return Ok(HandlerOutcome::WaitOnSession(rest));
            }
            CreateProgress::Refused(creating, error) => (creating, Err(error)),
        }
    } else {
        let begun = request.files.begin_open(&volume, &caller, plan).await;
        (creating, begun)
    };
    match begun {
        Ok(OpenProgress::Opened(opened)) => {
            let (reply, open) = creating.finish(opened, &mut request.w).await?;
            request.related.failed = None;
            request.related.open = Some(open);
            Ok(HandlerOutcome::Done(reply))
        }
        // Another client must acknowledge a break first.
        Ok(OpenProgress::Waiting(waiting)) => {
            Ok(HandlerOutcome::Wait(Box::pin(creating.finish_waiting(waiting))))
        }
        Err(FsError::IsSymlink) => {
            symlink::respond_at_final_link(request, &volume, &caller, creating.plan.open).await
        }
        Err(FsError::SymlinkMet) => {
            symlink::respond_at_path_link(request, &volume, &caller, creating.plan.open.path).await
        }
        Err(error) => Err(refusal(request, &creating, &volume, error)),
    }
}

/// Chooses between the two readings of a path with private-use characters.
async fn settle_path(
    request: &Request<'_>,
    tree: &TreeConnect,
    volume: &Arc<Volume>,
    plan: &mut CreatePlan,
) -> Result<(), NtStatus> {
    let Some(path) = plan.ambiguous.take() else { return Ok(()) };
    let caller = tree.caller(&request.session()?.user()).clone();
    let case = plan.open.semantics.case(volume);
    let chosen = request.files.resolve_private_use(volume, &caller, case, *path).await;
    plan.open.path = chosen.map_err(status_of)?;
    Ok(())
}

/// Completes a CREATE whose response body was encoded separately.
fn complete_encoded(
    request: &mut Request<'_>,
    answer: AsyncReply,
) -> Result<HandlerOutcome, NtStatus> {
    request.w.bytes(&answer.body);
    request.related.failed = None;
    request.related.open = answer.open;
    Ok(HandlerOutcome::Done(answer.reply))
}

/// The status of a failed CREATE. If the share's directory is gone, the administrator is notified.
fn refusal(
    request: &Request<'_>,
    creating: &PendingCreate,
    volume: &Volume,
    error: FsError,
) -> NtStatus {
    let is_missing = error == FsError::NotFound && creating.plan.creates;
    let is_file = error == FsError::NotDirectory;
    if creating.plan.names_directory && (is_missing || is_file) {
        // MS-FSA 2.1.5.1: only the name of a directory may end in a separator.
        return NtStatus::OBJECT_NAME_INVALID;
    }
    if (is_missing || creating.plan.open.path.is_root()) && volume.is_gone() {
        let (host, facts) = (&*request.server.host, request.shared.facts);
        let message = request.header.message_id;
        let user = creating.session.user();
        report_share_gone(host, facts, message, &user.account.name, &creating.tree.share.name);
        return NtStatus::NETWORK_NAME_DELETED;
    }
    status_of(error)
}

/// A CREATE of a file in progress, with all state for its completion. It is boxed because it is
/// large.
struct PendingCreate {
    server: Arc<SmbServer>,
    files: RequestFiles,
    session: Arc<SmbSession>,
    tree: Arc<TreeConnect>,
    id: FileId,
    plan: CreatePlan,
    cache: Option<RequestedCache>,
    claim: Option<CreateGuidClaim<Open>>,
    client_guid: [u8; 16],
    channel_sequence: u16,
    /// Opens on the tree may be persistent.
    may_persist: bool,
    charges: Charges,
    /// The charge for a persistent open.
    persistent_charge: Option<ResourceCharge>,
}

/// The requested caching, if any.
enum RequestedCache {
    Oplock(Arc<Oplock>),
    Lease(Arc<Lease>, LeaseRequest),
}

impl PendingCreate {
    fn new(
        request: &Request<'_>,
        tree: Arc<TreeConnect>,
        plan: CreatePlan,
        claim: Option<CreateGuidClaim<Open>>,
    ) -> Result<Box<Self>, NtStatus> {
        let session = request.session()?.clone();
        let charges = charge(&session)?;
        let id = request.server.new_file_id();
        let may_persist = request.may_persist(&tree.share);
        let cache = match plan.requested.lease {
            Some(requested) => {
                let seal = tree.share.encryption_required;
                let user = session.user().account.name.clone();
                let router = Arc::<SmbServer>::downgrade(request.server);
                Some(RequestedCache::Lease(
                    Lease::new(router, &requested, (session.client_guid, user), seal),
                    requested,
                ))
            }
            None if plan.oplock == CachingRights::NONE => None,
            None => {
                let client = client_of(request, &session, &tree, id);
                let router = Arc::<SmbServer>::downgrade(request.server);
                Some(RequestedCache::Oplock(Oplock::new(router, client)))
            }
        };
        Ok(Box::new(Self {
            server: request.server.clone(),
            files: request.files.clone(),
            session,
            tree,
            id,
            plan,
            cache,
            claim,
            may_persist,
            charges,
            persistent_charge: None,
            client_guid: request.negotiated.client_guid,
            channel_sequence: request.header.channel_sequence(),
        }))
    }

    /// The request to the file layer.
    fn take_plan(&mut self) -> OpenPlan {
        let caching = self.cache.as_ref().map(|cache| match cache {
            RequestedCache::Oplock(oplock) => {
                CacheWish { wanted: self.plan.oplock, key: None, holder: oplock.clone() }
            }
            RequestedCache::Lease(lease, requested) => {
                lease.wish(requested, self.plan.requested.leases_directory)
            }
        });
        OpenPlan { caching, ..self.plan.open.clone() }
    }

    /// Waits for the other client, then continues like [`PendingCreate::finish`].
    async fn finish_waiting(self: Box<Self>, waiting: WaitingOpen) -> Result<AsyncReply, NtStatus> {
        let opened = waiting.opened().await.map_err(status_of)?;
        self.finish_apart(opened).await
    }

    /// Like [`PendingCreate::finish`], with a separate response body.
    async fn finish_apart(self: Box<Self>, opened: OpenResult) -> Result<AsyncReply, NtStatus> {
        // Offsets in the response count from its header.
        let mut body = vec![0; Header::LENGTH];
        let mut w = Writer::with_origin(&mut body, 0);
        let (reply, open) = self.finish(opened, &mut w).await?;
        Ok(AsyncReply { reply, body: body.split_off(Header::LENGTH), open: Some(open) })
    }

    /// Adds the open to the session and writes the response.
    async fn finish(
        mut self: Box<Self>,
        mut opened: OpenResult,
        w: &mut Writer<'_>,
    ) -> Result<(ResponseParts, Arc<Open>), NtStatus> {
        if !self.plan.creates && apple::is_hidden_empty_stream(&self.tree, &opened) {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        let claim = self.claim.take();
        let granted = opened.granting.take();
        let open = Arc::new(self.new_open(&opened, granted.as_ref()));
        let by = (open.writes_through(), opened.action);
        stable::after_create(&self.files, &opened.open, by).await?;
        let keeping = match open.origin.persistence {
            Some(_) => Some(self.server.record_new(&open).await?),
            None => None,
        };
        let entered = self.session.add_open(open.clone());
        let is_lost = entered.is_err() && claim.is_some() && self.session.is_lost();
        if entered.is_ok() || is_lost {
            keeping.into_iter().for_each(NewRecord::commit);
            claim.into_iter().for_each(|claim| open.set_claim(claim));
        }
        if is_lost {
            // The client may reconnect, and replay the CREATE.
            self.server.detach_all(vec![open.clone()]);
        }
        open.allow_replay();
        entered?;
        respond::respond(w, &self.files, &self.plan.requested, &open, &opened);
        Ok((ResponseParts { granted, ..ResponseParts::default() }, open))
    }

    fn new_open(&mut self, opened: &OpenResult, granted: Option<&CacheGrant>) -> Open {
        let (oplock, lease) = match self.cache.take() {
            Some(RequestedCache::Oplock(oplock)) => (granted.is_some().then_some(oplock), None),
            // The lease of an earlier open under the same key, if there is one.
            Some(RequestedCache::Lease(..)) => {
                (None, granted.and_then(CacheGrant::holder::<Lease>))
            }
            None => (None, None),
        };
        lease.iter().for_each(|lease| lease.add_user(&self.session.user().account.name));
        let durability = self.granted_durability(opened);
        let persists = durability.is_some_and(|d| d.kind == DurableKind::Persistent);
        let persistent = self.persistent_charge.take();
        Open::new(OpenParts {
            id: self.id,
            tree: self.tree.clone(),
            target: OpenTarget::File(opened.open.clone()),
            is_of_stable_share: self.tree.share.is_stable(),
            mode: self.plan.mode,
            origin: Arc::new(Origin {
                action: opened.action,
                owner: self.session.user().account.name.clone(),
                client_guid: self.client_guid,
                create_guid: self.plan.requested.durable.and_then(|wish| wish.create_guid),
                membership: self.plan.requested.app_instance.map(|instance| {
                    let id = self.id.persistent;
                    self.server.app_instances.enter(instance, id, self.client_guid)
                }),
                persistence: persists.then(|| {
                    let identity = opened.open.identity(opened.attributes.born);
                    let bytes = self.server.holdings.persistent_bytes.account(&self.session.holder);
                    Box::new(Persistence::new(identity, persistent, bytes.force(0)))
                }),
                charges: std::mem::take(&mut self.charges),
            }),
            oplock,
            lease,
            durability,
            channel_sequence: self.channel_sequence,
        })
    }

    /// The granted durability: a persistent open in any case, another one if its caching allows it.
    ///
    /// A directory is opened persistently, as Samba's tests demand, and never merely durably
    /// (MS-SMB2 3.3.5.9.6, 3.3.5.9.10). None also if the user has too many durable opens: a client
    /// does not rely on what it was not granted.
    fn granted_durability(&mut self, opened: &OpenResult) -> Option<Durability> {
        let wish = self.plan.requested.durable?;
        let persists = wish.persistent && self.may_persist && self.plan.open.stream.is_none();
        let keeps_handle = opened.caching.has.contains(CachingRights::HANDLE);
        if !persists && (!keeps_handle || opened.open.is_directory()) {
            return None;
        }
        let (holdings, holder) = (&self.server.holdings, &self.session.holder);
        let durable = holdings.durable.take(holder).ok()?;
        let durability = if persists {
            self.persistent_charge = Some(holdings.persistent.take(holder).ok()?);
            Durability { kind: DurableKind::Persistent, ..wish.durability }
        } else {
            wish.durability
        };
        self.charges.durable = durable.into();
        Some(durability)
    }
}

/// The charges for a new open.
///
/// # Errors
/// `TOO_MANY_OPENED_FILES` at the user's limit, or at the server's.
fn charge(session: &SmbSession) -> Result<Charges, NtStatus> {
    let open = session.open_account.take(1).map_err(|_| NtStatus::TOO_MANY_OPENED_FILES)?;
    Ok(Charges { open: Some(open), ..Charges::default() })
}

/// The destination of break notifications for an open on `tree`.
fn client_of(
    request: &Request<'_>,
    session: &Arc<SmbSession>,
    tree: &TreeConnect,
    file_id: FileId,
) -> OplockClient {
    let seal = session.encrypt_data || tree.share.encryption_required;
    let connection = request.shared.facts.id;
    let session = Arc::<SmbSession>::downgrade(session);
    OplockClient { connection, session: Some(session), file_id, seal }
}

/// Opens a pipe of IPC$: the RPC interfaces by which clients enumerate shares.
fn open_pipe(
    request: &mut Request<'_>,
    tree: &Arc<TreeConnect>,
    body: &CreateRequest<'_>,
) -> Result<HandlerOutcome, NtStatus> {
    let units = wire::codec::utf16_units(body.name, "pipe name").map_err(malformed)?;
    let name = String::from_utf16_lossy(&units);
    let name = name.trim_start_matches('\\');
    let name = name.strip_prefix("PIPE\\").or(name.strip_prefix("pipe\\")).unwrap_or(name);
    if name.is_empty() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let interface = RpcInterface::of_pipe(name).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let session = request.session()?;
    let pipe = Pipe::new(interface, rpc_facts(request, session, interface));
    let account = request.server.holdings.pipe_bytes.account(&session.holder);
    let pipe = OpenPipe::new(pipe, &account)?;
    let response = CreateResponse {
        allocation_bytes: 4096,
        attributes: wire::fscc::FILE_ATTRIBUTE_NORMAL,
        ..CreateResponse::default()
    };
    enter(request, tree, OpenTarget::Pipe(Box::new(pipe)), response)
}

/// Opens the quota file. MS-SMB2 3.3.5.20.4, MS-FSCC 2.1.5.
fn open_quotas(
    request: &mut Request<'_>,
    tree: &Arc<TreeConnect>,
    body: &CreateRequest<'_>,
) -> Result<HandlerOutcome, NtStatus> {
    if !matches!(body.disposition, wire::fscc::FILE_OPEN | wire::fscc::FILE_OPEN_IF) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let quotas = OpenQuotas::new(tree.volume()?.clone());
    let attributes = wire::fscc::FILE_ATTRIBUTE_HIDDEN
        | wire::fscc::FILE_ATTRIBUTE_SYSTEM
        | wire::fscc::FILE_ATTRIBUTE_DIRECTORY
        | wire::fscc::FILE_ATTRIBUTE_ARCHIVE;
    let response = CreateResponse { attributes, ..CreateResponse::default() };
    enter(request, tree, OpenTarget::Quotas(Box::new(quotas)), response)
}

/// Adds an open without a file, and writes the response.
fn enter(
    request: &mut Request<'_>,
    tree: &Arc<TreeConnect>,
    target: OpenTarget,
    response: CreateResponse,
) -> Result<HandlerOutcome, NtStatus> {
    let session = request.session()?;
    let open = Arc::new(Open::new(OpenParts {
        id: request.server.new_file_id(),
        tree: tree.clone(),
        target,
        is_of_stable_share: tree.share.is_stable(),
        mode: 0,
        origin: Arc::new(Origin {
            action: OpenAction::Opened,
            owner: session.user().account.name.clone(),
            client_guid: request.negotiated.client_guid,
            create_guid: None,
            membership: None,
            persistence: None,
            charges: charge(session)?,
        }),
        oplock: None,
        lease: None,
        durability: None,
        channel_sequence: request.header.channel_sequence(),
    }));
    session.add_open(open.clone())?;
    let response = CreateResponse { action: respond::FILE_OPENED, file_id: open.id, ..response };
    response.encode(&mut request.w, &[]);
    request.related.failed = None;
    request.related.open = Some(open);
    Ok(HandlerOutcome::success())
}

/// The facts about this server that the request's user may query.
fn rpc_facts(request: &Request<'_>, session: &SmbSession, interface: RpcInterface) -> RpcFacts {
    let config = request.server.config();
    let (user, peer) = (session.user(), request.shared.facts.peer.ip());
    let shares = config.shares.iter().chain([request.server.ipc()]);
    // Read only for the interface that resolves names.
    let unix = (interface == RpcInterface::Lsarpc).then(|| request.server.host.unix_names());
    let names = SidNames {
        machine: config.name.clone(),
        machine_sid: machine_sid(&config.server_guid),
        workgroup: config.domain.clone(),
        unix: unix.unwrap_or_default(),
    };
    RpcFacts {
        user: user.account.name.clone(),
        names: Arc::new(names),
        server_name: config.name.clone(),
        domain: config.domain.clone(),
        comment: String::new(),
        shares: shares.filter_map(|share| share.fact_for(&user, peer)).collect(),
        is_administrator: user.is_proven() && user.account.caller.is_root(),
        now_unix_ms: 0,
    }
}
