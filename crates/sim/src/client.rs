//! An SMB client: successive connections, concurrent requests, and checks of every response.

use crate::environment::PASSWORD;
use crate::history::OperationHistory;
use crate::messages::{self, UnframedMessage};
use crate::model::{CELL_BYTES, FileOperation, ModelAnswer, ModelRequest, OpId};
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::codec::Reader;
use wire::crypto::{KeyPurpose, PreauthHash, SigningAlgorithm, SigningKey, derive};
use wire::ntstatus::NtStatus;
use wire::smb::{Command, Dialect, FileId, Flags, Header, SessionId, TreeId};

mod replies;

/// Maximum number of credits that the client accepts.
const CREDITS_MAX: u32 = 8192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetUpPhase {
    Negotiate,
    Challenge,
    Authenticate,
    Connect,
    Ready,
}

/// Purpose of a message.
#[derive(Clone, Debug)]
enum RequestPurpose {
    SetUp,
    Echo,
    /// Acknowledgment of an oplock break.
    Acknowledge,
    Asked(ModelRequest),
}

#[derive(Clone, Debug)]
struct ExpectedReply {
    purpose: RequestPurpose,
    command: Command,
    credits: u16,
    /// Its async id, once an interim response has reported it.
    async_id: Option<u64>,
}

/// The client's end of one connection.
pub struct SmbClientEnd {
    /// Session number, unique per connection of a run.
    pub session: u32,
    random: Random,
    is_signed: bool,
    phase: SetUpPhase,
    preauth: PreauthHash,
    session_id: SessionId,
    tree_id: TreeId,
    challenge: Vec<u8>,
    session_key: [u8; 16],
    signing: Option<SigningKey>,
    next_id: u64,
    credits: u32,
    outstanding: BTreeMap<u64, ExpectedReply>,
    opens: BTreeMap<OpId, FileId>,
    failed: BTreeMap<OpId, NtStatus>,
    /// Opens with an exclusive or batch oplock.
    exclusive: BTreeSet<OpId>,
    /// Oplock breaks to acknowledge, with the remaining level.
    breaks: VecDeque<(FileId, u8)>,
    /// Opens created since the last query.
    opened: Vec<OpId>,
    input: VecDeque<u8>,
    answered: u64,
}

impl SmbClientEnd {
    /// A connection that has sent nothing yet.
    #[must_use]
    pub fn new(session: u32, mut random: Random) -> Self {
        Self {
            session,
            is_signed: random.percent(50),
            random,
            phase: SetUpPhase::Negotiate,
            preauth: PreauthHash::default(),
            session_id: SessionId(0),
            tree_id: TreeId(0),
            challenge: Vec::new(),
            session_key: [0; 16],
            signing: None,
            next_id: 0,
            credits: 1,
            outstanding: BTreeMap::new(),
            opens: BTreeMap::new(),
            failed: BTreeMap::new(),
            exclusive: BTreeSet::new(),
            breaks: VecDeque::new(),
            opened: Vec::new(),
            input: VecDeque::new(),
            answered: 0,
        }
    }

    /// True if it can send operations.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.phase == SetUpPhase::Ready
    }

    /// True if the next message of the set-up can be sent.
    #[must_use]
    pub fn has_set_up_to_do(&self) -> bool {
        !self.is_ready() && self.outstanding.is_empty()
    }

    /// Opens that it knows.
    pub fn opens(&self) -> impl ExactSizeIterator<Item = OpId> {
        self.opens.keys().copied()
    }

    /// Opens with an exclusive or batch oplock, as far as the client knows.
    pub fn exclusive(&self) -> impl Iterator<Item = OpId> {
        self.exclusive.iter().copied()
    }

    /// Takes the opens with data access that were created since the last query.
    pub fn take_opened(&mut self) -> Vec<OpId> {
        std::mem::take(&mut self.opened)
    }

    /// True if it has an oplock break to acknowledge.
    #[must_use]
    pub fn has_breaks(&self) -> bool {
        !self.breaks.is_empty()
    }

    /// Number of correct responses.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Available credits.
    #[must_use]
    pub fn credits(&self) -> u32 {
        self.credits
    }

    /// Requests in flight.
    pub fn unanswered(&self) -> impl Iterator<Item = Option<&ModelRequest>> {
        self.outstanding.values().map(|o| match &o.purpose {
            RequestPurpose::Asked(request) => Some(request),
            _ => None,
        })
    }

    /// Encodes the next frame of the set-up.
    pub fn set_up(&mut self) -> Vec<u8> {
        let (command, body) = match self.phase {
            SetUpPhase::Negotiate => (Command::NEGOTIATE, messages::negotiate(self.is_signed)),
            SetUpPhase::Challenge => {
                (Command::SESSION_SETUP, messages::session_setup(&messages::ntlm_negotiate()))
            }
            SetUpPhase::Authenticate => {
                let user = format!("user{}", self.session % 3);
                let (token, key) = messages::ntlm_authenticate(&user, PASSWORD, &self.challenge);
                self.session_key = key;
                (Command::SESSION_SETUP, messages::session_setup(&token))
            }
            _ => (Command::TREE_CONNECT, messages::tree_connect("data")),
        };
        let message = UnframedMessage { command, body, is_related: false };
        let frame = self.frame(vec![(message, RequestPurpose::SetUp)]);
        if matches!(command, Command::NEGOTIATE | Command::SESSION_SETUP) {
            self.preauth.update(&frame[4..]);
        }
        if self.phase == SetUpPhase::Authenticate && self.is_signed {
            let purpose = KeyPurpose::Signing;
            let key = derive(Dialect::Smb311, &self.session_key, purpose, &self.preauth.0);
            self.signing = Some(SigningKey::new(SigningAlgorithm::AesGmac, &key));
        }
        frame
    }

    /// Encodes an ECHO.
    pub fn echo(&mut self) -> Vec<u8> {
        let body = messages::empty();
        let message = UnframedMessage { command: Command::ECHO, body, is_related: false };
        self.frame(vec![(message, RequestPurpose::Echo)])
    }

    /// Encodes an oplock break acknowledgment; `None` if the client chooses to be silent.
    pub fn acknowledge(&mut self) -> Option<Vec<u8>> {
        let (file, level) = self.breaks.pop_front()?;
        if self.random.percent(10) {
            return None;
        }
        let open = self.opens.iter().find(|(_, known)| **known == file).map(|(open, _)| *open);
        if let Some(open) = open {
            self.exclusive.remove(&open);
        }
        let body = messages::oplock_break(file, level);
        let message = UnframedMessage { command: Command::OPLOCK_BREAK, body, is_related: false };
        Some(self.frame(vec![(message, RequestPurpose::Acknowledge)]))
    }

    /// Encodes requests into one frame, related or not.
    pub fn ask(&mut self, requests: Vec<ModelRequest>, related: bool) -> Vec<u8> {
        let mut parts = Vec::new();
        for (at, request) in requests.into_iter().enumerate() {
            let is_related = related && at > 0;
            let file = match self.file_of(&request.op) {
                _ if is_related => FileId::RELATED,
                found => found.unwrap_or(FileId { persistent: 7, volatile: 7 }),
            };
            let mut message = messages::message(&request, file, self.random.next());
            message.is_related = is_related;
            if let FileOperation::Close { open } = request.op {
                self.exclusive.remove(&open);
                if self.random.percent(80) {
                    self.forget(&request.op);
                }
            }
            parts.push((message, RequestPurpose::Asked(request)));
        }
        self.frame(parts)
    }

    /// Encodes the cancellation of a waiting request, if there is one, with its number.
    pub fn cancel(&mut self) -> Option<(OpId, Vec<u8>)> {
        let waiting = self.outstanding.iter().find_map(|(id, o)| match &o.purpose {
            RequestPurpose::Asked(ModelRequest {
                id: op,
                op: FileOperation::Lock { waits: true, .. },
                ..
            }) => Some((*id, *op, o.async_id)),
            _ => None,
        });
        let (id, op, async_id) = waiting?;
        let mut header = messages::header(Command::CANCEL, id, 0);
        header.session_id = self.session_id;
        header.credit_charge = 0;
        if let Some(async_id) = async_id {
            header.set_async(wire::smb::AsyncId(async_id));
        }
        let mut bytes = vec![0; Header::LENGTH];
        self.protect(&mut header);
        header.put(&mut bytes);
        bytes.extend(messages::empty());
        self.sign(&mut bytes);
        Some((op, framed(bytes)))
    }

    /// Reserves the credits of a frame with `count` requests; false if they do not suffice.
    #[must_use]
    pub fn can_ask(&self, count: usize) -> bool {
        self.credits as usize >= count
    }

    fn file_of(&self, op: &FileOperation) -> Option<FileId> {
        op.open().and_then(|open| self.opens.get(&open)).copied()
    }

    fn forget(&mut self, op: &FileOperation) {
        if let Some(open) = op.open() {
            self.opens.remove(&open);
        }
    }

    fn protect(&self, header: &mut Header) {
        if self.signing.is_some() {
            header.flags = header.flags | Flags::SIGNED;
        }
    }

    fn sign(&self, message: &mut [u8]) {
        if let Some(key) = &self.signing {
            key.sign(message);
        }
    }

    /// Puts messages into one frame and records the expected responses.
    fn frame(&mut self, parts: Vec<(UnframedMessage, RequestPurpose)>) -> Vec<u8> {
        let (count, mut frame) = (parts.len(), Vec::new());
        for (at, (message, purpose)) in parts.into_iter().enumerate() {
            let credits = u16::from(self.random.small(4));
            let (id, command) = (self.next_id, message.command);
            self.next_id += 1;
            self.credits -= 1;
            let mut header = messages::header(command, id, credits);
            header.session_id = self.session_id;
            header.tree_id = self.tree_id;
            if message.is_related {
                header.flags = header.flags | Flags::RELATED;
            }
            self.protect(&mut header);
            let mut bytes = vec![0; Header::LENGTH];
            header.put(&mut bytes);
            bytes.extend(message.body);
            if at + 1 < count {
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                let length = bytes.len() as u32;
                Header::set_next_command(&mut bytes, length);
            }
            self.sign(&mut bytes);
            frame.extend(bytes);
            let expected = ExpectedReply { purpose, command, credits, async_id: None };
            self.outstanding.insert(id, expected);
        }
        framed(frame)
    }

    /// Receives bytes of the server and checks each complete response.
    ///
    /// # Errors
    /// A description of a faulty response.
    pub fn receive(&mut self, bytes: &[u8], history: &mut OperationHistory) -> Result<(), String> {
        self.input.extend(bytes);
        loop {
            let prefix: Vec<u8> = self.input.iter().take(4).copied().collect();
            let Ok(prefix) = prefix.try_into() else { return Ok(()) };
            let length = u32::from_be_bytes(prefix) as usize;
            if self.input.len() < 4 + length {
                return Ok(());
            }
            let frame: Vec<u8> = self.input.drain(..4 + length).skip(4).collect();
            let mut start = 0;
            loop {
                let mut r = Reader::new(&frame[start..]);
                let header = Header::decode(&mut r).map_err(|m| format!("reply: {m}"))?;
                let next = header.next_command as usize;
                let end = if next == 0 { frame.len() } else { start + next };
                let message = frame.get(start..end).ok_or("a reply leads out of its frame")?;
                self.take_reply(&header, message, history)?;
                if next == 0 {
                    break;
                }
                start = end;
            }
        }
    }
}

/// A direct-TCP frame.
fn framed(payload: Vec<u8>) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[..], &payload].concat()
}
