//! Synchronous and asynchronous copies.

use crate::harness::{READ_WRITE, ReceivedCallback, ServerUnderTest, SessionClient, open_args};
use wire::nfs::callback::{CbOffloadArgs, OffloadOutcome};
use wire::nfs::ops::*;
use wire::nfs::xdr::List;
use wire::nfs::{NfsStatus, StableHow, StateId};

/// More bytes than one synchronous copy covers.
const LARGE: u64 = 40 * 1024 * 1024;

/// Creates a file of this length, sparse except for its last byte, and an empty one.
fn create_files(client: &mut SessionClient, length_bytes: u64) {
    for (name, end) in [(&b"from"[..], length_bytes), (b"to", 0)] {
        client.make_file(name);
        let mut operations = client.walk(&[b"share", name]);
        let (state_id, stable) = (StateId::ANONYMOUS, StableHow::Unstable);
        let data = &b"!"[..end.min(1) as usize];
        let offset = end.saturating_sub(1);
        operations.push(Operation::Write(WriteArgs { state_id, offset, stable, data }));
        assert_eq!(client.status(&operations), NfsStatus::OK);
    }
}

fn args(is_synchronous: bool) -> CopyArgs<'static> {
    CopyArgs {
        source_state_id: StateId::ANONYMOUS,
        destination_state_id: StateId::ANONYMOUS,
        source_offset: 0,
        destination_offset: 0,
        count: 0,
        is_consecutive: true,
        is_synchronous,
        source_servers: List::default(),
    }
}

fn copy_operations<'a>(client: &SessionClient, args: CopyArgs<'a>) -> Vec<Operation<'a>> {
    let mut operations = client.walk(&[b"share", b"from"]);
    operations.push(Operation::SaveFh);
    operations.extend(client.walk(&[b"share", b"to"]));
    operations.push(Operation::Copy(args));
    operations
}

fn copy(client: &mut SessionClient, is_synchronous: bool) -> CopyResult {
    let operations = copy_operations(client, args(is_synchronous));
    client.last(&operations, |r| r.get().unwrap())
}

fn later(client: &mut SessionClient) -> StateId {
    let result = copy(client, false);
    assert!(!result.requirements.is_synchronous);
    assert_eq!(result.response.count, 0);
    result.response.callback_id[0]
}

fn offload_status(
    client: &mut SessionClient,
    state_id: StateId,
) -> Result<(u64, Vec<NfsStatus>), NfsStatus> {
    let mut operations = client.walk(&[b"share", b"to"]);
    operations.push(Operation::OffloadStatus(OffloadArgs { state_id }));
    match client.compound(&operations).pop() {
        Some(Err(status)) => Err(status),
        _ => Ok(client.last(&operations, |r| {
            let shown: OffloadStatusResult = r.get().unwrap();
            (shown.count, shown.complete.to_vec())
        })),
    }
}

fn cancel(client: &mut SessionClient, state_id: StateId) -> NfsStatus {
    let mut operations = client.walk(&[b"share", b"to"]);
    operations.push(Operation::OffloadCancel(OffloadArgs { state_id }));
    client.status(&operations)
}

/// The CB_OFFLOAD that the client received.
fn ended(client: &mut SessionClient, bench: &ServerUnderTest) -> Option<CbOffloadArgs> {
    match client.callbacks(bench).pop()? {
        ReceivedCallback::Offload(args) => Some(*args),
        other => panic!("{other:?}"),
    }
}

fn size(client: &mut SessionClient, name: &[u8]) -> u64 {
    let wanted = [wire::nfs::attributes::attribute::SIZE];
    client.attributes(&[b"share", name], &wanted).size.unwrap()
}

#[test]
fn large_copy_is_asynchronous_and_sends_cb_offload() {
    let bench = ServerUnderTest::new();
    let mut client = bench.callee("one");
    create_files(&mut client, LARGE);
    let to = client.handle(&[b"share", b"to"]);
    let id = later(&mut client);
    assert_eq!(offload_status(&mut client, id), Ok((0, vec![])), "nothing has been done yet");
    let offload = ended(&mut client, &bench).expect("CB_OFFLOAD");
    assert_eq!((offload.state_id, offload.handle), (id, to));
    match offload.outcome {
        OffloadOutcome::Done(response) => assert_eq!(response.count, LARGE),
        other => panic!("{other:?}"),
    }
    assert_eq!(size(&mut client, b"to"), LARGE);
    assert_eq!(offload_status(&mut client, id), Err(NfsStatus::BAD_STATEID), "it has heard of it");
}

#[test]
fn offload_status_reports_outcome_without_callback() {
    let bench = ServerUnderTest::new();
    let mut client = bench.callee("one");
    create_files(&mut client, LARGE);
    let id = later(&mut client);
    bench.work();
    assert_eq!(offload_status(&mut client, id), Ok((LARGE, vec![NfsStatus::OK])));
    assert_eq!(cancel(&mut client, id), NfsStatus::COMPLETE_ALREADY);
}

#[test]
fn cancelled_copy_stops_without_callback() {
    let bench = ServerUnderTest::new();
    let mut client = bench.callee("one");
    create_files(&mut client, LARGE);
    let id = later(&mut client);
    assert_eq!(cancel(&mut client, id), NfsStatus::OK);
    assert_eq!(ended(&mut client, &bench), None);
    assert_eq!(size(&mut client, b"to"), 0);
    assert_eq!(cancel(&mut client, id), NfsStatus::BAD_STATEID);
}

#[test]
fn small_or_synchronous_copy_completes_before_reply() {
    let bench = ServerUnderTest::new();
    let mut deaf = bench.client("one");
    create_files(&mut deaf, LARGE);
    let mut client = bench.callee("two");
    for (client, is_synchronous) in [(&mut deaf, false), (&mut client, true)] {
        let result = copy(client, is_synchronous);
        assert!(result.requirements.is_synchronous && result.response.callback_id.is_empty());
        assert_eq!(result.response.count, LARGE);
    }
    let operations = copy_operations(&client, CopyArgs { count: 5, ..args(false) });
    let result: CopyResult = client.last(&operations, |r| r.get().unwrap());
    assert_eq!(result.response.count, 5);
}

/// RFC 7862 15.2.3.
#[test]
fn copy_beyond_the_end_of_its_source_is_invalid() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    create_files(&mut client, 100);
    for (source_offset, count) in [(0, 101), (99, 2), (100, 1), (101, 0), (1, u64::MAX)] {
        for is_synchronous in [false, true] {
            let args = CopyArgs { source_offset, count, ..args(is_synchronous) };
            let refused = client.status(&copy_operations(&client, args));
            assert_eq!(refused, NfsStatus::INVAL, "{source_offset} {count}");
        }
    }
    assert_eq!(size(&mut client, b"to"), 0, "nothing was copied");
    for (source_offset, count) in [(0, 100), (99, 1), (100, 0), (40, 0)] {
        let args = CopyArgs { source_offset, count, ..args(true) };
        let copied: CopyResult = client.last(&copy_operations(&client, args), |r| r.get().unwrap());
        assert_eq!(copied.response.count, 100 - source_offset, "{source_offset} {count}");
    }
}

#[test]
fn failed_copy_reports_status_and_progress() {
    let bench = ServerUnderTest::new();
    let mut client = bench.callee("one");
    create_files(&mut client, LARGE);
    let id = later(&mut client);
    // The source is truncated before the copy reads it.
    let cut = wire::nfs::attributes::NfsAttributes { size: Some(7), ..Default::default() };
    let mut values = Vec::new();
    let mut operations = client.walk(&[b"share", b"from"]);
    let (state_id, attributes) = (StateId::ANONYMOUS, cut.to_fattr(&mut values));
    operations.push(Operation::SetAttr(SetAttrArgs { state_id, attributes }));
    assert_eq!(client.status(&operations), NfsStatus::OK);
    let offload = ended(&mut client, &bench).expect("CB_OFFLOAD");
    let failed = OffloadOutcome::Failed { status: NfsStatus::INVAL, copied_bytes: 0 };
    assert_eq!((offload.state_id, offload.outcome), (id, failed));
}

#[test]
fn copies_are_bounded_and_keep_the_client_busy() {
    let bench = ServerUnderTest::new();
    let mut client = bench.callee("one");
    create_files(&mut client, LARGE);
    for _ in 0..nfs::limits::COPIES_PER_CLIENT_MAX {
        later(&mut client);
    }
    assert!(copy(&mut client, false).requirements.is_synchronous, "one too many");
}

#[test]
fn copy_from_another_server_is_refused() {
    let bench = ServerUnderTest::new();
    let mut client = bench.callee("one");
    create_files(&mut client, 5);
    let elsewhere = NetLocation::Name(b"elsewhere");
    let from_there = CopyArgs { source_servers: List(vec![elsewhere]), ..args(false) };
    let operations = copy_operations(&client, from_there);
    assert_eq!(client.status(&operations), NfsStatus::NOTSUPP);
    let mut notify = client.walk(&[b"share"]);
    notify.push(Operation::Open(open_args(b"from", READ_WRITE, 0, false)));
    let source_state_id = StateId::CURRENT;
    let destination_server = elsewhere;
    notify.push(Operation::CopyNotify(CopyNotifyArgs { source_state_id, destination_server }));
    assert_eq!(client.status(&notify), NfsStatus::NOTSUPP);
}

#[test]
fn copy_within_a_file_needs_disjoint_ranges() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"f");
    let whole = || -> Vec<u8> { (0..100).collect() };
    let write = |data| {
        let (state_id, stable) = (StateId::ANONYMOUS, StableHow::Unstable);
        Operation::Write(WriteArgs { state_id, offset: 0, stable, data })
    };
    let (bytes, mut fill) = (whole(), client.walk(&[b"share", b"f"]));
    fill.push(write(&bytes));
    assert_eq!(client.status(&fill), NfsStatus::OK);
    let within = |client: &mut SessionClient, source_offset, destination_offset, count| {
        let mut operations = client.walk(&[b"share", b"f"]);
        operations.push(Operation::SaveFh);
        let args = CopyArgs { source_offset, destination_offset, count, ..args(true) };
        operations.push(Operation::Copy(args));
        client.status(&operations)
    };
    for (source, target, count) in [(0, 10, 20), (10, 0, 20), (0, 0, 1), (0, 99, 0), (50, 40, 0)] {
        let refused = within(&mut client, source, target, count);
        assert_eq!(refused, NfsStatus::INVAL, "{source} {target} {count}");
    }
    assert_eq!(client.read_whole(b"f"), bytes, "nothing was changed");
    assert_eq!(within(&mut client, 0, 20, 20), NfsStatus::OK);
    assert_eq!(within(&mut client, 90, 0, 0), NfsStatus::OK);
    assert_eq!(within(&mut client, 100, 50, 0), NfsStatus::OK, "there is nothing to copy");
    let mut wanted = whole();
    wanted.copy_within(0..20, 20);
    wanted.copy_within(90..100, 0);
    assert_eq!(client.read_whole(b"f"), wanted);
}
