//! An SMB client: its one connection, its opens and leases, and the requests that it sends.

use super::setup::{DIRECTORY, name_of};
use super::world::ListedFile;
use crate::channels::link::{ChannelLink, LinkRole};
use crate::channels::machine::{CELL_BYTES, LockStatus, lease_key, lock};
use crate::channels::referee::{RefereeOwner, kinds};
use crate::messages;
use crate::random::Random;
use std::collections::{BTreeMap, VecDeque};
use wire::fscc;
use wire::smb::{
    ChangeNotifyRequest, CloseRequest, Command, CreateRequest, Dialect, FileId, LEASE_CONTEXT,
    LeaseContext, LeaseV2, QueryDirectoryRequest, QueryFlags, ReadRequest, SessionId, WriteRequest,
    put_context,
};

/// FILE_NOTIFY_CHANGE_FILE_NAME.
const OF_NAMES: u32 = 1;
/// FileIdBothDirectoryInformation.
const LISTING_CLASS: u8 = 37;

/// State of an open as its client knows it, for clients of both protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowsOpenStatus {
    /// The open is requested.
    Opening,
    /// The open exists.
    Open,
    /// The close is requested.
    Closing,
}

/// An open.
#[derive(Clone, Debug)]
pub struct WindowsOpen {
    /// Name of the file.
    pub name: u8,
    /// See [`kinds`].
    pub access: u8,
    /// See [`kinds`].
    pub share: u8,
    /// Lease key, and the requested lease state.
    pub lease: Option<(u8, u8)>,
    /// Another open with the same key, whose file may have been renamed meanwhile.
    pub beside: Option<u32>,
    /// Create disposition.
    pub disposition: u32,
    /// Delete on close.
    pub deletes_on_close: bool,
    /// The server's file id.
    pub id: FileId,
    /// State as the client knows it.
    pub status: WindowsOpenStatus,
    /// Locked ranges, by cell.
    pub locks: BTreeMap<u8, LockStatus>,
}

impl WindowsOpen {
    /// The owner of the cache under this open.
    pub fn owner(&self, machine: usize, number: u32) -> RefereeOwner {
        self.lease.map_or(RefereeOwner::Handle(number), |(key, _)| RefereeOwner::Key(machine, key))
    }

    /// True if the request may create a file.
    pub fn makes(&self) -> bool {
        self.disposition != fscc::FILE_OPEN
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum WindowsRequest {
    Create { handle: u32 },
    Close { handle: u32 },
    Read { handle: u32, cell: u8 },
    Write { handle: u32, cell: u8 },
    Lock { handle: u32, cell: u8, exclusive: bool },
    Unlock { handle: u32, cell: u8 },
    Rename { handle: u32, to: u8, replace: bool },
    Directory,
    Leave,
    List,
    DirectoryWatch,
    Acknowledge { key: u8, keeps: u8 },
}

impl WindowsRequest {
    /// True if it opens a file.
    pub fn creates(self) -> bool {
        matches!(self, Self::Create { .. })
    }
}

/// A request in flight.
#[derive(Clone, Debug)]
pub struct SentRequest<T> {
    /// The request.
    pub op: T,
    /// The step in which it was sent.
    pub sent_at: u64,
    /// Locks that must prevent it, if they are held throughout.
    pub held: Vec<usize>,
}

/// A lease break, as its client received it.
#[derive(Clone, Debug)]
pub struct Break {
    /// Lease key.
    pub key: u8,
    /// Lease state that the client will retain.
    pub keeps: u8,
    /// The opens under the lease at that time. When all of them are closed the lease ends, and its
    /// key may be reused.
    pub under: Vec<u32>,
    /// Whether an earlier acknowledgment with this key was in flight when the break was received or
    /// acknowledged. If that lease had ended, the server takes the earlier one as the answer to
    /// this break: an acknowledgment carries no epoch.
    pub follows_another: bool,
}

/// State of a client's directory watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryWatch {
    /// No watch.
    None,
    /// The watch is requested.
    Asked,
    /// The server has certainly registered it, since the quiescent state at this step.
    Sure(u64),
    /// A notification of this change is due.
    Owed(String),
}

/// See the module.
pub struct WindowsMachine {
    /// Its connection.
    pub link: ChannelLink,
    /// Its opens.
    pub handles: BTreeMap<u32, WindowsOpen>,
    /// The latest epoch of each lease.
    pub epochs: BTreeMap<u8, u16>,
    /// Lease breaks to acknowledge.
    pub acknowledgments: VecDeque<Break>,
    /// Acknowledged lease breaks, by request number.
    pub acknowledged: BTreeMap<u32, Break>,
    /// Requests in flight, by number.
    pub pending: BTreeMap<u32, SentRequest<WindowsRequest>>,
    /// Its open of the directory.
    pub directory: Option<FileId>,
    /// See [`DirectoryWatch`].
    pub watch: DirectoryWatch,
    /// The last listing.
    pub listed: Vec<ListedFile>,
    next_key: u8,
}

impl WindowsMachine {
    /// A client that has sent nothing yet.
    pub fn new(number: usize, random: &mut Random) -> Self {
        let dialect = random.pick(&[Dialect::Smb302, Dialect::Smb311]);
        let client = (dialect, [number as u8 + 1; 16], format!("user{number}"));
        Self {
            link: ChannelLink::new(number, LinkRole::New(SessionId(0)), client),
            handles: BTreeMap::new(),
            epochs: BTreeMap::new(),
            acknowledgments: VecDeque::new(),
            acknowledged: BTreeMap::new(),
            pending: BTreeMap::new(),
            directory: None,
            watch: DirectoryWatch::None,
            listed: Vec::new(),
            next_key: 0,
        }
    }

    /// A lease key that none of its opens uses.
    fn new_key(&mut self) -> u8 {
        loop {
            self.next_key = self.next_key.wrapping_add(1);
            let key = self.next_key;
            if self.handles.values().all(|handle| handle.lease.is_none_or(|(k, _)| k != key)) {
                self.epochs.remove(&key);
                return key;
            }
        }
    }

    /// The opens under a lease.
    pub fn under(&self, key: u8) -> impl Iterator<Item = u32> + '_ {
        let is_it = move |h: &WindowsOpen| h.lease.is_some_and(|(k, _)| k == key);
        let is_open = move |h: &WindowsOpen| h.status == WindowsOpenStatus::Open && is_it(h);
        self.handles.iter().filter(move |(_, h)| is_open(h)).map(|(number, _)| *number)
    }

    /// True if an open is under the lease.
    pub fn uses_key(&self, key: u8) -> bool {
        self.under(key).next().is_some()
    }

    /// True if the lease of this break still exists.
    pub fn has_still(&self, broken: &Break) -> bool {
        self.under(broken.key).any(|handle| broken.under.contains(&handle))
    }

    /// Draws the parameters of a new open.
    pub fn draw_open(&mut self, names: u8, random: &mut Random) -> WindowsOpen {
        let name = random.small(names);
        let mut access = random.pick(&[1, 2, 3, 3, 3, 5, 7]);
        let mut share = kinds::ALL;
        if random.percent(25) {
            share = random.pick(&[3, 5, 6, 1, 0, 4]);
        }
        let deletes_on_close = random.percent(5);
        if deletes_on_close {
            access |= 4;
        }
        let (mut lease, mut beside) = (None, None);
        if random.percent(70) {
            let is_it = |h: &WindowsOpen| h.name == name && h.status == WindowsOpenStatus::Open;
            let others = self.handles.iter().filter(|(_, h)| is_it(h));
            let others: Vec<_> = others.filter_map(|(n, h)| Some((*n, h.lease?.0))).collect();
            let key = if !others.is_empty() && random.percent(40) {
                let (other, key) = random.pick(&others);
                beside = Some(other);
                key
            } else {
                self.new_key()
            };
            lease = Some((key, random.pick(&[1, 3, 3, 5, 7, 7, 7])));
        }
        let disposition = random.pick(&[
            fscc::FILE_OPEN,
            fscc::FILE_OPEN,
            fscc::FILE_OPEN_IF,
            fscc::FILE_OPEN_IF,
            fscc::FILE_CREATE,
        ]);
        let id = FileId { persistent: 0, volatile: 0 };
        let (status, locks) = (WindowsOpenStatus::Opening, BTreeMap::new());
        WindowsOpen {
            name,
            access,
            share,
            lease,
            beside,
            disposition,
            deletes_on_close,
            id,
            status,
            locks,
        }
    }

    /// Encodes the CREATE of an open.
    pub fn create(&self, handle: &WindowsOpen) -> Vec<u8> {
        let mut contexts = Vec::new();
        if let Some((key, state)) = handle.lease {
            let epoch = self.epochs.get(&key).copied().unwrap_or(0);
            let v2 = Some(LeaseV2 { parent_key: [0; 16], epoch });
            let lease = LeaseContext { key: lease_key(key), state: state.into(), flags: 0, v2 };
            put_context(&mut contexts, LEASE_CONTEXT, &lease.encode());
        }
        put_context(&mut contexts, b"QFid", &[]);
        let right = |kind, mask| if handle.access & kind != 0 { mask } else { 0 };
        let rights = right(kinds::READ, 1) | right(kinds::WRITE, 2) | right(4, 0x1_0000);
        let name = messages::utf16(&path_of(handle.name));
        let request = CreateRequest {
            oplock: if handle.lease.is_some() { 0xFF } else { 0 },
            impersonation: 2,
            desired_access: rights | 0x10_0080, // SYNCHRONIZE, FILE_READ_ATTRIBUTES
            attributes: 0,
            share_access: handle.share.into(),
            disposition: handle.disposition,
            options: 0x40 | if handle.deletes_on_close { 0x1000 } else { 0 },
            name: &name,
            contexts: &contexts,
        };
        messages::body(|w| request.encode(w))
    }

    /// Encodes a request; `value` is the data of a write.
    pub fn message(&self, op: WindowsRequest, value: u64) -> Option<(Command, Vec<u8>)> {
        let offset = |cell: u8| u64::from(cell) * CELL_BYTES;
        let id = |handle: u32| self.handles.get(&handle).map(|h| h.id);
        Some(match op {
            WindowsRequest::Create { handle } => {
                (Command::CREATE, self.create(self.handles.get(&handle)?))
            }
            WindowsRequest::Directory => (Command::CREATE, open_directory()),
            WindowsRequest::Close { handle } => close(id(handle)?),
            WindowsRequest::Leave => close(self.directory?),
            WindowsRequest::Read { handle, cell } => {
                let read = ReadRequest {
                    flags: 0,
                    length_bytes: CELL_BYTES as u32,
                    offset_bytes: offset(cell),
                    file_id: id(handle)?,
                    minimum_bytes: 0,
                };
                (Command::READ, messages::body(|w| read.encode(w)))
            }
            WindowsRequest::Write { handle, cell } => {
                let (data, file_id) = (value.to_le_bytes(), id(handle)?);
                let write =
                    WriteRequest { offset_bytes: offset(cell), file_id, flags: 0, data: &data };
                (Command::WRITE, messages::body(|w| write.encode(w)))
            }
            WindowsRequest::Lock { handle, cell, exclusive } => {
                let flags = 0x10 | if exclusive { 2 } else { 1 };
                (Command::LOCK, lock(id(handle)?, offset(cell), flags, 0))
            }
            WindowsRequest::Unlock { handle, cell } => {
                (Command::LOCK, lock(id(handle)?, offset(cell), 4, 0))
            }
            WindowsRequest::Rename { handle, to, replace } => {
                (Command::SET_INFO, messages::rename(id(handle)?, &path_of(to), replace))
            }
            WindowsRequest::List => (Command::QUERY_DIRECTORY, list(self.directory?)),
            WindowsRequest::DirectoryWatch => {
                let file_id = self.directory?;
                let watch =
                    ChangeNotifyRequest { flags: 0, output_bytes: 4096, file_id, filter: OF_NAMES };
                (Command::CHANGE_NOTIFY, messages::body(|w| watch.encode(w)))
            }
            WindowsRequest::Acknowledge { key, keeps } => {
                let body = messages::lease_acknowledgment(lease_key(key), keeps);
                (Command::OPLOCK_BREAK, body)
            }
        })
    }
}

fn path_of(name: u8) -> String {
    format!("{DIRECTORY}\\{}", name_of(name))
}

fn close(file_id: FileId) -> (Command, Vec<u8>) {
    (Command::CLOSE, messages::body(|w| CloseRequest { flags: 0, file_id }.encode(w)))
}

fn open_directory() -> Vec<u8> {
    let name = messages::utf16(DIRECTORY);
    let request = CreateRequest {
        oplock: 0,
        impersonation: 2,
        desired_access: 0x10_0081, // SYNCHRONIZE, FILE_READ_ATTRIBUTES, FILE_LIST_DIRECTORY
        attributes: 0,
        share_access: kinds::ALL.into(),
        disposition: fscc::FILE_OPEN,
        options: 1,
        name: &name,
        contexts: &[],
    };
    messages::body(|w| request.encode(w))
}

fn list(file_id: FileId) -> Vec<u8> {
    let pattern = messages::utf16("*");
    let request = QueryDirectoryRequest {
        class: LISTING_CLASS,
        flags: QueryFlags(QueryFlags::REOPEN),
        index: 0,
        file_id,
        pattern: &pattern,
        output_bytes: 16_384,
    };
    messages::body(|w| request.encode(w))
}
