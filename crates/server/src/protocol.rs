//! What the task of a connection asks of the protocol that is spoken on it.
//!
//! The task owns sockets, buffers and patience; a [`Protocol`] owns what messages mean.
//! Everything here is known to the compiler: a connection costs no indirect call more than
//! a task of its own kind would.

use bytes::BytesMut;
use files::ResidentRange;
use limits::Holder;
use meter::{Arrival, Sent};
use smallvec::SmallVec;
use smb::Now;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use vfs::ArrivalOrder;

/// Why a connection ended.
#[derive(Debug)]
pub enum End {
    /// The client closed it.
    Closed,
    /// The network failed.
    Network(io::Error),
    /// The client sent what the protocol does not allow at this point; what it was.
    Garbage(&'static str),
    /// The client broke a security rule for which the protocol closes.
    Refused(&'static str),
    /// The client was too slow.
    Slow(&'static str),
    /// An administrator cut it.
    Cut,
    /// Nobody had logged on, and one from where there are fewer took its place.
    Displaced,
    /// The server stops.
    Stopped,
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Number of the connection, unique in this process.
    pub id: u64,
    /// Client's address.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
}

/// What is sent as one: `buffer[start..]`, then the file's bytes if there are any.
#[derive(Debug)]
pub struct Outgoing {
    /// The message, from `start` on, with what marks it in the stream.
    pub buffer: Vec<u8>,
    /// Bytes before it are unused.
    pub start: usize,
    /// Bytes to send from a file after the buffer.
    pub file: Option<ResidentRange>,
    /// What it answers, to be counted once it has left.
    pub sent: SmallVec<[Sent; 2]>,
}

impl Outgoing {
    /// Bytes that it has on the wire.
    pub fn length_bytes(&self) -> usize {
        self.buffer.len() - self.start + self.file.as_ref().map_or(0, |file| file.length_bytes)
    }
}

/// How messages are told apart in a stream.
pub trait Framing: Send + 'static {
    /// Bytes in front of a message, or of its first part.
    const PREFIX_BYTES: usize;

    /// How many bytes of `stream`, which begins with a message, must be there before it is worth
    /// looking again. If they are, they are a whole message, with what marks it.
    ///
    /// # Errors
    /// What is wrong, if there is no way on in such a stream, or the message would have more
    /// than `message_bytes_max`.
    fn extent(stream: &[u8], message_bytes_max: usize) -> Result<usize, &'static str>;

    /// The message, without what marks it.
    fn unmark(framed: BytesMut) -> BytesMut;

    /// Where the data of a WRITE begins in such a message; anywhere in others.
    fn data_at(message: &[u8]) -> usize;
}

/// The machine of one connection: messages in, jobs out, messages out.
pub trait Protocol: Sized + Send + 'static {
    /// For people.
    const NAME: &'static str;
    /// What a client that does not do it in time has not done.
    const LOGON: &'static str;
    /// Requests under way before no more are taken.
    const JOBS_MAX: usize;
    /// Whether what has begun goes to its end if the connection is lost, since the client
    /// will ask for the answer by another one. Else it is withdrawn.
    const OUTLIVES_CONNECTION: bool;

    type Framing: Framing;
    /// What all connections share.
    type Server: Send + Sync + 'static;
    /// What jobs of one connection share.
    type Shared: Send + Sync + 'static;
    /// Answers one message. To be polled once at once.
    type Job: Future<Output = Self::Finished> + Unpin + Send + 'static;
    /// What a job leaves behind.
    type Finished: Send;
    /// What is known of a message before it is handled.
    type Checked: Send;

    /// A connection that has just been accepted.
    fn new(server: Arc<Self::Server>, facts: Facts) -> Self;

    /// For [`Protocol::told`].
    fn shared(&self) -> Arc<Self::Shared>;

    /// Returns once there is something that answers nothing. May be dropped at any time.
    fn told(shared: &Self::Shared) -> impl Future<Output = ()> + Send;

    /// Bytes that the message may have of which `arrived` is there.
    fn message_bytes_max(&self, arrived: &[u8]) -> usize;

    /// Whether someone has shown who it is.
    fn is_known(&self) -> bool;

    /// Whether it pays to hand messages that are there together to
    /// [`Protocol::verify_together`].
    fn verifies_together(&self) -> bool {
        false
    }

    /// What is known of each of them, to be handed over with it.
    fn verify_together(&self, messages: &mut [BytesMut]) -> Vec<Option<Self::Checked>> {
        messages.iter().map(|_| None).collect()
    }

    /// Says when and how the message came that is handed over next, and its place among all
    /// that have come.
    fn note_arrival(&mut self, arrival: Arrival, order: ArrivalOrder);

    /// Takes one message.
    ///
    /// # Errors
    /// The connection must go, and nobody is answered.
    fn handle_message(
        &mut self,
        message: BytesMut,
        checked: Option<Self::Checked>,
        now: Now,
    ) -> Result<(), End>;

    /// Whether what follows comes and goes under TLS, behind what is there to be sent now.
    /// Says so once.
    fn starts_tls(&mut self) -> bool {
        false
    }

    /// Bytes that the answer of the job may have that [`Protocol::poll_job`] gives next.
    fn next_answer_bytes(&self) -> usize;

    /// Whom what the connection takes is charged to; none for its address.
    fn holder(&self) -> Option<Holder> {
        None
    }

    /// The next job to poll.
    fn poll_job(&mut self) -> Option<Self::Job>;

    /// Whether the message before has ended jobs that are to be answered before those of later
    /// messages. Says so once.
    fn take_cancelled(&mut self) -> bool {
        false
    }

    /// Takes a job's result.
    fn handle_finished(&mut self, finished: Self::Finished, now: Now);

    /// The next message to send, in order.
    fn poll_transmit(&mut self) -> Option<Outgoing>;

    /// The next message that answers nothing, if those have an order of their own: after
    /// [`Protocol::poll_transmit`].
    fn poll_notice(&mut self) -> Option<Outgoing> {
        None
    }

    /// Bytes that [`Protocol::poll_transmit`] has.
    fn transmit_bytes(&self) -> usize;

    /// Whether they had better leave before more is asked for.
    fn is_worth_sending(&self) -> bool {
        false
    }

    /// Jobs that wait for what other clients do: they do not hold up the end.
    fn waiting_count(&self) -> usize {
        0
    }

    /// Gives a sent buffer back for reuse.
    fn recycle(&mut self, buffer: Vec<u8>);

    /// Lets go of buffers kept for reuse beyond `bytes_max`: nothing is under way.
    fn trim_buffers(&mut self, bytes_max: usize);

    /// Lets go of buffers kept for reuse: the connection is idle.
    fn release_buffers(&mut self);

    /// When [`Protocol::handle_timeout`] is next due.
    fn poll_timeout(&self) -> Option<std::time::Instant> {
        None
    }

    /// Time has passed.
    fn handle_timeout(&mut self, now: Now) {
        let _ = now;
    }
}
