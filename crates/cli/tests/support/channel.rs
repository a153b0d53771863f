//! A client of SMB 3.0.2 that signs, for sessions with several connections;
//! written from MS-SMB2 2.2 and MS-NLMP 2.2 without the server's state.

use super::{PASSWORD, PATIENCE, user};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use wire::crypto::{KeyPurpose, SigningAlgorithm, SigningKey, derive};
use wire::ntlm::NtHash;
use wire::smb::Dialect;

pub const SUCCESS: u32 = 0;
pub const ACCESS_DENIED: u32 = 0xC000_0022;
pub const INSUFFICIENT_RESOURCES: u32 = 0xC000_009A;
pub const REQUEST_NOT_ACCEPTED: u32 = 0xC000_00D0;
pub const USER_SESSION_DELETED: u32 = 0xC000_0203;
const MORE_PROCESSING_REQUIRED: u32 = 0xC000_0016;

const NEGOTIATE: u16 = 0;
const SESSION_SETUP: u16 = 1;
pub const LOGOFF: u16 = 2;
pub const ECHO: u16 = 13;
/// SMB2_SESSION_FLAG_BINDING.
const BINDING: u8 = 1;
/// 128, NTLM2, ALWAYS_SIGN, NTLM, TARGET, UNICODE.
const NTLM_FLAGS: u32 = 0x2008_8205;

/// A request on a channel, without the fields of its session.
#[derive(Clone, Copy, Default)]
pub struct SignedRequest<'a> {
    pub command: u16,
    pub tree: u32,
    /// ChannelSequence. MS-SMB2 2.2.1.2.
    pub sequence: u16,
    /// The request is a replay.
    pub replays: bool,
    pub body: &'a [u8],
}

/// One connection of a session.
pub struct SigningChannel {
    pub stream: TcpStream,
    pub session: u64,
    key: Option<SigningKey>,
    /// Key of the session, which signs the binding of further channels.
    session_key: [u8; 16],
    next_id: u64,
}

impl SigningChannel {
    /// A connection that has negotiated SMB 3.0.2.
    pub fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        let mut channel = Self { stream, session: 0, key: None, session_key: [0; 16], next_id: 0 };
        let mut body = vec![36, 0, 1, 0, 1, 0, 0, 0];
        body.extend_from_slice(&8u32.to_le_bytes()); // SMB2_GLOBAL_CAP_MULTI_CHANNEL
        body.extend_from_slice(&[0; 16 + 8]);
        body.extend_from_slice(&0x0302u16.to_le_bytes());
        assert_eq!(status_of(&channel.call(NEGOTIATE, &body, None).expect("an answer")), SUCCESS);
        channel
    }

    /// A connection with a session of its own.
    pub fn ready(to: SocketAddr) -> Self {
        let mut channel = Self::connect(to);
        assert_eq!(channel.log_on(0, None), SUCCESS);
        channel
    }

    /// A further connection of this session.
    pub fn bound(&self, to: SocketAddr) -> Self {
        let mut channel = Self::connect(to);
        assert_eq!(channel.bind(self), SUCCESS);
        channel
    }

    /// Binds this connection to `first`'s session; returns the status.
    pub fn bind(&mut self, first: &Self) -> u32 {
        self.session = first.session;
        self.session_key = first.session_key;
        self.log_on(BINDING, Some(&signing_key(&first.session_key)))
    }

    fn log_on(&mut self, flags: u8, key: Option<&SigningKey>) -> u32 {
        let token = [&b"NTLMSSP\0\x01\0\0\0"[..], &NTLM_FLAGS.to_le_bytes(), &[0; 16]].concat();
        let reply = self.set_up(flags, key, &token).expect("an answer");
        if status_of(&reply) != MORE_PROCESSING_REQUIRED {
            return status_of(&reply);
        }
        self.session = u64::from_le_bytes(reply[40..48].try_into().expect("8 bytes"));
        let at = reply.windows(8).position(|w| w == b"NTLMSSP\0").expect("a challenge");
        let (token, session_key) = authenticate(&reply[at + 24..at + 32]);
        let status = status_of(&self.set_up(flags, key, &token).expect("an answer"));
        if status == SUCCESS {
            if flags & BINDING == 0 {
                self.session_key = session_key;
            }
            self.key = Some(signing_key(&session_key));
        }
        status
    }

    /// One SESSION_SETUP.
    pub fn set_up(
        &mut self,
        flags: u8,
        key: Option<&SigningKey>,
        token: &[u8],
    ) -> io::Result<Vec<u8>> {
        let mut body = vec![25, 0, flags, 1];
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&88u16.to_le_bytes());
        body.extend_from_slice(&u16::try_from(token.len()).expect("it is short").to_le_bytes());
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(token);
        self.call(SESSION_SETUP, &body, key)
    }

    fn call(&mut self, command: u16, body: &[u8], key: Option<&SigningKey>) -> io::Result<Vec<u8>> {
        self.send(SignedRequest { command, body, ..SignedRequest::default() }, key)?;
        self.receive()
    }

    fn send(&mut self, asked: SignedRequest<'_>, key: Option<&SigningKey>) -> io::Result<()> {
        let mut message = b"\xFESMB".to_vec();
        message.extend_from_slice(&64u16.to_le_bytes());
        message.extend_from_slice(&1u16.to_le_bytes()); // CreditCharge
        message.extend_from_slice(&u32::from(asked.sequence).to_le_bytes());
        message.extend_from_slice(&asked.command.to_le_bytes());
        message.extend_from_slice(&64u16.to_le_bytes()); // CreditRequest
        let signed = if key.is_some() { 8u32 } else { 0 };
        let replays = if asked.replays { 0x2000_0000 } else { 0 };
        message.extend_from_slice(&(signed | replays).to_le_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(&self.next_id.to_le_bytes());
        message.extend_from_slice(&0u32.to_le_bytes());
        message.extend_from_slice(&asked.tree.to_le_bytes());
        message.extend_from_slice(&self.session.to_le_bytes());
        message.extend_from_slice(&[0; 16]);
        message.extend_from_slice(asked.body);
        self.next_id += 1;
        if let Some(key) = key {
            key.sign(&mut message);
        }
        self.stream.write_all(&super::client::frame(&message))
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix)?;
        let mut reply = vec![0; u32::from_be_bytes(prefix) as usize];
        self.stream.read_exact(&mut reply)?;
        Ok(reply)
    }

    /// Sends a signed request without receiving its reply.
    pub fn begin(&mut self, asked: SignedRequest<'_>) -> io::Result<()> {
        let key = self.key.take();
        let sent = self.send(asked, key.as_ref());
        self.key = key;
        sent
    }

    /// Sends a signed request, and returns its reply.
    pub fn ask(&mut self, asked: SignedRequest<'_>) -> io::Result<Vec<u8>> {
        self.begin(asked)?;
        self.receive()
    }

    /// Reauthenticates the session on this channel; returns the status.
    pub fn reauthenticate(&mut self) -> u32 {
        let (key, session_key) = (self.key.take(), self.session_key);
        let status = self.log_on(0, key.as_ref());
        // The first derived key signs for the whole session. MS-SMB2 3.2.5.3.3.
        (self.key, self.session_key) = (key, session_key);
        status
    }

    /// Sends ECHO or a similar request in the session; returns the status.
    pub fn plain(&mut self, command: u16) -> io::Result<u32> {
        let reply =
            self.ask(SignedRequest { command, body: &[4, 0, 0, 0], ..SignedRequest::default() });
        reply.map(|reply| status_of(&reply))
    }

    /// The key of a session that does not exist.
    pub fn forged_key() -> SigningKey {
        SigningKey::new(SigningAlgorithm::AesCmac, &[7; 16])
    }
}

fn signing_key(session_key: &[u8; 16]) -> SigningKey {
    let key = derive(Dialect::Smb302, session_key, KeyPurpose::Signing, &[0; 64]);
    SigningKey::new(SigningAlgorithm::AesCmac, &key)
}

pub fn status_of(reply: &[u8]) -> u32 {
    u32::from_le_bytes(reply[8..12].try_into().expect("4 bytes"))
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mut mac = Hmac::<Md5>::new_from_slice(key).expect("any key will do");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// NTLM's last message and the session key.
fn authenticate(challenge: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let hash = NtHash::of_password(PASSWORD).ntowf_v2(&user(), "");
    let mut blob = vec![1, 1];
    blob.extend_from_slice(&[0; 30]);
    let proof = hmac(&hash, &[challenge, &blob]);
    let nt = [&proof[..], &blob].concat();
    let name: Vec<u8> = user().encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut message = b"NTLMSSP\0\x03\0\0\0".to_vec();
    let mut offset = 64u32;
    for length in [0, nt.len(), 0, name.len(), 0, 0] {
        let length = u16::try_from(length).expect("it is short");
        message.extend_from_slice(&length.to_le_bytes());
        message.extend_from_slice(&length.to_le_bytes());
        message.extend_from_slice(&offset.to_le_bytes());
        offset += u32::from(length);
    }
    message.extend_from_slice(&NTLM_FLAGS.to_le_bytes());
    message.extend_from_slice(&nt);
    message.extend_from_slice(&name);
    (message, hmac(&hash, &[&proof]))
}
