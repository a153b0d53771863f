//! COMPOUND: the order of operations, their sizes, and cached replies. RFC 8881 2.10.6, 16.2.

use crate::clients::session::{NfsSession, Permit, RequestStart, SequenceRequest};
use crate::clients::slot::Fingerprint;
use crate::limits::CHANGE_REPLY_BYTES;
use crate::observe::audit;
use crate::observe::metering::{CompoundTally, OperationEnd};
use crate::ops;
use crate::request::operations::{counted_as, is_change};
use crate::request::reply::{JobResult, PostReplyWork, ReplyBuffer, ResultMark, ResultsBuilder};
use crate::request::run::{CompoundCall, CompoundRun};
use bytes::Bytes;
use files::{CacheGrant, ClientProtocol, PendingAnswer, RequestContext};
use meter::{Api, NfsOperation};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use wire::nfs::compound::{BadOperation, Compound};
use wire::nfs::ops::{Operation, SequenceArgs, SequenceResult, SequenceStatusFlags};
use wire::nfs::rpc::{AcceptStatus, OpaqueAuth, ReplyBody, RpcReply};
use wire::nfs::xdr::XdrReader;
use wire::nfs::{NfsStatus, OperationNumber};

/// Bytes to leave free for a refusal: number and status, and for SETATTR an empty bitmap.
const REFUSAL_BYTES: usize = 12;

/// Executes a call.
pub(crate) async fn run(mut call: CompoundCall) -> JobResult {
    let is_sampled = call.server.files.meter().is_sampled();
    let mut tally = CompoundTally::new(call.arrival, &call.credentials, is_sampled);
    let mut finished = call.answer(&mut tally).await;
    let egress_bytes = finished.transmit.length_bytes() as u64;
    let by = (call.conn.link.facts, call.xid);
    let (meter, host) = (call.server.files.meter(), &*call.server.host);
    tally.settle((meter, host), by, egress_bytes, &mut finished.transmit.sent);
    finished
}

impl CompoundCall {
    async fn answer(&mut self, tally: &mut CompoundTally) -> JobResult {
        let mut answer = ReplyBuffer::new(self.xid, std::mem::take(&mut self.buffer));
        let arguments = self.arguments.clone();
        let Ok(mut compound) = Compound::decode(&mut XdrReader::new(&arguments)) else {
            return self.reply_garbage(answer);
        };
        self.server.stats.compounds.fetch_add(1, Ordering::Relaxed);
        let mut results = ResultsBuilder::begin(&mut answer, &compound.tag);
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
        results: &mut ResultsBuilder,
    ) {
        let operation = match first {
            Ok(operation) => operation,
            Err(BadOperation { number, status }) => return results.fail(answer, number, status),
        };
        let number = operation.number();
        let is_alone = compound.operation_count == 1;
        // These operations concern no files, except the opens of ended clients.
        let files = self.server.files.for_server_charged(self.holder());
        let run = &mut CompoundRun::new(self, compound.minor_version, None, self.now(), files);
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
        mut results: ResultsBuilder,
        tally: &mut CompoundTally,
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
        let context = RequestContext::new(ClientProtocol::Nfs, client.tag(), patience, self.order);
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
    ) -> Result<(Arc<NfsSession>, RequestStart), NfsStatus> {
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
            is_sealed: self.conn.link.is_under_tls(),
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
        results: &mut ResultsBuilder,
        tally: &mut CompoundTally,
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
        let mut run =
            CompoundRun::new(self, compound.minor_version, Some(session.clone()), now, files);
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
            answer.is_uncached = is_last && !sequence.cache_this && !self.conn.link.is_under_tls();
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
                self.report_refused(&run, session, number, results.status);
            }
        }
        run.make_stable(answer, results).await;
        tally.path = run.sample.take();
        run.grants
    }

    fn report_refused(
        &self,
        run: &CompoundRun<'_>,
        session: &NfsSession,
        number: OperationNumber,
        status: NfsStatus,
    ) {
        let by = (&session.id, || run.share_name());
        audit::denied(self.server.files.meter(), &self.origin(), by, (number, status));
        let facts = self.conn.link.facts;
        let request = format_args!("{}.{}", facts.id, self.xid);
        tracing::debug!(peer = %facts.peer, %request, ?number, ?status, "operation refused");
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

fn sequence_result(session: &NfsSession, args: &SequenceArgs) -> SequenceResult {
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
fn status_flags(session: &NfsSession) -> SequenceStatusFlags {
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
