//! An NFS client: its session, opens and delegations, and the requests that it sends.

use super::setup::{DIRECTORY, name_of};
use super::windows::{SentRequest, WindowsOpenStatus};
use super::world::ListedFile;
use crate::channels::machine::{CELL_BYTES, LockStatus};
use crate::channels::referee::RefereeOwner;
use crate::sessions::messages::{SHARE, record, walk};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use wire::nfs::attributes::{NfsAttributes, attribute};
use wire::nfs::ops::{
    CloseArgs, DelegReturnArgs, ExistingLockOwner, GetAttrArgs, LockArgs, Locker, LookupArgs,
    NfsCreateHow, NfsOpenHow, OpenArgs, OpenClaim, OpenToLockOwner, Operation, PutFhArgs, ReadArgs,
    ReadDirArgs, ReclaimCompleteArgs, RemoveArgs, RenameArgs, SequenceArgs, ShareAccess, ShareDeny,
    UnlockArgs, WriteArgs,
};
use wire::nfs::xdr::Opaque;
use wire::nfs::{
    Bitmap4, ClientId, FileHandle, LockType, NfsSessionId, StableHow, StateId, StateOwner, Verifier,
};

/// Slots of a session.
pub const SLOTS: u32 = 4;
/// Slots of the backchannel.
const CALLBACK_SLOTS: usize = 16;

/// Create mode of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// The file must exist.
    Open,
    /// Creates the file if it is absent.
    OpenIf,
    /// The file must not exist.
    Make,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum PosixRequest {
    Open { open: u32 },
    Close { open: u32 },
    ReturnDelegation { id: [u8; 12] },
    Read { open: u32, cell: u8 },
    Write { open: u32, cell: u8 },
    Lock { open: u32, cell: u8, exclusive: bool },
    Unlock { open: u32, cell: u8, exclusive: bool },
    Look { name: u8 },
    Remove { name: u8 },
    Rename { from: u8, to: u8 },
    List,
    Renew,
    Complete,
}

/// An open.
#[derive(Clone, Debug)]
pub struct PosixOpen {
    /// Name of the file.
    pub name: u8,
    /// Share access: read, write.
    pub access: u8,
    /// Share deny.
    pub deny: u8,
    /// See [`CreateMode`].
    pub how: CreateMode,
    /// The delegation want.
    pub want: ShareAccess,
    /// State as the client knows it.
    pub status: WindowsOpenStatus,
    /// State id of the open.
    pub state_id: StateId,
    /// Its file.
    pub object: Option<FileHandle>,
    /// Locked ranges, by cell.
    pub locks: BTreeMap<u8, LockStatus>,
    /// State id of the locks.
    pub lock_id: Option<StateId>,
    /// A LOCK or LOCKU is in flight.
    pub is_locking: bool,
}

/// A delegation.
#[derive(Clone, Copy, Debug)]
pub struct PosixDelegation {
    /// The file, by the simulation's number.
    pub file: u32,
    /// File handle.
    pub object: FileHandle,
    /// State id of the delegation.
    pub state_id: StateId,
    /// The server has recalled it.
    pub is_recalled: bool,
}

/// A slot, as the client knows it.
#[derive(Clone, Debug, Default)]
pub struct PosixSlot {
    /// Sequence id of the latest request.
    pub sequence: u32,
    /// The request in flight, and its transaction id.
    pub in_flight: Option<(u32, SentRequest<PosixRequest>)>,
}

/// See the module.
#[derive(Debug)]
pub struct Posix {
    /// Its number among all clients.
    pub number: usize,
    /// Its session.
    pub session: Option<NfsSessionId>,
    /// RECLAIM_COMPLETE has succeeded.
    pub is_complete: bool,
    /// Its slots.
    pub slots: Vec<PosixSlot>,
    /// Its opens.
    pub opens: BTreeMap<u32, PosixOpen>,
    /// Its delegations.
    pub delegations: BTreeMap<[u8; 12], PosixDelegation>,
    /// Delegations that it returns or has returned.
    pub returned: BTreeMap<[u8; 12], PosixDelegation>,
    /// Transaction ids of BIND_CONN_TO_SESSION requests.
    pub bindings: BTreeSet<u32>,
    /// Sequence id of the latest callback per slot.
    pub callbacks: [u32; CALLBACK_SLOTS],
    /// The last listing.
    pub listed: Vec<ListedFile>,
}

impl Posix {
    /// A client that has sent nothing yet.
    pub fn new(number: usize) -> Self {
        Self {
            number,
            session: None,
            is_complete: false,
            slots: vec![PosixSlot::default(); SLOTS as usize],
            opens: BTreeMap::new(),
            delegations: BTreeMap::new(),
            returned: BTreeMap::new(),
            bindings: BTreeSet::new(),
            callbacks: [0; CALLBACK_SLOTS],
            listed: Vec::new(),
        }
    }

    /// The owner of the cache under a delegation of the file.
    pub fn owner(&self, file: u32) -> RefereeOwner {
        RefereeOwner::Key(self.number, file as u8)
    }

    /// A free slot.
    pub fn free_slot(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.in_flight.is_none())
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> impl Iterator<Item = &SentRequest<PosixRequest>> {
        self.slots.iter().filter_map(|slot| slot.in_flight.as_ref()).map(|(_, pending)| pending)
    }

    /// Encodes the request of a slot as a record; `value` is the data of a write.
    pub fn request(&self, at: usize, op: PosixRequest, xid: u32, value: u64) -> Option<Bytes> {
        let sequence = SequenceArgs {
            session_id: self.session?,
            sequence_id: self.slots[at].sequence,
            slot_id: at as u32,
            highest_slot_id: SLOTS - 1,
            cache_this: false,
        };
        let way: &[&[u8]] = &[SHARE, DIRECTORY.as_bytes()];
        match op {
            PosixRequest::Open { open } => self.opening(&walk(sequence, way), open, xid),
            PosixRequest::Look { name } => {
                let name = name_of(name);
                let mut all = walk(sequence, way);
                all.push(Operation::Lookup(LookupArgs { name: name.as_bytes() }));
                all.push(file_id());
                Some(record(xid, &all))
            }
            PosixRequest::Remove { name } => {
                let name = name_of(name);
                let mut all = walk(sequence, way);
                all.push(Operation::Remove(RemoveArgs { name: name.as_bytes() }));
                Some(record(xid, &all))
            }
            PosixRequest::Rename { from, to } => {
                let (from, to) = (name_of(from), name_of(to));
                let (old_name, new_name) = (from.as_bytes(), to.as_bytes());
                let mut all = walk(sequence, way);
                all.push(Operation::SaveFh);
                all.push(Operation::Rename(RenameArgs { old_name, new_name }));
                Some(record(xid, &all))
            }
            PosixRequest::List => {
                let mut all = walk(sequence, way);
                all.push(listing());
                Some(record(xid, &all))
            }
            PosixRequest::Renew => Some(record(xid, &[Operation::Sequence(sequence)])),
            PosixRequest::Complete => {
                let complete = Operation::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
                Some(record(xid, &[Operation::Sequence(sequence), complete]))
            }
            _ => self.on_object(sequence, op, xid, value),
        }
    }

    fn opening(&self, way: &[Operation<'_>], number: u32, xid: u32) -> Option<Bytes> {
        let open = self.opens.get(&number)?;
        let (name, owner) = (name_of(open.name), format!("o{number}"));
        let mut buffer = Vec::new();
        let attributes = NfsAttributes { mode: Some(0o666), ..NfsAttributes::default() };
        let attributes = attributes.to_fattr(&mut buffer);
        let args = OpenArgs {
            sequence_id: 0,
            share_access: ShareAccess(u32::from(open.access) | open.want.0),
            share_deny: ShareDeny(open.deny.into()),
            owner: StateOwner { client_id: ClientId(0), owner: Opaque(owner.as_bytes()) },
            how: match open.how {
                CreateMode::Open => NfsOpenHow::NoCreate,
                CreateMode::OpenIf => NfsOpenHow::Create(NfsCreateHow::Unchecked(attributes)),
                CreateMode::Make => NfsOpenHow::Create(NfsCreateHow::Guarded(attributes)),
            },
            claim: OpenClaim::Null(name.as_bytes()),
        };
        let opening = [Operation::Open(args), Operation::GetFh, file_id()];
        Some(record(xid, &[way, &opening].concat()))
    }

    /// Encodes a request on an open or delegated file.
    fn on_object(
        &self,
        sequence: SequenceArgs,
        op: PosixRequest,
        xid: u32,
        value: u64,
    ) -> Option<Bytes> {
        let data = value.to_le_bytes();
        let offset = |cell: u8| u64::from(cell) * CELL_BYTES;
        let state_id = |open: u32| self.opens.get(&open).map(|open| open.state_id);
        let owner;
        let (object, operation) = match op {
            PosixRequest::ReturnDelegation { id } => {
                let PosixDelegation { object, state_id, .. } = *self.returned.get(&id)?;
                (object, Operation::DelegReturn(DelegReturnArgs { state_id }))
            }
            PosixRequest::Close { open } => {
                let args = CloseArgs { sequence_id: 0, state_id: state_id(open)? };
                (self.object(open)?, Operation::Close(args))
            }
            PosixRequest::Read { open, cell } => {
                let (state_id, offset) = (state_id(open)?, offset(cell));
                let args = ReadArgs { state_id, offset, count: CELL_BYTES as u32 };
                (self.object(open)?, Operation::Read(args))
            }
            PosixRequest::Write { open, cell } => {
                let (state_id, offset) = (state_id(open)?, offset(cell));
                let args = WriteArgs { state_id, offset, stable: StableHow::FileSync, data: &data };
                (self.object(open)?, Operation::Write(args))
            }
            PosixRequest::Lock { open, cell, exclusive } => {
                owner = format!("l{open}");
                let args = LockArgs {
                    lock_type: lock_type(exclusive),
                    reclaim: false,
                    offset: offset(cell),
                    length: CELL_BYTES,
                    locker: self.locker(open, owner.as_bytes())?,
                };
                (self.object(open)?, Operation::Lock(args))
            }
            PosixRequest::Unlock { open, cell, exclusive } => {
                let args = UnlockArgs {
                    lock_type: lock_type(exclusive),
                    sequence_id: 0,
                    lock_state_id: self.opens.get(&open)?.lock_id?,
                    offset: offset(cell),
                    length: CELL_BYTES,
                };
                (self.object(open)?, Operation::Unlock(args))
            }
            _ => return None,
        };
        let object = Operation::PutFh(PutFhArgs { object });
        Some(record(xid, &[Operation::Sequence(sequence), object, operation]))
    }

    fn object(&self, open: u32) -> Option<FileHandle> {
        self.opens.get(&open)?.object
    }

    fn locker<'a>(&self, open: u32, owner: &'a [u8]) -> Option<Locker<'a>> {
        let open = self.opens.get(&open)?;
        Some(match open.lock_id {
            Some(lock_state_id) => {
                Locker::Existing(ExistingLockOwner { lock_state_id, lock_sequence_id: 0 })
            }
            None => Locker::New(OpenToLockOwner {
                open_sequence_id: 0,
                open_state_id: open.state_id,
                lock_sequence_id: 0,
                lock_owner: StateOwner { client_id: ClientId(0), owner: Opaque(owner) },
            }),
        })
    }
}

fn lock_type(exclusive: bool) -> LockType {
    if exclusive { LockType::Write } else { LockType::Read }
}

fn file_id() -> Operation<'static> {
    Operation::GetAttr(GetAttrArgs { requested: Bitmap4::of(&[attribute::FILEID]) })
}

fn listing() -> Operation<'static> {
    Operation::ReadDir(ReadDirArgs {
        cookie: 0,
        cookie_verifier: Verifier::default(),
        directory_bytes: 4000,
        bytes_max: 8000,
        requested: Bitmap4::of(&[
            attribute::SIZE,
            attribute::FILEID,
            attribute::TIME_METADATA,
            attribute::TIME_MODIFY,
        ]),
    })
}
