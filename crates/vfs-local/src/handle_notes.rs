//! Cache of the kernel's file handles, so that a repeated listing of a directory need not query
//! them.
//!
//! A handle consists of the file's inode number and a generation that only the kernel knows. It is
//! constant for the lifetime of the file, and a file that reuses the number is created later. A
//! cached handle is therefore valid for the file with the same inode number and creation time.
//! Within one tick of the file system's clock a number may be reused, so handles of files created a
//! moment ago are not cached. All trees share one table of fixed size, as in
//! [`crate::xattr_notes`].

use crate::xattr_notes::now;
use std::sync::OnceLock;
use sync::Mutex;
use vfs::{FileKey, NodeHandle, Timestamp};

/// Minimum age of a file whose handle is cached. File systems stamp creation times with the
/// kernel's coarse clock, whose tick is at most 10 ms.
const SETTLED_NANOS: i128 = 100_000_000;
/// Entries allocated at a time, and the number of such parts: 17 MiB in total.
const PART_NOTES: usize = 1024;
const PARTS: usize = 256;
/// Candidate slots per file.
const PLACES: usize = 2;
/// Maximum length of a cached handle: ext4's have 13 bytes, XFS' up to 17, btrfs' 25.
const HANDLE_BYTES_MAX: usize = 39;

#[derive(Clone, Copy)]
struct HandleNote {
    key: FileKey,
    /// Creation time of the file, in nanoseconds.
    born: i64,
    /// 0 for an empty slot.
    length_bytes: u8,
    bytes: [u8; HANDLE_BYTES_MAX],
}

const EMPTY: HandleNote = HandleNote {
    key: FileKey { device: 0, inode: 0 },
    born: 0,
    length_bytes: 0,
    bytes: [0; HANDLE_BYTES_MAX],
};

type HandleNoteShard = Mutex<Box<[HandleNote]>>;

static TABLE: [OnceLock<HandleNoteShard>; PARTS] = [const { OnceLock::new() }; PARTS];

/// The cached handle of this file.
pub fn find(key: FileKey, born: Option<Timestamp>) -> Option<NodeHandle> {
    let born = nanos(born)?;
    let at = key.inode as usize % PART_NOTES;
    for part in parts(key.inode) {
        let Some(notes) = TABLE[part].get() else { continue };
        let notes = notes.lock();
        let note = &notes[at];
        if note.length_bytes > 0 && note.key == key && note.born == born {
            return NodeHandle::new(&note.bytes[..note.length_bytes as usize]).ok();
        }
    }
    None
}

/// True if the handle of a file with this creation time may be cached.
pub fn is_noted(born: Option<Timestamp>) -> bool {
    born.is_some_and(|Timestamp(time)| time < now() - SETTLED_NANOS)
}

/// Caches the handle of a file with this creation time. The file must be open: after a look-up by
/// name, the name may refer to another file.
pub fn keep(key: FileKey, born: Option<Timestamp>, handle: &NodeHandle) {
    let Some(time) = nanos(born).filter(|_| is_noted(born)) else { return };
    let from = handle.as_bytes();
    let mut bytes = [0; HANDLE_BYTES_MAX];
    let (Some(to), Ok(length_bytes)) = (bytes.get_mut(..from.len()), u8::try_from(from.len()))
    else {
        return;
    };
    to.copy_from_slice(from);
    let note = HandleNote { key, born: time, length_bytes, bytes };
    let at = key.inode as usize % PART_NOTES;
    for (number, part) in parts(key.inode).into_iter().enumerate() {
        let part = TABLE[part].get_or_init(|| Mutex::new(vec![EMPTY; PART_NOTES].into()));
        let there = &mut part.lock()[at];
        // Replaces the last candidate if no slot is free.
        if there.length_bytes == 0 || there.key == key || number + 1 == PLACES {
            *there = note;
            return;
        }
    }
}

fn nanos(born: Option<Timestamp>) -> Option<i64> {
    born.and_then(|Timestamp(time)| i64::try_from(time).ok())
}

/// The parts that may hold a file's entry. Files created in sequence have adjacent entries. File
/// systems leave gaps of arbitrary strides between inode numbers.
fn parts(inode: u64) -> [usize; PLACES] {
    let group = inode / PART_NOTES as u64;
    let mixed = group.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    [(mixed >> 56) as usize % PARTS, (mixed >> 48) as usize % PARTS]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(inode: u64) -> FileKey {
        FileKey { device: u64::MAX, inode }
    }

    fn handle(byte: u8) -> NodeHandle {
        NodeHandle::new([byte; 13]).unwrap()
    }

    #[test]
    fn cached_handle_is_valid_for_its_creation_time_only() {
        let (long_ago, later) = (Some(Timestamp(900)), Some(Timestamp(901)));
        keep(key(5), long_ago, &handle(1));
        assert_eq!(find(key(5), long_ago), Some(handle(1)));
        assert_eq!(find(key(5), later), None, "another file with its number");
        assert_eq!(find(key(5), None), None);
        keep(key(5), later, &handle(2));
        assert_eq!(find(key(5), later), Some(handle(2)), "of its number only the last");
        assert_eq!(find(key(5), long_ago), None);
    }

    #[test]
    fn crowded_handle_cache_never_confuses_files() {
        let born = Some(Timestamp(800));
        let inode = |number: u64| 7 + number * PART_NOTES as u64;
        let handle = |number: u64| NodeHandle::new(number.to_le_bytes()).unwrap();
        let count = 4 * PARTS as u64;
        (0..count).for_each(|number| keep(key(inode(number)), born, &handle(number)));
        let found: Vec<_> = (0..count).map(|number| find(key(inode(number)), born)).collect();
        let kept = found.iter().flatten().count();
        assert!((PARTS / 2..=PARTS).contains(&kept), "{kept} in as many places");
        for (number, found) in (0..count).zip(found) {
            assert!(found.is_none_or(|found| found == handle(number)), "{number}");
        }
    }

    #[test]
    fn recent_file_handle_is_not_cached() {
        let fresh = Some(Timestamp(now()));
        keep(key(6), fresh, &handle(1));
        assert_eq!(find(key(6), fresh), None);
        keep(key(7), None, &handle(1));
        assert_eq!(find(key(7), None), None, "nor of one of which that is not known");
        let long = NodeHandle::new([1; HANDLE_BYTES_MAX + 1]).unwrap();
        keep(key(8), Some(Timestamp(900)), &long);
        assert_eq!(find(key(8), Some(Timestamp(900))), None, "nor a handle without room");
    }
}
