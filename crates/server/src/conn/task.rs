//! The task of one connection: owns the socket and drives its [`Protocol`].
//!
//! The task parses requests that arrive together from one receive. It answers a request directly if
//! that does not block, and sends replies that are ready together in one system call. All memory
//! and time that a client can make the task hold is bounded. If the protocol sets
//! [`Protocol::OUTLIVES_CONNECTION`], requests in flight continue after the connection is lost.

use crate::conn::alarm::Alarm;
use crate::conn::connections::{ConnectionAdmission, ConnectionTimeouts};
use crate::conn::in_flight::InFlight;
use crate::conn::input::ReceiveBuffer;
use crate::conn::memory::MemoryLease;
use crate::conn::network;
use crate::conn::output::Output;
use crate::conn::protocol::{End, Framing, Protocol};
use crate::conn::threads::ThreadAssignment;
use crate::conn::tls::Tls;
use crate::host::ProcessHost;
use crate::limits::{
    ANSWERS_BYTES_MAX, DOUBT_LASTS, END_WITHIN, FRAME_PROOF_BYTES, FRAMES_QUICK, FRAMES_UNWATCHED,
    GATHERED_BYTES_MAX, GATHERED_FRAMES_MAX, IDLE_AFTER, JOBS_BYTES_MAX, MEMORY_SMALL_BYTES,
    OUTPUT_BYTES_MAX, PAUSE_BYTES_MAX, TURN_MAX,
};
use bytes::BytesMut;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use meter::{Arrival, Meter};
use rustix::net::sockopt;
use smb::{HostTime, SmbHost};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::runtime::Handle;
use vfs::ArrivalOrder;

/// The state of one connection.
pub struct ConnectionTask<P: Protocol> {
    // The fields drop in this order: jobs and replies hold files, which the end of a session in
    // `conn` closes.
    /// Received requests that wait for memory, in order.
    held_back: VecDeque<HeldBack<P::Job>>,
    jobs: InFlight<P::Job>,
    output: Output,
    conn: P,
    shared: Arc<P::Shared>,
    stream: TcpStream,
    /// TLS between the stream and the buffers, if the client started it.
    tls: Option<Box<Tls>>,
    host: Arc<ProcessHost>,
    input: ReceiveBuffer<P::Framing>,
    place: ConnectionAdmission,
    assignment: ThreadAssignment,
    alarm: Alarm,
    patience: ConnectionTimeouts,
    /// Start of the period without a logon; `None` while a user is logged on.
    unknown_since: Option<Instant>,
    /// Time of the last clock reading.
    clock: Instant,
    /// Start of the period in which the client takes no replies.
    stuck_since: Option<Instant>,
    /// End of the period in which the kernel sends frequent keep-alive probes.
    doubted_until: Option<Instant>,
    /// End of this connection's turn; then the other connections of the thread run.
    turn_ends: Instant,
    gives_way: bool,
    /// Time of the last clock reading in this turn, and the number of frames until the next.
    watched: Instant,
    unwatched_frames: u32,
    /// Time of the last request; `None` after the buffers were released.
    used: Option<Instant>,
    /// Position of the last received requests in the arrival order of all connections.
    order: ArrivalOrder,
    /// The connection reads no more and ends when its requests have finished, at the latest at this
    /// time.
    ending: Option<(End, Instant)>,
    /// Memory lease for received requests, running jobs and unsent replies.
    lease: MemoryLease,
    meter: Arc<Meter>,
}

/// A request before its start: its job, its size and the upper bound of its reply.
struct HeldBack<J> {
    job: J,
    bytes: usize,
    answer_bytes: usize,
}

/// Outcome of a task's run on one thread.
pub enum RunOutcome<P: Protocol> {
    /// The connection has ended.
    Ended(End),
    /// The connection continues on the thread that its assignment now refers to.
    Moves(Box<ConnectionTask<P>>),
}

/// Waits for the next finished job. Returns `None` if a job has started to wait and has left an
/// interim reply, which must be sent now.
async fn finished<P: Protocol>(
    jobs: &mut InFlight<P::Job>,
    conn: &mut P,
    output: &mut Output,
) -> Option<P::Finished> {
    poll_fn(|cx| {
        let next = jobs.poll_next(cx);
        let mut interim = false;
        while let Some(message) = conn.poll_transmit() {
            output.push(message);
            interim = true;
        }
        match next {
            Poll::Ready(finished) => Poll::Ready(finished),
            Poll::Pending if interim => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Receives once, through TLS if it is in use.
async fn receive<F: Framing>(
    input: &mut ReceiveBuffer<F>,
    tls: &mut Option<Box<Tls>>,
    reader: &mut ReadHalf<'_>,
    room: usize,
    lease: &mut MemoryLease,
) -> Result<usize, End> {
    match tls {
        None => input.receive(reader, room, lease).await.map_err(End::Network),
        Some(tls) => input.receive_by(tls, (*reader).as_ref(), room, lease).await,
    }
}

impl<P: Protocol> ConnectionTask<P> {
    /// Creates the task of a connection that was just accepted.
    pub fn new(
        stream: TcpStream,
        conn: P,
        host: Arc<ProcessHost>,
        (place, assignment): (ConnectionAdmission, ThreadAssignment),
        patience: ConnectionTimeouts,
        meter: Arc<Meter>,
    ) -> Self {
        let now = SmbHost::now(&*host).instant;
        Self {
            held_back: VecDeque::new(),
            lease: place.lease(),
            stream,
            tls: None,
            shared: conn.shared(),
            conn,
            host,
            place,
            assignment,
            input: ReceiveBuffer::default(),
            output: Output::default(),
            jobs: InFlight::default(),
            alarm: Alarm::default(),
            patience,
            unknown_since: Some(now),
            clock: now,
            stuck_since: None,
            doubted_until: None,
            turn_ends: now + TURN_MAX,
            gives_way: false,
            watched: now,
            unwatched_frames: 0,
            used: None,
            order: ArrivalOrder::next(),
            ending: None,
            meter,
        }
    }

    /// The thread on which the task must run.
    pub fn thread(&self) -> Handle {
        self.assignment.thread()
    }

    /// Serves until the connection ends or moves.
    pub async fn run(mut self: Box<Self>) -> RunOutcome<P> {
        if let Err(error) = self.sit_down() {
            return RunOutcome::Ended(End::Network(error));
        }
        loop {
            if self.assignment.moves() {
                return RunOutcome::Moves(self);
            }
            if let Err(end) = self.step().await {
                self.take_leave(&end);
                return RunOutcome::Ended(end);
            }
        }
    }

    /// Registers the socket and the timer with the present thread's reactor.
    fn sit_down(&mut self) -> io::Result<()> {
        let socket = self.stream.as_fd().try_clone_to_owned()?;
        self.stream = TcpStream::from_std(socket.into())?;
        self.alarm = Alarm::default();
        Ok(())
    }

    fn take_leave(&mut self, end: &End) {
        match end {
            // The client sees a reset and none of the replies.
            End::Cut | End::Displaced => {
                let _ = sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
            }
            // Sends the replies to earlier requests as far as the socket takes them.
            _ => {
                let _ = self.send();
                if let Some(tls) = &mut self.tls {
                    tls.close(&self.stream);
                }
            }
        }
        self.leave_jobs();
    }

    fn now(&self) -> HostTime {
        SmbHost::now(&*self.host)
    }

    /// Hands the running jobs to the host if they must outlive the connection.
    fn leave_jobs(&mut self) {
        if !P::OUTLIVES_CONNECTION || self.jobs.is_empty() {
            return;
        }
        let jobs = std::mem::take(&mut self.jobs);
        // The memory of the jobs stays charged until the last one finishes.
        let mut lease = self.place.lease();
        lease.force(jobs.bytes() + jobs.answer_bytes());
        let finish = async move {
            jobs.finish().await;
            drop(lease);
        };
        SmbHost::carry_on(&*self.host, Box::pin(finish));
    }

    /// Waits for one event and handles all its consequences.
    async fn step(&mut self) -> Result<(), End> {
        if std::mem::take(&mut self.gives_way) {
            tokio::task::yield_now().await;
            self.turn_ends = SmbHost::instant(&*self.host) + TURN_MAX;
        }
        // A displaced or cut connection must notice it even while it is busy.
        if self.place.link().is_displaced() {
            return Err(End::Displaced);
        }
        if self.place.link().is_cut() {
            return Err(End::Cut);
        }
        if self.place.link().take_doubt() {
            network::doubt(&self.stream).map_err(|errno| End::Network(errno.into()))?;
            self.doubted_until = Some(self.now().instant + DOUBT_LASTS);
        }
        poll_fn(|cx| self.begin_held_back(cx)).await;
        let reads = self.reads();
        if reads && self.has_frame()? {
            // A frame was deferred while there was no room for more replies.
            self.take_frames().await?;
        } else {
            self.wait(reads).await?;
        }
        self.send().map_err(End::Network)?;
        self.settle();
        self.end_if_done()
    }

    async fn wait(&mut self, reads: bool) -> Result<(), End> {
        let writes = self.is_sending();
        let has_room = self.has_room_for_input();
        let waits = !has_room || !self.held_back.is_empty();
        let reads = reads && has_room;
        let room = self.input.room(self.message_bytes_max())?;
        if !reads {
            self.input.unwatch();
        }
        self.alarm.set(self.deadline());
        let (mut reader, writer) = self.stream.split();
        let writable = writer.writable();
        let link = self.place.link();
        let freed = waits.then(|| self.lease.freed());
        tokio::select! {
            biased;
            finished = finished(&mut self.jobs, &mut self.conn, &mut self.output), if !self.jobs.is_empty() => {
                let now = self.now();
                self.clock = now.instant;
                self.gives_way = now.instant >= self.turn_ends;
                if let Some(finished) = finished {
                    self.conn.handle_finished(finished, now);
                    poll_fn(|cx| self.start_jobs(0, now, cx)).await;
                }
            }
            received = receive(&mut self.input, &mut self.tls, &mut reader, room, &mut self.lease), if reads => {
                let count = received?;
                link.count_received(count);
                match count {
                    0 => self.end_later(End::Closed),
                    _ => self.take_frames().await?,
                }
            }
            ready = writable, if writes => {
                ready.map_err(End::Network)?;
                self.clock = self.now().instant;
            }
            // The next step starts the deferred requests or receives more.
            _ = OptionFuture::from(freed), if waits => self.clock = self.now().instant,
            // Sent after this step.
            () = P::notified(&self.shared) => self.clock = self.now().instant,
            () = self.alarm.rings() => {
                self.handle_timeout()?;
                // A job that waited for this time may now proceed.
                let now = self.now();
                poll_fn(|cx| self.start_jobs(0, now, cx)).await;
            }
            // The next step handles a cut and a doubt.
            () = link.wait_for_signal(), if self.ending.is_none() => {
                if link.is_stopped() && !link.is_cut() {
                    self.end_later(End::Stopped);
                }
            }
        }
        Ok(())
    }

    /// Whether there is room for more requests.
    fn reads(&self) -> bool {
        self.ending.is_none()
            && self.held_back.is_empty()
            && self.output.len_bytes() + self.conn.transmit_bytes() < OUTPUT_BYTES_MAX
            && self.jobs.len() < P::JOBS_MAX
            && self.jobs.bytes() < JOBS_BYTES_MAX
            && self.jobs.answer_bytes() < ANSWERS_BYTES_MAX
    }

    /// Bytes of charged memory besides those of the input buffer.
    fn under_way_bytes(&self) -> usize {
        let held_back = self.held_back.iter().map(|held| held.bytes).sum::<usize>();
        let answers = self.output.buffer_bytes() + self.conn.transmit_bytes();
        held_back + self.jobs.bytes() + self.jobs.answer_bytes() + answers
    }

    /// Whether the frame at the front may be received completely. This is decided before a large
    /// frame begins, because a half-received frame that waits for memory would block other
    /// connections.
    fn has_room_for_input(&mut self) -> bool {
        let input_bytes = self.input.held_bytes();
        if input_bytes == 0 {
            return true;
        }
        let all = self.under_way_bytes() + input_bytes;
        if !self.input.is_large() || self.input.is_admitted() {
            self.lease.force(all);
        } else if self.lease.covers(all) {
            self.input.admit();
        } else {
            return false;
        }
        true
    }

    /// Maximum length of the message at the front, in bytes.
    fn message_bytes_max(&self) -> usize {
        self.conn.message_bytes_max(self.input.front())
    }

    fn has_frame(&self) -> Result<bool, End> {
        self.input.has_frame(self.message_bytes_max())
    }

    /// Passes complete frames to the protocol and starts their jobs, for [`TURN_MAX`].
    async fn take_frames(&mut self) -> Result<(), End> {
        let now = self.now();
        self.clock = now.instant;
        self.used = Some(now.instant);
        self.assignment.count_turn();
        self.place.link().set_core(rustix::thread::sched_getcpu());
        self.order = ArrivalOrder::next();
        self.turn_ends = now.instant + TURN_MAX;
        (self.watched, self.unwatched_frames) = (now.instant, 0);
        while self.reads() && !self.gives_way {
            if self.conn.verifies_together() {
                let (mut frames, arrivals) = self.gather(now)?;
                if frames.is_empty() {
                    break;
                }
                let checked = self.conn.verify_together(&mut frames);
                for ((frame, checked), arrival) in frames.into_iter().zip(checked).zip(arrivals) {
                    self.conn.note_arrival(arrival, self.order);
                    self.take_frame(frame, checked, now).await?;
                }
            } else {
                let length_max = self.message_bytes_max();
                let Some(frame) = self.input.take_frame(length_max)? else { break };
                self.conn.note_arrival(self.input.arrival(now.instant), self.order);
                self.take_frame(frame, None, now).await?;
            }
            self.gives_way = self.is_turn_over();
        }
        self.input.watch(now.instant);
        Ok(())
    }

    /// Whether the turn is over. The clock is not read after every frame.
    fn is_turn_over(&mut self) -> bool {
        if let Some(left) = self.unwatched_frames.checked_sub(1) {
            self.unwatched_frames = left;
            return false;
        }
        let now = SmbHost::instant(&*self.host);
        let took = now.saturating_duration_since(self.watched);
        self.unwatched_frames = if took < FRAMES_QUICK { FRAMES_UNWATCHED } else { 0 };
        self.watched = now;
        now >= self.turn_ends
    }

    /// Collects several frames, including bytes that are already in the socket.
    fn gather(&mut self, now: HostTime) -> Result<(Vec<BytesMut>, Vec<Arrival>), End> {
        let length_max = self.message_bytes_max();
        let (mut frames, mut arrivals, mut bytes) = (Vec::new(), Vec::new(), 0);
        loop {
            while frames.len() < GATHERED_FRAMES_MAX
                && let Some(frame) = self.input.take_frame(length_max)?
            {
                bytes += frame.len();
                arrivals.push(self.input.arrival(now.instant));
                frames.push(frame);
            }
            let is_enough = frames.len() == GATHERED_FRAMES_MAX || bytes >= GATHERED_BYTES_MAX;
            if frames.is_empty() || is_enough {
                return Ok((frames, arrivals));
            }
            if !self.has_room_for_input() {
                return Ok((frames, arrivals));
            }
            let room = self.input.room(length_max)?;
            let count = self.input.receive_now(&self.stream, room, &mut self.lease);
            if count == 0 {
                return Ok((frames, arrivals));
            }
            self.place.link().count_received(count);
            self.order = ArrivalOrder::next();
        }
    }

    async fn take_frame(
        &mut self,
        frame: BytesMut,
        checked: Option<P::Checked>,
        now: HostTime,
    ) -> Result<(), End> {
        let bytes = frame.len();
        self.conn.handle_message(frame, checked, now)?;
        poll_fn(|cx| self.start_jobs(bytes, now, cx)).await;
        if self.conn.take_cancelled() {
            // A cancel is rare; boxing keeps the future of every idle connection small.
            Box::pin(self.finish_cancelled(now)).await;
        }
        if self.conn.starts_tls() {
            self.start_tls()?;
        }
        if self.conn.is_worth_sending() {
            self.send().map_err(End::Network)?;
        }
        Ok(())
    }

    /// Completes jobs that can end now, for example cancelled ones.
    async fn finish_cancelled(&mut self, now: HostTime) {
        while let Poll::Ready(Some(finished)) =
            poll_fn(|cx| Poll::Ready(self.jobs.poll_next(cx))).await
        {
            self.conn.handle_finished(finished, now);
            poll_fn(|cx| self.start_jobs(0, now, cx)).await;
        }
    }

    /// RFC 9289 4.1: the client waits for the reply, and its next bytes are a TLS ClientHello.
    /// Bytes that arrived earlier were not encrypted and may have been injected.
    fn start_tls(&mut self) -> Result<(), End> {
        self.send().map_err(End::Network)?;
        match self.host.tls() {
            Some(config) if self.output.is_empty() && self.input.is_empty() => {
                self.tls = Some(Box::new(Tls::new(config)?));
                Ok(())
            }
            _ => Err(End::Refused("data arrived before the TLS handshake")),
        }
    }

    /// Starts the jobs of a message of `bytes` bytes. The returned future is ready at once; jobs
    /// that block continue in `jobs`.
    fn start_jobs(&mut self, mut bytes: usize, now: HostTime, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let answer_bytes = self.conn.next_answer_bytes();
            let Some(job) = self.conn.poll_job() else { return Poll::Ready(()) };
            // The first job is charged for the message; all its jobs share one copy in memory.
            let held = HeldBack { job, bytes: std::mem::take(&mut bytes), answer_bytes };
            if self.held_back.is_empty() && self.has_room_for(&held) {
                self.begin(held, now, cx);
            } else {
                self.held_back.push_back(held);
            }
        }
    }

    /// Whether there is memory for a received request and its reply.
    fn has_room_for(&mut self, held: &HeldBack<P::Job>) -> bool {
        let bytes = held.bytes + held.answer_bytes;
        let all = self.under_way_bytes() + self.input.held_bytes() + bytes;
        // A large request waited for memory before it was received. It must not hold that memory
        // and wait for more.
        if held.bytes > FRAME_PROOF_BYTES || bytes <= MEMORY_SMALL_BYTES {
            self.lease.force(all);
            return true;
        }
        self.lease.covers(all)
    }

    /// Starts deferred requests as far as there is memory for them.
    fn begin_held_back(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(held) = self.held_back.pop_front() {
            if !self.has_room_for(&held) {
                self.held_back.push_front(held);
                return Poll::Ready(());
            }
            let now = self.now();
            self.clock = now.instant;
            self.begin(held, now, cx);
            self.collect();
        }
        Poll::Ready(())
    }

    fn begin(&mut self, held: HeldBack<P::Job>, now: HostTime, cx: &mut Context<'_>) {
        let HeldBack { mut job, bytes, answer_bytes } = held;
        // One poll answers the request directly if it does not block.
        match job.poll_unpin(cx) {
            Poll::Ready(finished) => self.conn.handle_finished(finished, now),
            Poll::Pending => self.jobs.push(job, bytes, answer_bytes),
        }
    }

    fn collect(&mut self) {
        while let Some(message) = self.conn.poll_transmit() {
            self.output.push(message);
        }
        while let Some(notice) = self.conn.poll_notice() {
            self.output.push(notice);
        }
    }

    fn send(&mut self) -> io::Result<()> {
        self.collect();
        if !self.is_sending() {
            return Ok(());
        }
        let (stream, conn) = (&self.stream, &mut self.conn);
        let sent = match &mut self.tls {
            None => self.output.flush(stream, conn)?,
            Some(tls) => self.output.flush_by(tls, stream, conn)?,
        };
        self.place.link().count_sent(sent);
        self.count_sent();
        if !self.is_sending() {
            self.stuck_since = None;
        } else if sent > 0 || self.stuck_since.is_none() {
            self.stuck_since = Some(self.clock);
        }
        Ok(())
    }

    /// Counts replies that were just sent. The client confirms the last byte one round trip later,
    /// as far as that time is known.
    fn count_sent(&mut self) {
        let mut sent = self.output.take_sent().peekable();
        if sent.peek().is_none() {
            return;
        }
        let round_trip = self.place.link().round_trip();
        let confirmed = SmbHost::instant(&*self.host) + round_trip;
        for sent in sent {
            let latency = confirmed.saturating_duration_since(sent.first_byte);
            self.meter.record_sent(&sent, latency);
        }
    }

    /// Updates the logon state and releases unused memory.
    fn settle(&mut self) {
        let known = self.conn.is_known();
        if known == self.unknown_since.is_some() {
            self.unknown_since = (!known).then_some(self.clock);
            self.place.set_known(known);
            let holder = self.conn.holder().unwrap_or_else(|| self.place.holder());
            self.lease.charge(&holder);
        }
        self.input.release();
        self.lease.settle(self.under_way_bytes() + self.input.held_bytes());
        if self.used.is_some() && self.is_idle() {
            self.conn.trim_buffers(PAUSE_BYTES_MAX);
        }
    }

    /// Whether some output is unsent.
    fn is_sending(&self) -> bool {
        !self.output.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Whether no request is in flight and nothing is buffered.
    fn is_idle(&self) -> bool {
        self.jobs.is_empty()
            && self.held_back.is_empty()
            && !self.is_sending()
            && self.input.is_empty()
    }

    fn end_later(&mut self, end: End) {
        let within = if Self::is_over(&end) { Duration::ZERO } else { END_WITHIN };
        self.ending = Some((end, self.now().instant + within));
    }

    /// Whether the connection can end at once: the client will fetch outstanding replies through
    /// its next connection.
    fn is_over(end: &End) -> bool {
        P::OUTLIVES_CONNECTION && matches!(end, End::Closed)
    }

    /// Ends the connection once it is finished. Requests that wait for another client do not delay
    /// the end.
    fn end_if_done(&mut self) -> Result<(), End> {
        let is_begun = self.held_back.is_empty();
        let done = is_begun && !self.is_sending() && self.jobs.len() <= self.conn.waiting_count();
        match self.ending.take() {
            Some((end, _)) if done || Self::is_over(&end) => Err(end),
            ending => {
                self.ending = ending;
                Ok(())
            }
        }
    }

    /// The earliest timeout; `None` for an idle connection.
    fn deadline(&self) -> Option<Instant> {
        let due = [
            self.unknown_since.map(|since| since + self.patience.logon),
            self.input.deadline(self.patience.stall),
            self.stuck_since.map(|since| since + self.patience.stall),
            self.used.filter(|_| self.is_idle()).map(|used| used + IDLE_AFTER),
            self.ending.as_ref().map(|(_, due)| *due),
            self.doubted_until,
            self.conn.poll_timeout(),
        ];
        due.into_iter().flatten().min()
    }

    /// Handles all timeouts that are due. The alarm may have been set for an event that has
    /// happened in the meantime.
    fn handle_timeout(&mut self) -> Result<(), End> {
        let now = self.now();
        self.clock = now.instant;
        self.conn.handle_timeout(now);
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now.instant);
        if is_due(self.unknown_since.map(|since| since + self.patience.logon)) {
            return Err(End::Slow(P::LOGON));
        }
        if is_due(self.input.deadline(self.patience.stall)) {
            return Err(End::Slow("message not completed"));
        }
        if is_due(self.stuck_since.map(|since| since + self.patience.stall)) {
            return Err(End::Slow("replies not taken"));
        }
        if let Some((end, _)) = self.ending.take_if(|(_, due)| *due <= now.instant) {
            return Err(end);
        }
        if is_due(self.doubted_until) {
            self.doubted_until = None;
            let watched = network::watch(&self.stream, self.patience.stall);
            watched.map_err(|errno| End::Network(errno.into()))?;
        }
        if self.is_idle() && is_due(self.used.map(|used| used + IDLE_AFTER)) {
            self.used = None;
            self.output = Output::default();
            self.jobs = InFlight::default();
            self.conn.release_buffers();
        }
        Ok(())
    }
}
