//! One connection of a session: the connection task, which owns the socket, and the state that it
//! shares with callers.

use crate::conn::{ClientConn, ReceivedMessage};
use crate::error::Error;
use crate::inbound::{Frame, InboundBytes};
use crate::limits::{CHAIN_MAX, FRAME_BYTES_MAX, VERIFIED_TOGETHER};
use crate::link::SilenceDetector;
use crate::link::is_here;
use crate::low_water::LowWater;
use crate::opener::Opener;
use crate::outbox::{RequestOutbox, SLICES_MAX};
use crate::pool::{BufferPool, PooledBytes};
use crate::request::SmbRequest;
use crate::slots::{ChannelReply, ResponseSlots};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::sync::Notify;

/// Interval between checks of a silent connection.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Weight of a request beside its payload when the least busy channel is chosen.
const REQUEST_WEIGHT_BYTES: u64 = 1024;

/// Facts about a channel, for reports.
#[derive(Clone, Debug)]
pub struct ChannelFacts {
    /// Local address.
    pub local: SocketAddr,
    /// Server address.
    pub remote: SocketAddr,
    /// Number of requests sent.
    pub requests: u64,
    /// Requested and sent payload, in bytes.
    pub bytes: u64,
    /// Available credits.
    pub credits: u32,
}

#[derive(Debug)]
struct ChannelState {
    conn: ClientConn,
    outbox: RequestOutbox,
    slots: ResponseSlots,
    /// Requests that wait for credits, first in, first out.
    starved: VecDeque<Waker>,
    ended: Option<Error>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct ClientChannel {
    local: SocketAddr,
    remote: SocketAddr,
    state: Mutex<ChannelState>,
    /// Signals frames to send, or the end of the connection.
    wake: Notify,
    /// Payload in flight, plus a constant per request.
    busy_bytes: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    pool: Arc<BufferPool>,
}

impl ClientChannel {
    /// Starts the task of an established connection.
    pub(crate) fn start(
        stream: TcpStream,
        conn: ClientConn,
        pool: Arc<BufferPool>,
        patience: Duration,
        on_end: impl FnOnce(Arc<Self>) + Send + 'static,
    ) -> Result<Arc<Self>, Error> {
        let addresses = stream.local_addr().and_then(|l| Ok((l, stream.peer_addr()?)));
        let (local, remote) = addresses.map_err(|e| Error::lost(false, e))?;
        let opener = conn.opener();
        let (outbox, slots) = (RequestOutbox::default(), ResponseSlots::default());
        let state = ChannelState { conn, outbox, slots, starved: VecDeque::new(), ended: None };
        let channel = Arc::new(Self {
            local,
            remote,
            state: Mutex::new(state),
            wake: Notify::new(),
            busy_bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            pool,
        });
        let task = channel.clone();
        tokio::spawn(async move {
            let error = task.run(stream, &opener, patience).await;
            task.end(error);
            on_end(task);
        });
        Ok(channel)
    }

    pub(crate) fn facts(&self) -> ChannelFacts {
        ChannelFacts {
            local: self.local,
            remote: self.remote,
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            credits: self.state.lock().conn.credits(),
        }
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Why the connection ended, if it did.
    pub(crate) fn ended(&self) -> Option<Error> {
        self.state.lock().ended.clone()
    }

    /// The load of this channel for choosing the least busy one: first whether it lacks credits,
    /// then the payload in flight. `None` if the channel ended.
    pub(crate) fn burden(&self, charge: u32) -> Option<(bool, u64)> {
        let state = self.state.lock();
        if state.ended.is_some() {
            return None;
        }
        let lacks = state.conn.credits() < charge || !state.starved.is_empty();
        Some((lacks, self.busy_bytes.load(Ordering::Relaxed)))
    }

    /// Ends the connection; waiting requests receive the error.
    pub(crate) fn end(&self, error: Error) {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(error.clone());
        // Raised before any request in flight here is replayed on another channel. MS-SMB2 3.2.7.1.
        state.conn.session().raise_sequence();
        let mut woken = state.slots.fail_all(&error);
        woken.extend(state.starved.drain(..));
        drop(state);
        self.wake.notify_one();
        woken.into_iter().for_each(Waker::wake);
    }

    /// Sends a chain of requests as one frame, and waits for all responses.
    pub(crate) async fn call(
        &self,
        chain: &[SmbRequest<'_>],
    ) -> Result<[Option<ChannelReply>; CHAIN_MAX], Error> {
        if chain.len() > CHAIN_MAX || chain.is_empty() {
            return Err(Error::Misuse("a chain has at most eight requests"));
        }
        let bytes: usize = chain.iter().map(SmbRequest::payload_bytes).sum();
        let bytes = bytes as u64;
        // Requests without payload are spread over the channels, too.
        let weight = bytes + chain.len() as u64 * REQUEST_WEIGHT_BYTES;
        self.busy_bytes.fetch_add(weight, Ordering::Relaxed);
        let mut call = PendingChain {
            channel: self,
            weight,
            slots: [None; CHAIN_MAX],
            starves: false,
            replies: Default::default(),
        };
        poll_fn(|context| call.poll_send(chain, context)).await?;
        self.requests.fetch_add(chain.len() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        poll_fn(|context| call.poll_answers(context)).await?;
        Ok(std::mem::take(&mut call.replies))
    }

    async fn run(&self, mut stream: TcpStream, opener: &Opener, patience: Duration) -> Error {
        let (mut read, mut write) = stream.split();
        let mut inbound = InboundBytes::new(self.pool.clone(), FRAME_BYTES_MAX);
        let mut sending = RequestOutbox::default();
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut silence = SilenceDetector::new(patience);
        let mut low_water = LowWater::new(is_here(self.local.ip(), self.remote.ip()));
        loop {
            if sending.is_empty() {
                let mut state = self.state.lock();
                if let Some(error) = &state.ended {
                    return error.clone();
                }
                std::mem::swap(&mut sending, &mut state.outbox);
            }
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = sending.slices(&mut slices);
            tokio::select! {
                biased;
                sent = write.write_vectored(&slices[..count]), if count > 0 => match sent {
                    Ok(0) => return Error::lost(true, "nothing can be sent"),
                    Ok(sent) => sending.advance(sent),
                    Err(error) => return Error::lost(true, error),
                },
                count = read.read(inbound.room()) => {
                    silence.handle_received();
                    match count {
                        Ok(0) => return Error::lost(true, "the server closed it"),
                        Ok(count) => inbound.advance(count),
                        Err(error) => return Error::lost(true, error),
                    }
                    if let Err(error) = self.take_frames(&mut inbound, &read, opener) {
                        return error;
                    }
                    low_water.wait_for(inbound.missing(), read.as_ref());
                    if inbound.is_after_large() {
                        // Yields, so that the receiver of this response can send its next request
                        // before more is received.
                        tokio::task::yield_now().await;
                    }
                }
                () = self.wake.notified(), if count == 0 => {}
                _ = look.tick() => {
                    if !silence.is_broken() {
                        low_water.wait_no_more(read.as_ref());
                    }
                    if let Err(why) = silence.look(|| self.is_owed()) {
                        return Error::lost(true, why);
                    }
                }
            }
        }
    }

    /// True if a response is overdue. A request with an interim response may wait indefinitely.
    fn is_owed(&self) -> bool {
        let (outstanding, waiting) = self.state.lock().conn.outstanding();
        outstanding > waiting
    }

    /// Processes the received frames. Frames that are verified in a batch first wait for what the
    /// socket already holds.
    fn take_frames(
        &self,
        inbound: &mut InboundBytes,
        socket: &ReadHalf<'_>,
        opener: &Opener,
    ) -> Result<(), Error> {
        if !opener.verifies_together() {
            while let Some(frame) = inbound.next_frame()? {
                self.take_frame(frame, None, opener)?;
            }
            return Ok(());
        }
        let mut frames = Vec::new();
        loop {
            while let Some(frame) = inbound.next_frame()? {
                frames.push(frame);
            }
            if frames.is_empty() || frames.len() >= VERIFIED_TOGETHER {
                break;
            }
            // The next read reports an error or the end again.
            match socket.try_read(inbound.room()) {
                Ok(count) if count > 0 => inbound.advance(count),
                _ => break,
            }
        }
        let good = opener.verify_together(&mut frames);
        frames
            .into_iter()
            .zip(good)
            .try_for_each(|(frame, good)| self.take_frame(frame, good, opener))
    }

    fn take_frame(&self, frame: Frame, good: Option<bool>, opener: &Opener) -> Result<(), Error> {
        let Frame { mut buffer, length } = frame;
        // A response that fills the frame takes over its buffer. Responses of a chain are short and
        // copied.
        let mut last = None;
        let opened = opener.open(&mut buffer[..length], good, |bytes, message| {
            let taken = self.state.lock().conn.take(&message)?;
            let (ReceivedMessage::Answer(token) | ReceivedMessage::Interim(token)) = taken else {
                return Ok(());
            };
            if let ReceivedMessage::Interim(_) = taken {
                self.feed();
                return Ok(());
            }
            if message.header.next_command == 0 {
                last = Some((token, message));
                return Ok(());
            }
            let part = &bytes[message.range.clone()];
            let mut copy = self.pool.take(part.len());
            copy[..part.len()].copy_from_slice(part);
            let data = PooledBytes::new(copy, 0..part.len(), self.pool.clone());
            self.answer(token, ChannelReply { header: message.header, message: data });
            Ok(())
        });
        match last {
            Some((token, message)) => {
                let data = PooledBytes::new(buffer, message.range, self.pool.clone());
                self.answer(token, ChannelReply { header: message.header, message: data });
            }
            None => self.pool.give(buffer),
        }
        opened
    }

    fn answer(&self, token: usize, reply: ChannelReply) {
        let waker = self.state.lock().slots.finish(token, Ok(reply));
        if let Some(waker) = waker {
            waker.wake();
        }
        self.feed();
    }

    /// Credits have arrived: waiting requests try again.
    fn feed(&self) {
        let mut state = self.state.lock();
        let waiting = state.starved.len();
        // Without requests in flight no more credits can arrive, so all waiters must notice.
        let is_last = state.conn.outstanding().0 == 0;
        let fed = if is_last { waiting } else { waiting.min(state.conn.credits() as usize) };
        for _ in 0..fed {
            let Some(waker) = state.starved.pop_front() else { break };
            waker.wake();
        }
    }
}

/// One chain in flight. If it is dropped, its responses are discarded.
struct PendingChain<'a> {
    channel: &'a ClientChannel,
    weight: u64,
    slots: [Option<usize>; CHAIN_MAX],
    starves: bool,
    replies: [Option<ChannelReply>; CHAIN_MAX],
}

impl PendingChain<'_> {
    fn poll_send(
        &mut self,
        chain: &[SmbRequest<'_>],
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        let mut state = self.channel.state.lock();
        let state = &mut *state;
        if let Some(error) = &state.ended {
            return Poll::Ready(Err(unsent(error)));
        }
        let mut tokens = [0; CHAIN_MAX];
        let tokens = &mut tokens[..chain.len()];
        tokens.iter_mut().for_each(|token| *token = state.slots.take());
        let sent = state.conn.send(chain, tokens, &mut state.outbox);
        if !matches!(sent, Ok(true)) {
            tokens.iter().for_each(|token| state.slots.cancel(*token));
        }
        match sent {
            Ok(true) => {
                for (slot, token) in self.slots.iter_mut().zip(tokens) {
                    *slot = Some(*token);
                }
                self.starves = false;
                self.channel.wake.notify_one();
                Poll::Ready(Ok(()))
            }
            Ok(false) => {
                self.starves = true;
                state.starved.push_back(context.waker().clone());
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_answers(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut state = self.channel.state.lock();
        for at in 0..CHAIN_MAX {
            let Some(slot) = self.slots[at] else { continue };
            match state.slots.poll(slot, context.waker()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(result) => {
                    self.slots[at] = None;
                    self.replies[at] = Some(result?);
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for PendingChain<'_> {
    fn drop(&mut self) {
        self.channel.busy_bytes.fetch_sub(self.weight, Ordering::Relaxed);
        let mut state = self.channel.state.lock();
        for slot in self.slots.iter().flatten() {
            state.slots.abandon(*slot);
        }
        // The wake-up may have been meant for another waiter.
        if self.starves
            && let Some(waker) = state.starved.pop_front()
        {
            waker.wake();
        }
    }
}

/// The connection's error, for a request that was not sent.
fn unsent(error: &Error) -> Error {
    match error {
        Error::Lost { why, .. } => Error::Lost { sent: false, why: why.clone() },
        other => other.clone(),
    }
}
