//! The client against a small test server that checks sequence ids.

use super::{Disposition, NfsClient, NfsExport, NfsOptions, NfsTarget};
use crate::error::Error;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::nfs::ops::{
    ChannelAttributes, CreateSessionFlags, CreateSessionResult, ExchangeIdFlags, ExchangeIdResult,
    NfsOpenResult, OpenDelegation, OpenResultFlags, ReadResult, SequenceResult,
    SequenceStatusFlags, ServerOwner, StateProtectResult,
};
use wire::nfs::rpc::{RpcMessage, Scan, begin_record, end_record, put_success, scan_record};
use wire::nfs::xdr::{List, Opaque, XdrReader, XdrWriter};
use wire::nfs::{
    Bitmap4, ChangeInfo, ClientId, Compound, CompoundReply, Fattr, FileHandle, NfsSessionId,
    NfsStatus, Operation, OperationNumber, StateId,
};

const SLOTS: u32 = 4;

/// State and faults of the test server.
#[derive(Debug, Default)]
struct TestServerState {
    /// Last sequence id per slot.
    sequences: HashMap<u32, u32>,
    /// Number of SEQUENCE calls per connection.
    calls: Vec<u32>,
    /// Statuses of the next calls.
    refusals: Vec<NfsStatus>,
    /// The connection to close instead of replying.
    ends: Option<usize>,
    /// Number of replayed requests.
    again: u32,
    /// Replays get "not cached".
    forgets: bool,
    /// Number of replays that get DELAY first.
    delays: u32,
}

async fn serve() -> (SocketAddr, Arc<Mutex<TestServerState>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(TestServerState::default()));
    let shared = seen.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let number = {
                let mut seen = shared.lock();
                seen.calls.push(0);
                seen.calls.len() - 1
            };
            tokio::spawn(answer_all(stream, number, shared.clone()));
        }
    });
    (address, seen)
}

async fn answer_all(mut stream: TcpStream, number: usize, seen: Arc<Mutex<TestServerState>>) {
    let mut received = Vec::new();
    while stream.read_buf(&mut received).await.is_ok_and(|count| count > 0) {
        while let Ok(Scan::Complete(extent)) = scan_record(&received, 1 << 21) {
            let mut out = Vec::new();
            if !answer(&extent.payload(&received), number, &mut seen.lock(), &mut out) {
                return;
            }
            received.drain(..extent.stream_bytes);
            stream.write_all(&out).await.unwrap();
        }
    }
}

fn channel(requests_max: u32) -> ChannelAttributes {
    ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: 1 << 20,
        response_bytes_max: 1 << 20,
        response_cached_bytes_max: 4096,
        operations_max: 16,
        requests_max,
        rdma_ird: List::default(),
    }
}

/// Replies to a call; returns whether the connection stays open.
fn answer(record: &[u8], connection: usize, seen: &mut TestServerState, out: &mut Vec<u8>) -> bool {
    let r = &mut XdrReader::new(record);
    let Ok(RpcMessage::Call(call)) = RpcMessage::decode(r) else { panic!() };
    let w = &mut XdrWriter::new(out);
    let mark = begin_record(w);
    put_success(w, call.xid);
    let mut reply = CompoundReply::begin(w, b"");
    let mut status = NfsStatus::OK;
    for operation in Compound::decode(r).unwrap() {
        let operation = operation.unwrap();
        if let Operation::Sequence(args) = &operation {
            seen.calls[connection] += 1;
            let before = seen.sequences.insert(args.slot_id, args.sequence_id).unwrap_or(0);
            assert!(args.slot_id < SLOTS);
            if args.sequence_id == before {
                seen.again += 1;
                if seen.delays > 0 {
                    seen.delays -= 1;
                    status = NfsStatus::DELAY;
                    reply.begin_operation(w, operation.number(), status);
                    break;
                }
                if seen.forgets {
                    seen.refusals.push(NfsStatus::RETRY_UNCACHED_REP);
                }
            } else {
                assert_eq!(args.sequence_id, before + 1, "slot {}", args.slot_id);
            }
            if seen.ends == Some(connection) {
                return false;
            }
        } else if let Some(refusal) = seen.refusals.pop() {
            status = refusal;
            reply.begin_operation(w, operation.number(), status);
            break;
        }
        put_result(w, &mut reply, &operation);
    }
    reply.finish(w, status);
    end_record(w, mark, 0);
    true
}

fn put_result(w: &mut XdrWriter<'_>, reply: &mut CompoundReply, operation: &Operation<'_>) {
    let number = operation.number();
    let session_id = NfsSessionId([7; 16]);
    match operation {
        Operation::ExchangeId(_) => {
            let result = ExchangeIdResult {
                client_id: ClientId(5),
                sequence_id: 1,
                flags: ExchangeIdFlags::USE_NON_PNFS,
                state_protect: StateProtectResult::None,
                server_owner: ServerOwner { minor_id: 0, major_id: Opaque(b"test") },
                server_scope: Opaque(b"test"),
                implementation_id: List::default(),
            };
            reply.push(w, number, &Ok(result));
        }
        Operation::CreateSession(_) => {
            let flags = CreateSessionFlags(0);
            let (fore_channel, back_channel) = (channel(SLOTS), channel(1));
            let result = CreateSessionResult {
                session_id,
                sequence_id: 1,
                flags,
                fore_channel,
                back_channel,
            };
            reply.push(w, number, &Ok(result));
        }
        Operation::Sequence(args) => {
            let result = SequenceResult {
                session_id,
                sequence_id: args.sequence_id,
                slot_id: args.slot_id,
                highest_slot_id: SLOTS - 1,
                target_highest_slot_id: SLOTS - 1,
                status_flags: SequenceStatusFlags(0),
            };
            reply.push(w, number, &Ok(result));
        }
        Operation::Open(_) => {
            let result = NfsOpenResult {
                state_id: StateId { seqid: 1, other: [3; 12] },
                change: ChangeInfo::default(),
                flags: OpenResultFlags(0),
                attributes_set: Bitmap4::EMPTY,
                delegation: OpenDelegation::None,
            };
            reply.push(w, number, &Ok(result));
        }
        Operation::Read(args) => {
            let data = vec![args.offset as u8; args.count as usize];
            reply.push(w, number, &Ok(ReadResult { is_end: false, data: &data }));
        }
        Operation::GetFh => reply.push(w, number, &Ok(FileHandle::new(b"handle").unwrap())),
        Operation::GetAttr(_) => reply.push(w, number, &Ok(Fattr::default())),
        _ => reply.push(w, number, &Ok(())),
    }
}

async fn connected(connections: usize) -> (NfsClient, Arc<Mutex<TestServerState>>) {
    let (address, seen) = serve().await;
    let target = NfsTarget { name: "test".into(), address, uid: 0, gid: 0, instance: [1; 8] };
    let options = NfsOptions { connections, ..NfsOptions::default() };
    (NfsClient::connect(target, options).await.unwrap(), seen)
}

/// More requests than slots, over all connections. The server checks each slot's sequence id, and
/// each reply must match its request.
#[tokio::test]
async fn requests_use_all_connections_and_count_per_slot() {
    let (client, seen) = connected(3).await;
    assert_eq!(client.slots(), SLOTS);
    let export = NfsExport::open(client, "a/b").await.unwrap();
    let file = Arc::new(export.open_file("c/d", Disposition::Open).await.unwrap());
    let mut readers = tokio::task::JoinSet::new();
    for reader in 0..32u64 {
        let (export, file) = (export.clone(), file.clone());
        readers.spawn(async move {
            for turn in 0..8 {
                let offset = reader * 8 + turn;
                let data = export.read(&file, offset, 100).await.unwrap();
                assert_eq!(data[..], [offset as u8; 100]);
            }
        });
    }
    readers.join_all().await;
    let seen = seen.lock();
    assert!(seen.calls.iter().all(|calls| *calls > 80), "{:?}", seen.calls);
    assert_eq!(seen.sequences.len() as u32, SLOTS);
}

#[tokio::test]
async fn grace_is_retried_and_refusals_are_returned() {
    let (client, seen) = connected(1).await;
    let export = NfsExport::open(client, "").await.unwrap();
    seen.lock().refusals = vec![NfsStatus::GRACE, NfsStatus::DELAY];
    let file = export.open_file("name", Disposition::Create).await.unwrap();
    seen.lock().refusals = vec![NfsStatus::STALE];
    let refused = export.read(&file, 0, 10).await;
    assert_eq!(refused, Err(Error::RefusedOperation(OperationNumber::PUTFH, NfsStatus::STALE)));
}

#[tokio::test]
async fn request_on_a_lost_connection_is_replayed_in_its_slot() {
    let (client, seen) = connected(2).await;
    let export = NfsExport::open(client, "").await.unwrap();
    let file = export.open_file("name", Disposition::Create).await.unwrap();
    seen.lock().ends = Some(0);
    for offset in 0..4 {
        assert_eq!(export.read(&file, offset, 10).await.unwrap()[..], [offset as u8; 10]);
    }
    assert_eq!(seen.lock().again, 1);
    // Another connection replaces the lost one, and is used.
    for _ in 0..2000 {
        export.read(&file, 0, 10).await.unwrap();
        if seen.lock().calls.get(2).is_some_and(|calls| *calls > 0) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("no connection came back: {:?}", seen.lock().calls);
}

#[tokio::test]
async fn session_survives_the_loss_of_its_only_connection() {
    let (client, seen) = connected(1).await;
    let export = NfsExport::open(client, "").await.unwrap();
    let file = export.open_file("name", Disposition::Create).await.unwrap();
    {
        let mut seen = seen.lock();
        (seen.ends, seen.delays) = (Some(0), 2);
    }
    assert_eq!(export.read(&file, 7, 10).await.unwrap()[..], [7; 10]);
    let (again, connections) = {
        let seen = seen.lock();
        (seen.again, seen.calls.len())
    };
    assert_eq!((again, connections), (3, 2), "it was not ready twice");
    // The slot continues with the next sequence id, which the server checks.
    for _ in 0..2 * SLOTS {
        export.read(&file, 0, 10).await.unwrap();
    }
}

#[tokio::test]
async fn uncached_request_is_repeated_only_if_idempotent() {
    let (client, seen) = connected(1).await;
    let export = NfsExport::open(client, "").await.unwrap();
    let file = export.open_file("name", Disposition::Create).await.unwrap();
    seen.lock().forgets = true;
    seen.lock().ends = Some(0);
    assert_eq!(export.read(&file, 7, 10).await.unwrap()[..], [7; 10]);
    seen.lock().ends = Some(1);
    let removed = export.remove("name").await;
    assert!(matches!(removed, Err(Error::Lost { sent: true, .. })), "{removed:?}");
    assert_eq!(seen.lock().again, 2);
}

#[tokio::test]
async fn io_size_fits_the_session_and_needs_a_connection() {
    let (client, _) = connected(1).await;
    assert_eq!(client.io_bytes_max(), (1 << 20) - 4096);
    let address = "127.0.0.1:1".parse().unwrap();
    let target = NfsTarget { name: String::new(), address, uid: 0, gid: 0, instance: [0; 8] };
    let none = NfsOptions { connections: 0, ..NfsOptions::default() };
    assert!(matches!(NfsClient::connect(target, none).await, Err(Error::Misuse(_))));
}
