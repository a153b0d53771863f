//! One connection of a session: a task that owns the socket, and the state that
//! it shares with those who ask.

use crate::client::is_here;
use crate::conn::{Conn, Taken};
use crate::error::Error;
use crate::inbound::{Frame, Inbound};
use crate::limits::{CHAIN_MAX, FRAME_BYTES_MAX, VERIFIED_TOGETHER};
use crate::line::Silence;
use crate::low_water::LowWater;
use crate::opener::Opener;
use crate::outbox::{Outbox, SLICES_MAX};
use crate::pool::{Data, Pool};
use crate::request::Request;
use crate::slots::{Reply, Slots};
use crate::sync::lock;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::sync::Notify;

/// How often a silent connection is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What a request weighs beside its payload when the least busy channel is sought.
const REQUEST_WEIGHT_BYTES: u64 = 1024;

/// What a channel is and did, for reports.
#[derive(Clone, Debug)]
pub struct ChannelFacts {
    /// Our end.
    pub local: SocketAddr,
    /// The server's end.
    pub remote: SocketAddr,
    /// Requests sent.
    pub requests: u64,
    /// Bytes of payload asked for and sent.
    pub bytes: u64,
    /// Credits at hand.
    pub credits: u32,
}

#[derive(Debug)]
struct State {
    conn: Conn,
    outbox: Outbox,
    slots: Slots,
    /// Who waits for credits, first come first served.
    starved: VecDeque<Waker>,
    ended: Option<Error>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Channel {
    local: SocketAddr,
    remote: SocketAddr,
    state: Mutex<State>,
    /// There is something to send, or the end has come.
    wake: Notify,
    /// Payload of requests under way, and a little for each.
    busy_bytes: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    pool: Arc<Pool>,
}

impl Channel {
    /// Starts the task of a connection that is set up.
    pub(crate) fn start(
        stream: TcpStream,
        conn: Conn,
        pool: Arc<Pool>,
        patience: Duration,
        on_end: impl FnOnce(Arc<Self>) + Send + 'static,
    ) -> Result<Arc<Self>, Error> {
        let addresses = stream.local_addr().and_then(|l| Ok((l, stream.peer_addr()?)));
        let (local, remote) = addresses.map_err(|e| Error::lost(false, e))?;
        let opener = conn.opener();
        let (outbox, slots) = (Outbox::default(), Slots::default());
        let state = State { conn, outbox, slots, starved: VecDeque::new(), ended: None };
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
            credits: lock(&self.state).conn.credits(),
        }
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Why it ended, if it did.
    pub(crate) fn ended(&self) -> Option<Error> {
        lock(&self.state).ended.clone()
    }

    /// How unfit it is for one more request: first those without credits, then
    /// by what is under way. `None` if it ended.
    pub(crate) fn burden(&self, charge: u32) -> Option<(bool, u64)> {
        let state = lock(&self.state);
        if state.ended.is_some() {
            return None;
        }
        let lacks = state.conn.credits() < charge || !state.starved.is_empty();
        Some((lacks, self.busy_bytes.load(Ordering::Relaxed)))
    }

    /// Ends the connection; whoever waits learns why.
    pub(crate) fn end(&self, error: Error) {
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(error.clone());
        // Before anyone sends again what was under way here.
        state.conn.session().raise_sequence();
        let mut woken = state.slots.fail_all(&error);
        woken.extend(state.starved.drain(..));
        drop(state);
        self.wake.notify_one();
        woken.into_iter().for_each(Waker::wake);
    }

    /// Sends a chain of requests as one frame, and waits for all answers.
    pub(crate) async fn call(
        &self,
        chain: &[Request<'_>],
    ) -> Result<[Option<Reply>; CHAIN_MAX], Error> {
        if chain.len() > CHAIN_MAX || chain.is_empty() {
            return Err(Error::Misuse("a chain has at most eight requests"));
        }
        let bytes: usize = chain.iter().map(Request::payload_bytes).sum();
        let bytes = bytes as u64;
        // Requests without payload spread too.
        let weight = bytes + chain.len() as u64 * REQUEST_WEIGHT_BYTES;
        self.busy_bytes.fetch_add(weight, Ordering::Relaxed);
        let mut call = Call {
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
        let mut inbound = Inbound::new(self.pool.clone(), FRAME_BYTES_MAX);
        let mut sending = Outbox::default();
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut silence = Silence::new(patience);
        let mut low_water = LowWater::new(is_here(self.local.ip(), self.remote.ip()));
        loop {
            if sending.is_empty() {
                let mut state = lock(&self.state);
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
                        // Whoever waited for it asks for the next one before more is received.
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

    /// Whether an answer should have come: requests that wait with the
    /// server's consent may do so for ever.
    fn is_owed(&self) -> bool {
        let (outstanding, waiting) = lock(&self.state).conn.outstanding();
        outstanding > waiting
    }

    /// Takes the frames that are there. Those that are verified together wait for what is in the
    /// socket already.
    fn take_frames(
        &self,
        inbound: &mut Inbound,
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
            // An error or the end is met again by the next read.
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
        // The answer that is the whole frame keeps its buffer; those of a chain
        // get copies, which are short.
        let mut last = None;
        let opened = opener.open(&mut buffer[..length], good, |bytes, message| {
            let taken = lock(&self.state).conn.take(&message)?;
            let (Taken::Answer(token) | Taken::Interim(token)) = taken else { return Ok(()) };
            if let Taken::Interim(_) = taken {
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
            let data = Data::new(copy, 0..part.len(), self.pool.clone());
            self.answer(token, Reply { header: message.header, message: data });
            Ok(())
        });
        match last {
            Some((token, message)) => {
                let data = Data::new(buffer, message.range, self.pool.clone());
                self.answer(token, Reply { header: message.header, message: data });
            }
            None => self.pool.give(buffer),
        }
        opened
    }

    fn answer(&self, token: usize, reply: Reply) {
        let waker = lock(&self.state).slots.finish(token, Ok(reply));
        if let Some(waker) = waker {
            waker.wake();
        }
        self.feed();
    }

    /// Credits came: whoever waits for some tries again.
    fn feed(&self) {
        let mut state = lock(&self.state);
        let waiting = state.starved.len();
        // Once nothing is under way no more come: all learn that.
        let is_last = state.conn.outstanding().0 == 0;
        let fed = if is_last { waiting } else { waiting.min(state.conn.credits() as usize) };
        for _ in 0..fed {
            let Some(waker) = state.starved.pop_front() else { break };
            waker.wake();
        }
    }
}

/// One chain under way; dropped, its answers go nowhere.
struct Call<'a> {
    channel: &'a Channel,
    weight: u64,
    slots: [Option<usize>; CHAIN_MAX],
    starves: bool,
    replies: [Option<Reply>; CHAIN_MAX],
}

impl Call<'_> {
    fn poll_send(
        &mut self,
        chain: &[Request<'_>],
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        let mut state = lock(&self.channel.state);
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
        let mut state = lock(&self.channel.state);
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

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.channel.busy_bytes.fetch_sub(self.weight, Ordering::Relaxed);
        let mut state = lock(&self.channel.state);
        for slot in self.slots.iter().flatten() {
            state.slots.abandon(*slot);
        }
        // It may have been woken in the place of another.
        if self.starves
            && let Some(waker) = state.starved.pop_front()
        {
            waker.wake();
        }
    }
}

/// The same end, for a request that had not left.
fn unsent(error: &Error) -> Error {
    match error {
        Error::Lost { why, .. } => Error::Lost { sent: false, why: why.clone() },
        other => other.clone(),
    }
}
