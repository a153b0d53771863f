//! The serving end of one connection: what the server's task does around a
//! [`Conn`], with bytes in and bytes out instead of a socket.

use bytes::BytesMut;
use futures_util::FutureExt;
use smb::{Close, Conn, HostTime, Job, JobOutput, Transmit};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;
use wire::wiretap::Wiretap;

/// Bytes of answers beyond which no more is read. Small, so that slow readers
/// matter.
const OUTPUT_BYTES_MAX: usize = 4096;
/// Jobs beyond which no more is read.
const JOBS_MAX: usize = 16;
/// Bytes of the direct-TCP prefix.
const PREFIX: usize = 4;

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The frame in front is taken, and its job polled for the first time.
    Frame,
    /// A job that was woken is polled.
    Job(usize),
    /// What the client is told unasked is sent.
    Notice,
    /// What waited for a time is tried again.
    Timeout,
}

/// Whether work can go on.
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// Of work that was not begun.
    #[must_use]
    pub fn raised() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    /// Whether it can.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// It goes on now.
    pub fn lower(&self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// The serving end of a connection.
pub struct ServerSide {
    // Dropped in this order, as by the server: jobs hold files, which the end
    // of a session in `conn` closes.
    jobs: Vec<(Job, Arc<Flag>)>,
    conn: Conn,
    /// Bytes that have arrived.
    pub input: VecDeque<u8>,
    /// Bytes to send.
    pub output: VecDeque<u8>,
    /// Listens to all that is sent.
    wiretap: Option<Wiretap>,
}

impl ServerSide {
    /// The end of a connection that was just accepted.
    #[must_use]
    pub fn new(conn: Conn) -> Self {
        let (input, output) = Default::default();
        Self { jobs: Vec::new(), conn, input, output, wiretap: Some(Wiretap::default()) }
    }

    /// The same without the wiretap, which remembers every message: for what measures memory.
    #[must_use]
    pub fn without_wiretap(conn: Conn) -> Self {
        Self { wiretap: None, ..Self::new(conn) }
    }

    /// All that could be done next.
    #[must_use]
    pub fn steps(&self, now: Instant) -> Vec<Step> {
        let woken =
            |(at, (_, flag)): (usize, &(Job, Arc<Flag>))| flag.is_raised().then_some(Step::Job(at));
        let mut steps: Vec<Step> = self.jobs.iter().enumerate().filter_map(woken).collect();
        if self.reads() && self.frame_length().is_some_and(|l| self.input.len() >= PREFIX + l) {
            steps.push(Step::Frame);
        }
        if self.conn.shared().notices.ready().now_or_never().is_some() {
            steps.push(Step::Notice);
        }
        if self.due().is_some_and(|due| due <= now) {
            steps.push(Step::Timeout);
        }
        steps
    }

    /// When something that waits for a time is to be tried again.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.conn.poll_timeout()
    }

    fn reads(&self) -> bool {
        self.output.len() < OUTPUT_BYTES_MAX && self.jobs.len() < JOBS_MAX
    }

    fn frame_length(&self) -> Option<usize> {
        let prefix: Vec<u8> = self.input.iter().take(PREFIX).copied().collect();
        Some(u32::from_be_bytes(prefix.try_into().ok()?) as usize)
    }

    /// Does one step.
    ///
    /// # Errors
    /// [`Close`]: the connection must go.
    pub fn step(&mut self, step: Step, now: HostTime) -> Result<(), Close> {
        match step {
            Step::Frame => self.take_frame(now)?,
            Step::Notice => {}
            Step::Timeout => {
                self.conn.handle_timeout(now);
                self.poll_new_jobs(now);
            }
            Step::Job(at) => {
                let (job, flag) = self.jobs.swap_remove(at);
                flag.lower();
                self.poll(job, flag, now);
            }
        }
        self.collect();
        Ok(())
    }

    fn take_frame(&mut self, now: HostTime) -> Result<(), Close> {
        let length = self.frame_length().unwrap_or(0);
        let frame: Vec<u8> = self.input.drain(..PREFIX + length).skip(PREFIX).collect();
        self.conn.handle_frame(BytesMut::from(&frame[..]), now)?;
        self.poll_new_jobs(now);
        Ok(())
    }

    fn poll_new_jobs(&mut self, now: HostTime) {
        while let Some(job) = self.conn.poll_job() {
            self.poll(job, Arc::default(), now);
        }
    }

    fn poll(&mut self, mut job: Job, flag: Arc<Flag>, now: HostTime) {
        let waker = Waker::from(flag.clone());
        match job.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(finished) => self.finish(finished, now),
            Poll::Pending => self.jobs.push((job, flag)),
        }
    }

    fn finish(&mut self, finished: JobOutput, now: HostTime) {
        self.conn.handle_finished(finished, now);
    }

    fn collect(&mut self) {
        while let Some(Transmit { buffer, start, .. }) = self.conn.poll_transmit() {
            self.send(&buffer[start..]);
            self.conn.recycle(buffer);
        }
        while let Some(Transmit { buffer, start, .. }) = self.conn.poll_notice() {
            self.send(&buffer[start..]);
        }
    }

    fn send(&mut self, frame: &[u8]) {
        let wiretap = self.wiretap.as_mut();
        if let Some(Err(reuse)) = wiretap.map(|wiretap| wiretap.observe(&frame[PREFIX..])) {
            // The fiber reports it with the seed.
            panic!("{reuse}");
        }
        self.output.extend(frame);
    }
}
