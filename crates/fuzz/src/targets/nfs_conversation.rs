//! Whole NFS conversations: records to two connections of one client, jobs polled, replies checked.
//! Once the client is gone, no state of it remains.
//!
//! An input is a sequence of messages, each after two bytes: its length, and flags. A message is a
//! raw record, or a count byte with operations. The latter become a valid COMPOUND call with the
//! due SEQUENCE, because nearly every input would fail there otherwise.

use bytes::Bytes;
use files::{Caller, Files, Inline, Volume, VolumeId, VolumeOptions};
use futures_util::FutureExt;
use nfs::limits::{COURTESY, MESSAGE_BYTES_MAX};
use nfs::{
    CallJob, Export, ExportTerms, ExportedVolume, HostFilter, HostVerdict, NfsConfig, NfsConn,
    NfsConnFacts, NfsHost, NfsServer, RecordTransmit, Squash, TimeReading,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use sync::Mutex;
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs::{Identity, Timestamp};
use wire::nfs::ops::{
    CallbackSecurity, ChannelAttributes, ClientOwner, CreateSessionArgs, CreateSessionFlags,
    CreateSessionResult, ExchangeIdArgs, ExchangeIdFlags, ExchangeIdResult, ReclaimCompleteArgs,
    SequenceArgs, StateProtectArgs,
};
use wire::nfs::rpc::{
    AuthFlavor, AuthSys, Groups, OpaqueAuth, RpcCall, RpcMessage, Scan, scan_record,
};
use wire::nfs::xdr::{List, Opaque, XdrReader, XdrWriter};
use wire::nfs::{
    ClientId, CompoundResults, NfsSessionId, Operation, OperationNumber, OperationResult, Verifier,
};

/// Bits of a message's length; the other bits are flags.
const LENGTH: u16 = 0x0FFF;
/// The message is a raw record.
const RAW: u16 = 0x8000;
/// The message uses the second connection.
const OTHER: u16 = 0x4000;
/// The message repeats the previous request.
const AGAIN: u16 = 0x2000;
/// The server caches the reply for that (`sa_cachethis`).
const KEEP: u16 = 0x1000;

/// Capacity of the in-memory files in bytes.
const CAPACITY: u64 = 1024 * 1024;
/// Most jobs that wait forever.
const WAITING_MAX: usize = 64;
/// Memory of the connections and their server themselves.
const BASE_BYTES: usize = 512 * 1024;

/// A reply may have the maximal length, in a buffer that has just doubled; files have their
/// capacity; slots cache replies.
pub fn bytes_max(input_bytes: usize) -> usize {
    BASE_BYTES + 4 * MESSAGE_BYTES_MAX as usize + 2 * CAPACITY as usize + 512 * input_bytes
}

/// A deterministic process.
struct NfsFuzzHost {
    random: AtomicU8,
    now: Mutex<TimeReading>,
}

impl NfsHost for NfsFuzzHost {
    fn random(&self, out: &mut [u8]) {
        out.fill_with(|| self.random.fetch_add(1, Ordering::Relaxed));
    }

    fn now(&self) -> TimeReading {
        *self.now.lock()
    }

    fn caller(&self, identity: Identity) -> Arc<Caller> {
        Arc::new(Caller::of(identity))
    }

    fn carry_on(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {}
}

#[derive(Debug)]
struct ConversationHostFilter;

impl HostFilter for ConversationHostFilter {
    fn verdict(&self, _: IpAddr) -> HostVerdict {
        HostVerdict::Admitted
    }
}

/// A client with one session and two connections to a server with one share.
struct NfsConversationRig {
    host: Arc<NfsFuzzHost>,
    server: Arc<NfsServer>,
    conns: [NfsConn; 2],
    waiting: Vec<(usize, CallJob)>,
    session: NfsSessionId,
    sequence: u32,
    /// The last reply, without its record mark.
    answer: Vec<u8>,
}

/// Records of a client with a session.
pub fn conversation(input: &[u8]) {
    let mut rig = NfsConversationRig::new();
    rig.begin();
    for (flags, message) in messages(input) {
        let by = usize::from(flags & OTHER != 0);
        let record = if flags & RAW != 0 {
            Bytes::copy_from_slice(message)
        } else {
            rig.sequence += u32::from(flags & AGAIN == 0);
            rig.call(message, flags & KEEP != 0)
        };
        if !rig.feed(by, record) {
            break;
        }
    }
    rig.end();
}

/// Flags and messages of an input.
fn messages(mut input: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = input.split_first_chunk::<2>()?;
        let head = u16::from_le_bytes(*head);
        let (message, rest) = rest.split_at(usize::from(head & LENGTH).min(rest.len()));
        input = rest;
        Some((head & !LENGTH, message))
    })
}

impl NfsConversationRig {
    fn new() -> Self {
        let vfs = MemoryVfs::new(
            MemoryOptions { capacity_bytes: CAPACITY, ..MemoryOptions::default() },
            Arc::new(StillClock::default()),
        );
        let volume = Volume::new(Arc::new(vfs), VolumeOptions::default());
        let export = Export {
            id: VolumeId(7),
            name: b"share".to_vec(),
            volume: ExportedVolume::new(Arc::new(volume)).expect("a tree in memory has handles"),
            tls_required: false,
            reserved_ports: false,
            is_stable: true,
            counted: Default::default(),
            terms: ExportTerms {
                read_only: false,
                squash: Squash::None,
                anonymous: (65_534, 65_534),
            },
            clients: Vec::new(),
            hosts: Arc::new(ConversationHostFilter),
        };
        let lease = Duration::from_secs(10);
        let exports = vec![Arc::new(export)];
        let (owner, states_max) = (b"server".to_vec(), nfs::limits::STATES_MAX);
        let tree = nfs::PseudoTree::new([(0, &b"/srv/deep/share"[..])]);
        let config = NfsConfig { exports, tree, lease, owner, offers_tls: true, states_max };
        let now =
            TimeReading { instant: Instant::now(), wall: Timestamp(1_750_000_000_000_000_000) };
        let host = Arc::new(NfsFuzzHost { random: AtomicU8::new(1), now: Mutex::new(now) });
        let files = Arc::new(Files::new(Arc::new(Inline)));
        let server = NfsServer::new(config, files, host.clone());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 2049));
        let conns = [1, 2].map(|id| {
            NfsConn::new(server.clone(), NfsConnFacts { id, peer: address, local: address })
        });
        let session = NfsSessionId([0; 16]);
        Self { host, server, conns, waiting: Vec::new(), session, sequence: 0, answer: Vec::new() }
    }

    /// Creates a session.
    fn begin(&mut self) {
        let introduction = Operation::ExchangeId(ExchangeIdArgs {
            client_owner: ClientOwner { verifier: Verifier([1; 8]), owner_id: Opaque(b"one") },
            flags: ExchangeIdFlags(0),
            state_protect: StateProtectArgs::None,
            implementation_id: List::default(),
        });
        self.one(&introduction);
        let answer = self.results_of();
        let mut results = CompoundResults::decode(&mut XdrReader::new(&answer)).unwrap();
        let client: ExchangeIdResult<'_> = results.succeed(OperationNumber::EXCHANGE_ID).unwrap();
        let id: ClientId = client.client_id;
        let channel = || ChannelAttributes {
            header_pad_bytes: 0,
            request_bytes_max: MESSAGE_BYTES_MAX,
            response_bytes_max: MESSAGE_BYTES_MAX,
            response_cached_bytes_max: 4096,
            operations_max: 64,
            requests_max: 4,
            rdma_ird: List::default(),
        };
        let wish = Operation::CreateSession(CreateSessionArgs {
            client_id: id,
            sequence_id: client.sequence_id,
            flags: CreateSessionFlags::CONN_BACK_CHAN,
            fore_channel: channel(),
            back_channel: channel(),
            callback_program: 1,
            callback_security: List(vec![CallbackSecurity::None]),
        });
        self.one(&wish);
        let answer = self.results_of();
        let mut results = CompoundResults::decode(&mut XdrReader::new(&answer)).unwrap();
        let made: CreateSessionResult = results.succeed(OperationNumber::CREATE_SESSION).unwrap();
        self.session = made.session_id;
        let mut done = vec![1];
        let reclaimed = Operation::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        let w = &mut XdrWriter::new(&mut done);
        w.put(&reclaimed.number());
        reclaimed.encode_args(w);
        self.sequence = 1;
        let record = self.call(&done, false);
        assert!(self.feed(0, record));
    }

    /// Sends one operation without a session.
    fn one(&mut self, operation: &Operation<'_>) {
        let mut body = Vec::new();
        let w = &mut XdrWriter::new(&mut body);
        w.put(&operation.number());
        operation.encode_args(w);
        let record = compound(1, &body);
        assert!(self.feed(0, record));
    }

    /// A call with the due SEQUENCE and some operations after their count.
    fn call(&self, message: &[u8], cache_this: bool) -> Bytes {
        let (count, operations) = message.split_first().unwrap_or((&0, &[]));
        let sequence = Operation::Sequence(SequenceArgs {
            session_id: self.session,
            sequence_id: self.sequence,
            slot_id: 0,
            highest_slot_id: 0,
            cache_this,
        });
        let mut body = Vec::new();
        let w = &mut XdrWriter::new(&mut body);
        w.put(&sequence.number());
        sequence.encode_args(w);
        body.extend_from_slice(operations);
        compound(u32::from(*count) + 1, &body)
    }

    /// The results after the header of the last reply.
    fn results_of(&self) -> Vec<u8> {
        let r = &mut XdrReader::new(&self.answer);
        assert!(matches!(RpcMessage::decode(r), Ok(RpcMessage::Reply(_))));
        r.rest().to_vec()
    }

    /// Passes a record to the server as its task does, and checks the replies; false once the
    /// connection must be closed.
    fn feed(&mut self, by: usize, record: Bytes) -> bool {
        assert!(record.len() <= self.conns[by].record_bytes_max(&record));
        if self.conns[by].handle_record(record).is_err() {
            return false;
        }
        while let Some(job) = self.conns[by].poll_job() {
            self.waiting.push((by, job));
        }
        // A job may wait for a later one.
        let mut waiting = Vec::new();
        for (by, mut job) in self.waiting.drain(..) {
            match job.as_mut().now_or_never() {
                Some(finished) => self.conns[by].handle_finished(finished),
                None => waiting.push((by, job)),
            }
        }
        waiting.truncate(WAITING_MAX);
        self.waiting = waiting;
        for by in 0..self.conns.len() {
            while let Some(transmit) = self.conns[by].poll_transmit() {
                self.check_response(&transmit);
                self.conns[by].recycle(transmit.buffer);
            }
        }
        true
    }

    /// Asserts that a reply is complete, and each result in it decodes.
    fn check_response(&mut self, transmit: &RecordTransmit) {
        assert!(transmit.file.is_none(), "what is in memory cannot be sent from a file");
        let record = &transmit.buffer;
        let bytes_max = MESSAGE_BYTES_MAX as usize;
        let Ok(Scan::Complete(extent)) = scan_record(record, bytes_max) else {
            panic!("no whole record")
        };
        assert_eq!((extent.stream_bytes, extent.fragments), (record.len(), 1));
        let message = extent.payload(record).into_owned();
        let r = &mut XdrReader::new(&message);
        match RpcMessage::decode(r).unwrap() {
            // A callback to the client, which is not answered here.
            RpcMessage::Call(_) => return,
            RpcMessage::Reply(_) => {}
        }
        if let Ok(mut results) = CompoundResults::decode(&mut XdrReader::new(r.rest())) {
            while let Some((number, status)) = results.next_status().unwrap() {
                let result = OperationResult::decode(number, status, results.reader());
                // Illegal operations have no results of their own.
                assert!(result.is_ok() || !status.is_ok(), "{number:?}: {result:?}");
            }
            assert_eq!(results.reader().remaining(), 0);
        }
        self.answer = message;
    }

    /// The client is gone for good.
    fn end(mut self) {
        self.waiting.clear();
        drop(self.conns);
        let later = {
            let mut now = self.host.now.lock();
            now.instant += COURTESY + Duration::from_secs(60);
            *now
        };
        self.server.handle_tick(later);
        assert_eq!(self.server.snapshot().clients.len(), 0);
    }
}

/// A COMPOUND call of the superuser, with so many operations.
fn compound(count: u32, operations: &[u8]) -> Bytes {
    let mut body = Vec::new();
    let groups = Groups::new(&[]);
    let sys = AuthSys { stamp: 0, machine_name: Opaque(b"m"), uid: 0, gid: 0, groups };
    XdrWriter::new(&mut body).put(&sys);
    let mut out = Vec::new();
    let w = &mut XdrWriter::new(&mut out);
    w.put(&RpcCall {
        xid: 1,
        program: 100_003,
        version: 4,
        procedure: 1,
        credentials: OpaqueAuth { flavor: AuthFlavor::SYS, body: Opaque(&body) },
        verifier: OpaqueAuth::NONE,
    });
    w.opaque(b"");
    w.u32(2);
    w.u32(count);
    out.extend_from_slice(operations);
    out.into()
}
