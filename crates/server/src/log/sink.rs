//! The output of the log. A thread writes the lines, so that neither a full disk nor a stopped or
//! vanished reader delays a request. Lines that cannot be written are counted.
//!
//! A sink queues lines before it has its thread. The server drops its privileges in between, and an
//! older thread would keep them.

use super::limits::{QUEUE_BYTES_MAX, QUEUE_LINES_MAX};
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use sync::{Mutex, MutexGuard};

/// Name of the writer thread.
pub const THREAD_NAME: &str = "log";

/// Line counters by outcome.
#[derive(Debug, Default)]
pub struct LineCounters {
    /// Lines that could not be written.
    pub dropped: AtomicU64,
    /// Lines that exceeded the bound of their kind.
    pub suppressed: AtomicU64,
    queued_bytes: AtomicUsize,
}

#[derive(Debug)]
enum LogCommand {
    Write(String),
    Flush(SyncSender<()>),
}

/// The line queue and its writer.
#[derive(Debug)]
pub struct Sink {
    orders: SyncSender<LogCommand>,
    counts: Arc<LineCounters>,
    /// The writer, until the thread takes it.
    idle: Arc<Mutex<Option<LineWriter>>>,
}

impl Sink {
    /// Creates a queue for `out`; `notice` formats the line that reports dropped lines.
    pub fn new(
        out: impl Write + Send + 'static,
        counts: Arc<LineCounters>,
        notice: impl Fn(u64) -> String + Send + 'static,
    ) -> Self {
        let (sender, orders) = sync_channel(QUEUE_LINES_MAX);
        let writer = LineWriter {
            orders,
            out: Box::new(out),
            notice: Box::new(notice),
            counts: counts.clone(),
            reported: 0,
            is_torn: false,
        };
        Self { orders: sender, counts, idle: Arc::new(Mutex::new(Some(writer))) }
    }

    /// Starts the writer thread with the rights of the calling thread.
    ///
    /// # Errors
    /// The system has no more threads. Lines stay queued.
    pub fn start_thread(&self) -> std::io::Result<()> {
        let idle = self.idle.clone();
        std::thread::Builder::new().name(THREAD_NAME.into()).spawn(move || {
            let writer = idle.lock().take();
            if let Some(mut writer) = writer {
                writer.run();
            }
        })?;
        Ok(())
    }

    /// Queues a line, which includes its line feed. Never waits.
    pub fn put(&self, line: String) {
        let length = line.len();
        let queued = self.counts.queued_bytes.fetch_add(length, Ordering::Relaxed);
        let sent = queued + length <= QUEUE_BYTES_MAX
            && match self.orders.try_send(LogCommand::Write(line)) {
                Ok(()) => true,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
            };
        if !sent {
            self.counts.queued_bytes.fetch_sub(length, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the queued lines are written, at most `within`. Without a thread this call
    /// writes them itself, however long that takes.
    pub fn flush(&self, within: Duration) {
        self.flush_by(self.idle.lock(), within);
    }

    /// As [`flush`](Self::flush), but returns at once if the calling thread or another one writes
    /// now.
    pub fn try_flush(&self, within: Duration) {
        if let Some(idle) = self.idle.try_lock() {
            self.flush_by(idle, within);
        }
    }

    fn flush_by(&self, mut idle: MutexGuard<'_, Option<LineWriter>>, within: Duration) {
        if let Some(writer) = &mut *idle {
            writer.drain();
            return;
        }
        drop(idle);
        let (done, is_done) = sync_channel(1);
        if self.orders.try_send(LogCommand::Flush(done)).is_ok() {
            // After the timeout the process ends without those lines.
            let _ = is_done.recv_timeout(within);
        }
    }
}

struct LineWriter {
    orders: Receiver<LogCommand>,
    out: Box<dyn Write + Send>,
    /// Formats the line that reports dropped lines.
    notice: Box<dyn Fn(u64) -> String + Send>,
    counts: Arc<LineCounters>,
    /// Number of dropped lines that were reported.
    reported: u64,
    /// Whether the last line was written in part.
    is_torn: bool,
}

impl std::fmt::Debug for LineWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineWriter")
            .field("reported", &self.reported)
            .field("is_torn", &self.is_torn)
            .finish_non_exhaustive()
    }
}

impl LineWriter {
    fn run(&mut self) {
        while let Ok(order) = self.orders.recv() {
            self.execute(order);
        }
    }

    /// Writes the queued lines.
    fn drain(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            self.execute(order);
        }
    }

    fn execute(&mut self, order: LogCommand) {
        match order {
            LogCommand::Write(line) => {
                self.counts.queued_bytes.fetch_sub(line.len(), Ordering::Relaxed);
                self.write(&line);
            }
            LogCommand::Flush(done) => {
                // A flush after its timeout has no receiver.
                let _ = done.try_send(());
            }
        }
    }

    fn write(&mut self, line: &str) {
        let dropped = self.counts.dropped.load(Ordering::Relaxed);
        let unreported = dropped - self.reported;
        if unreported > 0 {
            let notice = (self.notice)(unreported);
            if self.try_write(&notice) {
                self.reported = dropped;
            }
        }
        // If the notice does not fit, the line does not fit either.
        if dropped > self.reported || !self.try_write(line) {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn try_write(&mut self, line: &str) -> bool {
        if self.is_torn && !self.try_write_bytes(b"\n") {
            return false;
        }
        self.try_write_bytes(line.as_bytes())
    }

    fn try_write_bytes(&mut self, mut bytes: &[u8]) -> bool {
        let whole = bytes.len();
        while !bytes.is_empty() {
            match self.out.write(bytes) {
                Ok(0) => break,
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let is_partial = !bytes.is_empty() && bytes.len() < whole;
        self.is_torn = is_partial || (self.is_torn && !bytes.is_empty());
        bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sync::{Condvar, Mutex};

    /// A disk with room for a number of bytes.
    #[derive(Clone, Default)]
    struct BoundedDisk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for BoundedDisk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut disk = self.0.lock();
            let count = bytes.len().min(disk.1 - disk.0.len());
            disk.0.extend_from_slice(&bytes[..count]);
            if count == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    const LONG: Duration = Duration::from_secs(30);

    fn notice(count: u64) -> String {
        format!("dropped={count}\n")
    }

    #[test]
    fn full_disk_drops_lines_and_the_next_line_reports_them() {
        let (disk, counts) = (BoundedDisk::default(), Arc::<LineCounters>::default());
        disk.0.lock().1 = 6;
        let sink = Sink::new(disk.clone(), counts.clone(), notice);
        sink.start_thread().unwrap();
        for line in ["one\n", "two\n", "three\n"] {
            sink.put(line.into());
        }
        sink.flush(LONG);
        assert_eq!(counts.dropped.load(Ordering::Relaxed), 2);
        disk.0.lock().1 = 1000;
        sink.put("four\n".into());
        sink.put("five\n".into());
        sink.flush(LONG);
        let written = String::from_utf8(disk.0.lock().0.clone()).unwrap();
        assert_eq!(written, "one\ntw\ndropped=2\nfour\nfive\n");
        assert_eq!(counts.dropped.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn lines_before_the_thread_are_written_by_flush_or_by_it() {
        let (disk, counts) = (BoundedDisk::default(), Arc::<LineCounters>::default());
        disk.0.lock().1 = 1000;
        let sink = Sink::new(disk.clone(), counts.clone(), notice);
        let written = || String::from_utf8(disk.0.lock().0.clone()).unwrap();
        sink.put("one\n".into());
        assert_eq!(written(), "");
        sink.flush(LONG);
        assert_eq!(written(), "one\n");
        sink.put("two\n".into());
        sink.start_thread().unwrap();
        sink.put("three\n".into());
        sink.flush(LONG);
        assert_eq!(written(), "one\ntwo\nthree\n");
        assert_eq!(counts.queued_bytes.load(Ordering::Relaxed), 0);
    }

    /// A reader that stops until it is released.
    #[derive(Clone, Default)]
    struct BlockedWriter(Arc<(Mutex<bool>, Condvar)>);

    impl Write for BlockedWriter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let goes_on = self.0.0.lock();
            drop(self.0.1.wait_while(goes_on, |goes_on| !*goes_on));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn blocked_writer_delays_no_caller_and_queue_is_bounded() {
        let (stuck, counts) = (BlockedWriter::default(), Arc::<LineCounters>::default());
        let sink = Sink::new(stuck.clone(), counts.clone(), notice);
        sink.start_thread().unwrap();
        let line = "x".repeat(QUEUE_BYTES_MAX / 8);
        for _ in 0..100 {
            sink.put(line.clone());
        }
        let dropped = counts.dropped.load(Ordering::Relaxed);
        assert!((91..=92).contains(&dropped), "{dropped}");
        *stuck.0.0.lock() = true;
        stuck.0.1.notify_all();
        sink.flush(LONG);
        assert_eq!(counts.queued_bytes.load(Ordering::Relaxed), 0);
    }
}
