//! One connection: the task that owns its socket and drives its [`Conn`].
//!
//! Requests that arrive together are parsed from one receive; what can be
//! answered at once is answered in this task; answers that are ready together
//! leave in one system call. Knows nothing of SMB but the 4-byte prefix.

use crate::smb_output::Output;
use bytes::{Buf, BytesMut};
use futures_util::stream::{FuturesUnordered, StreamExt};
use smb::{Close, Conn, Host, Job};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;

/// Room for one receive.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Receive buffers that one thread keeps for whoever wakes next.
const SPARE_BUFFERS_MAX: usize = 8;
/// A connection must log on within this time.
const LOGON_WITHIN: Duration = Duration::from_secs(30);
/// A frame that has begun must go on, and an answer must be taken, within this time.
const STALL_MAX: Duration = Duration::from_secs(60);
/// Answers that may wait for a slow reader before no more requests are taken.
const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Requests under way before no more are taken.
const JOBS_MAX: usize = 1024;
/// Bytes of the direct-TCP prefix.
const PREFIX: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// Why a connection ended.
#[derive(Debug)]
pub enum End {
    /// The client closed it.
    Closed,
    /// The client sent what no client sends.
    Protocol(Close),
    /// The client was too slow.
    Slow(&'static str),
    /// The network failed.
    Network(io::Error),
}

/// A connection being served.
pub struct SmbTask {
    stream: TcpStream,
    conn: Conn,
    host: Arc<dyn Host>,
    input: BytesMut,
    output: Output,
    jobs: FuturesUnordered<Job>,
    opened: Instant,
    /// When bytes last moved while something was incomplete.
    progress: Instant,
}

/// Receives once. An idle connection has no buffer: it takes one when there is
/// something to read. A read that does not fill it shows that the socket is
/// empty, so none is tried in vain.
async fn receive(
    reader: &mut ReadHalf<'_>,
    input: &mut BytesMut,
    wanted: usize,
) -> io::Result<usize> {
    if input.capacity() == 0 {
        reader.readable().await?;
        *input = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
    }
    let missing = wanted.saturating_sub(input.len()).max(PREFIX);
    input.reserve(missing.max(RECEIVE_BYTES - RECEIVE_BYTES / 4));
    reader.read_buf(input).await
}

impl SmbTask {
    /// A task for a connection that was just accepted.
    pub fn new(stream: TcpStream, conn: Conn, host: Arc<dyn Host>) -> Self {
        let now = host.now().instant;
        Self {
            stream,
            conn,
            host,
            input: BytesMut::new(),
            output: Output::default(),
            jobs: FuturesUnordered::new(),
            opened: now,
            progress: now,
        }
    }

    /// Serves until the connection ends.
    pub async fn run(mut self) -> End {
        loop {
            if let Err(end) = self.step().await {
                return end;
            }
        }
    }

    /// Waits for one thing to happen and does all that follows from it.
    async fn step(&mut self) -> Result<(), End> {
        let reads = self.output.len_bytes() < OUTPUT_BYTES_MAX && self.jobs.len() < JOBS_MAX;
        let writes = !self.output.is_empty();
        let deadline = self.deadline();
        // A frame that has begun gets a buffer of its size; its length was
        // checked against what this client may send.
        let wanted = self.frame_length()?.map_or(RECEIVE_BYTES, |length| length + PREFIX);
        let (mut reader, writer) = self.stream.split();
        let writable = writer.writable();
        let timer = async {
            match deadline {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(finished) = self.jobs.next(), if !self.jobs.is_empty() => {
                let now = self.host.now();
                self.conn.handle_finished(finished, now);
            }
            received = receive(&mut reader, &mut self.input, wanted), if reads => {
                if received.map_err(End::Network)? == 0 {
                    return Err(End::Closed);
                }
                self.take_frames().await?;
            }
            ready = writable, if writes => {
                ready.map_err(End::Network)?;
                self.progress = self.host.now().instant;
            }
            () = timer, if deadline.is_some() => self.handle_timeout()?,
        }
        self.send().map_err(End::Network)?;
        self.release();
        Ok(())
    }

    /// Length of the frame at the front, if its prefix is there.
    fn frame_length(&self) -> Result<Option<usize>, End> {
        let Some(&prefix) = self.input.first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_be_bytes(prefix) as usize;
        if prefix[0] != 0 || length > self.conn.frame_length_max() {
            return Err(End::Protocol(Close::Garbage("frame length")));
        }
        Ok(Some(length))
    }

    /// Hands over all frames that are complete, and starts what they ask for.
    async fn take_frames(&mut self) -> Result<(), End> {
        let now = self.host.now();
        while let Some(length) = self.frame_length()? {
            if self.input.len() < PREFIX + length {
                break;
            }
            self.input.advance(PREFIX);
            let frame = self.input.split_to(length);
            self.conn.handle_frame(frame, now).map_err(End::Protocol)?;
            while let Some(mut job) = self.conn.poll_job() {
                // Now, if it can be answered now; else later.
                match poll_fn(|cx| Poll::Ready(job.as_mut().poll(cx))).await {
                    Poll::Ready(finished) => self.conn.handle_finished(finished, now),
                    Poll::Pending => self.jobs.push(job),
                }
            }
        }
        self.progress = now.instant;
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        while let Some(transmit) = self.conn.poll_transmit() {
            self.output.push(transmit);
        }
        if self.output.is_empty() {
            return Ok(());
        }
        self.output.flush(&self.stream, &mut self.conn)
    }

    /// Lets go of buffers when there is nothing to do.
    fn release(&mut self) {
        if !self.input.is_empty() || !self.jobs.is_empty() || !self.output.is_empty() {
            return;
        }
        let buffer = std::mem::take(&mut self.input);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_BUFFERS_MAX && buffer.capacity() > 0 {
                spare.push(buffer);
            }
        });
    }

    /// When something must have happened. None for an idle connection.
    fn deadline(&self) -> Option<Instant> {
        let logon = (!self.conn.is_established()).then_some(self.opened + LOGON_WITHIN);
        let stalled = (!self.input.is_empty() || !self.output.is_empty())
            .then_some(self.progress + STALL_MAX);
        [logon, stalled, self.conn.poll_timeout()].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self) -> Result<(), End> {
        let now = self.host.now();
        self.conn.handle_timeout(now);
        if !self.conn.is_established() && now.instant >= self.opened + LOGON_WITHIN {
            return Err(End::Slow("no logon"));
        }
        let stalled = !self.input.is_empty() || !self.output.is_empty();
        if stalled && now.instant >= self.progress + STALL_MAX {
            return Err(End::Slow("stalled"));
        }
        Ok(())
    }
}
