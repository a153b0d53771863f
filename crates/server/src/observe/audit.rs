//! The audit log: one JSON object per line, in its own file or in the server log. Fields have the
//! names of Azure's StorageFileLogs where those have the same.
//!
//! Events are queued without waiting and a thread writes them. Clients' events are bounded by
//! source and by the networks around it ([`bounds`]); the log counts the events that it leaves out.
//! The end of a session is logged if its start was.

mod bounds;

use crate::config::AuditTarget;
use crate::log::{AUDIT_TARGET, escape_json};
use crate::observe::observer::ExportCounters;
use bounds::AuditBounds;
use meter::{AuditEvent, AuditKind, AuditSink};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use sync::Mutex;

/// Lines that wait for the disk.
const LINES_MAX: usize = 4096;
/// Characters of a client-chosen text.
const TEXT_CHARS_MAX: usize = 1024;
/// Sessions with a logged start: as many as can exist, and some that are about to end.
const SESSIONS_MAX: usize = 1 << 17;
/// Not the mode of state files: the group of a log collector may read it. An administrator may
/// narrow the mode; an existing file keeps its mode.
const FILE_MODE: u32 = 0o640;

/// Decides whether an event is logged.
#[derive(Debug, Default)]
struct AuditFilter {
    bounds: AuditBounds,
    /// Sessions with a logged start; their single end is logged, too.
    begun: HashSet<String>,
}

impl AuditFilter {
    /// Returns `None` to leave the event out, else the number of events of its source that were
    /// left out since the last.
    fn admit(&mut self, event: &AuditEvent, now: Instant) -> Option<u64> {
        if event.kind == AuditKind::SessionEnd && self.begun.remove(&event.session) {
            return Some(0);
        }
        let source = event.peer.map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.ip());
        let suppressed = self.bounds.admit(source, !event.is_success, now)?;
        let begins = event.kind == AuditKind::SessionSetup && event.is_success;
        if begins && self.begun.len() < SESSIONS_MAX {
            self.begun.insert(event.session.clone());
        }
        Some(suppressed)
    }
}

#[derive(Debug)]
enum AuditCommand {
    Write(String),
    /// Reopen the file after a rotation.
    OpenAgain,
}

/// Destination of lines.
#[derive(Debug)]
enum AuditDestination {
    Log,
    Thread(SyncSender<AuditCommand>),
}

/// The audit log.
#[derive(Debug)]
pub struct Audit {
    target: AuditDestination,
    admission: Mutex<AuditFilter>,
    exported: Arc<ExportCounters>,
}

impl Audit {
    /// Opens the audit log; `None` if it is off.
    ///
    /// # Errors
    /// A sentence for people if the file cannot be opened.
    pub fn open(
        target: &AuditTarget,
        exported: Arc<ExportCounters>,
    ) -> Result<Option<Arc<Self>>, String> {
        let target = match target {
            AuditTarget::Off => return Ok(None),
            AuditTarget::Log => AuditDestination::Log,
            AuditTarget::File(path) => AuditDestination::Thread(start(path, exported.clone())?),
        };
        Ok(Some(Arc::new(Self { target, admission: Mutex::default(), exported })))
    }

    /// Reopens the file by its name after a rotation.
    pub fn reopen(&self) {
        if let AuditDestination::Thread(sender) = &self.target {
            // If the queue is full, the next reload repeats the request.
            drop(sender.try_send(AuditCommand::OpenAgain));
        }
    }

    fn count_suppressed(&self) {
        self.exported.audit_suppressed.fetch_add(1, Ordering::Relaxed);
    }
}

impl AuditSink for Audit {
    fn take(&self, event: &AuditEvent) {
        let mut admission = self.admission.lock();
        let admitted = admission.admit(event, Instant::now());
        drop(admission);
        let Some(suppressed) = admitted else { return self.count_suppressed() };
        let line = escape_json(&json_of(event, suppressed, SystemTime::now()).to_string());
        match &self.target {
            AuditDestination::Log => tracing::info!(target: AUDIT_TARGET, "{line}"),
            AuditDestination::Thread(sender) => match sender.try_send(AuditCommand::Write(line)) {
                Ok(()) => {}
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                    self.count_suppressed()
                }
            },
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

fn json_of(event: &AuditEvent, suppressed: u64, now: SystemTime) -> Value {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let category = match event.kind {
        AuditKind::Denied => "AccessDenied",
        _ => "Session",
    };
    let mut line = json!({
        "time": timestamp(since),
        "category": category,
        "operationName": event.kind.name(),
        "protocol": event.protocol.name(),
        "statusCode": if event.is_success { 0 } else { 1 },
        "statusText": cut(&event.status),
        "callerIpAddress": event.peer.map(|peer| peer.to_string()),
        "correlationId": event.request.map(|(of, message)| format!("{of}.{message}")),
        "identity": { "type": event.authentication, "requester": cut(&event.user) },
        "sessionId": event.session,
    });
    if !event.share.is_empty() {
        let path = if event.path.is_empty() { String::new() } else { format!("/{}", event.path) };
        line["uri"] = cut(&format!("/{}{path}", event.share)).into();
    }
    if let Some(agreed) = &event.agreed {
        line["operationVersion"] = agreed.dialect.clone().into();
        line["signing"] = agreed.signing.into();
        line["encryption"] = agreed.cipher.into();
        line["encrypted"] = agreed.encrypted.into();
    }
    if suppressed > 0 {
        line["suppressed"] = suppressed.into();
    }
    line
}

/// Formats a Unix time by RFC 3339.
fn timestamp(since: Duration) -> String {
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Howard Hinnant's civil_from_days, in eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let millis = since.subsec_millis();
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

fn open_file(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}

fn start(path: &Path, exported: Arc<ExportCounters>) -> Result<SyncSender<AuditCommand>, String> {
    let wrong = |error| {
        format!("the audit log {} cannot be written: {error}; choose another file", path.display())
    };
    let file = open_file(path).map_err(wrong)?;
    let (sender, receiver) = sync_channel(LINES_MAX);
    let path = path.to_path_buf();
    let thread = std::thread::Builder::new().name("audit".into());
    thread.spawn(move || write(file, &path, &receiver, &exported)).map_err(wrong)?;
    Ok(sender)
}

/// Main loop of the writer thread; ends when all senders are dropped.
fn write(file: File, path: &Path, orders: &Receiver<AuditCommand>, exported: &ExportCounters) {
    let mut out = BufWriter::new(file);
    let mut has_failed = false;
    while let Ok(first) = orders.recv() {
        let mut result = Ok(());
        for order in std::iter::once(first).chain(orders.try_iter().take(LINES_MAX)) {
            match order {
                AuditCommand::Write(line) if result.is_ok() => result = writeln!(out, "{line}"),
                AuditCommand::Write(_) => {
                    exported.audit_suppressed.fetch_add(1, Ordering::Relaxed);
                }
                AuditCommand::OpenAgain => match open_file(path) {
                    Ok(file) => out = BufWriter::new(file),
                    Err(error) => result = Err(error),
                },
            }
        }
        let result = result.and_then(|()| out.flush());
        if let Err(error) = &result
            && !has_failed
        {
            tracing::error!(path = %path.display(), %error, "cannot write the audit log: events are lost; make it writable, or free its disk");
        }
        has_failed = result.is_err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meter::{MeteredProtocol, NegotiatedSession};

    /// Logged refusals of one source per period.
    const REFUSALS: usize = 30;

    fn event(kind: AuditKind, is_success: bool, peer: &str) -> AuditEvent {
        AuditEvent {
            is_success,
            peer: Some(peer.parse().unwrap()),
            request: Some((7, 9)),
            user: "anna".into(),
            share: "data".into(),
            path: "a/b".into(),
            agreed: Some(NegotiatedSession {
                dialect: "3.1.1".into(),
                signing: "AES-GMAC",
                cipher: "-",
                encrypted: false,
            }),
            ..AuditEvent::new(kind, MeteredProtocol::Smb)
        }
    }

    #[test]
    fn audit_line_has_the_field_names_of_the_service_log() {
        let now = UNIX_EPOCH + Duration::from_millis(1_709_251_199_042);
        let line = json_of(&event(AuditKind::TreeConnect, true, "192.0.2.1:5"), 3, now);
        for (field, value) in [
            ("time", json!("2024-02-29T23:59:59.042Z")),
            ("operationName", json!("TreeConnect")),
            ("callerIpAddress", json!("192.0.2.1:5")),
            ("correlationId", json!("7.9")),
            ("uri", json!("/data/a/b")),
            ("operationVersion", json!("3.1.1")),
            ("suppressed", json!(3)),
        ] {
            assert_eq!(line[field], value, "{field}");
        }
        assert_eq!(line["identity"]["requester"], "anna");
    }

    #[test]
    fn flooding_source_is_bounded_and_omitted_events_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let exported = Arc::<ExportCounters>::default();
        let target = AuditTarget::File(path.clone());
        let audit = Audit::open(&target, exported.clone()).unwrap().unwrap();
        for _ in 0..REFUSALS + 12 {
            audit.take(&event(AuditKind::Denied, false, "192.0.2.1:5"));
        }
        audit.take(&event(AuditKind::Denied, false, "192.0.2.2:5"));
        audit.take(&event(AuditKind::SessionSetup, true, "192.0.2.1:6"));
        let expected = REFUSALS + 2;
        let lines = || std::fs::read_to_string(&path).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while lines().lines().count() < expected && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(lines().lines().count(), expected);
        assert_eq!(exported.audit_suppressed.load(Ordering::Relaxed), 12);
        let last: Value = serde_json::from_str(lines().lines().last().unwrap()).unwrap();
        assert_eq!(
            (&last["operationName"], &last["suppressed"]),
            (&json!("SessionSetup"), &json!(12))
        );
    }

    #[test]
    fn end_of_session_is_written_if_its_beginning_was() {
        let (mut admission, now) = (AuditFilter::default(), Instant::now());
        let mut of = |kind, number: usize| {
            let event =
                AuditEvent { session: number.to_string(), ..event(kind, true, "192.0.2.1:5") };
            admission.admit(&event, now).is_some()
        };
        let begun: Vec<bool> = (0..2000).map(|i| of(AuditKind::SessionSetup, i)).collect();
        assert_eq!(begun.iter().filter(|is_written| **is_written).count(), 600);
        let ended: Vec<bool> = (0..2000).map(|i| of(AuditKind::SessionEnd, i)).collect();
        assert_eq!(ended, begun);
        assert!(!of(AuditKind::SessionEnd, 0), "once");
        assert!(admission.begun.is_empty());
    }

    #[test]
    fn audit_file_that_cannot_be_opened_fails_the_start() {
        let target = AuditTarget::File("/nonexistent/audit.jsonl".into());
        assert!(Audit::open(&target, Arc::default()).unwrap_err().contains("choose another"));
    }
}
