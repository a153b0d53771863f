//! Journal of the acknowledged blocks of a large file, stored locally, not on the target.
//!
//! A journal on the target could not be written while the target is full or unreachable, which is
//! when it is needed. So it is a local file, named after source and target
//! ([`crate::names::key`]). Its header describes the state of the source; if that has changed, the
//! copy starts over. Records follow, appended as blocks are acknowledged and not synced: a torn or
//! lost record costs one block. A server may lose acknowledged data when it loses power. Therefore
//! each record has the block's checksum, and the next run reads these blocks back before it trusts
//! them.

use crate::error::Error;
use crate::item::CopyItem;
use crate::limits::JOURNAL_BYTES_MAX;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// Bytes of one record: offset, length, checksum of the data, checksum of the record.
const RECORD_BYTES: usize = 24;

/// A block that the target has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    /// Byte range within the file.
    pub range: Range<u64>,
    /// Checksum of its data.
    pub checksum: u64,
}

/// The checksum of a block.
#[must_use]
pub fn checksum(data: &[u8]) -> u64 {
    XxHash3_64::oneshot(data)
}

impl BlockRecord {
    /// Encodes the record for the journal, in little-endian order.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[..8].copy_from_slice(&self.range.start.to_le_bytes());
        let length = u32::try_from(self.range.end - self.range.start).unwrap_or(u32::MAX);
        out[8..12].copy_from_slice(&length.to_le_bytes());
        out[12..20].copy_from_slice(&self.checksum.to_le_bytes());
        let guard = checksum(&out[..20]) as u32;
        out[20..].copy_from_slice(&guard.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let part = |range: Range<usize>| bytes.get(range);
        let start = u64::from_le_bytes(part(0..8)?.try_into().ok()?);
        let length = u32::from_le_bytes(part(8..12)?.try_into().ok()?);
        let data = u64::from_le_bytes(part(12..20)?.try_into().ok()?);
        let guard = u32::from_le_bytes(part(20..24)?.try_into().ok()?);
        let is_whole = checksum(&bytes[..20]) as u32 == guard;
        let end = start.checked_add(u64::from(length))?;
        is_whole.then_some(Self { range: start..end, checksum: data })
    }
}

/// Decodes the bytes behind a journal's header; returns the records and their length in bytes.
/// Decoding ends at the first torn record, since nothing behind it can be trusted.
#[must_use]
pub fn records(bytes: &[u8]) -> (Vec<BlockRecord>, usize) {
    let all: Vec<BlockRecord> = bytes.chunks(RECORD_BYTES).map_while(BlockRecord::decode).collect();
    let length = all.len() * RECORD_BYTES;
    (all, length)
}

/// The journal's header: source, target and the state of the source.
#[must_use]
pub fn head(source: &str, target: &str, item: &CopyItem) -> String {
    format!(
        "anabranch copy 1\nsource {source:?}\ntarget {target:?}\nbytes {}\nwritten {}\nchange {}\n\n",
        item.size_bytes,
        item.facts.written.unwrap_or_default(),
        item.change
    )
}

/// The content of a journal when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalContent {
    /// The journal is new.
    None,
    /// Records of this copy, which can be resumed.
    Records,
    /// Records of another state of the source; they are discarded.
    Changed,
}

fn path_of(folder: &Path, key: u64) -> PathBuf {
    folder.join(format!("{key:016x}.journal"))
}

/// Removes the journal of a completed file. A run that was killed after the final rename leaves such
/// a journal. A journal that another run has locked stays.
pub fn remove_stale(folder: &Path, key: u64) {
    let path = path_of(folder, key);
    let Ok(file) = File::open(&path) else { return };
    let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    if rustix::fs::flock(&file, exclusive).is_ok() {
        let _ = std::fs::remove_file(&path);
    }
}

/// The journal of one file, locked while it is copied.
#[derive(Debug)]
pub struct CopyJournal {
    file: File,
    path: PathBuf,
}

impl CopyJournal {
    /// Opens the journal of this key in `folder`, and reads what an earlier run left.
    ///
    /// # Errors
    /// [`Error::Busy`] while another run has it locked; the journal cannot be read or created.
    pub fn open(
        folder: &Path,
        key: u64,
        head: &str,
    ) -> Result<(Self, JournalContent, Vec<BlockRecord>), Error> {
        std::fs::create_dir_all(folder)?;
        let path = path_of(folder, key);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path)?;
        let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::flock(&file, exclusive).map_err(|_| Error::Busy)?;
        let mut bytes = Vec::new();
        (&file).take(JOURNAL_BYTES_MAX).read_to_end(&mut bytes)?;
        let (mut before, mut found, mut whole) = (JournalContent::Changed, Vec::new(), 0);
        if bytes.is_empty() {
            before = JournalContent::None;
        } else if let Some(rest) = bytes.strip_prefix(head.as_bytes()) {
            before = JournalContent::Records;
            (found, whole) = records(rest);
        }
        if before == JournalContent::Records {
            let end = (head.len() + whole) as u64;
            file.set_len(end)?;
            file.seek(SeekFrom::Start(end))?;
        } else {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(head.as_bytes())?;
        }
        Ok((Self { file, path }, before, found))
    }

    /// Discards all records, because the copy of the file starts over.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn reset(&mut self, head: &str) -> Result<(), Error> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        Ok(self.file.write_all(head.as_bytes())?)
    }

    /// Appends a record in one system call: a run that is killed tears no earlier record.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn append(&self, record: &BlockRecord) -> Result<(), Error> {
        Ok((&self.file).write_all(&record.encode())?)
    }

    /// Removes the journal of a completed file.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{ItemFacts, ItemKind};
    use proptest::prelude::*;

    #[test]
    fn stale_journal_is_removed_and_a_locked_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (held, ..) = CopyJournal::open(folder.path(), 1, "head").unwrap();
        drop(CopyJournal::open(folder.path(), 2, "head").unwrap());
        (1..4).for_each(|key| remove_stale(folder.path(), key));
        assert!(held.path.exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    fn item(size_bytes: u64) -> CopyItem {
        let facts = ItemFacts { written: Some(5), ..ItemFacts::default() };
        let name = "a".into();
        CopyItem { name, kind: ItemKind::File, size_bytes, is_sparse: false, change: 7, facts }
    }

    fn record(at: u64) -> BlockRecord {
        BlockRecord { range: at * 100..at * 100 + 100, checksum: at }
    }

    #[test]
    fn reopened_journal_returns_the_earlier_run_s_records() {
        let folder = tempfile::tempdir().unwrap();
        let head = head("smb://s/a", "/b", &item(1000));
        let (journal, before, found) = CopyJournal::open(folder.path(), 1, &head).unwrap();
        assert_eq!((before, found.len()), (JournalContent::None, 0));
        journal.append(&record(1)).unwrap();
        journal.append(&record(2)).unwrap();
        assert_eq!(CopyJournal::open(folder.path(), 1, &head).unwrap_err(), Error::Busy);
        drop(journal);
        let (journal, before, found) = CopyJournal::open(folder.path(), 1, &head).unwrap();
        assert_eq!((before, found), (JournalContent::Records, vec![record(1), record(2)]));
        journal.append(&record(3)).unwrap();
        drop(journal);
        let (journal, _, found) = CopyJournal::open(folder.path(), 1, &head).unwrap();
        assert_eq!(found.len(), 3);
        journal.remove();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn source_with_another_length_time_or_change_starts_over() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, ..) = CopyJournal::open(folder.path(), 1, &head("a", "b", &item(1))).unwrap();
        journal.append(&record(1)).unwrap();
        drop(journal);
        let (_, before, found) =
            CopyJournal::open(folder.path(), 1, &head("a", "b", &item(2))).unwrap();
        assert_eq!((before, found.len()), (JournalContent::Changed, 0));
        let (_, before, _) =
            CopyJournal::open(folder.path(), 1, &head("a", "b", &item(2))).unwrap();
        assert_eq!(before, JournalContent::Records, "of the new state");
        let of = |item: CopyItem| head("a", "b", &item);
        assert_ne!(of(CopyItem { change: 8, ..item(1) }), of(item(1)));
        assert_ne!(of(CopyItem { facts: ItemFacts::default(), ..item(1) }), of(item(1)));
    }

    proptest! {
        #[test]
        fn cut_or_damaged_journal_yields_only_whole_records(
            count in 1usize..8, cut in 0usize..200, damaged in 0usize..200
        ) {
            let mut bytes: Vec<u8> = (0..count as u64).flat_map(|at| record(at).encode()).collect();
            bytes.truncate(cut);
            let whole = bytes.len() / RECORD_BYTES;
            prop_assert_eq!(records(&bytes).0.len(), whole);
            if damaged < bytes.len() {
                bytes[damaged] ^= 0x55;
                let (found, length) = records(&bytes);
                prop_assert_eq!(found.len(), whole.min(damaged / RECORD_BYTES));
                prop_assert_eq!(length, found.len() * RECORD_BYTES);
                prop_assert!(found.iter().enumerate().all(|(at, one)| *one == record(at as u64)));
            }
        }
    }
}
