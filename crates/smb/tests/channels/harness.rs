//! An in-memory server, and clients whose messages a test sends one by one. They speak SMB 3.0.2,
//! which signs with AES-CMAC, unless a test requests 3.1.1.

mod raw;

pub use raw::{app_instance, lease_contexts};

use crate::agreement::{self, AgreedSession};
use crate::persistent::CountingJournal;
use crate::slow::{
    BlockableParts, BlockableWorkers, ColdBackend, DetachedFuture, DetachedWorkQueue,
};
use bytes::BytesMut;
use files::{Caller, Files, Volume, VolumeOptions};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use smb::{
    Account, Dialect, EncryptionPolicy, FrameJob, HostTime, InterfaceFact, MultichannelPolicy,
    SmbCloseReason, SmbConfig, SmbConn, SmbConnFacts, SmbHost, SmbServer, SmbShare,
};
use std::future::{poll_fn, ready};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs::{Identity, Timestamp, Vfs};
use wire::codec::{Reader, Writer, put_utf16};
use wire::crypto::{SessionKey, SigningAlgorithm, SigningKey};
use wire::ntlm::NtHash;
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::{NegotiateRequest, capabilities};
use wire::smb::{
    Command, CreateRequest, DurableReconnectV2, DurableRequestV2, FileId, Flags, Header,
    LeaseContext, LeaseV2, MessageId, OplockBreakAck, SessionId, SessionSetupRequest,
    TreeConnectRequest, TreeId, put_context,
};
use wire::spnego::{AcceptedTicket, SpnegoInitiator, Ticket};
use wire::wiretap::Wiretap;

pub const ALICE: &str = "alice";
pub const BOB: &str = "bob";
pub const PASSWORD: &str = "a right password";

struct TestHost {
    random: AtomicU64,
    begun: HostTime,
    passed_seconds: Arc<AtomicU64>,
    carried: Arc<DetachedWorkQueue>,
    doubts: Arc<ProbedConnections>,
    tickets: Arc<TicketDesk>,
    has_guest: Arc<AtomicBool>,
    journal: Arc<CountingJournal>,
}

/// Kerberos tickets of the test host: a ticket is the name of its user.
#[derive(Default)]
pub struct TicketDesk {
    /// Verdicts are delayed.
    pub holds: AtomicBool,
    /// Expiry of the tickets, in seconds since 1970.
    pub end_time: AtomicU64,
    /// Every SID differs from the account's first one.
    pub refuses_sids: AtomicBool,
    /// Tickets have a PAC, which contains a SID.
    pub has_pac: AtomicBool,
}

/// Session key of every ticket logon.
const TICKET_KEY: [u8; 16] = [9; 16];

#[derive(Debug)]
struct TicketAcceptor(Vec<u8>);

impl Ticket for TicketAcceptor {
    fn first(&self) -> &[u8] {
        &self.0
    }

    fn handle_answer(&mut self, _: &[u8]) -> Result<SessionKey, String> {
        Ok(SessionKey::new(&TICKET_KEY))
    }
}

/// Connections that the server probes, if probing is possible.
#[derive(Default)]
pub struct ProbedConnections {
    pub can_ask: AtomicBool,
    pub asked: Mutex<Vec<u64>>,
}

impl SmbHost for TestHost {
    fn random(&self, out: &mut [u8]) {
        // Distinct numbers.
        out.fill(0);
        let next = self.random.fetch_add(0x0101_0001, Ordering::Relaxed).to_le_bytes();
        let count = out.len().min(next.len());
        out[..count].copy_from_slice(&next[..count]);
    }

    fn now(&self) -> HostTime {
        let passed = Duration::from_secs(self.passed_seconds.load(Ordering::Relaxed));
        let wall = Timestamp(self.begun.wall.0 + i128::try_from(passed.as_nanos()).unwrap());
        HostTime { instant: self.begun.instant + passed, wall }
    }

    fn account(&self, user: &str) -> Option<Account> {
        let caller = Arc::new(Caller::of(Identity::root()));
        let nt_hash = NtHash::of_password(PASSWORD);
        // Like the real host, which ignores case and surrounding spaces.
        let name = user.trim().to_lowercase();
        [ALICE, BOB].contains(&name.as_str()).then(|| Account {
            root_by_ticket: name == BOB,
            name,
            nt_hash,
            caller,
            groups: Arc::default(),
        })
    }

    fn guest(&self) -> Option<Account> {
        let account = Account { name: "guest".into(), ..self.account(ALICE)? };
        self.has_guest.load(Ordering::Relaxed).then_some(account)
    }

    fn accepts_tickets(&self) -> bool {
        true
    }

    fn verify_ticket(
        &self,
        _: IpAddr,
        ticket: Vec<u8>,
    ) -> BoxFuture<'static, Result<AcceptedTicket, String>> {
        let desk = self.tickets.clone();
        Box::pin(poll_fn(move |_| {
            if desk.holds.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
            Poll::Ready(Ok(AcceptedTicket {
                token: vec![8; 16],
                user: String::from_utf8(ticket.clone()).unwrap(),
                realm: "REALM".into(),
                session_key: SessionKey::new(&TICKET_KEY),
                end_time: desk.end_time.load(Ordering::Relaxed),
                sid: desk.has_pac.load(Ordering::Relaxed).then(|| "S-1-5-21-1-2-3-1106".into()),
            }))
        }))
    }

    fn check_sid(&self, _: &str, _: Option<String>) -> BoxFuture<'static, Result<(), String>> {
        let is_other = self.tickets.refuses_sids.load(Ordering::Relaxed);
        let verdict = if is_other { Err("another SID".into()) } else { Ok(()) };
        Box::pin(ready(verdict))
    }

    fn logon_failed(&self, _: SocketAddr, _: &str, _: &str) {}

    fn logon_succeeded(&self, _: SocketAddr, _: &str) {}

    fn carry_on(&self, work: DetachedFuture) {
        self.carried.take(work);
    }

    fn probe_connections(&self, connections: &[u64]) -> bool {
        self.doubts.asked.lock().unwrap().extend(connections);
        self.doubts.can_ask.load(Ordering::Relaxed)
    }

    fn persists_opens(&self) -> bool {
        true
    }

    fn write_open_record(&self, _: u64, _: Option<Vec<u8>>) -> BoxFuture<'static, bool> {
        Box::pin(ready(self.journal.write()))
    }

    fn interfaces(&self, port: u16) -> Vec<InterfaceFact> {
        let address = Ipv4Addr::new(192, 0, 2, port as u8).into();
        vec![InterfaceFact { index: 2, rss: true, bits_per_second: 1_000_000_000, address }]
    }
}

/// A server with the share `data`.
pub struct Net {
    pub server: Arc<SmbServer>,
    share: Arc<SmbShare>,
    now: HostTime,
    passed_seconds: Arc<AtomicU64>,
    next: AtomicU64,
    pub doubts: Arc<ProbedConnections>,
    pub tickets: Arc<TicketDesk>,
    /// A guest account exists.
    pub has_guest: Arc<AtomicBool>,
    pub journal: Arc<CountingJournal>,
}

impl Net {
    pub fn new() -> Self {
        let memory = memory();
        Self::over(Arc::new(memory)).0
    }

    /// A server without cached data, whose workers can be blocked.
    pub fn slow() -> (Self, BlockableParts) {
        let memory = memory();
        Self::over(Arc::new(ColdBackend(memory)))
    }

    pub fn over(vfs: Arc<dyn Vfs>) -> (Self, BlockableParts) {
        let now = HostTime { instant: Instant::now(), wall: Timestamp(1_750_000_000_000_000_000) };
        let (hands, carried) =
            (Arc::new(BlockableWorkers::default()), Arc::new(DetachedWorkQueue::default()));
        let carries = carried.clone();
        let doubts = Arc::<ProbedConnections>::default();
        let tickets = Arc::new(TicketDesk {
            end_time: AtomicU64::new(1_750_000_100),
            ..TicketDesk::default()
        });
        let passed_seconds = Arc::<AtomicU64>::default();
        let has_guest = Arc::<AtomicBool>::default();
        let journal = Arc::<CountingJournal>::default();
        let host = TestHost {
            random: AtomicU64::new(1),
            begun: now,
            passed_seconds: passed_seconds.clone(),
            carried: carries,
            doubts: doubts.clone(),
            tickets: tickets.clone(),
            has_guest: has_guest.clone(),
            journal: journal.clone(),
        };
        let share = Arc::new(SmbShare {
            name: "data".into(),
            volume: Some(Arc::new(Volume::new(vfs, VolumeOptions::default()))),
            posix: true,
            time_machine: true,
            ..SmbShare::default()
        });
        let config = config(&share, MultichannelPolicy::default());
        let server = SmbServer::new(config, Arc::new(Files::new(hands.clone())), Arc::new(host));
        let next = AtomicU64::new(1);
        (
            Self { server, share, now, passed_seconds, next, doubts, tickets, has_guest, journal },
            BlockableParts { hands, carried },
        )
    }

    /// Reloads the configuration.
    pub fn configure(&self, multichannel: MultichannelPolicy) {
        self.server.configure(config(&self.share, multichannel));
    }

    /// Reloads the configuration with changes to the server's and the share's keys.
    pub fn reload(&self, change: impl FnOnce(&mut SmbConfig, &mut SmbShare)) {
        let mut share = SmbShare::clone(&self.share);
        let mut new = config(&self.share, MultichannelPolicy::default());
        change(&mut new, &mut share);
        new.shares = vec![Arc::new(share)];
        self.server.configure(new);
    }

    /// A connection that negotiated SMB 3.0.2.
    pub fn connect(&self) -> ConnectedClient {
        self.connect_with(capabilities::MULTI_CHANNEL)
    }

    /// Like [`Net::connect`], with these client capabilities.
    pub fn connect_with(&self, capabilities: u32) -> ConnectedClient {
        self.connect_by(Dialect::Smb302, capabilities, &[])
    }

    /// A connection that negotiated SMB 3.1.1, with these capabilities and signing algorithms.
    pub fn connect_311(&self, capabilities: u32, signing: &[SigningAlgorithm]) -> ConnectedClient {
        self.connect_by(Dialect::Smb311, capabilities, &agreement::contexts(signing))
    }

    fn connect_by(
        &self,
        dialect: Dialect,
        capabilities: u32,
        contexts: &[(u16, Vec<u8>)],
    ) -> ConnectedClient {
        self.negotiate(dialect, &agreement::request(dialect, capabilities, contexts))
    }

    /// A connection after this NEGOTIATE, which selects `dialect`.
    pub fn negotiate(&self, dialect: Dialect, request: &NegotiateRequest<'_>) -> ConnectedClient {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let facts = SmbConnFacts { id, peer: address(40_000), local: address(45) };
        let mut client = ConnectedClient {
            conn: Some(SmbConn::new(self.server.clone(), facts)),
            jobs: Vec::new(),
            replies: Vec::new(),
            wiretap: Wiretap::default(),
            now: self.now,
            next_id: 0,
            session: SessionId(0),
            previous: SessionId(0),
            tree: TreeId(0),
            signing: None,
            challenge: [0; 8],
            capabilities: 0,
            agreement: AgreedSession::new(dialect),
        };
        let reply = client.call(Command::NEGOTIATE, |w| request.encode(w));
        assert_eq!(reply.header.status, NtStatus::SUCCESS);
        let at = Header::LENGTH + 24;
        client.capabilities = u32::from_le_bytes(reply.bytes[at..at + 4].try_into().unwrap());
        client
    }

    /// A connection with a session of `alice` and the share.
    pub fn ready(&self) -> ConnectedClient {
        self.ready_as(ALICE)
    }

    /// Like [`Net::ready`], with a session of `user`.
    pub fn ready_as(&self, user: &str) -> ConnectedClient {
        let mut client = self.connect();
        assert_eq!(client.log_on(user), NtStatus::SUCCESS);
        assert_eq!(client.connect_tree("data"), NtStatus::SUCCESS);
        client
    }

    /// A further channel of `first`'s session.
    pub fn bound(&self, first: &ConnectedClient) -> ConnectedClient {
        let mut client = self.connect();
        assert_eq!(client.bind(first, ALICE), NtStatus::SUCCESS);
        client
    }

    /// Sets the clock, without a tick of the server.
    pub fn set_clock(&self, seconds: u64) {
        self.passed_seconds.store(seconds, Ordering::Relaxed);
    }

    /// Sets the clock to so many seconds after the start, and ticks the server.
    pub fn tick(&self, seconds: u64) {
        self.set_clock(seconds);
        let instant = self.now.instant + Duration::from_secs(seconds);
        self.server.handle_tick(HostTime { instant, ..self.now });
    }

    /// Number of channels of each session.
    pub fn channels(&self) -> Vec<usize> {
        self.server.snapshot().sessions.iter().map(|s| s.channels.len()).collect()
    }

    /// Asserts that the server holds no state.
    pub fn assert_empty(&self) {
        assert_eq!(self.channels(), [0; 0]);
        assert_eq!(self.server.files.open_file_count(), 0);
    }
}

pub fn memory() -> MemoryVfs {
    MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()))
}

fn config(share: &Arc<SmbShare>, multichannel: MultichannelPolicy) -> SmbConfig {
    SmbConfig {
        server_guid: [7; 16],
        name: "SERVER".into(),
        domain: "WORKGROUP".into(),
        signing_required: true,
        ntlm: true,
        encryption: EncryptionPolicy::Off,
        dialect_min: Dialect::Smb202,
        dialect_max: Dialect::Smb311,
        io_bytes_max: smb::limits::IO_BYTES_MAX,
        multichannel,
        shares: vec![share.clone()],
    }
}

/// One response.
pub struct ParsedResponse {
    pub header: Header,
    pub bytes: Vec<u8>,
}

impl ParsedResponse {
    /// FileId of a successful CREATE.
    pub fn file(&self) -> FileId {
        FileId::decode(&mut Reader::new(&self.bytes[Header::LENGTH + 64..])).unwrap()
    }

    /// Granted oplock level of a CREATE.
    pub fn granted_level(&self) -> u8 {
        self.bytes[Header::LENGTH + 2]
    }

    /// CreateAction of a CREATE.
    pub fn action(&self) -> u32 {
        let at = Header::LENGTH + 4;
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    /// Level of an oplock break notification.
    pub fn level(&self) -> u8 {
        assert_eq!(self.header.command, Command::OPLOCK_BREAK);
        self.bytes[Header::LENGTH + 2]
    }
}

/// A CREATE with a CreateGuid.
#[derive(Clone, Copy)]
pub struct ReplayableCreate {
    pub guid: [u8; 16],
    /// The replay flag is set.
    pub replays: bool,
}

/// One connection of a client. Dropping it disconnects.
pub struct ConnectedClient {
    conn: Option<SmbConn>,
    jobs: Vec<FrameJob>,
    replies: Vec<ParsedResponse>,
    /// Observes all frames of the server.
    wiretap: Wiretap,
    now: HostTime,
    next_id: u64,
    pub session: SessionId,
    /// PreviousSessionId of its next SESSION_SETUP.
    previous: SessionId,
    pub tree: TreeId,
    pub signing: Option<Arc<SigningKey>>,
    challenge: [u8; 8],
    pub capabilities: u32,
    pub agreement: AgreedSession,
}

/// Key of all leases.
const LEASE_KEY: [u8; 16] = [7; 16];

/// Adds a lease request with this state.
fn put_lease(contexts: &mut Vec<u8>, state: u32) {
    let lease = LeaseContext { key: LEASE_KEY, state, v2: Some(LeaseV2::default()), flags: 0 };
    put_context(contexts, b"RqLs", &lease.encode());
}

/// Adds a durable request of version 2.
fn put_durable(contexts: &mut Vec<u8>, create_guid: [u8; 16]) {
    let mut data = Vec::new();
    let durable = DurableRequestV2 { timeout_ms: 0, persistent: false, create_guid };
    durable.encode(&mut Writer::new(&mut data));
    put_context(contexts, b"DH2Q", &data);
}

/// Adds a durable reconnect of version 2.
fn put_reconnect(contexts: &mut Vec<u8>, file_id: FileId, create_guid: [u8; 16]) {
    let mut data = Vec::new();
    let reconnect = DurableReconnectV2 { file_id, create_guid, persistent: false };
    reconnect.encode(&mut Writer::new(&mut data));
    put_context(contexts, b"DH2C", &data);
}

/// A CREATE with FILE_OPEN_IF for reading and writing; an empty name opens the existing directory.
fn open_or_create<'a>(name: &'a [u8], oplock: u8, contexts: &'a [u8]) -> CreateRequest<'a> {
    CreateRequest {
        oplock,
        impersonation: 2,
        desired_access: 0x12_019F,
        attributes: 0,
        share_access: 7,
        disposition: wire::fscc::FILE_OPEN_IF,
        options: if name.is_empty() { 1 } else { 0x40 },
        name,
        contexts,
    }
}

impl ConnectedClient {
    fn header(&mut self, command: Command) -> Header {
        let id = self.next_id;
        self.next_id += u64::from(command != Command::CANCEL);
        Header {
            credit_charge: 1,
            status: NtStatus::SUCCESS,
            command,
            credits: 32,
            flags: Flags::default(),
            next_command: 0,
            message_id: MessageId(id),
            process_id: 0,
            tree_id: self.tree,
            session_id: self.session,
            signature: [0; 16],
        }
    }

    fn put(
        &mut self,
        header: Header,
        key: Option<&SigningKey>,
        body: impl FnOnce(&mut Writer<'_>),
    ) {
        self.try_put(header, key, body).unwrap();
    }

    fn try_put(
        &mut self,
        mut header: Header,
        key: Option<&SigningKey>,
        body: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), SmbCloseReason> {
        if key.is_some() {
            header.flags = header.flags | Flags::SIGNED;
        }
        let mut message = Vec::new();
        let mut w = Writer::new(&mut message);
        header.encode(&mut w);
        body(&mut w);
        if let Some(key) = key {
            key.sign(&mut message);
        }
        self.agreement.note_request(header.command, &message);
        let conn = self.conn.as_mut().unwrap();
        conn.handle_frame(BytesMut::from(&message[..]), self.now)
    }

    /// Sends a request, signed if a user is logged on; returns its id.
    pub fn send(&mut self, command: Command, body: impl FnOnce(&mut Writer<'_>)) -> MessageId {
        let header = self.header(command);
        let key = self.signing.take();
        self.put(header, key.as_deref(), body);
        self.signing = key;
        header.message_id
    }

    /// Sends empty requests that arrive together, some with a wrong signature. Returns the statuses
    /// of their responses.
    pub fn burst(&mut self, requests: &[(Command, bool)]) -> Vec<NtStatus> {
        let key = self.signing.clone().expect("a session with keys");
        let mut ids = Vec::new();
        let mut frames: Vec<BytesMut> = requests
            .iter()
            .map(|(command, is_good)| {
                let mut header = self.header(*command);
                header.flags = header.flags | Flags::SIGNED;
                ids.push(header.message_id);
                let mut message = Vec::new();
                let mut w = Writer::new(&mut message);
                header.encode(&mut w);
                w.u16(4);
                w.u16(0);
                key.sign(&mut message);
                message[Header::SIGNATURE.start] ^= u8::from(!is_good);
                BytesMut::from(&message[..])
            })
            .collect();
        let conn = self.conn.as_mut().unwrap();
        assert!(conn.verifies_together());
        let checked = conn.verify_together(&mut frames);
        for (frame, checked) in frames.into_iter().zip(checked) {
            self.conn.as_mut().unwrap().handle_checked(frame, checked, self.now).unwrap();
            self.step();
        }
        ids.into_iter().map(|id| self.reply_to(id).expect("a reply").header.status).collect()
    }

    /// Runs the server as far as possible, and receives its frames.
    pub fn step(&mut self) {
        let conn = self.conn.as_mut().unwrap();
        while let Some(job) = conn.poll_job() {
            self.jobs.push(job);
        }
        let mut waiting = Vec::new();
        for mut job in self.jobs.drain(..) {
            match job.as_mut().now_or_never() {
                Some(finished) => conn.handle_finished(finished, self.now),
                None => waiting.push(job),
            }
        }
        self.jobs = waiting;
        while let Some(transmit) = conn.poll_transmit().or_else(|| conn.poll_notice()) {
            let bytes = transmit.buffer[transmit.start + 4..].to_vec();
            self.wiretap.observe(&bytes).unwrap();
            let header = Header::decode(&mut Reader::new(&bytes)).unwrap();
            self.agreement.note_reply(&header, &bytes);
            self.replies.push(ParsedResponse { header, bytes });
        }
    }

    /// The response to `id`, if it has arrived; skips an interim response.
    pub fn reply_to(&mut self, id: MessageId) -> Option<ParsedResponse> {
        self.step();
        self.replies.retain(|r| r.header.status != NtStatus::PENDING);
        let at = self.replies.iter().position(|r| r.header.message_id == id)?;
        Some(self.replies.remove(at))
    }

    /// AsyncId of a pending request.
    pub fn waits(&mut self, id: MessageId) -> wire::smb::AsyncId {
        self.interim_to(id).async_id()
    }

    /// Header of the interim response to a pending request.
    pub fn interim_to(&mut self, id: MessageId) -> Header {
        self.step();
        let interim = |r: &&ParsedResponse| r.header.message_id == id;
        let reply = self.replies.iter().find(interim).expect("an interim reply");
        assert_eq!(reply.header.status, NtStatus::PENDING);
        reply.header
    }

    pub fn call(&mut self, command: Command, body: impl FnOnce(&mut Writer<'_>)) -> ParsedResponse {
        let id = self.send(command, body);
        self.reply_to(id).expect("a reply")
    }

    pub fn status(&mut self, command: Command, body: impl FnOnce(&mut Writer<'_>)) -> NtStatus {
        self.call(command, body).header.status
    }

    /// The next notification.
    pub fn notice(&mut self) -> Option<ParsedResponse> {
        self.reply_to(MessageId(u64::MAX))
    }

    fn send_setup(&mut self, flags: u8, key: Option<&SigningKey>, token: &[u8]) -> MessageId {
        let header = self.header(Command::SESSION_SETUP);
        let request = SessionSetupRequest {
            flags,
            security_mode: 1,
            capabilities: 0,
            previous_session: self.previous,
            token,
        };
        self.put(header, key, |w| request.encode(w));
        header.message_id
    }

    fn set_up(&mut self, flags: u8, key: Option<&SigningKey>, token: &[u8]) -> NtStatus {
        let id = self.send_setup(flags, key, token);
        self.status_of_setup(id).expect("a reply")
    }

    /// The response to a step of a logon, if it has arrived.
    pub fn status_of_setup(&mut self, id: MessageId) -> Option<NtStatus> {
        let reply = self.reply_to(id)?;
        if reply.header.status == NtStatus::MORE_PROCESSING_REQUIRED {
            self.session = reply.header.session_id;
            let at = reply.bytes.windows(8).position(|w| w == b"NTLMSSP\0").unwrap();
            self.challenge = reply.bytes[at + 24..at + 32].try_into().unwrap();
        }
        Some(reply.header.status)
    }

    /// The first step of a logon.
    pub fn begin(&mut self, flags: u8, key: Option<&SigningKey>) -> NtStatus {
        self.agreement.begin_logon();
        self.set_up(flags, key, &first_token())
    }

    /// Like [`ConnectedClient::begin_binding`], when the response may be delayed.
    pub fn send_binding(&mut self, first: &ConnectedClient) -> MessageId {
        (self.session, self.tree) = (first.session, first.tree);
        let key = first.signing.as_deref();
        self.agreement.begin_logon();
        self.send_setup(SessionSetupRequest::BINDING, key, &first_token())
    }

    /// Sets the time since the start.
    pub fn pass(&mut self, time: Duration) {
        let now = HostTime { instant: self.now.instant + time, ..self.now };
        self.conn.as_mut().unwrap().handle_timeout(now);
    }

    /// Time of the connection's next timeout, since the start.
    pub fn next_look(&self) -> Option<Duration> {
        let due = self.conn.as_ref().unwrap().poll_timeout()?;
        Some(due - self.now.instant)
    }

    /// The second step; returns the session key with the status.
    pub fn finish(
        &mut self,
        flags: u8,
        key: Option<&SigningKey>,
        user: &str,
        password: &str,
    ) -> (NtStatus, [u8; 16]) {
        let (token, session_key) = authenticate(user, password, &self.challenge);
        (self.set_up(flags, key, &token), session_key)
    }

    /// Starts a new session and sends the password proof; the response may be delayed.
    pub fn send_guess(&mut self, user: &str, password: &str) -> MessageId {
        self.session = SessionId(0);
        assert_eq!(self.begin(0, None), NtStatus::MORE_PROCESSING_REQUIRED);
        let (token, _) = authenticate(user, password, &self.challenge);
        self.send_setup(0, None, &token)
    }

    /// Starts a logon or a re-authentication by ticket; the response may be delayed.
    pub fn send_ticket(&mut self, user: &str) -> MessageId {
        let ticket = TicketAcceptor(user.as_bytes().to_vec());
        let token = SpnegoInitiator::with_ticket(Box::new(ticket)).first();
        let key = self.signing.clone();
        self.send_setup(0, key.as_deref(), &token)
    }

    /// The response to a ticket, if it has arrived.
    pub fn status_of_ticket(&mut self, id: MessageId) -> Option<NtStatus> {
        let reply = self.reply_to(id)?;
        if reply.header.status == NtStatus::SUCCESS {
            self.session = reply.header.session_id;
            self.signing = Some(Arc::new(self.agreement.signing_key(&TICKET_KEY)));
        }
        Some(reply.header.status)
    }

    /// Repeats the first token, which restarts the exchange.
    pub fn send_first(&mut self) -> MessageId {
        self.send_setup(0, None, &first_token())
    }

    /// Sets up a new session.
    pub fn log_on(&mut self, user: &str) -> NtStatus {
        self.begin(0, None);
        let (status, key) = self.finish(0, None, user, PASSWORD);
        self.signing =
            (status == NtStatus::SUCCESS).then(|| Arc::new(self.agreement.signing_key(&key)));
        status
    }

    /// Re-authenticates the session of this connection.
    pub fn renew(&mut self, user: &str, password: &str) -> NtStatus {
        let key = self.signing.take();
        let mut status = self.begin(0, key.as_deref());
        if status == NtStatus::MORE_PROCESSING_REQUIRED {
            (status, _) = self.finish(0, key.as_deref(), user, password);
        }
        self.signing = key;
        status
    }

    /// Begins to bind this connection to `first`'s session.
    pub fn begin_binding(&mut self, first: &ConnectedClient) -> NtStatus {
        (self.session, self.tree) = (first.session, first.tree);
        self.begin(SessionSetupRequest::BINDING, first.signing.as_deref())
    }

    /// Completes [`ConnectedClient::begin_binding`].
    pub fn end_binding(&mut self, first: &ConnectedClient, user: &str) -> NtStatus {
        let flags = SessionSetupRequest::BINDING;
        let (status, key) = self.finish(flags, first.signing.as_deref(), user, PASSWORD);
        self.signing =
            (status == NtStatus::SUCCESS).then(|| Arc::new(self.agreement.signing_key(&key)));
        status
    }

    /// Binds this connection to `first`'s session.
    pub fn bind(&mut self, first: &ConnectedClient, user: &str) -> NtStatus {
        match self.begin_binding(first) {
            NtStatus::MORE_PROCESSING_REQUIRED => self.end_binding(first, user),
            refused => refused,
        }
    }

    pub fn connect_tree(&mut self, share: &str) -> NtStatus {
        let mut path = Vec::new();
        put_utf16(&mut path, &format!("\\\\SERVER\\{share}"));
        let request = TreeConnectRequest { flags: 0, path: &path };
        let reply = self.call(Command::TREE_CONNECT, |w| request.encode(w));
        self.tree = reply.header.tree_id;
        reply.header.status
    }

    /// Opens a file for reading and writing, or `""` as the share's root.
    pub fn send_create(&mut self, name: &str, oplock: u8) -> MessageId {
        let mut units = Vec::new();
        put_utf16(&mut units, name);
        let request = open_or_create(&units, oplock, &[]);
        self.send(Command::CREATE, |w| request.encode(w))
    }

    /// Opens a file, or `""` as the share's root, with a lease request of this state.
    pub fn lease(&mut self, name: &str, state: u32) -> FileId {
        let (mut units, mut contexts) = (Vec::new(), Vec::new());
        put_utf16(&mut units, name);
        put_lease(&mut contexts, state);
        let read = open_or_create(&units, 0xFF, &contexts);
        let request = CreateRequest { desired_access: 0x12_0089, ..read };
        let reply = self.call(Command::CREATE, |w| request.encode(w));
        assert_eq!(reply.header.status, NtStatus::SUCCESS);
        reply.file()
    }

    /// Creates a new file with a batch oplock.
    pub fn send_create_new(&mut self, name: &str, named: ReplayableCreate) -> MessageId {
        let (mut units, mut contexts) = (Vec::new(), Vec::new());
        put_utf16(&mut units, name);
        put_durable(&mut contexts, named.guid);
        let any = open_or_create(&units, 9, &contexts);
        let request = CreateRequest { disposition: wire::fscc::FILE_CREATE, ..any };
        let mut header = self.header(Command::CREATE);
        if named.replays {
            header.flags = header.flags | Flags::REPLAY;
        }
        let key = self.signing.take();
        self.put(header, key.as_deref(), |w| request.encode(w));
        self.signing = key;
        header.message_id
    }

    /// Like [`ConnectedClient::send_create_new`], with a full lease.
    pub fn create_new_leased(&mut self, name: &str, create_guid: [u8; 16]) -> FileId {
        let (mut units, mut contexts) = (Vec::new(), Vec::new());
        put_utf16(&mut units, name);
        put_durable(&mut contexts, create_guid);
        put_lease(&mut contexts, 7);
        let any = open_or_create(&units, 0xFF, &contexts);
        let request = CreateRequest { disposition: wire::fscc::FILE_CREATE, ..any };
        let reply = self.call(Command::CREATE, |w| request.encode(w));
        assert_eq!(reply.header.status, NtStatus::SUCCESS);
        reply.file()
    }

    /// Reconnects an open of [`ConnectedClient::create_new_leased`], by this name.
    pub fn send_leased_return(
        &mut self,
        file_id: FileId,
        create_guid: [u8; 16],
        name: &str,
    ) -> MessageId {
        let (mut units, mut contexts) = (Vec::new(), Vec::new());
        put_utf16(&mut units, name);
        put_reconnect(&mut contexts, file_id, create_guid);
        put_lease(&mut contexts, 7);
        let request = open_or_create(&units, 0xFF, &contexts);
        self.send(Command::CREATE, |w| request.encode(w))
    }

    /// Reconnects an open of [`ConnectedClient::send_create_new`].
    pub fn send_return(&mut self, file_id: FileId, create_guid: [u8; 16]) -> MessageId {
        let mut contexts = Vec::new();
        put_reconnect(&mut contexts, file_id, create_guid);
        // The server ignores the other fields of a reconnect.
        let request = open_or_create(&[], 0, &contexts);
        self.send(Command::CREATE, |w| request.encode(w))
    }

    pub fn create(&mut self, name: &str, oplock: u8) -> FileId {
        let id = self.send_create(name, oplock);
        let reply = self.reply_to(id).expect("a reply");
        assert_eq!(reply.header.status, NtStatus::SUCCESS);
        reply.file()
    }

    /// Requests an exclusive lock of byte 0, and waits for it.
    pub fn send_lock(&mut self, file: FileId) -> MessageId {
        self.send(Command::LOCK, |w| lock(w, file, 2))
    }

    pub fn lock(&mut self, file: FileId) -> NtStatus {
        self.status(Command::LOCK, |w| lock(w, file, 2 | 0x10))
    }

    pub fn unlock(&mut self, file: FileId) -> NtStatus {
        self.status(Command::LOCK, |w| lock(w, file, 4))
    }

    /// Watches a directory.
    pub fn send_watch(&mut self, directory: FileId) -> MessageId {
        self.send(Command::CHANGE_NOTIFY, |w| {
            w.u16(32);
            w.u16(0);
            w.u32(1024);
            directory.encode(w);
            w.u32(3);
            w.u32(0);
        })
    }

    pub fn close(&mut self, file: FileId) -> NtStatus {
        self.status(Command::CLOSE, |w| {
            w.u16(24);
            w.zeros(6);
            file.encode(w);
        })
    }

    /// Acknowledges an oplock break.
    pub fn acknowledge(&mut self, file: FileId, level: u8) -> NtStatus {
        self.status(Command::OPLOCK_BREAK, |w| {
            w.u16(24);
            w.u8(level);
            w.zeros(5);
            file.encode(w);
        })
    }

    /// Acknowledges a lease break; `state` remains.
    pub fn acknowledge_lease(&mut self, state: u32) -> NtStatus {
        let request = OplockBreakAck::Lease { key: LEASE_KEY, state };
        self.status(Command::OPLOCK_BREAK, |w| request.encode(w))
    }

    /// LOGOFF, TREE_DISCONNECT and ECHO have the same body.
    pub fn plain(&mut self, command: Command) -> NtStatus {
        self.status(command, empty)
    }

    /// Cancels a request that waits on this connection.
    pub fn cancel(&mut self, id: MessageId, waits: Option<wire::smb::AsyncId>) {
        let mut header = self.header(Command::CANCEL);
        header.message_id = id;
        if let Some(waits) = waits {
            header.set_async(waits);
        }
        let key = self.signing.take();
        self.put(header, key.as_deref(), empty);
        self.signing = key;
        self.step();
    }

    /// Cuts the network, which the server notices.
    pub fn cut(mut self) {
        self.lose();
    }

    /// A copy of the session keys without a connection.
    pub fn twin(&self) -> Self {
        Self {
            conn: None,
            jobs: Vec::new(),
            replies: Vec::new(),
            wiretap: Wiretap::default(),
            signing: self.signing.clone(),
            agreement: self.agreement.clone(),
            ..*self
        }
    }

    /// Like [`ConnectedClient::cut`], but keeps the client's keys.
    pub fn lose(&mut self) {
        self.jobs.clear();
        self.conn = None;
    }
}

fn first_token() -> Vec<u8> {
    [&b"NTLMSSP\0\x01\0\0\0"[..], &NTLM_FLAGS.to_le_bytes(), &[0; 16]].concat()
}

fn empty(w: &mut Writer<'_>) {
    w.u16(4);
    w.u16(0);
}

fn lock(w: &mut Writer<'_>, file: FileId, flags: u32) {
    w.u16(48);
    w.u16(1);
    w.u32(0);
    file.encode(w);
    w.u64(0);
    w.u64(1);
    w.u32(flags);
    w.u32(0);
}

/// 128, NTLM2, ALWAYS_SIGN, NTLM, TARGET, UNICODE.
const NTLM_FLAGS: u32 = 0x2008_8205;

/// NTLM's AUTHENTICATE message, with the password proof. MS-NLMP 2.2.1.3, 3.3.2.
fn authenticate(user: &str, password: &str, challenge: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let hmac = |key: &[u8], parts: &[&[u8]]| -> [u8; 16] {
        let mut mac = Hmac::<Md5>::new_from_slice(key).unwrap();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    };
    let mut blob = vec![1, 1];
    blob.extend_from_slice(&[0; 30]);
    let hash = NtHash::of_password(password).ntowf_v2(user, "");
    let proof = hmac(&hash, &[challenge, &blob]);
    // An anonymous logon has no proof.
    let nt = if user.is_empty() { Vec::new() } else { [&proof[..], &blob].concat() };
    let mut name = Vec::new();
    put_utf16(&mut name, user);
    let mut message = b"NTLMSSP\0\x03\0\0\0".to_vec();
    let mut offset = 64u32;
    for length in [0, nt.len(), 0, name.len(), 0, 0] {
        message.extend_from_slice(&(length as u16).to_le_bytes());
        message.extend_from_slice(&(length as u16).to_le_bytes());
        message.extend_from_slice(&offset.to_le_bytes());
        offset += length as u32;
    }
    message.extend_from_slice(&NTLM_FLAGS.to_le_bytes());
    message.extend_from_slice(&nt);
    message.extend_from_slice(&name);
    (message, hmac(&hash, &[&proof]))
}
