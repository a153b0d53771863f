//! A job: answers the requests of one frame, in order, in one frame. MS-SMB2 3.3.5.2.7, 3.3.4.1.
//!
//! Owns the response buffer, the state that related requests inherit, interim responses, and
//! signing or encryption of the responses.

use crate::commands::dispatch;
use crate::limits::INTERIM_AFTER;
use crate::logon::setup_state::TicketVerdict;
use crate::observe::failure_report;
use crate::observe::metering::{FrameTally, ResponseRecord, response_type, sample_request};
use crate::opens::open::OutstandingRequest;
use crate::outgoing::conn_handle::ConnHandle;
use crate::outgoing::pending::WaitTicket;
use crate::outgoing::transmit::{FrameTransmit, MESSAGE_START, PREFIX, new_buffer};
use crate::request::context::{AsyncReply, HandlerOutcome, Request, ResponseParts};
use crate::request::element::{Element, RelatedState};
use crate::request::session_wait::SessionWait;
use crate::server::SmbServer;
use crate::session::channel::SessionChannel;
use crate::session::negotiation::Negotiation;
use bytes::Bytes;
use files::{CacheGrant, PendingAnswer, RequestFiles, ResidentRange};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use limits::ThrottleReason;
use meter::CompletedRequest;
use smallvec::SmallVec;
use std::future::Future;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Instant;
use wire::codec::Writer;
use wire::crypto::SigningAlgorithm;
use wire::ntstatus::NtStatus;
use wire::smb::{Command, ErrorResponse, Flags, Header, SessionId};

/// The work that answers one frame. The connection task polls it immediately and retains it while
/// it is pending. Dropping it cancels the requests that wait.
pub type FrameJob = Pin<Box<dyn Future<Output = JobOutput> + Send>>;

/// The output of a finished job.
#[derive(Debug, Default)]
pub struct JobOutput {
    /// The response.
    pub transmit: Option<FrameTransmit>,
    /// The session that a request of the frame logged off.
    pub logged_off: Option<SessionId>,
    /// The verdict on a Kerberos ticket, with which a SESSION_SETUP continues.
    pub(crate) ticket_verdict: Option<Box<TicketVerdict>>,
    /// The caching that the response grants; dropped once the response is queued.
    pub granted: SmallVec<[CacheGrant; 1]>,
    /// Defers the breaks that the requests cause for their own client; dropped at the same time.
    pub pending: Option<PendingAnswer>,
}

/// The state of one request until its response is written.
#[derive(Debug, Default)]
struct RequestProgress {
    /// Its entry among the outstanding requests of its open.
    outstanding: Option<OutstandingRequest>,
    /// Its delay by the limits of its share.
    throttled: ThrottleReason,
}

/// The requests of one frame and the response under construction.
pub struct Chain {
    pub(crate) server: Arc<SmbServer>,
    /// The file layer, bound to this frame's request context.
    pub(crate) files: RequestFiles,
    pub(crate) shared: Arc<ConnHandle>,
    pub(crate) negotiated: Arc<Negotiation>,
    pub(crate) frame: Bytes,
    pub(crate) elements: SmallVec<[Element; 1]>,
    /// The channel whose key decrypted the frame.
    pub(crate) sealed: Option<Arc<SessionChannel>>,
    pub(crate) out: Vec<u8>,
    /// Arrival time of the frame.
    pub(crate) now: Instant,
    pub(crate) tally: FrameTally,
}

/// Byte range of a response in the buffer, and the channel whose key signs it.
type UnsignedReply = (Range<usize>, Option<Arc<SessionChannel>>);

/// Responses in the buffer that are not signed yet.
struct UnsignedReplies {
    replies: SmallVec<[UnsignedReply; 1]>,
    /// Their metering records.
    counted: SmallVec<[ResponseRecord; 1]>,
    /// End of the last response before its padding for the next one.
    bare_end: usize,
    seal_with: Option<Arc<SessionChannel>>,
    file: Option<ResidentRange>,
}

impl UnsignedReplies {
    /// An empty set with room for `count` responses.
    fn of(seal_with: Option<Arc<SessionChannel>>, count: usize) -> Self {
        Self {
            replies: SmallVec::with_capacity(count),
            counted: SmallVec::with_capacity(count),
            bare_end: 0,
            seal_with,
            file: None,
        }
    }
}

impl Chain {
    /// Answers every request in order.
    #[expect(clippy::manual_async_fn, reason = "a function keeps its arguments twice")]
    pub(crate) fn run(mut self) -> impl Future<Output = JobOutput> {
        // An async block stores its captures once; an async function would store its arguments
        // twice. This future is created and moved for each frame.
        async move {
            let pending = PendingAnswer::to(self.files.context());
            let mut finished = self.answer().await;
            finished.pending = Some(pending);
            finished
        }
    }

    async fn answer(&mut self) -> JobOutput {
        let mut related = RelatedState::default();
        let mut finished = JobOutput::default();
        let mut written = UnsignedReplies::of(self.sealed.clone(), self.elements.len());
        for at in 0..self.elements.len() {
            let mut start = self.begin_reply(&mut written);
            let (mut ticket_id, mut progress) = (None, RequestProgress::default());
            let mut result = self.dispatch(at, start, &mut related, &mut progress).await;
            if let Some(rest) = self.rest_of(at, &mut result) {
                let (reply, new_start, id) = self.wait(at, start, rest, &mut written).await;
                (start, ticket_id) = (new_start, id);
                if let Err(status) = reply {
                    self.record_chain_failure(at, status, &mut related);
                }
                result = reply.map(|reply| self.append(reply, &mut related));
            }
            let mut reply = match result {
                Ok(HandlerOutcome::Done(reply)) => reply,
                Ok(HandlerOutcome::Wait(_) | HandlerOutcome::WaitOnSession(_)) => {
                    self.refuse(start, NtStatus::INTERNAL_ERROR)
                }
                Err(status) => {
                    self.report_failure(at, &related, status);
                    self.refuse(start, status)
                }
            };
            let done = self.meter_reply(at, &related, reply.status, progress.throttled);
            drop(progress);
            finished.logged_off = finished.logged_off.or(reply.logged_off);
            finished.granted.extend(reply.granted.take());
            self.end_reply(at, start, reply, ticket_id, done, &mut written);
        }
        if written.replies.len() > 1 {
            // The last response of a compound is padded as well, because clients expect that.
            self.pad_reply(&mut written);
        }
        if !written.replies.is_empty() {
            finished.transmit = Some(self.protect(written));
        }
        finished
    }

    /// Meters the end of request `at`, and samples it.
    fn meter_reply(
        &mut self,
        at: usize,
        related: &RelatedState,
        status: NtStatus,
        throttled: ThrottleReason,
    ) -> CompletedRequest {
        let host = &*self.server.host;
        let response = response_type(status).throttled(throttled);
        let (elements, share) = (&self.elements, related.counted);
        let done = self.tally.count(elements, at, share, response, host.instant());
        let origin = (self.shared.facts, elements[at].header.message_id);
        let meter = self.server.files.meter();
        sample_request(meter, host, origin, related.open.as_deref(), &done);
        done
    }

    fn report_failure(&self, at: usize, related: &RelatedState, status: NtStatus) {
        let element = &self.elements[at];
        let message = &self.frame[element.range.clone()];
        failure_report::report(&self.server, self.shared.facts, element, message, related, status);
    }

    /// Reserves a header at the next 8-byte boundary and links the previous response to it.
    fn begin_reply(&mut self, written: &mut UnsignedReplies) -> usize {
        written.bare_end = written.replies.last().map_or(0, |(previous, _)| previous.end);
        self.pad_reply(written);
        if let Some((previous, _)) = written.replies.last_mut() {
            let next = (previous.end - previous.start) as u32;
            Header::set_next_command(&mut self.out[previous.clone()], next);
        }
        let start = self.out.len();
        self.out.resize(start + Header::LENGTH, 0);
        start
    }

    /// Pads the last response to an 8-byte boundary.
    fn pad_reply(&mut self, written: &mut UnsignedReplies) {
        if let Some((previous, _)) = written.replies.last_mut() {
            let length = (self.out.len() - MESSAGE_START).next_multiple_of(8);
            self.out.resize(MESSAGE_START + length, 0);
            previous.end = self.out.len();
        }
    }

    async fn dispatch(
        &mut self,
        at: usize,
        start: usize,
        related: &mut RelatedState,
        progress: &mut RequestProgress,
    ) -> Result<HandlerOutcome, NtStatus> {
        let element = &self.elements[at];
        let is_related = element.header.flags.contains(Flags::RELATED);
        if !is_related {
            *related = RelatedState::default();
        }
        if let Some(status) = related.refused.or(element.refused) {
            // Requests that depend on a refused request are invalid themselves.
            related.refused = Some(NtStatus::INVALID_PARAMETER);
            return Err(status);
        }
        let mut request = Request {
            server: &self.server,
            files: &self.files,
            negotiated: &self.negotiated,
            shared: &self.shared,
            now: self.now,
            header: &element.header,
            message: &self.frame[element.range.clone()],
            channel: element.channel.as_ref(),
            outstanding: &mut progress.outstanding,
            throttled: &mut progress.throttled,
            related,
            is_related,
            is_single: self.elements.len() == 1,
            is_sealed: self.sealed.is_some(),
            w: Writer::with_origin(&mut self.out, start),
        };
        dispatch::dispatch(&mut request).await
    }

    /// The pending part of a request that must wait.
    fn rest_of(
        &self,
        at: usize,
        result: &mut Result<HandlerOutcome, NtStatus>,
    ) -> Option<SessionWait> {
        let (rest, lasts) = match std::mem::replace(result, Err(NtStatus::PENDING)) {
            Ok(HandlerOutcome::Wait(rest)) => (rest, false),
            Ok(HandlerOutcome::WaitOnSession(rest)) => (rest, true),
            other => {
                *result = other;
                return None;
            }
        };
        let session = self.elements[at].channel.as_ref().filter(|_| lasts);
        let session = session.map(|channel| channel.session.clone());
        Some(SessionWait::new(rest, session, self.server.host.clone()))
    }

    /// Waits for a request that cannot complete yet. For the last of its chain the server sends the
    /// finished responses and an interim response; the final response then begins a new frame.
    async fn wait(
        &mut self,
        at: usize,
        start: usize,
        mut rest: SessionWait,
        written: &mut UnsignedReplies,
    ) -> (Result<AsyncReply, NtStatus>, usize, Option<wire::smb::AsyncId>) {
        if let Some(result) = (&mut rest).now_or_never() {
            return (result, start, None);
        }
        self.files.context().begin_wait();
        // MS-SMB2 3.3.5.2.7: a request of unbounded duration must not block a chain.
        let is_last = at + 1 == self.elements.len();
        let command = self.elements[at].header.command;
        if !is_last && command == Command::CHANGE_NOTIFY {
            return (Err(NtStatus::INTERNAL_ERROR), start, None);
        }
        let shared = self.shared.clone();
        let Some(ticket) = shared.pending.enter(self.elements[at].header.message_id) else {
            return (Err(NtStatus::INSUFFICIENT_RESOURCES), start, None);
        };
        let (mut start, mut async_id) = (start, None);
        if command == Command::CREATE {
            // A client that acknowledges a break at once spares the interim response, and the break
            // precedes it.
            let pause = pin!(self.server.files.pause(INTERIM_AFTER));
            if let Either::Left((result, _)) = select(&mut rest, pause).await {
                return (result, start, None);
            }
        }
        // Windows also sends an interim response for the CREATE that begins a chain.
        if is_last || (at == 0 && command == Command::CREATE) {
            self.send_interim(at, start, &ticket, written);
            start = self.begin_reply(written);
            async_id = Some(ticket.async_id);
        }
        let result = match select(pin!(ticket.cancelled.raised()), rest).await {
            Either::Left((_, rest)) => {
                rest.withdraw();
                Err(NtStatus::CANCELLED)
            }
            Either::Right((result, _)) => result,
        };
        (result, start, async_id)
    }

    /// Sends the finished responses, then STATUS_PENDING for request `at` in a frame of its own:
    /// some clients recognise it only at the start of a frame.
    fn send_interim(
        &mut self,
        at: usize,
        start: usize,
        ticket: &WaitTicket<'_>,
        written: &mut UnsignedReplies,
    ) {
        let mut start = start;
        if let Some((last, _)) = written.replies.last_mut() {
            // No response follows it in its frame any more.
            last.end = written.bare_end;
            self.out.truncate(last.end);
            Header::set_next_command(&mut self.out[last.clone()], 0);
            self.push_ready(written);
            start = self.begin_reply(written);
        }
        let reply = self.refuse(start, NtStatus::PENDING);
        let done = self.tally.meter_interim(&self.elements, at);
        self.end_reply(at, start, reply, Some(ticket.async_id), done, written);
        // The interim response has granted the credits.
        self.elements[at].grant = 0;
        self.push_ready(written);
    }

    /// Sends the finished responses and begins a new frame.
    fn push_ready(&mut self, written: &mut UnsignedReplies) {
        let fresh = UnsignedReplies::of(written.seal_with.clone(), self.elements.len());
        let ready = std::mem::replace(written, fresh);
        let mut transmit = self.protect(ready);
        self.out = new_buffer(Vec::new());
        transmit.sign();
        self.shared.pending.push_interim(transmit);
    }

    /// Signs or encrypts the written responses into one frame.
    fn protect(&mut self, mut written: UnsignedReplies) -> FrameTransmit {
        let counted = std::mem::take(&mut written.counted);
        let out = std::mem::take(&mut self.out);
        let is_bare =
            written.seal_with.is_none() && written.replies.iter().all(|(_, key)| key.is_none());
        let mut transmit = if is_bare {
            protect(out, written)
        } else {
            self.server.files.meter().stages().crypto(|| protect(out, written))
        };
        self.tally.settle(self.server.files.meter(), &counted, &mut transmit);
        transmit
    }

    /// Appends the body of a request that waited.
    fn append(&mut self, reply: AsyncReply, related: &mut RelatedState) -> HandlerOutcome {
        self.out.extend_from_slice(&reply.body);
        if reply.open.is_some() {
            related.open = reply.open;
            related.failed = None;
        }
        HandlerOutcome::Done(reply.reply)
    }

    /// Makes the following requests of the chain fail like their CREATE, also if the CREATE had to
    /// wait.
    fn record_chain_failure(&self, at: usize, status: NtStatus, related: &mut RelatedState) {
        if self.elements[at].header.command == Command::CREATE {
            related.failed = Some(status);
            related.open = None;
        }
    }

    /// Replaces a partial body by an error body.
    fn refuse(&mut self, start: usize, status: NtStatus) -> ResponseParts {
        self.out.truncate(start + Header::LENGTH);
        ErrorResponse::EMPTY.encode(&mut Writer::with_origin(&mut self.out, start));
        ResponseParts::with_status(status)
    }

    fn end_reply(
        &mut self,
        at: usize,
        start: usize,
        reply: ResponseParts,
        async_id: Option<wire::smb::AsyncId>,
        done: CompletedRequest,
        written: &mut UnsignedReplies,
    ) {
        let is_final = reply.status != NtStatus::PENDING;
        let file_bytes = reply.file.as_ref().map_or(0, |file| file.length_bytes);
        let own_bytes = (self.out.len() - start + file_bytes) as u64;
        written.counted.push(ResponseRecord::new(done, own_bytes, is_final));
        let element = &self.elements[at];
        let mut header = element.header.reply(reply.status, element.grant);
        if let Some(id) = async_id {
            header.set_async(id);
        }
        if let Some(tree) = reply.tree_id {
            header.tree_id = tree;
        }
        let session = element.channel.as_ref().map(|c| &c.session);
        let seal = session.is_some_and(|s| s.encrypt_data) || reply.seal;
        if seal && written.seal_with.is_none() {
            written.seal_with = element.channel.clone().filter(|c| c.session.sealing.is_some());
        }
        let must_sign = element.header.flags.contains(Flags::SIGNED)
            || session.is_some_and(|s| s.signing_required);
        // The final response has the same message id, and AES-GMAC derives its nonce from that. A
        // second signature would disclose the key. MS-SMB2 3.1.4.1, 3.3.4.1.1.
        let signer = element.channel.clone().filter(|_| must_sign && is_final);
        if signer.is_some() && written.seal_with.is_none() {
            header.flags = header.flags | Flags::SIGNED;
        }
        header.put(&mut self.out[start..start + Header::LENGTH]);
        written.replies.push((start..self.out.len(), signer));
        written.file = reply.file;
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.tally.meter_unanswered(self.server.files.meter(), &self.elements);
    }
}

/// Encrypts the whole frame, or signs each response in it. A single response for AES-CMAC stays
/// unsigned here, because the outbox signs several together. MS-SMB2 3.3.4.1.1, 3.3.4.1.4.
fn protect(mut out: Vec<u8>, mut written: UnsignedReplies) -> FrameTransmit {
    if let Some(channel) = &written.seal_with
        && let Some(sealing) = &channel.session.sealing
    {
        sealing.seal.seal_in_place(&mut out[PREFIX..], channel.session.id);
        return FrameTransmit::sealed(out);
    }
    if let [(_, Some(channel))] = &mut written.replies[..]
        && channel.signing.algorithm() == SigningAlgorithm::AesCmac
        && written.file.is_none()
    {
        let unsigned = Some(channel.signing.clone());
        return FrameTransmit { unsigned, ..FrameTransmit::plain(out, None) };
    }
    for (range, signer) in written.replies {
        if let Some(key) = signer.as_ref().map(|c| &c.signing) {
            key.sign(&mut out[range]);
        }
    }
    FrameTransmit::plain(out, written.file)
}
