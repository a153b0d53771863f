//! What the kernel calls files in its handles, so that listing a directory again asks for
//! none of them.
//!
//! A handle is the file's number and a generation, which only the kernel tells. It stays what it
//! is while the file exists; a file that takes the number later was made later. So a note counts
//! for the file that has both the number and the time of its making. File systems tell time in
//! steps, and within one a number may be given out twice: so nothing is noted of a file that was
//! made a moment ago. Notes of all trees are in one table of a fixed size, as those of extended
//! attributes ([`crate::xattr_notes`]).

use crate::xattr_notes::now;
use std::sync::{Mutex, OnceLock, PoisonError};
use vfs::{FileKey, NodeHandle, Timestamp};

/// How long ago a file must have been made. File systems that tell when that was stamp files with
/// the kernel's coarse clock, whose step is 10 ms at most.
const SETTLED_NANOS: i128 = 100_000_000;
/// Notes that are made room for at once, and how often: 17 MiB in all.
const PART_NOTES: usize = 1024;
const PARTS: usize = 256;
/// Places that a note may be in.
const PLACES: usize = 2;
/// Bytes of a handle that is noted: ext4's have 13, those of XFS up to 17, btrfs's 25.
const HANDLE_BYTES_MAX: usize = 39;

#[derive(Clone, Copy)]
struct Note {
    key: FileKey,
    /// When the file was made, in nanoseconds.
    born: i64,
    /// 0 of a note that was never written.
    length_bytes: u8,
    bytes: [u8; HANDLE_BYTES_MAX],
}

const EMPTY: Note = Note {
    key: FileKey { device: 0, inode: 0 },
    born: 0,
    length_bytes: 0,
    bytes: [0; HANDLE_BYTES_MAX],
};

type Part = Mutex<Box<[Note]>>;

static TABLE: [OnceLock<Part>; PARTS] = [const { OnceLock::new() }; PARTS];

/// The handle of this file, if it was noted.
pub fn find(key: FileKey, born: Option<Timestamp>) -> Option<NodeHandle> {
    let born = nanos(born)?;
    let at = key.inode as usize % PART_NOTES;
    for part in parts(key.inode) {
        let Some(notes) = TABLE[part].get() else { continue };
        let notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        let note = &notes[at];
        if note.length_bytes > 0 && note.key == key && note.born == born {
            return NodeHandle::new(&note.bytes[..note.length_bytes as usize]).ok();
        }
    }
    None
}

/// Whether the handle of a file that was made then may be noted.
pub fn is_noted(born: Option<Timestamp>) -> bool {
    born.is_some_and(|Timestamp(time)| time < now() - SETTLED_NANOS)
}

/// Notes the handle of a file that was made then, and is open: whoever asks by a name
/// may meet another file by now.
pub fn keep(key: FileKey, born: Option<Timestamp>, handle: &NodeHandle) {
    let Some(time) = nanos(born).filter(|_| is_noted(born)) else { return };
    let from = handle.as_bytes();
    let mut bytes = [0; HANDLE_BYTES_MAX];
    let (Some(to), Ok(length_bytes)) = (bytes.get_mut(..from.len()), u8::try_from(from.len()))
    else {
        return;
    };
    to.copy_from_slice(from);
    let note = Note { key, born: time, length_bytes, bytes };
    let at = key.inode as usize % PART_NOTES;
    for (number, part) in parts(key.inode).into_iter().enumerate() {
        let part = TABLE[part].get_or_init(|| Mutex::new(vec![EMPTY; PART_NOTES].into()));
        let there = &mut part.lock().unwrap_or_else(PoisonError::into_inner)[at];
        // The last of them gives way, whatever is there.
        if there.length_bytes == 0 || there.key == key || number + 1 == PLACES {
            *there = note;
            return;
        }
    }
}

fn nanos(born: Option<Timestamp>) -> Option<i64> {
    born.and_then(|Timestamp(time)| i64::try_from(time).ok())
}

/// The parts in which a file's note may be. Files made one after the other have their notes beside
/// each other; file systems leave gaps between their numbers that are multiples of anything.
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
    fn a_note_counts_for_the_file_that_was_made_then() {
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
    fn many_files_in_few_places_are_never_taken_for_each_other() {
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
    fn nothing_is_noted_of_a_file_that_was_made_a_moment_ago() {
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
