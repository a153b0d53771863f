//! The server's end of one SMB connection: the connection task around an [`SmbConn`], with bytes in and
//! out instead of a socket.

use bytes::BytesMut;
use futures_util::FutureExt;
use smb::{FrameJob, FrameTransmit, HostTime, JobOutput, SmbCloseReason, SmbConn};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;
use wire::wiretap::Wiretap;

/// Length of queued output beyond which no frame is read. Small, so that slow readers matter.
const OUTPUT_BYTES_MAX: usize = 4096;
/// Number of jobs beyond which no frame is read.
const JOBS_MAX: usize = 16;
/// Length of the direct-TCP prefix.
const PREFIX: usize = 4;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmbServerStep {
    /// Takes the first frame, and polls its job for the first time.
    Frame,
    /// Polls a woken job.
    Job(usize),
    /// Sends an unsolicited message to the client.
    Notice,
    /// Retries work whose timeout has expired.
    Timeout,
}

/// Whether work was woken.
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// The flag of work that has not started.
    #[must_use]
    pub fn raised() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    /// True if the work was woken.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Lowers the flag before the work continues.
    pub fn lower(&self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// The server's end of a connection.
pub struct ServerSide {
    // Dropped in the same order as in the server: jobs hold files, which the end of a session in
    // `conn` closes.
    jobs: Vec<(FrameJob, Arc<Flag>)>,
    conn: SmbConn,
    /// Received bytes.
    pub input: VecDeque<u8>,
    /// Bytes to send.
    pub output: VecDeque<u8>,
    /// Observes all sent frames.
    wiretap: Option<Wiretap>,
}

impl ServerSide {
    /// The end of a newly accepted connection.
    #[must_use]
    pub fn new(conn: SmbConn) -> Self {
        let (input, output) = Default::default();
        Self { jobs: Vec::new(), conn, input, output, wiretap: Some(Wiretap::default()) }
    }

    /// Like [`ServerSide::new`] without the wiretap, which retains every message: for memory
    /// measurements.
    #[must_use]
    pub fn without_wiretap(conn: SmbConn) -> Self {
        Self { wiretap: None, ..Self::new(conn) }
    }

    /// All possible next steps.
    #[must_use]
    pub fn steps(&self, now: Instant) -> Vec<SmbServerStep> {
        let woken = |(at, (_, flag)): (usize, &(FrameJob, Arc<Flag>))| {
            flag.is_raised().then_some(SmbServerStep::Job(at))
        };
        let mut steps: Vec<SmbServerStep> =
            self.jobs.iter().enumerate().filter_map(woken).collect();
        if self.reads() && self.frame_length().is_some_and(|l| self.input.len() >= PREFIX + l) {
            steps.push(SmbServerStep::Frame);
        }
        if self.conn.shared().notices.ready().now_or_never().is_some() {
            steps.push(SmbServerStep::Notice);
        }
        if self.due().is_some_and(|due| due <= now) {
            steps.push(SmbServerStep::Timeout);
        }
        steps
    }

    /// The next time at which waiting work must be retried.
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

    /// Performs one step.
    ///
    /// # Errors
    /// [`SmbCloseReason`]: the connection must be closed.
    pub fn step(&mut self, step: SmbServerStep, now: HostTime) -> Result<(), SmbCloseReason> {
        match step {
            SmbServerStep::Frame => self.take_frame(now)?,
            SmbServerStep::Notice => {}
            SmbServerStep::Timeout => {
                self.conn.handle_timeout(now);
                self.poll_new_jobs(now);
            }
            SmbServerStep::Job(at) => {
                let (job, flag) = self.jobs.swap_remove(at);
                flag.lower();
                self.poll(job, flag, now);
            }
        }
        self.collect();
        Ok(())
    }

    fn take_frame(&mut self, now: HostTime) -> Result<(), SmbCloseReason> {
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

    fn poll(&mut self, mut job: FrameJob, flag: Arc<Flag>, now: HostTime) {
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
        while let Some(FrameTransmit { buffer, start, .. }) = self.conn.poll_transmit() {
            self.send(&buffer[start..]);
            self.conn.recycle(buffer);
        }
        while let Some(FrameTransmit { buffer, start, .. }) = self.conn.poll_notice() {
            self.send(&buffer[start..]);
        }
    }

    fn send(&mut self, frame: &[u8]) {
        let wiretap = self.wiretap.as_mut();
        if let Some(Err(reuse)) = wiretap.map(|wiretap| wiretap.observe(&frame[PREFIX..])) {
            // The fiber reports the panic with the seed.
            panic!("{reuse}");
        }
        self.output.extend(frame);
    }
}
