//! A client machine: its session, opens, caches and requests.

use super::referee::{HandleNumber, RefereeOwner, kinds, rights};
use crate::messages;
use crate::random::Random;
use std::collections::{BTreeMap, VecDeque};
use wire::fscc;
use wire::smb::{
    CloseRequest, Command, CreateRequest, Dialect, DurableReconnectV2, DurableRequestV2, FileId,
    LEASE_CONTEXT, LeaseContext, LeaseV2, ReadRequest, SessionId, WriteRequest, put_context,
};

/// Length of a cell, which holds one value.
pub const CELL_BYTES: u64 = 8;
/// Number of cells used per file.
pub const CELLS: u8 = 4;
/// Number of the directory.
pub const DIRECTORY: u32 = 8;
/// Files from this number on are in the directory, and are created once.
pub const ENTRIES: u32 = 100;
/// Default time that an open waits for its client.
pub const KEPT_NANOS: u64 = 60_000_000_000;

/// Requested oplock or lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRequest {
    /// None.
    None,
    /// An oplock of this level.
    Oplock(u8),
    /// A lease with this key and state. Leases with even keys are of version 2.
    Lease(u8, u8),
}

/// Requested durability of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedDurability {
    /// None.
    None,
    /// A durable handle of version 1.
    V1,
    /// A durable handle of version 2, with its CreateGuid.
    V2([u8; 16]),
    /// A persistent handle, with its CreateGuid.
    Persistent([u8; 16]),
}

impl RequestedDurability {
    /// The CreateGuid.
    pub fn guid(self) -> Option<[u8; 16]> {
        match self {
            Self::None | Self::V1 => None,
            Self::V2(guid) | Self::Persistent(guid) => Some(guid),
        }
    }
}

/// State of an open as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelOpenStatus {
    /// The open is requested.
    Opening,
    /// The open exists.
    Open,
    /// Its connection is lost; it may be reconnected.
    Absent,
    /// The reconnect is requested.
    Returning,
    /// The close is about to be requested.
    Closing,
    /// Unknown; the client does not use it any more.
    Lost,
}

/// State of a byte-range lock as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStatus {
    /// The reply is outstanding.
    Asked,
    /// Held.
    Held,
    /// Unknown; the client does not request it again.
    Unknown,
}

/// An open of a client.
#[derive(Clone, Debug)]
pub struct ChannelOpen {
    /// Its number.
    pub number: HandleNumber,
    /// The file.
    pub file: u32,
    /// See [`kinds`].
    pub access: u8,
    /// See [`kinds`].
    pub share: u8,
    /// File id, once known.
    pub id: FileId,
    /// Requested oplock or lease.
    pub cache: CacheRequest,
    /// Requested durability.
    pub durable: RequestedDurability,
    /// The handle is durable.
    pub is_durable: bool,
    /// The handle is persistent.
    pub is_persistent: bool,
    /// Number of its session on the machine.
    pub session: u32,
    /// State as the client knows it.
    pub status: ChannelOpenStatus,
    /// Start of the client's absence, in nanoseconds.
    pub absent_since: u64,
    /// Byte-range locks, by cell.
    pub locks: BTreeMap<u8, LockStatus>,
    /// Latest lock sequence number, by cell.
    pub sequences: [u8; CELLS as usize],
}

/// A session, as its client sees it.
#[derive(Clone, Debug, Default)]
pub struct MachineSession {
    /// Number on its machine.
    pub number: u32,
    /// Its id.
    pub id: SessionId,
    /// See MS-SMB2 3.2.1.2, ChannelSequence.
    pub sequence: u16,
    /// LOGOFF was sent.
    pub is_ending: bool,
    /// Opens that it may have without the client's knowledge.
    pub unknown_opens: usize,
}

/// A lease that a client has requested.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownLease {
    /// The latest epoch received.
    pub epoch: u16,
    /// The step of the latest break notification.
    pub last_break_step: u64,
}

/// A break to acknowledge.
#[derive(Clone, Debug)]
pub enum Acknowledgment {
    /// An oplock, and the level to retain.
    Oplock(FileId, u8),
    /// A lease, and the state to retain.
    Lease(u8, u8),
}

/// A client machine.
pub struct ChannelMachine {
    /// Its number.
    pub number: usize,
    /// ClientGuid.
    pub guid: [u8; 16],
    /// User name.
    pub user: String,
    /// Dialect.
    pub dialect: Dialect,
    /// Its session.
    pub session: Option<MachineSession>,
    /// Number of sessions so far.
    pub sessions: u32,
    /// Id of the previous session.
    pub previous: SessionId,
    /// Its opens.
    pub handles: BTreeMap<HandleNumber, ChannelOpen>,
    /// Its leases, by key.
    pub leases: BTreeMap<u8, KnownLease>,
    /// Breaks to acknowledge.
    pub acknowledgments: VecDeque<Acknowledgment>,
    /// Oplock breaks that arrived before their CREATE's response.
    pub early: BTreeMap<u64, u8>,
    /// Operations to retransmit, each with its earliest step.
    pub resend_queue: VecDeque<(u64, u32)>,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ChannelOperation {
    Create { handle: HandleNumber },
    Reconnect { handle: HandleNumber },
    Steal { victim: usize, handle: HandleNumber },
    Close { handle: HandleNumber },
    Read { handle: HandleNumber, cell: u8 },
    Write { handle: HandleNumber, cell: u8 },
    Lock { handle: HandleNumber, cell: u8, exclusive: bool, sequence: u32 },
    Unlock { handle: HandleNumber, cell: u8, sequence: u32 },
}

impl ChannelOperation {
    /// The open that it refers to.
    pub fn handle(self) -> HandleNumber {
        match self {
            Self::Create { handle }
            | Self::Reconnect { handle }
            | Self::Steal { handle, .. }
            | Self::Close { handle }
            | Self::Read { handle, .. }
            | Self::Write { handle, .. }
            | Self::Lock { handle, .. }
            | Self::Unlock { handle, .. } => handle,
        }
    }
}

impl ChannelOpen {
    /// The owner of the cache under this open.
    pub fn owner(&self, machine: usize) -> RefereeOwner {
        match self.cache {
            CacheRequest::Lease(key, _) => RefereeOwner::Key(machine, key),
            _ => RefereeOwner::Handle(self.number),
        }
    }
}

impl ChannelMachine {
    /// A machine that has sent nothing yet.
    pub fn new(number: usize, random: &mut Random) -> Self {
        let mut guid = [number as u8 + 1; 16];
        guid[0] = 0xC0;
        Self {
            number,
            guid,
            // The first two machines have the same user.
            user: format!("user{}", number.saturating_sub(1)),
            dialect: random.pick(&[Dialect::Smb302, Dialect::Smb311]),
            session: None,
            sessions: 0,
            previous: SessionId(0),
            handles: BTreeMap::new(),
            leases: BTreeMap::new(),
            acknowledgments: VecDeque::new(),
            early: BTreeMap::new(),
            resend_queue: VecDeque::new(),
        }
    }

    /// The opens in this state, of all sessions.
    pub fn with_status(&self, status: ChannelOpenStatus) -> impl Iterator<Item = &ChannelOpen> {
        self.handles.values().filter(move |handle| handle.status == status)
    }

    /// The current session's open with that id. A restarted server assigns ids again, including
    /// that of an absent or lost open.
    pub fn with_id(&self, id: FileId) -> Option<HandleNumber> {
        let is_there = |h: &ChannelOpen| {
            matches!(h.status, ChannelOpenStatus::Open | ChannelOpenStatus::Closing)
        };
        let is_it = |h: &&ChannelOpen| h.id == id && h.session == self.sessions && is_there(h);
        self.handles.values().find(is_it).map(|h| h.number)
    }

    /// True if an open is under the lease.
    pub fn uses_key(&self, key: u8) -> bool {
        let is_of = |h: &ChannelOpen| matches!(h.cache, CacheRequest::Lease(k, _) if k == key);
        self.with_status(ChannelOpenStatus::Open).any(is_of)
    }

    /// Draws the parameters of a new open.
    pub fn draw_open(
        &self,
        number: HandleNumber,
        entry: u32,
        files: u8,
        random: &mut Random,
    ) -> ChannelOpen {
        let file = match random.below(20) {
            0 => DIRECTORY,
            1 => ENTRIES + entry,
            _ => u32::from(random.small(files)),
        };
        let key = (file as u8).wrapping_mul(2) + random.small(2);
        let lease = CacheRequest::Lease(key, random.pick(&[1, 3, 3, 7, 7, 7, 5]));
        let oplock = CacheRequest::Oplock(random.pick(&[1, 8, 9, 9]));
        let mut cache = random.pick(&[CacheRequest::None, oplock, lease, lease, lease]);
        let mut guid = [0; 16];
        guid.iter_mut().for_each(|byte| *byte = random.next() as u8);
        let mut durable = random.pick(&[
            RequestedDurability::None,
            RequestedDurability::V1,
            RequestedDurability::V2(guid),
            RequestedDurability::V2(guid),
            RequestedDurability::Persistent(guid),
        ]);
        let (mut access, mut share) = (random.pick(&[1, 2, 3, 3, 3]), kinds::ALL);
        if random.percent(25) {
            share = random.small(8);
        }
        if file == DIRECTORY {
            // Directory leases require version 2.
            (access, share) = (kinds::READ, kinds::ALL);
            durable = RequestedDurability::None;
            cache = CacheRequest::Lease(DIRECTORY as u8 * 2, rights::READ | rights::HANDLE);
        } else if file >= ENTRIES {
            (cache, durable) = (CacheRequest::None, RequestedDurability::None);
        }
        ChannelOpen {
            number,
            file,
            access,
            share,
            id: FileId { persistent: 0, volatile: 0 },
            cache,
            durable,
            is_durable: false,
            is_persistent: false,
            session: self.sessions,
            status: ChannelOpenStatus::Opening,
            absent_since: 0,
            locks: BTreeMap::new(),
            sequences: [0; CELLS as usize],
        }
    }

    /// Encodes the CREATE of an open: to create it, or to reconnect to it.
    pub fn create(&self, handle: &ChannelOpen, client: &Self, comes_back: bool) -> Vec<u8> {
        let mut contexts = Vec::new();
        let lease = match handle.cache {
            CacheRequest::Lease(key, state) => Some((key, state)),
            _ => None,
        };
        if let Some((key, state)) = lease {
            let epoch = client.leases.get(&key).map_or(0, |lease| lease.epoch);
            let v2 = key.is_multiple_of(2).then_some(LeaseV2 { parent_key: [0; 16], epoch });
            let lease = LeaseContext { key: lease_key(key), state: state.into(), flags: 0, v2 };
            put_context(&mut contexts, LEASE_CONTEXT, &lease.encode());
        }
        put_durable(&mut contexts, handle, comes_back);
        let name = messages::utf16(&name_of(handle.file));
        let right = |kind, mask| if handle.access & kind != 0 { mask } else { 0 };
        let rights = right(kinds::READ, 1) | right(kinds::WRITE, 2);
        let request = CreateRequest {
            oplock: match handle.cache {
                CacheRequest::None => 0,
                CacheRequest::Oplock(level) => level,
                CacheRequest::Lease(..) => 0xFF,
            },
            impersonation: 2,
            desired_access: rights | 0x10_0080, // SYNCHRONIZE, FILE_READ_ATTRIBUTES
            attributes: 0,
            share_access: handle.share.into(),
            disposition: if handle.file >= ENTRIES {
                fscc::FILE_CREATE
            } else {
                fscc::FILE_OPEN_IF
            },
            options: if handle.file == DIRECTORY { 1 } else { 0x40 },
            name: &name,
            contexts: &contexts,
        };
        messages::body(|w| request.encode(w))
    }

    /// Encodes an operation on an open.
    pub fn message(&self, op: ChannelOperation, value: u64) -> Option<(Command, Vec<u8>)> {
        let handle = self.handles.get(&op.handle())?;
        let offset = |cell: u8| u64::from(cell) * CELL_BYTES;
        let file_id = handle.id;
        Some(match op {
            ChannelOperation::Create { .. } => (Command::CREATE, self.create(handle, self, false)),
            ChannelOperation::Reconnect { .. } => {
                (Command::CREATE, self.create(handle, self, true))
            }
            ChannelOperation::Steal { .. } => return None,
            ChannelOperation::Close { .. } => {
                let close = CloseRequest { flags: 0, file_id };
                (Command::CLOSE, messages::body(|w| close.encode(w)))
            }
            ChannelOperation::Read { cell, .. } => {
                let read = ReadRequest {
                    flags: 0,
                    length_bytes: CELL_BYTES as u32,
                    offset_bytes: offset(cell),
                    file_id,
                    minimum_bytes: 0,
                };
                (Command::READ, messages::body(|w| read.encode(w)))
            }
            ChannelOperation::Write { cell, .. } => {
                let data = value.to_le_bytes();
                let write =
                    WriteRequest { offset_bytes: offset(cell), file_id, flags: 0, data: &data };
                (Command::WRITE, messages::body(|w| write.encode(w)))
            }
            ChannelOperation::Lock { cell, exclusive, sequence, .. } => {
                let flags = 0x10 | if exclusive { 2 } else { 1 };
                (Command::LOCK, lock(file_id, offset(cell), flags, sequence))
            }
            ChannelOperation::Unlock { cell, sequence, .. } => {
                (Command::LOCK, lock(file_id, offset(cell), 4, sequence))
            }
        })
    }
}

fn put_durable(contexts: &mut Vec<u8>, handle: &ChannelOpen, comes_back: bool) {
    let persistent = matches!(handle.durable, RequestedDurability::Persistent(_));
    let file_id = handle.id;
    match (handle.durable, comes_back) {
        (RequestedDurability::None, _) => {}
        (RequestedDurability::V1, false) => put_context(contexts, b"DHnQ", &[0; 16]),
        (RequestedDurability::V1, true) => {
            let mut data = file_id.persistent.to_le_bytes().to_vec();
            data.extend_from_slice(&[0; 8]);
            put_context(contexts, b"DHnC", &data);
        }
        (
            RequestedDurability::V2(create_guid) | RequestedDurability::Persistent(create_guid),
            false,
        ) => {
            let request = DurableRequestV2 { timeout_ms: 0, persistent, create_guid };
            let data = messages::encoded(|w| request.encode(w));
            put_context(contexts, b"DH2Q", &data);
        }
        (
            RequestedDurability::V2(create_guid) | RequestedDurability::Persistent(create_guid),
            true,
        ) => {
            let persistent = handle.is_persistent;
            let request = DurableReconnectV2 { file_id, create_guid, persistent };
            let data = messages::encoded(|w| request.encode(w));
            put_context(contexts, b"DH2C", &data);
        }
    }
}

/// Lease key on the wire.
pub fn lease_key(key: u8) -> [u8; 16] {
    let mut bytes = [0x4C; 16];
    bytes[0] = key;
    bytes
}

fn name_of(file: u32) -> String {
    match file {
        DIRECTORY => "d".into(),
        _ if file >= ENTRIES => format!("d\\e{file}"),
        _ => format!("f{file}"),
    }
}

/// Encodes a LOCK of one cell.
pub fn lock(file: FileId, offset: u64, flags: u32, sequence: u32) -> Vec<u8> {
    messages::body(|w| {
        w.u16(48);
        w.u16(1);
        w.u32(sequence);
        file.encode(w);
        w.u64(offset);
        w.u64(CELL_BYTES);
        w.u32(flags);
        w.u32(0);
    })
}

/// Caching rights of an oplock level.
pub fn rights_of_level(level: u8) -> u8 {
    match level {
        1 => rights::READ,
        8 => rights::READ | rights::WRITE,
        9 => rights::READ | rights::WRITE | rights::HANDLE,
        _ => 0,
    }
}

/// Contents of a CREATE response. MS-SMB2 2.2.14.
#[derive(Clone, Debug)]
pub struct DecodedCreate {
    /// The open's id.
    pub id: FileId,
    /// Oplock level.
    pub level: u8,
    /// The lease.
    pub lease: Option<LeaseContext>,
    /// The handle is durable; and true if persistent.
    pub durable: Option<bool>,
    /// File id on disk.
    pub file: Option<u64>,
    /// True if the file was created, false if it existed.
    pub was_made: bool,
}

impl DecodedCreate {
    /// Decodes a response, without the server's decoders except for the contexts.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = message.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let id = FileId { persistent: number(128)?, volatile: number(136)? };
        let (mut lease, mut durable, mut file) = (None, None, None);
        let (offset, length) = (number(144)? as u32 as usize, (number(144)? >> 32) as usize);
        if length > 0 {
            let list = message.get(offset..offset + length)?;
            for context in wire::smb::CreateContexts::new(list) {
                let (name, data) = context.ok()?;
                match name {
                    b"RqLs" => lease = Some(LeaseContext::decode(data).ok()?),
                    b"DHnQ" => durable = Some(false),
                    b"DH2Q" => durable = Some(data.get(4)? & 2 != 0),
                    b"QFid" => {
                        file = Some(u64::from_le_bytes(data.get(..8)?.try_into().ok()?));
                    }
                    _ => {}
                }
            }
        }
        let was_made = *message.get(68)? == 2;
        Some(Self { id, level: *message.get(66)?, lease, durable, file, was_made })
    }
}
