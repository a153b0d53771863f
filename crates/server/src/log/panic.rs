//! Logs a panic as one line: its text may contain client data with line feeds, which would forge
//! further lines.
//!
//! A panic in the hook would end the process. So the hook calls no foreign code, waits for no lock
//! that the panicking thread may hold, and drops lines that it cannot queue.

use super::limits::FLUSH_WITHIN;
use super::line::EventFields;
use super::rate::{EventKind, LineRates};
use super::{LOG, Log, sink, time};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tracing::Level;

/// Maximum length of a panic's text in characters.
const TEXT_CHARS_MAX: usize = 4096;

/// All panics are one kind, and no other code takes this lock.
pub(super) type PanicRates = LineRates<()>;

/// Installs the hook for panics of all threads.
pub(super) fn install_hook() {
    std::panic::set_hook(Box::new(|panic| {
        if let Some(log) = LOG.get() {
            log.take_panic(panic, Instant::now());
        }
    }));
}

impl Log {
    fn take_panic(&self, panic: &PanicHookInfo<'_>, now: Instant) {
        let kind = EventKind { site: (), level: Level::ERROR, is_condition: false };
        let Some(suppressed) = self.panics.admit(kind, None, now) else {
            self.counts.suppressed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let line =
            self.layout.line(&time(), (Level::ERROR, module_path!()), &fields(panic, suppressed));
        match std::thread::current().name() {
            // The writer thread has ended.
            Some(sink::THREAD_NAME) => {
                let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
            }
            // The process ends after this panic without waiting for the queue.
            Some("main") => {
                self.sink.put(line);
                self.sink.try_flush(FLUSH_WITHIN);
            }
            _ => self.sink.put(line),
        }
    }
}

fn fields(panic: &PanicHookInfo<'_>, suppressed: u64) -> EventFields {
    let text = panic.payload_as_str().unwrap_or("of another type than a text");
    let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
    let mut fields = EventFields::titled(format!("panic: {text}"));
    if let Some(location) = panic.location() {
        fields.put_text("location", location.to_string());
    }
    fields.put_text("thread", std::thread::current().name().unwrap_or_default().to_owned());
    // RUST_BACKTRACE enables it.
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        fields.put_text("backtrace", trace.to_string());
    }
    if suppressed > 0 {
        fields.put_count("suppressed", suppressed);
    }
    fields
}
