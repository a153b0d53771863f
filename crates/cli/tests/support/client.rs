//! A client of SMB 2.1, 3.0 or 3.1.1 that signs and encrypts only where the server requires it,
//! written from MS-SMB2 2.2 and MS-NLMP 2.2 without the server's encoders.

use super::{PASSWORD, PATIENCE, ServerProcess, user};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use wire::crypto::{
    Cipher, KeyPurpose, KeySource, OpeningKey, PreauthHash, SealingKey, SessionKey,
    SigningAlgorithm, SigningKey,
};
use wire::ntlm::NtHash;
use wire::smb::{Dialect, SessionId, TransformHeader};

pub const SUCCESS: u32 = 0;
pub const PENDING: u32 = 0x103;
pub const LOGON_FAILURE: u32 = 0xC000_006D;
pub const INSUFFICIENT_RESOURCES: u32 = 0xC000_009A;
pub const ACCESS_DENIED: u32 = 0xC000_0022;
pub const DISK_FULL: u32 = 0xC000_007F;
pub const NETWORK_NAME_DELETED: u32 = 0xC000_00C9;
pub const INVALID_PARAMETER: u32 = 0xC000_000D;
pub const OBJECT_NAME_NOT_FOUND: u32 = 0xC000_0034;
pub const FILE_CLOSED: u32 = 0xC000_0128;
pub const LOCK_NOT_GRANTED: u32 = 0xC000_0055;
pub const DUPLICATE_OBJECTID: u32 = 0xC000_022A;
pub const FILE_NOT_AVAILABLE: u32 = 0xC000_0467;
pub const BAD_NETWORK_NAME: u32 = 0xC000_00CC;
const MORE_PROCESSING_REQUIRED: u32 = 0xC000_0016;

pub const NEGOTIATE: u16 = 0;
pub const SESSION_SETUP: u16 = 1;
pub const TREE_CONNECT: u16 = 3;
pub const CREATE: u16 = 5;
pub const CLOSE: u16 = 6;
pub const FLUSH: u16 = 7;
pub const READ: u16 = 8;
pub const WRITE: u16 = 9;
pub const LOCK: u16 = 10;
pub const IOCTL: u16 = 11;
pub const OPLOCK_BREAK: u16 = 18;
pub const ECHO: u16 = 13;
pub const QUERY_DIRECTORY: u16 = 14;
pub const CHANGE_NOTIFY: u16 = 15;
pub const QUERY_INFO: u16 = 16;
pub const SET_INFO: u16 = 17;

/// A reply: the header fields that tests use, and all bytes.
#[derive(Debug)]
pub struct RawReply {
    pub status: u32,
    pub message_id: u64,
    pub credits: u16,
    pub bytes: Vec<u8>,
}

/// Parameters of a CREATE request. MS-SMB2 2.2.13.
#[derive(Clone, Copy)]
pub struct CreateRequestParts<'a> {
    pub name: &'a str,
    pub access: u32,
    pub share: u32,
    pub disposition: u32,
    pub options: u32,
    pub contexts: &'a [u8],
}

/// FileId of an open. MS-SMB2 2.2.14.1.
pub type RawFileId = [u8; 16];

impl RawReply {
    fn of(bytes: Vec<u8>) -> Self {
        let status = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
        let credits = u16::from_le_bytes(bytes[14..16].try_into().expect("2 bytes"));
        let message_id = u64::from_le_bytes(bytes[24..32].try_into().expect("8 bytes"));
        Self { status, message_id, credits, bytes }
    }

    /// FileId of a successful CREATE.
    pub fn file_id(&self) -> RawFileId {
        self.bytes[128..144].try_into().expect("16 bytes")
    }

    /// FileId.Persistent of a successful CREATE.
    pub fn persistent_id(&self) -> u64 {
        u64::from_le_bytes(self.bytes[128..136].try_into().expect("8 bytes"))
    }

    /// CreateAction of the reply: 1 opened, 2 created. MS-SMB2 2.2.14.
    pub fn action(&self) -> u32 {
        u32::from_le_bytes(self.bytes[68..72].try_into().expect("4 bytes"))
    }

    /// Data of a context in the reply to CREATE.
    pub fn context(&self, name: &[u8; 4]) -> Option<&[u8]> {
        let offset = u32::from_le_bytes(self.bytes[144..148].try_into().expect("4 bytes")) as usize;
        let list = self.bytes.get(offset..).filter(|_| offset > 0)?;
        let at = list.windows(4).position(|w| w == name)?;
        let length = u32::from_le_bytes(list[at - 4..at].try_into().expect("4 bytes")) as usize;
        list.get(at + 8..at + 8 + length)
    }

    /// Output of a successful QUERY_INFO or QUERY_DIRECTORY.
    pub fn output(&self) -> &[u8] {
        let length = u32::from_le_bytes(self.bytes[68..72].try_into().expect("4 bytes"));
        &self.bytes[72..72 + length as usize]
    }

    /// Create contexts of a successful CREATE.
    pub fn contexts(&self) -> &[u8] {
        let number = |at: usize| {
            u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("4 bytes")) as usize
        };
        let (offset, length) = (number(144), number(148));
        if length == 0 { &[] } else { &self.bytes[offset..offset + length] }
    }

    /// Data of a successful READ.
    pub fn data(&self) -> &[u8] {
        self.bytes.get(80..).unwrap_or_default()
    }
}

pub struct RawSmbClient {
    pub stream: TcpStream,
    pub session: u64,
    pub tree: u32,
    pub next_id: u64,
    pub dialect: u16,
    pub guid: [u8; 16],
    /// ChannelSequence of requests in dialects 3.x, and whether they carry
    /// SMB2_FLAGS_REPLAY_OPERATION. MS-SMB2 2.2.1.2.
    pub channel_sequence: u16,
    pub replays: bool,
    /// Preauthentication integrity hash.
    preauth: PreauthHash,
    /// Signs TREE_CONNECT on 3.1.1, as the server requires.
    signing: Option<SigningKey>,
    /// AES-128-GCM in both directions, on 3.1.1.
    sealing: Option<(SealingKey, OpeningKey)>,
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Md5>::new_from_slice(key).expect("any key will do");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// A direct-TCP frame around `payload`.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short");
    [&length.to_be_bytes()[..], payload].concat()
}

/// Connects from another loopback address, because one address may hold only a few connections
/// without a logon.
pub fn connect_from(from: Ipv4Addr, to: SocketAddr) -> Option<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddr::from((from, 0))).expect("an address of loopback");
    connect(&socket, &to).ok()?;
    Some(TcpStream::from(socket))
}

impl RawSmbClient {
    /// A connection without any message yet.
    pub fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Self::over(stream)
    }

    /// The same over an existing connection.
    pub fn over(stream: TcpStream) -> Self {
        let (dialect, guid) = (0x0210, [0; 16]);
        let (channel_sequence, replays) = (0, false);
        let (preauth, signing) = (PreauthHash::default(), None);
        let (session, tree, next_id) = (0, 0, 0);
        Self {
            stream,
            session,
            tree,
            next_id,
            dialect,
            guid,
            channel_sequence,
            replays,
            preauth,
            signing,
            sealing: None,
        }
    }

    /// A connection with a session and the share `data`.
    pub fn ready(server: &ServerProcess) -> Self {
        Self::connect(server.smb).set_up_as(&user())
    }

    /// The same with SMB 3.0, as the client `guid`.
    pub fn ready_3(server: &ServerProcess, guid: [u8; 16]) -> Self {
        Self::connect_3(server, guid).set_up_as(&user())
    }

    /// A connection of SMB 3.0 without any message yet.
    pub fn connect_3(server: &ServerProcess, guid: [u8; 16]) -> Self {
        Self { dialect: 0x0300, guid, ..Self::connect(server.smb) }
    }

    /// Sets up a session of `name`, and connects to the share `data`.
    pub fn set_up_as(self, name: &str) -> Self {
        let mut client = self;
        client.negotiate();
        assert_eq!(client.log_on(name, PASSWORD), SUCCESS);
        assert_eq!(client.connect_tree("data"), SUCCESS);
        client
    }

    /// A message with the next id.
    pub fn message(&mut self, command: u16, body: &[u8]) -> Vec<u8> {
        let mut message = b"\xFESMB".to_vec();
        message.extend_from_slice(&64u16.to_le_bytes());
        message.extend_from_slice(&1u16.to_le_bytes()); // CreditCharge
        message.extend_from_slice(&u32::from(self.channel_sequence).to_le_bytes());
        message.extend_from_slice(&command.to_le_bytes());
        message.extend_from_slice(&512u16.to_le_bytes()); // CreditRequest
        let flags: u32 = if self.replays { 0x2000_0000 } else { 0 };
        message.extend_from_slice(&flags.to_le_bytes());
        message.extend_from_slice(&[0; 4]); // NextCommand
        message.extend_from_slice(&self.next_id.to_le_bytes());
        message.extend_from_slice(&0u32.to_le_bytes());
        message.extend_from_slice(&self.tree.to_le_bytes());
        message.extend_from_slice(&self.session.to_le_bytes());
        message.extend_from_slice(&[0; 16]);
        message.extend_from_slice(body);
        self.next_id += 1;
        message
    }

    pub fn send(&mut self, command: u16, body: &[u8]) {
        let message = self.message(command, body);
        self.stream.write_all(&frame(&message)).expect("it reads");
    }

    /// The next reply; an error if the server closed the connection instead.
    pub fn receive(&mut self) -> io::Result<RawReply> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix)?;
        let mut bytes = vec![0; u32::from_be_bytes(prefix) as usize];
        self.stream.read_exact(&mut bytes)?;
        Ok(RawReply::of(bytes))
    }

    /// Sends requests in one frame, each but the first related to its predecessor; returns the id
    /// of the first.
    pub fn send_chain(&mut self, chain: &[(u16, Vec<u8>)]) -> u64 {
        const RELATED: u32 = 4;
        let first_id = self.next_id;
        let mut payload = Vec::new();
        for (at, (command, body)) in chain.iter().enumerate() {
            let mut message = self.message(*command, body);
            if at > 0 {
                message[16..20].copy_from_slice(&RELATED.to_le_bytes());
            }
            if at + 1 < chain.len() {
                message.resize(message.len().next_multiple_of(8), 0);
                let next = u32::try_from(message.len()).expect("it is short");
                message[20..24].copy_from_slice(&next.to_le_bytes());
            }
            payload.append(&mut message);
        }
        self.stream.write_all(&frame(&payload)).expect("it reads");
        first_id
    }

    /// The replies of the next frame.
    pub fn receive_chain(&mut self) -> io::Result<Vec<RawReply>> {
        let mut replies = vec![self.receive()?];
        while let Some(last) = replies.last_mut() {
            let next = u32::from_le_bytes(last.bytes[20..24].try_into().expect("4 bytes"));
            if next == 0 {
                break;
            }
            let bytes = last.bytes.split_off(next as usize);
            replies.push(RawReply::of(bytes));
        }
        Ok(replies)
    }

    pub fn call(&mut self, command: u16, body: &[u8]) -> RawReply {
        let message = self.message(command, body);
        self.call_message(command, &message)
    }

    fn call_message(&mut self, command: u16, message: &[u8]) -> RawReply {
        self.stream.write_all(&frame(message)).expect("it reads");
        let reply = self.receive().expect("it answers");
        // The hash covers all messages but the last SESSION_SETUP response. MS-SMB2 3.2.5.3.
        if command == NEGOTIATE || command == SESSION_SETUP {
            self.preauth.update(message);
        }
        if command == NEGOTIATE || reply.status == MORE_PROCESSING_REQUIRED {
            self.preauth.update(&reply.bytes);
        }
        if command == NEGOTIATE && reply.status == SUCCESS {
            self.dialect = u16::from_le_bytes(reply.bytes[68..70].try_into().expect("2 bytes"));
        }
        reply
    }

    pub fn negotiate_body() -> Vec<u8> {
        Self::negotiate_body_of(0x0210, [0; 16])
    }

    fn negotiate_body_of(dialect: u16, guid: [u8; 16]) -> Vec<u8> {
        let mut body = vec![36, 0, 1, 0, 1, 0, 0, 0]; // one dialect, signing enabled
        let capabilities: u32 = if dialect < 0x0300 { 0 } else { 0x1A }; // leases, channels, persistent
        body.extend_from_slice(&capabilities.to_le_bytes());
        body.extend_from_slice(&guid);
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&dialect.to_le_bytes());
        body
    }

    pub fn negotiate(&mut self) -> RawReply {
        let asked = self.dialect;
        let reply = self.call(NEGOTIATE, &Self::negotiate_body_of(asked, self.guid));
        assert_eq!((reply.status, &reply.bytes[68..70]), (SUCCESS, &asked.to_le_bytes()[..]));
        reply
    }

    /// NEGOTIATE of 3.1.1 alone, with these contexts behind the preauth context.
    pub fn negotiate_311_body(contexts: &[(u16, &[u8])]) -> Vec<u8> {
        let preauth = [&[1, 0, 4, 0, 1, 0][..], &[7; 4]].concat(); // SHA-512, four bytes of salt
        let mut body = vec![36, 0, 1, 0, 1, 0, 0, 0];
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(&[7; 16]); // ClientGuid
        body.extend_from_slice(&104u32.to_le_bytes()); // NegotiateContextOffset
        let count = u16::try_from(1 + contexts.len()).expect("they are few");
        body.extend_from_slice(&count.to_le_bytes());
        body.extend_from_slice(&[0; 2]);
        body.extend_from_slice(&0x0311u16.to_le_bytes());
        for (kind, data) in [(1, &preauth[..])].iter().chain(contexts) {
            body.resize(body.len().next_multiple_of(8), 0);
            let length = u16::try_from(data.len()).expect("it is short");
            body.extend_from_slice(&kind.to_le_bytes());
            body.extend_from_slice(&length.to_le_bytes());
            body.extend_from_slice(&[0; 4]);
            body.extend_from_slice(data);
        }
        body
    }

    pub fn set_up_body(token: &[u8]) -> Vec<u8> {
        let mut body = vec![25, 0, 0, 1];
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&88u16.to_le_bytes());
        body.extend_from_slice(&u16::try_from(token.len()).expect("it is short").to_le_bytes());
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(token);
        body
    }

    fn set_up(&mut self, token: &[u8]) -> RawReply {
        let body = Self::set_up_body(token);
        let reply = self.call(SESSION_SETUP, &body);
        self.session = u64::from_le_bytes(reply.bytes[40..48].try_into().expect("8 bytes"));
        reply
    }

    /// Logs on with NTLMv2 without SPNEGO; returns the status.
    pub fn log_on(&mut self, user: &str, password: &str) -> u32 {
        const FLAGS: u32 = 0x2008_8205; // 128, NTLM2, ALWAYS_SIGN, NTLM, TARGET, UNICODE
        let negotiate = [&b"NTLMSSP\0\x01\0\0\0"[..], &FLAGS.to_le_bytes(), &[0; 16]].concat();
        let reply = self.set_up(&negotiate);
        assert_eq!(reply.status, MORE_PROCESSING_REQUIRED);
        let offset =
            usize::from(u16::from_le_bytes(reply.bytes[68..70].try_into().expect("2 bytes")));
        let challenge = &reply.bytes[offset + 24..offset + 32];
        let hash = NtHash::of_password(password).ntowf_v2(user, "");
        let mut blob = vec![1, 1];
        blob.extend_from_slice(&[0; 26]);
        blob.extend_from_slice(&[0; 4]); // the end of the AV pairs
        let proof = hmac(&hash, &[challenge, &blob]);
        let nt = [&proof[..], &blob].concat();
        let name = utf16(user);
        let mut message = b"NTLMSSP\0\x03\0\0\0".to_vec();
        let mut offset = 64u32;
        for part in [0, nt.len(), 0, name.len(), 0, 0] {
            let length = u16::try_from(part).expect("it is short");
            message.extend_from_slice(&length.to_le_bytes());
            message.extend_from_slice(&length.to_le_bytes());
            message.extend_from_slice(&offset.to_le_bytes());
            offset += u32::from(length);
        }
        message.extend_from_slice(&FLAGS.to_le_bytes());
        message.extend_from_slice(&nt);
        message.extend_from_slice(&name);
        let status = self.set_up(&message).status;
        if status != SUCCESS {
            self.session = 0;
        } else if self.dialect == 0x0311 {
            let session_key = &SessionKey::new(&hmac(&hash, &[&proof]));
            let (dialect, preauth) = (Dialect::Smb311, &self.preauth);
            let source = KeySource { dialect, session_key, preauth };
            self.signing = Some(source.signing(SigningAlgorithm::AesCmac));
            let key = |purpose| source.sealing(Cipher::Aes128Gcm, purpose);
            let seal = SealingKey::new(Cipher::Aes128Gcm, &key(KeyPurpose::ClientToServer));
            let open = OpeningKey::new(Cipher::Aes128Gcm, &key(KeyPurpose::ServerToClient));
            self.sealing = Some((seal, open));
        }
        status
    }

    fn tree_connect_body(share: &str) -> Vec<u8> {
        let path = utf16(&format!("\\\\TEST\\{share}"));
        let mut body = vec![9, 0, 0, 0, 72, 0];
        body.extend_from_slice(&u16::try_from(path.len()).expect("it is short").to_le_bytes());
        body.extend_from_slice(&path);
        body
    }

    /// Connects to a share by an encrypted, unsigned request; returns the status. The connection
    /// has negotiated AES-128-GCM.
    pub fn connect_tree_sealed(&mut self, share: &str) -> u32 {
        let message = self.message(TREE_CONNECT, &Self::tree_connect_body(share));
        let mut sealed = [&[0; TransformHeader::LENGTH][..], &message].concat();
        let (seal, open) = self.sealing.as_ref().expect("a session of 3.1.1");
        seal.seal_in_place(&mut sealed, SessionId(self.session));
        self.stream.write_all(&frame(&sealed)).expect("it reads");
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix).expect("it answers");
        let mut reply = vec![0; u32::from_be_bytes(prefix) as usize];
        self.stream.read_exact(&mut reply).expect("it answers");
        open.open_in_place(&mut reply).expect("the reply is encrypted");
        RawReply::of(reply.split_off(TransformHeader::LENGTH)).status
    }

    /// Connects to a share of the server; returns the status.
    pub fn connect_tree(&mut self, share: &str) -> u32 {
        let mut message = self.message(TREE_CONNECT, &Self::tree_connect_body(share));
        if let Some(key) = &self.signing {
            const SIGNED: u8 = 8;
            message[16] |= SIGNED;
            key.sign(&mut message);
        }
        let reply = self.call_message(TREE_CONNECT, &message);
        if reply.status == SUCCESS {
            self.tree = u32::from_le_bytes(reply.bytes[36..40].try_into().expect("4 bytes"));
        }
        reply.status
    }

    pub fn echo(&mut self) -> u32 {
        self.call(ECHO, &[4, 0, 0, 0]).status
    }

    /// Opens a file for reading and writing; creates it if it is missing.
    pub fn create(&mut self, name: &str) -> RawFileId {
        self.try_create(name).unwrap_or_else(|status| panic!("{name}: {status:#x}"))
    }

    /// Like [`RawSmbClient::create`], but returns a failure's status.
    pub fn try_create(&mut self, name: &str) -> Result<RawFileId, u32> {
        self.send(CREATE, &Self::create_body(name));
        let reply = self.receive().expect("it answers");
        if reply.status != SUCCESS {
            return Err(reply.status);
        }
        Ok(reply.file_id())
    }

    pub fn create_body(name: &str) -> Vec<u8> {
        let name = utf16(name);
        let mut body = vec![57, 0, 0, 0];
        body.extend_from_slice(&2u32.to_le_bytes()); // ImpersonationLevel
        body.extend_from_slice(&[0; 16]);
        body.extend_from_slice(&0x0012_019Fu32.to_le_bytes()); // generic read and write
        body.extend_from_slice(&0u32.to_le_bytes());
        body.extend_from_slice(&7u32.to_le_bytes()); // ShareAccess: all
        body.extend_from_slice(&3u32.to_le_bytes()); // OPEN_IF
        body.extend_from_slice(&0x40u32.to_le_bytes()); // NON_DIRECTORY_FILE
        body.extend_from_slice(&120u16.to_le_bytes());
        body.extend_from_slice(&u16::try_from(name.len()).expect("it is short").to_le_bytes());
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&name);
        body
    }

    /// The same with a batch oplock and contexts. All parts begin at multiples of 8, as decoders
    /// require.
    pub fn create_body_with(name: &str, contexts: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
        let mut body = Self::create_body(name);
        body[3] = 9; // RequestedOplockLevel
        body.resize((64 + body.len()).next_multiple_of(8) - 64, 0);
        let start = body.len();
        for (at, (name, data)) in contexts.iter().enumerate() {
            let is_last = at + 1 == contexts.len();
            let length = (24 + data.len()).next_multiple_of(8);
            let next = if is_last { 0 } else { u32::try_from(length).expect("it is short") };
            body.extend_from_slice(&next.to_le_bytes());
            body.extend_from_slice(&[16, 0, 4, 0, 0, 0, 24, 0]);
            body.extend_from_slice(&u32::try_from(data.len()).expect("it is short").to_le_bytes());
            body.extend_from_slice(&name[..]);
            body.extend_from_slice(&[0; 4]);
            body.extend_from_slice(data);
            body.resize(body.len() + length - 24 - data.len(), 0);
        }
        let length = u32::try_from(body.len() - start).expect("it is short");
        body[48..52].copy_from_slice(&u32::try_from(64 + start).expect("short").to_le_bytes());
        body[52..56].copy_from_slice(&length.to_le_bytes());
        body
    }

    /// A CREATE of a durable open with the CreateGuid `guid`; of a persistent one without an
    /// oplock.
    pub fn durable_body(name: &str, guid: [u8; 16], timeout_ms: u32, persistent: bool) -> Vec<u8> {
        let flags: u32 = if persistent { 2 } else { 0 };
        let data = [&timeout_ms.to_le_bytes()[..], &flags.to_le_bytes(), &[0; 8], &guid].concat();
        let mut body = Self::create_body_with(name, &[(b"DH2Q", data)]);
        if persistent {
            body[3] = 0; // without an oplock
        }
        body
    }

    /// A CREATE that reconnects to `file`.
    pub fn reconnect_body(file: RawFileId, guid: [u8; 16], persistent: bool) -> Vec<u8> {
        let flags: u32 = if persistent { 2 } else { 0 };
        let data = [&file[..], &guid, &flags.to_le_bytes()].concat();
        Self::create_body_with("", &[(b"DH2C", data)])
    }

    /// FSCTL_LMR_REQUEST_RESILIENCY.
    pub fn resiliency_body(file: RawFileId, timeout_ms: u32) -> Vec<u8> {
        let mut input = timeout_ms.to_le_bytes().to_vec();
        input.extend_from_slice(&[0; 4]);
        Self::control_body(file, 0x0014_01D4, &input, 0)
    }

    /// An FSCTL with this maximum of output bytes.
    pub fn control_body(file: RawFileId, code: u32, input: &[u8], room: u32) -> Vec<u8> {
        let mut body = vec![57, 0, 0, 0];
        body.extend_from_slice(&code.to_le_bytes());
        body.extend_from_slice(&file);
        body.extend_from_slice(&120u32.to_le_bytes());
        body.extend_from_slice(&u32::try_from(input.len()).expect("it is short").to_le_bytes());
        body.extend_from_slice(&[0; 12]); // MaxInputResponse to OutputCount
        body.extend_from_slice(&room.to_le_bytes());
        body.extend_from_slice(&1u32.to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(input);
        body
    }

    /// A CREATE with these create contexts, encoded.
    pub fn create_with(wish: &CreateRequestParts<'_>) -> Vec<u8> {
        let name = utf16(wish.name);
        let mut body = vec![57, 0, 0, 0];
        body.extend_from_slice(&2u32.to_le_bytes()); // ImpersonationLevel
        body.extend_from_slice(&[0; 16]);
        for number in [wish.access, 0, wish.share, wish.disposition, wish.options] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.extend_from_slice(&120u16.to_le_bytes());
        body.extend_from_slice(&u16::try_from(name.len()).expect("it is short").to_le_bytes());
        let offset = (120 + name.len()).next_multiple_of(8);
        let given = !wish.contexts.is_empty();
        let offset_shown = if given { u32::try_from(offset).expect("it is short") } else { 0 };
        body.extend_from_slice(&offset_shown.to_le_bytes());
        let length = u32::try_from(wish.contexts.len()).expect("they are short");
        body.extend_from_slice(&length.to_le_bytes());
        body.extend_from_slice(&name);
        body.resize(if given { offset - 64 } else { body.len().max(57) }, 0);
        body.extend_from_slice(wish.contexts);
        body
    }

    pub fn query_info_body(file: RawFileId, kind: u8, class: u8, additional: u32) -> Vec<u8> {
        let mut body = vec![41, 0, kind, class];
        body.extend_from_slice(&4096u32.to_le_bytes());
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&additional.to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(&file);
        body
    }

    pub fn query_directory_body(file: RawFileId, class: u8, flags: u8, pattern: &str) -> Vec<u8> {
        let pattern = utf16(pattern);
        let mut body = vec![33, 0, class, flags, 0, 0, 0, 0];
        body.extend_from_slice(&file);
        body.extend_from_slice(&96u16.to_le_bytes());
        body.extend_from_slice(&u16::try_from(pattern.len()).expect("it is short").to_le_bytes());
        body.extend_from_slice(&65_536u32.to_le_bytes());
        body.extend_from_slice(&pattern);
        body
    }

    pub fn close_body(file: RawFileId) -> Vec<u8> {
        [&[24, 0, 0, 0, 0, 0, 0, 0], &file[..]].concat()
    }

    pub fn flush_body(file: RawFileId) -> Vec<u8> {
        [&[24, 0, 0, 0, 0, 0, 0, 0], &file[..]].concat()
    }

    /// Requests notification of changes in a directory, without its subtree; see MS-SMB2 2.2.35 for
    /// the filter.
    pub fn change_notify_body(file: RawFileId, filter: u32) -> Vec<u8> {
        let mut body = vec![32, 0, 0, 0];
        body.extend_from_slice(&4096u32.to_le_bytes());
        body.extend_from_slice(&file);
        body.extend_from_slice(&filter.to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        body
    }

    /// Sets information of a file; see MS-FSCC 2.4 for the classes.
    pub fn set_info_body(file: RawFileId, class: u8, data: &[u8]) -> Vec<u8> {
        let mut body = vec![33, 0, 1, class];
        body.extend_from_slice(&u32::try_from(data.len()).expect("it is short").to_le_bytes());
        body.extend_from_slice(&96u16.to_le_bytes());
        body.extend_from_slice(&[0; 6]);
        body.extend_from_slice(&file);
        body.extend_from_slice(data);
        body
    }

    pub fn write_body(file: RawFileId, offset: u64, data: &[u8]) -> Vec<u8> {
        let mut body = vec![49, 0, 112, 0];
        body.extend_from_slice(&u32::try_from(data.len()).expect("it is short").to_le_bytes());
        body.extend_from_slice(&offset.to_le_bytes());
        body.extend_from_slice(&file);
        body.extend_from_slice(&[0; 16]);
        body.extend_from_slice(data);
        body
    }

    pub fn read_body(file: RawFileId, offset: u64, length: u32) -> Vec<u8> {
        let mut body = vec![49, 0, 80, 0];
        body.extend_from_slice(&length.to_le_bytes());
        body.extend_from_slice(&offset.to_le_bytes());
        body.extend_from_slice(&file);
        body.extend_from_slice(&[0; 17]);
        body
    }

    /// Locks all bytes exclusively; waits if `waits`.
    pub fn lock_body(file: RawFileId, waits: bool) -> Vec<u8> {
        let mut body = vec![48, 0, 1, 0, 0, 0, 0, 0];
        body.extend_from_slice(&file);
        body.extend_from_slice(&0u64.to_le_bytes());
        body.extend_from_slice(&1u64.to_le_bytes());
        let exclusive: u32 = if waits { 0x2 } else { 0x2 | 0x10 };
        body.extend_from_slice(&exclusive.to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        body
    }

    /// Locks one byte exclusively, or unlocks it. Does not wait.
    pub fn lock_byte_body(file: RawFileId, offset: u64, unlocks: bool) -> Vec<u8> {
        let mut body = Self::lock_body(file, false);
        body[24..32].copy_from_slice(&offset.to_le_bytes());
        let flags: u32 = if unlocks { 0x4 } else { 0x2 | 0x10 };
        body[40..44].copy_from_slice(&flags.to_le_bytes());
        body
    }

    /// Like [`RawSmbClient::call`]; an error if the server has closed the connection.
    pub fn try_call(&mut self, command: u16, body: &[u8]) -> io::Result<RawReply> {
        let message = self.message(command, body);
        self.stream.write_all(&frame(&message))?;
        loop {
            let reply = self.receive()?;
            if reply.status != PENDING {
                return Ok(reply);
            }
        }
    }

    /// Waits until the server closes the connection; false if it is still open
    /// after `within`. It discards the data that arrives before.
    pub fn is_closed(&mut self, within: Duration) -> bool {
        self.stream.set_read_timeout(Some(within)).expect("a socket");
        let mut sink = [0; 4096];
        loop {
            match self.stream.read(&mut sink) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
                {
                    return false;
                }
                Err(_) => return true,
            }
        }
    }
}
