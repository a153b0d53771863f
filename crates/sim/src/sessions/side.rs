//! The server's end of one NFS connection: the connection task around an [`nfs::NfsConn`], with records
//! instead of a socket.

use crate::server_side::Flag;
use bytes::Bytes;
use futures_util::FutureExt;
use nfs::{CallJob, NfsCloseReason, NfsConn, RecordTransmit};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use vfs::FsError;

/// Number of jobs beyond which no record is read.
const JOBS_MAX: usize = 8;
/// Length of a record mark.
const MARK_BYTES: usize = 4;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsServerStep {
    /// Takes the first record, and polls its job for the first time.
    Record,
    /// Polls a woken job.
    Job(usize),
    /// Sends a callback.
    Call,
}

/// The server's end of a connection.
pub struct NfsServerEnd {
    jobs: Vec<(CallJob, Arc<Flag>)>,
    conn: NfsConn,
    /// Received records.
    pub input: VecDeque<Bytes>,
    /// Records to send, without their marks.
    pub output: VecDeque<Bytes>,
}

impl NfsServerEnd {
    /// The end of a newly accepted connection.
    pub fn new(conn: NfsConn) -> Self {
        Self { jobs: Vec::new(), conn, input: VecDeque::new(), output: VecDeque::new() }
    }

    /// All possible next steps.
    pub fn steps(&self) -> Vec<NfsServerStep> {
        let woken = |(at, (_, flag)): (usize, &(CallJob, Arc<Flag>))| {
            flag.is_raised().then_some(NfsServerStep::Job(at))
        };
        let mut steps: Vec<NfsServerStep> =
            self.jobs.iter().enumerate().filter_map(woken).collect();
        if !self.input.is_empty() && self.jobs.len() < JOBS_MAX {
            steps.push(NfsServerStep::Record);
        }
        if self.conn.shared().link.calls.ready().now_or_never().is_some() {
            steps.push(NfsServerStep::Call);
        }
        steps
    }

    /// Performs one step.
    ///
    /// # Errors
    /// [`NfsCloseReason`]: the connection must be closed.
    pub fn step(&mut self, step: NfsServerStep) -> Result<(), NfsCloseReason> {
        match step {
            NfsServerStep::Record => {
                let Some(record) = self.input.pop_front() else { return Ok(()) };
                self.conn.handle_record(record)?;
                while let Some(job) = self.conn.poll_job() {
                    self.poll(job, Arc::default());
                }
            }
            NfsServerStep::Call => {}
            NfsServerStep::Job(at) => {
                let (job, flag) = self.jobs.swap_remove(at);
                flag.lower();
                self.poll(job, flag);
            }
        }
        while let Some(RecordTransmit { buffer, file, .. }) = self.conn.poll_transmit() {
            assert!(file.is_none(), "what is in memory is not sent from a file");
            self.output.push_back(Bytes::copy_from_slice(&buffer[MARK_BYTES..]));
            self.conn.recycle(buffer);
        }
        Ok(())
    }

    fn poll(&mut self, mut job: CallJob, flag: Arc<Flag>) {
        let waker = Waker::from(flag.clone());
        match job.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(finished) => self.conn.handle_finished(finished),
            Poll::Pending => self.jobs.push((job, flag)),
        }
    }

    /// The connection has ended; jobs in progress continue without it.
    pub fn end(self, host: &dyn nfs::NfsHost) {
        for (job, _) in self.jobs {
            host.carry_on(Box::pin(job.map(drop)));
        }
    }
}

/// Description of a failed set-up.
pub fn describe_error(why: FsError) -> String {
    format!("set-up: {why}")
}
