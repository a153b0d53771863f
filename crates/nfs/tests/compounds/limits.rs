//! Limits of sessions and connections as negotiated, and of the server.

use crate::harness::*;
use futures_util::FutureExt;
use nfs::NfsConn;
use nfs::limits::*;
use proptest::prelude::*;
use wire::nfs::attributes::{NfsAttributes, attribute};
use wire::nfs::compound::{CompoundResults, NoResult};
use wire::nfs::ops::*;
use wire::nfs::xdr::{List, XdrReader};
use wire::nfs::{Bitmap4, NfsSessionId, NfsStatus, OperationNumber, StableHow, StateId, Verifier};

/// Bytes of the RPC header before the COMPOUND results.
const HEADER_BYTES: usize = 24;

fn wish() -> ChannelAttributes {
    ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: MESSAGE_BYTES_MAX,
        response_bytes_max: MESSAGE_BYTES_MAX,
        response_cached_bytes_max: 4096,
        operations_max: 16,
        requests_max: 4,
        rdma_ird: List::default(),
    }
}

/// Creates a further session of a client on its connection.
fn create(
    client: &mut SessionClient,
    sequence_id: u32,
    fore: ChannelAttributes,
) -> Result<CreateSessionResult, NfsStatus> {
    let args = CreateSessionArgs {
        client_id: client.id,
        sequence_id,
        flags: CreateSessionFlags(0),
        fore_channel: fore,
        back_channel: wish(),
        callback_program: 1,
        callback_security: List(vec![CallbackSecurity::None]),
    };
    let results = answer(&mut client.conn, record(9, &[Operation::CreateSession(args)]));
    let mut results = CompoundResults::decode(&mut XdrReader::new(&results)).unwrap();
    results.succeed(OperationNumber::CREATE_SESSION).map_err(|no| match no {
        NoResult::Failed(status) => status,
        NoResult::Malformed(_) => NfsStatus::BADXDR,
    })
}

/// A client whose session has these channel attributes.
fn client_with(bench: &ServerUnderTest, fore: ChannelAttributes) -> SessionClient {
    let mut client = bench.client("one");
    let created = create(&mut client, 2, fore).unwrap();
    (client.session, client.sequence, client.cache_this) = (created.session_id, 0, false);
    client
}

/// Sends a request in the slot of a session on any connection.
fn ask(conn: &mut NfsConn, session_id: NfsSessionId, slot_id: u32, sequence_id: u32) -> NfsStatus {
    let sequence = SequenceArgs {
        session_id,
        sequence_id,
        slot_id,
        highest_slot_id: slot_id,
        cache_this: false,
    };
    let operations = [Operation::Sequence(sequence), Operation::PutRootFh];
    status_of(&answer(conn, record(1, &operations)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn compound_beyond_negotiated_operations_is_refused(wished in 2..200u32, count in 0..200u32) {
        let bench = ServerUnderTest::new();
        let mut client = client_with(&bench, ChannelAttributes { operations_max: wished, ..wish() });
        let operations = vec![Operation::PutRootFh; count as usize];
        let fits = count < wished.min(OPERATIONS_MAX);
        let expected = if fits { NfsStatus::OK } else { NfsStatus::TOO_MANY_OPS };
        prop_assert_eq!(client.status(&operations), expected);
        prop_assert_eq!(ask(&mut client.conn, client.session, 1, 1), NfsStatus::OK);
    }

    #[test]
    fn session_has_the_negotiated_slots(wished in 1..300u32, slot in 0..400u32) {
        let bench = ServerUnderTest::new();
        let mut client = client_with(&bench, ChannelAttributes { requests_max: wished, ..wish() });
        let is_there = slot < wished.min(SLOTS_MAX);
        let expected = if is_there { NfsStatus::OK } else { NfsStatus::BADSLOT };
        prop_assert_eq!(ask(&mut client.conn, client.session, slot, 1), expected);
    }

    #[test]
    fn reply_stays_within_the_negotiated_size(
        wished in RESPONSE_BYTES_MIN..4000,
        asked in proptest::collection::vec((0..4u8, 0..3000u32), 1..6),
    ) {
        let bench = ServerUnderTest::new();
        let mut maker = bench.client("two");
        maker.make_file(b"f");
        let data = [7; 3000];
        let (state_id, stable) = (StateId::ANONYMOUS, StableHow::Unstable);
        let mut write = maker.walk(&[b"share", b"f"]);
        write.push(Operation::Write(WriteArgs { state_id, offset: 0, stable, data: &data }));
        prop_assert_eq!(maker.status(&write), NfsStatus::OK);
        let mut client =
            client_with(&bench, ChannelAttributes { response_bytes_max: wished, ..wish() });
        let mut operations = client.walk(&[b"share", b"f"]);
        for (kind, bytes) in asked {
            let all = GetAttrArgs { requested: Bitmap4::of(&[attribute::ACL, attribute::OWNER]) };
            operations.push(match kind {
                0 => Operation::Read(ReadArgs { state_id, offset: 0, count: bytes }),
                1 => Operation::GetAttr(all),
                2 => Operation::ReadPlus(ReadPlusArgs { state_id, offset: 0, count: bytes }),
                _ => Operation::GetFh,
            });
        }
        let results = client.results(&operations);
        prop_assert!(results.len() + HEADER_BYTES <= wished as usize, "{}", results.len());
        let status = status_of(&results);
        prop_assert!(matches!(status, NfsStatus::OK | NfsStatus::REP_TOO_BIG), "{status:?}");
    }

    #[test]
    fn request_beyond_negotiated_size_is_refused(wished in REQUEST_BYTES_MIN..4000, bytes in 0..5000usize) {
        let bench = ServerUnderTest::new();
        let mut client =
            client_with(&bench, ChannelAttributes { request_bytes_max: wished, ..wish() });
        bench.client("two").make_file(b"f");
        let data = vec![7; bytes];
        let (state_id, stable) = (StateId::ANONYMOUS, StableHow::Unstable);
        let mut write = client.walk(&[b"share", b"f"]);
        write.push(Operation::Write(WriteArgs { state_id, offset: 0, stable, data: &data }));
        let record = client.next(&write);
        let expected = match record.len() > wished as usize {
            true => NfsStatus::REQ_TOO_BIG,
            false => NfsStatus::OK,
        };
        prop_assert_eq!(status_of(&answer(&mut client.conn, record)), expected);
    }
}

#[test]
fn sessions_of_a_client_are_bounded() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    for sequence in 2..=SESSIONS_PER_CLIENT_MAX as u32 {
        create(&mut client, sequence, wish()).unwrap();
    }
    let one_more = SESSIONS_PER_CLIENT_MAX as u32 + 1;
    assert_eq!(create(&mut client, one_more, wish()).err(), Some(NfsStatus::DELAY));
    assert_eq!(bench.server.clients()[0].sessions().len(), SESSIONS_PER_CLIENT_MAX);
    let end = Operation::DestroySession(DestroySessionArgs { session_id: client.session });
    assert_eq!(status_of(&answer(&mut client.conn, record(9, &[end]))), NfsStatus::OK);
    assert!(create(&mut client, one_more, wish()).is_ok(), "one has gone");
}

#[test]
fn connection_is_bound_to_its_latest_sessions() {
    let bench = ServerUnderTest::new();
    let mut clients = [bench.client("one"), bench.client("two")];
    let mut sessions = Vec::new();
    for client in &mut clients {
        let created = (2..=40).map(|sequence| create(client, sequence, wish()).unwrap().session_id);
        sessions.extend(created.collect::<Vec<_>>());
    }
    let mut conn = bench.conn();
    for id in &sessions {
        assert_eq!(ask(&mut conn, *id, 0, 1), NfsStatus::OK);
    }
    let is_bound = |conn: &NfsConn, id: &NfsSessionId| conn.shared().session(*id).is_some();
    let bound = sessions.iter().filter(|id| is_bound(&conn, id)).count();
    assert_eq!(bound, SESSIONS_PER_CONNECTION_MAX);
    assert!(!is_bound(&conn, &sessions[0]) && is_bound(&conn, sessions.last().unwrap()));
    assert_eq!(ask(&mut conn, sessions[0], 0, 2), NfsStatus::OK, "it is bound again");
}

#[test]
fn connections_beyond_the_reported_ones_work() {
    let bench = ServerUnderTest::new();
    let client = bench.client("one");
    let mut connections: Vec<NfsConn> =
        (0..CONNECTIONS_PER_SESSION_MAX + 40).map(|_| bench.conn()).collect();
    for (at, conn) in connections.iter_mut().enumerate() {
        let sequence = client.sequence + 1 + at as u32;
        assert_eq!(ask(conn, client.session, 0, sequence), NfsStatus::OK);
    }
    let session = bench.server.find_session(client.session).unwrap();
    assert_eq!(session.connections().len(), CONNECTIONS_PER_SESSION_MAX);
    connections.clear();
    assert!(session.connections().len() <= 1, "those that are closed do not count");
}

/// Creates sessions of one host with all slots until one gets a single slot. Returns the first
/// session and the number of slots beyond each first.
fn take_slots(bench: &ServerUnderTest, host: u8) -> (NfsSessionId, usize) {
    let much = || ChannelAttributes { requests_max: u32::MAX, ..wish() };
    let (mut first, mut taken) = (None, 0);
    for number in 0..=SLOTS_TOTAL_MAX {
        let mut client = bench.client_from(&format!("client {host} {number}"), host);
        for sequence in 2..=SESSIONS_PER_CLIENT_MAX as u32 {
            let created = create(&mut client, sequence, much()).unwrap();
            let slots = created.fore_channel.requests_max;
            first.get_or_insert(created.session_id);
            taken += slots as usize - 1;
            if slots == 1 {
                return (first.unwrap(), taken);
            }
        }
    }
    panic!("no end of slots");
}

#[test]
fn slots_of_one_host_leave_room_and_targets_shrink() {
    let bench = ServerUnderTest::new();
    let (first, taken) = take_slots(&bench, 1);
    assert!((SLOTS_TOTAL_MAX / 3..=SLOTS_TOTAL_MAX / 2).contains(&taken), "{taken}");
    let mut other = bench.client_from("other", 2);
    let wish = ChannelAttributes { requests_max: u32::MAX, ..wish() };
    let created = create(&mut other, 2, wish).unwrap();
    assert_eq!(created.fore_channel.requests_max, SLOTS_MAX, "another host has them all");
    for host in 3..=7 {
        take_slots(&bench, host);
    }
    bench.pass(std::time::Duration::from_secs(1));
    let session = bench.server.find_session(first).unwrap();
    assert_eq!(session.highest_slots(), (SLOTS_MAX - 1, SLOTS_UNDER_PRESSURE - 1));
}

#[test]
fn cached_replies_of_all_sessions_are_bounded() {
    let bench = ServerUnderTest::new();
    let wish = ChannelAttributes { response_cached_bytes_max: u32::MAX, ..wish() };
    let created = create(&mut bench.client("one"), 2, wish).unwrap();
    assert_eq!(created.fore_channel.response_cached_bytes_max, CACHED_REPLY_BYTES_MAX);
    let all = (SLOTS_TOTAL_MAX + SESSIONS_MAX) * CACHED_REPLY_BYTES_MAX as usize;
    assert!(all <= 320 << 20, "{all}");
}

#[test]
fn entries_of_one_readdir_are_bounded() {
    let bench = ServerUnderTest::new();
    let mut client = client_with(&bench, wish());
    for number in 0..READDIR_ENTRIES_MAX + 10 {
        client.make_file(format!("{number}").as_bytes());
    }
    let mut list = client.walk(&[b"share"]);
    list.push(Operation::ReadDir(ReadDirArgs {
        cookie: 0,
        cookie_verifier: Verifier::default(),
        directory_bytes: MESSAGE_BYTES_MAX,
        bytes_max: MESSAGE_BYTES_MAX,
        requested: Bitmap4::EMPTY,
    }));
    let (count, is_end) = client.last(&list, |r| {
        let listed: ReadDirResult<'_> = r.get().unwrap();
        (listed.entries.len(), listed.is_end)
    });
    assert_eq!((count, is_end), (READDIR_ENTRIES_MAX, false));
}

#[test]
fn readdir_respects_dircount_and_resumes_at_cookie() {
    let plain = Bitmap4::of(&[attribute::FILEID, attribute::FILEHANDLE]);
    list_in_parts(plain, &[300, 5_000, 70_000, MESSAGE_BYTES_MAX]);
}

/// The server reads access lists in batches, which the client cannot see.
#[test]
fn readdir_with_lists_has_each_entry_once() {
    let lists = Bitmap4::of(&[attribute::FILEID, attribute::ACL]);
    list_in_parts(lists, &[1_000, 70_000, MESSAGE_BYTES_MAX]);
}

/// Each access list costs an open: a thread that reads thousands without a pause would starve other
/// requests.
#[test]
fn readdir_with_lists_yields_at_each_entry() {
    const ENTRIES: usize = 10;
    let bench = ServerUnderTest::new();
    let mut client = client_with(&bench, wish());
    for number in 0..ENTRIES {
        client.make_file(format!("{number}").as_bytes());
    }
    let mut list = client.walk(&[b"share"]);
    list.push(Operation::ReadDir(ReadDirArgs {
        cookie: 0,
        cookie_verifier: Verifier::default(),
        directory_bytes: MESSAGE_BYTES_MAX,
        bytes_max: MESSAGE_BYTES_MAX,
        requested: Bitmap4::of(&[attribute::ACL]),
    }));
    let mut job = client.begin(&list);
    for _ in 0..ENTRIES {
        assert!(client.finish(&mut job).is_none());
    }
    assert!(client.finish(&mut job).is_some());
}

fn list_in_parts(requested: Bitmap4, lengths: &[u32]) {
    const ENTRIES: usize = 8 * READDIR_PART_ENTRIES + 1;
    let bench = ServerUnderTest::new();
    let mut client = client_with(&bench, wish());
    for number in 0..ENTRIES {
        client.make_file(format!("{number}").as_bytes());
    }
    for &bytes_max in lengths {
        let (mut cookie, mut names, mut is_end) = (0, Vec::new(), false);
        while !is_end {
            let mut list = client.walk(&[b"share"]);
            list.push(Operation::ReadDir(ReadDirArgs {
                cookie,
                cookie_verifier: Verifier::default(),
                directory_bytes: MESSAGE_BYTES_MAX,
                bytes_max,
                requested,
            }));
            (cookie, is_end) = client.last(&list, |r| {
                let begin = r.position();
                let listed: ReadDirResult<'_> = r.get().unwrap();
                let bytes = r.position() - begin;
                assert!(bytes <= bytes_max as usize, "{bytes} of {bytes_max}");
                let entry_bytes = bytes / listed.entries.len();
                let is_full = bytes + 2 * entry_bytes > bytes_max as usize;
                assert!(is_full || listed.is_end, "{bytes} of {bytes_max}");
                names.extend(listed.entries.iter().map(|entry| entry.name.to_vec()));
                (listed.entries.last().unwrap().cookie, listed.is_end)
            });
        }
        assert_eq!(names.len(), ENTRIES);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), ENTRIES, "each once");
    }
}

#[test]
fn far_too_long_record_is_not_read_and_long_is_answered() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let new = bench.conn();
    assert_eq!(
        new.record_bytes_max(&[0; SESSION_PROOF_BYTES]),
        MESSAGE_BYTES_MAX_BEFORE_SESSION as usize
    );
    let known = client.conn.record_bytes_max(&[0; SESSION_PROOF_BYTES]);
    assert!(known > MESSAGE_BYTES_MAX as usize);
    let data = vec![0; MESSAGE_BYTES_MAX as usize];
    let (state_id, stable) = (StateId::ANONYMOUS, StableHow::Unstable);
    let write = Operation::Write(WriteArgs { state_id, offset: 0, stable, data: &data });
    let record = client.next(&[Operation::PutRootFh, write]);
    assert!(record.len() < known);
    client.conn.handle_record(record).unwrap();
    let job = client.conn.poll_job().expect("it is answered");
    client.conn.handle_finished(job.now_or_never().expect("at once"));
    let out = client.conn.poll_transmit().unwrap();
    assert_eq!(status_of(&out.buffer[4 + HEADER_BYTES..]), NfsStatus::REQ_TOO_BIG);
}

/// Whether the results, decoded to the last byte, end with a SETATTR that set nothing.
fn ends_with_a_refused_setattr(results: &[u8], operations: usize) -> bool {
    let mut results = CompoundResults::decode(&mut XdrReader::new(results)).unwrap();
    for _ in 1..operations {
        let (number, status) = results.next_status().unwrap().expect("a result");
        OperationResult::decode(number, status, results.reader()).unwrap();
    }
    let (number, status) = results.next_status().unwrap().expect("a result");
    let mask: Bitmap4 = results.reader().get().unwrap();
    number == OperationNumber::SETATTR
        && !status.is_ok()
        && mask.is_empty()
        && results.reader().rest().is_empty()
}

#[test]
fn refused_setattr_reports_that_nothing_was_set() {
    let bench = ServerUnderTest::new();
    let mut values = Vec::new();
    let wished = NfsAttributes { mode: Some(0o600), ..NfsAttributes::default() };
    let attributes = wished.to_fattr(&mut values);
    let set = Operation::SetAttr(SetAttrArgs { state_id: StateId::ANONYMOUS, attributes });
    let outside = answer(&mut bench.conn(), record(1, std::slice::from_ref(&set)));
    assert!(ends_with_a_refused_setattr(&outside, 1), "outside of a session");
    let mut client = client_with(&bench, ChannelAttributes { response_bytes_max: 2000, ..wish() });
    client.make_file(b"f");
    let (state_id, stable) = (StateId::ANONYMOUS, StableHow::Unstable);
    let mut operations = client.walk(&[b"share", b"f"]);
    let data = &[7; 3000];
    operations.push(Operation::Write(WriteArgs { state_id, offset: 0, stable, data }));
    assert_eq!(client.status(&operations), NfsStatus::OK);
    operations.pop();
    operations.push(Operation::Read(ReadArgs { state_id, offset: 0, count: 3000 }));
    operations.push(set);
    let results = client.results(&operations);
    assert!(results.len() + HEADER_BYTES <= 2000, "{}", results.len());
    assert!(ends_with_a_refused_setattr(&results, 1 + operations.len()), "no room for its answer");
}
