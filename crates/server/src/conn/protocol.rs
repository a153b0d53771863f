//! The interface between a connection's task and the protocol on that connection.
//!
//! The task owns sockets, buffers and timeouts; a [`Protocol`] interprets messages. All calls are
//! resolved at compile time, so a connection pays for no indirect calls.

use bytes::BytesMut;
use files::ResidentRange;
use limits::LedgerHolder;
use meter::{Arrival, SentReply};
use smallvec::SmallVec;
use smb::HostTime;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use vfs::ArrivalOrder;

/// Reason for which a connection ended.
#[derive(Debug)]
pub enum End {
    /// The client closed the connection.
    Closed,
    /// The network failed.
    Network(io::Error),
    /// The client sent data that the protocol does not allow at this point; the text names it.
    Garbage(&'static str),
    /// The client broke a security rule that requires a close; the text names it.
    Refused(&'static str),
    /// A timeout expired; the text names it.
    Slow(&'static str),
    /// An administrator cut the connection.
    Cut,
    /// The connection had no logon and was closed in favour of a site with fewer.
    Displaced,
    /// The server stops.
    Stopped,
}

/// Endpoints of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionEndpoints {
    /// Number of the connection, unique in the process.
    pub id: u64,
    /// The client's address.
    pub peer: SocketAddr,
    /// The server's address.
    pub local: SocketAddr,
}

/// One message to send: `buffer[start..]`, then the file's bytes if there are any.
#[derive(Debug)]
pub struct OutgoingMessage {
    /// The message from `start` on, including its framing.
    pub buffer: Vec<u8>,
    /// Number of unused bytes before the message.
    pub start: usize,
    /// Bytes to send from a file after the buffer.
    pub file: Option<ResidentRange>,
    /// The requests that the message answers, for the statistics after it was sent.
    pub sent: SmallVec<[SentReply; 2]>,
}

impl OutgoingMessage {
    /// Length of the message on the wire, in bytes.
    pub fn length_bytes(&self) -> usize {
        self.buffer.len() - self.start + self.file.as_ref().map_or(0, |file| file.length_bytes)
    }
}

/// The framing of messages in a byte stream.
pub trait Framing: Send + 'static {
    /// Length of the prefix of a message or of its first fragment.
    const PREFIX_BYTES: usize;

    /// Number of bytes of `stream`, which starts with a message, that are needed before another
    /// call can make progress. If they are all present, they are one whole message with its
    /// framing.
    ///
    /// # Errors
    /// The defect, if the stream cannot continue or the message exceeds `message_bytes_max`.
    fn extent(stream: &[u8], message_bytes_max: usize) -> Result<usize, &'static str>;

    /// Removes the framing from a message.
    fn unmark(framed: BytesMut) -> BytesMut;

    /// Offset of a WRITE's data in the message; arbitrary for other messages.
    fn data_at(message: &[u8]) -> usize;
}

/// The state machine of one connection: takes messages, produces jobs and messages.
pub trait Protocol: Sized + Send + 'static {
    /// Name of the protocol for logs.
    const NAME: &'static str;
    /// Log phrase for an expired logon timeout.
    const LOGON: &'static str;
    /// Maximum number of running requests before the task stops reading.
    const JOBS_MAX: usize;
    /// Whether running requests complete after the connection is lost, because the client repeats
    /// them on its next connection. Otherwise they are dropped.
    const OUTLIVES_CONNECTION: bool;

    type Framing: Framing;
    /// State that all connections share.
    type Server: Send + Sync + 'static;
    /// State that the jobs of one connection share.
    type Shared: Send + Sync + 'static;
    /// Answers one message. The task polls it once immediately.
    type Job: Future<Output = Self::Finished> + Unpin + Send + 'static;
    /// Result of a job.
    type Finished: Send;
    /// Outcome of [`Protocol::verify_together`] for one message.
    type Checked: Send;

    /// Creates the state machine of a connection that was just accepted.
    fn new(server: Arc<Self::Server>, facts: ConnectionEndpoints) -> Self;

    /// The state for [`Protocol::notified`].
    fn shared(&self) -> Arc<Self::Shared>;

    /// Returns once a message that answers no request is ready. Cancel safe.
    fn notified(shared: &Self::Shared) -> impl Future<Output = ()> + Send;

    /// Maximum length of the message of which `arrived` is present, in bytes.
    fn message_bytes_max(&self, arrived: &[u8]) -> usize;

    /// Whether a client or user has authenticated.
    fn is_known(&self) -> bool;

    /// Whether it pays to pass messages that arrived together to [`Protocol::verify_together`].
    fn verifies_together(&self) -> bool {
        false
    }

    /// Verifies several messages; each outcome is passed on with its message.
    fn verify_together(&self, messages: &mut [BytesMut]) -> Vec<Option<Self::Checked>> {
        messages.iter().map(|_| None).collect()
    }

    /// Sets arrival time, size and arrival order of the next message.
    fn note_arrival(&mut self, arrival: Arrival, order: ArrivalOrder);

    /// Handles one message.
    ///
    /// # Errors
    /// The connection must close without a reply.
    fn handle_message(
        &mut self,
        message: BytesMut,
        checked: Option<Self::Checked>,
        now: HostTime,
    ) -> Result<(), End>;

    /// Whether the stream continues under TLS after the output that is pending now. Returns true
    /// once.
    fn starts_tls(&mut self) -> bool {
        false
    }

    /// Maximum length of the reply to the job that [`Protocol::poll_job`] returns next.
    fn next_answer_bytes(&self) -> usize;

    /// The account that is charged for the connection's resources; `None` for its address.
    fn holder(&self) -> Option<LedgerHolder> {
        None
    }

    /// The next job to poll.
    fn poll_job(&mut self) -> Option<Self::Job>;

    /// Whether the previous message cancelled jobs whose replies must precede those of later
    /// messages. Returns true once.
    fn take_cancelled(&mut self) -> bool {
        false
    }

    /// Takes a job's result.
    fn handle_finished(&mut self, finished: Self::Finished, now: HostTime);

    /// The next message to send, in order.
    fn poll_transmit(&mut self) -> Option<OutgoingMessage>;

    /// The next notification, if the protocol orders them separately: they follow
    /// [`Protocol::poll_transmit`].
    fn poll_notice(&mut self) -> Option<OutgoingMessage> {
        None
    }

    /// Total length of the messages that [`Protocol::poll_transmit`] holds.
    fn transmit_bytes(&self) -> usize;

    /// Whether the pending messages should be sent before more requests are handled.
    fn is_worth_sending(&self) -> bool {
        false
    }

    /// Number of jobs that wait for other clients; they do not delay the end.
    fn waiting_count(&self) -> usize {
        0
    }

    /// Returns a sent buffer for reuse.
    fn recycle(&mut self, buffer: Vec<u8>);

    /// Frees reusable buffers beyond `bytes_max`; no request is in flight.
    fn trim_buffers(&mut self, bytes_max: usize);

    /// Frees all reusable buffers; the connection is idle.
    fn release_buffers(&mut self);

    /// When [`Protocol::handle_timeout`] is next due.
    fn poll_timeout(&self) -> Option<std::time::Instant> {
        None
    }

    /// Handles timeouts that are due.
    fn handle_timeout(&mut self, now: HostTime) {
        let _ = now;
    }
}
