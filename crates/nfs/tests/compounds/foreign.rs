//! Requests that Linux does not send: older versions, layouts, trunking by address.

use crate::harness::*;
use nfs::NfsConn;
use proptest::prelude::*;
use wire::nfs::compound::{CompoundResults, NoResult};
use wire::nfs::ops::*;
use wire::nfs::xdr::{List, Opaque, XdrReader};
use wire::nfs::{Bitmap4, ClientId, NfsSessionId, NfsStatus, OperationNumber, StateId, Verifier};

/// An RPC call without credentials, with the words of its arguments.
fn call(program: u32, version: u32, procedure: u32, arguments: &[u32]) -> Vec<u8> {
    let header = [77, 0, 2, program, version, procedure, 0, 0, 0, 0];
    header.iter().chain(arguments).flat_map(|word| word.to_be_bytes()).collect()
}

/// The words of a reply, without the record mark.
fn answered(conn: &mut NfsConn, call: Vec<u8>) -> Vec<u32> {
    use futures_util::FutureExt;
    conn.handle_record(call.into()).expect("it can be answered");
    if let Some(job) = conn.poll_job() {
        conn.handle_finished(job.now_or_never().expect("nothing waits here"));
    }
    let out = conn.poll_transmit().expect("an answer");
    let words = out.buffer[4..].chunks_exact(4);
    words.map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
}

/// Head of an accepted reply: xid, REPLY, MSG_ACCEPTED, no verifier.
const ACCEPTED: [u32; 5] = [77, 1, 0, 0, 0];

#[test]
fn minor_version_0_gets_minor_vers_mismatch() {
    const SETCLIENTID: u32 = 35;
    const MINOR_VERS_MISMATCH: u32 = 10_021;
    let bench = ServerUnderTest::new();
    // macOS begins a mount with an empty tag, minor version 0 and one operation.
    let verifier = [1, 2];
    let id = [4, 0x6D61_6321];
    let callback = [0x4000_0000, 3, 0x7463_7000, 0];
    let arguments: Vec<u32> = [0, 0, 1, SETCLIENTID]
        .into_iter()
        .chain(verifier)
        .chain(id)
        .chain(callback)
        .chain([0])
        .collect();
    let words = answered(&mut bench.conn(), call(100_003, 4, 1, &arguments));
    // RPC success; the status, an empty tag, no results. RFC 8881 16.2.3.
    assert_eq!(words, [&ACCEPTED[..], &[0, MINOR_VERS_MISMATCH, 0, 0]].concat());
    assert!(bench.server.clients().is_empty());
}

#[test]
fn older_nfs_and_other_programs_are_refused_by_rpc() {
    let bench = ServerUnderTest::new();
    let mut conn = bench.conn();
    for version in [2, 3] {
        let words = answered(&mut conn, call(100_003, version, 0, &[]));
        assert_eq!(words, [&ACCEPTED[..], &[2, 4, 4]].concat(), "only version 4 is here");
    }
    // Port mapper and mount protocol, which NFSv3 clients call first; lock manager; Solaris ACLs.
    for program in [100_000, 100_005, 100_021, 100_227] {
        let words = answered(&mut conn, call(program, 3, 0, &[]));
        assert_eq!(words, [&ACCEPTED[..], &[1]].concat());
    }
    assert_eq!(answered(&mut conn, call(100_003, 4, 0, &[])), [&ACCEPTED[..], &[0]].concat());
}

fn exchange_args(flags: u32) -> ExchangeIdArgs<'static> {
    ExchangeIdArgs {
        client_owner: ClientOwner { verifier: Verifier([3; 8]), owner_id: Opaque(b"hypervisor") },
        flags: ExchangeIdFlags(flags),
        state_protect: StateProtectArgs::None,
        implementation_id: List::default(),
    }
}

/// Parts of an EXCHANGE_ID result that show whether two addresses are one server.
type Trunk = (ClientId, u32, Vec<u8>, u64, Vec<u8>);

fn exchange(conn: &mut NfsConn, flags: u32) -> Result<Trunk, NfsStatus> {
    let results = answer(conn, record(1, &[Operation::ExchangeId(exchange_args(flags))]));
    let mut results = CompoundResults::decode(&mut XdrReader::new(&results)).unwrap();
    let result = results.succeed::<ExchangeIdResult<'_>>(OperationNumber::EXCHANGE_ID);
    let result = result.map_err(|no| match no {
        NoResult::Failed(status) => status,
        NoResult::Malformed(_) => NfsStatus::BADXDR,
    })?;
    let owner = &result.server_owner;
    let (major, scope) = (owner.major_id.to_vec(), result.server_scope.to_vec());
    Ok((result.client_id, result.flags.0, major, owner.minor_id, scope))
}

fn create_args(client_id: ClientId) -> CreateSessionArgs<'static> {
    let channel = ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: 1 << 20,
        response_bytes_max: 1 << 20,
        response_cached_bytes_max: 8192,
        operations_max: 16,
        requests_max: 64,
        rdma_ird: List::default(),
    };
    CreateSessionArgs {
        client_id,
        sequence_id: 1,
        flags: CreateSessionFlags::CONN_BACK_CHAN,
        fore_channel: channel.clone(),
        back_channel: channel,
        callback_program: 0x4000_0000,
        callback_security: List(vec![CallbackSecurity::None]),
    }
}

const LAYOUT_FLAGS: u32 = ExchangeIdFlags::MASK_PNFS.0;

#[test]
fn two_addresses_trunk_into_one_session() {
    let bench = ServerUnderTest::new();
    let (mut first, mut second) = (bench.conn(), bench.conn());
    let flags = ExchangeIdFlags::SUPP_MOVED_REFER.0 | ExchangeIdFlags::SUPP_MOVED_MIGR.0;
    let one = exchange(&mut first, flags).unwrap();
    assert_eq!(one.1 & ExchangeIdFlags::CONFIRMED_R.0, 0);
    let create = Operation::CreateSession(create_args(one.0));
    let results = answer(&mut first, record(2, &[create]));
    let mut results = CompoundResults::decode(&mut XdrReader::new(&results)).unwrap();
    let session: CreateSessionResult = results.succeed(OperationNumber::CREATE_SESSION).unwrap();
    let two = exchange(&mut second, flags).unwrap();
    assert_ne!(two.1 & ExchangeIdFlags::CONFIRMED_R.0, 0);
    assert_eq!((&one.0, &one.2, &one.3, &one.4), (&two.0, &two.2, &two.3, &two.4));
    let session_id = session.session_id;
    let bind = BindConnToSessionArgs {
        session_id,
        direction: ChannelFromClient::ForeOrBoth,
        use_rdma: false,
    };
    let results = answer(&mut second, record(3, &[Operation::BindConnToSession(bind)]));
    let mut results = CompoundResults::decode(&mut XdrReader::new(&results)).unwrap();
    let bound: BindConnToSessionResult =
        results.succeed(OperationNumber::BIND_CONN_TO_SESSION).unwrap();
    assert_eq!((bound.direction, bound.use_rdma), (ChannelFromServer::Both, false));
    let bound =
        |session: NfsSessionId| bench.server.find_session(session).unwrap().connections().len();
    assert_eq!(bound(session_id), 2);
}

#[test]
fn layout_requests_are_refused() {
    let bench = ServerUnderTest::new();
    let (_, flags, ..) = exchange(&mut bench.conn(), LAYOUT_FLAGS).unwrap();
    assert_eq!(flags & LAYOUT_FLAGS, ExchangeIdFlags::USE_NON_PNFS.0, "the server says so first");
    let mut client = bench.client("one");
    client.make_file(b"f");
    const FILES: u32 = 1;
    let get = LayoutGetArgs {
        signal_available: false,
        layout_type: FILES,
        io_mode: LayoutIoMode::Read,
        offset: 0,
        length: u64::MAX,
        length_min: 4096,
        state_id: StateId::ANONYMOUS,
        bytes_max: 4096,
    };
    let give_back = LayoutReturnArgs {
        reclaim: false,
        layout_type: FILES,
        io_mode: LayoutIoMode::Any,
        what: LayoutReturn::All,
    };
    let device = GetDeviceInfoArgs {
        device_id: [0; 16],
        layout_type: FILES,
        bytes_max: 4096,
        notification_types: Bitmap4::EMPTY,
    };
    for asked in [
        Operation::LayoutGet(get),
        Operation::LayoutReturn(give_back),
        Operation::GetDeviceInfo(device),
    ] {
        let number = asked.number();
        let mut operations = client.walk(&[b"share", b"f"]);
        operations.push(asked);
        let results = client.results(&operations);
        let expected = [number.0.to_be_bytes(), NfsStatus::NOTSUPP.0.to_be_bytes()].concat();
        assert!(results.ends_with(&expected), "under its own number: {number:?}");
    }
    // Layout attributes are not supported.
    let requested = Bitmap4::of(&[62, 64]);
    let mut operations = client.walk(&[b"share", b"f"]);
    operations.push(Operation::GetAttr(GetAttrArgs { requested }));
    let none = client.last(&operations, |r| r.rest().to_vec());
    assert!(none.iter().all(|byte| matches!(byte, 0 | 2 | 3)), "an empty mask: {none:?}");
}

proptest! {
    #[test]
    fn exchange_id_accepts_client_flags_only(bits: u32) {
        let bench = ServerUnderTest::new();
        let may_be = ExchangeIdFlags::SUPP_MOVED_REFER.0
            | ExchangeIdFlags::SUPP_MOVED_MIGR.0
            | ExchangeIdFlags::BIND_PRINC_STATEID.0
            | LAYOUT_FLAGS;
        let answer = exchange(&mut bench.conn(), bits & may_be);
        prop_assert!(answer.is_ok());
        let other = bits | ExchangeIdFlags::CONFIRMED_R.0;
        prop_assert_eq!(exchange(&mut bench.conn(), other).err(), Some(NfsStatus::INVAL));
    }
}
