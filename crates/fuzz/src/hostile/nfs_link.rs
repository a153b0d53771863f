//! One NFS connection with its client: records in, records out, and the client's knowledge. RFC
//! 8881.

use super::link::WAITING_MAX;
use super::surroundings::{EpisodeSurroundings, EpisodeUser};
use bytes::Bytes;
use futures_util::FutureExt;
use nfs::{CallJob, NfsConn, NfsConnFacts, NfsServer};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use wire::nfs::compound::CompoundResults;
use wire::nfs::ops::{
    CallbackSecurity, ChannelAttributes, ClientOwner, CreateSessionArgs, CreateSessionFlags,
    CreateSessionResult, ExchangeIdArgs, ExchangeIdFlags, ExchangeIdResult, Operation,
    OperationResult, PutFhArgs, ReclaimCompleteArgs, SequenceArgs, StateProtectArgs,
};
use wire::nfs::rpc::{AuthFlavor, AuthSys, Groups, OpaqueAuth, RpcCall, RpcMessage};
use wire::nfs::xdr::{List, Opaque, XdrReader, XdrWriter};
use wire::nfs::{
    ClientId, FileHandle, NfsSessionId, NfsStatus, OperationNumber, StateId, Verifier,
};

/// The program number of NFS. RFC 5531 13.
const PROGRAM: u32 = 100_003;
/// Size of a record mark. RFC 5531 11.
const MARK_BYTES: usize = 4;

/// Operations of a COMPOUND under construction.
#[derive(Debug, Default)]
pub struct OperationList {
    pub bytes: Vec<u8>,
    pub count: u32,
}

impl OperationList {
    /// Operations on the file with this handle.
    pub fn on(handle: FileHandle) -> Self {
        let mut list = Self::default();
        list.push(&Operation::PutFh(PutFhArgs { object: handle }));
        list
    }

    pub fn push(&mut self, operation: &Operation<'_>) {
        let w = &mut XdrWriter::new(&mut self.bytes);
        w.put(&operation.number());
        operation.encode_args(w);
        self.count += 1;
    }

    pub fn with(mut self, operation: &Operation<'_>) -> Self {
        self.push(operation);
        self
    }
}

/// The statuses of a COMPOUND's operations, and the whole reply.
#[derive(Clone, Debug, Default)]
pub struct NfsReply {
    pub statuses: Vec<(OperationNumber, NfsStatus)>,
    pub bytes: Vec<u8>,
}

impl NfsReply {
    fn of(bytes: Vec<u8>) -> Self {
        let mut statuses = Vec::new();
        if let Ok(mut results) = CompoundResults::decode(&mut XdrReader::new(&bytes)) {
            while let Ok(Some((number, status))) = results.next_status() {
                statuses.push((number, status));
                if OperationResult::decode(number, status, results.reader()).is_err() {
                    break;
                }
            }
        }
        Self { statuses, bytes }
    }

    /// True if all operations succeeded.
    pub fn is_ok(&self) -> bool {
        self.last().is_some_and(|(_, status)| status.is_ok())
    }

    /// The last executed operation, and its status.
    pub fn last(&self) -> Option<(OperationNumber, NfsStatus)> {
        self.statuses.last().copied()
    }

    /// The last result that `pick` selects.
    pub fn result<T>(&self, pick: impl for<'a> Fn(OperationResult<'a>) -> Option<T>) -> Option<T> {
        let mut results = CompoundResults::decode(&mut XdrReader::new(&self.bytes)).ok()?;
        let mut last = None;
        while let Ok(Some((number, status))) = results.next_status() {
            let result = OperationResult::decode(number, status, results.reader()).ok()?;
            last = pick(result).or(last);
        }
        last
    }
}

/// One NFS connection with its client; see the module.
pub struct NfsLink {
    /// The user of the client.
    pub user: EpisodeUser,
    /// The uid of the next call's credentials.
    pub uid: u32,
    /// Owner string of the client (`co_ownerid`).
    pub owner: Vec<u8>,
    pub client: ClientId,
    pub session: Option<NfsSessionId>,
    /// Sequence id of the session's only slot.
    pub sequence: u32,
    /// State ids that the server issued to this client.
    pub own: Vec<StateId>,
    /// Handles of files that this client opened.
    pub handles: Vec<FileHandle>,
    /// The last sent record.
    pub last_record: Vec<u8>,
    conn: NfsConn,
    jobs: Vec<CallJob>,
    reply: Option<Vec<u8>>,
    /// Results of calls whose reply was delayed.
    late: Vec<Vec<u8>>,
}

/// EXCHANGE_ID arguments that identify the client record.
#[derive(Clone, Copy, Debug)]
pub struct NfsIntroduction<'a> {
    pub owner: &'a [u8],
    pub life: u8,
    pub flags: u32,
}

impl NfsLink {
    pub fn connect(server: &Arc<NfsServer>, user: EpisodeUser, number: u64) -> Self {
        // The victim's kernel uses a privileged port; hostile users' programs use others.
        let port = if user == EpisodeUser::Alice { 700 } else { 40_000 };
        let peer = Ipv4Addr::new(10, user as u8, 1, number as u8);
        let facts = NfsConnFacts {
            id: number,
            peer: SocketAddr::from((peer, port)),
            local: SocketAddr::from((Ipv4Addr::LOCALHOST, 2049)),
        };
        Self {
            user,
            uid: user.uid(),
            owner: format!(
                "{} {}",
                user.name(),
                if user == EpisodeUser::Alice { 0 } else { number }
            )
            .into_bytes(),
            client: ClientId(0),
            session: None,
            sequence: 0,
            own: Vec::new(),
            handles: Vec::new(),
            last_record: Vec::new(),
            conn: NfsConn::new(server.clone(), facts),
            jobs: Vec::new(),
            reply: None,
            late: Vec::new(),
        }
    }

    /// Sends EXCHANGE_ID and CREATE_SESSION. False if the server refuses one of them.
    pub fn begin(&mut self, around: &EpisodeSurroundings) -> bool {
        let owner = self.owner.clone();
        let introduction = NfsIntroduction { owner: &owner, life: 1, flags: 0 };
        let Some((client, sequence)) = self.exchange_id(around, introduction) else {
            return false;
        };
        self.client = client;
        if !self.create_session(around, client, sequence).is_some_and(|status| status.is_ok()) {
            return false;
        }
        let done = Operation::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        self.call(around, OperationList::default().with(&done)).is_some_and(|reply| reply.is_ok())
    }

    /// EXCHANGE_ID; returns the client id and the sequence id for CREATE_SESSION.
    pub fn exchange_id(
        &mut self,
        around: &EpisodeSurroundings,
        introduction: NfsIntroduction<'_>,
    ) -> Option<(ClientId, u32)> {
        let verifier = Verifier([introduction.life; 8]);
        let operation = Operation::ExchangeId(ExchangeIdArgs {
            client_owner: ClientOwner { verifier, owner_id: Opaque(introduction.owner) },
            flags: ExchangeIdFlags(introduction.flags),
            state_protect: StateProtectArgs::None,
            implementation_id: List::default(),
        });
        let reply = self.call_alone(around, &operation)?;
        let mut results = CompoundResults::decode(&mut XdrReader::new(&reply.bytes)).ok()?;
        let result: ExchangeIdResult<'_> = results.succeed(OperationNumber::EXCHANGE_ID).ok()?;
        Some((result.client_id, result.sequence_id))
    }

    /// CREATE_SESSION; the link uses the session, if there is one.
    pub fn create_session(
        &mut self,
        around: &EpisodeSurroundings,
        client_id: ClientId,
        sequence_id: u32,
    ) -> Option<NfsStatus> {
        let channel = || ChannelAttributes {
            header_pad_bytes: 0,
            request_bytes_max: 65_536,
            response_bytes_max: 65_536,
            response_cached_bytes_max: 4096,
            operations_max: 16,
            requests_max: 1,
            rdma_ird: List::default(),
        };
        let operation = Operation::CreateSession(CreateSessionArgs {
            client_id,
            sequence_id,
            flags: CreateSessionFlags(0),
            fore_channel: channel(),
            back_channel: ChannelAttributes { operations_max: 2, ..channel() },
            callback_program: 1,
            callback_security: List(vec![CallbackSecurity::None]),
        });
        let reply = self.call_alone(around, &operation)?;
        let mut results = CompoundResults::decode(&mut XdrReader::new(&reply.bytes)).ok()?;
        if let Ok(created) = results.succeed::<CreateSessionResult>(OperationNumber::CREATE_SESSION)
        {
            (self.session, self.sequence) = (Some(created.session_id), 0);
            self.own.clear();
        }
        reply.last().map(|(_, status)| status)
    }

    /// Sends one operation without a session.
    pub fn call_alone(
        &mut self,
        around: &EpisodeSurroundings,
        operation: &Operation<'_>,
    ) -> Option<NfsReply> {
        let list = OperationList::default().with(operation);
        let record = self.record(&list);
        self.send(around, record)
    }

    /// Sends operations in the link's session.
    pub fn call(&mut self, around: &EpisodeSurroundings, list: OperationList) -> Option<NfsReply> {
        let record = self.in_session(&list)?;
        self.send(around, record)
    }

    /// The record of operations after a valid SEQUENCE.
    pub fn in_session(&mut self, list: &OperationList) -> Option<Vec<u8>> {
        let session_id = self.session?;
        self.sequence += 1;
        let mut all = OperationList::default().with(&Operation::Sequence(SequenceArgs {
            session_id,
            sequence_id: self.sequence,
            slot_id: 0,
            highest_slot_id: 0,
            cache_this: false,
        }));
        all.bytes.extend_from_slice(&list.bytes);
        all.count += list.count;
        Some(self.record(&all))
    }

    fn record(&self, list: &OperationList) -> Vec<u8> {
        let mut body = Vec::new();
        let (uid, groups) = (self.uid, Groups::new(&[]));
        let machine_name = Opaque(&b"machine"[..]);
        XdrWriter::new(&mut body).put(&AuthSys { stamp: 0, machine_name, uid, gid: uid, groups });
        let credentials = match self.user {
            EpisodeUser::Anonymous => OpaqueAuth::NONE,
            _ => OpaqueAuth { flavor: AuthFlavor::SYS, body: Opaque(&body) },
        };
        let mut out = Vec::new();
        let w = &mut XdrWriter::new(&mut out);
        w.put(&RpcCall {
            xid: 1,
            program: PROGRAM,
            version: 4,
            procedure: 1,
            credentials,
            verifier: OpaqueAuth::NONE,
        });
        w.opaque(b"");
        w.u32(2);
        w.u32(list.count);
        out.extend_from_slice(&list.bytes);
        out
    }

    /// Sends a record; returns the immediate reply, if any.
    pub fn send(&mut self, around: &EpisodeSurroundings, record: Vec<u8>) -> Option<NfsReply> {
        around.count_frame();
        let (user, uid) = (self.user, self.uid);
        around.journal.note(|| format!("{user:?} ({uid}) calls {}", crate::corpus::line(&record)));
        self.reply = None;
        let handed = self.conn.handle_record(Bytes::copy_from_slice(&record));
        self.last_record = record;
        handed.ok()?;
        self.poll();
        let reply = NfsReply::of(self.reply.take()?);
        around.journal.note(|| format!("  {user:?} gets {:?}", reply.statuses));
        Some(reply)
    }

    /// Runs the server as far as possible, and receives its replies.
    pub fn poll(&mut self) {
        while let Some(job) = self.conn.poll_job() {
            self.jobs.push(job);
        }
        let mut waiting = Vec::new();
        for mut job in self.jobs.drain(..) {
            match job.as_mut().now_or_never() {
                Some(finished) => self.conn.handle_finished(finished),
                None => waiting.push(job),
            }
        }
        waiting.truncate(WAITING_MAX);
        self.jobs = waiting;
        while let Some(transmit) = self.conn.poll_transmit() {
            assert!(transmit.file.is_none(), "data in memory is not sent from a file");
            let r = &mut XdrReader::new(&transmit.buffer[MARK_BYTES..]);
            if let Ok(RpcMessage::Reply(_)) = RpcMessage::decode(r) {
                self.late.extend(self.reply.replace(r.rest().to_vec()));
            }
            self.conn.recycle(transmit.buffer);
        }
    }

    /// Replies that were not immediate.
    pub fn take_delayed(&mut self) -> Vec<Vec<u8>> {
        self.late.extend(self.reply.take());
        std::mem::take(&mut self.late)
    }
}
