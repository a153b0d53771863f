//! Tests of the whole log from events to lines.

use super::limits::{LINES_OF_KIND_MAX, LINES_OF_PEER_MAX};
use super::*;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;
use sync::Mutex;

#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines that `f` logs, and the counts of missing lines.
fn logged(f: impl FnOnce()) -> (String, LogCounts) {
    let lines = CapturedLog::default();
    let layout = Layout { format: LogFormat::Text, has_colours: false };
    let log = Arc::new(Log::new(lines.clone(), layout));
    tracing::subscriber::with_default(registry().with(LogLayer(log.clone())), f);
    log.sink.flush(Duration::from_secs(30));
    let counts = LogCounts {
        dropped: log.counts.dropped.load(Ordering::Relaxed),
        suppressed: log.counts.suppressed.load(Ordering::Relaxed),
    };
    (String::from_utf8(lines.0.lock().clone()).unwrap(), counts)
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
fn condition_of_the_server_is_one_line_for_all_clients() {
    let (written, counts) = logged(|| {
        for at in 0..1000 {
            let peer = SocketAddr::from(([192, 0, 2, at as u8], 7));
            tracing::warn!(target: "nfs::condition", %peer, "the disk is full");
            tracing::warn!(target: "nfs::conditional", %peer, "another");
        }
    });
    assert_eq!(written.matches("the disk is full").count(), 1, "{written}");
    assert_eq!(written.matches("another").count(), LINES_OF_KIND_MAX as usize);
    assert_eq!(counts.suppressed, 999 + 900);
}

/// Standard error of this binary when it runs the ignored test `name`.
fn errors_of_own_process(name: &str) -> String {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let name = format!("log::tests::{name}");
    command.args(["--exact", &name, "--ignored", "--test-threads=1", "--no-capture"]);
    let output = command.env_remove("RUST_BACKTRACE").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn panics_are_escaped_lines_of_one_bounded_kind() {
    let written = errors_of_own_process("child_panics");
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines.len(), LINES_OF_KIND_MAX as usize, "{written}");
    let forged = lines.iter().find(|line| line.starts_with("2026-01-01"));
    assert_eq!(forged, None);
    assert!(lines.iter().all(|line| !line.chars().any(is_unsafe)), "{written:?}");
    assert!(
        lines[0].contains("panic: x\\n2026-01-01T00:00:00Z  INFO forged\\u{1b}[2J"),
        "{}",
        lines[0]
    );
    assert!(
        lines[0].contains("tests.rs:") && lines[0].contains("thread=\"hostile\""),
        "{}",
        lines[0]
    );
    assert!(lines[1].contains("panic: of another type than a text"), "{}", lines[1]);
}

#[test]
#[ignore = "the process of panics_are_escaped_lines_of_one_bounded_kind"]
fn child_panics() {
    begin(&LogSettings::default());
    start_writing().unwrap();
    let panicking = |f: fn()| {
        let thread = std::thread::Builder::new().name("hostile".into());
        thread.spawn(f).unwrap().join().unwrap_err()
    };
    panicking(|| panic!("x\n2026-01-01T00:00:00Z  INFO forged\u{1b}[2J"));
    panicking(|| std::panic::panic_any(7));
    for _ in 0..2 * LINES_OF_KIND_MAX {
        panicking(|| panic!("again"));
    }
    finish();
    assert_eq!(counts().suppressed, u64::from(LINES_OF_KIND_MAX) + 2);
}

#[test]
fn panic_of_the_thread_that_writes_is_shown() {
    let written = errors_of_own_process("child_panics_in_the_log");
    assert!(written.contains("panic: torn\\nline"), "{written}");
}

#[test]
#[ignore = "the process of panic_of_the_thread_that_writes_is_shown"]
fn child_panics_in_the_log() {
    begin(&LogSettings::default());
    let thread = std::thread::Builder::new().name(sink::THREAD_NAME.into());
    thread.spawn(|| panic!("torn\nline")).unwrap().join().unwrap_err();
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
