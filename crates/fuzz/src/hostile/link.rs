//! Both ends of one connection: the server's state machine, and the client's knowledge.

use super::surroundings::{EpisodeSurroundings, EpisodeUser};
use crate::mutate::Rng;
use bytes::BytesMut;
use futures_util::FutureExt;
use smb::{FrameJob, SmbCloseReason, SmbConn, SmbConnFacts, SmbServer};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use wire::codec::{Reader, Writer};
use wire::crypto::{Cipher, OpeningKey, PreauthHash, SealingKey, SigningAlgorithm, SigningKey};
use wire::frame::PREFIX_BYTES;
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::{
    self, NegotiateRequest, NegotiateResponse, capabilities, context, decode_algorithms,
};
use wire::smb::{
    Command, Dialect, FileId, Flags, Header, MessageId, SessionId, TransformHeader, TreeId,
    next_element,
};
use wire::wiretap::Wiretap;

/// Most waiting requests of one connection.
pub const WAITING_MAX: usize = 16;

/// The result of NEGOTIATE.
#[derive(Clone, Copy, Debug)]
pub struct ConnParameters {
    pub dialect: Dialect,
    pub signing: SigningAlgorithm,
    pub cipher: Option<Cipher>,
}

/// A client's offer in NEGOTIATE.
#[derive(Clone, Debug)]
pub struct HostileOffer {
    pub client_guid: [u8; 16],
    pub dialect: Dialect,
    pub signing: Vec<u16>,
    pub ciphers: Vec<u16>,
    pub posix: bool,
}

/// A session's encryption keys, shared by its channels.
#[derive(Debug)]
pub struct SealKeys {
    pub seal: SealingKey,
    pub open: OpeningKey,
}

/// A session as its client sees it.
#[derive(Clone, Debug)]
pub struct KnownSession {
    pub id: SessionId,
    pub user: EpisodeUser,
    /// Signing key of its first channel.
    pub session_key: Arc<SigningKey>,
    /// Signing key of this channel.
    pub channel_key: Arc<SigningKey>,
    pub seals: Option<Arc<SealKeys>>,
    /// The server requires encryption.
    pub encrypts: bool,
}

/// The purpose of an exchange.
#[derive(Clone, Debug)]
pub enum LogonPurpose {
    New,
    Renew(KnownSession),
    /// Binds a session of another connection.
    Bind(KnownSession),
}

/// An exchange after the server's challenge.
#[derive(Clone, Debug)]
pub struct HalfLogon {
    pub purpose: LogonPurpose,
    pub session_id: SessionId,
    pub challenge: Vec<u8>,
    pub preauth: PreauthHash,
}

/// An open as its client sees it.
#[derive(Clone, Debug)]
pub struct KnownOpen {
    pub file_id: FileId,
    pub name: &'static str,
    /// CreateGuid, if the open was requested as durable.
    pub create_guid: Option<[u8; 16]>,
    pub is_durable: bool,
    pub lease_key: Option<[u8; 16]>,
}

/// The proof that a message comes from its session's client.
#[derive(Clone, Debug)]
pub enum MessageProtection {
    Plain,
    Signed(Arc<SigningKey>),
    /// The signed flag with random bytes as signature.
    Forged,
    Sealed(Arc<SealKeys>, SessionId),
}

/// One message of a reply.
#[derive(Clone, Debug)]
pub struct ReplyMessage {
    pub header: Header,
    pub bytes: Vec<u8>,
}

/// One connection with its client; see the module.
pub struct HostileLink {
    pub user: EpisodeUser,
    pub offer: HostileOffer,
    pub agreed: ConnParameters,
    /// Preauthentication hash after NEGOTIATE.
    pub preauth: PreauthHash,
    pub session: Option<KnownSession>,
    pub tree: TreeId,
    pub opens: Vec<KnownOpen>,
    pub half: Option<HalfLogon>,
    pub next_id: u64,
    /// The last sent frame.
    pub last_frame: Vec<u8>,
    /// Encryption keys of another user's session on this connection.
    pub neighbour: Option<Arc<SealKeys>>,
    jobs: Vec<FrameJob>,
    conn: Option<SmbConn>,
    wiretap: Wiretap,
    replies: Vec<ReplyMessage>,
}

impl HostileLink {
    /// A connection after NEGOTIATE; none if the server has refused it.
    pub fn connect(
        server: &Arc<SmbServer>,
        around: &EpisodeSurroundings,
        user: EpisodeUser,
        offer: HostileOffer,
        number: u64,
    ) -> Option<Self> {
        // The victim's address is a usual network of its account, so guesses from elsewhere do not
        // delay its logons.
        let at = if user == EpisodeUser::Alice { 1 } else { number as u8 };
        let peer = Ipv4Addr::new(10, user as u8, 0, at);
        let facts = SmbConnFacts {
            id: number,
            peer: SocketAddr::from((peer, 40_000)),
            local: SocketAddr::from((Ipv4Addr::LOCALHOST, 445)),
        };
        let (signing, cipher) = (SigningAlgorithm::HmacSha256, None);
        let mut link = Self {
            user,
            agreed: ConnParameters { dialect: offer.dialect, signing, cipher },
            offer,
            preauth: PreauthHash::default(),
            session: None,
            tree: TreeId(0),
            opens: Vec::new(),
            half: None,
            next_id: 0,
            last_frame: Vec::new(),
            neighbour: None,
            jobs: Vec::new(),
            conn: Some(SmbConn::new(server.clone(), facts)),
            wiretap: Wiretap::default(),
            replies: Vec::new(),
        };
        link.negotiate(around).map(|()| link)
    }

    fn negotiate(&mut self, around: &EpisodeSurroundings) -> Option<()> {
        let (mut preauth, mut signing, mut ciphers) = (Vec::new(), Vec::new(), Vec::new());
        negotiate::put_preauth(&mut preauth, &[1; 32]);
        negotiate::put_algorithms(&mut signing, &self.offer.signing);
        negotiate::put_algorithms(&mut ciphers, &self.offer.ciphers);
        let posix = wire::fscc::POSIX_EXTENSIONS;
        let mut contexts = vec![(context::PREAUTH_INTEGRITY, &preauth[..])];
        contexts
            .extend((!self.offer.signing.is_empty()).then_some((context::SIGNING, &signing[..])));
        contexts.extend(
            (!self.offer.ciphers.is_empty()).then_some((context::ENCRYPTION, &ciphers[..])),
        );
        contexts.extend(self.offer.posix.then_some((context::POSIX_EXTENSIONS, &posix[..])));
        let request = NegotiateRequest {
            security_mode: 1,
            capabilities: capabilities::MULTI_CHANNEL
                | capabilities::LEASING
                | capabilities::LARGE_MTU
                | if self.offer.ciphers.is_empty() { 0 } else { capabilities::ENCRYPTION },
            client_guid: self.offer.client_guid,
            dialects: vec![self.offer.dialect.number()],
            contexts,
        };
        let header = self.header(Command::NEGOTIATE);
        let reply = self.call(around, header, &MessageProtection::Plain, |w| request.encode(w))?;
        let mut r = Reader::new(&reply.bytes);
        r.skip(Header::LENGTH, "header").ok()?;
        let response = NegotiateResponse::decode(&mut r).ok()?;
        let dialect = Dialect::from_number(response.dialect)?;
        let chosen = |kind| {
            response.context(kind).and_then(|data| Some(*decode_algorithms(data).ok()?.first()?))
        };
        let seals = response.capabilities & capabilities::ENCRYPTION != 0;
        self.agreed = match dialect {
            Dialect::Smb311 => ConnParameters {
                dialect,
                signing: chosen(context::SIGNING)
                    .and_then(SigningAlgorithm::from_number)
                    .unwrap_or(SigningAlgorithm::AesCmac),
                cipher: chosen(context::ENCRYPTION).and_then(Cipher::from_number),
            },
            Dialect::Smb300 | Dialect::Smb302 => ConnParameters {
                dialect,
                signing: SigningAlgorithm::AesCmac,
                cipher: seals.then_some(Cipher::Aes128Ccm),
            },
            _ => ConnParameters { dialect, signing: SigningAlgorithm::HmacSha256, cipher: None },
        };
        if dialect == Dialect::Smb311 {
            self.preauth.update(&self.last_frame.clone());
            self.preauth.update(&reply.bytes);
        }
        Some(())
    }

    /// True once the server has closed the connection.
    pub fn is_closed(&self) -> bool {
        self.conn.is_none()
    }

    /// The header of the next request in the client's session.
    pub fn header(&mut self, command: Command) -> Header {
        let message_id = MessageId(self.next_id);
        self.next_id += u64::from(command != Command::CANCEL);
        Header {
            credit_charge: 1,
            status: NtStatus::SUCCESS,
            command,
            credits: 64,
            flags: Flags::default(),
            next_command: 0,
            message_id,
            process_id: 0,
            tree_id: self.tree,
            session_id: self.session.as_ref().map_or(SessionId(0), |session| session.id),
            signature: [0; 16],
        }
    }

    /// The protection that an honest client uses here.
    pub fn protection(&self) -> MessageProtection {
        let Some(session) = &self.session else { return MessageProtection::Plain };
        match &session.seals {
            Some(seals) if session.encrypts => MessageProtection::Sealed(seals.clone(), session.id),
            _ if matches!(session.user, EpisodeUser::Stranger | EpisodeUser::Anonymous) => {
                MessageProtection::Plain
            }
            _ => MessageProtection::Signed(session.channel_key.clone()),
        }
    }

    /// Sends a request; returns the immediate response, if any.
    pub fn call(
        &mut self,
        around: &EpisodeSurroundings,
        header: Header,
        protection: &MessageProtection,
        body: impl FnOnce(&mut Writer<'_>),
    ) -> Option<ReplyMessage> {
        let message = encode(header, body);
        self.send(around, &[message], protection).ok()?;
        self.answer(header.message_id)
    }

    /// Sends messages as one frame, each with its own protection or all encrypted together.
    pub fn send(
        &mut self,
        around: &EpisodeSurroundings,
        messages: &[Vec<u8>],
        protection: &MessageProtection,
    ) -> Result<(), SmbCloseReason> {
        let mut frame = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            let mut message = message.clone();
            if at + 1 < messages.len() {
                message.resize(message.len().next_multiple_of(8), 0);
                let next = message.len() as u32;
                message[20..24].copy_from_slice(&next.to_le_bytes());
            }
            match protection {
                MessageProtection::Signed(key) => {
                    message[16] |= Flags::SIGNED.0 as u8;
                    key.sign(&mut message);
                }
                MessageProtection::Forged => {
                    message[16] |= Flags::SIGNED.0 as u8;
                    message[Header::SIGNATURE].fill(0xA5);
                }
                MessageProtection::Plain | MessageProtection::Sealed(..) => {}
            }
            frame.extend_from_slice(&message);
        }
        if let MessageProtection::Sealed(seals, id) = protection {
            let mut sealed = vec![0; TransformHeader::LENGTH];
            sealed.extend_from_slice(&frame);
            seals.seal.seal_in_place(&mut sealed, *id);
            frame = sealed;
        }
        self.feed(around, frame)
    }

    /// Passes a frame to the server unchanged.
    pub fn feed(
        &mut self,
        around: &EpisodeSurroundings,
        frame: Vec<u8>,
    ) -> Result<(), SmbCloseReason> {
        let Some(conn) = &mut self.conn else { return Ok(()) };
        around.count_frame();
        let user = self.user;
        around.journal.note(|| format!("{user:?} sends {}", described(&frame)));
        let handed = conn.handle_frame(BytesMut::from(&frame[..]), smb::SmbHost::now(around));
        self.last_frame = frame;
        if let Err(close) = handed {
            self.cut();
            return Err(close);
        }
        self.poll(around);
        Ok(())
    }

    /// Runs the server as far as possible, and receives its responses.
    pub fn poll(&mut self, around: &EpisodeSurroundings) {
        let now = smb::SmbHost::now(around);
        let Some(conn) = &mut self.conn else { return };
        if conn.poll_timeout().is_some_and(|due| due <= now.instant) {
            conn.handle_timeout(now);
        }
        while let Some(job) = conn.poll_job() {
            self.jobs.push(job);
        }
        // Jobs are polled in order, but one may wait for a later one.
        let mut waiting = Vec::new();
        for mut job in self.jobs.drain(..) {
            match job.as_mut().now_or_never() {
                Some(finished) => conn.handle_finished(finished, now),
                None => waiting.push(job),
            }
        }
        waiting.truncate(WAITING_MAX);
        self.jobs = waiting;
        while let Some(transmit) = conn.poll_transmit().or_else(|| conn.poll_notice()) {
            let frame = transmit.buffer[transmit.start + PREFIX_BYTES..].to_vec();
            if let Err(reuse) = self.wiretap.observe(&frame) {
                panic!("{reuse}");
            }
            let user = self.user;
            around.journal.note(|| format!("  {user:?} gets {}", described(&frame)));
            conn.recycle(transmit.buffer);
            let seals = self.session.as_ref().and_then(|session| session.seals.as_ref());
            let keys = seals.into_iter().chain(&self.neighbour).map(|seals| &seals.open);
            take_frame(frame, keys, &mut self.replies);
        }
    }

    /// The final response to a request, if it has arrived.
    pub fn answer(&mut self, id: MessageId) -> Option<ReplyMessage> {
        let is_final = |reply: &ReplyMessage| {
            reply.header.message_id == id && reply.header.status != NtStatus::PENDING
        };
        let at = self.replies.iter().position(is_final)?;
        Some(self.replies.remove(at))
    }

    /// The received messages that were not taken yet.
    pub fn take_replies(&mut self) -> Vec<ReplyMessage> {
        std::mem::take(&mut self.replies)
    }

    /// Cuts the connection.
    pub fn cut(&mut self) {
        // Jobs hold opens, so they must drop before the connection ends its sessions.
        self.jobs.clear();
        self.conn = None;
    }
}

/// Describes the first message of a frame for the journal.
fn described(frame: &[u8]) -> String {
    let Ok(header) = Header::decode(&mut Reader::new(frame)) else {
        return format!("{} bytes", frame.len());
    };
    let Header { command, status, flags, message_id, tree_id, session_id, .. } = header;
    let (command, status, flags) = (command.0, status.0, flags.0);
    let (message_id, tree_id, session_id) = (message_id.0, tree_id.0, session_id.0);
    format!(
        "command {command}, status {status:#x}, flags {flags:#x}, message {message_id:#x}, \
         tree {tree_id}, session {session_id:#x}, {} bytes",
        frame.len()
    )
}

/// Encodes one message.
pub fn encode(header: Header, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut message = Vec::new();
    let mut w = Writer::new(&mut message);
    header.encode(&mut w);
    body(&mut w);
    message
}

fn take_frame<'a>(
    mut frame: Vec<u8>,
    mut keys: impl Iterator<Item = &'a OpeningKey>,
    replies: &mut Vec<ReplyMessage>,
) {
    let mut start = 0;
    if TransformHeader::decode(&frame).is_ok() {
        let opened = keys.find_map(|key| {
            let mut opened = frame.clone();
            key.open_in_place(&mut opened).ok().map(|()| opened)
        });
        let Some(opened) = opened else { return };
        (frame, start) = (opened, TransformHeader::LENGTH);
    }
    let frame = &frame[start..];
    let mut at = 0;
    loop {
        let header = Header::decode(&mut Reader::new(&frame[at..])).unwrap();
        let range = next_element(frame.len(), at, header.next_command).unwrap();
        replies.push(ReplyMessage { header, bytes: frame[range.clone()].to_vec() });
        if header.next_command == 0 {
            return;
        }
        at = range.end;
    }
}

/// A random element of a list.
pub fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len())]
}

/// True with a probability of `chance` per cent.
pub fn percent(rng: &mut Rng, chance: usize) -> bool {
    rng.below(100) < chance
}
