//! One NFS connection: the task that owns its socket and drives its [`Conn`].
//!
//! Calls that arrive together are parsed from one receive; what can be answered at once is
//! answered in this task; answers that are ready together leave in one system call.
//! Everything a client can make this task hold is bounded in bytes and in time. What is
//! under way when the connection is lost goes on without it: the client will ask for the
//! answer by another one, and must find it.

use crate::alarm::Alarm;
use crate::connections::{Patience, Place};
use crate::limits::{END_WITHIN, NFS_JOBS_MAX, OUTPUT_BYTES_MAX};
use crate::nfs_input::{BadRecord, Input};
use crate::nfs_output::Output;
use futures_util::stream::{FuturesUnordered, StreamExt};
use nfs::{Close, Conn, Host, Job, Shared};
use rustix::net::sockopt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Why a connection ended.
#[derive(Debug)]
pub enum End {
    /// The client closed it.
    Closed,
    /// The network failed.
    Network(io::Error),
    /// The client sent what no client sends.
    Protocol(Close),
    /// The client was too slow.
    Slow(&'static str),
    /// An administrator cut it.
    Cut,
    /// The server stops.
    Stopped,
}

impl From<BadRecord> for End {
    fn from(bad: BadRecord) -> Self {
        Self::Protocol(Close(bad.0))
    }
}

/// A connection being served.
pub struct NfsTask {
    jobs: FuturesUnordered<Job>,
    output: Output,
    conn: Conn,
    shared: Arc<Shared>,
    stream: TcpStream,
    host: Arc<dyn Host>,
    input: Input,
    place: Place,
    alarm: Alarm,
    patience: Patience,
    /// Since when no client has shown who it is; none once one has.
    unknown_since: Option<Instant>,
    /// When the clock was last read.
    clock: Instant,
    /// Since when the client takes nothing of what waits for it.
    stuck_since: Option<Instant>,
    /// Nothing more is read; when what is under way is done, or at the latest
    /// then, the connection ends.
    ending: Option<(End, Instant)>,
}

impl NfsTask {
    /// A task for a connection that was just accepted.
    pub fn new(
        stream: TcpStream,
        conn: Conn,
        host: Arc<dyn Host>,
        place: Place,
        patience: Patience,
    ) -> Self {
        let now = host.now().instant;
        Self {
            stream,
            shared: conn.shared(),
            conn,
            host,
            place,
            input: Input::default(),
            output: Output::default(),
            jobs: FuturesUnordered::new(),
            alarm: Alarm::default(),
            patience,
            unknown_since: Some(now),
            clock: now,
            stuck_since: None,
            ending: None,
        }
    }

    /// Serves until the connection ends.
    pub async fn run(mut self) -> End {
        loop {
            if let Err(end) = self.step().await {
                match end {
                    // The client hears a reset, and none of the answers.
                    End::Cut => {
                        let _ = sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
                    }
                    // The socket takes what is left, or not.
                    _ => {
                        let _ = self.send();
                    }
                }
                self.leave_jobs();
                return end;
            }
        }
    }

    /// What has begun goes to its end.
    fn leave_jobs(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let mut jobs = std::mem::take(&mut self.jobs);
        self.host.carry_on(Box::pin(async move { while jobs.next().await.is_some() {} }));
    }

    /// Waits for one thing to happen and does all that follows from it.
    async fn step(&mut self) -> Result<(), End> {
        // However busy it is.
        if self.place.link().is_cut() {
            return Err(End::Cut);
        }
        let reads = self.reads();
        if reads && self.input.has_record(self.record_bytes_max())? {
            // Put off while there was no room for more answers.
            self.take_records().await?;
        } else {
            self.wait(reads).await?;
        }
        self.send().map_err(End::Network)?;
        self.settle();
        self.end_if_done()
    }

    async fn wait(&mut self, reads: bool) -> Result<(), End> {
        let writes = !self.output.is_empty();
        let room = self.input.room(self.record_bytes_max())?;
        if !reads {
            self.input.unwatch();
        }
        self.alarm.set(self.deadline());
        let (mut reader, writer) = self.stream.split();
        let writable = writer.writable();
        let link = self.place.link();
        tokio::select! {
            biased;
            finished = self.jobs.next(), if !self.jobs.is_empty() => {
                self.clock = self.host.now().instant;
                if let Some(finished) = finished {
                    self.conn.handle_finished(finished);
                }
            }
            received = self.input.receive(&mut reader, room), if reads => {
                let count = received.map_err(End::Network)?;
                link.count_received(count);
                match count {
                    0 => self.end_later(End::Closed),
                    _ => self.take_records().await?,
                }
            }
            ready = writable, if writes => {
                ready.map_err(End::Network)?;
                self.clock = self.host.now().instant;
            }
            // Sent after this step.
            () = self.shared.calls.ready() => self.clock = self.host.now().instant,
            () = self.alarm.rings() => self.handle_timeout()?,
            // A cut is looked at in the next step.
            () = link.stopped(), if self.ending.is_none() => {
                if !link.is_cut() {
                    self.end_later(End::Stopped);
                }
            }
        }
        Ok(())
    }

    /// Bytes that the record at the front may have.
    fn record_bytes_max(&self) -> usize {
        self.conn.record_bytes_max(self.input.front())
    }

    /// Whether there is room for what more calls would bring.
    fn reads(&self) -> bool {
        self.ending.is_none()
            && self.output.len_bytes() + self.conn.transmit_bytes() < OUTPUT_BYTES_MAX
            && self.jobs.len() < NFS_JOBS_MAX
    }

    /// Hands over the records that are complete, and starts what they ask for.
    async fn take_records(&mut self) -> Result<(), End> {
        self.clock = self.host.now().instant;
        self.place.link().set_core(rustix::thread::sched_getcpu());
        while self.reads()
            && let Some(record) = self.input.take_record(self.record_bytes_max())?
        {
            self.conn.handle_record(record).map_err(End::Protocol)?;
            self.start_jobs().await;
        }
        self.input.watch(self.clock);
        Ok(())
    }

    async fn start_jobs(&mut self) {
        while let Some(mut job) = self.conn.poll_job() {
            // Now, if it can be answered now; else later.
            match poll_fn(|cx| Poll::Ready(job.as_mut().poll(cx))).await {
                Poll::Ready(finished) => self.conn.handle_finished(finished),
                Poll::Pending => self.jobs.push(job),
            }
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while let Some(record) = self.conn.poll_transmit() {
            self.output.push(record);
        }
        if self.output.is_empty() {
            return Ok(());
        }
        let sent = self.output.flush(&self.stream)?;
        self.place.link().count_sent(sent);
        if self.output.is_empty() {
            self.stuck_since = None;
        } else if sent > 0 || self.stuck_since.is_none() {
            self.stuck_since = Some(self.clock);
        }
        Ok(())
    }

    fn settle(&mut self) {
        if self.unknown_since.is_some() && self.conn.is_known() {
            self.unknown_since = None;
            self.place.set_known(true);
        }
        self.input.release();
    }

    fn end_later(&mut self, end: End) {
        // What is answered to a client that is gone goes to its next connection.
        let within = if matches!(end, End::Closed) { Duration::ZERO } else { END_WITHIN };
        self.ending = Some((end, self.host.now().instant + within));
    }

    fn end_if_done(&mut self) -> Result<(), End> {
        let done = self.output.is_empty() && self.jobs.is_empty();
        match self.ending.take() {
            Some((end, _)) if done || matches!(end, End::Closed) => Err(end),
            ending => {
                self.ending = ending;
                Ok(())
            }
        }
    }

    /// When something must have happened. None for an idle connection.
    fn deadline(&self) -> Option<Instant> {
        let due = [
            self.unknown_since.map(|since| since + self.patience.logon),
            self.input.deadline(self.patience.stall),
            self.stuck_since.map(|since| since + self.patience.stall),
            self.ending.as_ref().map(|(_, due)| *due),
        ];
        due.into_iter().flatten().min()
    }

    /// The alarm rang; it may have been set for what has happened meanwhile.
    fn handle_timeout(&mut self) -> Result<(), End> {
        let now = self.host.now().instant;
        self.clock = now;
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if is_due(self.unknown_since.map(|since| since + self.patience.logon)) {
            return Err(End::Slow("no client has shown who it is"));
        }
        if is_due(self.input.deadline(self.patience.stall)) {
            return Err(End::Slow("record not completed"));
        }
        if is_due(self.stuck_since.map(|since| since + self.patience.stall)) {
            return Err(End::Slow("answers not taken"));
        }
        if let Some((end, _)) = self.ending.take_if(|(_, due)| *due <= now) {
            return Err(end);
        }
        Ok(())
    }
}
