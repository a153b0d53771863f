//! One session with a server over as many channels as are useful. Channels are opened, chosen by
//! free credits and load, and replaced when they fail. MS-SMB2 3.2.4.1.7, 3.2.7.1.

use crate::channel::{ChannelFacts, ClientChannel};
use crate::error::Error;
use crate::inbound::{Frame, InboundBytes};
use crate::interfaces::choose_paths;
use crate::limits::{
    BIND_WITHIN, CHAIN_MAX, CHANNELS_MAX, FRAME_BYTES_MAX_BEFORE_LOGON, INTERFACES_MAX, NEAR_TRIES,
    NEAR_WITHIN, REOPEN_PAUSE_MAX, REOPEN_TRIES_MAX, REPLAY_PAUSE, REPLAY_RETRIES_MAX, REPLAYS_MAX,
    SET_UP_WITHIN,
};
use crate::link::{connect, is_here};
use crate::options::{ChannelOpening, SmbOptions};
use crate::pool::BufferPool;
use crate::request::{RequestBody, ResendPolicy, SmbRequest};
use crate::session::{ClientSession, NegotiatedParameters};
use crate::set_up::{EstablishedConnection, Logon, Offer, SetUp, SetUpStep};
use crate::slots::ChannelReply;
use crate::tree::SmbTree;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use wire::codec::Reader;
use wire::crypto::SigningAlgorithm;
use wire::fscc::FileTime;
use wire::ntlm::{NtlmCredentials, Secrets};
use wire::ntstatus::NtStatus;
use wire::smb::fsctl::{QUERY_NETWORK_INTERFACE_INFO, VALIDATE_NEGOTIATE_INFO, ValidateNegotiate};
use wire::smb::negotiate::capabilities;
use wire::smb::{
    Command, Dialect, FileId, Header, IoctlRequest, IoctlResponse, NetworkInterface, TreeId,
};
use wire::spnego;

/// Randomness and time. A program supplies both in one place.
pub trait ClientHost: std::fmt::Debug + Send + Sync {
    /// Fills `out` with unpredictable bytes.
    fn random(&self, out: &mut [u8]);
    /// The current time.
    fn now(&self) -> FileTime;
}

/// Source of Kerberos tickets.
pub trait Tickets: std::fmt::Debug + Send + Sync {
    /// Starts an exchange with the file server of this name. The call may block on the realm's
    /// KDCs, so the client makes it on a blocking thread.
    ///
    /// # Errors
    /// A description, if there is no ticket.
    fn ticket(&self, server: &str) -> Result<Box<dyn spnego::Ticket>, String>;
}

/// The server and the user.
#[derive(Clone, Debug)]
pub struct SmbTarget {
    /// Server name, as in `\
    ///
    /// ame\share`.
    pub name: String,
    /// Server address.
    pub address: SocketAddr,
    /// The user's credentials.
    pub credentials: NtlmCredentials,
    /// Source of tickets; if set, the credentials are unused.
    pub tickets: Option<Arc<dyn Tickets>>,
}

impl SmbTarget {
    async fn ticket(&self) -> Result<Option<Box<dyn spnego::Ticket>>, Error> {
        let Some(tickets) = self.tickets.clone() else { return Ok(None) };
        let name = self.name.clone();
        let found = tokio::task::spawn_blocking(move || tickets.ticket(&name)).await;
        match found {
            Ok(Ok(ticket)) => Ok(Some(ticket)),
            Ok(Err(why)) => Err(Error::NoTicket(why.into())),
            Err(_) => Err(Error::NoTicket("the search for a ticket failed".into())),
        }
    }
}

/// Channel events of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Lost channels.
    pub lost: u64,
    /// Reopened channels.
    pub reopened: u64,
    /// Requests that were sent again.
    pub replayed: u64,
}

/// A session. Cheap to clone; dropping the last clone ends it.
#[derive(Clone, Debug)]
pub struct SmbClient {
    inner: Arc<SmbClientState>,
}

#[derive(Debug)]
struct SmbClientState {
    target: SmbTarget,
    options: SmbOptions,
    host: Arc<dyn ClientHost>,
    session: Arc<ClientSession>,
    offer: Offer,
    channels: Mutex<Vec<Arc<ClientChannel>>>,
    /// Why there are fewer channels than configured.
    refusal: Mutex<Option<Error>>,
    pool: Arc<BufferPool>,
    closing: AtomicBool,
    lost: AtomicU64,
    reopened: AtomicU64,
    replayed: AtomicU64,
    /// Whether the server's WRITE preserves times that were set on the same open, once known.
    keeps_times: OnceLock<bool>,
}

impl Drop for SmbClientState {
    fn drop(&mut self) {
        let error = Error::lost(false, "the client ended");
        self.channels.lock().drain(..).for_each(|channel| channel.end(error.clone()));
    }
}

impl SmbClient {
    /// Connects, logs on, and opens or starts to open the further channels: see [`ChannelOpening`].
    /// Must be called within a tokio runtime, on which the channels then run.
    ///
    /// # Errors
    /// Why there is no session. The failure of a further channel is no error.
    pub async fn connect(
        target: SmbTarget,
        options: SmbOptions,
        host: Arc<dyn ClientHost>,
    ) -> Result<Self, Error> {
        let (stream, ready) =
            open(&target, &options, &*host, target.address, (None, SET_UP_WITHIN)).await?;
        let EstablishedConnection { conn, offer } = ready;
        let inner = Arc::new(SmbClientState {
            session: conn.session().clone(),
            target,
            offer,
            channels: Mutex::default(),
            refusal: Mutex::default(),
            pool: Arc::default(),
            closing: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            reopened: AtomicU64::new(0),
            replayed: AtomicU64::new(0),
            keeps_times: OnceLock::new(),
            options,
            host,
        });
        inner.adopt(stream, conn)?;
        let client = Self { inner };
        if client.inner.options.channels > 1 {
            client.begin_channels().await;
        }
        Ok(client)
    }

    /// Opens another session with the same server and user, over one connection and with another
    /// ClientGuid, so that the server regards it as another client.
    ///
    /// # Errors
    /// Like [`SmbClient::connect`].
    pub async fn another(&self) -> Result<Self, Error> {
        let SmbClientState { target, options, host, .. } = &*self.inner;
        let mut client_guid = [0; 16];
        host.random(&mut client_guid);
        let options = SmbOptions { client_guid, channels: 1, ..options.clone() };
        Self::connect(target.clone(), options, host.clone()).await
    }

    /// The configured number of connections.
    #[must_use]
    pub fn channels_wanted(&self) -> usize {
        self.inner.options.channels
    }

    /// Connects to a share.
    ///
    /// # Errors
    /// The server's refusal, or a failed validation of NEGOTIATE.
    pub async fn tree(&self, share: &str) -> Result<SmbTree, Error> {
        let tree = SmbTree::connect(self, share).await?;
        self.validate(&tree).await?;
        Ok(tree)
    }

    /// The negotiated parameters.
    #[must_use]
    pub fn negotiated(&self) -> &NegotiatedParameters {
        &self.inner.session.negotiated
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<ClientSession> {
        &self.inner.session
    }

    /// The server's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.target.name
    }

    /// The live channels.
    #[must_use]
    pub fn channels(&self) -> Vec<ChannelFacts> {
        self.inner.channels.lock().iter().map(|channel| channel.facts()).collect()
    }

    /// Why the server refused a further channel, if it did.
    #[must_use]
    pub fn refusal(&self) -> Option<Error> {
        self.inner.refusal.lock().clone()
    }

    /// Channel events so far.
    #[must_use]
    pub fn counters(&self) -> ChannelCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let inner = &self.inner;
        ChannelCounters {
            lost: read(&inner.lost),
            reopened: read(&inner.reopened),
            replayed: read(&inner.replayed),
        }
    }

    /// True if a channel is alive, so that a retry makes sense.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.inner.is_over()
    }

    /// True if the server is another process of this machine: it has a local address, and its
    /// fastest response arrives within [`NEAR_WITHIN`], which excludes forwarded ports.
    pub async fn is_near(&self) -> bool {
        self.channels().iter().all(|one| is_here(one.local.ip(), one.remote.ip()))
            && self.answers_within(NEAR_WITHIN).await
    }

    async fn answers_within(&self, limit: Duration) -> bool {
        // A forwarded port has a local address, too.
        for _ in 0..NEAR_TRIES {
            let begun = tokio::time::Instant::now();
            if self.call(SmbRequest::new(RequestBody::Echo, TreeId(0))).await.is_err() {
                return false;
            }
            if begun.elapsed() <= limit {
                return true;
            }
        }
        false
    }

    /// Whether WRITE preserves times that were set on the same open; `None` while unknown. MS-FSA
    /// 2.1.5.4.
    pub(crate) fn keeps_times_set(&self) -> Option<bool> {
        self.inner.keeps_times.get().copied()
    }

    /// Records that observation; the first one counts.
    pub(crate) fn learn_times_set(&self, keeps: bool) {
        let _ = self.inner.keeps_times.set(keeps);
    }

    /// True if both are the same session.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Logs off and closes all channels.
    pub async fn close(&self) {
        self.inner.closing.store(true, Ordering::Relaxed);
        let request = SmbRequest::new(RequestBody::Logoff, TreeId(0));
        let _ = tokio::time::timeout(Duration::from_secs(2), self.call(request)).await;
        let error = Error::lost(false, "logged off");
        self.inner.channels.lock().drain(..).for_each(|channel| channel.end(error.clone()));
    }

    async fn begin_channels(&self) {
        let session = self.session();
        match self.inner.options.opening {
            ChannelOpening::Before => self.open_channels().await,
            ChannelOpening::WhereTheyHelp
                if !session.signs && !session.seals && self.is_near().await => {}
            ChannelOpening::Meanwhile | ChannelOpening::WhereTheyHelp => {
                let client = self.clone();
                tokio::spawn(async move { client.open_channels().await });
            }
        }
    }

    /// Queries the server's interfaces, and opens channels to the best ones concurrently, because
    /// each takes several round trips. Channels that a server drops when several arrive at once
    /// (see [`BIND_WITHIN`]) are retried one after the other.
    async fn open_channels(&self) {
        let count = self.inner.options.channels.min(CHANNELS_MAX);
        let negotiated = self.negotiated();
        let able = negotiated.dialect >= Dialect::Smb300 && !self.inner.session.is_guest;
        // Binding reuses nonces of the session's AES-GMAC key.
        if able && count > 1 && negotiated.signing == SigningAlgorithm::AesGmac {
            let why = "a session that is signed by AES-GMAC has one channel";
            *self.inner.refusal.lock() = Some(Error::Incompatible(why));
            return;
        }
        if !able || negotiated.capabilities & capabilities::MULTI_CHANNEL == 0 {
            return;
        }
        let mut opening = JoinSet::new();
        for path in self.paths(count).await {
            let inner = self.inner.clone();
            opening.spawn(async move { inner.open_beside(path).await.err().map(|_| path) });
        }
        for path in opening.join_all().await.into_iter().flatten() {
            match self.inner.open_one(path).await {
                Ok(()) => {}
                // The server has reached its own limit.
                Err(error @ (Error::Refused(..) | Error::Incompatible(_))) => {
                    *self.inner.refusal.lock() = Some(error);
                    break;
                }
                Err(_) if self.inner.is_over() => break,
                Err(_) => {
                    drop(tokio::spawn(SmbClientState::reopen(Arc::downgrade(&self.inner), path)))
                }
            }
        }
    }

    /// Addresses of the channels after the first.
    async fn paths(&self, count: usize) -> Vec<SocketAddr> {
        let (options, present) = (&self.inner.options, self.inner.target.address);
        if !options.paths.is_empty() {
            return options.paths.iter().copied().cycle().take(count - 1).collect();
        }
        let interfaces = self.interfaces().await.unwrap_or_default();
        let paths = choose_paths(&interfaces, present.ip(), count, options.assume_rss);
        let at = |ip: &IpAddr| SocketAddr::new(*ip, present.port());
        paths.iter().skip(1).map(at).collect()
    }

    /// The server's network interfaces.
    ///
    /// # Errors
    /// The server's refusal; some servers do not support the query.
    pub async fn interfaces(&self) -> Result<Vec<NetworkInterface>, Error> {
        let tree = SmbTree::connect(self, "IPC$").await?;
        let output = self.control(&tree, QUERY_NETWORK_INTERFACE_INFO, &[]).await;
        let list =
            output.and_then(|bytes| Ok(NetworkInterface::decode_list(&bytes, INTERFACES_MAX)?));
        // Runs in the background, because no caller waits for it.
        tokio::spawn(tree.disconnect());
        list
    }

    async fn control(&self, tree: &SmbTree, code: u32, input: &[u8]) -> Result<Vec<u8>, Error> {
        let body = RequestBody::Ioctl(IoctlRequest {
            code,
            file_id: FileId::RELATED,
            input,
            input_bytes_max: 0,
            output_bytes_max: 64 * 1024,
            is_fsctl: true,
        });
        let reply = self.call(tree.request(body)).await?;
        let mut r = Reader::new(&reply.message);
        r.skip(Header::LENGTH, "header")?;
        Ok(IoctlResponse::decode(&mut r)?.output.to_vec())
    }

    /// Before 3.1.1 nothing protects NEGOTIATE itself, so the client validates it with a signed
    /// request. MS-SMB2 3.2.5.5.
    async fn validate(&self, tree: &SmbTree) -> Result<(), Error> {
        let (negotiated, offer) = (self.negotiated(), &self.inner.offer);
        let newest = offer.dialects.last().copied().unwrap_or_default();
        let unprotected = negotiated.dialect < Dialect::Smb311 && newest >= 0x0300;
        if !unprotected || self.inner.session.is_guest {
            return Ok(());
        }
        let input = ValidateNegotiate {
            capabilities: offer.capabilities,
            guid: self.inner.options.client_guid,
            security_mode: offer.security_mode,
            dialects: offer.dialects.clone(),
        };
        let output = match self.control(tree, VALIDATE_NEGOTIATE_INFO, &input.encode()).await {
            Ok(output) => output,
            // A signed refusal proves that the server does not support the request.
            Err(Error::Refused(
                _,
                NtStatus::FILE_CLOSED
                | NtStatus::NOT_SUPPORTED
                | NtStatus::INVALID_DEVICE_REQUEST
                | NtStatus::FS_DRIVER_REQUIRED,
            )) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut r = Reader::new(&output);
        let capabilities = r.u32("validation")?;
        let guid: [u8; 16] = r.array("validation")?;
        let (mode, dialect) = (r.u16("validation")?, r.u16("validation")?);
        let said = (negotiated.capabilities, negotiated.server_guid);
        let same = (capabilities, guid) == said
            && mode == negotiated.security_mode
            && dialect == negotiated.dialect.number();
        if same { Ok(()) } else { Err(Error::Hostile("NEGOTIATE was modified in transit")) }
    }

    /// Sends a request on the least busy channel, replays it on another one if that fails, and
    /// waits for the response.
    pub(crate) async fn call(&self, mut request: SmbRequest<'_>) -> Result<ChannelReply, Error> {
        let (mut replays, mut retries, mut was_sent) = (0, 0, false);
        loop {
            let again = request.again();
            let answer = self.once(std::slice::from_ref(&request)).await;
            match answer.map(first) {
                Ok(Some(reply)) => {
                    let status = reply.header.status;
                    // The server is still executing the first transmission, or another channel was
                    // lost meanwhile.
                    let crossed = status == NtStatus::FILE_NOT_AVAILABLE
                        && again == ResendPolicy::Replay
                        && self.session().sequence() > 0;
                    if crossed && retries < REPLAY_RETRIES_MAX {
                        retries += 1;
                        request.is_replay = true;
                        tokio::time::sleep(REPLAY_PAUSE).await;
                        continue;
                    }
                    // The first transmission was executed.
                    let is_closed = request.command() == Command::CLOSE
                        && status == NtStatus::FILE_CLOSED
                        && was_sent;
                    return if is_closed { Ok(reply) } else { judge(&request, reply) };
                }
                Ok(None) => return Err(Error::Hostile("a request without its reply")),
                Err(Error::Lost { sent, why }) => {
                    let may = !sent || again != ResendPolicy::Never;
                    if !may || replays == REPLAYS_MAX || self.inner.is_over() {
                        return Err(Error::Lost { sent, why });
                    }
                    replays += 1;
                    was_sent |= sent;
                    self.inner.replayed.fetch_add(1, Ordering::Relaxed);
                    request.is_replay |=
                        sent && again == ResendPolicy::Replay && self.has_sequences();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a chain of related requests; the caller judges the responses.
    pub(crate) async fn chain(
        &self,
        chain: &[SmbRequest<'_>],
    ) -> Result<[Option<ChannelReply>; CHAIN_MAX], Error> {
        self.once(chain).await
    }

    async fn once(
        &self,
        chain: &[SmbRequest<'_>],
    ) -> Result<[Option<ChannelReply>; CHAIN_MAX], Error> {
        let channel = self.inner.pick(chain)?;
        channel.call(chain).await
    }

    fn has_sequences(&self) -> bool {
        self.negotiated().dialect >= Dialect::Smb300
    }

    /// A CREATE with a CreateGuid can be replayed if its response is lost with the channel.
    pub(crate) fn create_guid(&self) -> Option<[u8; 16]> {
        (self.has_sequences() && self.inner.options.channels > 1).then(|| {
            let mut guid = [0; 16];
            self.inner.host.random(&mut guid);
            guid
        })
    }
}

fn first(replies: [Option<ChannelReply>; CHAIN_MAX]) -> Option<ChannelReply> {
    replies.into_iter().next().flatten()
}

/// Converts an error response to an error.
fn judge(request: &SmbRequest<'_>, reply: ChannelReply) -> Result<ChannelReply, Error> {
    let status = reply.header.status;
    if status == NtStatus::SUCCESS || status == NtStatus::BUFFER_OVERFLOW {
        return Ok(reply);
    }
    Err(Error::Refused(request.command(), status))
}

impl SmbClientState {
    /// Adds an established connection.
    fn adopt(
        self: &Arc<Self>,
        stream: TcpStream,
        conn: crate::conn::ClientConn,
    ) -> Result<(), Error> {
        let weak = Arc::downgrade(self);
        let on_end = move |channel: Arc<ClientChannel>| Self::lost(&weak, &channel);
        let patience = self.options.patience;
        let channel = ClientChannel::start(stream, conn, self.pool.clone(), patience, on_end)?;
        let mut channels = self.channels.lock();
        // A closing client sets the flag before it collects the channels.
        if self.closing.load(Ordering::Relaxed) {
            channel.end(Error::lost(false, "logged off"));
        } else {
            channels.push(channel);
        }
        Ok(())
    }

    /// Opens one more channel of the session. `within`: see [`open`].
    async fn bind(self: &Arc<Self>, path: SocketAddr, within: Duration) -> Result<(), Error> {
        let binds = (Some(self.session.clone()), within);
        let opened = open(&self.target, &self.options, &*self.host, path, binds).await?;
        self.adopt(opened.0, opened.1.conn)
    }

    /// Like [`SmbClientState::open_one`], concurrently with others: a broken connection says
    /// nothing about its path.
    async fn open_beside(self: &Arc<Self>, path: SocketAddr) -> Result<(), Error> {
        let present = self.target.address;
        match self.bind(path, BIND_WITHIN).await {
            Err(error @ Error::Lost { .. }) => Err(error),
            Err(_) if path != present => self.bind(present, BIND_WITHIN).await,
            other => other,
        }
    }

    /// Like [`SmbClientState::bind`], with the first channel's address as the fallback.
    async fn open_one(self: &Arc<Self>, path: SocketAddr) -> Result<(), Error> {
        let present = self.target.address;
        match self.bind(path, SET_UP_WITHIN).await {
            // One of several server addresses may be unreachable from here.
            Err(_) if path != present => self.bind(present, SET_UP_WITHIN).await,
            other => other,
        }
    }

    /// A channel was lost: the others continue immediately, and a new one is opened.
    fn lost(weak: &Weak<Self>, channel: &Arc<ClientChannel>) {
        let Some(inner) = weak.upgrade() else { return };
        let left = {
            let mut channels = inner.channels.lock();
            let before = channels.len();
            channels.retain(|one| !Arc::ptr_eq(one, channel));
            if channels.len() == before {
                return;
            }
            channels.len()
        };
        if inner.closing.load(Ordering::Relaxed) {
            return;
        }
        inner.lost.fetch_add(1, Ordering::Relaxed);
        if left > 0 {
            let path = channel.remote();
            tokio::spawn(Self::reopen(weak.clone(), path));
        }
    }

    async fn reopen(weak: Weak<Self>, path: SocketAddr) {
        let (mut pause, mut within) = (Duration::from_millis(50), BIND_WITHIN);
        for _ in 0..REOPEN_TRIES_MAX {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(REOPEN_PAUSE_MAX);
            let Some(inner) = weak.upgrade() else { return };
            if inner.is_over() {
                return;
            }
            let bound = inner.bind(path, within).await;
            within = (within * 2).min(SET_UP_WITHIN);
            match bound {
                Ok(()) => {
                    inner.reopened.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                // The refusal is permanent.
                Err(Error::Refused(..) | Error::Incompatible(_)) => return,
                Err(_) => {}
            }
        }
    }

    fn is_over(&self) -> bool {
        self.closing.load(Ordering::Relaxed) || self.channels.lock().is_empty()
    }

    /// The channel with credits and the least payload in flight. A lost channel raises the
    /// ChannelSequence before any replay. MS-SMB2 3.2.4.1.7.
    fn pick(&self, chain: &[SmbRequest<'_>]) -> Result<Arc<ClientChannel>, Error> {
        let charge = chain.iter().map(|request| u32::from(request.charge())).sum();
        let mut why = None;
        let channels = self.channels.lock();
        let best = channels
            .iter()
            .filter_map(|channel| match channel.burden(charge) {
                Some(burden) => Some((burden, channel)),
                None => {
                    why = channel.ended();
                    None
                }
            })
            .min_by_key(|(burden, _)| *burden);
        match best {
            Some((_, channel)) => Ok(channel.clone()),
            None => Err(why.unwrap_or_else(|| Error::lost(false, "no channel is left"))),
        }
    }
}

/// Connects with a timeout.
async fn reach(to: SocketAddr) -> Result<TcpStream, Error> {
    let late = |_| Error::Unreachable(std::io::ErrorKind::TimedOut, to.to_string().into());
    tokio::time::timeout(SET_UP_WITHIN, connect(to)).await.map_err(late)?
}

/// Connects and logs on, or binds the connection to `binds`. `within` limits the set-up after the
/// connection.
async fn open(
    target: &SmbTarget,
    options: &SmbOptions,
    host: &dyn ClientHost,
    to: SocketAddr,
    (binds, within): (Option<Arc<ClientSession>>, Duration),
) -> Result<(TcpStream, EstablishedConnection), Error> {
    let stream = reach(to).await?;
    let mut secrets = Secrets { challenge: [0; 8], session_key: [0; 16], now: host.now() };
    host.random(&mut secrets.challenge);
    host.random(&mut secrets.session_key);
    let mut salt = [0; 32];
    host.random(&mut salt);
    let attempt = async {
        let ticket = target.ticket().await?;
        let credentials = target.credentials.clone();
        let logon = Logon { credentials, ticket, secrets, salt, binds };
        set_up(stream, options, logon).await
    };
    match tokio::time::timeout(within, attempt).await {
        Ok(result) => result,
        Err(_) => Err(Error::lost(true, format_args!("{to} does not respond"))),
    }
}

async fn set_up(
    mut stream: TcpStream,
    options: &SmbOptions,
    logon: Logon,
) -> Result<(TcpStream, EstablishedConnection), Error> {
    let (mut set_up, mut frame) = SetUp::new(options, logon)?;
    let mut inbound = InboundBytes::new(Arc::default(), FRAME_BYTES_MAX_BEFORE_LOGON);
    loop {
        stream.write_all(&frame).await.map_err(|e| Error::lost(true, e))?;
        let mut answer = next_frame(&mut stream, &mut inbound).await?;
        match set_up.handle_frame(&mut answer.buffer[..answer.length])? {
            SetUpStep::Send(next) => frame = next,
            // The client sent no request that further bytes could answer.
            SetUpStep::Done(_) if !inbound.is_empty() => {
                return Err(Error::Hostile("data after the logon that no request caused"));
            }
            SetUpStep::Done(ready) => return Ok((stream, *ready)),
        }
    }
}

async fn next_frame(stream: &mut TcpStream, inbound: &mut InboundBytes) -> Result<Frame, Error> {
    loop {
        if let Some(frame) = inbound.next_frame()? {
            return Ok(frame);
        }
        match stream.read(inbound.room()).await {
            Ok(0) => return Err(Error::lost(true, "the server closed it")),
            Ok(count) => inbound.advance(count),
            Err(error) => return Err(Error::lost(true, error)),
        }
    }
}

/// Receives the first frame of a server.
pub(crate) async fn receive_greeting(stream: &mut TcpStream) -> Result<Vec<u8>, Error> {
    let mut inbound = InboundBytes::new(Arc::default(), FRAME_BYTES_MAX_BEFORE_LOGON);
    let mut frame = next_frame(stream, &mut inbound).await?;
    frame.buffer.truncate(frame.length);
    Ok(frame.buffer)
}

#[cfg(test)]
#[path = "client/tests.rs"]
mod tests;
