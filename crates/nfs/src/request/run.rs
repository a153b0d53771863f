//! COMPOUND: executes operations in order until one fails. RFC 8881 2.10.6, 16.2.
//!
//! This module holds the rules about position of operations, sizes and cached replies. Each
//! operation has its own module.

use crate::clients::client::{Client, Principal};
use crate::clients::credentials::Credentials;
use crate::clients::session::{Permit, RequestStart, SequenceRequest, Session};
use crate::clients::slot::Fingerprint;
use crate::conn::{ConnShared, JobResult, PostReplyWork, Transmit};
use crate::exports::config::{Config, Export, ExportTerms, Squash};
use crate::limits::CHANGE_REPLY_BYTES;
use crate::observe::audit;
use crate::observe::metering::{OperationEnd, Tally};
use crate::ops;
use crate::request::operations::{Stable, changes_files, counted_as, is_change, stable};
use crate::request::place::{ObjectPlace, Place};
use crate::server::Server;
use crate::state::held_state::HeldOpen;
use crate::status::{OrStatus, status_of};
use bytes::Bytes;
use files::{
    Access as Rights, CacheGrant, CallHolder, Caller, Object, OpenFile, PendingAnswer, Protocol,
    RequestContext, RequestFiles, ResidentRange, ShareQueue, UnstableObjects,
};
use limits::ThrottleReason;
use meter::{Api, Arrival, NfsOperation, ShareId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use vfs::{ArrivalOrder, Attributes, FileKey};
use wire::nfs::callback::{ReferringCall, ReferringCalls};
use wire::nfs::compound::{BadOperation, Compound, CompoundReply};
use wire::nfs::ops::{Operation, SequenceArgs, SequenceResult, SequenceStatusFlags, SetAttrReply};
use wire::nfs::reply::Reply;
use wire::nfs::rpc::{
    AcceptStatus, OpaqueAuth, Reply as RpcReply, ReplyBody, begin_record, end_record, put_success,
};
use wire::nfs::xdr::{List, ReservedWord, XdrReader, XdrWriter};
use wire::nfs::{NfsStatus, OperationNumber, StateId};

/// Typical size of a reply.
const ANSWER_BYTES: usize = 256;

/// One COMPOUND call.
#[derive(Debug)]
pub struct Call {
    /// The server.
    pub server: Arc<Server>,
    /// The connection on which it arrived.
    pub conn: Arc<ConnShared>,
    /// RPC transaction id.
    pub xid: u32,
    /// Credentials of the caller.
    pub credentials: Credentials,
    /// Encoded arguments, behind the RPC header.
    pub arguments: Bytes,
    /// Length of the whole call in bytes.
    pub request_bytes: usize,
    /// Time and size of its arrival.
    pub arrival: Arrival,
    /// Its position in the order of arrival.
    pub order: ArrivalOrder,
    /// Reusable buffer for the reply.
    pub buffer: Vec<u8>,
}

/// State that the operations of one COMPOUND share.
pub(crate) struct Run<'c> {
    pub call: &'c Call,
    /// The file layer in the context of this request.
    files: RequestFiles,
    pub config: Arc<Config>,
    pub minor_version: u32,
    /// None outside a session.
    pub session: Option<Arc<Session>>,
    pub current: Option<Place>,
    pub current_id: Option<StateId>,
    saved: Option<(Place, Option<StateId>)>,
    /// Grants that the reply reports; breaks of them are deferred until the reply is sent.
    pub grants: Vec<CacheGrant>,
    /// Limit of the share for which the current operation waited or was refused.
    pub throttled: ThrottleReason,
    /// Time at which the request started, or resumed after a wait.
    pub now: Instant,
    /// Attribute operations that the last charged operation still covers.
    pub prepaid_attribute_ops: u8,
    /// Queue of the session at the limits of the share that was last used.
    pub queue: Option<Arc<ShareQueue>>,
    /// Path of the latest open, if this COMPOUND is sampled.
    pub sample: Option<String>,
    is_sampled: bool,
    sequence: Option<SequenceArgs>,
    /// Attributes of the current file handle's object from an earlier operation.
    pub seen: Option<(FileKey, Attributes)>,
    /// Objects that must be on stable storage before the reply.
    unstable: UnstableObjects,
    /// Result of the first operation that added to `unstable`.
    first_change: Option<ResultMark>,
}

/// Longest result of a refused operation in bytes: number and status, and for SETATTR an empty
/// bitmap.
const REFUSAL_BYTES: usize = 12;

/// Reply buffer with its size limits.
pub(crate) struct ReplyBuffer {
    pub out: Vec<u8>,
    mark: ReservedWord,
    /// Offset of the message, behind the record mark.
    message_at: usize,
    /// Offset of the COMPOUND results, which a slot caches.
    results_at: usize,
    bytes_max: usize,
    /// Bytes that the current operation must leave free, to refuse the next one.
    free_bytes: usize,
    /// Status if the reply would exceed the limit.
    too_big: NfsStatus,
    /// The reply is not cached, so that data at its end may be sent from the file.
    is_uncached: bool,
    /// Data at the end of the reply, sent from the file.
    pub file: Option<ResidentRange>,
}

impl ReplyBuffer {
    fn new(xid: u32, mut out: Vec<u8>) -> Self {
        out.clear();
        out.reserve(ANSWER_BYTES);
        let w = &mut XdrWriter::new(&mut out);
        let mark = begin_record(w);
        let message_at = w.position();
        put_success(w, xid);
        let results_at = out.len();
        let bytes_max = crate::limits::MESSAGE_BYTES_MAX as usize;
        let too_big = NfsStatus::REP_TOO_BIG;
        let (is_uncached, file) = (false, None);
        let free_bytes = 0;
        Self {
            out,
            mark,
            message_at,
            results_at,
            bytes_max,
            free_bytes,
            too_big,
            is_uncached,
            file,
        }
    }

    /// Whether data at the end of the reply may be sent from the file.
    pub fn may_send_from_file(&self) -> bool {
        self.is_uncached
    }

    pub fn writer(&mut self) -> XdrWriter<'_> {
        XdrWriter::new(&mut self.out)
    }

    /// Bytes that the current operation may still write.
    pub fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.out.len() - self.message_at + self.free_bytes)
    }

    fn is_too_long(&self) -> bool {
        self.out.len() - self.message_at + self.free_bytes > self.bytes_max
    }

    /// Completes the record.
    fn finish(mut self) -> JobResult {
        let (mark, file) = (self.mark, self.file.take());
        let beyond_bytes = file.as_ref().map_or(0, |file| file.length_bytes);
        end_record(&mut self.writer(), mark, beyond_bytes);
        let transmit = Transmit { buffer: self.out, file, ..Transmit::default() };
        JobResult { transmit, after: PostReplyWork::default() }
    }
}

/// Results under construction.
pub(crate) struct Results {
    reply: CompoundReply,
    status: NfsStatus,
}

/// Position of a result, to undo it.
#[derive(Clone, Copy)]
pub(crate) struct ResultMark {
    number: OperationNumber,
    before: usize,
    reply: CompoundReply,
}

impl Results {
    fn begin(answer: &mut ReplyBuffer, tag: &[u8]) -> Self {
        let reply = CompoundReply::begin(&mut answer.writer(), tag);
        Self { reply, status: NfsStatus::OK }
    }

    /// Encodes the result of an operation.
    pub fn push<'a>(
        &mut self,
        answer: &mut ReplyBuffer,
        number: OperationNumber,
        result: &impl Reply<'a>,
    ) {
        self.status = result.status();
        self.reply.push(&mut answer.writer(), number, result);
    }

    /// Encodes a successful status; the caller encodes the rest behind it.
    pub fn pass(&mut self, answer: &mut ReplyBuffer, number: OperationNumber) {
        self.status = NfsStatus::OK;
        self.reply.begin_operation(&mut answer.writer(), number, NfsStatus::OK);
    }

    pub fn fail(&mut self, answer: &mut ReplyBuffer, number: OperationNumber, status: NfsStatus) {
        match number {
            // SETATTR reports a bitmap whatever its status. RFC 8881 18.30.2.
            OperationNumber::SETATTR => self.push(answer, number, &SetAttrReply::failed(status)),
            _ => self.push(answer, number, &Err::<(), NfsStatus>(status)),
        }
    }

    /// Encodes a result by `put`, and undoes it if `put` fails.
    pub fn put(
        &mut self,
        answer: &mut ReplyBuffer,
        number: OperationNumber,
        put: impl FnOnce(&mut ReplyBuffer) -> Result<(), NfsStatus>,
    ) {
        let place = self.begin_put(answer, number);
        let result = put(answer);
        self.end_put(answer, place, result);
    }

    /// Begins a result that the caller encodes behind it.
    pub fn begin_put(&mut self, answer: &mut ReplyBuffer, number: OperationNumber) -> ResultMark {
        let put = ResultMark { number, before: answer.out.len(), reply: self.reply };
        self.pass(answer, number);
        put
    }

    /// Ends the result, and undoes it on failure.
    pub fn end_put(
        &mut self,
        answer: &mut ReplyBuffer,
        put: ResultMark,
        result: Result<(), NfsStatus>,
    ) {
        if let Err(status) = result {
            answer.out.truncate(put.before);
            self.reply = put.reply;
            self.fail(answer, put.number, status);
        }
    }

    /// Replaces a result that does not fit by a refusal.
    fn refuse_if_too_long(&mut self, answer: &mut ReplyBuffer, put: ResultMark) {
        if answer.is_too_long() {
            let too_big = answer.too_big;
            self.end_put(answer, put, Err(too_big));
        }
    }

    fn finish(self, answer: &mut ReplyBuffer) {
        self.reply.finish(&mut answer.writer(), self.status);
    }
}

impl Call {
    /// Holder to which work on workers is charged. A uid of AUTH_SYS is the client's claim, so the
    /// holder is the address.
    pub(crate) fn holder(&self) -> CallHolder {
        CallHolder::Client(limits::Holder::site(self.conn.facts.peer.ip()))
    }

    /// Executes the call.
    pub async fn run(mut self) -> JobResult {
        let is_sampled = self.server.files.meter().is_sampled();
        let mut tally = Tally::new(self.arrival, &self.credentials, is_sampled);
        let mut finished = self.answer(&mut tally).await;
        tally.settle(&self, &mut finished);
        finished
    }

    async fn answer(&mut self, tally: &mut Tally) -> JobResult {
        let mut answer = ReplyBuffer::new(self.xid, std::mem::take(&mut self.buffer));
        let arguments = self.arguments.clone();
        let Ok(mut compound) = Compound::decode(&mut XdrReader::new(&arguments)) else {
            return self.reply_garbage(answer);
        };
        self.server.stats.compounds.fetch_add(1, Ordering::Relaxed);
        let mut results = Results::begin(&mut answer, &compound.tag);
        if !(1..=2).contains(&compound.minor_version) {
            results.status = NfsStatus::MINOR_VERS_MISMATCH;
        } else {
            match compound.next_operation() {
                Some(Ok(Operation::Sequence(sequence))) => {
                    return self.run_in_session(compound, sequence, answer, results, tally).await;
                }
                Some(first) => {
                    let api = match &first {
                        Ok(operation) => Api::nfs(counted_as(operation)),
                        Err(bad) => Api::of_nfs_number(bad.number.0),
                    };
                    Box::pin(self.run_sessionless(&compound, first, &mut answer, &mut results))
                        .await;
                    tally.end(&*self.server.host, OperationEnd::of_no_share(api, results.status));
                }
                None => {}
            }
        }
        results.finish(&mut answer);
        answer.finish()
    }

    fn now(&self) -> Instant {
        self.server.host.now().instant
    }

    /// Principal of the call, for clients and sessions.
    pub(crate) fn principal(&self) -> Principal {
        self.credentials.principal(&self.conn.facts)
    }

    /// Replies GARBAGE_ARGS.
    fn reply_garbage(&self, mut answer: ReplyBuffer) -> JobResult {
        answer.out.truncate(answer.message_at);
        let status = AcceptStatus::GarbageArguments;
        let body = ReplyBody::Accepted { verifier: OpaqueAuth::NONE, status };
        answer.writer().put(&RpcReply { xid: self.xid, body });
        answer.finish()
    }

    /// Executes an operation outside a session. Few are permitted, and each alone. RFC 8881 2.10.6.
    async fn run_sessionless(
        &self,
        compound: &Compound<'_>,
        first: Result<Operation<'_>, BadOperation>,
        answer: &mut ReplyBuffer,
        results: &mut Results,
    ) {
        let operation = match first {
            Ok(operation) => operation,
            Err(BadOperation { number, status }) => return results.fail(answer, number, status),
        };
        let number = operation.number();
        let is_alone = compound.operation_count == 1;
        // These operations concern no files, except the opens of ended clients.
        let files = self.server.files.for_server_charged(self.holder());
        let run = &mut Run::new(self, compound.minor_version, None, self.now(), files);
        match operation {
            Operation::ExchangeId(_)
            | Operation::CreateSession(_)
            | Operation::BindConnToSession(_)
            | Operation::DestroySession(_)
            | Operation::DestroyClientId(_)
                if !is_alone =>
            {
                results.fail(answer, number, NfsStatus::NOT_ONLY_OP);
            }
            Operation::ExchangeId(args) => {
                let config = run.config.clone();
                results.push(answer, number, &ops::session::exchange_id(run, &config, &args));
            }
            Operation::CreateSession(args) => {
                results.push(answer, number, &ops::session::create_session(run, &args).await);
            }
            Operation::BindConnToSession(args) => {
                results.push(answer, number, &ops::session::bind_connection(run, &args));
            }
            Operation::DestroySession(args) => {
                results.push(answer, number, &ops::session::destroy_session(run, &args, true));
            }
            Operation::DestroyClientId(args) => {
                results.push(answer, number, &ops::session::destroy_client(run, &args));
            }
            _ => results.fail(answer, number, NfsStatus::OP_NOT_IN_SESSION),
        }
    }

    /// Executes a request of a session. RFC 8881 18.46.3.
    async fn run_in_session(
        &self,
        compound: Compound<'_>,
        sequence: SequenceArgs,
        mut answer: ReplyBuffer,
        mut results: Results,
        tally: &mut Tally,
    ) -> JobResult {
        let now = self.now();
        let host = &*self.server.host;
        let ended = |status| OperationEnd::of_no_share(Api::nfs(NfsOperation::Sequence), status);
        let permit = match self.begin(&compound, &sequence, now) {
            Ok((_, RequestStart::Replay(kept))) => {
                tally.end(host, ended(NfsStatus::OK));
                self.server.stats.replays.fetch_add(1, Ordering::Relaxed);
                answer.out.truncate(answer.results_at);
                answer.out.extend_from_slice(&kept);
                return answer.finish();
            }
            Ok((session, RequestStart::Uncached)) => {
                tally.end(host, ended(NfsStatus::RETRY_UNCACHED_REP));
                let result = sequence_result(&session, &sequence);
                results.push(&mut answer, OperationNumber::SEQUENCE, &Ok(result));
                let mut rest = compound;
                if let Some(Ok(second)) = rest.next_operation() {
                    results.fail(&mut answer, second.number(), NfsStatus::RETRY_UNCACHED_REP);
                }
                results.finish(&mut answer);
                return answer.finish();
            }
            Ok((_, RequestStart::Execute(permit))) => permit,
            Err(status) => {
                tally.end(host, ended(status));
                results.fail(&mut answer, OperationNumber::SEQUENCE, status);
                results.finish(&mut answer);
                return answer.finish();
            }
        };
        let client = &permit.session().client;
        let patience = Some(self.server.patience.clone());
        let context = RequestContext::new(Protocol::Nfs, client.tag(), patience, self.order);
        let pending = PendingAnswer::to(&context);
        tally.end(host, ended(NfsStatus::OK));
        let work = (compound, now, context);
        let work = self.execute(work, &sequence, &permit, &mut answer, &mut results, tally);
        // Boxed: the future is large, and its callers are moved as they start.
        let grants = Box::pin(work).await;
        results.finish(&mut answer);
        self.cache_reply(permit, sequence.cache_this, &compound, &answer);
        JobResult {
            after: PostReplyWork { _pending: Some(pending), _grants: grants },
            ..answer.finish()
        }
    }

    /// Finds the session and asks its slot.
    fn begin(
        &self,
        compound: &Compound<'_>,
        args: &SequenceArgs,
        now: Instant,
    ) -> Result<(Arc<Session>, RequestStart), NfsStatus> {
        let session = match self.conn.session(args.session_id) {
            Some(session) => session,
            None => self.server.find_session(args.session_id)?,
        };
        if self.request_bytes > session.fore.request_bytes_max as usize {
            return Err(NfsStatus::REQ_TOO_BIG);
        }
        if compound.operation_count > session.fore.operations_max {
            return Err(NfsStatus::TOO_MANY_OPS);
        }
        if args.cache_this && (session.fore.response_cached_bytes_max as usize) < CHANGE_REPLY_BYTES
        {
            return Err(NfsStatus::REP_TOO_BIG_TO_CACHE);
        }
        let wish = SequenceRequest {
            slot: args.slot_id,
            sequence: args.sequence_id,
            highest: args.highest_slot_id,
            fingerprint: Fingerprint::of(compound.left_bytes()),
            is_sealed: self.conn.is_under_tls(),
        };
        let start = session.begin(wish)?;
        session.client.renew(now);
        self.conn.set_identified();
        self.conn.bind(&session);
        Ok((session, start))
    }

    /// Executes a request of a session. Returns the grants that the reply reports.
    async fn execute(
        &self,
        (mut compound, now, context): (Compound<'_>, Instant, RequestContext),
        sequence: &SequenceArgs,
        permit: &Permit,
        answer: &mut ReplyBuffer,
        results: &mut Results,
        tally: &mut Tally,
    ) -> Vec<CacheGrant> {
        let session = permit.session();
        answer.bytes_max = session.fore.response_bytes_max as usize;
        let cached_max = session.fore.response_cached_bytes_max as usize;
        if sequence.cache_this && cached_max < answer.bytes_max {
            answer.bytes_max = cached_max;
            answer.too_big = NfsStatus::REP_TOO_BIG_TO_CACHE;
        }
        results.push(answer, OperationNumber::SEQUENCE, &Ok(sequence_result(session, sequence)));
        let files = self.server.files.for_request(&context, self.holder());
        let mut run = Run::new(self, compound.minor_version, Some(session.clone()), now, files);
        run.sequence = Some(*sequence);
        run.is_sampled = tally.is_sampled;
        while results.status.is_ok() {
            let from = (compound.position(), answer.out.len());
            let Some(next) = compound.next_operation() else { break };
            self.server.stats.operations.fetch_add(1, Ordering::Relaxed);
            let operation = match next {
                Ok(operation) => operation,
                Err(bad) => {
                    results.fail(answer, bad.number, bad.status);
                    tally.end(
                        &*self.server.host,
                        OperationEnd::of_no_share(Api::of_nfs_number(bad.number.0), bad.status),
                    );
                    break;
                }
            };
            let number = operation.number();
            let put = ResultMark { number, before: answer.out.len(), reply: results.reply };
            let api = Api::nfs(counted_as(&operation));
            if answer.room() < CHANGE_REPLY_BYTES && is_change(&operation) {
                results.fail(answer, number, answer.too_big);
                tally.end(&*self.server.host, OperationEnd::of_no_share(api, answer.too_big));
                break;
            }
            let (is_last, share) = (compound.operations_left() == 0, run.share());
            // TLS needs the data in memory, so that sendfile gains nothing.
            answer.is_uncached = is_last && !sequence.cache_this && !self.conn.is_under_tls();
            answer.free_bytes = if is_last { 0 } else { REFUSAL_BYTES };
            run.admit_operation(&operation).await;
            run.operate(&operation, is_last, answer, results).await;
            if !results.status.is_ok() {
                // No operation follows.
                answer.free_bytes = 0;
            }
            results.refuse_if_too_long(answer, put);
            run.note_first_change(&operation, put, results.status);
            let file_bytes = answer.file.as_ref().map_or(0, |file| file.length_bytes);
            let egress = answer.out.len().saturating_sub(from.1) + file_bytes;
            let bytes = ((compound.position() - from.0) as u64, egress as u64);
            tally.end(&*self.server.host, run.end_of(api, results.status, share, bytes));
            if !results.status.is_ok() {
                audit::denied(&run, number, results.status);
                self.log_refused(number, results.status);
            }
        }
        run.make_stable(answer, results).await;
        tally.path = run.sample.take();
        run.grants
    }

    fn log_refused(&self, number: OperationNumber, status: NfsStatus) {
        let request = format_args!("{}.{}", self.conn.facts.id, self.xid);
        tracing::debug!(peer = %self.conn.facts.peer, %request, ?number, ?status, "refused");
    }

    /// Caches the reply for a retry, if the client asked for that or it costs nothing.
    fn cache_reply(
        &self,
        permit: Permit,
        cache_this: bool,
        compound: &Compound<'_>,
        answer: &ReplyBuffer,
    ) {
        let is_kept = cache_this || compound.operation_count == 1;
        let reply = is_kept.then(|| Bytes::copy_from_slice(&answer.out[answer.results_at..]));
        permit.finish(reply);
    }
}

fn sequence_result(session: &Session, args: &SequenceArgs) -> SequenceResult {
    let (highest, target) = session.report_slots(args.slot_id);
    SequenceResult {
        session_id: args.session_id,
        sequence_id: args.sequence_id,
        slot_id: args.slot_id,
        highest_slot_id: highest,
        target_highest_slot_id: target,
        status_flags: status_flags(session),
    }
}

/// Conditions that SEQUENCE reports to the client.
fn status_flags(session: &Session) -> SequenceStatusFlags {
    let mut flags = SequenceStatusFlags::default();
    // A client that never bound a backchannel has no delegations.
    if session.back.was_bound() && !session.back.is_up() {
        flags |= SequenceStatusFlags::CB_PATH_DOWN_SESSION;
        if !session.client.sessions().iter().any(|other| other.back.is_up()) {
            flags |= SequenceStatusFlags::CB_PATH_DOWN;
        }
    }
    if session.client.has_revoked() {
        flags |= SequenceStatusFlags::RECALLABLE_STATE_REVOKED;
    }
    flags
}

/// The open behind a state id of an open, locks or a delegation.
fn open_behind(client: &Client, id: &StateId) -> Result<HeldOpen, NfsStatus> {
    let mut states = client.states.lock();
    if let Ok((_, open)) = states.find_open(id) {
        return Ok(open.holds.clone());
    }
    if let Ok((_, held)) = states.find_delegation(id) {
        return Ok(held.open());
    }
    states.find_locks(id).map(|(_, open)| open.holds.clone())
}

impl<'c> Run<'c> {
    fn new(
        call: &'c Call,
        minor_version: u32,
        session: Option<Arc<Session>>,
        now: Instant,
        files: RequestFiles,
    ) -> Self {
        let config = call.server.config();
        let (current, current_id, saved) = (None, None, None);
        let (grants, sequence) = (Vec::new(), None);
        Self {
            call,
            files,
            config,
            minor_version,
            session,
            current,
            current_id,
            saved,
            grants,
            throttled: ThrottleReason::None,
            now,
            prepaid_attribute_ops: 0,
            queue: None,
            sample: None,
            is_sampled: false,
            sequence,
            seen: None,
            unstable: UnstableObjects::default(),
            first_change: None,
        }
    }

    /// Notes objects that the operation has changed in the share of the current file handle: see
    /// [`crate::request::operations::stable`].
    pub fn note_changed(&mut self, objects: &[&Object]) {
        if self.is_in_stable_share() {
            objects.iter().for_each(|object| self.unstable.add_object(object));
        }
    }

    /// As [`Run::note_changed`], for the file of an open.
    pub fn note_changed_by(&mut self, open: &OpenFile) {
        if self.is_in_stable_share() {
            self.unstable.add_open(open);
        }
    }

    fn is_in_stable_share(&self) -> bool {
        matches!(&self.current, Some(Place::Object(place)) if place.export.is_stable)
    }

    /// Notes the result at `put` if its operation was the first to change something.
    fn note_first_change(&mut self, operation: &Operation<'_>, put: ResultMark, status: NfsStatus) {
        debug_assert!(
            !status.is_ok() || self.has_noted(stable(operation)),
            "{:?} has not said what it has changed",
            put.number
        );
        if self.first_change.is_none() && !self.unstable.is_empty() {
            self.first_change = Some(put);
        }
    }

    /// Whether a successful operation that always changes something has noted it.
    fn has_noted(&self, stable: Stable) -> bool {
        let is_needed = matches!(stable, Stable::Names | Stable::File);
        !self.is_in_stable_share() || !is_needed || !self.unstable.is_empty()
    }

    /// Waits until the changes of the request are on stable storage. On failure the first changing
    /// operation fails, and the later results are dropped.
    async fn make_stable(&mut self, answer: &mut ReplyBuffer, results: &mut Results) {
        let Some(change) = self.first_change.take() else { return };
        let unstable = std::mem::take(&mut self.unstable);
        if let Err(error) = self.files.make_stable(unstable).await {
            tracing::error!(%error, "cannot flush changes to stable storage: the request fails, and a power loss may take them");
            answer.file = None;
            results.end_put(answer, change, Err(status_of(error)));
        }
    }

    /// Name of the share of the current file handle.
    pub fn share_name(&self) -> String {
        match &self.current {
            Some(Place::Object(place)) => String::from_utf8_lossy(&place.export.name).into_owned(),
            _ => String::new(),
        }
    }

    /// Meter entry of an operation that began in the share `before`.
    fn end_of(
        &self,
        api: Api,
        status: NfsStatus,
        before: ShareId,
        bytes: (u64, u64),
    ) -> OperationEnd {
        let share = if self.share() == ShareId::NONE { before } else { self.share() };
        OperationEnd { api, status, throttled: self.throttled, share, bytes }
    }

    /// The share of the current file handle.
    fn share(&self) -> ShareId {
        match &self.current {
            Some(Place::Object(place)) => place.export.counted,
            _ => ShareId::NONE,
        }
    }

    /// Identifies this request in a recall, which may overtake the reply. RFC 8881 2.10.6.3.
    pub fn referring(&self) -> Option<ReferringCalls> {
        let SequenceArgs { session_id, sequence_id, slot_id, .. } = self.sequence?;
        Some(ReferringCalls {
            session_id,
            calls: List(vec![ReferringCall { sequence_id, slot_id }]),
        })
    }

    /// The file layer in the context of this request.
    pub fn files(&self) -> &RequestFiles {
        &self.files
    }

    pub fn server(&self) -> &'c Arc<Server> {
        &self.call.server
    }

    /// The client of the session.
    pub fn client(&self) -> Result<Arc<Client>, NfsStatus> {
        let session = self.session.as_ref().ok_or(NfsStatus::OP_NOT_IN_SESSION)?;
        Ok(session.client.clone())
    }

    /// The current file handle.
    pub fn place(&mut self) -> Result<&mut Place, NfsStatus> {
        self.current.as_mut().ok_or(NfsStatus::NOFILEHANDLE)
    }

    /// The current file handle in a share.
    pub fn object_place(&mut self) -> Result<&mut ObjectPlace, NfsStatus> {
        match self.place()? {
            Place::Pseudo(_) => Err(NfsStatus::ROFS),
            Place::Object(place) => Ok(place),
        }
    }

    /// The object of the current file handle, and the caller. ROFS for a pseudo directory, in which
    /// nothing can change.
    pub async fn object(&mut self) -> Result<(Object, Arc<Caller>), NfsStatus> {
        let files = self.files.clone();
        let place = self.object_place()?;
        let object = place.object(&files).await?;
        let export = place.export.clone();
        Ok((object, self.caller(&export)))
    }

    /// The caller's identity on a share.
    pub fn caller(&self, export: &Export) -> Arc<Caller> {
        let Call { server, conn, credentials, .. } = self.call;
        // A client for which the share has no terms any more is anonymous and reaches nothing else.
        let anonymous = ExportTerms { squash: Squash::All, ..export.terms };
        let terms = export.terms_of(conn.facts.peer.ip()).unwrap_or(anonymous);
        conn.callers.get(&*server.host, &terms, credentials)
    }

    /// Whether the operation would change something in a share that is read-only for this client.
    pub fn is_refused_as_read_only(&self, operation: &Operation<'_>) -> bool {
        let Some(Place::Object(place)) = &self.current else { return false };
        changes_files(operation) && place.export.is_read_only(self.call.conn.facts.peer.ip())
    }

    /// The saved file handle.
    pub fn saved_place(&self) -> Option<&Place> {
        self.saved.as_ref().map(|(place, _)| place)
    }

    /// The object of the saved file handle, and its share.
    pub async fn saved_object(&mut self) -> Result<(Object, Arc<Export>), NfsStatus> {
        let (place, _) = self.saved.as_mut().ok_or(NfsStatus::NOFILEHANDLE)?;
        match place {
            Place::Pseudo(_) => Err(NfsStatus::ROFS),
            Place::Object(place) => Ok((place.object(&self.files).await?, place.export.clone())),
        }
    }

    /// The open that the current file handle and a state id refer to. It must grant one of
    /// `rights`, and the caller must have them now.
    pub fn open_by(&mut self, id: &StateId, rights: Rights) -> Result<HeldOpen, NfsStatus> {
        Ok(self.open_and_caller(id, rights)?.0)
    }

    /// As [`Run::open_by`], with the caller.
    pub fn open_and_caller(
        &mut self,
        id: &StateId,
        rights: Rights,
    ) -> Result<(HeldOpen, Arc<Caller>), NfsStatus> {
        let files = self.files().clone();
        let handle = self.place()?.handle(&files)?;
        let held = open_behind(&*self.client()?, id)?;
        if held.handle != handle {
            return Err(NfsStatus::BAD_STATEID);
        }
        if self.is_sampled {
            let path = held.open.path();
            self.sample = Some(String::from_utf8_lossy(path.as_bytes()).into_owned());
        }
        let export = self.object_place()?.export.clone();
        let caller = self.check_open(&held, &export, rights)?;
        Ok((held, caller))
    }

    /// Checks that the open grants one of `rights` and that the caller of this request has them
    /// now. Returns the caller.
    fn check_open(
        &self,
        held: &HeldOpen,
        export: &Export,
        rights: Rights,
    ) -> Result<Arc<Caller>, NfsStatus> {
        if !held.open.granted().intersects(rights) {
            return Err(NfsStatus::OPENMODE);
        }
        let caller = self.caller(export);
        self.files().authorize_by_open(&held.open, &caller, rights).or_status()?;
        Ok(caller)
    }

    /// As [`Run::open_and_caller`], for the saved file handle.
    pub fn saved_open_by(
        &mut self,
        id: &StateId,
        rights: Rights,
    ) -> Result<(HeldOpen, Arc<Caller>), NfsStatus> {
        let files = self.files().clone();
        let (place, _) = self.saved.as_mut().ok_or(NfsStatus::NOFILEHANDLE)?;
        let handle = place.handle(&files)?;
        let Place::Object(ObjectPlace { export, .. }) = place else {
            return Err(NfsStatus::BAD_STATEID);
        };
        let export = export.clone();
        let held = open_behind(&*self.client()?, id)?;
        if held.handle != handle {
            return Err(NfsStatus::BAD_STATEID);
        }
        let caller = self.check_open(&held, &export, rights)?;
        Ok((held, caller))
    }

    /// Sets the current file handle. The current state id becomes void.
    pub fn set_current(&mut self, place: Place) {
        if let (Place::Object(place), Some(session)) = (&place, &self.session) {
            session.client.note_export(place.export.id);
        }
        self.current = Some(place);
        self.current_id = None;
        self.seen = None;
    }

    /// Unsets the current file handle. RFC 8881 2.6.3.1.1.8.
    pub fn unset_current(&mut self) {
        self.current = None;
        self.current_id = None;
    }

    pub fn save(&mut self) -> Result<(), NfsStatus> {
        let place = self.place()?.clone();
        self.saved = Some((place, self.current_id));
        Ok(())
    }

    pub fn restore(&mut self) -> Result<(), NfsStatus> {
        let (place, id) = self.saved.clone().ok_or(NfsStatus::RESTOREFH)?;
        (self.current, self.current_id) = (Some(place), id);
        Ok(())
    }

    /// Resolves the special state ids. RFC 8881 16.2.3.1.2.
    pub fn resolve_id(&self, id: StateId) -> Result<StateId, NfsStatus> {
        let id = match id {
            StateId::CURRENT => self.current_id.ok_or(NfsStatus::BAD_STATEID)?,
            id => id,
        };
        // Two special state ids without state are valid. RFC 8881 8.2.3.
        let may_be_meant = matches!(id, StateId::ANONYMOUS | StateId::READ_BYPASS);
        if id.is_special() && !may_be_meant { Err(NfsStatus::BAD_STATEID) } else { Ok(id) }
    }
}
