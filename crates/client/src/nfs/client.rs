//! A client of one server: its client id, one session, and the connections of the session.

use super::callbacks::{Callbacks, PROGRAM};
use super::connection::{CallFailure, Connection, RecordReply};
use super::connections::SessionConnections;
use super::delegation::Recall;
use super::slots::{SessionSlots, SlotLease};
use crate::error::Error;
use crate::limits::{NFS_PATIENCE, REPLAYS_MAX};
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use wire::nfs::compound::NoResult;
use wire::nfs::numbers::{NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND};
use wire::nfs::ops::{
    CallbackSecurity, ChannelAttributes, ClientOwner, CreateSessionArgs, CreateSessionFlags,
    CreateSessionResult, DestroyClientIdArgs, DestroySessionArgs, ExchangeIdArgs, ExchangeIdFlags,
    ExchangeIdResult, NfsCreateHow, NfsOpenHow, OpenArgs, ReclaimCompleteArgs, SequenceArgs,
    SequenceResult, StateProtectArgs,
};
use wire::nfs::rpc::{
    AcceptStatus, AuthFlavor, AuthSys, Groups, OpaqueAuth, ReplyBody, RpcCall, RpcMessage,
};
use wire::nfs::xdr::{List, Opaque, XdrReader, XdrWriter};
use wire::nfs::{
    ClientId, CompoundRequest, CompoundResults, NfsSessionId, NfsStatus, Operation,
    OperationNumber, Verifier,
};

/// Maximum number of connections per session.
pub const CONNECTIONS_MAX: usize = 64;

/// Number of slots requested; servers grant fewer.
pub const SLOTS_MAX: u32 = 1024;

/// Requested maximum length of a request and reply: 1 MiB of data with its headers.
const MESSAGE_BYTES: u32 = (1 << 20) + (4 << 10);

/// Difference between the maximum message length and the maximum READ or WRITE.
const OVERHEAD_BYTES: u32 = 1024;

/// How long the client retries a request that the server delays.
const PATIENCE: Duration = Duration::from_secs(60);
const ASK_AGAIN_EVERY: Duration = Duration::from_millis(100);

/// The server and the user.
#[derive(Clone, Debug)]
pub struct NfsTarget {
    /// Name for display.
    pub name: String,
    /// Server address.
    pub address: SocketAddr,
    /// The user.
    pub uid: u32,
    /// The user's gid.
    pub gid: u32,
    /// Random bytes that identify this client instance.
    pub instance: [u8; 8],
}

/// Options of a session.
#[derive(Clone, Debug)]
pub struct NfsOptions {
    /// The program's name, which servers list their clients by.
    pub program: String,
    /// Minor version: 1 or 2.
    pub minor_version: u32,
    /// Number of connections.
    pub connections: usize,
    /// Number of slots to request.
    pub slots: u32,
    /// Accepts callbacks on the first connection, without which the server grants no delegations.
    pub callbacks: bool,
    /// Timeout of a silent connection with an outstanding reply, after which it counts as lost.
    pub patience: Duration,
}

impl Default for NfsOptions {
    fn default() -> Self {
        let (minor_version, connections, slots, callbacks) = (1, 1, 256, false);
        let program = "anabranch".into();
        Self { program, minor_version, connections, slots, callbacks, patience: NFS_PATIENCE }
    }
}

/// A client with its session. Clones share it.
#[derive(Clone, Debug)]
pub struct NfsClient {
    inner: Arc<NfsClientState>,
}

#[derive(Debug)]
struct NfsClientState {
    caller: RpcCaller,
    connections: Arc<SessionConnections>,
    slots: Arc<SessionSlots>,
    client_id: ClientId,
    session_id: NfsSessionId,
    fore_channel: ChannelAttributes,
    recalled: tokio::sync::Mutex<mpsc::Receiver<Recall>>,
}

/// Program, version, and the next transaction id.
#[derive(Debug)]
struct RpcCaller {
    target: NfsTarget,
    program: String,
    minor_version: u32,
    next_xid: AtomicU32,
}

/// Meaning of a reply for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyMeaning {
    /// The results are in the reply.
    Results,
    /// The request was executed, but its results are not cached.
    Uncached,
    /// SEQUENCE was refused, so the slot's sequence id is unused.
    SequenceRefused(NfsStatus),
}

/// True if repeating the operations gives the same outcome. For others the server must cache the
/// reply. The rule relies on this client's compounds: an open is closed in the same compound or not
/// at all, and only new files are renamed.
fn may_repeat(operations: &[Operation<'_>]) -> bool {
    let is_guarded = |open: &OpenArgs<'_>| {
        matches!(
            open.how,
            NfsOpenHow::Create(NfsCreateHow::Guarded(_) | NfsCreateHow::Exclusive(_))
        )
    };
    let opens = operations.iter().find_map(|operation| match operation {
        Operation::Open(open) => Some(!is_guarded(open)),
        _ => None,
    });
    opens.unwrap_or_else(|| {
        operations.iter().all(|operation| {
            matches!(
                operation.number(),
                OperationNumber::PUTFH
                    | OperationNumber::PUTROOTFH
                    | OperationNumber::SAVEFH
                    | OperationNumber::RESTOREFH
                    | OperationNumber::GETFH
                    | OperationNumber::GETATTR
                    | OperationNumber::SETATTR
                    | OperationNumber::LOOKUP
                    | OperationNumber::READ
                    | OperationNumber::WRITE
                    | OperationNumber::COMMIT
                    | OperationNumber::READDIR
                    | OperationNumber::SEEK
                    | OperationNumber::COPY
                    | OperationNumber::CLONE
                    | OperationNumber::VERIFY
            )
        })
    })
}

/// A reply with a valid SEQUENCE result.
#[derive(Debug)]
pub struct SequencedReply {
    record: Bytes,
}

impl NfsClient {
    /// Creates a session, and opens its connections.
    ///
    /// # Errors
    /// The server's refusal, or why it is unreachable.
    pub async fn connect(target: NfsTarget, options: NfsOptions) -> Result<Self, Error> {
        if options.connections == 0 || options.connections > CONNECTIONS_MAX {
            return Err(Error::Misuse("a session has 1 to 64 connections"));
        }
        let (callbacks, recalled) = Callbacks::new();
        let callbacks = Arc::new(callbacks);
        let service = options.callbacks.then(|| callbacks.clone());
        let mut connections =
            SessionConnections::open((target.address, options.patience), service).await?;
        let first = connections.all().remove(0);
        let minor_version = options.minor_version;
        let (program, next_xid) = (options.program, AtomicU32::new(1));
        let caller = RpcCaller { target, program, minor_version, next_xid };
        let (client_id, sequence_id) = caller.exchange_id(&first).await?;
        let slots = options.slots.clamp(1, SLOTS_MAX);
        let back = if options.callbacks {
            CreateSessionFlags::CONN_BACK_CHAN
        } else {
            CreateSessionFlags(0)
        };
        let of_client = (client_id, sequence_id);
        let session = caller.create_session(&first, of_client, slots, back).await?;
        callbacks.set_session(session.session_id);
        connections.open_more(options.connections).await?;
        let count = session.fore_channel.requests_max.clamp(1, slots);
        let inner = NfsClientState {
            caller,
            connections: Arc::new(connections),
            slots: Arc::new(SessionSlots::new(count)),
            client_id,
            session_id: session.session_id,
            fore_channel: session.fore_channel,
            recalled: tokio::sync::Mutex::new(recalled),
        };
        let client = Self { inner: Arc::new(inner) };
        client.reclaim_complete().await?;
        Ok(client)
    }

    async fn reclaim_complete(&self) -> Result<(), Error> {
        let complete = Operation::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        let answer = self.compound(&[complete]).await?;
        answer
            .results()?
            .succeed(OperationNumber::RECLAIM_COMPLETE)
            .map_err(refused(OperationNumber::RECLAIM_COMPLETE))
    }

    /// Sends these operations behind a SEQUENCE. Retries for a while if the server delays them.
    ///
    /// # Errors
    /// The connection was lost, or the reply is invalid. The operations' status is in the
    /// reply.
    pub async fn compound(&self, operations: &[Operation<'_>]) -> Result<SequencedReply, Error> {
        let begun = tokio::time::Instant::now();
        loop {
            let answer = self.call(operations).await?;
            let is_not_ready =
                matches!(answer.results()?.status, NfsStatus::DELAY | NfsStatus::GRACE);
            if !is_not_ready || begun.elapsed() > PATIENCE {
                return Ok(answer);
            }
            tokio::time::sleep(ASK_AGAIN_EVERY).await;
        }
    }

    /// Sends one request. If the connection is lost, the same request is sent on another one in the
    /// same slot; the server detects the replay by its sequence id. RFC 8881 2.10.6.2.
    async fn call(&self, operations: &[Operation<'_>]) -> Result<SequencedReply, Error> {
        let inner = &*self.inner;
        let may_repeat = may_repeat(operations);
        let mut lease = inner.slots.take().await;
        let (mut losses, begun) = (0, tokio::time::Instant::now());
        loop {
            let connection = inner.connections.take().await?;
            let unanswered = match inner.send(&connection, operations, lease, !may_repeat).await {
                Ok(RecordReply { record, lease: back }) => {
                    let answer = SequencedReply { record };
                    let Some(mut back) = back else { return Ok(answer) };
                    match answer.meaning(losses > 0)? {
                        ReplyMeaning::Results => return Ok(answer),
                        ReplyMeaning::Uncached if !may_repeat => {
                            return Err(Error::lost(
                                true,
                                "the server lost the result of a \
                                                          request",
                            ));
                        }
                        ReplyMeaning::Uncached => back.count_up(),
                        ReplyMeaning::SequenceRefused(status) => {
                            back.refused();
                            // The server is still executing the first transmission.
                            if status != NfsStatus::DELAY || begun.elapsed() > PATIENCE {
                                return Err(Error::RefusedOperation(
                                    OperationNumber::SEQUENCE,
                                    status,
                                ));
                            }
                            tokio::time::sleep(ASK_AGAIN_EVERY).await;
                        }
                    }
                    lease = back;
                    continue;
                }
                Err(unanswered) => unanswered,
            };
            losses += 1;
            match unanswered {
                CallFailure { lease: Some(back), .. } if losses <= REPLAYS_MAX => lease = back,
                CallFailure { error, .. } => return Err(error),
            }
        }
    }

    /// Waits for a recall of a delegation; indefinitely without callbacks.
    pub async fn recalled(&self) -> Recall {
        match self.inner.recalled.lock().await.recv().await {
            Some(recall) => recall,
            None => std::future::pending().await,
        }
    }

    /// Maximum length of a READ and WRITE, in bytes.
    #[must_use]
    pub fn io_bytes_max(&self) -> u32 {
        let channel = &self.inner.fore_channel;
        let message = channel.request_bytes_max.min(channel.response_bytes_max);
        let most = message.min(MESSAGE_BYTES).saturating_sub(OVERHEAD_BYTES);
        // Lengths are rounded down to whole blocks; a length below one block stays.
        if most >= 4096 { most / 4096 * 4096 } else { most }
    }

    /// Number of slots of the session.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.inner.slots.highest() + 1
    }

    /// Bytes transferred per connection, in both directions.
    #[must_use]
    pub fn connection_bytes(&self) -> Vec<u64> {
        self.inner.connections.all().iter().map(|one| one.bytes()).collect()
    }

    /// Local and server address of each connection.
    #[must_use]
    pub fn connection_addresses(&self) -> Vec<(SocketAddr, SocketAddr)> {
        self.inner.connections.all().iter().map(|one| one.addresses()).collect()
    }

    /// True if both are the same session.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The server's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.caller.target.name
    }

    /// The version: 4.1 or 4.2.
    #[must_use]
    pub fn version(&self) -> String {
        format!("4.{}", self.inner.caller.minor_version)
    }

    /// The client id, for open and lock owners.
    pub(super) fn id(&self) -> ClientId {
        self.inner.client_id
    }

    /// Destroys the session and the client id, as far as possible.
    pub async fn close(self) {
        let inner = &*self.inner;
        let session_id = inner.session_id;
        let end = Operation::DestroySession(DestroySessionArgs { session_id });
        let Some(standing) = inner.connections.all().into_iter().find(|one| !one.is_lost()) else {
            return;
        };
        let _ = inner.caller.call_alone(&standing, &end).await;
        let end = Operation::DestroyClientId(DestroyClientIdArgs { client_id: inner.client_id });
        let _ = inner.caller.call_alone(&standing, &end).await;
    }
}

impl NfsClientState {
    async fn send(
        &self,
        connection: &Connection,
        operations: &[Operation<'_>],
        lease: SlotLease,
        cache_this: bool,
    ) -> Result<RecordReply, CallFailure> {
        let xid = self.caller.next_xid.fetch_add(1, Ordering::Relaxed);
        let write = |w: &mut XdrWriter<'_>, lease: Option<&SlotLease>| {
            let mut request = self.caller.begin(w, xid);
            if let Some(numbers) = lease.map(SlotLease::numbers) {
                request.push(w, &Operation::Sequence(self.sequence(numbers, cache_this)));
            }
            operations.iter().for_each(|operation| request.push(w, operation));
            request.finish(w);
        };
        connection.call(xid, Some(lease), write).await
    }

    fn sequence(&self, (slot_id, sequence_id): (u32, u32), cache_this: bool) -> SequenceArgs {
        SequenceArgs {
            session_id: self.session_id,
            sequence_id,
            slot_id,
            highest_slot_id: self.slots.highest(),
            cache_this,
        }
    }
}

impl RpcCaller {
    /// Writes the header of a compound up to its operations.
    fn begin(&self, w: &mut XdrWriter<'_>, xid: u32) -> CompoundRequest {
        let mut body = Vec::with_capacity(64);
        let user = AuthSys {
            stamp: 0,
            machine_name: Opaque(b"anabranch"),
            uid: self.target.uid,
            gid: self.target.gid,
            groups: Groups::default(),
        };
        XdrWriter::new(&mut body).put(&user);
        w.put(&RpcCall {
            xid,
            program: NFS_PROGRAM,
            version: NFS_VERSION,
            procedure: PROCEDURE_COMPOUND,
            credentials: OpaqueAuth { flavor: AuthFlavor::SYS, body: Opaque(&body) },
            verifier: OpaqueAuth::NONE,
        });
        CompoundRequest::begin(w, b"", self.minor_version)
    }

    /// Sends an operation without a session.
    async fn call_alone(
        &self,
        connection: &Connection,
        operation: &Operation<'_>,
    ) -> Result<SequencedReply, Error> {
        let xid = self.next_xid.fetch_add(1, Ordering::Relaxed);
        let write = |w: &mut XdrWriter<'_>, _: Option<&SlotLease>| {
            let mut request = self.begin(w, xid);
            request.push(w, operation);
            request.finish(w);
        };
        let answered = connection.call(xid, None, write).await;
        answered.map(|it| SequencedReply { record: it.record }).map_err(|it| it.error)
    }

    /// The client id, and the sequence id for CREATE_SESSION.
    async fn exchange_id(&self, connection: &Connection) -> Result<(ClientId, u32), Error> {
        let instance = u64::from_be_bytes(self.target.instance);
        // Administrators read it in the server's list of clients.
        let owner = format!("{} {instance:016x}", self.program);
        let operation = Operation::ExchangeId(ExchangeIdArgs {
            client_owner: ClientOwner {
                verifier: Verifier(self.target.instance),
                owner_id: Opaque(owner.as_bytes()),
            },
            flags: ExchangeIdFlags::USE_NON_PNFS,
            state_protect: StateProtectArgs::None,
            implementation_id: List::default(),
        });
        let answer = self.call_alone(connection, &operation).await?;
        let number = OperationNumber::EXCHANGE_ID;
        let result: ExchangeIdResult<'_> =
            answer.all_results()?.succeed(number).map_err(refused(number))?;
        Ok((result.client_id, result.sequence_id))
    }

    async fn create_session(
        &self,
        connection: &Connection,
        (client_id, sequence_id): (ClientId, u32),
        slots: u32,
        flags: CreateSessionFlags,
    ) -> Result<CreateSessionResult, Error> {
        let channel = |bytes, requests_max| ChannelAttributes {
            header_pad_bytes: 0,
            request_bytes_max: bytes,
            response_bytes_max: bytes,
            response_cached_bytes_max: 4096,
            operations_max: 16,
            requests_max,
            rdma_ird: List::default(),
        };
        let operation = Operation::CreateSession(CreateSessionArgs {
            client_id,
            sequence_id,
            flags,
            fore_channel: channel(MESSAGE_BYTES, slots),
            back_channel: channel(4096, 1),
            callback_program: PROGRAM,
            callback_security: List(vec![CallbackSecurity::None]),
        });
        let answer = self.call_alone(connection, &operation).await?;
        let number = OperationNumber::CREATE_SESSION;
        answer.all_results()?.succeed(number).map_err(refused(number))
    }
}

impl SequencedReply {
    /// The results behind that of SEQUENCE.
    ///
    /// # Errors
    /// SEQUENCE failed, or the reply is invalid.
    pub fn results(&self) -> Result<CompoundResults<'_>, Error> {
        let mut results = self.all_results()?;
        let number = OperationNumber::SEQUENCE;
        results.succeed::<SequenceResult>(number).map_err(refused(number))?;
        Ok(results)
    }

    /// The part of the reply that contains `data`, without a copy.
    #[must_use]
    pub fn share(&self, data: &[u8]) -> Bytes {
        self.record.slice_ref(data)
    }

    /// Classifies the reply. `again`: the request was sent before.
    fn meaning(&self, again: bool) -> Result<ReplyMeaning, Error> {
        let mut results = self.all_results()?;
        match results.succeed::<SequenceResult>(OperationNumber::SEQUENCE) {
            // RFC 8881 2.10.6.1.3: reported by the operation behind SEQUENCE, or by SEQUENCE
            // itself.
            Ok(_) if again && results.status == NfsStatus::RETRY_UNCACHED_REP => {
                Ok(ReplyMeaning::Uncached)
            }
            Ok(_) => Ok(ReplyMeaning::Results),
            Err(NoResult::Failed(NfsStatus::RETRY_UNCACHED_REP)) => Ok(ReplyMeaning::Uncached),
            Err(NoResult::Failed(status)) => Ok(ReplyMeaning::SequenceRefused(status)),
            Err(NoResult::Malformed(malformed)) => Err(malformed.into()),
        }
    }

    fn all_results(&self) -> Result<CompoundResults<'_>, Error> {
        let r = &mut XdrReader::new(&self.record);
        let Ok(RpcMessage::Reply(reply)) = RpcMessage::decode(r) else {
            return Err(Error::Hostile("not an RPC reply"));
        };
        match reply.body {
            ReplyBody::Accepted { status: AcceptStatus::Success, .. } => {
                Ok(CompoundResults::decode(r)?)
            }
            ReplyBody::AuthError(_) => Err(Error::Incompatible(
                "the server refuses the caller's \
                credentials",
            )),
            _ => Err(Error::Incompatible("it does not support NFSv4")),
        }
    }
}

/// Converts a missing result to an error.
pub(super) fn refused(number: OperationNumber) -> impl Fn(NoResult) -> Error {
    move |no_result| match no_result {
        NoResult::Failed(status) => Error::RefusedOperation(number, status),
        NoResult::Malformed(malformed) => malformed.into(),
    }
}
