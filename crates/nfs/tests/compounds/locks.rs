//! Byte-range locks by whole records.

use crate::harness::*;
use wire::nfs::ops::*;
use wire::nfs::xdr::Opaque;
use wire::nfs::{ClientId, LockType, NfsStatus, StateId, StateOwner};

fn owner(name: &[u8]) -> StateOwner<'_> {
    StateOwner { client_id: ClientId(0), owner: Opaque(name) }
}

fn first<'a>(open: StateId, name: &'a [u8], offset: u64, length: u64) -> Operation<'a> {
    Operation::Lock(LockArgs {
        lock_type: LockType::Write,
        reclaim: false,
        offset,
        length,
        locker: Locker::New(OpenToLockOwner {
            open_sequence_id: 0,
            open_state_id: open,
            lock_sequence_id: 0,
            lock_owner: owner(name),
        }),
    })
}

fn on(client: &SessionClient, operation: Operation<'static>) -> Vec<Operation<'static>> {
    let mut all = client.walk(&[b"share", b"f"]);
    all.push(operation);
    all
}

#[test]
fn lock_conflict_reports_its_owner() {
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.client("one"), bench.client("two"));
    one.make_file(b"f");
    let (by_one, by_two) = (one.open(b"f", READ_WRITE, 0), two.open(b"f", READ_WRITE, 0));
    let lock = on(&one, first(by_one, b"p", 10, 10));
    let state_id: StateId = one.last(&lock, |r| r.get().unwrap());
    let refused = two.results(&on(&two, first(by_two, b"p", 19, u64::MAX)));
    assert_eq!(status_of(&refused), NfsStatus::DENIED);
    let id = bench.server.clients().iter().map(|c| c.id).find(|id| *id == one.id).unwrap();
    let whose = [&id.0.to_be_bytes()[..], &1u32.to_be_bytes(), b"p\0\0\0"].concat();
    assert!(refused.ends_with(&whose), "{refused:?}");
    let test = |offset| {
        let (lock_type, length) = (LockType::Read, 1);
        Operation::LockTest(LockTestArgs { lock_type, offset, length, owner: owner(b"q") })
    };
    assert_eq!(two.status(&on(&two, test(15))), NfsStatus::DENIED);
    assert_eq!(two.status(&on(&two, test(20))), NfsStatus::OK);
    let unlock = Operation::Unlock(UnlockArgs {
        lock_type: LockType::Write,
        sequence_id: 0,
        lock_state_id: state_id,
        offset: 10,
        length: 5,
    });
    assert_eq!(one.status(&on(&one, unlock)), NfsStatus::OK);
    assert_eq!(two.status(&on(&two, first(by_two, b"p", 10, 5))), NfsStatus::OK);
    assert_eq!(two.status(&on(&two, test(16))), NfsStatus::DENIED, "the rest is still locked");
}

#[test]
fn locks_end_with_their_open() {
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.client("one"), bench.client("two"));
    one.make_file(b"f");
    let (by_one, by_two) = (one.open(b"f", READ_WRITE, 0), two.open(b"f", READ_WRITE, 0));
    assert_eq!(one.status(&on(&one, first(by_one, b"p", 0, 1))), NfsStatus::OK);
    let close = Operation::Close(CloseArgs { sequence_id: 0, state_id: by_one });
    assert_eq!(one.status(&on(&one, close)), NfsStatus::OK);
    assert_eq!(two.status(&on(&two, first(by_two, b"p", 0, 1))), NfsStatus::OK);
}

#[test]
fn empty_or_overflowing_lock_range_is_invalid() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"f");
    let open = client.open(b"f", READ_WRITE, 0);
    for (offset, length) in [(0, 0), (2, u64::MAX - 1)] {
        let lock = on(&client, first(open, b"p", offset, length));
        assert_eq!(client.status(&lock), NfsStatus::INVAL);
    }
    let reader = on(&client, first(open, b"p", 5, u64::MAX));
    assert_eq!(client.status(&reader), NfsStatus::OK, "to the end");
}

#[test]
fn locks_are_reclaimed_after_a_restart() {
    let before = ServerUnderTest::new();
    let mut one = before.client("one");
    one.make_file(b"f");
    let by_one = one.open(b"f", READ_WRITE, 0);
    assert_eq!(one.status(&on(&one, first(by_one, b"p", 0, 1))), NfsStatus::OK);
    let object = one.handle(&[b"share", b"f"]);
    let bench = before.restarted();
    let mut one = bench.returning("one", 1);
    let claim = OpenClaim::Previous(DelegationType::None);
    let open = OpenArgs { claim, ..open_args(b"", READ_WRITE, 0, false) };
    let mut again = vec![Operation::PutFh(PutFhArgs { object }), Operation::Open(open)];
    let lock = |reclaim| match first(StateId::CURRENT, b"p", 0, 1) {
        Operation::Lock(lock) => Operation::Lock(LockArgs { reclaim, ..lock }),
        other => other,
    };
    again.push(lock(false));
    assert_eq!(one.status(&again), NfsStatus::GRACE, "it may be another's");
    again.pop();
    again.push(lock(true));
    assert_eq!(one.status(&again), NfsStatus::OK);
}
