//! The victim: an honest client whose files, opens and session no other user may change.

use super::link::{
    HostileLink, HostileOffer, KnownOpen, KnownSession, LogonPurpose, MessageProtection,
    ReplyMessage,
};
use super::logon::LogonClaim;
use super::surroundings::{EpisodeSurroundings, EpisodeUser};
use smb::SmbServer;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use vfs::memory::MemoryVfs;
use vfs::{
    Actor, AttributeChanges, AttributeRequest, Case, CreateHow, FileKey, FileKind, OpenHow,
    RelPath, Vfs, Wait,
};
use wire::codec::{Writer, put_utf16};
use wire::fscc::{FILE_NON_DIRECTORY_FILE, FILE_OPEN};
use wire::ntstatus::NtStatus;
use wire::smb::{
    APP_INSTANCE_ID, CloseRequest, Command, CreateRequest, Dialect, DurableReconnectV2,
    DurableRequestV2, FileId, Header, LeaseContext, LeaseV2, LockElement, LockRequest,
    OplockBreakAck, ReadRequest, SessionId, WriteRequest, put_context,
};

/// Prefix of the data that only the victim may read.
pub const SECRET: &[u8; 32] = b"only the victim may read this...";
/// Bytes of each of the victim's files.
pub const FILE_BYTES: usize = 512;
/// The range that the victim locks in each of its files.
pub const LOCKED: Range<usize> = 200..300;
/// The victim writes after its secret.
pub const WRITES_FROM: usize = 128;
/// Longest absence of the victim, below the timeout of its durable opens, which is a minute.
pub const AWAY_MAX: Duration = Duration::from_secs(25);

/// ClientGuid of the victim; hostile clients claim it as well.
pub const CLIENT_GUID: [u8; 16] = [0xA1; 16];
pub const CREATE_GUID: [u8; 16] = [0xA2; 16];
pub const LEASE_KEY: [u8; 16] = [0xA3; 16];
pub const LEASED_KEY: [u8; 16] = [0xA5; 16];
pub const APP_INSTANCE: [u8; 16] = [0xA4; 16];

const PRIVATE: &str = "v\\private";
const SHARED: &str = "pub\\shared";
const CACHED: &str = "pub\\cached";

/// Directories and files of the victim, with their modes.
const TREE: [(&str, FileKind, u32); 7] = [
    ("v", FileKind::Directory, 0o700),
    ("v/private", FileKind::File, 0o600),
    ("pub", FileKind::Directory, 0o755),
    ("pub/shared", FileKind::File, 0o644),
    // Open over NFS.
    ("v/kept", FileKind::File, 0o600),
    ("pub/noted", FileKind::File, 0o644),
    // Cached by the victim until another client opens it.
    ("pub/cached", FileKind::File, 0o644),
];

/// The state of a file that hostile clients may not change. Reads change its times. POSIX lets a
/// user link a visible file into their own directory, which changes its link count.
#[derive(Clone, PartialEq, Eq)]
struct VictimFileState {
    key: FileKey,
    owner: (u32, u32, u32),
    size_bytes: u64,
    dos: String,
    descriptor: Option<Vec<u8>>,
    xattrs: Vec<Vec<u8>>,
    names: Vec<Vec<u8>>,
    bytes: Vec<u8>,
}

impl Debug for VictimFileState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, owner, dos, descriptor, xattrs, names, bytes, .. } = self;
        let bytes = String::from_utf8_lossy(bytes);
        write!(f, "{key:?} {owner:?} {dos} {descriptor:?} {xattrs:?} {names:?} {bytes:?}")
    }
}

impl VictimFileState {
    fn of(vfs: &MemoryVfs, path: &str, kind: FileKind) -> Self {
        let how = OpenHow {
            read: true,
            write: false,
            case: Case::Sensitive,
            wanted: AttributeRequest { dos: Some(vfs::ServerWork::Metadata) },
            no_follow: true,
            wait: Wait::Allowed,
        };
        let path = RelPath::of_bytes(path.as_bytes()).unwrap();
        let opened = vfs.open(Actor::SUPERUSER, &path, how).expect("the victim's file is there");
        let (node, attributes) = (opened.node, opened.attributes);
        let (mut names, mut bytes) = (Vec::new(), Vec::new());
        if kind == FileKind::Directory {
            node.readdir(0, &mut |entry| {
                names.push(entry.name.as_bytes().to_vec());
                true
            })
            .unwrap();
        } else {
            node.read(0, 2 * FILE_BYTES, &mut bytes, Wait::Allowed).unwrap();
        }
        let xattrs = node.need_xattrs().unwrap().xattr_names(Actor::SUPERUSER).unwrap();
        Self {
            key: attributes.key,
            owner: (attributes.uid, attributes.gid, attributes.mode),
            size_bytes: if kind == FileKind::File { attributes.size_bytes } else { 0 },
            dos: format!("{:?}", attributes.dos.bits),
            descriptor: node.security_descriptor().unwrap(),
            xattrs: xattrs.iter().map(|name| name.as_bytes().to_vec()).collect(),
            names,
            bytes,
        }
    }

    fn of_all(vfs: &MemoryVfs) -> Vec<Self> {
        TREE.iter().map(|(path, kind, _)| Self::of(vfs, path, *kind)).collect()
    }
}

/// The victim; see the module.
pub struct Victim {
    pub link: HostileLink,
    /// Its second channel, if any.
    pub second: Option<HostileLink>,
    pub private: KnownOpen,
    pub shared: Option<FileId>,
    /// The open of a file that the victim caches under an oplock or a lease.
    pub cached: Option<FileId>,
    /// Level of that oplock.
    oplock: u8,
    /// Acknowledgments that the victim owes.
    owed: Vec<OplockBreakAck>,
    /// The last acknowledgment that it sent.
    acknowledged: Option<OplockBreakAck>,
    /// Another user's session on the same connection.
    neighbour: Option<KnownSession>,
    /// Time of its connection loss.
    pub away_since: Option<Duration>,
    facts: Vec<VictimFileState>,
    writes: u8,
}

/// Creates the victim's files.
pub fn create_tree(vfs: &MemoryVfs) {
    let root = vfs.open(Actor::SUPERUSER, &RelPath::root(), OpenHow::looking(Wait::Allowed));
    // Like `/tmp`: everyone may add names, but only owners may rename or remove theirs.
    let changes = AttributeChanges { mode: Some(0o1777), ..AttributeChanges::default() };
    root.unwrap().node.set_attributes(Actor::SUPERUSER, &changes).unwrap();
    let alice = EpisodeUser::Alice.identity();
    for (path, kind, mode) in TREE {
        let how = CreateHow::plain(kind, mode);
        let path = RelPath::of_bytes(path.as_bytes()).unwrap();
        let made = vfs.create(alice.actor(), &path, Case::Sensitive, how).unwrap();
        if kind == FileKind::File {
            let mut bytes = SECRET.to_vec();
            bytes.resize(FILE_BYTES, b'.');
            // A file that all may read contains no secret.
            if mode & 0o004 != 0 {
                bytes[..SECRET.len()].fill(b'-');
            }
            made.node.write(alice.actor(), 0, &bytes).unwrap();
        }
    }
}

impl Victim {
    /// The victim logs on, opens its files and locks ranges of them.
    pub fn arrive(
        server: &Arc<SmbServer>,
        around: &EpisodeSurroundings,
        vfs: &MemoryVfs,
        offer: HostileOffer,
        connection: u64,
    ) -> Self {
        let mut link =
            HostileLink::connect(server, around, EpisodeUser::Alice, offer, connection).unwrap();
        let file_id = FileId::default();
        let guid = (link.agreed.dialect >= Dialect::Smb300).then_some(CREATE_GUID);
        let private = KnownOpen {
            file_id,
            name: PRIVATE,
            create_guid: guid,
            is_durable: true,
            lease_key: Some(LEASE_KEY),
        };
        let status = link.log_on(around, EpisodeUser::Alice, SessionId(0));
        assert_eq!(status, Some(NtStatus::SUCCESS), "the victim logs on");
        assert_eq!(link.connect_tree(around, "data"), Some(NtStatus::SUCCESS));
        let facts = VictimFileState::of_all(vfs);
        let mut victim = Self {
            link,
            second: None,
            private,
            shared: None,
            cached: None,
            oplock: 0,
            owed: Vec::new(),
            acknowledged: None,
            neighbour: None,
            away_since: None,
            facts,
            writes: 0,
        };
        victim.private.file_id =
            victim.open_private(around, None).expect("the victim opens its file");
        victim.lock(around, victim.private.file_id, LockElement::EXCLUSIVE);
        victim.open_shared(around);
        assert!(victim.shared.is_some(), "nothing is in the victim's way");
        victim
    }

    pub fn session(&self) -> &KnownSession {
        self.link.session.as_ref().expect("the victim is always logged on")
    }

    /// The expected bytes of a file, by its index.
    pub fn bytes(&self, file: usize) -> &[u8] {
        &self.facts[file].bytes
    }

    /// Records a write of the victim itself.
    pub fn expect_bytes(&mut self, file: usize, at: usize, data: &[u8]) {
        self.facts[file].bytes[at..at + data.len()].copy_from_slice(data);
    }

    pub fn is_away(&self) -> bool {
        self.away_since.is_some()
    }

    /// Sends a message of the victim, which gets an immediate response.
    fn call(
        &mut self,
        around: &EpisodeSurroundings,
        command: Command,
        body: impl FnOnce(&mut Writer<'_>),
    ) -> ReplyMessage {
        call(&mut self.link, around, command, body)
    }

    /// Opens its private file, or reconnects it.
    fn open_private(
        &mut self,
        around: &EpisodeSurroundings,
        old: Option<FileId>,
    ) -> Option<FileId> {
        let (mut units, mut contexts) = (Vec::new(), Vec::new());
        put_utf16(&mut units, PRIVATE);
        put_durability(&mut contexts, self.private.create_guid, old);
        let v2 = self.private.create_guid.map(|_| LeaseV2::default());
        let lease = LeaseContext { key: LEASE_KEY, state: 7, v2, flags: 0 };
        put_context(&mut contexts, b"RqLs", &lease.encode());
        if old.is_none() && self.private.create_guid.is_some() {
            let id = [&[20, 0, 0, 0][..], &APP_INSTANCE].concat();
            put_context(&mut contexts, &APP_INSTANCE_ID, &id);
        }
        let request = CreateRequest { oplock: 0xFF, contexts: &contexts, ..open(&units) };
        let reply = self.call(around, Command::CREATE, |w| request.encode(w));
        (reply.header.status == NtStatus::SUCCESS).then(|| file_id(&reply))
    }

    /// Opens a shared file; another client's open or oplock may prevent that.
    fn open_shared(&mut self, around: &EpisodeSurroundings) {
        let mut units = Vec::new();
        put_utf16(&mut units, SHARED);
        let request = open(&units);
        let (header, protection) = (self.link.header(Command::CREATE), self.link.protection());
        let reply = self.link.call(around, header, &protection, |w| request.encode(w));
        if let Some(reply) = reply.filter(|reply| reply.header.status == NtStatus::SUCCESS) {
            let file_id = file_id(&reply);
            let flags = LockElement::EXCLUSIVE | LockElement::FAIL_IMMEDIATELY;
            let locked = self.lock(around, file_id, flags);
            self.shared = (locked == NtStatus::SUCCESS).then_some(file_id);
        }
    }

    fn lock(&mut self, around: &EpisodeSurroundings, file_id: FileId, flags: u32) -> NtStatus {
        let (offset_bytes, length_bytes) = (LOCKED.start as u64, LOCKED.len() as u64);
        let element = LockElement { offset_bytes, length_bytes, flags };
        let request = LockRequest { sequence: 0, file_id, elements: vec![element] };
        self.call(around, Command::LOCK, |w| request.encode(w)).header.status
    }

    /// Asserts that hostile clients have changed nothing.
    pub fn check(&mut self, around: &EpisodeSurroundings, server: &SmbServer, vfs: &MemoryVfs) {
        let facts = VictimFileState::of_all(vfs);
        for ((was, is), (path, ..)) in self.facts.iter().zip(&facts).zip(TREE) {
            assert!(is == was, "the victim's {path} was {was:?} and is {is:?}");
        }
        if self.is_away() {
            return;
        }
        let id = self.session().id.0;
        let sessions = server.snapshot().sessions;
        let session = sessions.iter().find(|session| session.id == id);
        let session = session.expect("the victim's session is there");
        assert_eq!(session.user, EpisodeUser::Alice.name());
        assert_eq!(session.channels.len(), 1 + usize::from(self.second.is_some()));
        for file in [Some(self.private.file_id), self.shared].into_iter().flatten() {
            let is_private = file == self.private.file_id;
            // A user who may read a file may lock the rest of it.
            let range = if is_private { 0..FILE_BYTES } else { LOCKED };
            let expected = &facts[if is_private { 1 } else { 3 }].bytes[range.clone()];
            let links = [Some(&mut self.link), self.second.as_mut()];
            for link in links.into_iter().flatten() {
                let bytes = read(link, around, file, range.clone());
                assert_eq!(bytes, expected, "the victim reads its own bytes");
            }
            // Other clients wait for the lock, and would get it if it were released for a moment.
            let flags = LockElement::EXCLUSIVE | LockElement::FAIL_IMMEDIATELY;
            let again = self.lock(around, file, flags);
            assert_eq!(again, NtStatus::LOCK_NOT_GRANTED, "the victim's range is locked");
        }
        self.check_notices(around);
    }

    /// Unlocks the victim's own locks.
    pub fn unlock(&mut self, around: &EpisodeSurroundings) {
        for file in [Some(self.private.file_id), self.shared.take()].into_iter().flatten() {
            let unlocked = self.lock(around, file, LockElement::UNLOCK);
            assert_eq!(unlocked, NtStatus::SUCCESS, "the victim's lock");
        }
    }

    /// Acknowledges a break that others wait for, which no other client may have done. Without one
    /// it reopens the file, to cache it. True for an acknowledgment.
    pub fn acknowledge(&mut self, around: &EpisodeSurroundings, by_oplock: bool) -> bool {
        if self.is_away() {
            return false;
        }
        self.check_notices(around);
        if !self.owed.is_empty() {
            let request = self.owed.remove(0);
            self.acknowledged = Some(request);
            let reply = self.call(around, Command::OPLOCK_BREAK, |w| request.encode(w));
            assert_eq!(
                reply.header.status,
                NtStatus::SUCCESS,
                "acknowledged by others: {request:?}"
            );
            return true;
        }
        if let Some(file_id) = self.cached.take() {
            let request = CloseRequest { flags: 0, file_id };
            let reply = self.call(around, Command::CLOSE, |w| request.encode(w));
            assert_eq!(reply.header.status, NtStatus::SUCCESS, "the victim closes its file");
            self.check_notices(around);
            self.owed.clear();
        }
        self.open_cached(around, by_oplock);
        false
    }

    fn open_cached(&mut self, around: &EpisodeSurroundings, by_oplock: bool) {
        let (mut units, mut contexts) = (Vec::new(), Vec::new());
        put_utf16(&mut units, CACHED);
        let v2 = (self.link.agreed.dialect >= Dialect::Smb300).then(LeaseV2::default);
        let lease = LeaseContext { key: LEASED_KEY, state: 7, v2, flags: 0 };
        if !by_oplock {
            put_context(&mut contexts, b"RqLs", &lease.encode());
        }
        let oplock = if by_oplock { 9 } else { 0xFF };
        let request = CreateRequest { oplock, contexts: &contexts, ..open(&units) };
        let (header, protection) = (self.link.header(Command::CREATE), self.link.protection());
        let reply = self.link.call(around, header, &protection, |w| request.encode(w));
        let opened = reply.filter(|reply| reply.header.status == NtStatus::SUCCESS);
        self.acknowledged = None;
        self.oplock = opened.as_ref().map_or(0, |reply| reply.bytes[Header::LENGTH + 2]);
        self.cached = opened.map(|reply| file_id(&reply));
    }

    /// Asserts that the victim's lease was never broken, because no other client may open its
    /// private file. Breaks of hostile clients' leases reach the victim if they claim its
    /// ClientGuid. MS-SMB2 3.3.4.7.
    fn check_notices(&mut self, around: &EpisodeSurroundings) {
        let links = [Some(&mut self.link), self.second.as_mut()];
        let replies = links.into_iter().flatten().flat_map(|link| {
            link.poll(around);
            link.take_replies()
        });
        for ReplyMessage { header, bytes } in replies {
            if header.command != Command::OPLOCK_BREAK {
                continue;
            }
            let is_own = bytes.windows(LEASE_KEY.len()).any(|window| window == LEASE_KEY);
            assert!(!is_own, "the lease was broken");
            let owed = acknowledgment(&bytes[Header::LENGTH..], &mut self.oplock);
            // A notification may be repeated on another channel.
            let is_new = |owed: &OplockBreakAck| {
                !self.owed.contains(owed) && self.acknowledged != Some(*owed)
            };
            let owed = owed.filter(is_new);
            self.owed.extend(owed);
        }
    }

    pub fn write(&mut self, around: &EpisodeSurroundings) {
        if self.is_away() {
            return;
        }
        self.writes = self.writes.wrapping_add(1);
        let data = [self.writes; 16];
        let at = WRITES_FROM + usize::from(self.writes % 16);
        let request = WriteRequest {
            offset_bytes: at as u64,
            file_id: self.private.file_id,
            flags: 0,
            data: &data,
        };
        let reply = self.call(around, Command::WRITE, |w| request.encode(w));
        assert_eq!(reply.header.status, NtStatus::SUCCESS, "the victim writes");
        self.expect_bytes(1, at, &data);
    }

    /// The first half of a re-authentication, which others may try to disturb.
    pub fn begin_reauthentication(&mut self, around: &EpisodeSurroundings) {
        if self.is_away() || self.link.half.is_some() {
            return;
        }
        let purpose = LogonPurpose::Renew(self.session().clone());
        let protection = self.link.protection();
        let status = self.link.begin_logon(around, purpose, &protection, SessionId(0));
        assert_eq!(
            status,
            Some(NtStatus::MORE_PROCESSING_REQUIRED),
            "the victim's reauthentication"
        );
    }

    /// Completes a re-authentication; false if none was begun.
    pub fn end_reauthentication(&mut self, around: &EpisodeSurroundings) -> bool {
        if self.is_away() || self.link.half.is_none() {
            return false;
        }
        let (claim, protection) = (LogonClaim::of(EpisodeUser::Alice), self.link.protection());
        let status = self.link.end_logon(around, claim, false, &protection, SessionId(0));
        assert_eq!(status, Some(NtStatus::SUCCESS), "the victim's reauthentication");
        true
    }

    /// Binds or drops a second channel; true for a binding. An attacker without a key injects a
    /// message into the exchange.
    pub fn bind(
        &mut self,
        server: &Arc<SmbServer>,
        around: &EpisodeSurroundings,
        connection: u64,
        foreign: (LogonClaim, bool, bool),
    ) -> bool {
        if self.is_away() || !self.link.has_channels() || self.second.take().is_some() {
            return false;
        }
        let offer = self.link.offer.clone();
        let mut link =
            HostileLink::connect(server, around, EpisodeUser::Alice, offer, connection).unwrap();
        let session = self.session().clone();
        let protection = MessageProtection::Signed(session.session_key.clone());
        let begun =
            link.begin_logon(around, LogonPurpose::Bind(session), &protection, SessionId(0));
        assert_eq!(begun, Some(NtStatus::MORE_PROCESSING_REQUIRED), "the victim's binding");
        let (claim, is_second, binds) = foreign;
        let plain = MessageProtection::Plain;
        let status = link.receive_foreign_setup(around, claim, is_second, binds, &plain);
        assert!(status.is_some_and(refuses), "a binding continued without its key: {status:?}");
        let claim = LogonClaim::of(EpisodeUser::Alice);
        let ended = link.end_logon(around, claim, true, &protection, SessionId(0));
        assert_eq!(ended, Some(NtStatus::SUCCESS), "the victim's binding");
        link.tree = self.link.tree;
        self.second = Some(link);
        true
    }

    /// Cuts the victim's connections.
    pub fn leave(&mut self, around: &EpisodeSurroundings) {
        if !self.is_away() {
            (self.second, self.neighbour, self.cached) = (None, None, None);
            self.check_notices(around);
            self.owed.clear();
            self.link.half = None;
            self.link.cut();
            self.away_since = Some(around.since_start());
        }
    }

    /// Reconnects, and asserts that all opens are there.
    pub fn reconnect(
        &mut self,
        server: &Arc<SmbServer>,
        around: &EpisodeSurroundings,
        connection: u64,
    ) {
        let offer = self.link.offer.clone();
        let previous = self.session().id;
        let mut link =
            HostileLink::connect(server, around, EpisodeUser::Alice, offer, connection).unwrap();
        let status = link.log_on(around, EpisodeUser::Alice, previous);
        assert_eq!(status, Some(NtStatus::SUCCESS), "the victim reconnects");
        assert_eq!(link.connect_tree(around, "data"), Some(NtStatus::SUCCESS));
        (self.link, self.away_since, self.shared) = (link, None, None);
        let file_id = self.open_private(around, Some(self.private.file_id));
        self.private.file_id = file_id.expect("the victim's durable open is still its own");
        self.open_shared(around);
    }

    /// Another user of the victim's machine logs on over the victim's connection.
    pub fn admit_neighbour(&mut self, around: &EpisodeSurroundings) -> bool {
        if self.is_away() || self.link.half.is_some() || self.neighbour.is_some() {
            return false;
        }
        let own = self.link.session.take();
        let status = self.link.log_on(around, EpisodeUser::Mallory, SessionId(0));
        let neighbour = std::mem::replace(&mut self.link.session, own);
        assert_eq!(status, Some(NtStatus::SUCCESS), "a neighbour logs on");
        self.link.neighbour = neighbour.as_ref().and_then(|session| session.seals.clone());
        self.neighbour = neighbour;
        true
    }

    /// The neighbour's session keys, for encryption or signing.
    pub fn neighbours_protection(&self, seals: bool) -> Option<MessageProtection> {
        let neighbour = self.neighbour.as_ref()?;
        Some(match &neighbour.seals {
            Some(keys) if seals => MessageProtection::Sealed(keys.clone(), neighbour.id),
            _ => MessageProtection::Signed(neighbour.channel_key.clone()),
        })
    }

    /// An attacker without a key injects a SESSION_SETUP into the victim's connection.
    pub fn receive_foreign_setup(
        &mut self,
        around: &EpisodeSurroundings,
        claim: LogonClaim,
        is_second: bool,
        binds: bool,
        protection: &MessageProtection,
    ) {
        let link = &mut self.link;
        let status = link.receive_foreign_setup(around, claim, is_second, binds, protection);
        assert!(!self.link.is_closed(), "the victim's connection was closed");
        let is_refused = status.is_none_or(refuses);
        assert!(is_refused, "the victim's session was reauthenticated without its key: {status:?}");
    }

    /// An attacker without a key injects a message into the victim's connection.
    pub fn receive_foreign(
        &mut self,
        around: &EpisodeSurroundings,
        header: Header,
        message: Vec<u8>,
        protection: &MessageProtection,
    ) {
        let sent = self.link.send(around, &[message], protection);
        assert!(sent.is_ok(), "the victim's connection was closed");
        if let Some(ReplyMessage { header, .. }) = self.link.answer(header.message_id) {
            assert!(header.status.is_error(), "carried out without a signature: {header:?}");
        }
    }
}

/// The acknowledgment of a break notification, if it needs one; level II needs none. MS-SMB2
/// 2.2.23, 2.2.24, 3.3.4.6.
fn acknowledgment(notice: &[u8], oplock: &mut u8) -> Option<OplockBreakAck> {
    const ASKED: u8 = 1;
    const LEVEL_II: u8 = 1;
    if notice[0] == 24 {
        let file_id = FileId::decode(&mut wire::codec::Reader::new(&notice[8..])).ok()?;
        let (level, former) = (notice[2], std::mem::replace(oplock, notice[2]));
        return (former > LEVEL_II).then_some(OplockBreakAck::Oplock { level, file_id });
    }
    // Hostile clients that claim the victim's GUID have leases under other keys.
    let is_asked = notice[4] == ASKED && notice[8..24] == LEASED_KEY;
    let state = u32::from(notice[28]);
    is_asked.then_some(OplockBreakAck::Lease { key: LEASED_KEY, state })
}

/// True if this status ends an exchange of SESSION_SETUPs.
fn refuses(status: NtStatus) -> bool {
    status.is_error() && status != NtStatus::MORE_PROCESSING_REQUIRED
}

fn call(
    link: &mut HostileLink,
    around: &EpisodeSurroundings,
    command: Command,
    body: impl FnOnce(&mut Writer<'_>),
) -> ReplyMessage {
    let (header, protection) = (link.header(command), link.protection());
    let reply = link.call(around, header, &protection, body);
    reply.expect("the victim is answered at once")
}

fn read(
    link: &mut HostileLink,
    around: &EpisodeSurroundings,
    file_id: FileId,
    range: Range<usize>,
) -> Vec<u8> {
    let request = ReadRequest {
        flags: 0,
        length_bytes: range.len() as u32,
        offset_bytes: range.start as u64,
        file_id,
        minimum_bytes: 0,
    };
    let reply = call(link, around, Command::READ, |w| request.encode(w));
    assert_eq!(reply.header.status, NtStatus::SUCCESS, "the victim reads");
    let at = usize::from(reply.bytes[Header::LENGTH + 2]);
    reply.bytes[at..].to_vec()
}

/// FileId of a successful CREATE.
pub fn file_id(reply: &ReplyMessage) -> FileId {
    let mut r = wire::codec::Reader::new(&reply.bytes[Header::LENGTH + 64..]);
    FileId::decode(&mut r).unwrap()
}

/// Opens an existing file for reading and writing, with full sharing.
fn open(name: &[u8]) -> CreateRequest<'_> {
    CreateRequest {
        oplock: 0,
        impersonation: 2,
        desired_access: 0x12_019F,
        attributes: 0,
        share_access: 7,
        disposition: FILE_OPEN,
        options: FILE_NON_DIRECTORY_FILE,
        name,
        contexts: &[],
    }
}

/// Adds a durable request, or a reconnect of `old`.
pub fn put_durability(contexts: &mut Vec<u8>, guid: Option<[u8; 16]>, old: Option<FileId>) {
    let mut data = Vec::new();
    let mut w = Writer::new(&mut data);
    let name = match (guid, old) {
        (Some(create_guid), Some(file_id)) => {
            DurableReconnectV2 { file_id, create_guid, persistent: false }.encode(&mut w);
            b"DH2C"
        }
        (Some(create_guid), None) => {
            DurableRequestV2 { timeout_ms: 0, persistent: false, create_guid }.encode(&mut w);
            b"DH2Q"
        }
        (None, Some(file_id)) => {
            file_id.encode(&mut w);
            b"DHnC"
        }
        (None, None) => {
            w.zeros(16);
            b"DHnQ"
        }
    };
    put_context(contexts, name, &data);
}
