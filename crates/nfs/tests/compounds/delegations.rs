//! Delegations by whole records: granted, recalled, returned, revoked; together with SMB opens.

use crate::harness::*;
use files::{Access, IfExists, IfMissing, OpenPlan, OpenProgress, Semantics, ShareMode};
use futures_util::FutureExt;
use limits::LedgerHolder;
use std::sync::Arc;
use std::time::Duration;
use vfs::{Identity, Name, RelPath};
use wire::nfs::attributes::{Fattr, attribute};
use wire::nfs::ops::*;
use wire::nfs::xdr::Opaque;
use wire::nfs::{Bitmap4, LockType, NfsStatus, StableHow, StateId, StateOwner};

const READ: u32 = ShareAccess::READ.0;

/// Delegation in the result of an OPEN.
#[derive(Debug, PartialEq, Eq)]
enum GrantedDelegation {
    Nothing,
    Why(NoDelegation),
    Read(StateId),
    Write(StateId),
}

impl GrantedDelegation {
    fn id(&self) -> StateId {
        match self {
            Self::Read(id) | Self::Write(id) => *id,
            other => panic!("{other:?}"),
        }
    }
}

fn got(result: &NfsOpenResult<'_>) -> GrantedDelegation {
    match result.delegation {
        OpenDelegation::None => GrantedDelegation::Nothing,
        OpenDelegation::NoneWhy(why) => GrantedDelegation::Why(why),
        OpenDelegation::Read(delegation) => GrantedDelegation::Read(delegation.state_id),
        OpenDelegation::Write(delegation) => GrantedDelegation::Write(delegation.state_id),
        other => panic!("{other:?}"),
    }
}

impl SessionClient {
    fn open_for(&mut self, name: &[u8], access: u32) -> (StateId, GrantedDelegation) {
        let mut operations = self.walk(&[b"share"]);
        operations.push(Operation::Open(open_args(name, access, 0, false)));
        self.last(&operations, |r| {
            let result: NfsOpenResult<'_> = r.get().unwrap();
            (result.state_id, got(&result))
        })
    }

    fn on<'a>(&self, name: &'a [u8], operation: Operation<'a>) -> Vec<Operation<'a>> {
        let mut operations = self.walk(&[b"share", name]);
        operations.push(operation);
        operations
    }

    fn close(&mut self, name: &[u8], state_id: StateId) {
        let close = Operation::Close(CloseArgs { sequence_id: 0, state_id });
        let operations = self.on(name, close);
        assert_eq!(self.status(&operations), NfsStatus::OK);
    }

    fn give_back(&mut self, name: &[u8], state_id: StateId) -> NfsStatus {
        let operations = self.on(name, Operation::DelegReturn(DelegReturnArgs { state_id }));
        self.status(&operations)
    }

    fn begin_open(&mut self, name: &[u8], access: u32) -> nfs::CallJob {
        let mut operations = self.walk(&[b"share"]);
        operations.push(Operation::Open(open_args(name, access, 0, false)));
        self.begin(&operations)
    }

    fn flags(&mut self) -> SequenceStatusFlags {
        let results = self.results(&[]);
        let r = &mut wire::nfs::xdr::XdrReader::new(&results);
        let mut results = wire::nfs::compound::CompoundResults::decode(r).unwrap();
        let result: SequenceResult = results.succeed(wire::nfs::OperationNumber::SEQUENCE).unwrap();
        result.status_flags
    }

    fn test(&mut self, id: StateId) -> NfsStatus {
        let test = Operation::TestStateId(TestStateIdArgs { state_ids: vec![id].into() });
        self.last(&[test], |r| r.get::<TestStateIdResult>().unwrap().statuses[0])
    }
}

/// Opens the file as an SMB client does.
fn windows(bench: &ServerUnderTest, access: Access, share: ShareMode) -> OpenProgress {
    let plan = OpenPlan {
        path: RelPath::root().join(&Name::new(*b"f").unwrap()),
        if_exists: IfExists::Open,
        if_missing: IfMissing::Fail,
        semantics: Semantics::Windows,
        ..OpenPlan::posix(access, share)
    };
    let caller = Arc::new(files::Caller::of(Identity::root()));
    let volume = bench.volume();
    let files = bench.server.files.for_server();
    let open = files.begin_open(&volume, &caller, plan);
    open.now_or_never().unwrap().unwrap()
}

#[test]
fn delegation_is_recalled_before_another_client_writes() {
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.callee("one"), bench.callee("two"));
    one.make_file(b"f");
    let (open, delegation) = one.open_for(b"f", READ);
    let GrantedDelegation::Read(id) = delegation else { panic!("{delegation:?}") };
    one.close(b"f", open);
    assert!(
        matches!(two.open_for(b"f", READ).1, GrantedDelegation::Read(_)),
        "readers do not mind"
    );
    let mut three = bench.callee("three");
    let mut writes = three.begin_open(b"f", READ_WRITE);
    assert_eq!(three.finish(&mut writes), None);
    assert_eq!(one.callbacks(&bench), [ReceivedCallback::Recall(id)]);
    let [ReceivedCallback::Recall(other)] = two.callbacks(&bench)[..] else { panic!("not asked") };
    assert_eq!(one.give_back(b"f", id), NfsStatus::OK);
    assert_eq!(three.finish(&mut writes), None, "one of two");
    assert_eq!(two.give_back(b"f", other), NfsStatus::OK);
    let results = three.finish(&mut writes).expect("nothing is in the way");
    assert_eq!(status_of(&results), NfsStatus::OK);
    assert_eq!(one.give_back(b"f", id), NfsStatus::BAD_STATEID, "once");
    assert_eq!(one.flags(), SequenceStatusFlags::default());
}

#[test]
fn commit_without_an_open_recalls_no_delegation() {
    for access in [READ, READ_WRITE] {
        let bench = ServerUnderTest::new();
        let (mut one, mut two) = (bench.callee("one"), bench.callee("two"));
        one.make_file(b"f");
        let (_, delegation) = one.open_for(b"f", access);
        assert!(
            matches!(delegation, GrantedDelegation::Read(_) | GrantedDelegation::Write(_)),
            "{delegation:?}"
        );
        let commit = Operation::Commit(CommitArgs { offset: 0, count: 0 });
        let operations = two.on(b"f", commit);
        let mut committing = two.begin(&operations);
        let results = two.finish(&mut committing).expect("nobody is waited for");
        assert_eq!(status_of(&results), NfsStatus::OK);
        assert_eq!(one.callbacks(&bench), [], "{access}");
    }
}

#[test]
fn delegation_state_id_serves_reads_and_writes() {
    let bench = ServerUnderTest::new();
    let mut one = bench.callee("one");
    one.make_file(b"f");
    let (open, delegation) = one.open_for(b"f", READ_WRITE);
    let GrantedDelegation::Write(state_id) = delegation else { panic!("{delegation:?}") };
    one.close(b"f", open);
    let stable = StableHow::Unstable;
    let write = Operation::Write(WriteArgs { state_id, offset: 0, stable, data: b"text" });
    let operations = one.on(b"f", write);
    assert_eq!(one.status(&operations), NfsStatus::OK);
    assert_eq!(one.read_whole(b"f"), b"text", "nor do its anonymous reads disturb it");
    let mut remove = one.walk(&[b"share"]);
    remove.push(Operation::Remove(RemoveArgs { name: b"f" }));
    assert_eq!(one.status(&remove), NfsStatus::OK);
    assert_eq!(one.callbacks(&bench), []);
    assert_eq!(one.test(state_id), NfsStatus::OK);
}

#[test]
fn read_delegation_permits_no_writes() {
    let bench = ServerUnderTest::new();
    let mut one = bench.callee("one");
    one.make_file(b"f");
    let state_id = one.open_for(b"f", READ).1.id();
    let stable = StableHow::Unstable;
    let write = Operation::Write(WriteArgs { state_id, offset: 0, stable, data: b"text" });
    let operations = one.on(b"f", write);
    assert_eq!(one.status(&operations), NfsStatus::OPENMODE);
    let close = Operation::Close(CloseArgs { sequence_id: 0, state_id });
    let operations = one.on(b"f", close);
    assert_eq!(one.status(&operations), NfsStatus::BAD_STATEID, "it is no open");
}

#[test]
fn waiter_gets_delay_and_silent_holder_is_revoked() {
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.callee("one"), bench.callee("two"));
    one.make_file(b"f");
    let id = one.open_for(b"f", READ).1.id();
    let mut writes = two.begin_open(b"f", READ_WRITE);
    assert_eq!(two.finish(&mut writes), None);
    assert_eq!(one.callbacks(&bench), [ReceivedCallback::Recall(id)]);
    bench.pass(bench.lease / 3);
    let results = two.finish(&mut writes).expect("it is not to wait for long");
    assert_eq!(status_of(&results), NfsStatus::DELAY);
    assert_eq!(one.flags(), SequenceStatusFlags::default(), "it is there, and keeps it");
    bench.pass(bench.lease - bench.lease / 3 - Duration::from_millis(1));
    assert_eq!(one.test(id), NfsStatus::OK, "its time is not up");
    bench.pass(Duration::from_millis(1));
    assert_eq!(one.test(id), NfsStatus::DELEG_REVOKED);
    assert!(one.flags().contains(SequenceStatusFlags::RECALLABLE_STATE_REVOKED));
    let mut again = two.begin_open(b"f", READ_WRITE);
    let results = two.finish(&mut again).expect("nothing is in the way");
    assert_eq!(status_of(&results), NfsStatus::OK);
    assert_eq!(one.give_back(b"f", id), NfsStatus::DELEG_REVOKED);
    let free = Operation::FreeStateId(FreeStateIdArgs { state_id: id });
    assert_eq!(one.status(&[free]), NfsStatus::OK);
    assert_eq!(one.flags(), SequenceStatusFlags::default());
    assert_eq!(one.test(id), NfsStatus::BAD_STATEID);
}

#[test]
fn no_delegation_without_wish_or_backchannel() {
    let bench = ServerUnderTest::new();
    let (mut deaf, mut one) = (bench.client("deaf"), bench.callee("one"));
    one.make_file(b"f");
    let want = |flags: ShareAccess| READ | flags.0;
    let any = want(ShareAccess::WANT_ANY_DELEG);
    assert_eq!(deaf.open_for(b"f", READ).1, GrantedDelegation::Nothing, "nothing is said unasked");
    assert_eq!(deaf.open_for(b"f", any).1, GrantedDelegation::Why(NoDelegation::Resource(false)));
    let no = want(ShareAccess::WANT_NO_DELEG);
    assert_eq!(one.open_for(b"f", no).1, GrantedDelegation::Why(NoDelegation::NotWanted));
    let cancel = want(ShareAccess::WANT_CANCEL);
    assert_eq!(one.open_for(b"f", cancel).1, GrantedDelegation::Why(NoDelegation::Cancelled));
    deaf.open_for(b"f", READ_WRITE);
    assert_eq!(one.open_for(b"f", any).1, GrantedDelegation::Why(NoDelegation::Contention(false)));
    assert_eq!(one.open_for(b"f", READ).1, GrantedDelegation::Nothing);
}

#[test]
fn recalled_file_is_not_delegated_while_cooling() {
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.callee("one"), bench.callee("two"));
    one.make_file(b"f");
    let (open, delegation) = one.open_for(b"f", READ_WRITE);
    one.close(b"f", open);
    let mut reads = two.begin_open(b"f", READ);
    assert_eq!(two.finish(&mut reads), None);
    assert_eq!(one.callbacks(&bench), [ReceivedCallback::Recall(delegation.id())]);
    assert_eq!(one.give_back(b"f", delegation.id()), NfsStatus::OK);
    assert!(two.finish(&mut reads).is_some());
    assert_eq!(one.open_for(b"f", READ).1, GrantedDelegation::Nothing);
}

#[test]
fn cb_getattr_queries_the_write_delegation_holder() {
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.callee("one"), bench.client("two"));
    one.make_file(b"f");
    let before = two.attributes(&[b"share", b"f"], &[attribute::CHANGE, attribute::SIZE]);
    let _held = one.open_for(b"f", READ_WRITE).1.id();
    let requested = Bitmap4::of(&[attribute::CHANGE, attribute::SIZE]);
    let mut look = |one: &mut SessionClient, kept: (u64, u64)| {
        one.kept = kept;
        let operations = two.on(b"f", Operation::GetAttr(GetAttrArgs { requested }));
        let mut job = two.begin(&operations);
        assert_eq!(two.finish(&mut job), None);
        assert_eq!(one.callbacks(&bench), [ReceivedCallback::GetAttr]);
        let results = two.finish(&mut job).expect("it was answered");
        let bytes = Vec::leak(results);
        let at = bytes.len() - 16;
        let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
        (number(at), number(at + 8))
    };
    let change = before.change.unwrap();
    assert_eq!(look(&mut one, (change, 0)), (change, 0), "it has changed nothing");
    let first = look(&mut one, (change + 1, 5));
    assert_eq!(first.1, 5);
    assert_ne!(first.0, change);
    let own = one.attributes(&[b"share", b"f"], &[attribute::SIZE]);
    assert_eq!(own.size, Some(0), "itself it is not asked");
}

#[test]
fn smb_write_open_waits_for_the_recall() {
    let bench = ServerUnderTest::new();
    let mut one = bench.callee("one");
    one.make_file(b"f");
    let (open, delegation) = one.open_for(b"f", READ);
    one.close(b"f", open);
    assert!(matches!(windows(&bench, Access::READ_DATA, ShareMode::READ), OpenProgress::Opened(_)));
    let OpenProgress::Waiting(waiting) = windows(&bench, Access::WRITE_DATA, ShareMode::ALL) else {
        panic!("it does not wait");
    };
    let mut waiting = Box::pin(waiting.opened());
    assert!((&mut waiting).now_or_never().is_none());
    assert_eq!(one.callbacks(&bench), [ReceivedCallback::Recall(delegation.id())]);
    assert_eq!(one.give_back(b"f", delegation.id()), NfsStatus::OK);
    assert!(waiting.now_or_never().expect("it was given back").is_ok());
}

#[test]
fn courtesy_state_is_revoked_for_an_smb_open() {
    let bench = ServerUnderTest::new();
    let mut one = bench.callee("one");
    one.make_file(b"f");
    let mut operations = one.walk(&[b"share"]);
    let access = READ_WRITE | ShareAccess::WANT_NO_DELEG.0;
    operations.push(Operation::Open(open_args(b"f", access, ALL, false)));
    assert_eq!(one.status(&operations), NfsStatus::OK);
    let wish = || OpenPlan {
        path: RelPath::root().join(&Name::new(*b"f").unwrap()),
        ..OpenPlan::posix(Access::READ_DATA, ShareMode::ALL)
    };
    let caller = Arc::new(files::Caller::of(Identity::root()));
    let volume = bench.volume();
    let files = bench.server.files.for_server();
    let open = || files.open(&volume, &caller, wish());
    bench.pass(bench.lease);
    assert!(open().now_or_never().is_none_or(|result| result.is_err()), "it may come back");
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.server.clients().len(), 1, "nobody needs what it has");
    assert!(open().now_or_never().expect("nobody is waited for").is_ok());
    assert_eq!(bench.server.clients().len(), 0);
}

#[test]
fn recall_does_not_wait_for_a_courtesy_client() {
    let bench = ServerUnderTest::new();
    let mut one = bench.callee("one");
    one.make_file(b"f");
    let (open, delegation) = one.open_for(b"f", READ);
    one.close(b"f", open);
    assert!(matches!(delegation, GrantedDelegation::Read(_)));
    bench.pass(bench.lease + Duration::from_millis(1));
    let OpenProgress::Waiting(waiting) = windows(&bench, Access::WRITE_DATA, ShareMode::ALL) else {
        panic!("it was asked for");
    };
    bench.work();
    assert!(waiting.opened().now_or_never().expect("nobody is waited for").is_ok());
}

#[test]
fn claim_delegate_cur_registers_local_opens() {
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.callee("one"), bench.callee("two"));
    one.make_file(b"f");
    let (open, delegation) = one.open_for(b"f", READ_WRITE);
    one.close(b"f", open);
    let mut reads = two.begin_open(b"f", READ);
    assert_eq!(two.finish(&mut reads), None);
    assert_eq!(one.callbacks(&bench), [ReceivedCallback::Recall(delegation.id())]);
    let claim = |id| OpenArgs {
        claim: OpenClaim::DelegateCurrentFileHandle(id),
        ..open_args(b"", READ_WRITE, 0, false)
    };
    let operations = one.on(b"f", Operation::Open(claim(delegation.id())));
    assert_eq!(one.status(&operations), NfsStatus::OK, "it does not wait for itself");
    let strange = StateId { seqid: 1, other: [9; 12] };
    let operations = one.on(b"f", Operation::Open(claim(strange)));
    assert_eq!(one.status(&operations), NfsStatus::BAD_STATEID);
    assert_eq!(one.give_back(b"f", delegation.id()), NfsStatus::OK);
    assert!(two.finish(&mut reads).is_some());
}

#[test]
fn delegation_is_reclaimed_after_a_restart() {
    let bench = ServerUnderTest::new();
    let mut one = bench.callee("one");
    one.make_file(b"f");
    assert!(matches!(one.open_for(b"f", READ_WRITE).1, GrantedDelegation::Write(_)));
    let after = bench.restarted();
    let mut one = after.returning_callee("one", 1);
    let again = OpenArgs {
        claim: OpenClaim::Previous(DelegationType::Write),
        ..open_args(b"", READ_WRITE, 0, false)
    };
    let operations = one.on(b"f", Operation::Open(again));
    let delegation = one.last(&operations, |r| got(&r.get::<NfsOpenResult<'_>>().unwrap()));
    assert!(matches!(delegation, GrantedDelegation::Write(_)), "{delegation:?}");
}

/// Whether a reclaimed delegation is granted with an immediate recall.
fn is_recalled_when_taken_back(one: &mut SessionClient, kind: DelegationType) -> bool {
    let again =
        OpenArgs { claim: OpenClaim::Previous(kind), ..open_args(b"", READ_WRITE, 0, false) };
    let operations = one.on(b"f", Operation::Open(again));
    one.last(&operations, |r| match r.get::<NfsOpenResult<'_>>().unwrap().delegation {
        OpenDelegation::Read(read) => read.is_recalled,
        OpenDelegation::Write(write) => write.is_recalled,
        other => panic!("{other:?}"),
    })
}

#[test]
fn reclaim_after_smb_change_is_recalled_at_once() {
    for (kind, access) in [(DelegationType::Read, READ), (DelegationType::Write, READ_WRITE)] {
        for changes in [false, true] {
            let before = ServerUnderTest::new();
            let mut one = before.callee("one");
            one.make_file(b"f");
            assert_ne!(one.open_for(b"f", access).1, GrantedDelegation::Nothing);
            let bench = before.restarted();
            if changes {
                bench.disk.clock.advance(2_000_000_000);
                let OpenProgress::Opened(open) =
                    windows(&bench, Access::WRITE_DATA, ShareMode::ALL)
                else {
                    panic!("it does not know yet that anybody has it");
                };
                bench
                    .server
                    .files
                    .for_server()
                    .write(open.open.caller(), &open.open, 0, b"new")
                    .unwrap();
                bench.server.files.for_server().close(open.open).now_or_never().unwrap().unwrap();
            }
            let mut one = bench.returning_callee("one", 1);
            assert_eq!(is_recalled_when_taken_back(&mut one, kind), changes);
            let asked = one.callbacks(&bench);
            let is_asked = matches!(asked[..], [ReceivedCallback::Recall(_)]);
            assert!(if changes { is_asked } else { asked.is_empty() }, "{asked:?}");
        }
    }
}

#[test]
fn unresponsive_writer_is_awaited_once_and_recalled() {
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.callee("one"), bench.client("two"));
    one.make_file(b"f");
    let id = one.open_for(b"f", READ_WRITE).1.id();
    let requested = Bitmap4::of(&[attribute::CHANGE, attribute::SIZE]);
    let operations = two.on(b"f", Operation::GetAttr(GetAttrArgs { requested }));
    let mut job = two.begin(&operations);
    assert_eq!(two.finish(&mut job), None, "it is asked");
    bench.pass(Duration::from_secs(3));
    assert!(two.finish(&mut job).is_some(), "and not waited for any longer");
    assert_eq!(two.status(&operations), NfsStatus::OK, "the next time not at all");
    assert_eq!(
        one.callbacks(&bench),
        [ReceivedCallback::GetAttr, ReceivedCallback::Recall(id)],
        "once each"
    );
    let mut job = two.begin(&operations);
    assert_eq!(two.finish(&mut job), None, "it answers again");
    assert_eq!(one.callbacks(&bench), [ReceivedCallback::GetAttr]);
    assert!(two.finish(&mut job).is_some());
}

#[test]
fn courtesy_writer_gets_no_cb_getattr_and_keeps_state() {
    let bench = ServerUnderTest::new();
    let mut one = bench.callee("one");
    one.make_file(b"f");
    assert!(matches!(one.open_for(b"f", READ_WRITE).1, GrantedDelegation::Write(_)));
    bench.pass(bench.lease + Duration::from_millis(1));
    let mut two = bench.client("two");
    assert_eq!(two.attributes(&[b"share", b"f"], &[attribute::SIZE]).size, Some(0));
    assert_eq!(one.callbacks(&bench), []);
    assert!(bench.server.clients().iter().any(|client| client.id == one.id));
}

#[test]
fn restarted_client_loses_state_despite_waiting_lock() {
    let bench = ServerUnderTest::new();
    let mut one = bench.callee("one");
    one.make_file(b"f");
    let mut two = bench.client("two");
    let want = READ_WRITE | ShareAccess::WANT_NO_DELEG.0;
    let (open, other) = (one.open_for(b"f", want).0, two.open_for(b"f", want).0);
    let lock = |client: &SessionClient, open, offset, owner: &'static [u8]| {
        let locker = Locker::New(OpenToLockOwner {
            open_sequence_id: 0,
            open_state_id: open,
            lock_sequence_id: 0,
            lock_owner: StateOwner { client_id: Default::default(), owner: Opaque(owner) },
        });
        let lock_type = LockType::WriteWait;
        let args = LockArgs { lock_type, reclaim: false, offset, length: 10, locker };
        client.on(b"f", Operation::Lock(args))
    };
    let (mine, theirs) = (lock(&one, open, 0, b"a"), lock(&two, other, 10, b"b"));
    assert_eq!((one.status(&mine), two.status(&theirs)), (NfsStatus::OK, NfsStatus::OK));
    let waits = lock(&one, open, 10, b"c");
    assert_eq!(one.status(&waits), NfsStatus::DENIED);
    bench.work();
    let mut new = bench.life("one", 2);
    let open = new.open_for(b"f", want).0;
    let again = lock(&new, open, 0, b"a");
    assert_eq!(new.status(&again), NfsStatus::OK);
}

#[test]
fn waiting_client_gets_cb_notify_lock() {
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.callee("one"), bench.callee("two"));
    one.make_file(b"f");
    // Both clients write, so that neither has a delegation.
    let want = READ_WRITE | ShareAccess::WANT_NO_DELEG.0;
    let (first, second) = (one.open_for(b"f", want).0, two.open_for(b"f", want).0);
    let lock = |open_state_id, owner: &'static [u8]| {
        Operation::Lock(LockArgs {
            lock_type: LockType::WriteWait,
            reclaim: false,
            offset: 0,
            length: 10,
            locker: Locker::New(OpenToLockOwner {
                open_sequence_id: 0,
                open_state_id,
                lock_sequence_id: 0,
                lock_owner: StateOwner { client_id: Default::default(), owner: Opaque(owner) },
            }),
        })
    };
    let (locks, waits) = (one.on(b"f", lock(first, b"a")), two.on(b"f", lock(second, b"b")));
    assert_eq!(one.status(&locks), NfsStatus::OK);
    assert_eq!(two.status(&waits), NfsStatus::DENIED);
    assert_eq!(two.callbacks(&bench), []);
    one.close(b"f", first);
    assert_eq!(two.callbacks(&bench), [ReceivedCallback::NotifyLock(b"b".to_vec())]);
    assert_eq!(two.status(&waits), NfsStatus::OK);
}

#[test]
fn empty_attribute_list_sets_nothing() {
    // Linux sends times with DELEGRETURN; this server ignores them.
    let bench = ServerUnderTest::new();
    let mut one = bench.callee("one");
    one.make_file(b"f");
    let state_id = one.open_for(b"f", READ_WRITE).1.id();
    let set = Operation::SetAttr(SetAttrArgs { state_id, attributes: Fattr::default() });
    let operations = one.on(b"f", set);
    assert_eq!(one.status(&operations), NfsStatus::OK);
    assert_eq!(one.callbacks(&bench), []);
}

#[test]
fn smb_open_waits_for_the_grace_period() {
    let before = ServerUnderTest::new();
    let mut one = before.callee("one");
    one.make_file(b"f");
    let bench = before.restarted();
    let shares = |share| windows(&bench, Access::WRITE_DATA, share);
    let caller = Arc::new(files::Caller::of(Identity::root()));
    let alone = || OpenPlan {
        path: RelPath::root().join(&Name::new(*b"f").unwrap()),
        semantics: Semantics::Windows,
        ..OpenPlan::posix(Access::WRITE_DATA, ShareMode::DELETE)
    };
    let volume = bench.volume();
    let open_alone =
        || bench.server.files.for_server().open(&volume, &caller, alone()).now_or_never().unwrap();
    assert_eq!(open_alone().unwrap_err(), vfs::FsError::ShareViolation, "it may be open");
    let mut other = bench.returning("other", 1);
    let (lock_type, length) = (LockType::Read, 1);
    let owner = StateOwner { client_id: Default::default(), owner: Opaque(b"o") };
    let test = Operation::LockTest(LockTestArgs { lock_type, offset: 0, length, owner });
    let operations = other.on(b"f", test);
    assert_eq!(
        other.status(&operations),
        NfsStatus::GRACE,
        "nor does the reply reveal that it is not"
    );
    let OpenProgress::Opened(beside) = shares(ShareMode::ALL) else {
        panic!("nobody is in the way")
    };
    let (range, kind) = (files::Range::new(0, 1).unwrap(), files::LockKind::Exclusive);
    let range = files::RangeLock { range, kind };
    let lock = || {
        bench.server.files.for_server().try_locks(
            &beside.open,
            &[range],
            &LedgerHolder::User("somebody".into()),
        )
    };
    assert_eq!(lock(), Err(vfs::FsError::LockNotGranted), "it may be locked");
    let mut one = bench.returning_callee("one", 1);
    assert_eq!(lock(), Err(vfs::FsError::LockNotGranted), "it has not said that this is all");
    one.complete_reclaim();
    assert_eq!(lock(), Ok(()));
    drop(beside);
    assert!(open_alone().is_ok());
}
