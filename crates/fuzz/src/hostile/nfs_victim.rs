//! The victim as an NFS client: its opens, its lock and its session must stay unchanged.

use super::nfs_link::{NfsIntroduction, NfsLink, OperationList};
use super::surroundings::{EXPORT, EpisodeSurroundings, EpisodeUser};
use super::victim::{FILE_BYTES, LOCKED, Victim, WRITES_FROM};
use nfs::NfsServer;
use std::ops::Range;
use std::sync::Arc;
use wire::nfs::ops::{
    ExistingLockOwner, LockArgs, LockReply, LockTestArgs, Locker, LookupArgs, NfsOpenHow, OpenArgs,
    OpenClaim, OpenToLockOwner, Operation, OperationResult, ReadArgs, ShareAccess, ShareDeny,
    TestStateIdArgs, UnlockArgs, WriteArgs,
};
use wire::nfs::xdr::{List, Opaque};
use wire::nfs::{
    ClientId, FileHandle, LockType, NfsStatus, OperationNumber, StableHow, StateId, StateOwner,
};

/// Indexes into the victim's list of files: its private file, and one that others may read.
const KEPT: usize = 4;
const NOTED: usize = 5;
/// Paths whose handles hostile clients know.
const PATHS: [&[&[u8]]; 7] = [
    &[],
    &[b"v"],
    &[b"v", b"kept"],
    &[b"v", b"private"],
    &[b"pub"],
    &[b"pub", b"noted"],
    &[b"pub", b"shared"],
];
/// Index of a file's path in [`PATHS`].
const KEPT_PATH: usize = 2;
const NOTED_PATH: usize = 5;
/// A second lock owner of the victim, which conflicts with the first one's lock.
const OTHER_OWNER: &[u8] = b"other";

/// The victim as an NFS client; see the module.
pub struct NfsVictim {
    pub link: NfsLink,
    /// Handles of [`PATHS`].
    pub handles: Vec<FileHandle>,
    /// The open of its private file.
    pub kept: StateId,
    /// The open of the file that others may read, and the lock on it.
    pub noted: StateId,
    pub lock: StateId,
    writes: u8,
}

fn owner(owner: &'static [u8]) -> StateOwner<'static> {
    StateOwner { client_id: ClientId(0), owner: Opaque(owner) }
}

/// Operations that look up a path of the share.
fn walk(path: &[&[u8]]) -> OperationList {
    let mut list = OperationList::default().with(&Operation::PutRootFh);
    for name in std::iter::once(&EXPORT).chain(path) {
        list.push(&Operation::Lookup(LookupArgs { name }));
    }
    list
}

/// OPEN of an existing file for reading and writing.
fn open(name: &[u8]) -> Operation<'_> {
    Operation::Open(OpenArgs {
        sequence_id: 0,
        share_access: ShareAccess::BOTH | ShareAccess::WANT_NO_DELEG,
        share_deny: ShareDeny(0),
        owner: owner(b"owner"),
        how: NfsOpenHow::NoCreate,
        claim: OpenClaim::Null(name),
    })
}

impl NfsVictim {
    /// The victim's kernel mounts the share; the victim opens files and locks a range.
    pub fn arrive(server: &Arc<NfsServer>, around: &EpisodeSurroundings) -> Self {
        let mut link = NfsLink::connect(server, EpisodeUser::Alice, 0);
        assert!(link.begin(around), "the victim mounts the share");
        let handles = PATHS.iter().map(|path| {
            let reply = link.call(around, walk(path).with(&Operation::GetFh));
            let handle = reply.and_then(|reply| {
                reply.result(|result| match result {
                    OperationResult::GetFh(Ok(handle)) => Some(handle),
                    _ => None,
                })
            });
            handle.expect("the victim finds its files")
        });
        let handles = handles.collect();
        let (kept, noted) = (StateId::INVALID, StateId::INVALID);
        let mut victim = Self { link, handles, kept, noted, lock: kept, writes: 0 };
        victim.kept = victim.open(around, &[b"v"], b"kept");
        victim.noted = victim.open(around, &[b"pub"], b"noted");
        let new = OpenToLockOwner {
            open_sequence_id: 0,
            open_state_id: victim.noted,
            lock_sequence_id: 0,
            lock_owner: owner(b"owner"),
        };
        victim.lock(around, Locker::New(new));
        victim
    }

    fn open(&mut self, around: &EpisodeSurroundings, path: &[&[u8]], name: &[u8]) -> StateId {
        let reply = self.link.call(around, walk(path).with(&open(name)));
        let opened = reply.and_then(|reply| {
            reply.result(|result| match result {
                OperationResult::Open(Ok(opened)) => Some(opened.state_id),
                _ => None,
            })
        });
        opened.expect("the victim opens its files")
    }

    fn lock(&mut self, around: &EpisodeSurroundings, locker: Locker<'_>) {
        let operation = Operation::Lock(LockArgs {
            lock_type: LockType::Write,
            reclaim: false,
            offset: LOCKED.start as u64,
            length: LOCKED.len() as u64,
            locker,
        });
        let list = OperationList::on(self.handles[NOTED_PATH]).with(&operation);
        let reply = self.link.call(around, list).expect("the victim is answered at once");
        let granted = reply.result(|result| match result {
            OperationResult::Lock(LockReply::Granted(id)) => Some(id),
            _ => None,
        });
        self.lock = granted.unwrap_or_else(|| panic!("the victim's lock: {:?}", reply.statuses));
    }

    /// State ids that hostile clients know.
    pub fn state_ids(&self) -> [StateId; 3] {
        [self.kept, self.noted, self.lock]
    }

    /// Unlocks its range, and locks it again.
    pub fn lock_again(&mut self, around: &EpisodeSurroundings) {
        let operation = Operation::Unlock(UnlockArgs {
            lock_type: LockType::Write,
            sequence_id: 0,
            lock_state_id: self.lock,
            offset: LOCKED.start as u64,
            length: LOCKED.len() as u64,
        });
        let list = OperationList::on(self.handles[NOTED_PATH]).with(&operation);
        let reply = self.link.call(around, list).expect("the victim is answered at once");
        let unlocked = reply.result(|result| match result {
            OperationResult::Unlock(Ok(id)) => Some(id),
            _ => None,
        });
        let lock_state_id = unlocked.unwrap_or_else(|| panic!("{:?}", reply.statuses));
        self.lock(
            around,
            Locker::Existing(ExistingLockOwner { lock_state_id, lock_sequence_id: 0 }),
        );
    }

    pub fn write(&mut self, around: &EpisodeSurroundings, victim: &mut Victim) {
        self.writes = self.writes.wrapping_add(1);
        let data = [self.writes; 16];
        let at = WRITES_FROM + usize::from(self.writes % 16);
        let operation = Operation::Write(WriteArgs {
            state_id: self.kept,
            offset: at as u64,
            stable: StableHow::Unstable,
            data: &data,
        });
        let list = OperationList::on(self.handles[KEPT_PATH]).with(&operation);
        let reply = self.link.call(around, list).expect("the victim is answered at once");
        assert!(reply.is_ok(), "the victim writes over NFS: {:?}", reply.statuses);
        victim.expect_bytes(KEPT, at, &data);
    }

    /// Repeats EXCHANGE_ID, as after a lost connection.
    pub fn exchange_id_again(&mut self, around: &EpisodeSurroundings) {
        let owner = self.link.owner.clone();
        let introduction = NfsIntroduction { owner: &owner, life: 1, flags: 0 };
        let known = self.link.exchange_id(around, introduction);
        assert_eq!(known.map(|(client, _)| client), Some(self.link.client), "the victim is known");
    }

    /// Asserts the invariants.
    pub fn check(&mut self, around: &EpisodeSurroundings, server: &NfsServer, victim: &Victim) {
        let clients = server.snapshot().clients;
        let client = clients.iter().find(|client| client.id == self.link.client.0);
        let client = client.expect("the victim's client is there");
        let shown: Vec<[u8; 16]> = client.sessions.iter().map(|session| session.id).collect();
        assert_eq!(shown, [self.link.session.map_or([0; 16], |id| id.0)], "the victim's sessions");
        assert_eq!(client.states, self.state_ids().len(), "the victim's opens and locks");
        let state_ids = List(self.state_ids().to_vec());
        let test = Operation::TestStateId(TestStateIdArgs { state_ids });
        let reply = self.link.call(around, OperationList::default().with(&test));
        let statuses = reply.and_then(|reply| {
            reply.result(|result| match result {
                OperationResult::TestStateId(Ok(tested)) => Some(tested.statuses.0.clone()),
                _ => None,
            })
        });
        assert_eq!(statuses, Some(vec![NfsStatus::OK; 3]), "the victim's state ids");
        // A user who may read a file may lock the rest of it.
        for (path, file, id, range) in
            [(KEPT_PATH, KEPT, self.kept, 0..FILE_BYTES), (NOTED_PATH, NOTED, self.noted, LOCKED)]
        {
            let bytes = self.read(around, path, id, range.clone());
            assert_eq!(bytes, victim.bytes(file)[range], "the victim reads its own bytes");
        }
        self.check_lock(around);
    }

    fn read(
        &mut self,
        around: &EpisodeSurroundings,
        path: usize,
        state_id: StateId,
        range: Range<usize>,
    ) -> Vec<u8> {
        let (offset, count) = (range.start as u64, range.len() as u32);
        let operation = Operation::Read(ReadArgs { state_id, offset, count });
        let list = OperationList::on(self.handles[path]).with(&operation);
        let reply = self.link.call(around, list).expect("the victim is answered at once");
        let read = reply.result(|result| match result {
            OperationResult::Read(Ok(read)) => Some(read.data.to_vec()),
            _ => None,
        });
        read.unwrap_or_else(|| panic!("the victim reads over NFS: {:?}", reply.statuses))
    }

    fn check_lock(&mut self, around: &EpisodeSurroundings) {
        let operation = Operation::LockTest(LockTestArgs {
            lock_type: LockType::Write,
            offset: LOCKED.start as u64,
            length: LOCKED.len() as u64,
            owner: owner(OTHER_OWNER),
        });
        let list = OperationList::on(self.handles[NOTED_PATH]).with(&operation);
        let reply = self.link.call(around, list).expect("the victim is answered at once");
        let denied = Some((OperationNumber::LOCKT, NfsStatus::DENIED));
        assert_eq!(reply.last(), denied, "the victim's range is locked");
    }
}
