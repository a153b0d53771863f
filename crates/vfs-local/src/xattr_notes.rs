//! Cache of files' DOS attributes and other extended attributes, so that a repeated listing of a
//! directory need not query them.
//!
//! An entry is valid while the file's change time equals the one that was read before the
//! attributes: on the file systems listed here every change of an attribute moves it. Two changes
//! within one tick of the file system's clock have the same time, so attributes of files that
//! changed a moment ago are not cached. Since Linux 6.13 a change after statx(2) always has another
//! time (multigrain timestamps, Documentation/filesystems/multigrain-ts.rst). On such kernels
//! entries are valid at once, and single nodes of served trees use them as well.
//!
//! All trees share one table of fixed size, indexed by the inode number, so that files created in
//! sequence have adjacent entries.

use crate::stream_store::mounts_in;
use rustix::fd::BorrowedFd;
use std::sync::OnceLock;
use sync::{Mutex, RwLock};
use vfs::{Attributes, DosInfo, MetadataPresence, Timestamp};

/// Minimum time since the last change of a cached file: the coarsest tick is a second, of ext4 with
/// small inodes.
const SETTLED_NANOS: i128 = 2_000_000_000;
const NANOS_PER_SECOND: i128 = 1_000_000_000;
/// Entries allocated at a time, and the number of such parts: 25 MiB in total.
const PART_NOTES: usize = 1024;
const PARTS: usize = 512;
/// Magic number of ext2, ext3 and ext4.
const EXT_MAGIC: i64 = 0xEF53;
/// Magic numbers of file systems that store extended attributes and move the change time with each
/// of them, by this machine's clock.
const FILE_SYSTEMS: [i64; 4] = [EXT_MAGIC, 0x5846_5342, 0x9123_683E, TMPFS_MAGIC];
const TMPFS_MAGIC: i64 = 0x0102_1994;
/// Marks an absent creation time or change time.
const NONE: i64 = i64::MIN;

#[derive(Clone, Copy)]
struct XattrNote {
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

const EMPTY: XattrNote = XattrNote {
    inode: 0,
    device: 0,
    changed: 0,
    created: NONE,
    set_changed: NONE,
    bits: 0,
    flags: 0,
};
const HAS_BITS: u8 = 1;
const XATTRS: u8 = 2;
const STREAMS: u8 = 4;
const DESCRIPTOR: u8 = 8;
const POSIX_ACL: u8 = 16;

type XattrNoteShard = Mutex<Box<[XattrNote]>>;

static TABLE: [OnceLock<XattrNoteShard>; PARTS] = [const { OnceLock::new() }; PARTS];

/// Devices of served trees that have multigrain timestamps, with the number of trees on each.
static SERVED_DEVICES: RwLock<Vec<(u64, u32)>> = RwLock::new(Vec::new());

/// Registration of a served tree's device for [`XattrNoteReader::of_device`]. Its owner has the
/// tree's root open: meanwhile no other file system gets the device number.
#[derive(Debug)]
pub struct DeviceRegistration(Option<u64>);

impl DeviceRegistration {
    /// Registers the device of a tree's root, if it has multigrain timestamps.
    pub fn of(root: BorrowedFd<'_>) -> Self {
        let device = rustix::fs::fstat(root).ok().map(|stat| stat.st_dev);
        let file_system = type_of(root);
        let device = device.filter(|device| {
            is_multigrain(file_system) && !is_older_ext(file_system, || mount_types(*device))
        });
        if let Some(device) = device {
            let mut all = SERVED_DEVICES.write();
            match all.iter_mut().find(|(served, _)| *served == device) {
                Some((_, trees)) => *trees += 1,
                None => all.push((device, 1)),
            }
        }
        Self(device)
    }
}

impl Drop for DeviceRegistration {
    fn drop(&mut self) {
        let Some(device) = self.0 else { return };
        let mut all = SERVED_DEVICES.write();
        all.iter_mut().filter(|(served, _)| *served == device).for_each(|(_, trees)| *trees -= 1);
        all.retain(|(_, trees)| *trees > 0);
    }
}

/// Device of a directory on a file system whose permissions are mode bits and POSIX ACLs.
pub fn posix_device(directory: BorrowedFd<'_>) -> Option<u64> {
    let is_posix = FILE_SYSTEMS.contains(&type_of(directory));
    rustix::fs::fstat(directory).ok().filter(|_| is_posix).map(|stat| stat.st_dev)
}

fn is_registered(device: u64) -> bool {
    let all = SERVED_DEVICES.read();
    all.iter().any(|(served, _)| *served == device)
}

fn type_of(node: BorrowedFd<'_>) -> i64 {
    rustix::fs::fstatfs(node).map_or(0, |stat| stat.f_type)
}

/// Returns true if each change of a file after statx(2) gets another change time on file systems
/// with this magic number.
fn is_multigrain(file_system: i64) -> bool {
    static HAS_KERNEL: OnceLock<bool> = OnceLock::new();
    let has_kernel = || {
        let uname = rustix::system::uname();
        has_multigrain_times(&uname.release().to_string_lossy())
    };
    // tmpfs moves the change time before it stores a POSIX ACL (simple_set_acl).
    let is_ordered = FILE_SYSTEMS.contains(&file_system) && file_system != TMPFS_MAGIC;
    is_ordered && *HAS_KERNEL.get_or_init(has_kernel)
}

/// Returns true if a file system with this magic number may be mounted as ext2 or ext3. The
/// kernel's driver of ext4 serves these types without multigrain timestamps, and their number is
/// the same.
fn is_older_ext(file_system: i64, mount_types: impl FnOnce() -> Vec<Vec<u8>>) -> bool {
    let is_ext4 = |types: Vec<Vec<u8>>| !types.is_empty() && types.iter().all(|t| t == b"ext4");
    file_system == EXT_MAGIC && !is_ext4(mount_types())
}

/// Types of the mounts of a device; empty if they cannot be read.
fn mount_types(device: u64) -> Vec<Vec<u8>> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    mounts_in(&text).filter(|mount| mount.device == device).map(|mount| mount.kind).collect()
}

/// Returns true for a kernel release that has multigrain timestamps: 6.13 or later.
fn has_multigrain_times(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return false;
    };
    (major, minor) >= (6, 13)
}

/// Access to the cache for one listing or one look at a node.
#[derive(Debug)]
pub struct XattrNoteReader {
    /// Files that changed before this time are cacheable, in nanoseconds; none on other file
    /// systems.
    settled_before: i128,
    /// Files that changed later are cacheable, too.
    is_multigrain: bool,
    /// Device of the cacheable files: a child may be a mount point of another.
    device: u64,
}

impl XattrNoteReader {
    /// Creates a reader for the files of a directory. It must be created before their attributes
    /// are read.
    pub fn of(directory: BorrowedFd<'_>) -> Self {
        let found = type_of(directory);
        let settled_before =
            if FILE_SYSTEMS.contains(&found) { now() - SETTLED_NANOS } else { i128::MIN };
        let device = rustix::fs::fstat(directory).map_or(0, |stat| stat.st_dev);
        Self { settled_before, is_multigrain: is_registered(device), device }
    }

    /// Creates a reader for files of a device. None if no tree of it is served, or if it lacks
    /// multigrain timestamps.
    pub fn of_device(device: u64) -> Option<Self> {
        is_registered(device).then_some(Self {
            settled_before: i128::MIN,
            is_multigrain: true,
            device,
        })
    }

    /// These attributes with the cached values of their file.
    pub fn find(&self, attributes: &Attributes) -> Option<Attributes> {
        let changed = self.time_of(attributes)?;
        let (part, at) = place(attributes.key.inode);
        let notes = TABLE[part].get()?.lock();
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
        let Some(note) = XattrNote::of(attributes, changed) else { return };
        let (part, at) = place(note.inode);
        let part = TABLE[part].get_or_init(|| Mutex::new(vec![EMPTY; PART_NOTES].into()));
        part.lock()[at] = note;
    }

    fn time_of(&self, attributes: &Attributes) -> Option<i64> {
        let Timestamp(changed) = attributes.changed;
        // Inodes of 128 bytes on ext4 store whole seconds, in which several changes may fall.
        let is_distinct = self.is_multigrain && changed % NANOS_PER_SECOND != 0;
        let is_own = attributes.key.device == self.device;
        let counts = is_own && changed != 0 && (is_distinct || changed < self.settled_before);
        counts.then(|| i64::try_from(changed).ok()).flatten()
    }
}

impl XattrNote {
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
    i128::from(time.tv_sec) * NANOS_PER_SECOND + i128::from(time.tv_nsec)
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
        let reader =
            XattrNoteReader { settled_before: 1000, is_multigrain: false, device: u64::MAX };
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
        let reader =
            XattrNoteReader { settled_before: 1000, is_multigrain: false, device: u64::MAX };
        let fresh = attributes(6, 1000);
        reader.keep(&fresh);
        assert_eq!(
            XattrNoteReader { settled_before: 5000, is_multigrain: false, device: u64::MAX }
                .find(&fresh),
            None
        );
        let folder = std::fs::File::open("/proc/self").unwrap();
        let elsewhere = XattrNoteReader::of(folder.as_fd());
        assert_eq!(elsewhere.settled_before, i128::MIN, "nor on a file system of another kind");
    }

    #[test]
    fn note_counts_at_once_where_each_change_shows_another_time() {
        let reader =
            XattrNoteReader { settled_before: i128::MIN, is_multigrain: true, device: u64::MAX };
        let fresh = attributes(7, 1_700_000_000_000_000_001);
        reader.keep(&fresh);
        assert_eq!(reader.find(&fresh), Some(fresh));
        let mut elsewhere = attributes(8, 1_700_000_000_000_000_001);
        elsewhere.key.device = 5;
        reader.keep(&elsewhere);
        assert_eq!(reader.find(&elsewhere), None, "a mount point of another file system");
        let whole_seconds = attributes(7, 1_700_000_000_000_000_000);
        reader.keep(&whole_seconds);
        assert_eq!(reader.find(&whole_seconds), None, "several changes may have this time");
    }

    #[test]
    fn kernel_release_decides_on_multigrain_times() {
        for (release, has) in [
            ("6.13.0", true),
            ("6.18.44-fc-v657", true),
            ("7.0-rc1", true),
            ("6.12.9-amd64", false),
            ("5.15.0-91-generic", false),
            ("4.4.0", false),
            ("", false),
            ("x.y", false),
        ] {
            assert_eq!(has_multigrain_times(release), has, "{release}");
        }
    }

    #[test]
    fn ext3_mount_has_no_multigrain_times() {
        let mounts = |types: &[&str]| types.iter().map(|t| t.as_bytes().to_vec()).collect();
        assert!(!is_older_ext(EXT_MAGIC, || mounts(&["ext4", "ext4"])));
        for types in [&["ext3"][..], &["ext2"], &["ext4", "ext3"], &[]] {
            assert!(is_older_ext(EXT_MAGIC, || mounts(types)), "{types:?}");
        }
        assert!(!is_multigrain(TMPFS_MAGIC));
        assert!(!is_older_ext(TMPFS_MAGIC, || mounts(&[])), "another driver");
    }

    #[test]
    fn device_counts_while_a_tree_of_it_is_registered() {
        let Ok(folder) = tempfile::tempdir_in("/var/tmp") else { return };
        let root = std::fs::File::open(folder.path()).unwrap();
        let device = rustix::fs::fstat(&root).unwrap().st_dev;
        if !is_multigrain(type_of(root.as_fd())) {
            return;
        }
        let count = || {
            let all = SERVED_DEVICES.read();
            all.iter().find(|(served, _)| *served == device).map_or(0, |(_, trees)| *trees)
        };
        let before = count();
        let one = DeviceRegistration::of(root.as_fd());
        let other = DeviceRegistration::of(root.as_fd());
        assert!(XattrNoteReader::of_device(device).is_some() && count() >= before + 2);
        drop((one, other));
        let elsewhere = std::fs::File::open("/proc/self").unwrap();
        assert!(DeviceRegistration::of(elsewhere.as_fd()).0.is_none());
    }

    /// The kernel's promise on which notes rest, on the file systems of this machine.
    #[test]
    fn change_after_look_shows_another_time_where_that_is_assumed() {
        let folders = ["/tmp", "/var/tmp"].map(tempfile::tempdir_in);
        for folder in folders.into_iter().flatten() {
            let file = tempfile::tempfile_in(folder.path()).unwrap();
            if !is_multigrain(type_of(file.as_fd())) {
                continue;
            }
            let look = || {
                let (flags, mask) =
                    (rustix::fs::AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::BASIC_STATS);
                let stat = rustix::fs::statx(&file, c"", flags, mask).unwrap();
                crate::attribute_calls::attributes_of(&stat, file.as_fd()).changed
            };
            let mut before = look();
            for round in 0..1000_u32 {
                let value = round.to_ne_bytes();
                let flags = rustix::fs::XattrFlags::empty();
                if rustix::fs::fsetxattr(&file, "user.note", &value, flags).is_err() {
                    break;
                }
                let after = look();
                assert!(after > before, "{folder:?}: round {round}");
                before = after;
            }
        }
    }
}
