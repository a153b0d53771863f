//! Sessions, slots and clients by whole records.

use crate::harness::*;
use bytes::Bytes;
use futures_util::FutureExt;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;
use wire::nfs::ops::*;
use wire::nfs::{NfsStatus, OperationNumber, StableHow, StateId, Verifier};

#[test]
fn retry_on_another_connection_gets_the_cached_reply() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"f");
    let mut remove = client.walk(&[b"share"]);
    remove.push(Operation::Remove(RemoveArgs { name: b"f" }));
    let record = client.next(&remove);
    let first = answer(&mut client.conn, record.clone());
    assert_eq!(status_of(&first), NfsStatus::OK);
    let again = answer(&mut bench.conn(), record);
    assert_eq!(first, again);
}

/// Linux updates its highest slot in a retransmission.
#[test]
fn retry_with_another_highest_slot_is_recognised() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"f");
    let mut remove = client.walk(&[b"share"]);
    remove.push(Operation::Remove(RemoveArgs { name: b"f" }));
    let first = client.results(&remove);
    assert_eq!(status_of(&first), NfsStatus::OK);
    client.highest = 2;
    let again = answer(&mut bench.conn(), client.same(&remove));
    assert_eq!(first, again);
}

#[test]
fn uncached_retry_is_not_executed() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.cache_this = false;
    client.make_file(b"f");
    let mut remove = client.walk(&[b"share"]);
    remove.push(Operation::Remove(RemoveArgs { name: b"f" }));
    let record = client.next(&remove);
    assert_eq!(status_of(&answer(&mut client.conn, record.clone())), NfsStatus::OK);
    let again = answer(&mut client.conn, record);
    assert_eq!(status_of(&again), NfsStatus::RETRY_UNCACHED_REP);
}

#[test]
fn different_request_with_same_sequence_is_false_retry() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    assert_eq!(client.status(&[Operation::PutRootFh]), NfsStatus::OK);
    let other = client.same(&[Operation::PutRootFh, Operation::GetFh]);
    assert_eq!(status_of(&answer(&mut client.conn, other)), NfsStatus::SEQ_FALSE_RETRY);
}

#[test]
fn unsupported_operation_is_refused_by_its_number() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let unwanted = Operation::GetDirDelegation(GetDirDelegationArgs {
        signal_available: false,
        notification_types: Default::default(),
        child_attributes_delay: Default::default(),
        directory_attributes_delay: Default::default(),
        child_attributes: Default::default(),
        directory_attributes: Default::default(),
    });
    let results = client.results(&[Operation::PutRootFh, unwanted]);
    let number = OperationNumber::GET_DIR_DELEGATION.0.to_be_bytes();
    let expected = [number, NfsStatus::NOTSUPP.0.to_be_bytes()].concat();
    assert!(results.ends_with(&expected));
}

#[test]
fn few_operations_run_outside_a_session() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let alone = answer(&mut client.conn, record(9, &[Operation::PutRootFh]));
    assert_eq!(status_of(&alone), NfsStatus::OP_NOT_IN_SESSION);
    let sequence = SequenceArgs {
        session_id: client.session,
        sequence_id: 9,
        slot_id: 0,
        highest_slot_id: 0,
        cache_this: false,
    };
    let twice = [Operation::PutRootFh, Operation::Sequence(sequence)];
    assert_eq!(client.status(&twice), NfsStatus::SEQUENCE_POS);
    let two = Operation::DestroyClientId(DestroyClientIdArgs { client_id: client.id });
    let both = answer(&mut client.conn, record(9, &[two.clone(), two]));
    assert_eq!(status_of(&both), NfsStatus::NOT_ONLY_OP);
}

#[test]
fn restarted_client_loses_state_at_create_session() {
    let bench = ServerUnderTest::new();
    let mut old = bench.client("one");
    old.make_file(b"f");
    old.open(b"f", READ_WRITE, ALL);
    let mut new = bench.life("one", 2);
    assert_eq!(old.status(&[Operation::PutRootFh]), NfsStatus::BADSESSION);
    new.open(b"f", READ_WRITE, ALL);
    assert_eq!(bench.server.clients().len(), 1);
}

#[test]
fn refused_create_session_accepts_same_or_next_sequence() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let create = |client: &mut SessionClient, sequence_id, operations_max| {
        let mut args = client.session_args(sequence_id, CreateSessionFlags(0));
        args.fore_channel.operations_max = operations_max;
        let record = record(3, &[Operation::CreateSession(args)]);
        status_of(&answer(&mut client.conn, record))
    };
    assert_eq!(create(&mut client, 2, 0), NfsStatus::TOOSMALL);
    assert_eq!(create(&mut client, 2, 8), NfsStatus::OK, "who does not count what was refused");
    assert_eq!(create(&mut client, 3, 0), NfsStatus::TOOSMALL);
    assert_eq!(create(&mut client, 5, 8), NfsStatus::SEQ_MISORDERED);
    assert_eq!(create(&mut client, 4, 8), NfsStatus::OK, "who does, as Linux");
    assert_eq!(create(&mut client, 5, 8), NfsStatus::OK);
}

#[test]
fn destroy_needs_a_bound_connection() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let end = Operation::DestroySession(DestroySessionArgs { session_id: client.session });
    let gone = Operation::DestroyClientId(DestroyClientIdArgs { client_id: client.id });
    let stranger = answer(&mut bench.conn(), record(9, std::slice::from_ref(&end)));
    assert_eq!(status_of(&stranger), NfsStatus::CONN_NOT_BOUND_TO_SESSION);
    let busy = answer(&mut client.conn, record(9, std::slice::from_ref(&gone)));
    assert_eq!(status_of(&busy), NfsStatus::CLIENTID_BUSY);
    assert_eq!(status_of(&answer(&mut client.conn, record(9, &[end]))), NfsStatus::OK);
    assert_eq!(status_of(&answer(&mut client.conn, record(9, &[gone]))), NfsStatus::OK);
    assert!(bench.server.clients().is_empty());
}

#[test]
fn change_without_room_for_its_result_is_refused() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"f");
    let mut much = client.walk(&[b"share", b"f"]);
    let (state_id, stable) = (StateId::ANONYMOUS, wire::nfs::StableHow::Unstable);
    much.push(Operation::Write(WriteArgs { state_id, offset: 0, stable, data: &[7; 5000] }));
    much.push(Operation::Read(ReadArgs { state_id, offset: 0, count: 4500 }));
    let mut remove = client.walk(&[b"share"]);
    much.append(&mut remove);
    much.push(Operation::Remove(RemoveArgs { name: b"f" }));
    assert_eq!(client.status(&much), NfsStatus::REP_TOO_BIG_TO_CACHE);
    client.cache_this = false;
    assert_eq!(client.read_whole(b"f").len(), 5000, "it is still there");
}

#[test]
fn readdir_resumes_at_its_cookie() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    for name in 0..20u8 {
        client.make_file(&[b'a' + name]);
    }
    let (mut cookie, mut names, mut turns) = (0, Vec::new(), 0);
    loop {
        let mut list = client.walk(&[b"share"]);
        list.push(Operation::ReadDir(ReadDirArgs {
            cookie,
            cookie_verifier: Verifier::default(),
            directory_bytes: 200,
            bytes_max: 200,
            requested: Default::default(),
        }));
        let is_end = client.last(&list, |r| {
            let listed: ReadDirResult<'_> = r.get().unwrap();
            assert!(!listed.entries.is_empty());
            names.extend(listed.entries.iter().map(|entry| entry.name.to_vec()));
            cookie = listed.entries.last().unwrap().cookie;
            listed.is_end
        });
        turns += 1;
        if is_end {
            break;
        }
    }
    names.sort();
    let expected: Vec<Vec<u8>> = (0..20u8).map(|name| vec![b'a' + name]).collect();
    assert_eq!(names, expected);
    assert!(turns > 2);
}

#[test]
fn reclaims_precede_new_state_after_a_restart() {
    let before = ServerUnderTest::new();
    let (mut one, mut two) = (before.client("one"), before.client("two"));
    one.make_file(b"f");
    one.open(b"f", READ_WRITE, ALL);
    let handle = one.handle(&[b"share", b"f"]);
    assert_eq!(before.recorded_count(), 2);
    let bench = before.restarted();
    two.conn = bench.conn();
    assert_eq!(two.status(&[Operation::PutRootFh]), NfsStatus::BADSESSION);
    let mut two = bench.client("two");
    let mut open = two.walk(&[b"share"]);
    open.push(Operation::Open(open_args(b"f", READ_WRITE, 0, false)));
    assert_eq!(two.status(&open), NfsStatus::GRACE, "the other may come yet");
    let claim = OpenClaim::Previous(DelegationType::None);
    let again = Operation::Open(OpenArgs { claim, ..open_args(b"", READ_WRITE, ALL, false) });
    let reclaim = [Operation::PutFh(PutFhArgs { object: handle }), again];
    let mut three = bench.returning("three", 1);
    assert_eq!(three.status(&reclaim), NfsStatus::NO_GRACE, "it had nothing");
    let mut one = bench.returning("one", 1);
    assert_eq!(one.status(&reclaim), NfsStatus::OK);
    one.complete_reclaim();
    assert_eq!(one.status(&reclaim), NfsStatus::NO_GRACE);
    assert_eq!(two.status(&open), NfsStatus::SHARE_DENIED, "all are back");
}

#[test]
fn absent_client_is_awaited_for_one_lease() {
    let before = ServerUnderTest::new();
    before.client("one");
    let bench = before.restarted();
    let mut two = bench.client("two");
    let mut open = two.walk(&[b"share"]);
    open.push(Operation::Open(open_args(b"f", READ_WRITE, 0, true)));
    assert_eq!(two.status(&open), NfsStatus::GRACE);
    bench.pass(bench.lease);
    assert_eq!(two.status(&open), NfsStatus::OK);
    assert_eq!(bench.recorded_count(), 1, "the absent one is forgotten");
}

proptest! {
    #[test]
    fn any_record_is_answered_or_closes_the_connection(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        cut in 0usize..400,
    ) {
        let bench = ServerUnderTest::new();
        let mut client = bench.client("one");
        let mut all = client.walk(&[b"share"]);
        all.push(Operation::Open(open_args(b"f", READ_WRITE, 0, true)));
        all.push(Operation::GetFh);
        let mut record = client.next(&all).to_vec();
        record.truncate(cut.min(record.len()));
        record.extend(bytes);
        if client.conn.handle_record(Bytes::from(record)).is_ok()
            && let Some(job) = client.conn.poll_job()
        {
            prop_assert!(job.now_or_never().is_some());
        }
    }
}

/// A client with several connections may begin one with a large WRITE.
#[test]
fn new_connection_accepts_large_request_with_sequence_only() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("alice");
    let data = vec![0; 256 * 1024];
    let write = Operation::Write(WriteArgs {
        state_id: StateId::ANONYMOUS,
        offset: 0,
        stable: StableHow::Unstable,
        data: &data,
    });
    let named = client.next(std::slice::from_ref(&write));
    let unnamed = record(1, &[write]);
    let new = bench.conn();
    let few = 1000;
    assert!(new.record_bytes_max(&named[..few]) > data.len(), "it may still name one");
    for arrived in [few * 3, named.len()] {
        assert!(new.record_bytes_max(&named[..arrived]) > data.len());
        assert!(new.record_bytes_max(&unnamed[..arrived.min(unnamed.len())]) < data.len());
    }
    assert!(new.record_bytes_max(&data) < data.len(), "nor is it a call");
}

/// Linux sends WRITEs first on a new connection, and continues only after a reply.
#[test]
fn large_request_of_a_lost_session_gets_badsession() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("alice");
    let data = vec![0; 1024 * 1024];
    let (state_id, stable) = (StateId::ANONYMOUS, StableHow::Unstable);
    let write = Operation::Write(WriteArgs { state_id, offset: 0, stable, data: &data });
    let named = client.next(&[Operation::PutRootFh, write]);
    let mut new = bench.restarted().conn();
    for arrived in [1000, 3000, named.len()] {
        assert!(new.record_bytes_max(&named[..arrived]) >= named.len());
    }
    assert_eq!(status_of(&answer(&mut new, named)), NfsStatus::BADSESSION);
    assert!(!new.is_identified());
}

#[test]
fn failed_client_record_is_stored_later() {
    let bench = ServerUnderTest::new();
    bench.set_full(true);
    let mut one = bench.client("one");
    one.make_file(b"f");
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.recorded_count(), 0, "its work goes on");
    bench.set_full(false);
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.recorded_count(), 1);
}

#[test]
fn anonymous_io_waits_for_the_grace_period() {
    let before = ServerUnderTest::new();
    let mut one = before.client("one");
    one.make_file(b"f");
    let bench = before.restarted();
    let mut two = bench.client("two");
    let read = ReadArgs { state_id: StateId::ANONYMOUS, offset: 0, count: 1 };
    let mut operations = two.walk(&[b"share", b"f"]);
    operations.push(Operation::Read(read));
    assert_eq!(two.status(&operations), NfsStatus::GRACE, "the other may have denied it");
    operations.pop();
    operations.push(Operation::Commit(CommitArgs { offset: 0, count: 0 }));
    assert_eq!(two.status(&operations), NfsStatus::OK, "which changes nothing");
    bench.pass(bench.lease);
    operations.pop();
    operations.push(Operation::Read(read));
    assert_eq!(two.status(&operations), NfsStatus::OK);
}

/// LOCK and LOCKT report the client of a conflicting lock, so that others know its id.
#[test]
fn client_id_alone_gives_another_principal_no_session() {
    const OTHER: u32 = 4002;
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let create = |sequence_id| {
        Operation::CreateSession(client.session_args(sequence_id, CreateSessionFlags(0)))
    };
    let end = Operation::DestroyClientId(DestroyClientIdArgs { client_id: client.id });
    let mut foreign = bench.conn();
    // The first is a retransmission, which the slot would answer with the client's session.
    for operation in [create(1), create(2), end] {
        let refused = answer(&mut foreign, record_of(OTHER, 1, &[operation]));
        assert_eq!(status_of(&refused), NfsStatus::WRONG_CRED);
    }
    let port = SocketAddr::from(([192, 0, 2, 7], 40_000));
    let program = answer(&mut bench.conn_from(port), record(1, &[create(2)]));
    assert_eq!(status_of(&program), NfsStatus::WRONG_CRED, "a program that claims to be root");
    let own = answer(&mut foreign, record(1, &[create(2)]));
    assert_eq!(status_of(&own), NfsStatus::OK, "the same principal by another connection");
    let third = create(3);
    let switched = answer(&mut client.conn, record_of(OTHER, 1, &[third]));
    assert_eq!(status_of(&switched), NfsStatus::OK, "the client's own connection");
}
