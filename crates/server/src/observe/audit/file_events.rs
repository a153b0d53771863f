//! Audited file operations: their bounded queue and their lines.
//!
//! A request formats nothing and never waits. An event without room is counted, in a metric and in
//! one record once there is room again.

use super::{AuditCommand, timestamp};
use crate::accounts::system_users;
use crate::log::escape_json;
use crate::observe::observer::ExportCounters;
use files::{AuditedPath, ClientOrigin, ClientProtocol, FileEvent, FileEventSink};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{SystemTime, UNIX_EPOCH};

/// Events that wait for the writer.
const EVENTS_MAX: usize = 8192;
/// Bytes of the paths of waiting events: a path may have 16 KiB.
const PATH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a path in a record; of a longer one the beginning.
const RECORD_PATH_BYTES_MAX: usize = 4096;

/// State that the queue and its reader share.
#[derive(Debug, Default)]
struct QueueState {
    /// Bytes of the paths of waiting events.
    path_bytes: AtomicUsize,
    /// Lost events that no record reports yet.
    lost: AtomicU64,
    /// Whether the writer has a command to read the queue.
    is_woken: AtomicBool,
}

/// The queue of file operations.
#[derive(Debug)]
pub(super) struct FileEventQueue {
    events: SyncSender<(SystemTime, FileEvent)>,
    wake: SyncSender<AuditCommand>,
    state: Arc<QueueState>,
    exported: Arc<ExportCounters>,
}

/// The writer's end of the queue.
#[derive(Debug)]
pub(super) struct FileEventReader {
    events: Receiver<(SystemTime, FileEvent)>,
    state: Arc<QueueState>,
    exported: Arc<ExportCounters>,
}

impl FileEventQueue {
    /// A queue that wakes the writer by a command to `wake`.
    pub fn new(
        wake: SyncSender<AuditCommand>,
        exported: Arc<ExportCounters>,
    ) -> (Arc<Self>, FileEventReader) {
        let (sender, events) = sync_channel(EVENTS_MAX);
        let state = Arc::<QueueState>::default();
        let reader = FileEventReader { events, state: state.clone(), exported: exported.clone() };
        (Arc::new(Self { events: sender, wake, state, exported }), reader)
    }

    fn try_put(&self, event: FileEvent) -> bool {
        let bytes = path_bytes(&event);
        let waiting = self.state.path_bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_put = waiting + bytes <= PATH_BYTES_MAX
            && self.events.try_send((SystemTime::now(), event)).is_ok();
        if !is_put {
            self.state.path_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_put
    }
}

impl FileEventSink for FileEventQueue {
    fn take(&self, event: FileEvent) {
        if !self.try_put(event) {
            self.state.lost.fetch_add(1, Ordering::Relaxed);
            self.exported.file_events_lost.fetch_add(1, Ordering::Relaxed);
        }
        if !self.state.is_woken.swap(true, Ordering::SeqCst) {
            // A full queue of commands means that the writer is at work, and reads this one next.
            drop(self.wake.try_send(AuditCommand::WriteFileEvents));
        }
    }
}

impl FileEventReader {
    /// Notes that the writer reads the queue now.
    pub fn note_awake(&self) {
        self.state.is_woken.store(false, Ordering::SeqCst);
    }

    /// The line of the next event, if one waits.
    pub fn next_line(&self) -> Option<String> {
        let (time, event) = self.events.try_recv().ok()?;
        self.state.path_bytes.fetch_sub(path_bytes(&event), Ordering::Relaxed);
        Some(escape_json(&json_of(&event, time).to_string()))
    }

    /// Counts events that could not be written.
    pub fn count_lost(&self, count: u64) {
        self.state.lost.fetch_add(count, Ordering::Relaxed);
        self.exported.file_events_lost.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes the count of lost events, to report it.
    pub fn take_lost(&self) -> u64 {
        self.state.lost.swap(0, Ordering::Relaxed)
    }

    /// Returns a count that could not be reported.
    pub fn return_lost(&self, count: u64) {
        self.state.lost.fetch_add(count, Ordering::Relaxed);
    }
}

fn path_bytes(event: &FileEvent) -> usize {
    let bytes = |path: &AuditedPath| match path {
        AuditedPath::Known(path) => path.len(),
        AuditedPath::Unknown(_) => 0,
    };
    bytes(&event.path) + event.new_path.as_ref().map_or(0, bytes)
}

/// The record of lost events.
pub(super) fn lost_line(lost: u64, now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let line = json!({
        "time": timestamp(since),
        "category": "FileOperation",
        "operationName": "Lost",
        "lost": lost,
    });
    line.to_string()
}

fn json_of(event: &FileEvent, time: SystemTime) -> Value {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let origin = event.origin.as_ref();
    let protocol = origin.map(|origin| origin.protocol);
    let user = &event.user;
    let name = || system_users::names().user_name(user.uid).map(str::to_owned);
    let mut line = json!({
        "time": timestamp(since),
        "category": "FileOperation",
        "operationName": event.operation.name(),
        "protocol": protocol.map(protocol_name),
        "statusCode": if event.outcome.is_ok() { 0 } else { 1 },
        "statusText": status_of(protocol, event.outcome),
        "callerIpAddress": origin.map(|origin| origin.peer.address.to_string()),
        "clientName": origin.and_then(client_name),
        "identity": {
            "requester": user.name.as_deref().map(str::to_owned).or_else(name),
            "uid": user.uid,
            "sid": user.sid.as_ref().map(ToString::to_string),
        },
        "share": &*event.share,
    });
    put_path(&mut line, ("path", "fileId"), &event.path);
    if let Some(path) = &event.new_path {
        put_path(&mut line, ("newPath", "newFileId"), path);
    }
    line
}

fn client_name(origin: &ClientOrigin) -> Option<String> {
    origin.peer.name().map(|name| name.to_string())
}

/// Writes a path, or instead of an unknown one null and the id of the file.
fn put_path(line: &mut Value, (key, id_key): (&str, &str), path: &AuditedPath) {
    match path {
        AuditedPath::Known(path) => line[key] = shown(path).into(),
        AuditedPath::Unknown(file) => {
            line[key] = Value::Null;
            line[id_key] = format!("{:x}:{}", file.device, file.inode).into();
        }
    }
}

/// The path as text. Bytes that are not UTF-8 appear as `\xNN`.
fn shown(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for part in path[..path.len().min(RECORD_PATH_BYTES_MAX)].utf8_chunks() {
        text.push_str(part.valid());
        part.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

fn protocol_name(protocol: ClientProtocol) -> &'static str {
    match protocol {
        ClientProtocol::Smb => meter::MeteredProtocol::Smb.name(),
        ClientProtocol::Nfs => meter::MeteredProtocol::Nfs.name(),
    }
}

/// The name of the status that the client receives.
fn status_of(protocol: Option<ClientProtocol>, outcome: vfs::Result<()>) -> String {
    match protocol {
        Some(ClientProtocol::Nfs) => nfs::status_name(outcome),
        Some(ClientProtocol::Smb) | None => smb::status_name(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AuditTarget;
    use crate::observe::audit::Audit;
    use files::{AuditedOperation, AuditedUser, ClientPeer};
    use std::path::Path;
    use std::time::{Duration, Instant};
    use vfs::{FileKey, FsError};

    fn event(path: &[u8]) -> FileEvent {
        let peer = ClientPeer::new("192.0.2.1:5".parse().unwrap());
        peer.set_name(|| "DESK".into());
        FileEvent {
            share: "data".into(),
            operation: AuditedOperation::Rename,
            user: AuditedUser { name: Some("anna".into()), uid: 1000, sid: None },
            origin: Some(ClientOrigin { protocol: ClientProtocol::Smb, peer }),
            path: AuditedPath::Known(path.to_vec()),
            new_path: Some(AuditedPath::Known(b"b".to_vec())),
            outcome: Ok(()),
        }
    }

    fn queue() -> (Arc<FileEventQueue>, FileEventReader, Receiver<AuditCommand>) {
        let (wake, commands) = sync_channel(1);
        let (queue, reader) = FileEventQueue::new(wake, Arc::default());
        (queue, reader, commands)
    }

    fn lost(queue: &FileEventQueue) -> u64 {
        queue.exported.file_events_lost.load(Ordering::Relaxed)
    }

    #[test]
    fn record_has_user_client_paths_and_status() {
        let now = UNIX_EPOCH + Duration::from_millis(1_709_251_199_042);
        let line = json_of(&event(b"d/\"a\n\xff"), now);
        for (field, value) in [
            ("time", json!("2024-02-29T23:59:59.042Z")),
            ("category", json!("FileOperation")),
            ("operationName", json!("Rename")),
            ("protocol", json!("SMB")),
            ("statusText", json!("SUCCESS")),
            ("callerIpAddress", json!("192.0.2.1:5")),
            ("clientName", json!("DESK")),
            ("identity", json!({ "requester": "anna", "uid": 1000, "sid": null })),
            ("share", json!("data")),
            ("path", json!("d/\"a\n\\xff")),
            ("newPath", json!("b")),
        ] {
            assert_eq!(line[field], value, "{field}");
        }
    }

    #[test]
    fn outcome_has_the_name_of_the_protocols_status() {
        let refused = FileEvent { outcome: Err(FsError::AccessDenied), ..event(b"a") };
        let line = json_of(&refused, UNIX_EPOCH);
        assert_eq!(
            (&line["statusCode"], &line["statusText"]),
            (&json!(1), &json!("ACCESS_DENIED"))
        );
        let origin = refused
            .origin
            .clone()
            .map(|origin| ClientOrigin { protocol: ClientProtocol::Nfs, ..origin });
        let line = json_of(&FileEvent { origin, ..refused }, UNIX_EPOCH);
        assert_eq!((&line["protocol"], &line["statusText"]), (&json!("NFS"), &json!("ACCESS")));
    }

    #[test]
    fn unknown_path_is_null_beside_the_id_of_the_file() {
        let path = AuditedPath::Unknown(FileKey { device: 0x1f, inode: 42 });
        let line = json_of(&FileEvent { path, ..event(b"a") }, UNIX_EPOCH);
        assert_eq!((&line["path"], &line["fileId"]), (&Value::Null, &json!("1f:42")));
    }

    #[test]
    fn full_queue_loses_events_and_counts_them() {
        let (queue, reader, commands) = queue();
        for _ in 0..EVENTS_MAX + 3 {
            queue.take(event(b"a"));
        }
        assert_eq!(lost(&queue), 3);
        assert!(matches!(commands.try_recv(), Ok(AuditCommand::WriteFileEvents)));
        assert!(commands.try_recv().is_err(), "one command wakes the writer for all of them");
        reader.note_awake();
        assert_eq!(std::iter::from_fn(|| reader.next_line()).count(), EVENTS_MAX);
        assert_eq!((reader.take_lost(), reader.take_lost()), (3, 0));
        queue.take(event(b"a"));
        assert!(reader.next_line().is_some(), "there is room again");
        assert!(commands.try_recv().is_ok(), "and the writer is woken again");
    }

    #[test]
    fn long_paths_are_bounded_by_their_bytes() {
        let (queue, reader, _commands) = queue();
        let long = event(&[b'a'; 16 * 1024]);
        let fits = PATH_BYTES_MAX / path_bytes(&long);
        assert!(fits < EVENTS_MAX);
        for _ in 0..fits + 2 {
            queue.take(long.clone());
        }
        assert_eq!(lost(&queue), 2);
        assert!(reader.next_line().is_some_and(|line| line.len() < 2 * RECORD_PATH_BYTES_MAX));
        queue.take(long);
        assert_eq!(lost(&queue), 2);
    }

    fn wait_for(path: &Path, is_done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let text = std::fs::read_to_string(path).unwrap();
            let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
            let lines: Vec<Value> = lines.collect();
            if is_done(&lines) || Instant::now() > until {
                return lines;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn file_events_are_written_and_lost_ones_reported_in_one_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let exported = Arc::<ExportCounters>::default();
        let target = AuditTarget::File(path.clone());
        let audit = Audit::open(&target, exported.clone()).unwrap().unwrap();
        let events = audit.file_events();
        // Paths fill the queue faster than their lines are written.
        let long = event(&[b'a'; 16 * 1024]);
        let mut count = 0;
        while exported.file_events_lost.load(Ordering::Relaxed) == 0 && count < 1_000_000 {
            events.take(long.clone());
            count += 1;
        }
        events.take(event(b"last"));
        let total = count + 1;
        let sum = |lines: &[Value]| -> u64 {
            let of = |line: &Value| line["lost"].as_u64().unwrap_or(1);
            lines.iter().map(of).sum()
        };
        let lines = wait_for(&path, |lines| sum(lines) >= total);
        assert_eq!(sum(&lines), total, "each event is written or counted");
        assert!(lines.iter().any(|line| line["operationName"] == "Lost"));
        let lost = exported.file_events_lost.load(Ordering::Relaxed);
        let reported = lines.iter().filter_map(|line| line["lost"].as_u64()).sum::<u64>();
        assert_eq!(lost, reported);
    }
}
