//! The reply of a COMPOUND: results under construction, limits of size, the finished record.

use crate::limits::MESSAGE_BYTES_MAX;
use crate::observe::metering::RecordReplies;
use files::{CacheGrant, PendingAnswer, ResidentRange};
use wire::nfs::compound::CompoundReply;
use wire::nfs::ops::SetAttrReply;
use wire::nfs::reply::ResultBody;
use wire::nfs::rpc::{begin_record, end_record, put_success};
use wire::nfs::xdr::{ReservedWord, XdrWriter};
use wire::nfs::{NfsStatus, OperationNumber};

/// Typical size of a reply.
const ANSWER_BYTES: usize = 256;

/// Reply buffer with its size limits.
pub(crate) struct ReplyBuffer {
    pub out: Vec<u8>,
    mark: ReservedWord,
    /// Offset of the message, behind the record mark.
    pub message_at: usize,
    /// Offset of the COMPOUND results, which a slot caches.
    pub results_at: usize,
    pub bytes_max: usize,
    /// Bytes that the current operation must leave free, to refuse the next one.
    pub free_bytes: usize,
    /// Status if the reply would exceed the limit.
    pub too_big: NfsStatus,
    /// The reply is not cached, so that data at its end may be sent from the file.
    pub is_uncached: bool,
    /// Data at the end of the reply, sent from the file.
    pub file: Option<ResidentRange>,
}

impl ReplyBuffer {
    pub fn new(xid: u32, mut out: Vec<u8>) -> Self {
        out.clear();
        out.reserve(ANSWER_BYTES);
        let w = &mut XdrWriter::new(&mut out);
        let mark = begin_record(w);
        let message_at = w.position();
        put_success(w, xid);
        let results_at = out.len();
        let bytes_max = MESSAGE_BYTES_MAX as usize;
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
    pub fn finish(mut self) -> JobResult {
        let (mark, file) = (self.mark, self.file.take());
        let beyond_bytes = file.as_ref().map_or(0, |file| file.length_bytes);
        end_record(&mut self.writer(), mark, beyond_bytes);
        let transmit = RecordTransmit { buffer: self.out, file, ..RecordTransmit::default() };
        JobResult { transmit, after: PostReplyWork::default() }
    }
}

/// Results under construction.
pub(crate) struct ResultsBuilder {
    pub reply: CompoundReply,
    pub status: NfsStatus,
}

/// Position of a result, to undo it.
#[derive(Clone, Copy)]
pub(crate) struct ResultMark {
    pub number: OperationNumber,
    pub before: usize,
    pub reply: CompoundReply,
}

impl ResultsBuilder {
    pub fn begin(answer: &mut ReplyBuffer, tag: &[u8]) -> Self {
        let reply = CompoundReply::begin(&mut answer.writer(), tag);
        Self { reply, status: NfsStatus::OK }
    }

    /// Encodes the result of an operation.
    pub fn push<'a>(
        &mut self,
        answer: &mut ReplyBuffer,
        number: OperationNumber,
        result: &impl ResultBody<'a>,
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
    pub fn refuse_if_too_long(&mut self, answer: &mut ReplyBuffer, put: ResultMark) {
        if answer.is_too_long() {
            let too_big = answer.too_big;
            self.end_put(answer, put, Err(too_big));
        }
    }

    pub fn finish(self, answer: &mut ReplyBuffer) {
        self.reply.finish(&mut answer.writer(), self.status);
    }
}

/// Result of a job.
#[derive(Debug)]
pub struct JobResult {
    /// Record to send; an empty one is not sent.
    pub transmit: RecordTransmit,
    pub(crate) after: PostReplyWork,
}

/// Guards that the driver drops once the reply is queued. Then deferred breaks of what the reply
/// granted may go out, and notifications of what the request changed.
#[derive(Debug, Default)]
pub(crate) struct PostReplyWork {
    pub _pending: Option<PendingAnswer>,
    pub _grants: Vec<CacheGrant>,
}

/// A record to send: the buffer with its record mark, then the bytes of the file, if any.
#[derive(Debug, Default)]
pub struct RecordTransmit {
    /// The record, or its head.
    pub buffer: Vec<u8>,
    /// Data to send from a file behind the buffer; the record mark counts it.
    pub file: Option<ResidentRange>,
    /// Replies in the record, which the meter counts once they are sent.
    pub sent: RecordReplies,
}

impl RecordTransmit {
    /// Length on the wire in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.buffer.len() + self.file.as_ref().map_or(0, |file| file.length_bytes)
    }
}
