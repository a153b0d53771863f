//! Concurrent OPENs of one owner, as Linux sends them. They result in one state, which has the
//! union of their access and retains its locks.

use crate::harness::*;
use futures_util::FutureExt;
use nfs::CallJob;
use std::sync::Barrier;
use wire::nfs::attributes::NfsAttributes;
use wire::nfs::compound::CompoundResults;
use wire::nfs::ops::*;
use wire::nfs::xdr::{Opaque, XdrReader};
use wire::nfs::{ClientId, LockType, NfsStatus, StateId, StateOwner};

const READ: u32 = 1;
const WRITE: u32 = 2;
/// Rounds with random interleavings.
const ROUNDS: u32 = 300;
const POLLS_MAX: u32 = 10_000_000;

fn open(access: u32, deny: u32) -> Vec<Operation<'static>> {
    let (name, args) = (LookupArgs { name: b"share" }, open_args(b"f", access, deny, false));
    vec![Operation::PutRootFh, Operation::Lookup(name), Operation::Open(args)]
}

fn on_file(client: &SessionClient, operation: Operation<'static>) -> Vec<Operation<'static>> {
    let mut all = client.walk(&[b"share", b"f"]);
    all.push(operation);
    all
}

fn lock(open: StateId, lock_type: LockType) -> Operation<'static> {
    let lock_owner = StateOwner { client_id: ClientId(0), owner: Opaque(b"p") };
    let (open_sequence_id, lock_sequence_id) = (0, 0);
    let open_state_id = open;
    let new = OpenToLockOwner { open_sequence_id, open_state_id, lock_sequence_id, lock_owner };
    let (reclaim, offset, length, locker) = (false, 0, 1, Locker::New(new));
    Operation::Lock(LockArgs { lock_type, reclaim, offset, length, locker })
}

/// State id in the result of an OPEN.
fn state_of(results: &[u8]) -> StateId {
    assert_eq!(status_of(results), NfsStatus::OK);
    let mut results = CompoundResults::decode(&mut XdrReader::new(results)).unwrap();
    for _ in 0..3 {
        let (number, status) = results.next_status().unwrap().expect("a result");
        OperationResult::decode(number, status, results.reader()).unwrap();
    }
    results.next_status().unwrap().expect("a result");
    results.reader().get::<NfsOpenResult<'_>>().unwrap().state_id
}

/// Runs all jobs concurrently, one thread each.
fn finish(client: &mut SessionClient, jobs: Vec<CallJob>) -> Vec<Vec<u8>> {
    let start = Barrier::new(jobs.len());
    let work = |mut job: CallJob| {
        start.wait();
        // A job may wait for another.
        let mut polls = (0..POLLS_MAX).map(|_| {
            std::thread::yield_now();
            (&mut job).now_or_never()
        });
        polls.find_map(|finished| finished).expect("it comes to its end")
    };
    let finished: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = jobs.into_iter().map(|job| scope.spawn(|| work(job))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    finished.into_iter().map(|finished| client.take(finished)).collect()
}

/// Starts each in its own slot.
fn begin(client: &mut SessionClient, all: &[(u32, u32)]) -> Vec<CallJob> {
    let before = client.sequence;
    let mut jobs = Vec::new();
    for (slot, (access, deny)) in (1..).zip(all) {
        (client.slot, client.sequence) = (slot, 0);
        jobs.push(client.begin(&open(*access, *deny)));
    }
    (client.slot, client.sequence) = (0, before);
    jobs
}

/// Checks that only one state is left, beside an owner's earlier open and lock.
fn check(first: Option<u32>, all: &[(u32, u32)], round: u32) {
    let what = format!("{first:?} {all:?} {round}");
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.client("one"), bench.client("two"));
    one.make_file(b"f");
    let had = first.map(|access| {
        let state = one.open(b"f", access, 0);
        let kind = if access & WRITE == 0 { LockType::Read } else { LockType::Write };
        let locked = on_file(&one, lock(state, kind));
        assert_eq!(one.status(&locked), NfsStatus::OK);
        state
    });
    let jobs = begin(&mut one, all);
    let answers = finish(&mut one, jobs);
    let states: Vec<StateId> = answers.iter().map(|answer| state_of(answer)).collect();
    let latest = *states.iter().max_by_key(|state| state.seqid).unwrap();
    let others = states.iter().map(|state| state.other).chain(had.map(|had| had.other));
    assert!(others.into_iter().all(|other| other == latest.other), "{what}: one state");
    let count = states.len() + usize::from(had.is_some());
    assert_eq!(latest.seqid as usize, count, "{what}: each OPEN has changed it once");
    // It has the access and the share denials of all of them.
    let access = all.iter().fold(first.unwrap_or(0), |sum, (access, _)| sum | access);
    for (bit, lock_type) in [(READ, LockType::Read), (WRITE, LockType::Write)] {
        let test = on_file(&one, lock(latest, lock_type));
        if first.is_none() && access & bit != 0 {
            assert_eq!(one.status(&test), NfsStatus::OK, "{what}: {lock_type:?}");
        }
    }
    let deny = all.iter().fold(0, |sum, (_, deny)| sum | deny);
    let mut by_two = None;
    for bit in [READ, WRITE] {
        if deny & bit != 0 {
            assert_eq!(two.status(&open(bit, 0)), NfsStatus::SHARE_DENIED, "{what}: {bit}");
        } else {
            by_two = Some(two.open(b"f", bit, 0));
        }
    }
    if let (Some(_), Some(by), 0) = (had, by_two, deny) {
        let locked = on_file(&two, lock(by, LockType::Write));
        assert_eq!(two.status(&locked), NfsStatus::DENIED, "{what}: the lock is there");
    }
    close(&mut one, latest);
    if let Some(by_two) = by_two {
        close(&mut two, by_two);
    }
    let all = open(READ_WRITE, ALL);
    assert_eq!(bench.client("three").status(&all), NfsStatus::OK, "{what}: nothing is left");
}

fn close(client: &mut SessionClient, state_id: StateId) {
    let closing = on_file(client, Operation::Close(CloseArgs { sequence_id: 0, state_id }));
    assert_eq!(client.status(&closing), NfsStatus::OK);
}

#[test]
fn open_failing_at_initialisation_leaves_no_state() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    // Root is mapped to the anonymous user, who may not chown.
    let mut buffer = Vec::new();
    let attributes = NfsAttributes { owner: Some(b"5"), ..NfsAttributes::default() };
    let attributes = attributes.to_fattr(&mut buffer);
    let how = NfsOpenHow::Create(NfsCreateHow::Unchecked(attributes));
    let mut all = client.walk(&[b"share"]);
    let args = OpenArgs { how, ..open_args(b"f", READ_WRITE, ALL, true) };
    all.push(Operation::Open(args));
    assert_ne!(client.status(&all), NfsStatus::OK);
    assert_eq!(bench.server.clients()[0].state_count(), 0);
    assert_eq!(bench.server.files.open_file_count(), 0);
    assert_eq!(client.open(b"f", READ_WRITE, 0).seqid, 1, "the first that the client hears of");
}

#[test]
fn invalid_state_ids_are_not_taken_as_anonymous() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"f");
    let read = |state_id| Operation::Read(ReadArgs { state_id, offset: 0, count: 1 });
    for (seqid, byte, status) in [
        (0, 0, NfsStatus::OK),
        (u32::MAX, 0xFF, NfsStatus::OK),
        (7, 0, NfsStatus::BAD_STATEID),
        (0, 0xFF, NfsStatus::BAD_STATEID),
        (u32::MAX, 0, NfsStatus::BAD_STATEID),
    ] {
        let operations = on_file(&client, read(StateId { seqid, other: [byte; 12] }));
        assert_eq!(client.status(&operations), status, "{seqid} {byte}");
    }
    let mut after_close = open(READ_WRITE, 0);
    let state_id = StateId::CURRENT;
    after_close.push(Operation::Close(CloseArgs { sequence_id: 0, state_id }));
    after_close.push(read(state_id));
    assert_eq!(client.status(&after_close), NfsStatus::BAD_STATEID, "it was closed");
}

#[test]
fn concurrent_opens_of_one_owner_make_one_state() {
    for round in 0..ROUNDS {
        check(None, &[(READ, 0), (READ, 0)], round);
        check(None, &[(READ, 0), (WRITE, 0), (READ_WRITE, 0)], round);
    }
}

#[test]
fn concurrent_open_upgrades_lose_no_lock() {
    for round in 0..ROUNDS {
        check(Some(READ), &[(WRITE, 0), (READ_WRITE, 0)], round);
        check(Some(READ), &[(WRITE, 0), (WRITE, 0), (READ, 0)], round);
        check(Some(WRITE), &[(READ, 0), (READ_WRITE, 0)], round);
    }
}

#[test]
fn share_denial_does_not_conflict_with_its_owner() {
    for (access, deny) in [(WRITE, WRITE), (READ, WRITE), (WRITE, READ), (READ_WRITE, ALL)] {
        check(Some(READ), &[(access, deny)], 0);
        check(Some(WRITE), &[(access, deny)], 0);
    }
}
