//! NFS clients and SMB opens on the same files, in an order drawn from a seed. A small model
//! predicts grants, data, and the state after a restart. Deliberate deviations from the reported
//! events must be detected.

use crate::harness::*;
use files::{
    Access, LockKind, OpenFile, OpenPlan, OpenProgress, Range, RangeLock, Semantics, ShareMode,
};
use futures_util::FutureExt;
use std::sync::Arc;
use vfs::{FsError, Identity, Name, RelPath};
use wire::nfs::compound::CompoundResults;
use wire::nfs::ops::*;
use wire::nfs::xdr::{Opaque, XdrReader};
use wire::nfs::{
    ClientId, FileHandle, LockType, NfsStatus, OperationNumber, StableHow, StateId, StateOwner,
};

const NAMES: [&[u8]; 2] = [b"one", b"two"];
const CLIENTS: [&str; 3] = ["first", "second", "third"];
const BYTES: usize = 4;
const READ: u32 = 1;
const WRITE: u32 = 2;

/// Deviation from the events that the model receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Deny,
    Lock,
    Write,
    Recall,
    Reclaim,
}

/// Client of an open.
enum OpenHolder {
    Nfs { client: usize, id: StateId, locks: Option<StateId> },
    Smb(Arc<OpenFile>),
}

/// An open in the model.
struct ExpectedOpen {
    holder: OpenHolder,
    file: usize,
    access: u32,
    deny: u32,
    /// Locks by byte: none, shared or exclusive.
    locked: [u8; BYTES],
}

struct ExpectedDelegation {
    client: usize,
    file: usize,
    id: StateId,
    is_write: bool,
}

struct ModelRun {
    random: u64,
    fault: Option<Fault>,
    bench: ServerUnderTest,
    clients: Vec<SessionClient>,
    handles: Vec<FileHandle>,
    opens: Vec<ExpectedOpen>,
    delegations: Vec<ExpectedDelegation>,
    content: [[u8; BYTES]; 2],
    /// Counts of events by kind.
    counts: [u32; 4],
}

fn owner() -> StateOwner<'static> {
    StateOwner { client_id: ClientId(0), owner: Opaque(b"owner") }
}

impl ModelRun {
    fn new(seed: u64, fault: Option<Fault>) -> Self {
        let bench = ServerUnderTest::new();
        let mut clients: Vec<SessionClient> =
            CLIENTS.iter().map(|name| bench.callee(name)).collect();
        let mut make = |name: &&[u8]| {
            clients[0].make_file(name);
            clients[0].handle(&[b"share", name])
        };
        let handles = NAMES.iter().map(&mut make).collect();
        let (opens, delegations, content) = (Vec::new(), Vec::new(), [[0; BYTES]; 2]);
        let (random, counts) = (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, [0; 4]);
        let mut run =
            Self { random, fault, bench, clients, handles, opens, delegations, content, counts };
        for file in 0..2 {
            let begun = run.by_smb(file, WRITE, 0);
            let Ok(OpenProgress::Opened(opened)) = begun else { panic!("nobody is in the way") };
            run.bench
                .server
                .files
                .for_server()
                .write(opened.open.caller(), &opened.open, 0, &[0; BYTES])
                .unwrap();
        }
        run
    }

    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) as usize % end
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Whether an open would conflict with existing ones, or they with it.
    fn conflicts(&self, file: usize, access: u32, deny: u32) -> bool {
        let of_file = self.opens.iter().filter(|open| open.file == file);
        of_file.into_iter().any(|open| open.access & deny != 0 || access & open.deny != 0)
    }

    /// All clients answer their callbacks and return recalled delegations.
    fn settle(&mut self) {
        for at in 0..self.clients.len() {
            for callback in self.clients[at].callbacks(&self.bench) {
                let ReceivedCallback::Recall(id) = callback else { continue };
                let known = |d: &ExpectedDelegation| d.client == at && d.id.other == id.other;
                let Some(place) = self.delegations.iter().position(known) else { continue };
                let ExpectedDelegation { file, id: state_id, .. } = self.delegations[place];
                if !self.is(Fault::Recall) {
                    self.delegations.remove(place);
                }
                let give = Operation::DelegReturn(DelegReturnArgs { state_id });
                assert_eq!(self.on(at, file, give).0, NfsStatus::OK);
                self.counts[0] += 1;
            }
        }
        self.bench.work();
    }

    /// Runs an operation on a file, which may wait for other clients. Returns its status and
    /// results.
    fn on(&mut self, client: usize, file: usize, operation: Operation<'_>) -> (NfsStatus, Vec<u8>) {
        let put = Operation::PutFh(PutFhArgs { object: self.handles[file] });
        let mut job = self.clients[client].begin(&[put, operation]);
        for _ in 0..8 {
            if let Some(results) = self.clients[client].finish(&mut job) {
                return (status_of(&results), results);
            }
            self.settle();
        }
        panic!("it waits for nobody");
    }

    fn nfs_open_args(&self, access: u32, deny: u32, reclaims: bool) -> OpenArgs<'static> {
        let claim = match reclaims {
            true => OpenClaim::Previous(DelegationType::None),
            false => OpenClaim::FileHandle,
        };
        OpenArgs { claim, ..open_args(b"", access, deny, false) }
    }

    fn nfs_open(&mut self, client: usize, file: usize, access: u32, deny: u32) {
        let has = |open: &ExpectedOpen| matches!(open.holder, OpenHolder::Nfs { client: c, .. } if c == client);
        if self.opens.iter().any(|open| open.file == file && has(open)) {
            return;
        }
        let reported = if self.is(Fault::Deny) { 0 } else { deny };
        let expects = self.conflicts(file, access, deny);
        let open = Operation::Open(self.nfs_open_args(access, reported, false));
        let (status, results) = self.on(client, file, open);
        if status == NfsStatus::SHARE_DENIED {
            assert!(expects, "nobody is in the way");
            return;
        }
        assert_eq!((status, expects), (NfsStatus::OK, false), "somebody is in the way");
        let mut results = CompoundResults::decode(&mut XdrReader::new(&results)).unwrap();
        results.succeed::<SequenceResult>(OperationNumber::SEQUENCE).unwrap();
        results.succeed::<()>(OperationNumber::PUTFH).unwrap();
        let opened: NfsOpenResult<'_> = results.succeed(OperationNumber::OPEN).unwrap();
        let delegated = match opened.delegation {
            OpenDelegation::Read(given) => Some((given.state_id, false)),
            OpenDelegation::Write(given) => Some((given.state_id, true)),
            _ => None,
        };
        self.check_delegations(Some(client), file, access);
        if let Some((id, is_write)) = delegated {
            let shared = self.opens.iter().filter(|open| open.file == file);
            let writers = shared.filter(|open| is_write || open.access & WRITE != 0).count();
            assert_eq!(writers, 0, "others have it open");
            self.delegations.push(ExpectedDelegation { client, file, id, is_write });
        }
        let holder = OpenHolder::Nfs { client, id: opened.state_id, locks: None };
        self.opens.push(ExpectedOpen { holder, file, access, deny, locked: [0; BYTES] });
    }

    /// No other client holds a conflicting delegation on an opened file.
    fn check_delegations(&self, client: Option<usize>, file: usize, access: u32) {
        let others = self.delegations.iter().filter(|d| d.file == file && Some(d.client) != client);
        let kept = others.filter(|d| d.is_write || access & WRITE != 0).count();
        assert_eq!(kept, 0, "a delegation was not asked back");
    }

    fn by_smb(&mut self, file: usize, access: u32, deny: u32) -> Result<OpenProgress, FsError> {
        let right = |bit, right| if access & bit != 0 { right } else { Access::NONE };
        let share = ShareMode::ALL.0
            & !(if deny & READ != 0 { ShareMode::READ.0 } else { 0 })
            & !(if deny & WRITE != 0 { ShareMode::WRITE.0 } else { 0 });
        let rights = right(READ, Access::READ_DATA) | right(WRITE, Access::WRITE_DATA);
        let plan = OpenPlan {
            path: RelPath::root().join(&Name::new(NAMES[file]).unwrap()),
            semantics: Semantics::Windows,
            ..OpenPlan::posix(rights, ShareMode(share))
        };
        let caller = Arc::new(files::Caller::of(Identity::root()));
        let volume = self.bench.volume();
        let files = self.bench.server.files.clone();
        files
            .for_server()
            .begin_open(&volume, &caller, plan)
            .now_or_never()
            .expect("it begins at once")
    }

    fn smb_open(&mut self, file: usize, access: u32, deny: u32) {
        let expects = self.conflicts(file, access, deny);
        let reported = if self.is(Fault::Deny) { 0 } else { deny };
        let result = match self.by_smb(file, access, reported) {
            Ok(OpenProgress::Opened(opened)) => Ok(opened),
            Ok(OpenProgress::Waiting(waiting)) => {
                let mut opened = Box::pin(waiting.opened());
                let mut turn = || {
                    self.settle();
                    (&mut opened).now_or_never()
                };
                (0..8).find_map(|_| turn()).expect("it waits for nobody")
            }
            Err(error) => Err(error),
        };
        match result {
            Err(error) => assert_eq!((error, expects), (FsError::ShareViolation, true)),
            Ok(opened) => {
                assert!(!expects, "somebody is in the way");
                self.check_delegations(None, file, access);
                let holder = OpenHolder::Smb(opened.open);
                self.opens.push(ExpectedOpen { holder, file, access, deny, locked: [0; BYTES] });
            }
        }
    }

    fn close(&mut self, at: usize) {
        let open = self.opens.swap_remove(at);
        match open.holder {
            OpenHolder::Smb(held) => {
                let files = self.bench.server.files.for_server();
                let closed = files.close(held);
                closed.now_or_never().expect("at once").unwrap();
            }
            OpenHolder::Nfs { client, id: state_id, .. } => {
                let close = Operation::Close(CloseArgs { sequence_id: 0, state_id });
                assert_eq!(self.on(client, open.file, close).0, NfsStatus::OK);
            }
        }
    }

    /// Locks a byte that the open has not locked.
    fn lock(&mut self, at: usize, byte: usize, is_exclusive: bool) {
        let ExpectedOpen { file, access, locked, .. } = self.opens[at];
        let needed = if is_exclusive { WRITE } else { READ };
        if locked[byte] != 0 || access & needed == 0 {
            return;
        }
        let mine = if is_exclusive { 2 } else { 1 };
        let others = self.opens.iter().enumerate().filter(|(n, o)| *n != at && o.file == file);
        let expects =
            others.map(|(_, open)| open.locked[byte]).any(|other| mine.max(other) + other > 2);
        let reported = if self.is(Fault::Lock) { BYTES } else { byte } as u64;
        let is_locked = match &self.opens[at].holder {
            OpenHolder::Smb(held) => {
                let kind = if is_exclusive { LockKind::Exclusive } else { LockKind::Shared };
                let range = RangeLock { range: Range::new(reported, 1).unwrap(), kind };
                self.bench
                    .server
                    .files
                    .for_server()
                    .try_locks(held, &[range], &limits::LedgerHolder::User("somebody".into()))
                    .is_ok()
            }
            OpenHolder::Nfs { client, id, locks } => {
                let (client, lock) =
                    (*client, lock_args((*id, *locks), reported, is_exclusive, false));
                let (status, results) = self.on(client, file, lock);
                assert!(matches!(status, NfsStatus::OK | NfsStatus::DENIED), "{status:?}");
                if status.is_ok() {
                    self.note_locks(at, &results);
                }
                status.is_ok()
            }
        };
        assert_eq!(is_locked, !expects, "byte {byte}");
        self.counts[1] += 1;
        if is_locked {
            self.opens[at].locked[byte] = mine;
        }
    }

    fn note_locks(&mut self, at: usize, results: &[u8]) {
        let mut results = CompoundResults::decode(&mut XdrReader::new(results)).unwrap();
        results.succeed::<SequenceResult>(OperationNumber::SEQUENCE).unwrap();
        results.succeed::<()>(OperationNumber::PUTFH).unwrap();
        let id: StateId = results.succeed(OperationNumber::LOCK).unwrap();
        if let OpenHolder::Nfs { locks, .. } = &mut self.opens[at].holder {
            *locks = Some(id);
        }
    }

    /// Reads a byte, or writes a new value. SMB locks are mandatory, and NFS locks are mandatory
    /// for SMB.
    fn touch(&mut self, at: usize, byte: usize, writes: bool) {
        let ExpectedOpen { file, access, .. } = self.opens[at];
        if access & (if writes { WRITE } else { READ }) == 0 {
            return;
        }
        let is_smb = |open: &ExpectedOpen| matches!(open.holder, OpenHolder::Smb(_));
        let by_smb = is_smb(&self.opens[at]);
        let forbids = |(number, open): (usize, &ExpectedOpen)| {
            let (lock, own) = (open.locked[byte], number == at);
            let counts = open.file == file && (by_smb || is_smb(open));
            counts && lock != 0 && if writes { !own || lock == 1 } else { !own && lock == 2 }
        };
        let expects = self.opens.iter().enumerate().any(forbids);
        let (value, offset) = (self.content[file][byte].wrapping_add(1), byte as u64);
        let reported = if self.is(Fault::Write) { 0 } else { value };
        let files = self.bench.server.files.clone();
        let found = match &self.opens[at].holder {
            OpenHolder::Smb(held) if writes => files
                .for_server()
                .write(held.caller(), held, offset, &[reported])
                .map(|()| value)
                .ok(),
            OpenHolder::Smb(held) => {
                let mut into = Vec::new();
                let read = files
                    .for_server()
                    .read(held, offset, 1, &mut into)
                    .now_or_never()
                    .expect("at once");
                read.ok().map(|_| into[0])
            }
            OpenHolder::Nfs { client, id: state_id, .. } => {
                let (client, state_id, stable) = (*client, *state_id, StableHow::Unstable);
                let data = &[reported][..];
                let operation = match writes {
                    true => Operation::Write(WriteArgs { state_id, offset, stable, data }),
                    false => Operation::Read(ReadArgs { state_id, offset, count: 1 }),
                };
                let (status, results) = self.on(client, file, operation);
                assert!(matches!(status, NfsStatus::OK | NfsStatus::LOCKED), "{status:?}");
                // The data ends the reply, padded to four bytes.
                let byte = || if writes { value } else { results[results.len() - 4] };
                status.is_ok().then(byte)
            }
        };
        assert_eq!(found.is_none(), expects, "byte {byte}, writes: {writes}");
        self.counts[2] += 1;
        let Some(found) = found else { return };
        if writes {
            self.content[file][byte] = value;
        } else {
            assert_eq!(found, self.content[file][byte], "what was written last");
        }
    }

    /// Kills the server: SMB opens are lost, and NFS clients reclaim theirs.
    fn restart(&mut self) {
        self.opens.retain(|open| matches!(open.holder, OpenHolder::Nfs { .. }));
        self.delegations.clear();
        self.bench = self.bench.restarted();
        for (client, name) in CLIENTS.into_iter().enumerate() {
            let denied = self.by_smb(0, READ, WRITE).map(|_| ());
            assert_eq!(denied, Err(FsError::ShareViolation), "they may come back");
            self.clients[client] = self.bench.returning_callee(name, 1);
            for at in 0..self.opens.len() {
                self.reclaim(client, at);
            }
            self.clients[client].complete_reclaim();
        }
        self.counts[3] += 1;
    }

    fn reclaim(&mut self, client: usize, at: usize) {
        let ExpectedOpen { file, access, deny, locked, .. } = self.opens[at];
        let OpenHolder::Nfs { client: whose, .. } = self.opens[at].holder else { return };
        if whose != client || self.is(Fault::Reclaim) {
            return;
        }
        let open = Operation::Open(self.nfs_open_args(access, deny, true));
        let (status, results) = self.on(client, file, open);
        assert_eq!(status, NfsStatus::OK);
        let mut results = CompoundResults::decode(&mut XdrReader::new(&results)).unwrap();
        results.succeed::<SequenceResult>(OperationNumber::SEQUENCE).unwrap();
        results.succeed::<()>(OperationNumber::PUTFH).unwrap();
        let opened: NfsOpenResult<'_> = results.succeed(OperationNumber::OPEN).unwrap();
        let id = opened.state_id;
        self.opens[at].holder = OpenHolder::Nfs { client, id, locks: None };
        for (byte, lock) in locked.into_iter().enumerate().filter(|(_, lock)| *lock != 0) {
            let OpenHolder::Nfs { locks, .. } = self.opens[at].holder else { return };
            let lock = lock_args((id, locks), byte as u64, lock == 2, true);
            let (status, results) = self.on(client, file, lock);
            assert_eq!(status, NfsStatus::OK);
            self.note_locks(at, &results);
        }
    }

    fn step(&mut self) {
        let (file, byte, coin) = (self.below(2), self.below(BYTES), self.below(2) == 0);
        let (access, deny) = (1 + self.below(3) as u32, [0, 0, 0, 1, 2, 3][self.below(6)]);
        let at = self.below(self.opens.len().max(1));
        match self.below(100) {
            0..25 => {
                let client = self.below(self.clients.len());
                self.nfs_open(client, file, access, deny);
            }
            25..45 => self.smb_open(file, access, deny),
            99 => self.restart(),
            _ if self.opens.is_empty() => {}
            45..65 => self.close(at),
            65..80 => self.lock(at, byte, coin),
            _ => self.touch(at, byte, coin),
        }
        self.settle();
    }
}

fn lock_args(
    (open_state_id, locks): (StateId, Option<StateId>),
    offset: u64,
    is_exclusive: bool,
    reclaim: bool,
) -> Operation<'static> {
    let lock_type = if is_exclusive { LockType::Write } else { LockType::Read };
    let lock_sequence_id = 0;
    let locker = match locks {
        Some(lock_state_id) => {
            Locker::Existing(ExistingLockOwner { lock_state_id, lock_sequence_id })
        }
        None => Locker::New(OpenToLockOwner {
            open_sequence_id: 0,
            open_state_id,
            lock_sequence_id,
            lock_owner: owner(),
        }),
    };
    Operation::Lock(LockArgs { lock_type, reclaim, offset, length: 1, locker })
}

fn run(seed: u64, fault: Option<Fault>) -> [u32; 4] {
    let mut run = ModelRun::new(seed, fault);
    for _ in 0..150 {
        run.step();
    }
    run.counts
}

#[test]
fn both_protocols_follow_the_model() {
    let mut all = [0; 4];
    for seed in 1..=300 {
        let counts = std::panic::catch_unwind(|| run(seed, None));
        let counts = counts.unwrap_or_else(|_| panic!("seed {seed}"));
        all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let [recalls, locks, touches, restarts] = all;
    assert!(recalls > 20 && locks > 200 && touches > 200 && restarts > 20, "{all:?}");
}

#[test]
fn deviation_from_the_model_is_detected() {
    for fault in [Fault::Deny, Fault::Lock, Fault::Write, Fault::Recall, Fault::Reclaim] {
        let fails = |seed| std::panic::catch_unwind(|| run(seed, Some(fault))).is_err();
        assert!((1..=20).any(fails), "{fault:?}");
    }
}
