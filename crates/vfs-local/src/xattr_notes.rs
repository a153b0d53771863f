//! Cache of files' DOS attributes and other extended attributes, so that a repeated listing of a
//! directory need not query them.
//!
//! An entry is valid while the file's change time equals the one that was read before the
//! attributes: on the file systems listed here every change of an attribute moves it. Two changes
//! within one tick of the file system's clock have the same time, so attributes of files that
//! changed a moment ago are not cached.
//!
//! All trees share one table of fixed size, indexed by the inode number, so that files created in
//! sequence have adjacent entries.

use rustix::fd::BorrowedFd;
use std::sync::{Mutex, OnceLock, PoisonError};
use vfs::{Attributes, DosInfo, MetadataPresence, Timestamp};

/// Minimum time since the last change of a cached file: the coarsest tick is a second, of ext4 with
/// small inodes.
const SETTLED_NANOS: i128 = 2_000_000_000;
/// Entries allocated at a time, and the number of such parts: 25 MiB in total.
const PART_NOTES: usize = 1024;
const PARTS: usize = 512;
/// Magic numbers of file systems that store extended attributes and move the change time with each
/// of them, by this machine's clock.
const FILE_SYSTEMS: [i64; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994];
/// Marks an absent creation time or change time.
const NONE: i64 = i64::MIN;

#[derive(Clone, Copy)]
struct Note {
    inode: u64,
    device: u64,
    /// Change time in nanoseconds; 0 for an empty slot.
    changed: i64,
    created: i64,
    /// The change time that a client set and that counts beside `changed`.
    set_changed: i64,
    bits: u32,
    flags: u8,
}

const EMPTY: Note =
    Note { inode: 0, device: 0, changed: 0, created: NONE, set_changed: NONE, bits: 0, flags: 0 };
const HAS_BITS: u8 = 1;
const XATTRS: u8 = 2;
const STREAMS: u8 = 4;
const DESCRIPTOR: u8 = 8;
const POSIX_ACL: u8 = 16;

type Part = Mutex<Box<[Note]>>;

static TABLE: [OnceLock<Part>; PARTS] = [const { OnceLock::new() }; PARTS];

/// Access to the cache for one listing.
#[derive(Debug)]
pub struct Reader {
    /// Files that changed before this time are cacheable, in nanoseconds; none on other file
    /// systems.
    settled_before: i128,
}

impl Reader {
    /// Creates a reader for the files of a directory. It must be created before their attributes
    /// are read.
    pub fn of(directory: BorrowedFd<'_>) -> Self {
        let found = rustix::fs::fstatfs(directory).map_or(0, |stat| stat.f_type);
        let settled_before =
            if FILE_SYSTEMS.contains(&found) { now() - SETTLED_NANOS } else { i128::MIN };
        Self { settled_before }
    }

    /// These attributes with the cached values of their file.
    pub fn find(&self, attributes: &Attributes) -> Option<Attributes> {
        let changed = self.time_of(attributes)?;
        let (part, at) = place(attributes.key.inode);
        let notes = TABLE[part].get()?.lock().unwrap_or_else(PoisonError::into_inner);
        let note = notes[at];
        drop(notes);
        let is_it = note.inode == attributes.key.inode
            && note.device == attributes.key.device
            && note.changed == changed;
        is_it.then(|| note.fill(*attributes))
    }

    /// Caches values that were read after these attributes.
    pub fn keep(&self, attributes: &Attributes) {
        let Some(changed) = self.time_of(attributes) else { return };
        let Some(note) = Note::of(attributes, changed) else { return };
        let (part, at) = place(note.inode);
        let part = TABLE[part].get_or_init(|| Mutex::new(vec![EMPTY; PART_NOTES].into()));
        part.lock().unwrap_or_else(PoisonError::into_inner)[at] = note;
    }

    fn time_of(&self, attributes: &Attributes) -> Option<i64> {
        let Timestamp(changed) = attributes.changed;
        let counts = changed != 0 && changed < self.settled_before;
        counts.then(|| i64::try_from(changed).ok()).flatten()
    }
}

impl Note {
    fn of(attributes: &Attributes, changed: i64) -> Option<Self> {
        let stored = attributes.stored;
        let nanos = |time: Option<Timestamp>| match time {
            Some(Timestamp(time)) => i64::try_from(time).ok().filter(|time| *time != NONE),
            None => Some(NONE),
        };
        let (created, set_changed) =
            (nanos(attributes.dos.created)?, nanos(attributes.set_changed)?);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        Some(Self {
            inode: attributes.key.inode,
            device: attributes.key.device,
            changed,
            created,
            set_changed,
            bits: attributes.dos.bits.unwrap_or(0),
            flags: flag(attributes.dos.bits.is_some(), HAS_BITS)
                | flag(stored.xattrs, XATTRS)
                | flag(stored.streams, STREAMS)
                | flag(stored.descriptor, DESCRIPTOR)
                | flag(stored.posix_acl, POSIX_ACL),
        })
    }

    fn fill(&self, attributes: Attributes) -> Attributes {
        let has = |flag| self.flags & flag != 0;
        let time = |nanos: i64| (nanos != NONE).then(|| Timestamp(nanos.into()));
        let bits = has(HAS_BITS).then_some(self.bits);
        let dos = DosInfo { bits, created: time(self.created) };
        let stored = MetadataPresence {
            xattrs: has(XATTRS),
            streams: has(STREAMS),
            descriptor: has(DESCRIPTOR),
            posix_acl: has(POSIX_ACL),
        };
        Attributes { dos, stored, set_changed: time(self.set_changed), ..attributes }
    }
}

fn place(inode: u64) -> (usize, usize) {
    let at = inode as usize % (PARTS * PART_NOTES);
    (at / PART_NOTES, at % PART_NOTES)
}

/// The coarse clock with which file systems stamp files.
pub fn now() -> i128 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec` to the pointer, which lives until it returns.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut time) };
    if result != 0 {
        return i128::MIN + SETTLED_NANOS;
    }
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use vfs::{FileKey, FileKind};

    fn attributes(inode: u64, changed: i128) -> Attributes {
        let time = Timestamp(changed);
        Attributes {
            key: FileKey { device: u64::MAX, inode },
            kind: FileKind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            links: 1,
            size_bytes: 0,
            allocated_bytes: 0,
            accessed: time,
            modified: time,
            changed: time,
            change: 0,
            born: None,
            dos: DosInfo { bits: Some(2), created: Some(Timestamp(77)) },
            set_changed: None,
            stored: MetadataPresence { streams: true, ..MetadataPresence::NOTHING },
            device: None,
            compressed: false,
            protection: vfs::Protection::None,
        }
    }

    #[test]
    fn cached_xattrs_are_valid_while_ctime_stays() {
        let reader = Reader { settled_before: 1000 };
        let noted = attributes(5, 900);
        reader.keep(&noted);
        let plain = |of: Attributes| Attributes {
            dos: DosInfo::default(),
            stored: MetadataPresence::UNKNOWN,
            set_changed: None,
            ..of
        };
        assert_eq!(reader.find(&plain(noted)), Some(noted));
        let set = Attributes { set_changed: Some(Timestamp(123)), ..attributes(7, 900) };
        reader.keep(&set);
        assert_eq!(reader.find(&plain(set)), Some(set), "a change time that was set");
        let past = Attributes { set_changed: Some(Timestamp(i128::MIN)), ..attributes(7, 901) };
        reader.keep(&past);
        assert_eq!(reader.find(&plain(past)), None, "a time without a place");
        assert_eq!(reader.find(&attributes(5, 901)), None, "changed since");
        let other = (PARTS * PART_NOTES) as u64 + 5;
        assert_eq!(reader.find(&attributes(other, 900)), None, "another file in its place");
        reader.keep(&attributes(other, 900));
        assert_eq!(reader.find(&noted), None, "the place has been taken");
    }

    #[test]
    fn recently_changed_file_is_not_cached() {
        let reader = Reader { settled_before: 1000 };
        let fresh = attributes(6, 1000);
        reader.keep(&fresh);
        assert_eq!(Reader { settled_before: 5000 }.find(&fresh), None);
        let folder = std::fs::File::open("/proc/self").unwrap();
        let elsewhere = Reader::of(folder.as_fd());
        assert_eq!(elsewhere.settled_before, i128::MIN, "nor on a file system of another kind");
    }
}
