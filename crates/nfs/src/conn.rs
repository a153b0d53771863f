//! One connection without its socket: records in, jobs out, records out. RFC 5531.
//!
//! Never waits and never sends. A [`CallJob`] answers one call: the driver of the connection polls it
//! at once, and stores it if it is pending. Jobs survive the end of the connection, because the
//! client will ask for the replies on another one.

use crate::clients::connection::ConnShared;
use crate::clients::credentials::CallCredentials;
use crate::clients::link::NfsConnFacts;
use crate::compound::execute;
use crate::limits::{
    MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX_BEFORE_SESSION, SESSION_PROOF_BYTES,
    SPARE_BUFFER_BYTES_MAX, SPARE_BUFFERS_MAX, TRANSMIT_EARLY_BYTES,
};
use crate::observe::metering::{count_callback, count_header_reply};
use crate::request::reply::{JobResult, RecordTransmit};
use crate::request::run::CompoundCall;
use crate::server::NfsServer;
use bytes::Bytes;
use meter::{Api, Arrival, ResponseType};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use vfs::ArrivalOrder;
use wire::nfs::numbers::{NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND, PROCEDURE_NULL};
use wire::nfs::rpc::record::MARK_BYTES;
use wire::nfs::rpc::{
    AcceptStatus, AuthFlavor, AuthStatus, OpaqueAuth, ReplyBody, RpcCall, RpcMessage, RpcReply,
    UnreadableMessage, begin_record, end_record,
};
use wire::nfs::xdr::{XdrReader, XdrWriter};
use wire::nfs::{Compound, Operation};

/// Future that answers one call. The driver polls it at once and stores it if it is pending.
pub type CallJob = Pin<Box<dyn Future<Output = JobResult> + Send>>;

/// Reason to close a connection without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NfsCloseReason(pub &'static str);

/// The protocol state of one connection.
#[derive(Debug)]
pub struct NfsConn {
    server: Arc<NfsServer>,
    shared: Arc<ConnShared>,
    jobs: VecDeque<JobSlot>,
    outbox: VecDeque<RecordTransmit>,
    outbox_bytes: usize,
    spare: Vec<Vec<u8>>,
    /// A COMPOUND has arrived.
    has_compound: bool,
    /// The latest reply was STARTTLS.
    starts_tls: bool,
    /// Arrival of the next record, if the driver has noted it.
    arrival: Option<Arrival>,
    /// Its position in the order of arrival.
    order: Option<ArrivalOrder>,
}

/// A job that the driver has not taken, with the bytes of its reply.
struct JobSlot(CallJob, usize);

impl std::fmt::Debug for JobSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

impl NfsConn {
    /// A newly accepted connection.
    #[must_use]
    pub fn new(server: Arc<NfsServer>, facts: NfsConnFacts) -> Self {
        Self {
            server,
            shared: Arc::new(ConnShared::new(facts)),
            jobs: VecDeque::new(),
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            spare: Vec::new(),
            has_compound: false,
            starts_tls: false,
            arrival: None,
            order: None,
        }
    }

    /// Shared state, which also signals when [`NfsConn::poll_transmit`] has a call to the client.
    #[must_use]
    pub fn shared(&self) -> Arc<ConnShared> {
        self.shared.clone()
    }

    /// Whether a request has named a valid client or session.
    #[must_use]
    pub fn is_identified(&self) -> bool {
        self.shared.is_identified()
    }

    /// Longest record in bytes, without its mark, by the bytes that have `arrived`.
    ///
    /// A new connection may begin with a large WRITE if that has a SEQUENCE. Clients with several
    /// connections do so, and those that reconnect. The session may be unknown: after a restart or
    /// an expired lease only the reply tells the client. It retransmits its WRITEs on every
    /// connection first, and small requests wait behind them.
    #[must_use]
    pub fn record_bytes_max(&self, arrived: &[u8]) -> usize {
        // A somewhat longer record gets an error reply; a far longer one is not read.
        let max = if self.is_identified() || arrived.len() < SESSION_PROOF_BYTES {
            2 * MESSAGE_BYTES_MAX
        } else if begins_with_sequence(&arrived[..SESSION_PROOF_BYTES]) {
            MESSAGE_BYTES_MAX
        } else {
            MESSAGE_BYTES_MAX_BEFORE_SESSION
        };
        max as usize
    }

    /// Notes arrival and order of the record that the driver hands over next.
    pub fn note_arrival(&mut self, arrival: Arrival, order: ArrivalOrder) {
        (self.arrival, self.order) = (Some(arrival), Some(order));
    }

    /// Handles one record, without its marks.
    ///
    /// # Errors
    /// [`NfsCloseReason`] if no reply is possible.
    pub fn handle_record(&mut self, record: Bytes) -> Result<(), NfsCloseReason> {
        let at_once = || {
            let wire_bytes = (MARK_BYTES + record.len()) as u64;
            Arrival::at_once(self.server.host.instant(), wire_bytes)
        };
        let arrival = self.arrival.take().unwrap_or_else(at_once);
        let order = self.order.take().unwrap_or_else(ArrivalOrder::next);
        let mut r = XdrReader::new(&record);
        match RpcMessage::decode(&mut r) {
            Ok(RpcMessage::Call(call)) => {
                let arguments = r.position();
                self.handle_call(&call, record.slice(arguments..), record.len(), (arrival, order));
            }
            Ok(RpcMessage::Reply(reply)) => {
                count_callback(self.server.files.meter(), arrival.wire_bytes, 0);
                match reply.body {
                    ReplyBody::Accepted { status: AcceptStatus::Success, .. } => {
                        self.shared.link.calls.answer(reply.xid, record.slice(r.position()..));
                    }
                    _ => self.shared.link.calls.refuse(reply.xid),
                }
            }
            Err(UnreadableMessage::RpcVersion { xid }) => {
                let refused = (Api::NFS_UNKNOWN, ResponseType::ClientOtherError);
                let body = ReplyBody::RpcMismatch { low: 2, high: 2 };
                self.refuse(xid, body, refused, &arrival);
            }
            Err(UnreadableMessage::Malformed(malformed)) => {
                return Err(NfsCloseReason(malformed.what));
            }
        }
        Ok(())
    }

    fn handle_call(
        &mut self,
        call: &RpcCall<'_>,
        arguments: Bytes,
        request_bytes: usize,
        (arrival, order): (Arrival, ArrivalOrder),
    ) {
        let accepted = |status| ReplyBody::Accepted { verifier: OpaqueAuth::NONE, status };
        let unknown = (Api::NFS_UNKNOWN, ResponseType::ClientOtherError);
        if call.program != NFS_PROGRAM {
            let body = accepted(AcceptStatus::ProgramUnavailable);
            return self.refuse(call.xid, body, unknown, &arrival);
        }
        if call.version != NFS_VERSION {
            let status = AcceptStatus::ProgramMismatch { low: NFS_VERSION, high: NFS_VERSION };
            return self.refuse(call.xid, accepted(status), unknown, &arrival);
        }
        if call.credentials.flavor == AuthFlavor::TLS {
            return self.handle_tls_probe(call, &arrival);
        }
        let Some(credentials) = CallCredentials::of(&call.credentials) else {
            let body = ReplyBody::AuthError(AuthStatus::BAD_CREDENTIALS);
            let refused = (Api::NFS_UNKNOWN, ResponseType::AuthenticationError);
            return self.refuse(call.xid, body, refused, &arrival);
        };
        let success = (Api::NULL, ResponseType::Success);
        match call.procedure {
            PROCEDURE_NULL => {
                self.refuse(call.xid, accepted(AcceptStatus::Success), success, &arrival);
            }
            PROCEDURE_COMPOUND => {
                self.has_compound = true;
                let call = CompoundCall {
                    server: self.server.clone(),
                    conn: self.shared.clone(),
                    xid: call.xid,
                    credentials,
                    arguments,
                    request_bytes,
                    arrival,
                    order,
                    buffer: self.spare.pop().unwrap_or_default(),
                };
                let answer_bytes = reply_data_max(&call.arguments);
                self.jobs.push_back(JobSlot(Box::pin(execute::run(call)), answer_bytes));
            }
            _ => {
                let body = accepted(AcceptStatus::ProcedureUnavailable);
                self.refuse(call.xid, body, unknown, &arrival);
            }
        }
    }

    /// Starts TLS if the connection may. RFC 9289 4.1. It must be the first request, because a
    /// reply in flight would break the handshake.
    fn handle_tls_probe(&mut self, call: &RpcCall<'_>, arrival: &Arrival) {
        let is_probe =
            call.procedure == PROCEDURE_NULL && call.credentials == OpaqueAuth::TLS_PROBE;
        let is_fresh = !self.has_compound && !self.shared.link.is_under_tls();
        if !is_probe || !is_fresh || !self.server.config().offers_tls {
            let body = ReplyBody::AuthError(AuthStatus::BAD_CREDENTIALS);
            let refused = (Api::NULL, ResponseType::AuthenticationError);
            return self.refuse(call.xid, body, refused, arrival);
        }
        let (verifier, status) = (OpaqueAuth::STARTTLS, AcceptStatus::Success);
        let body = ReplyBody::Accepted { verifier, status };
        self.refuse(call.xid, body, (Api::NULL, ResponseType::Success), arrival);
        self.starts_tls = true;
        self.shared.link.set_under_tls();
    }

    /// Whether TLS starts now: the records in [`NfsConn::poll_transmit`] are the last in clear text.
    /// Reports it once.
    #[must_use]
    pub fn starts_tls(&mut self) -> bool {
        std::mem::take(&mut self.starts_tls)
    }

    /// Replies with an RPC header alone.
    fn refuse(
        &mut self,
        xid: u32,
        body: ReplyBody<'_>,
        (api, response): (Api, ResponseType),
        arrival: &Arrival,
    ) {
        let mut record = Vec::new();
        let w = &mut XdrWriter::new(&mut record);
        let mark = begin_record(w);
        w.put(&RpcReply { xid, body });
        end_record(w, mark, 0);
        let mut transmit = RecordTransmit { buffer: record, ..RecordTransmit::default() };
        let egress_bytes = transmit.length_bytes() as u64;
        let meter = (self.server.files.meter().as_ref(), &*self.server.host);
        count_header_reply(meter, (api, response), arrival, egress_bytes, &mut transmit.sent);
        self.push(transmit);
    }

    fn push(&mut self, transmit: RecordTransmit) {
        self.outbox_bytes += transmit.length_bytes();
        self.outbox.push_back(transmit);
    }

    /// Takes the next job to poll.
    pub fn poll_job(&mut self) -> Option<CallJob> {
        self.jobs.pop_front().map(|slot| slot.0)
    }

    /// Upper bound of the next job's reply in bytes.
    #[must_use]
    pub fn next_answer_bytes(&self) -> usize {
        self.jobs.front().map_or(0, |slot| slot.1)
    }

    /// Takes the result of a job.
    pub fn handle_finished(&mut self, finished: JobResult) {
        let JobResult { transmit, after } = finished;
        if !transmit.buffer.is_empty() {
            self.push(transmit);
        }
        drop(after);
    }

    /// Takes the next record to send, in order.
    pub fn poll_transmit(&mut self) -> Option<RecordTransmit> {
        let Some(transmit) = self.outbox.pop_front() else {
            let buffer = self.shared.link.calls.poll_outgoing()?;
            count_callback(self.server.files.meter(), 0, buffer.len() as u64);
            return Some(RecordTransmit { buffer, ..RecordTransmit::default() });
        };
        self.outbox_bytes -= transmit.length_bytes();
        Some(transmit)
    }

    /// Bytes queued for [`NfsConn::poll_transmit`].
    #[must_use]
    pub fn transmit_bytes(&self) -> usize {
        self.outbox_bytes
    }

    /// Whether the queue should be sent before further requests are read: the client can work
    /// meanwhile, and buffers stay in the CPU's cache.
    #[must_use]
    pub fn is_worth_sending(&self) -> bool {
        self.outbox_bytes >= TRANSMIT_EARLY_BYTES
    }

    /// Recycles a sent buffer.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS_MAX && buffer.capacity() <= SPARE_BUFFER_BYTES_MAX {
            self.spare.push(buffer);
        }
    }

    /// Frees recycled buffers beyond `bytes_max`: no request is in flight.
    pub fn trim_buffers(&mut self, bytes_max: usize) {
        let mut kept = 0;
        self.spare.retain(|buffer| {
            kept += buffer.capacity();
            kept <= bytes_max
        });
    }

    /// Frees all recycled buffers: the connection is idle.
    pub fn release_buffers(&mut self) {
        self.spare = Vec::new();
        if self.jobs.is_empty() {
            self.jobs = VecDeque::new();
        }
        if self.outbox.is_empty() {
            self.outbox = VecDeque::new();
        }
    }
}

/// Whether a call begins with SEQUENCE, of any session.
fn begins_with_sequence(start: &[u8]) -> bool {
    let mut r = XdrReader::new(start);
    let Ok(RpcMessage::Call(_)) = RpcMessage::decode(&mut r) else { return false };
    let Ok(mut compound) = Compound::decode(&mut r) else { return false };
    matches!(compound.next_operation(), Some(Ok(Operation::Sequence(_))))
}

/// Upper bound of result data of a COMPOUND in bytes, before it runs.
fn reply_data_max(arguments: &[u8]) -> usize {
    let Ok(operations) = Compound::decode(&mut XdrReader::new(arguments)) else { return 0 };
    let room = |operation| match operation {
        Ok(Operation::Read(args)) => args.count as usize,
        Ok(Operation::ReadPlus(args)) => args.count as usize,
        Ok(Operation::ReadDir(args)) => args.bytes_max as usize,
        // Longest extended attribute on Linux (xattr(7)).
        Ok(Operation::GetXattr(_)) => 64 * 1024,
        _ => 0,
    };
    let most = MESSAGE_BYTES_MAX as usize;
    operations.map(room).fold(0, |sum: usize, bytes| sum.saturating_add(bytes).min(most))
}

/// Offset of the data of the first WRITE in a call. The receiver uses it to align the next one.
#[must_use]
pub fn write_data_at(record: &[u8]) -> Option<usize> {
    let mut r = XdrReader::new(record);
    let Ok(RpcMessage::Call(_)) = RpcMessage::decode(&mut r) else { return None };
    let mut operations = Compound::decode(&mut r).ok()?;
    let data = operations.find_map(|operation| match operation {
        Ok(Operation::Write(args)) => Some(args.data),
        _ => None,
    })?;
    data.as_ptr().addr().checked_sub(record.as_ptr().addr())
}

impl Drop for NfsConn {
    fn drop(&mut self) {
        self.shared.link.calls.end();
    }
}
