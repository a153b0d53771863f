//! A server with one share and one user, and one connection to it.

use super::repair::Repair;
use bytes::BytesMut;
use files::{Caller, Files, Inline, Volume, VolumeOptions};
use futures_util::FutureExt;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use smb::limits::{FRAME_BYTES_MAX, FRAME_OVERHEAD_BYTES};
use smb::{
    Account, EncryptionPolicy, FrameJob, FrameTransmit, HostTime, InterfaceFact, SmbCloseReason,
    SmbConfig, SmbConn, SmbConnFacts, SmbHost, SmbServer, SmbShare,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;
use tempfile::TempDir;
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs::{Identity, Timestamp, Vfs};
use vfs_local::LocalVfs;
use wire::codec::{Reader, Writer, put_utf16};
use wire::crypto::{KeySource, PreauthHash, SessionKey, SigningAlgorithm, SigningKey};
use wire::frame::{PREFIX_BYTES, first_payload};
use wire::ntlm::NtHash;
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::{NegotiateRequest, context};
use wire::smb::{
    Command, Dialect, Flags, Header, MessageId, SessionId, SessionSetupRequest, TreeConnectRequest,
    TreeId, next_element,
};

const USER: &str = "alice";
const PASSWORD: &str = "a password that no input proves";
/// Capacity of the in-memory files in bytes.
const CAPACITY: u64 = 1024 * 1024;
/// Most jobs that wait forever.
const WAITING_MAX: usize = 64;

/// A deterministic process.
struct FuzzHost {
    random: AtomicU8,
    now: HostTime,
}

impl SmbHost for FuzzHost {
    fn random(&self, out: &mut [u8]) {
        out.fill_with(|| self.random.fetch_add(1, Ordering::Relaxed));
    }

    fn now(&self) -> HostTime {
        self.now
    }

    fn account(&self, user: &str) -> Option<Account> {
        let caller = Arc::new(Caller::of(Identity::root()));
        let nt_hash = NtHash::of_password(PASSWORD);
        (user == USER).then(|| Account {
            name: USER.into(),
            nt_hash,
            caller,
            groups: Arc::default(),
            root_by_ticket: false,
        })
    }

    fn guest(&self) -> Option<Account> {
        None
    }

    fn logon_failed(&self, _: SocketAddr, _: &str, _: &str) {}

    fn logon_succeeded(&self, _: SocketAddr, _: &str) {}

    fn interfaces(&self, _: u16) -> Vec<InterfaceFact> {
        Vec::new()
    }
}

/// Storage of the share.
pub enum ShareStorage {
    /// There is no share.
    Nowhere,
    /// The in-memory test backend.
    Memory,
    /// A folder that is deleted with the rig.
    Folder(TempDir),
}

impl ShareStorage {
    /// A folder on tmpfs, if available: a FLUSH costs nothing there.
    pub fn folder() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::Folder(folder.unwrap())
    }

    fn backend(&self) -> Option<Arc<dyn Vfs>> {
        match self {
            Self::Nowhere => None,
            Self::Memory => {
                let options =
                    MemoryOptions { capacity_bytes: CAPACITY, ..MemoryOptions::default() };
                Some(Arc::new(MemoryVfs::new(options, Arc::new(StillClock::default()))))
            }
            Self::Folder(folder) => Some(Arc::new(LocalVfs::open(folder.path()).unwrap())),
        }
    }
}

/// A connection with its server.
pub struct ConnectionRig {
    waiting: Vec<FrameJob>,
    conn: SmbConn,
    server: Arc<SmbServer>,
    _place: ShareStorage,
    now: HostTime,
    /// The last response, without its prefix.
    reply: Vec<u8>,
    /// Hash over the messages that determine a session's keys.
    preauth: PreauthHash,
    /// Key for the next request's signature.
    signing: Option<SigningKey>,
}

impl ConnectionRig {
    /// A rig with a share at `place`.
    pub fn new(place: ShareStorage) -> Self {
        let now = HostTime { instant: Instant::now(), wall: Timestamp(1_750_000_000_000_000_000) };
        let host = Arc::new(FuzzHost { random: AtomicU8::new(1), now });
        let shares = place.backend().map(share).into_iter().collect();
        let server = SmbServer::new(config(shares), Arc::new(Files::new(Arc::new(Inline))), host);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 445));
        let facts = SmbConnFacts { id: 1, peer: address, local: address };
        let conn = SmbConn::new(server.clone(), facts);
        Self {
            waiting: Vec::new(),
            conn,
            server,
            _place: place,
            now,
            reply: Vec::new(),
            preauth: PreauthHash::default(),
            signing: None,
        }
    }

    pub fn is_established(&self) -> bool {
        self.conn.is_established()
    }

    /// Passes a frame to the server as its task does, and checks the responses.
    pub fn feed(&mut self, frame: &[u8]) -> Result<(), SmbCloseReason> {
        assert!(frame.len() <= self.conn.frame_length_max());
        self.conn.handle_frame(BytesMut::from(frame), self.now)?;
        while let Some(job) = self.conn.poll_job() {
            self.waiting.push(job);
        }
        // A job may wait for a later one.
        let mut waiting = Vec::new();
        for mut job in self.waiting.drain(..) {
            match job.as_mut().now_or_never() {
                Some(finished) => self.conn.handle_finished(finished, self.now),
                None => waiting.push(job),
            }
        }
        waiting.truncate(WAITING_MAX);
        self.waiting = waiting;
        while let Some(transmit) = self.conn.poll_transmit().or_else(|| self.conn.poll_notice()) {
            self.check_response(transmit);
        }
        Ok(())
    }

    /// Asserts that a response is well-formed.
    fn check_response(&mut self, transmit: FrameTransmit) {
        let frame = &transmit.buffer[transmit.start..];
        let in_file = transmit.file.as_ref().map_or(0, |file| file.length_bytes);
        let prefix = *frame.first_chunk::<PREFIX_BYTES>().unwrap();
        let length = wire::frame::payload_length(prefix).unwrap();
        assert_eq!(length + PREFIX_BYTES, frame.len() + in_file);
        if in_file == 0 {
            let bytes_max = FRAME_BYTES_MAX + FRAME_OVERHEAD_BYTES;
            assert!(first_payload(frame, bytes_max).unwrap().is_some());
        }
        let frame = &frame[PREFIX_BYTES..];
        if frame.starts_with(b"\xFFSMB") {
            // The only response to an SMB1-only client, which selects none of its dialects. MS-CIFS
            // 2.2.3.1, 2.2.4.52.2.
            let (flags, chosen) = (frame[9], &frame[33..35]);
            assert!(flags & 0x80 != 0 && chosen == [0xFF, 0xFF]);
        } else if !frame.starts_with(b"\xFDSMB") {
            let mut start = 0;
            loop {
                let header = Header::decode(&mut Reader::new(&frame[start..])).unwrap();
                assert!(header.flags.contains(Flags::RESPONSE));
                start = next_element(frame.len(), start, header.next_command).unwrap().end;
                if header.next_command == 0 {
                    break;
                }
            }
        }
        self.reply = frame.to_vec();
        self.conn.recycle(transmit.buffer);
    }

    /// Disconnects the client, and asserts that no session remains. Durable opens may remain.
    pub fn end(mut self) {
        self.waiting.clear();
        drop(self.conn);
        let server = self.server;
        assert_eq!(server.snapshot().sessions.len(), 0);
    }

    /// Logs on and connects the share; returns the client's knowledge.
    pub fn log_on(&mut self, dialect: Dialect) -> Repair {
        let mut repair = Repair::default();
        let preauth = [1, 0, 0, 0, 1, 0];
        let mut contexts = vec![(context::PREAUTH_INTEGRITY, &preauth[..])];
        contexts.retain(|_| dialect == Dialect::Smb311);
        let request = NegotiateRequest {
            security_mode: 1,
            capabilities: 0,
            client_guid: [3; 16],
            dialects: vec![dialect.number()],
            contexts,
        };
        self.call(&mut repair, Command::NEGOTIATE, |w| request.encode(w));

        const FLAGS: u32 = 0x2008_8205; // 128, NTLM2, ALWAYS_SIGN, NTLM, TARGET, UNICODE
        let first = [&b"NTLMSSP\0\x01\0\0\0"[..], &FLAGS.to_le_bytes(), &[0; 16]].concat();
        let reply = self.set_up(&mut repair, &first);
        assert_eq!(reply.status, NtStatus::MORE_PROCESSING_REQUIRED);
        repair.session = reply.session_id.0;
        let at = self.reply.windows(8).position(|w| w == b"NTLMSSP\0").unwrap();
        let (second, session_key) = authenticate(FLAGS, &self.reply[at + 24..at + 32]);
        assert_eq!(self.set_up(&mut repair, &second).status, NtStatus::SUCCESS);
        // MS-SMB2 3.3.5.7: without a signature the server would disconnect.
        if dialect == Dialect::Smb311 {
            let session_key = &SessionKey::new(&session_key);
            let source = KeySource { dialect, session_key, preauth: &self.preauth };
            self.signing = Some(source.signing(SigningAlgorithm::AesCmac));
        }

        let mut path = Vec::new();
        put_utf16(&mut path, "\\\\SERVER\\data");
        let request = TreeConnectRequest { flags: 0, path: &path };
        let reply = self.call(&mut repair, Command::TREE_CONNECT, |w| request.encode(w));
        self.signing = None;
        assert_eq!(reply.status, NtStatus::SUCCESS);
        repair.tree = reply.tree_id.0;
        repair
    }

    fn set_up(&mut self, repair: &mut Repair, token: &[u8]) -> Header {
        let request = SessionSetupRequest {
            flags: 0,
            security_mode: 1,
            capabilities: 0,
            previous_session: SessionId(0),
            token,
        };
        self.call(repair, Command::SESSION_SETUP, |w| request.encode(w))
    }

    fn call(
        &mut self,
        repair: &mut Repair,
        command: Command,
        body: impl FnOnce(&mut Writer<'_>),
    ) -> Header {
        let header = Header {
            credit_charge: 1,
            status: NtStatus::SUCCESS,
            command,
            credits: 512,
            flags: if self.signing.is_some() { Flags::SIGNED } else { Flags::default() },
            next_command: 0,
            message_id: MessageId(repair.next_id),
            process_id: 0,
            tree_id: TreeId(repair.tree),
            session_id: SessionId(repair.session),
            signature: [0; 16],
        };
        repair.next_id += 1;
        let mut message = Vec::new();
        let mut w = Writer::new(&mut message);
        header.encode(&mut w);
        body(&mut w);
        if let Some(key) = &self.signing {
            key.sign(&mut message);
        }
        self.preauth.update(&message);
        self.feed(&message).unwrap();
        let reply = Header::decode(&mut Reader::new(&self.reply)).unwrap();
        // The hash excludes the final SESSION_SETUP response.
        let is_part = command == Command::NEGOTIATE || reply.status != NtStatus::SUCCESS;
        if is_part {
            self.preauth.update(&self.reply);
        }
        reply
    }
}

fn share(vfs: Arc<dyn Vfs>) -> Arc<SmbShare> {
    let volume = Volume::new(vfs, VolumeOptions::default());
    Arc::new(SmbShare {
        name: "data".into(),
        volume: Some(Arc::new(volume)),
        access_based_enumeration: true,
        posix: true,
        time_machine: true,
        ..SmbShare::default()
    })
}

fn config(shares: Vec<Arc<SmbShare>>) -> SmbConfig {
    SmbConfig {
        server_guid: [7; 16],
        name: "SERVER".into(),
        domain: "WORKGROUP".into(),
        signing_required: false,
        ntlm: true,
        encryption: EncryptionPolicy::Offered,
        dialect_min: Dialect::Smb202,
        dialect_max: Dialect::Smb311,
        io_bytes_max: smb::limits::IO_BYTES_MAX,
        multichannel: smb::MultichannelPolicy::default(),
        shares,
    }
}

/// NTLM's AUTHENTICATE message, with the password proof. MS-NLMP 2.2.1.3, 3.3.2.
fn authenticate(flags: u32, challenge: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let mut blob = vec![1, 1];
    blob.extend_from_slice(&[0; 30]);
    let hash = NtHash::of_password(PASSWORD).ntowf_v2(USER, "");
    let mut mac = Hmac::<Md5>::new_from_slice(&hash).unwrap();
    mac.update(challenge);
    mac.update(&blob);
    let proof = mac.finalize().into_bytes();
    let nt = [&proof[..], &blob].concat();
    let mut mac = Hmac::<Md5>::new_from_slice(&hash).unwrap();
    mac.update(&proof);
    let session_key = mac.finalize().into_bytes().into();
    let mut name = Vec::new();
    put_utf16(&mut name, USER);
    let mut message = b"NTLMSSP\0\x03\0\0\0".to_vec();
    let mut offset = 64u32;
    for length in [0, nt.len(), 0, name.len(), 0, 0] {
        message.extend_from_slice(&(length as u16).to_le_bytes());
        message.extend_from_slice(&(length as u16).to_le_bytes());
        message.extend_from_slice(&offset.to_le_bytes());
        offset += length as u32;
    }
    message.extend_from_slice(&flags.to_le_bytes());
    message.extend_from_slice(&nt);
    message.extend_from_slice(&name);
    (message, session_key)
}
