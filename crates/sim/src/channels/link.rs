//! One connection of a client, with both ends: its set-up as the first or a further channel of a
//! session, its keys, and the requests in flight. MS-SMB2 3.2.4.2, 3.2.5.3.

use crate::environment::PASSWORD;
use crate::messages;
use crate::server_side::ServerSide;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wire::codec::{Reader, Writer};
use wire::crypto::{KeyPurpose, PreauthHash, SigningAlgorithm, SigningKey, derive};
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::{NegotiateRequest, SIGNING_ENABLED, capabilities, context};
use wire::smb::{Command, Dialect, Flags, Header, SessionId, SessionSetupRequest, TreeId};

/// Credits that each request asks for.
const CREDITS_ASKED: u16 = 16;

/// A defect of a binding attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// None.
    None,
    /// The last message belongs to another user.
    OtherUser,
    /// The password is wrong.
    Password,
    /// The message is unsigned.
    Unsigned,
    /// The signature uses a key other than the session's.
    WrongKey,
}

/// Purpose of a connection.
#[derive(Clone, Debug)]
pub enum LinkRole {
    /// First channel of a session, which replaces a lost one.
    New(SessionId),
    /// Further channel of the session with this key and tree.
    Binds(SessionId, TreeId, Arc<SigningKey>, Flaw),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkPhase {
    Negotiate,
    Challenge,
    Authenticate,
    Connect,
    Ready,
    /// Refused, and of no further use.
    Failed,
}

/// Purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePurpose {
    /// Connection set-up.
    SetUp,
    /// First message of a re-authentication; true with the correct password.
    RenewBegin(bool),
    /// Second message of a re-authentication.
    RenewEnd(bool),
    /// LOGOFF.
    LogOff,
    /// Acknowledgment of a break.
    Acknowledge,
    /// An operation, by its number.
    Ask(u32),
}

/// An event from the server's bytes.
#[derive(Debug)]
pub enum LinkEvent {
    /// The set-up has ended, with `NtStatus::SUCCESS` or an error.
    SetUp(NtStatus),
    /// The challenge of a re-authentication has arrived.
    RenewGoesOn(bool),
    /// A final response.
    Reply(MessagePurpose, NtStatus, Vec<u8>),
    /// An unsolicited message.
    Notice(Vec<u8>),
}

/// A connection.
pub struct ChannelLink {
    /// Its machine.
    pub machine: usize,
    /// Its purpose.
    pub role: LinkRole,
    /// The session.
    pub session: SessionId,
    /// The tree.
    pub tree: TreeId,
    /// The server's end, unless a fiber owns it.
    pub side: Option<Box<ServerSide>>,
    /// Bytes in flight to the server.
    pub on_the_way: VecDeque<u8>,
    /// Weights of request delivery, response delivery and service.
    pub weights: [u32; 3],
    /// The network has dropped it.
    pub is_cut: bool,
    /// The client has given it up, and the server does not know.
    pub is_given_up: bool,
    dialect: Dialect,
    guid: [u8; 16],
    user: String,
    phase: LinkPhase,
    preauth: PreauthHash,
    key: Option<Arc<SigningKey>>,
    challenge: Vec<u8>,
    session_key: [u8; 16],
    next_id: u64,
    credits: u32,
    outstanding: BTreeMap<u64, (MessagePurpose, Command)>,
    input: VecDeque<u8>,
}

impl ChannelLink {
    /// A connection that has sent nothing yet.
    pub fn new(machine: usize, role: LinkRole, client: (Dialect, [u8; 16], String)) -> Self {
        let (dialect, guid, user) = client;
        let (session, tree) = match &role {
            LinkRole::New(_) => (SessionId(0), TreeId(0)),
            LinkRole::Binds(session, tree, ..) => (*session, *tree),
        };
        Self {
            machine,
            role,
            session,
            tree,
            side: None,
            on_the_way: VecDeque::new(),
            weights: [10; 3],
            is_cut: false,
            is_given_up: false,
            dialect,
            guid,
            user,
            phase: LinkPhase::Negotiate,
            preauth: PreauthHash::default(),
            key: None,
            challenge: Vec::new(),
            session_key: [0; 16],
            next_id: 0,
            credits: 1,
            outstanding: BTreeMap::new(),
            input: VecDeque::new(),
        }
    }

    /// The key for binding further channels, on the first channel.
    pub fn key(&self) -> Option<Arc<SigningKey>> {
        self.key.clone()
    }

    /// True if the connection can send requests, and its responses count.
    pub fn is_ready(&self) -> bool {
        self.phase == LinkPhase::Ready && !self.is_given_up && !self.is_cut
    }

    /// True if the server has added it to its session.
    pub fn is_channel(&self) -> bool {
        matches!(self.phase, LinkPhase::Connect | LinkPhase::Ready)
    }

    /// True if the next message of the set-up can be sent.
    pub fn has_set_up_to_do(&self) -> bool {
        !matches!(self.phase, LinkPhase::Ready | LinkPhase::Failed)
            && self.outstanding.is_empty()
            && !self.is_cut
            && !self.is_given_up
    }

    /// True if the credits suffice for another request.
    pub fn can_ask(&self) -> bool {
        self.is_ready() && self.credits > 1
    }

    /// True while an authentication is in progress.
    pub fn is_renewing(&self) -> bool {
        let renews = |p: &MessagePurpose| {
            matches!(p, MessagePurpose::RenewBegin(_) | MessagePurpose::RenewEnd(_))
        };
        self.outstanding.values().any(|(purpose, _)| renews(purpose))
    }

    /// Requests in flight.
    pub fn unanswered(&self) -> impl Iterator<Item = MessagePurpose> + '_ {
        self.outstanding.values().map(|(purpose, _)| *purpose)
    }

    /// Sends the next message of the set-up.
    pub fn set_up(&mut self) {
        match self.phase {
            LinkPhase::Negotiate => {
                let body = negotiate(self.dialect, self.guid);
                self.send(Command::NEGOTIATE, &body, MessagePurpose::SetUp, |_| {}, None);
            }
            LinkPhase::Challenge => self.set_up_session(&messages::ntlm_negotiate()),
            LinkPhase::Authenticate => {
                let flaw = match &self.role {
                    LinkRole::Binds(_, _, _, flaw) => *flaw,
                    LinkRole::New(_) => Flaw::None,
                };
                let user = if flaw == Flaw::OtherUser { "stranger" } else { &self.user };
                let password = if flaw == Flaw::Password { "wrong" } else { PASSWORD };
                let (token, key) = messages::ntlm_authenticate(user, password, &self.challenge);
                self.session_key = key;
                self.set_up_session(&token);
            }
            _ => {
                let body = messages::tree_connect("data");
                let key = self.key.clone();
                self.send(
                    Command::TREE_CONNECT,
                    &body,
                    MessagePurpose::SetUp,
                    |_| {},
                    key.as_deref(),
                );
            }
        }
    }

    fn set_up_session(&mut self, token: &[u8]) {
        let (flags, previous, key) = match &self.role {
            LinkRole::New(previous) => (0, *previous, None),
            LinkRole::Binds(_, _, key, flaw) => {
                let wrong = SigningKey::new(SigningAlgorithm::AesCmac, &[9; 16]);
                let key = match flaw {
                    Flaw::Unsigned => None,
                    Flaw::WrongKey => Some(Arc::new(wrong)),
                    _ => Some(key.clone()),
                };
                (SessionSetupRequest::BINDING, SessionId(0), key)
            }
        };
        let request = SessionSetupRequest {
            flags,
            security_mode: 1,
            capabilities: 0,
            previous_session: previous,
            token,
        };
        let body = messages::body(|w| request.encode(w));
        self.send(Command::SESSION_SETUP, &body, MessagePurpose::SetUp, |_| {}, key.as_deref());
    }

    /// Re-authenticates the session.
    pub fn renew(&mut self, purpose: MessagePurpose) {
        let token = match purpose {
            MessagePurpose::RenewBegin(_) => messages::ntlm_negotiate(),
            MessagePurpose::RenewEnd(good) => {
                let password = if good { PASSWORD } else { "wrong" };
                messages::ntlm_authenticate(&self.user, password, &self.challenge).0
            }
            _ => return,
        };
        let body = messages::session_setup(&token);
        let key = self.key.clone();
        self.send(Command::SESSION_SETUP, &body, purpose, |_| {}, key.as_deref());
    }

    /// Sends a request of an established session.
    pub fn ask(
        &mut self,
        command: Command,
        body: &[u8],
        purpose: MessagePurpose,
        sequence: u16,
        replays: bool,
    ) {
        let key = self.key.clone();
        let header = |header: &mut Header| {
            // MS-SMB2 2.2.1.2: ChannelSequence occupies the status field of requests.
            header.status = NtStatus(u32::from(sequence));
            if replays {
                header.flags = header.flags | Flags::REPLAY;
            }
        };
        self.send(command, body, purpose, header, key.as_deref());
    }

    fn send(
        &mut self,
        command: Command,
        body: &[u8],
        purpose: MessagePurpose,
        adjust: impl FnOnce(&mut Header),
        key: Option<&SigningKey>,
    ) {
        let id = self.next_id;
        self.next_id += 1;
        self.credits = self.credits.saturating_sub(1);
        let mut header = messages::header(command, id, CREDITS_ASKED);
        (header.session_id, header.tree_id) = (self.session, self.tree);
        adjust(&mut header);
        if key.is_some() {
            header.flags = header.flags | Flags::SIGNED;
        }
        let mut bytes = vec![0; Header::LENGTH];
        header.put(&mut bytes);
        bytes.extend_from_slice(body);
        if let Some(key) = key {
            key.sign(&mut bytes);
        }
        if self.hashes(command) {
            self.preauth.update(&bytes);
        }
        self.outstanding.insert(id, (purpose, command));
        self.on_the_way.extend((bytes.len() as u32).to_be_bytes());
        self.on_the_way.extend(bytes);
        if self.phase == LinkPhase::Authenticate {
            self.derive_key();
        }
    }

    fn hashes(&self, command: Command) -> bool {
        let sets_up = matches!(command, Command::NEGOTIATE | Command::SESSION_SETUP);
        sets_up && self.phase != LinkPhase::Ready
    }

    fn derive_key(&mut self) {
        let context = if self.dialect == Dialect::Smb311 { self.preauth.0 } else { [0; 64] };
        let key = derive(self.dialect, &self.session_key, KeyPurpose::Signing, &context);
        self.key = Some(Arc::new(SigningKey::new(SigningAlgorithm::AesCmac, &key)));
    }

    /// Receives bytes of the server.
    ///
    /// # Errors
    /// A description of a faulty response.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<LinkEvent>, String> {
        self.input.extend(bytes);
        let mut events = Vec::new();
        loop {
            let prefix: Vec<u8> = self.input.iter().take(4).copied().collect();
            let Ok(prefix) = prefix.try_into() else { return Ok(events) };
            let length = u32::from_be_bytes(prefix) as usize;
            if self.input.len() < 4 + length {
                return Ok(events);
            }
            let message: Vec<u8> = self.input.drain(..4 + length).skip(4).collect();
            let header =
                Header::decode(&mut Reader::new(&message)).map_err(|m| format!("reply: {m}"))?;
            events.extend(self.take(&header, message)?);
        }
    }

    fn take(&mut self, header: &Header, message: Vec<u8>) -> Result<Option<LinkEvent>, String> {
        if header.message_id.0 == u64::MAX {
            return Ok(Some(LinkEvent::Notice(message)));
        }
        let id = header.message_id.0;
        let Some((purpose, command)) = self.outstanding.remove(&id) else {
            return Err(format!("a reply nobody waits for, or a second one: {header:?}"));
        };
        if header.command != command {
            return Err(format!("not the reply to {command:?}: {header:?}"));
        }
        self.credits += u32::from(header.credits);
        if header.status == NtStatus::PENDING {
            self.outstanding.insert(id, (purpose, command));
            return Ok(None);
        }
        self.check_signature(header, &message)?;
        match purpose {
            MessagePurpose::SetUp => self.take_set_up(header, &message),
            MessagePurpose::RenewBegin(good)
                if header.status == NtStatus::MORE_PROCESSING_REQUIRED =>
            {
                self.challenge = challenge(&message)?;
                Ok(Some(LinkEvent::RenewGoesOn(good)))
            }
            _ => Ok(Some(LinkEvent::Reply(purpose, header.status, message))),
        }
    }

    /// Checks that a session's responses are signed with the channel's key.
    fn check_signature(&self, header: &Header, message: &[u8]) -> Result<(), String> {
        let Some(key) = self.key.as_ref().filter(|_| self.phase == LinkPhase::Ready) else {
            return Ok(());
        };
        // A server without the session has no key to sign this status with.
        let must = header.status != NtStatus::USER_SESSION_DELETED;
        let is_signed = header.flags.contains(Flags::SIGNED);
        if (must && !is_signed) || (is_signed && !key.verify(message)) {
            return Err(format!("the signature is missing or wrong: {header:?}"));
        }
        Ok(())
    }

    fn take_set_up(
        &mut self,
        header: &Header,
        message: &[u8],
    ) -> Result<Option<LinkEvent>, String> {
        let (due, next) = match self.phase {
            LinkPhase::Negotiate => (NtStatus::SUCCESS, LinkPhase::Challenge),
            LinkPhase::Challenge => (NtStatus::MORE_PROCESSING_REQUIRED, LinkPhase::Authenticate),
            LinkPhase::Authenticate if matches!(self.role, LinkRole::Binds(..)) => {
                (NtStatus::SUCCESS, LinkPhase::Ready)
            }
            LinkPhase::Authenticate => (NtStatus::SUCCESS, LinkPhase::Connect),
            _ => (NtStatus::SUCCESS, LinkPhase::Ready),
        };
        if header.status != due {
            self.phase = LinkPhase::Failed;
            return Ok(Some(LinkEvent::SetUp(header.status)));
        }
        match self.phase {
            LinkPhase::Negotiate => self.preauth.update(message),
            LinkPhase::Challenge => {
                self.session = header.session_id;
                self.challenge = challenge(message)?;
                self.preauth.update(message);
            }
            LinkPhase::Authenticate => {
                let is_good = self.key.as_ref().is_some_and(|key| key.verify(message));
                if !is_good {
                    return Err("the end of the set-up is not signed by the channel's key".into());
                }
            }
            LinkPhase::Connect => self.tree = header.tree_id,
            _ => {}
        }
        self.phase = next;
        Ok((next == LinkPhase::Ready).then_some(LinkEvent::SetUp(NtStatus::SUCCESS)))
    }
}

fn challenge(message: &[u8]) -> Result<Vec<u8>, String> {
    let at = message.windows(8).position(|w| w == b"NTLMSSP\0").ok_or("no challenge")?;
    Ok(message.get(at + 24..at + 32).ok_or("a short challenge")?.to_vec())
}

fn negotiate(dialect: Dialect, client_guid: [u8; 16]) -> Vec<u8> {
    // SHA-512 without salt; AES-GMAC, which a session with several channels does not get, and
    // AES-CMAC.
    let (preauth, signing) = ([1, 0, 0, 0, 1, 0], [2, 0, 2, 0, 1, 0]);
    let request = NegotiateRequest {
        security_mode: SIGNING_ENABLED,
        capabilities: capabilities::LEASING
            | capabilities::LARGE_MTU
            | capabilities::MULTI_CHANNEL
            | capabilities::PERSISTENT_HANDLES
            | capabilities::DIRECTORY_LEASING,
        client_guid,
        dialects: vec![dialect.number()],
        contexts: vec![(context::PREAUTH_INTEGRITY, &preauth), (context::SIGNING, &signing)],
    };
    messages::body(|w: &mut Writer<'_>| request.encode(w))
}
