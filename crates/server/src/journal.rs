//! What must outlive the server, on disk: a file of records, each put in place
//! of the last one with its number, or taken away. Who asks is told when it
//! survives power loss; those who ask together wait for one write.
//!
//! The file begins with [`MAGIC`]; an entry is its length, its checksum, and
//! a body: what is done, the number, the record. Numbers are little-endian.

use crate::limits::{JOURNAL_BATCH_MAX, JOURNAL_BYTES_MAX, JOURNAL_WASTE_BYTES_MAX};
use futures_util::future::BoxFuture;
use smb::limits::PERSISTENT_RECORD_BYTES_MAX;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::sync::oneshot;

/// How often the lock is asked for, and how long to wait in between: together as long as a
/// system under load may need to clear away a server that was killed.
const LOCK_TRIES: u32 = 60;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// What the file is, and the version of its form.
const MAGIC: &[u8; 16] = b"anabranch opens1";
/// Length and checksum of an entry.
const ENTRY_HEAD: usize = 8;
const PUT: u8 = 1;
const REMOVE: u8 = 2;
/// What is done and the number.
const BODY_HEAD: usize = 9;

/// The records that were there at the start, by number.
pub type Records = BTreeMap<u64, Vec<u8>>;

/// A journal that is written by a thread of its own.
pub struct Journal {
    queue: Sender<Change>,
}

struct Change {
    id: u64,
    /// None to take it away.
    record: Option<Vec<u8>>,
    done: oneshot::Sender<bool>,
}

impl Journal {
    /// Opens the journal in the directory `folder`, or begins one; what is in it.
    ///
    /// # Errors
    /// A sentence for people: another server uses it, or the system refuses it.
    pub fn open(folder: &Path) -> Result<(Self, Records), String> {
        Self::open_named(folder, "opens")
    }

    /// As [`Journal::open`], by another name.
    ///
    /// # Errors
    /// Those of [`Journal::open`].
    pub fn open_named(folder: &Path, name: &str) -> Result<(Self, Records), String> {
        let path = folder.join(name);
        let said = |e: io::Error| format!("{}: {e}", path.display());
        crate::state::make(folder).map_err(said)?;
        // Held until the process ends. The journal itself cannot carry it: it is replaced.
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let lock = crate::state::open(&path.with_extension("lock"), options).map_err(said)?;
        if !is_locked_in_time(&lock) {
            return Err(format!(
                "{} is in use by another server; give each its own `state`",
                path.display()
            ));
        }
        let records = load(&path).map_err(said)?;
        let disk = Disk::create(path.clone(), records.clone()).map_err(said)?;
        let (queue, changes) = channel();
        let write = move || {
            let _lock = lock;
            disk.run(&changes);
        };
        std::thread::Builder::new().name("journal".into()).spawn(write).map_err(said)?;
        Ok((Self { queue }, records))
    }

    /// Puts a record in place of the last one with its number, or takes it away.
    /// Queued when it returns; true once it survives power loss.
    pub fn change(&self, id: u64, record: Option<Vec<u8>>) -> BoxFuture<'static, bool> {
        let (done, told) = oneshot::channel();
        let queued = self.queue.send(Change { id, record, done }).is_ok();
        Box::pin(async move { queued && told.await.unwrap_or(false) })
    }
}

/// Takes the lock; a server that was killed a moment ago may still have it.
fn is_locked_in_time(lock: &File) -> bool {
    for _ in 0..LOCK_TRIES {
        if lock.try_lock().is_ok() {
            return true;
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    lock.try_lock().is_ok()
}

/// The file, and all that is in it.
struct Disk {
    path: PathBuf,
    file: File,
    live: Records,
    live_bytes: u64,
    /// Up to where the file is good.
    length: u64,
}

impl Disk {
    /// Writes a new file in place of an old one.
    fn create(path: PathBuf, live: Records) -> io::Result<Self> {
        let mut bytes = MAGIC.to_vec();
        for (id, record) in &live {
            put_entry(&mut bytes, *id, Some(record));
        }
        let file = crate::state::replace(&path, &bytes)?;
        let length = bytes.len() as u64;
        Ok(Self { path, file, live, live_bytes: length, length })
    }

    /// Carries out changes until nobody can ask any more.
    fn run(mut self, changes: &Receiver<Change>) {
        while let Ok(first) = changes.recv() {
            let more = changes.try_iter().take(JOURNAL_BATCH_MAX - 1);
            let batch: Vec<Change> = std::iter::once(first).chain(more).collect();
            let written = self.write(&batch);
            if let Err(error) = &written {
                tracing::error!(
                    target: "server::condition",
                    path = %self.path.display(),
                    %error,
                    "cannot write the state journal: persistent opens are refused, and records of NFS clients are not stored; make it writable, or free its disk"
                );
            }
            for change in batch {
                // Whoever asked may have gone.
                let _ = change.done.send(written.is_ok());
            }
        }
    }

    fn write(&mut self, batch: &[Change]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for change in batch {
            put_entry(&mut bytes, change.id, change.record.as_deref());
        }
        if self.length + bytes.len() as u64 > JOURNAL_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "the journal is full"));
        }
        if let Err(error) = self.append(&bytes) {
            // What was written of it must not stand before what comes next.
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::Start(self.length))?;
            return Err(error);
        }
        self.length += bytes.len() as u64;
        for change in batch {
            let old = match &change.record {
                Some(record) => self.live.insert(change.id, record.clone()),
                None => self.live.remove(&change.id),
            };
            let size = |record: &Vec<u8>| (record.len() + ENTRY_HEAD + BODY_HEAD) as u64;
            self.live_bytes += change.record.as_ref().map_or(0, size);
            self.live_bytes -= old.as_ref().map_or(0, size);
        }
        if self.length > 2 * self.live_bytes + JOURNAL_WASTE_BYTES_MAX {
            // What is written is safe already: that this fails can wait.
            match Self::create(self.path.clone(), self.live.clone()) {
                Ok(next) => *self = next,
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), %error, "the journal cannot be made shorter");
                }
            }
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }
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

/// What is in a journal. One that is none is put aside, so that it can be looked at.
fn load(path: &Path) -> io::Result<Records> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(JOURNAL_BYTES_MAX).read_to_end(&mut bytes)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Records::new()),
        Err(e) => return Err(e),
    };
    let Some(entries) = bytes.strip_prefix(MAGIC) else {
        let aside = path.with_extension("refused");
        std::fs::rename(path, &aside)?;
        tracing::error!(path = %path.display(), aside = %aside.display(), "this is not a journal of this version; persistent opens of before are lost");
        return Ok(Records::new());
    };
    let (records, problems) = replay(entries);
    for (at, what) in problems {
        tracing::error!(path = %path.display(), offset = MAGIC.len() + at, what, "a record of a persistent open is refused");
    }
    Ok(records)
}

/// Goes through the entries; what is left in the end, and what is wrong where.
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
            // Where the next one begins is not known.
            problems.push((at, "impossible length; those after it are lost"));
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

    /// The thread of the one before gives the lock back when it has noticed that nobody asks.
    fn reopened(folder: &Path) -> Records {
        Journal::open(folder).map(|(_, records)| records).unwrap()
    }

    #[test]
    fn what_was_put_is_there_again_and_what_was_taken_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, records) = Journal::open(folder.path()).unwrap();
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
    fn two_servers_do_not_share_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let _journal = Journal::open(folder.path()).unwrap();
        assert!(Journal::open(folder.path()).err().unwrap().contains("another server"));
    }

    #[test]
    fn a_journal_that_is_written_for_long_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path()).unwrap();
        let record = vec![7; PERSISTENT_RECORD_BYTES_MAX];
        let times = 4 * JOURNAL_WASTE_BYTES_MAX / record.len() as u64;
        let queued: Vec<_> = (0..times).map(|_| journal.change(1, Some(record.clone()))).collect();
        assert!(queued.into_iter().all(wait));
        drop(journal);
        let length = std::fs::metadata(folder.path().join("opens")).unwrap().len();
        assert!(length <= 2 * JOURNAL_WASTE_BYTES_MAX, "{length}");
        assert_eq!(reopened(folder.path()), Records::from([(1, record)]));
    }

    fn three() -> Vec<u8> {
        let mut bytes = Vec::new();
        for (id, record) in [(1, b"one"), (2, b"two"), (3, b"six")] {
            put_entry(&mut bytes, id, Some(record));
        }
        bytes
    }

    #[test]
    fn a_journal_that_is_cut_off_keeps_what_is_whole() {
        let bytes = three();
        let each = bytes.len() / 3;
        for length in 0..=bytes.len() {
            let (records, problems) = replay(&bytes[..length]);
            assert_eq!(records.len(), length / each);
            assert_eq!(problems.len(), usize::from(!length.is_multiple_of(each)), "{length}");
        }
    }

    #[test]
    fn a_changed_byte_loses_its_record_at_most_and_those_after_a_changed_length() {
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
    fn what_is_no_journal_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("opens"), b"something else").unwrap();
        assert!(reopened(folder.path()).is_empty());
        let aside = std::fs::read(folder.path().join("opens.refused")).unwrap();
        assert_eq!(aside, b"something else");
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
    }
}
