//! The log: lines on standard error, for people or for machines.
//!
//! One layer handles every event and enforces the common rules in one place. Foreign text is
//! escaped ([`escape`]), a client cannot flood the log ([`rate`]), and a failing output delays no
//! request ([`sink`]).

mod escape;
mod limits;
mod line;
mod panic;
mod rate;
mod sink;

pub use escape::{EscapedLines, EscapedText, escape_json, is_unsafe};
pub use limits::LINES_OF_PEER_MAX;

use crate::config::{LogFormat, LogSettings};
use line::{EventFields, Layout};
use panic::PanicRates;
use rate::{EventKind, LineRates};
use sink::{LineCounters, Sink};
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, registry};

/// Target of audit lines: the audit log bounds them itself and counts omitted ones.
pub const AUDIT_TARGET: &str = "audit";
/// Target of remarks on the configuration: an administrator causes them and wants them all.
pub const CONFIGURATION_TARGET: &str = "configuration";

/// Last part of the target of lines about a condition of the server itself, such as a full disk,
/// which every request meets while it lasts. One line per minute reports it.
const CONDITION_TARGET: &str = "condition";

/// The log of the process: there is one, as there is one standard error.
static LOG: OnceLock<Arc<Log>> = OnceLock::new();

/// Counts of lines that the log lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Lines that could not be written.
    pub dropped: u64,
    /// Lines that exceeded the bound of their kind.
    pub suppressed: u64,
}

/// Counts of lines that the process's log lacks so far.
#[must_use]
pub fn counts() -> LogCounts {
    LOG.get().map_or_else(LogCounts::default, |log| LogCounts {
        dropped: log.counts.dropped.load(Ordering::Relaxed),
        suppressed: log.counts.suppressed.load(Ordering::Relaxed),
    })
}

/// Starts to take log lines, and panics as log lines. The environment has precedence over the
/// configuration.
///
/// Lines are queued until [`start_writing`] or [`finish`].
pub fn begin(config: &LogSettings) {
    let filter =
        EnvFilter::try_from_env("ANABRANCH_LOG").unwrap_or_else(|_| EnvFilter::new(&config.level));
    let out = std::io::stderr();
    let has_colours = config.format == LogFormat::Text
        && out.is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let layout = Layout { format: config.format, has_colours };
    let log = LOG.get_or_init(|| Arc::new(Log::new(out, layout))).clone();
    // Only the first subscriber of a process takes effect.
    let _ = registry().with(filter).with(LogLayer(log)).try_init();
    panic::install_hook();
}

/// Starts the thread that writes the lines. The thread inherits the caller's rights, so a server
/// calls this after its confinement.
///
/// # Errors
/// The system has no more threads.
pub fn start_writing() -> std::io::Result<()> {
    LOG.get().map_or(Ok(()), |log| log.sink.start_thread())
}

/// Waits a bounded time until queued lines are written; called before the process ends.
pub fn finish() {
    if let Some(log) = LOG.get() {
        log.sink.flush(limits::FLUSH_WITHIN);
    }
}

#[derive(Debug)]
struct Log {
    layout: Layout,
    rates: LineRates<Identifier>,
    panics: PanicRates,
    sink: Sink,
    counts: Arc<LineCounters>,
}

impl Log {
    fn new(out: impl std::io::Write + Send + 'static, layout: Layout) -> Self {
        let counts = Arc::<LineCounters>::default();
        let notice = move |count| {
            let fields = EventFields::notice("log lines could not be written", "dropped", count);
            layout.line(&time(), (Level::ERROR, module_path!()), &fields)
        };
        let sink = Sink::new(out, counts.clone(), notice);
        Self { layout, rates: LineRates::new(), panics: PanicRates::new(), sink, counts }
    }

    fn take(&self, event: &Event<'_>, now: Instant) {
        let metadata = event.metadata();
        let is_bounded = ![AUDIT_TARGET, CONFIGURATION_TARGET].contains(&metadata.target());
        let is_condition = metadata.target().rsplit("::").next() == Some(CONDITION_TARGET);
        let kind =
            || EventKind { site: metadata.callsite(), level: *metadata.level(), is_condition };
        if is_bounded && !self.rates.has_room(kind(), now) {
            self.counts.suppressed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut fields = EventFields::default();
        event.record(&mut fields);
        if is_bounded {
            match self.rates.admit(kind(), fields.peer, now) {
                None => {
                    self.counts.suppressed.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Some(0) => {}
                Some(suppressed) => fields.put_count("suppressed", suppressed),
            }
        }
        self.sink.put(self.layout.line(&time(), line::facts(metadata), &fields));
    }
}

fn time() -> String {
    let mut time = String::new();
    // Writing to a string does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}

struct LogLayer(Arc<Log>);

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.take(event, Instant::now());
    }
}

#[cfg(test)]
mod tests;
