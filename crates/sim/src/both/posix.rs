//! A client of NFS: its session, its opens and delegations, and what it sends.

use super::setup::{DIRECTORY, name_of};
use super::windows::{Pending, Status};
use super::world::Entry;
use crate::channels::machine::{CELL_BYTES, LockStatus};
use crate::channels::referee::Owner;
use crate::sessions::messages::{SHARE, record, walk};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use wire::nfs::attributes::{Attributes, attribute};
use wire::nfs::ops::{
    CloseArgs, CreateHow, DelegReturnArgs, ExistingLockOwner, GetAttrArgs, LockArgs, Locker,
    LookupArgs, OpenArgs, OpenClaim, OpenHow, OpenToLockOwner, Operation, PutFhArgs, ReadArgs,
    ReadDirArgs, ReclaimCompleteArgs, RemoveArgs, RenameArgs, SequenceArgs, ShareAccess, ShareDeny,
    UnlockArgs, WriteArgs,
};
use wire::nfs::xdr::Opaque;
use wire::nfs::{
    Bitmap4, ClientId, FileHandle, LockType, SessionId, StableHow, StateId, StateOwner, Verifier,
};

/// Slots of a session.
pub const SLOTS: u32 = 4;
/// Slots of a callback channel.
const CALLBACK_SLOTS: usize = 16;

/// Whether and how an open makes its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It must be there.
    Open,
    /// It is made if it is missing.
    OpenIf,
    /// It must be missing.
    Make,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Op {
    Open { open: u32 },
    Close { open: u32 },
    GiveBack { id: [u8; 12] },
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
pub struct Open {
    /// By which name.
    pub name: u8,
    /// To read, to write.
    pub access: u8,
    /// What others may not do.
    pub deny: u8,
    /// See [`How`].
    pub how: How,
    /// The wish for a delegation.
    pub want: ShareAccess,
    /// What is known of it.
    pub status: Status,
    /// What the server calls it.
    pub state_id: StateId,
    /// Its file.
    pub object: Option<FileHandle>,
    /// Its ranges, by cell.
    pub locks: BTreeMap<u8, LockStatus>,
    /// What the server calls them together.
    pub lock_id: Option<StateId>,
    /// One is asked for, or given back.
    pub is_locking: bool,
}

/// A delegation.
#[derive(Clone, Copy, Debug)]
pub struct Delegation {
    /// Of which file, by the simulation's number.
    pub file: u32,
    /// The same by the server's.
    pub object: FileHandle,
    /// What the server calls it.
    pub state_id: StateId,
    /// It was asked back.
    pub is_asked: bool,
}

/// A slot, as its client knows it.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// The number of the latest request.
    pub sequence: u32,
    /// What is not answered, and the number of its call.
    pub under_way: Option<(u32, Pending<Op>)>,
}

/// See the module.
#[derive(Debug)]
pub struct Posix {
    /// Its number among all clients.
    pub number: usize,
    /// Its session.
    pub session: Option<SessionId>,
    /// It may ask for more.
    pub is_complete: bool,
    /// Its slots.
    pub slots: Vec<Slot>,
    /// What it has open.
    pub opens: BTreeMap<u32, Open>,
    /// Delegations that it has.
    pub delegations: BTreeMap<[u8; 12], Delegation>,
    /// Delegations that are being given back, or were.
    pub given_back: BTreeMap<[u8; 12], Delegation>,
    /// Calls that bind a connection.
    pub bindings: BTreeSet<u32>,
    /// The number of the latest callback of each slot.
    pub callbacks: [u32; CALLBACK_SLOTS],
    /// What was listed last.
    pub listed: Vec<Entry>,
}

impl Posix {
    /// One that has said nothing.
    pub fn new(number: usize) -> Self {
        Self {
            number,
            session: None,
            is_complete: false,
            slots: vec![Slot::default(); SLOTS as usize],
            opens: BTreeMap::new(),
            delegations: BTreeMap::new(),
            given_back: BTreeMap::new(),
            bindings: BTreeSet::new(),
            callbacks: [0; CALLBACK_SLOTS],
            listed: Vec::new(),
        }
    }

    /// Who keeps what is delegated of a file.
    pub fn owner(&self, file: u32) -> Owner {
        Owner::Key(self.number, file as u8)
    }

    /// A slot that is not in use.
    pub fn free_slot(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.under_way.is_none())
    }

    /// What is not answered.
    pub fn under_way(&self) -> impl Iterator<Item = &Pending<Op>> {
        self.slots.iter().filter_map(|slot| slot.under_way.as_ref()).map(|(_, pending)| pending)
    }

    /// The request of a slot as a record; `value` is what is written.
    pub fn request(&self, at: usize, op: Op, xid: u32, value: u64) -> Option<Bytes> {
        let sequence = SequenceArgs {
            session_id: self.session?,
            sequence_id: self.slots[at].sequence,
            slot_id: at as u32,
            highest_slot_id: SLOTS - 1,
            cache_this: false,
        };
        let way: &[&[u8]] = &[SHARE, DIRECTORY.as_bytes()];
        match op {
            Op::Open { open } => self.opening(&walk(sequence, way), open, xid),
            Op::Look { name } => {
                let name = name_of(name);
                let mut all = walk(sequence, way);
                all.push(Operation::Lookup(LookupArgs { name: name.as_bytes() }));
                all.push(file_id());
                Some(record(xid, &all))
            }
            Op::Remove { name } => {
                let name = name_of(name);
                let mut all = walk(sequence, way);
                all.push(Operation::Remove(RemoveArgs { name: name.as_bytes() }));
                Some(record(xid, &all))
            }
            Op::Rename { from, to } => {
                let (from, to) = (name_of(from), name_of(to));
                let (old_name, new_name) = (from.as_bytes(), to.as_bytes());
                let mut all = walk(sequence, way);
                all.push(Operation::SaveFh);
                all.push(Operation::Rename(RenameArgs { old_name, new_name }));
                Some(record(xid, &all))
            }
            Op::List => {
                let mut all = walk(sequence, way);
                all.push(listing());
                Some(record(xid, &all))
            }
            Op::Renew => Some(record(xid, &[Operation::Sequence(sequence)])),
            Op::Complete => {
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
        let attributes = Attributes { mode: Some(0o666), ..Attributes::default() };
        let attributes = attributes.to_fattr(&mut buffer);
        let args = OpenArgs {
            sequence_id: 0,
            share_access: ShareAccess(u32::from(open.access) | open.want.0),
            share_deny: ShareDeny(open.deny.into()),
            owner: StateOwner { client_id: ClientId(0), owner: Opaque(owner.as_bytes()) },
            how: match open.how {
                How::Open => OpenHow::NoCreate,
                How::OpenIf => OpenHow::Create(CreateHow::Unchecked(attributes)),
                How::Make => OpenHow::Create(CreateHow::Guarded(attributes)),
            },
            claim: OpenClaim::Null(name.as_bytes()),
        };
        let opening = [Operation::Open(args), Operation::GetFh, file_id()];
        Some(record(xid, &[way, &opening].concat()))
    }

    /// A request about a file that is open, or delegated.
    fn on_object(&self, sequence: SequenceArgs, op: Op, xid: u32, value: u64) -> Option<Bytes> {
        let data = value.to_le_bytes();
        let offset = |cell: u8| u64::from(cell) * CELL_BYTES;
        let state_id = |open: u32| self.opens.get(&open).map(|open| open.state_id);
        let owner;
        let (object, operation) = match op {
            Op::GiveBack { id } => {
                let Delegation { object, state_id, .. } = *self.given_back.get(&id)?;
                (object, Operation::DelegReturn(DelegReturnArgs { state_id }))
            }
            Op::Close { open } => {
                let args = CloseArgs { sequence_id: 0, state_id: state_id(open)? };
                (self.object(open)?, Operation::Close(args))
            }
            Op::Read { open, cell } => {
                let (state_id, offset) = (state_id(open)?, offset(cell));
                let args = ReadArgs { state_id, offset, count: CELL_BYTES as u32 };
                (self.object(open)?, Operation::Read(args))
            }
            Op::Write { open, cell } => {
                let (state_id, offset) = (state_id(open)?, offset(cell));
                let args = WriteArgs { state_id, offset, stable: StableHow::FileSync, data: &data };
                (self.object(open)?, Operation::Write(args))
            }
            Op::Lock { open, cell, exclusive } => {
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
            Op::Unlock { open, cell, exclusive } => {
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
