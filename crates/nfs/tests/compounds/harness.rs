//! Harness: a server in memory, and clients that exchange whole records with it.

use bytes::Bytes;
use files::{CallHolder, Caller, Files, Volume, VolumeId, VolumeOptions, Workers};
use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use nfs::limits::READDIR_ENTRIES_MAX;
use nfs::{
    CallJob, Export, ExportTerms, HostFilter, HostVerdict, NfsConfig, NfsConn, NfsConnFacts,
    NfsHost, NfsServer, Squash, TimeReading,
};
use std::collections::BTreeSet;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vfs::memory::{
    CallOutcome, MemoryCall as VfsCall, MemoryOptions, MemoryVfs, StillClock, Surroundings,
};
use vfs::{FsError, Identity, Timestamp};
use wire::nfs::attributes::{Fattr, NfsAttributes};
use wire::nfs::callback::{
    Callback, CallbackCompound, CallbackReplyEncoder, CbOffloadArgs, CbSequenceArgs,
    CbSequenceResult,
};
use wire::nfs::compound::{CompoundRequest, CompoundResults};
use wire::nfs::ops::*;
use wire::nfs::rpc::{AuthFlavor, AuthSys, Groups, OpaqueAuth, RpcCall, RpcMessage, put_success};
use wire::nfs::xdr::{List, Opaque, XdrReader, XdrWriter};
use wire::nfs::{
    Bitmap4, ClientId, FileHandle, NfsSessionId, NfsStatus, OperationNumber, StateId, StateOwner,
    Verifier,
};

pub const READ_WRITE: u32 = 3;
pub const ALL: u32 = 3;

/// Executor whose workers run inline, and whose clock moves on request.
struct InlineExecutor {
    now: Mutex<Instant>,
    sleeps: Mutex<Vec<(Instant, oneshot::Sender<()>)>>,
}

impl InlineExecutor {
    fn now(&self) -> Instant {
        *self.now.lock().unwrap()
    }

    fn pass(&self, time: Duration) {
        let now = {
            let mut now = self.now.lock().unwrap();
            *now += time;
            *now
        };
        self.sleeps.lock().unwrap().retain(|(until, _)| *until > now);
    }
}

impl Workers for InlineExecutor {
    fn run(&self, _: &CallHolder, task: Box<dyn FnOnce() + Send>) {
        task();
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let (sender, over) = oneshot::channel();
        self.sleeps.lock().unwrap().push((self.now() + time, sender));
        // The wait ends when it leaves the list.
        Box::pin(over.map(|_| ()))
    }
}

struct StillHost {
    random: AtomicU64,
    clock: Arc<InlineExecutor>,
    /// Background work.
    carried: Mutex<Vec<BoxFuture<'static, ()>>>,
    /// Client records, which survive the server.
    remembered: Mutex<BTreeSet<Vec<u8>>>,
    /// The storage of client records is full.
    is_full: AtomicBool,
}

/// A disk whose flush fails on request.
#[derive(Default)]
pub struct FlushFailureDisk {
    pub clock: StillClock,
    pub fails_to_flush: AtomicBool,
    /// Number of flushes so far.
    pub flushes: AtomicU64,
}

impl Surroundings for FlushFailureDisk {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn before(&self, call: VfsCall) -> CallOutcome {
        if call == VfsCall::Sync {
            self.flushes.fetch_add(1, Ordering::Relaxed);
        }
        match call {
            VfsCall::Sync if self.fails_to_flush.load(Ordering::Relaxed) => {
                CallOutcome::Fails(FsError::Io)
            }
            _ => CallOutcome::Runs,
        }
    }
}

impl NfsHost for StillHost {
    fn random(&self, out: &mut [u8]) {
        // Each value is unique.
        let next = self.random.fetch_add(0x0101_0001, Ordering::Relaxed).to_le_bytes();
        out.iter_mut().zip(next.iter().cycle()).for_each(|(byte, next)| *byte = *next);
    }

    fn now(&self) -> TimeReading {
        // One second after the creation of files, unless their clock was moved.
        TimeReading { instant: self.clock.now(), wall: Timestamp(1_750_000_001_000_000_000) }
    }

    fn caller(&self, identity: Identity) -> Arc<Caller> {
        Arc::new(Caller::of(identity))
    }

    fn remembered_clients(&self) -> Vec<Vec<u8>> {
        self.remembered.lock().unwrap().iter().cloned().collect()
    }

    fn remember_client(&self, owner: &[u8], is_here: bool) -> BoxFuture<'static, bool> {
        if self.is_full.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(false));
        }
        let mut remembered = self.remembered.lock().unwrap();
        match is_here {
            true => remembered.insert(owner.to_vec()),
            false => remembered.remove(owner),
        };
        Box::pin(std::future::ready(true))
    }

    fn carry_on(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.carried.lock().unwrap().push(work);
    }
}

#[derive(Debug)]
struct AnyHost;

impl HostFilter for AnyHost {
    fn verdict(&self, _: IpAddr) -> HostVerdict {
        HostVerdict::Admitted
    }
}

/// Server under test.
pub struct ServerUnderTest {
    pub server: Arc<NfsServer>,
    pub lease: Duration,
    pub disk: Arc<FlushFailureDisk>,
    host: Arc<StillHost>,
    config: NfsConfig,
}

impl ServerUnderTest {
    pub fn new() -> Self {
        let disk = Arc::new(FlushFailureDisk::default());
        let vfs = MemoryVfs::new(MemoryOptions::default(), disk.clone());
        let volume = Volume::new(Arc::new(vfs), VolumeOptions::default());
        let export = Export {
            id: VolumeId(7),
            name: b"share".to_vec(),
            volume: nfs::ExportedVolume::new(Arc::new(volume)).unwrap(),
            tls_required: false,
            reserved_ports: true,
            is_stable: true,
            counted: meter::ShareId::NONE,
            terms: ExportTerms {
                read_only: false,
                squash: Squash::Root,
                anonymous: (65_534, 65_534),
            },
            clients: Vec::new(),
            hosts: Arc::new(AnyHost),
        };
        let lease = Duration::from_secs(10);
        let exports = vec![Arc::new(export)];
        let (owner, states_max) = (b"server".to_vec(), nfs::limits::STATES_MAX);
        let tree = nfs::PseudoTree::default();
        let config = NfsConfig { exports, tree, lease, owner, offers_tls: true, states_max };
        let clock = InlineExecutor { now: Mutex::new(Instant::now()), sleeps: Mutex::default() };
        let host = StillHost {
            random: AtomicU64::new(1),
            clock: Arc::new(clock),
            carried: Mutex::default(),
            remembered: Mutex::default(),
            is_full: AtomicBool::new(false),
        };
        Self::start(config, Arc::new(host), disk)
    }

    fn start(config: NfsConfig, host: Arc<StillHost>, disk: Arc<FlushFailureDisk>) -> Self {
        let files = Arc::new(Files::new(host.clock.clone()));
        let server = NfsServer::new(config.clone(), files, host.clone());
        Self { server, lease: config.lease, host, config, disk }
    }

    /// The server after a kill: only the disk survives.
    pub fn restarted(&self) -> Self {
        Self::start(self.config.clone(), self.host.clone(), self.disk.clone())
    }

    /// Changes the configuration.
    pub fn configure(&self, change: impl FnOnce(&mut NfsConfig)) {
        let mut config = self.config.clone();
        change(&mut config);
        self.server.configure(config);
    }

    /// Makes the share require TLS.
    pub fn require_tls(&self) {
        self.configure(|config| {
            let export = Export { tls_required: true, ..(*config.exports[0]).clone() };
            config.exports = vec![Arc::new(export)];
        });
    }

    /// Sets whether the share requires a reserved source port.
    pub fn set_reserved_ports(&self, reserved_ports: bool) {
        self.configure(|config| {
            let export = Export { reserved_ports, ..(*config.exports[0]).clone() };
            config.exports = vec![Arc::new(export)];
        });
    }

    /// Number of stored client records.
    pub fn recorded_count(&self) -> usize {
        self.host.remembered.lock().unwrap().len()
    }

    /// Sets whether client records cannot be stored.
    pub fn set_full(&self, is_full: bool) {
        self.host.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Advances the clock.
    pub fn pass(&self, time: Duration) {
        self.host.clock.pass(time);
        self.server.handle_tick(self.host.now());
        self.work();
    }

    /// Runs background work as far as possible.
    pub fn work(&self) {
        for _ in 0..4 {
            let carried = std::mem::take(&mut *self.host.carried.lock().unwrap());
            for mut work in carried {
                if (&mut work).now_or_never().is_none() {
                    self.host.carried.lock().unwrap().push(work);
                }
            }
        }
    }

    /// Volume of the share, for SMB opens.
    pub fn volume(&self) -> Arc<Volume> {
        Arc::clone(&self.config.exports[0].volume)
    }

    /// A client with a backchannel and nothing to reclaim.
    pub fn callee(&self, name: &str) -> SessionClient {
        let mut client = self.returning_callee(name, 1);
        client.complete_reclaim();
        client
    }

    /// A client with a backchannel that may reclaim.
    pub fn returning_callee(&self, name: &str, life: u8) -> SessionClient {
        let mut client = self.introduced(name, life);
        client.create_session(1, CreateSessionFlags::CONN_BACK_CHAN);
        assert_eq!(client.callbacks(self), [ReceivedCallback::Null]);
        client
    }

    pub fn conn(&self) -> NfsConn {
        self.conn_from(([192, 0, 2, 7], 700).into())
    }

    /// A connection from this address.
    pub fn conn_from(&self, peer: SocketAddr) -> NfsConn {
        NfsConn::new(self.server.clone(), NfsConnFacts { id: 1, peer, local: peer })
    }

    /// A client with a session and nothing to reclaim.
    pub fn client(&self, name: &str) -> SessionClient {
        self.life(name, 1)
    }

    /// A client on another host.
    pub fn client_from(&self, name: &str, host: u8) -> SessionClient {
        let peer = SocketAddr::from(([198, 51, 100, host], 700));
        let mut client = SessionClient::new(self.conn_from(peer));
        client.introduce(name, 1);
        client.create_session(1, CreateSessionFlags(0));
        client.complete_reclaim();
        client
    }

    /// An incarnation of a client.
    pub fn life(&self, name: &str, life: u8) -> SessionClient {
        let mut client = self.returning(name, life);
        client.complete_reclaim();
        client
    }

    /// A client that may reclaim.
    pub fn returning(&self, name: &str, life: u8) -> SessionClient {
        let mut client = self.introduced(name, life);
        client.create_session(1, CreateSessionFlags(0));
        client
    }

    fn introduced(&self, name: &str, life: u8) -> SessionClient {
        let mut client = SessionClient::new(self.conn());
        client.introduce(name, life);
        client
    }
}

/// A client with one session.
pub struct SessionClient {
    pub conn: NfsConn,
    pub id: ClientId,
    pub session: NfsSessionId,
    pub sequence: u32,
    pub slot: u32,
    /// Highest slot in SEQUENCE, if it differs from the request's slot.
    pub highest: u32,
    pub cache_this: bool,
    /// User id in the requests.
    pub user: u32,
    /// Change attribute and size in its CB_GETATTR replies.
    pub kept: (u64, u64),
}

/// A callback that a client received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceivedCallback {
    Null,
    Recall(StateId),
    GetAttr,
    NotifyLock(Vec<u8>),
    /// CB_OFFLOAD.
    Offload(Box<CbOffloadArgs>),
}

fn channel() -> ChannelAttributes {
    ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: 65_536,
        response_bytes_max: 65_536,
        response_cached_bytes_max: 4096,
        operations_max: 16,
        requests_max: 4,
        rdma_ird: List::default(),
    }
}

/// Arguments of OPEN by name for one owner.
pub fn open_args(name: &[u8], access: u32, deny: u32, create: bool) -> OpenArgs<'_> {
    let how = match create {
        true => NfsOpenHow::Create(NfsCreateHow::Unchecked(Fattr::default())),
        false => NfsOpenHow::NoCreate,
    };
    OpenArgs {
        sequence_id: 0,
        share_access: ShareAccess(access),
        share_deny: ShareDeny(deny),
        owner: StateOwner { client_id: ClientId(0), owner: Opaque(b"owner") },
        how,
        claim: OpenClaim::Null(name),
    }
}

/// Record with a COMPOUND call as root.
pub fn record(xid: u32, operations: &[Operation<'_>]) -> Bytes {
    record_of(0, xid, operations)
}

/// Record with a COMPOUND call as a user with a group of the same number.
pub fn record_of(user: u32, xid: u32, operations: &[Operation<'_>]) -> Bytes {
    let mut body = Vec::new();
    let groups = Groups::new(&[]);
    let sys = AuthSys { stamp: 0, machine_name: Opaque(b"m"), uid: user, gid: user, groups };
    XdrWriter::new(&mut body).put(&sys);
    let mut out = Vec::new();
    let w = &mut XdrWriter::new(&mut out);
    w.put(&RpcCall {
        xid,
        program: 100_003,
        version: 4,
        procedure: 1,
        credentials: OpaqueAuth { flavor: AuthFlavor::SYS, body: Opaque(&body) },
        verifier: OpaqueAuth::NONE,
    });
    let mut request = CompoundRequest::begin(w, b"", 2);
    operations.iter().for_each(|operation| request.push(w, operation));
    request.finish(w);
    out.into()
}

/// Lets a connection answer a record. Returns the results of COMPOUND.
pub fn answer(conn: &mut NfsConn, record: Bytes) -> Vec<u8> {
    conn.handle_record(record).expect("a call");
    if let Some(mut job) = conn.poll_job() {
        // A long listing yields at each entry.
        let mut turns = (0..2 * READDIR_ENTRIES_MAX).filter_map(|_| (&mut job).now_or_never());
        let finished = turns.next().expect("nothing waits here");
        drop(turns);
        conn.handle_finished(finished);
    }
    let out = conn.poll_transmit().expect("an answer");
    assert!(out.file.is_none(), "what is in memory cannot be sent from a file");
    let r = &mut XdrReader::new(&out.buffer[4..]);
    RpcMessage::decode(r).expect("a reply");
    r.rest().to_vec()
}

pub fn status_of(results: &[u8]) -> NfsStatus {
    CompoundResults::decode(&mut XdrReader::new(results)).expect("results").status
}

/// Record with an EXCHANGE_ID for this owner string and incarnation.
pub fn introduction(name: &str, life: u8) -> Bytes {
    let args = ExchangeIdArgs {
        client_owner: ClientOwner {
            verifier: Verifier([life; 8]),
            owner_id: Opaque(name.as_bytes()),
        },
        flags: ExchangeIdFlags(0),
        state_protect: StateProtectArgs::None,
        implementation_id: List::default(),
    };
    record(1, &[Operation::ExchangeId(args)])
}

impl SessionClient {
    fn new(conn: NfsConn) -> Self {
        Self {
            conn,
            id: ClientId(0),
            session: NfsSessionId([0; 16]),
            sequence: 0,
            slot: 0,
            highest: 0,
            cache_this: true,
            user: 0,
            kept: (0, 0),
        }
    }

    fn introduce(&mut self, name: &str, life: u8) {
        let results = answer(&mut self.conn, introduction(name, life));
        let mut results = CompoundResults::decode(&mut XdrReader::new(&results)).unwrap();
        let result: ExchangeIdResult<'_> =
            results.succeed(OperationNumber::EXCHANGE_ID).expect("a client");
        self.id = result.client_id;
    }

    /// Arguments of CREATE_SESSION.
    pub fn session_args(
        &self,
        sequence_id: u32,
        flags: CreateSessionFlags,
    ) -> CreateSessionArgs<'static> {
        CreateSessionArgs {
            client_id: self.id,
            sequence_id,
            flags,
            fore_channel: channel(),
            back_channel: channel(),
            callback_program: 1,
            callback_security: List(vec![CallbackSecurity::None]),
        }
    }

    fn create_session(&mut self, sequence_id: u32, flags: CreateSessionFlags) {
        let args = self.session_args(sequence_id, flags);
        let results = answer(&mut self.conn, record(2, &[Operation::CreateSession(args)]));
        let mut results = CompoundResults::decode(&mut XdrReader::new(&results)).unwrap();
        let result: CreateSessionResult =
            results.succeed(OperationNumber::CREATE_SESSION).expect("a session");
        self.session = result.session_id;
    }

    /// Answers outstanding callbacks.
    pub fn callbacks(&mut self, bench: &ServerUnderTest) -> Vec<ReceivedCallback> {
        bench.work();
        let mut received = Vec::new();
        while let Some(call) = self.conn.poll_transmit() {
            let r = &mut XdrReader::new(&call.buffer[4..]);
            let Ok(RpcMessage::Call(call)) = RpcMessage::decode(r) else { panic!("no call") };
            let mut reply = Vec::new();
            put_success(&mut XdrWriter::new(&mut reply), call.xid);
            if call.procedure == 0 {
                received.push(ReceivedCallback::Null);
            } else {
                self.answer_callbacks(
                    CallbackCompound::decode(r).unwrap(),
                    &mut reply,
                    &mut received,
                );
            }
            self.conn.handle_record(reply.into()).unwrap();
            bench.work();
        }
        received
    }

    fn answer_callbacks(
        &self,
        all: CallbackCompound<'_>,
        out: &mut Vec<u8>,
        received: &mut Vec<ReceivedCallback>,
    ) {
        let w = &mut XdrWriter::new(out);
        let mut results = CallbackReplyEncoder::begin(w, b"");
        for callback in all {
            let callback = callback.unwrap();
            let number = callback.number();
            match callback {
                Callback::Sequence(args) => {
                    let CbSequenceArgs { session_id, sequence_id, slot_id, .. } = args;
                    assert_eq!(session_id, self.session);
                    let result = CbSequenceResult {
                        session_id,
                        sequence_id,
                        slot_id,
                        highest_slot_id: 3,
                        target_highest_slot_id: 3,
                    };
                    results.push(w, number, &Ok::<_, NfsStatus>(result));
                }
                Callback::GetAttr(_) => {
                    received.push(ReceivedCallback::GetAttr);
                    let (change, size) = (Some(self.kept.0), Some(self.kept.1));
                    let named = NfsAttributes { change, size, ..NfsAttributes::default() };
                    let buffer = &mut Vec::new();
                    results.push(w, number, &Ok::<_, NfsStatus>(named.to_fattr(buffer)));
                }
                Callback::Recall(args) => {
                    received.push(ReceivedCallback::Recall(args.state_id));
                    results.push(w, number, &Ok::<_, NfsStatus>(()));
                }
                Callback::NotifyLock(args) => {
                    assert_eq!(args.lock_owner.client_id, self.id);
                    received.push(ReceivedCallback::NotifyLock(args.lock_owner.owner.0.to_vec()));
                    results.push(w, number, &Ok::<_, NfsStatus>(()));
                }
                Callback::Offload(args) => {
                    received.push(ReceivedCallback::Offload(Box::new(args)));
                    results.push(w, number, &Ok::<_, NfsStatus>(()));
                }
                other => panic!("{other:?}"),
            }
        }
        results.finish(w, NfsStatus::OK);
    }

    /// Starts a request that may wait.
    pub fn begin(&mut self, operations: &[Operation<'_>]) -> CallJob {
        let record = self.next(operations);
        self.conn.handle_record(record).expect("a call");
        self.conn.poll_job().expect("a job")
    }

    /// Results of a request, if it has finished.
    pub fn finish(&mut self, job: &mut CallJob) -> Option<Vec<u8>> {
        let finished = job.now_or_never()?;
        Some(self.take(finished))
    }

    /// Results of a request that another thread has finished.
    pub fn take(&mut self, finished: nfs::JobResult) -> Vec<u8> {
        self.conn.handle_finished(finished);
        let out = self.conn.poll_transmit().expect("an answer").buffer;
        let r = &mut XdrReader::new(&out[4..]);
        RpcMessage::decode(r).expect("a reply");
        r.rest().to_vec()
    }

    pub fn complete_reclaim(&mut self) {
        let done = Operation::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        assert_eq!(self.status(&[done]), NfsStatus::OK);
    }

    /// Record of the next request.
    pub fn next(&mut self, operations: &[Operation<'_>]) -> Bytes {
        self.sequence += 1;
        self.same(operations)
    }

    /// Record of a retransmission with the latest sequence id.
    pub fn same(&self, operations: &[Operation<'_>]) -> Bytes {
        let mut all = vec![Operation::Sequence(SequenceArgs {
            session_id: self.session,
            sequence_id: self.sequence,
            slot_id: self.slot,
            highest_slot_id: self.slot.max(self.highest),
            cache_this: self.cache_this,
        })];
        all.extend(operations.iter().cloned());
        record_of(self.user, self.sequence, &all)
    }

    /// Results of a request.
    pub fn results(&mut self, operations: &[Operation<'_>]) -> Vec<u8> {
        let record = self.next(operations);
        answer(&mut self.conn, record)
    }

    /// Status of a request.
    pub fn status(&mut self, operations: &[Operation<'_>]) -> NfsStatus {
        status_of(&self.results(operations))
    }

    /// Results of the operations behind SEQUENCE.
    pub fn compound(
        &mut self,
        operations: &[Operation<'_>],
    ) -> Vec<Result<OperationNumber, NfsStatus>> {
        let results = self.results(operations);
        let mut results = CompoundResults::decode(&mut XdrReader::new(&results)).unwrap();
        let mut all = Vec::new();
        while let Ok(Some((number, status))) = results.next_status() {
            all.push(if status.is_ok() { Ok(number) } else { Err(status) });
            if OperationResult::decode(number, status, results.reader()).is_err() {
                break;
            }
        }
        all.remove(0).expect("SEQUENCE");
        all
    }

    /// Operations that walk to a path.
    pub fn walk<'a>(&self, path: &[&'a [u8]]) -> Vec<Operation<'a>> {
        let names = path.iter().map(|name| Operation::Lookup(LookupArgs { name }));
        std::iter::once(Operation::PutRootFh).chain(names).collect()
    }

    /// Result of the last operation, decoded by `take`.
    pub fn last<T>(
        &mut self,
        operations: &[Operation<'_>],
        take: impl FnOnce(&mut XdrReader<'_>) -> T,
    ) -> T {
        let results = self.results(operations);
        assert_eq!(status_of(&results), NfsStatus::OK);
        let mut results = CompoundResults::decode(&mut XdrReader::new(&results)).unwrap();
        for at in 0..=operations.len() {
            let (number, status) = results.next_status().unwrap().expect("a result");
            if at == operations.len() {
                break;
            }
            OperationResult::decode(number, status, results.reader()).unwrap();
        }
        take(results.reader())
    }

    pub fn open(&mut self, name: &[u8], access: u32, deny: u32) -> StateId {
        let mut operations = self.walk(&[b"share"]);
        operations.push(Operation::Open(open_args(name, access, deny, false)));
        self.last(&operations, |r| r.get::<NfsOpenResult<'_>>().unwrap().state_id)
    }

    pub fn make_file(&mut self, name: &[u8]) {
        let mut operations = self.walk(&[b"share"]);
        // Otherwise it would get a delegation on the new file.
        let access = READ_WRITE | ShareAccess::WANT_NO_DELEG.0;
        operations.push(Operation::Open(open_args(name, access, 0, true)));
        let state_id = StateId::CURRENT;
        operations.push(Operation::Close(CloseArgs { sequence_id: 0, state_id }));
        assert_eq!(self.status(&operations), NfsStatus::OK);
    }

    pub fn handle(&mut self, path: &[&[u8]]) -> FileHandle {
        let mut operations = self.walk(path);
        operations.push(Operation::GetFh);
        self.last(&operations, |r| r.get().unwrap())
    }

    pub fn read_whole(&mut self, name: &[u8]) -> Vec<u8> {
        let mut operations = self.walk(&[b"share", name]);
        let state_id = StateId::ANONYMOUS;
        operations.push(Operation::Read(ReadArgs { state_id, offset: 0, count: 10_000 }));
        self.last(&operations, |r| r.get::<ReadResult<'_>>().unwrap().data.to_vec())
    }

    pub fn list(&mut self, path: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut operations = self.walk(path);
        operations.push(Operation::ReadDir(ReadDirArgs {
            cookie: 0,
            cookie_verifier: Verifier::default(),
            directory_bytes: 1000,
            bytes_max: 10_000,
            requested: Bitmap4::EMPTY,
        }));
        self.last(&operations, |r| {
            let listed: ReadDirResult<'_> = r.get().unwrap();
            listed.entries.iter().map(|entry| entry.name.to_vec()).collect()
        })
    }

    pub fn attributes(&mut self, path: &[&[u8]], wanted: &[u32]) -> NfsAttributes<'static> {
        let mut operations = self.walk(path);
        let requested = Bitmap4::of(wanted);
        operations.push(Operation::GetAttr(GetAttrArgs { requested }));
        self.last(&operations, |r| {
            let bytes: &'static [u8] = Vec::leak(r.rest().to_vec());
            let found: Fattr<'static> = XdrReader::new(bytes).get().unwrap();
            assert_eq!(found.mask, requested);
            found.attributes().unwrap()
        })
    }
}
