//! An on-disk journal of records that must outlive the server. Each entry replaces or removes the
//! record with its number. The writer learns when its change survives a power loss; concurrent
//! changes share one write and one sync.
//!
//! The file begins with [`MAGIC`]. An entry is its length, its checksum and a body: the kind, the
//! number and the record. Numbers are little-endian.
//!
//! Live records take at most half of the file's size. So a rewrite always halves the file, and
//! there is always room to remove a record.

use crate::limits::{
    JOURNAL_BATCH_MAX, JOURNAL_BYTES_MAX, JOURNAL_LIVE_BYTES_MAX, JOURNAL_READ_BYTES_MAX,
    JOURNAL_WASTE_BYTES_MAX,
};
use futures_util::future::BoxFuture;
use smb::limits::PERSISTENT_RECORD_BYTES_MAX;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::sync::oneshot;

/// Attempts to take the lock. All attempts together last as long as a loaded system may need to
/// clean up a killed server.
const LOCK_TRIES: u32 = 60;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// File type and format version.
const MAGIC: &[u8; 16] = b"anabranch opens1";
/// Length and checksum of an entry.
const ENTRY_HEAD: usize = 8;
const PUT: u8 = 1;
const REMOVE: u8 = 2;
/// Kind and number of an entry.
const BODY_HEAD: usize = 9;

/// The records that were found at the start, by number.
pub type Records = BTreeMap<u64, Vec<u8>>;

/// Handle of a journal; a thread of its own writes it.
pub struct StateJournal {
    queue: Sender<JournalChange>,
}

struct JournalChange {
    id: u64,
    /// `None` removes the record.
    record: Option<Vec<u8>>,
    done: oneshot::Sender<bool>,
}

impl StateJournal {
    /// Opens or creates the journal in the directory `folder` and returns its records.
    ///
    /// # Errors
    /// A sentence for people: another server uses the journal, the state has a later format, or the
    /// system refuses access.
    pub fn open(folder: &Path) -> Result<(Self, Records), String> {
        Self::open_named(folder, "opens")
    }

    /// As [`StateJournal::open`], with another file name.
    ///
    /// # Errors
    /// Any error of [`StateJournal::open`].
    pub fn open_named(folder: &Path, name: &str) -> Result<(Self, Records), String> {
        let path = folder.join(name);
        let said = |e: io::Error| format!("{}: {e}", path.display());
        crate::state::directory::create_dir(folder).map_err(said)?;
        // The lock lasts until the process ends. The journal file itself cannot carry it, because
        // rewrites replace it.
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let lock =
            crate::state::directory::open(&path.with_extension("lock"), options).map_err(said)?;
        if !is_locked_in_time(&lock) {
            return Err(format!(
                "{} is in use by another server; give each its own `state`",
                path.display()
            ));
        }
        crate::state::format::claim(folder)?;
        let records = load(&path).map_err(said)?;
        let disk = JournalFile::create(path.clone(), records.clone(), JournalBounds::DEFAULT)
            .map_err(said)?;
        let (queue, changes) = channel();
        let write = move || {
            let _lock = lock;
            disk.run(&changes);
        };
        std::thread::Builder::new().name("journal".into()).spawn(write).map_err(said)?;
        Ok((Self { queue }, records))
    }

    /// Replaces or removes the record with the number `id`. The change is queued when this function
    /// returns. The future resolves to true once the change survives a power loss. It resolves to
    /// false if there is no room for the record; the former record stays.
    pub fn change(&self, id: u64, record: Option<Vec<u8>>) -> BoxFuture<'static, bool> {
        let (done, stored) = oneshot::channel();
        let queued = self.queue.send(JournalChange { id, record, done }).is_ok();
        Box::pin(async move { queued && stored.await.unwrap_or(false) })
    }
}

/// Takes the lock with retries: a server that was killed a moment ago may still hold it.
fn is_locked_in_time(lock: &File) -> bool {
    for _ in 0..LOCK_TRIES {
        if lock.try_lock().is_ok() {
            return true;
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    lock.try_lock().is_ok()
}

/// Size limits in bytes.
#[derive(Clone, Copy)]
struct JournalBounds {
    /// The whole file, above which it is rewritten.
    file: u64,
    /// Live records including their heads.
    live: u64,
    /// Replaced records, in excess of the size of the live ones, above which the file is rewritten.
    waste: u64,
}

impl JournalBounds {
    const DEFAULT: Self = Self {
        file: JOURNAL_BYTES_MAX,
        live: JOURNAL_LIVE_BYTES_MAX,
        waste: JOURNAL_WASTE_BYTES_MAX,
    };
}

/// The file and its live records.
struct JournalFile {
    path: PathBuf,
    file: File,
    live: Records,
    live_bytes: u64,
    /// Length of the valid part of the file.
    length: u64,
    bounds: JournalBounds,
}

impl JournalFile {
    /// Replaces the file by one with these records.
    fn create(path: PathBuf, live: Records, bounds: JournalBounds) -> io::Result<Self> {
        let (file, length) = write_all(&path, &live)?;
        Ok(Self { path, file, live, live_bytes: length, length, bounds })
    }

    /// Carries out changes until all handles are dropped.
    fn run(mut self, changes: &Receiver<JournalChange>) {
        while let Ok(first) = changes.recv() {
            let more = changes.try_iter().take(JOURNAL_BATCH_MAX - 1);
            let batch: Vec<JournalChange> = std::iter::once(first).chain(more).collect();
            let written = self.write(&batch).unwrap_or_else(|error| {
                tracing::error!(
                    target: "server::condition",
                    path = %self.path.display(),
                    %error,
                    "cannot write the state journal: persistent opens are refused, and records of NFS clients are not stored; make it writable, or free its disk"
                );
                vec![false; batch.len()]
            });
            for (change, is_written) in batch.into_iter().zip(written) {
                // The writer may have stopped waiting.
                let _ = change.done.send(is_written);
            }
        }
    }

    /// Writes the changes for which there is room; returns whether each was written.
    fn write(&mut self, batch: &[JournalChange]) -> io::Result<Vec<bool>> {
        let (bytes, fits) = self.entries_of(batch);
        if self.length + bytes.len() as u64 > self.bounds.file {
            self.make_shorter();
        }
        if self.length + bytes.len() as u64 > JOURNAL_READ_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "the state journal is full"));
        }
        if let Err(error) = self.append(&bytes) {
            // A partial write must not precede the next entry.
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::Start(self.length))?;
            return Err(error);
        }
        self.length += bytes.len() as u64;
        for (change, _) in batch.iter().zip(&fits).filter(|(_, fits)| **fits) {
            let old = match &change.record {
                Some(record) => self.live.insert(change.id, record.clone()),
                None => self.live.remove(&change.id),
            };
            self.live_bytes += change.record.as_deref().map_or(0, entry_bytes);
            self.live_bytes -= old.as_deref().map_or(0, entry_bytes);
        }
        if self.length > 2 * self.live_bytes + self.bounds.waste {
            self.make_shorter();
        }
        Ok(fits)
    }

    /// Encodes the changes for which there is room; returns whether each fits. A record may always
    /// be removed or become smaller.
    fn entries_of(&self, batch: &[JournalChange]) -> (Vec<u8>, Vec<bool>) {
        let (mut bytes, mut live_bytes) = (Vec::new(), self.live_bytes);
        // Sizes of the records that this batch has changed so far.
        let mut changed = HashMap::new();
        let fits = batch.iter().map(|change| {
            let of_live = || self.live.get(&change.id).map_or(0, |record| entry_bytes(record));
            let old = changed.get(&change.id).copied().unwrap_or_else(of_live);
            let new = change.record.as_deref().map_or(0, entry_bytes);
            let is_larger = new > old;
            if is_larger && live_bytes - old + new > self.bounds.live {
                return false;
            }
            if old > 0 || new > 0 {
                put_entry(&mut bytes, change.id, change.record.as_deref());
            }
            live_bytes = live_bytes - old + new;
            changed.insert(change.id, new);
            true
        });
        let fits = fits.collect();
        (bytes, fits)
    }

    /// Rewrites the file without replaced records.
    fn make_shorter(&mut self) {
        match write_all(&self.path, &self.live) {
            Ok((file, length)) => {
                (self.file, self.length, self.live_bytes) = (file, length, length);
            }
            // All written changes are durable already, so a failed rewrite can be retried later.
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "cannot compact the state \
                                                                     journal, so it grows to its \
                                                                     limit; free its disk");
            }
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }
}

/// Replaces the file by one with these records and returns its length.
fn write_all(path: &Path, live: &Records) -> io::Result<(File, u64)> {
    let mut bytes = MAGIC.to_vec();
    for (id, record) in live {
        put_entry(&mut bytes, *id, Some(record));
    }
    let file = crate::state::directory::replace(path, &bytes)?;
    Ok((file, bytes.len() as u64))
}

/// Size of a record in the file.
fn entry_bytes(record: &[u8]) -> u64 {
    (record.len() + ENTRY_HEAD + BODY_HEAD) as u64
}

fn put_entry(bytes: &mut Vec<u8>, id: u64, record: Option<&[u8]>) {
    let mut body = vec![if record.is_some() { PUT } else { REMOVE }];
    body.extend_from_slice(&id.to_le_bytes());
    body.extend_from_slice(record.unwrap_or_default());
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&checksum(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
}

/// CRC-32 (ISO-HDLC).
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (if crc & 1 == 1 { 0xEDB8_8320 } else { 0 })
        })
    })
}

/// Reads the journal. A file of another format is renamed for inspection.
fn load(path: &Path) -> io::Result<Records> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(JOURNAL_READ_BYTES_MAX).read_to_end(&mut bytes)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Records::new()),
        Err(e) => return Err(e),
    };
    let Some(entries) = bytes.strip_prefix(MAGIC) else {
        let aside = path.with_extension("refused");
        std::fs::rename(path, &aside)?;
        tracing::error!(path = %path.display(), aside = %aside.display(), "a state journal has an \
                                                                           unknown format and is \
                                                                           renamed; the state in \
                                                                           it is lost");
        return Ok(Records::new());
    };
    let (records, problems) = replay(entries);
    for (at, what) in problems {
        tracing::error!(path = %path.display(), offset = MAGIC.len() + at, reason = what, "a damaged record of the state journal is ignored");
    }
    Ok(records)
}

/// Replays the entries; returns the live records, and the offset and description of each defect.
fn replay(bytes: &[u8]) -> (Records, Vec<(usize, &'static str)>) {
    let (mut records, mut problems) = (Records::new(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        let Some((head, rest)) = bytes[at..].split_first_chunk::<ENTRY_HEAD>() else {
            problems.push((at, "cut off"));
            break;
        };
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let expected = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        if !(BODY_HEAD..=BODY_HEAD + PERSISTENT_RECORD_BYTES_MAX).contains(&length) {
            // The start of the next entry is unknown.
            problems.push((at, "invalid length; later records are lost"));
            break;
        }
        let Some(body) = rest.get(..length) else {
            problems.push((at, "cut off"));
            break;
        };
        if checksum(body) == expected {
            apply(&mut records, body);
        } else {
            problems.push((at, "wrong checksum"));
        }
        at += ENTRY_HEAD + length;
    }
    (records, problems)
}

fn apply(records: &mut Records, body: &[u8]) {
    let Some((head, record)) = body.split_first_chunk::<BODY_HEAD>() else { return };
    let [kind, id @ ..] = *head;
    let id = u64::from_le_bytes(id);
    if kind == PUT {
        records.insert(id, record.to_vec());
    } else {
        records.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(future: BoxFuture<'static, bool>) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(future)
    }

    /// The former journal's thread releases the lock once its handle is dropped.
    fn reopened(folder: &Path) -> Records {
        StateJournal::open(folder).map(|(_, records)| records).unwrap()
    }

    #[test]
    fn journal_returns_put_records_and_no_removed_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, records) = StateJournal::open(folder.path()).unwrap();
        assert!(records.is_empty());
        for (id, record) in
            [(1, Some(&b"one"[..])), (2, Some(b"two")), (1, Some(b"uno")), (2, None)]
        {
            assert!(wait(journal.change(id, record.map(<[u8]>::to_vec))));
        }
        drop(journal);
        assert_eq!(reopened(folder.path()), Records::from([(1, b"uno".to_vec())]));
    }

    #[test]
    fn journal_of_a_running_server_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let _journal = StateJournal::open(folder.path()).unwrap();
        assert!(StateJournal::open(folder.path()).err().unwrap().contains("another server"));
    }

    #[test]
    fn journal_is_compacted_while_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = StateJournal::open(folder.path()).unwrap();
        let record = vec![7; PERSISTENT_RECORD_BYTES_MAX];
        let times = 4 * JOURNAL_WASTE_BYTES_MAX / record.len() as u64;
        let queued: Vec<_> = (0..times).map(|_| journal.change(1, Some(record.clone()))).collect();
        assert!(queued.into_iter().all(wait));
        drop(journal);
        let length = std::fs::metadata(folder.path().join("opens")).unwrap().len();
        assert!(length <= 2 * JOURNAL_WASTE_BYTES_MAX, "{length}");
        assert_eq!(reopened(folder.path()), Records::from([(1, record)]));
    }

    /// A small journal, and the outcome of each change of a batch.
    fn small_disk(folder: &Path) -> JournalFile {
        let bounds = JournalBounds { file: 4096, live: 2048, waste: 1 << 20 };
        JournalFile::create(folder.join("opens"), Records::new(), bounds).unwrap()
    }

    fn written(disk: &mut JournalFile, batch: &[(u64, Option<usize>)]) -> Vec<bool> {
        let change = |&(id, bytes): &(u64, Option<usize>)| {
            let (done, _) = oneshot::channel();
            JournalChange { id, record: bytes.map(|bytes| vec![id as u8; bytes]), done }
        };
        disk.write(&batch.iter().map(change).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn full_journal_is_compacted_before_a_record_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = small_disk(folder.path());
        assert_eq!(written(&mut disk, &[(1, Some(900)), (2, Some(900))]), [true, true]);
        for _ in 0..20 {
            assert_eq!(written(&mut disk, &[(2, Some(899))]), [true]);
            assert_eq!(written(&mut disk, &[(2, Some(900))]), [true]);
        }
        assert!(disk.length <= 4096, "{}", disk.length);
        assert_eq!(load(&folder.path().join("opens")).unwrap(), disk.live);
    }

    #[test]
    fn full_journal_accepts_removals_while_it_refuses_records() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = small_disk(folder.path());
        assert_eq!(written(&mut disk, &[(1, Some(900)), (2, Some(900))]), [true, true]);
        let batch = [(3, Some(900)), (2, Some(1200)), (2, None), (3, Some(900)), (2, Some(300))];
        assert_eq!(written(&mut disk, &batch), [false, false, true, true, false]);
        let kept = Records::from([(1, vec![1; 900]), (3, vec![3; 900])]);
        assert_eq!(disk.live, kept);
        assert_eq!(load(&folder.path().join("opens")).unwrap(), kept);
        assert_eq!(written(&mut disk, &[(1, Some(899)), (9, None), (1, None)]), [true; 3]);
        assert_eq!(disk.live.len(), 1);
    }

    #[test]
    fn removal_of_a_missing_record_needs_no_space() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = small_disk(folder.path());
        let length = disk.length;
        assert_eq!(written(&mut disk, &[(7, None); 50]), [true; 50]);
        assert_eq!(disk.length, length);
    }

    fn three() -> Vec<u8> {
        let mut bytes = Vec::new();
        for (id, record) in [(1, b"one"), (2, b"two"), (3, b"six")] {
            put_entry(&mut bytes, id, Some(record));
        }
        bytes
    }

    #[test]
    fn truncated_journal_keeps_its_complete_records() {
        let bytes = three();
        let each = bytes.len() / 3;
        for length in 0..=bytes.len() {
            let (records, problems) = replay(&bytes[..length]);
            assert_eq!(records.len(), length / each);
            assert_eq!(problems.len(), usize::from(!length.is_multiple_of(each)), "{length}");
        }
    }

    #[test]
    fn corrupt_byte_loses_one_record_or_those_after_its_length() {
        let bytes = three();
        let each = bytes.len() / 3;
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let (records, problems) = replay(&changed);
                assert!(!problems.is_empty(), "{at}");
                assert!((1..=at / each).all(|id| records.contains_key(&(id as u64))), "{at}");
                assert!(!records.contains_key(&((at / each) as u64 + 1)), "{at}");
                let is_length = at % each < 4;
                assert!(is_length || records.len() == 2, "{at}");
            }
        }
    }

    #[test]
    fn foreign_journal_file_is_renamed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("opens"), b"something else").unwrap();
        assert!(reopened(folder.path()).is_empty());
        let aside = std::fs::read(folder.path().join("opens.refused")).unwrap();
        assert_eq!(aside, b"something else");
    }

    #[test]
    fn checksum_matches_the_published_vectors() {
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
    }
}
