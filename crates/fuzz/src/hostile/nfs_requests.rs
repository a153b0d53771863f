//! Well-formed operations of hostile NFS clients, on their own and on the victim's objects.

use super::link::{percent, pick};
use super::nfs_link::OperationList;
use super::surroundings::EpisodeUser;
use crate::mutate::Rng;
use wire::nfs::attributes::{Fattr, NfsAttributes, SetTime, attribute};
use wire::nfs::ops::{
    AllocateArgs, CloneArgs, CloseArgs, CopyArgs, CreateArgs, CreateType, DeallocateArgs,
    DelegReturnArgs, ExistingLockOwner, FreeStateIdArgs, GetAttrArgs, LinkArgs, LockArgs,
    LockTestArgs, Locker, LookupArgs, NfsCreateHow, NfsOpenHow, OpenArgs, OpenClaim,
    OpenDowngradeArgs, OpenToLockOwner, Operation, PutFhArgs, ReadArgs, ReadDirArgs, ReadPlusArgs,
    RemoveArgs, RemoveXattrArgs, RenameArgs, SetAttrArgs, SetXattrArgs, SetXattrOption,
    ShareAccess, ShareDeny, TestStateIdArgs, UnlockArgs, WriteArgs,
};
use wire::nfs::xdr::{List, Opaque};
use wire::nfs::{
    Bitmap4, ClientId, FileHandle, LockType, NfsTime, StableHow, StateId, StateOwner, Verifier,
};

/// File names of the victim, of hostile clients, and of absent files.
const NAMES: [&[u8]; 11] = [
    b"v", b"kept", b"private", b"pub", b"noted", b"shared", b"mine0", b"mine1", b"nfs0", b"nfs1",
    b"folder",
];

/// Names of files that hostile NFS clients create.
const OWN_NAMES: [&[u8]; 4] = [b"nfs0", b"nfs1", b"nfs2", b"nfs3"];

/// State and files of the victim, and of the client itself.
pub struct NfsAims<'a> {
    pub own: &'a [StateId],
    pub victims: &'a [StateId],
    pub handles: &'a [FileHandle],
    pub victims_client: ClientId,
}

/// Operations, and the flag whether they carry a state id that the server must check.
pub struct NfsRequest {
    pub list: OperationList,
    pub has_victims_id: bool,
}

impl NfsAims<'_> {
    /// A state id; true if it is the victim's.
    fn state_id(&self, rng: &mut Rng) -> (StateId, bool) {
        match rng.below(12) {
            0..=3 => (pick(rng, self.victims), true),
            4 => (StateId { seqid: 0, ..pick(rng, self.victims) }, true),
            5 => {
                let seqid = rng.below(4) as u32;
                (StateId { seqid, ..pick(rng, self.victims) }, true)
            }
            6 => (StateId::ANONYMOUS, false),
            7 => (StateId::READ_BYPASS, false),
            8 => (StateId::CURRENT, false),
            _ => (self.own.last().copied().unwrap_or(StateId::ANONYMOUS), false),
        }
    }

    fn owner(&self, rng: &mut Rng) -> StateOwner<'static> {
        let client_id = if percent(rng, 50) { self.victims_client } else { ClientId(0) };
        StateOwner { client_id, owner: Opaque(pick(rng, &[&b"owner"[..], b"other"])) }
    }

    /// Any request.
    pub fn any(&self, rng: &mut Rng) -> NfsRequest {
        let mut list = OperationList::on(pick(rng, self.handles));
        let mut has_victims_id = false;
        if percent(rng, 15) {
            return self.open_own(rng);
        }
        if percent(rng, 30) {
            list.push(&Operation::Lookup(LookupArgs { name: pick(rng, &NAMES) }));
        }
        match rng.below(20) {
            0..=3 => self.open(rng, &mut list),
            4..=7 => has_victims_id = self.data(rng, &mut list),
            8..=11 => has_victims_id = self.state(rng, &mut list),
            12 | 13 => has_victims_id = self.locks(rng, &mut list),
            14 | 15 => {
                let (state_id, _) = self.state_id(rng);
                set_attributes(rng, state_id, &mut list);
            }
            16 | 17 => self.names(rng, &mut list),
            _ => look(rng, &mut list),
        }
        NfsRequest { list, has_victims_id }
    }

    /// An operation of an honest client: creates or opens a file in the root.
    fn open_own(&self, rng: &mut Rng) -> NfsRequest {
        let mut list = OperationList::on(self.handles[0]);
        let mode = Some(pick(rng, &[0o600, 0o644]));
        let (wished, mut values) = (NfsAttributes { mode, ..NfsAttributes::default() }, Vec::new());
        list.push(&Operation::Open(OpenArgs {
            sequence_id: 0,
            share_access: ShareAccess::BOTH | ShareAccess::WANT_NO_DELEG,
            share_deny: ShareDeny(0),
            owner: self.owner(rng),
            how: NfsOpenHow::Create(NfsCreateHow::Unchecked(wished.to_fattr(&mut values))),
            claim: OpenClaim::Null(pick(rng, &OWN_NAMES)),
        }));
        list.push(&Operation::GetFh);
        NfsRequest { list, has_victims_id: false }
    }

    fn open(&self, rng: &mut Rng, list: &mut OperationList) {
        if percent(rng, 50) {
            // A file of the client's own, in the root.
            let handle = self.handles[0];
            *list = OperationList::on(handle);
        }
        let (name, state_id) = (pick(rng, &NAMES), self.state_id(rng).0);
        let claim = match rng.below(8) {
            0 | 1 => OpenClaim::FileHandle,
            2 => OpenClaim::DelegateCurrent(state_id, name),
            3 => OpenClaim::DelegateCurrentFileHandle(state_id),
            4 => OpenClaim::Previous(wire::nfs::ops::DelegationType::Write),
            _ => OpenClaim::Null(name),
        };
        let wished =
            NfsAttributes { mode: Some(0o6777), size: Some(0), ..NfsAttributes::default() };
        let mut values = Vec::new();
        let how = match rng.below(4) {
            0 => NfsOpenHow::Create(NfsCreateHow::Unchecked(wished.to_fattr(&mut values))),
            1 => NfsOpenHow::Create(NfsCreateHow::Unchecked(Fattr::default())),
            2 => NfsOpenHow::Create(NfsCreateHow::Exclusive(Verifier([1; 8]))),
            _ => NfsOpenHow::NoCreate,
        };
        list.push(&Operation::Open(OpenArgs {
            sequence_id: 0,
            share_access: ShareAccess(1 + rng.below(3) as u32),
            share_deny: ShareDeny(rng.below(4) as u32),
            owner: self.owner(rng),
            how,
            claim,
        }));
    }

    fn data(&self, rng: &mut Rng, list: &mut OperationList) -> bool {
        let (state_id, has_victims) = self.state_id(rng);
        let (offset, length) = (rng.below(300) as u64, rng.below(300) as u64);
        let count = 512;
        match rng.below(9) {
            0 | 1 => list.push(&Operation::Read(ReadArgs { state_id, offset: 0, count })),
            2 => list.push(&Operation::ReadPlus(ReadPlusArgs { state_id, offset: 0, count })),
            3 => list.push(&Operation::Allocate(AllocateArgs { state_id, offset, length })),
            4 => list.push(&Operation::Deallocate(DeallocateArgs { state_id, offset, length })),
            5 => return self.copy(rng, list),
            _ => {
                let (stable, data) = (StableHow::Unstable, &b"hostile bytes"[..]);
                list.push(&Operation::Write(WriteArgs { state_id, offset, stable, data }));
            }
        }
        has_victims
    }

    /// A copy from or to the victim's files.
    fn copy(&self, rng: &mut Rng, list: &mut OperationList) -> bool {
        let ((source_state_id, is_source), (destination_state_id, is_destination)) =
            (self.state_id(rng), self.state_id(rng));
        let (source_offset, destination_offset, count) = (0, rng.below(64) as u64, 128);
        list.push(&Operation::SaveFh);
        list.push(&Operation::PutFh(PutFhArgs { object: pick(rng, self.handles) }));
        if percent(rng, 50) {
            list.push(&Operation::Clone(CloneArgs {
                source_state_id,
                destination_state_id,
                source_offset,
                destination_offset,
                count,
            }));
        } else {
            list.push(&Operation::Copy(CopyArgs {
                source_state_id,
                destination_state_id,
                source_offset,
                destination_offset,
                count,
                is_consecutive: true,
                is_synchronous: percent(rng, 50),
                source_servers: List::default(),
            }));
        }
        is_source || is_destination
    }

    fn state(&self, rng: &mut Rng, list: &mut OperationList) -> bool {
        let (state_id, has_victims) = self.state_id(rng);
        match rng.below(6) {
            0 | 1 => list.push(&Operation::Close(CloseArgs { sequence_id: 0, state_id })),
            2 => list.push(&Operation::OpenDowngrade(OpenDowngradeArgs {
                state_id,
                sequence_id: 0,
                share_access: ShareAccess::READ,
                share_deny: ShareDeny(0),
            })),
            3 => list.push(&Operation::FreeStateId(FreeStateIdArgs { state_id })),
            4 => list.push(&Operation::DelegReturn(DelegReturnArgs { state_id })),
            _ => {
                let state_ids = List(self.victims.to_vec());
                list.push(&Operation::TestStateId(TestStateIdArgs { state_ids }));
                return false;
            }
        }
        has_victims
    }

    fn locks(&self, rng: &mut Rng, list: &mut OperationList) -> bool {
        let (id, has_victims) = self.state_id(rng);
        let lock_type = pick(rng, &[LockType::Read, LockType::Write]);
        let (offset, length) = (pick(rng, &[0, 200, 250]), pick(rng, &[1, 100, u64::MAX]));
        match rng.below(4) {
            0 => {
                let owner = self.owner(rng);
                list.push(&Operation::LockTest(LockTestArgs { lock_type, offset, length, owner }));
                return false;
            }
            1 => list.push(&Operation::Unlock(UnlockArgs {
                lock_type,
                sequence_id: 0,
                lock_state_id: id,
                offset,
                length,
            })),
            by => {
                let locker = if by == 2 {
                    Locker::Existing(ExistingLockOwner { lock_state_id: id, lock_sequence_id: 0 })
                } else {
                    Locker::New(OpenToLockOwner {
                        open_sequence_id: 0,
                        open_state_id: id,
                        lock_sequence_id: 0,
                        lock_owner: self.owner(rng),
                    })
                };
                let reclaim = percent(rng, 20);
                list.push(&Operation::Lock(LockArgs {
                    lock_type,
                    reclaim,
                    offset,
                    length,
                    locker,
                }));
            }
        }
        has_victims
    }

    fn names(&self, rng: &mut Rng, list: &mut OperationList) {
        let (old_name, new_name) = (pick(rng, &NAMES), pick(rng, &NAMES));
        list.push(&Operation::SaveFh);
        if percent(rng, 70) {
            list.push(&Operation::PutFh(PutFhArgs { object: pick(rng, self.handles) }));
        }
        match rng.below(5) {
            0 => list.push(&Operation::Remove(RemoveArgs { name: old_name })),
            1 => list.push(&Operation::Link(LinkArgs { new_name })),
            2 => {
                let object_type = pick(
                    rng,
                    &[CreateType::Directory, CreateType::Fifo, CreateType::Link(b"v/private")],
                );
                let attributes = Fattr::default();
                list.push(&Operation::Create(CreateArgs {
                    object_type,
                    name: new_name,
                    attributes,
                }));
            }
            _ => list.push(&Operation::Rename(RenameArgs { old_name, new_name })),
        }
    }
}

/// SETATTR and the extended attribute operations.
fn set_attributes(rng: &mut Rng, state_id: StateId, list: &mut OperationList) {
    let (name, value) = (&b"user.hostile"[..], &b"value"[..]);
    let owner = pick(rng, &[EpisodeUser::Alice, EpisodeUser::Mallory, EpisodeUser::Trudy])
        .uid()
        .to_string();
    let time = SetTime::Client(NfsTime { seconds: 1, nanoseconds: 0 });
    let wished = match rng.below(7) {
        0 => NfsAttributes { mode: Some(pick(rng, &[0o777, 0o6777])), ..NfsAttributes::default() },
        1 => NfsAttributes { size: Some(rng.below(600) as u64), ..NfsAttributes::default() },
        2 => NfsAttributes { owner: Some(owner.as_bytes()), ..NfsAttributes::default() },
        3 => NfsAttributes { owner_group: Some(owner.as_bytes()), ..NfsAttributes::default() },
        4 => NfsAttributes {
            time_modify_set: Some(time),
            hidden: Some(true),
            ..NfsAttributes::default()
        },
        5 => {
            let option = SetXattrOption::Either;
            return list.push(&Operation::SetXattr(SetXattrArgs { option, name, value }));
        }
        _ => return list.push(&Operation::RemoveXattr(RemoveXattrArgs { name })),
    };
    let mut values = Vec::new();
    let attributes = wished.to_fattr(&mut values);
    list.push(&Operation::SetAttr(SetAttrArgs { state_id, attributes }));
}

fn look(rng: &mut Rng, list: &mut OperationList) {
    match rng.below(3) {
        0 => list.push(&Operation::ReadLink),
        1 => list.push(&Operation::ReadDir(ReadDirArgs {
            cookie: 0,
            cookie_verifier: Verifier::default(),
            directory_bytes: 1000,
            bytes_max: 4096,
            requested: Bitmap4::of(&[attribute::SIZE, attribute::FILEHANDLE, attribute::ACL]),
        })),
        _ => {
            let requested = Bitmap4::of(&[attribute::SIZE, attribute::MODE, attribute::ACL]);
            list.push(&Operation::GetAttr(GetAttrArgs { requested }));
        }
    }
}
