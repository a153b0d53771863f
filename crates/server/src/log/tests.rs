//! The log as a whole: events in, lines out.

use super::limits::{LINES_OF_KIND_MAX, LINES_OF_PEER_MAX};
use super::*;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines of what `f` logs, and what the log says that it left out.
fn logged(f: impl FnOnce()) -> (String, LogCounts) {
    let lines = Lines::default();
    let layout = Layout { format: LogFormat::Text, has_colours: false };
    let log = Arc::new(Log::new(lines.clone(), layout));
    tracing::subscriber::with_default(registry().with(LogLayer(log.clone())), f);
    log.sink.flush(Duration::from_secs(30));
    let counts = LogCounts {
        dropped: log.counts.dropped.load(Ordering::Relaxed),
        suppressed: log.counts.suppressed.load(Ordering::Relaxed),
    };
    (String::from_utf8(lines.0.lock().unwrap().clone()).unwrap(), counts)
}

#[test]
fn event_with_hostile_fields_is_one_line() {
    let (written, _) = logged(|| {
        let name = "x\n2026-01-01T00:00:00Z  INFO forged\r\u{1b}[2J\u{9b}\u{202e}";
        tracing::warn!(owner = %name, user = name, path = ?name, "refused: {name}");
    });
    assert_eq!(written.lines().count(), 1, "{written}");
    assert!(!written.trim_end().chars().any(is_unsafe), "{written:?}");
}

#[test]
fn flood_is_suppressed_by_kind_and_by_client() {
    let peer = |host| SocketAddr::from(([192, 0, 2, host], 7));
    let (written, counts) = logged(|| {
        for at in 0..1000 {
            tracing::error!(uid = u32::MAX, "cannot act as this user");
            tracing::info!(peer = %peer(1), at, "access denied");
        }
        tracing::info!("another kind");
    });
    let lines = |part: &str| written.lines().filter(|line| line.contains(part)).count();
    assert_eq!(lines("cannot act"), LINES_OF_KIND_MAX as usize);
    assert_eq!(lines("access denied"), LINES_OF_PEER_MAX as usize);
    assert_eq!(lines("another kind"), 1);
    let suppressed = 2000 - u64::from(LINES_OF_KIND_MAX + LINES_OF_PEER_MAX);
    assert_eq!(counts, LogCounts { suppressed, dropped: 0 });
}

#[test]
fn line_after_a_flood_reports_what_was_suppressed() {
    let refuse = |host| {
        let peer = SocketAddr::from(([192, 0, 2, host], 7));
        tracing::info!(%peer, "access denied");
    };
    let (written, _) = logged(|| {
        (0..LINES_OF_PEER_MAX + 3).for_each(|_| refuse(1));
        refuse(2);
    });
    assert!(written.ends_with(" access denied peer=192.0.2.2:7 suppressed=3\n"), "{written}");
}

#[test]
fn audit_lines_are_never_suppressed() {
    let count = LINES_OF_KIND_MAX + 50;
    let (written, counts) = logged(|| {
        (0..count).for_each(|at| tracing::info!(target: AUDIT_TARGET, "{at}"));
    });
    assert_eq!((written.lines().count(), counts), (count as usize, LogCounts::default()));
}
