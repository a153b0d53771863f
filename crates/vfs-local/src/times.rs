//! Timestamps that clients set: those that the kernel stores, and the change time, which the kernel
//! does not let processes set. The latter is stored with the DOS attributes.

use crate::attribute_calls::{get_xattr, set_dos};
use crate::dos_attributes::{self, SetChangeTime, StoredDos};
use crate::errors::refusal;
use crate::stamp_clock::{clock_nanos, next_stamp_nanos, wait_until_after};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, StatxFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use sync::Mutex;
use vfs::{Result, Timestamp};

/// Seconds that every file system can store: from 1970 to the end of 31 bits, in 2038.
const HELD_BY_ALL: std::ops::Range<i64> = 0..(1 << 31);
/// Times that the most frequent file systems can store, for the log.
const RANGES: &str = "XFS: from 1901 to 2038, or with bigtime to 2486; ext4: from 1901 to 2446, or \
                      with small inodes to 2038";
/// Attempts to store the change time until the kernel stamps the file with the expected time, which
/// fails when a tick or another file's exact stamp comes between. Every other attempt expects the next
/// stamp of this machine, and the others the distance from the clock that the last one had: a network
/// file system can have a clock of its own.
const ATTEMPTS: usize = 24;
/// Nanoseconds from reading the clock to a file system's own stamp, until an attempt has measured it.
const STAMP_NANOS: i128 = 5_000;

/// Sets times by `set`. The kernel clamps a time that the file system cannot store to the nearest
/// that it can; the first such time per file system is logged. MS-FSA 2.1.5.15.2 does not refuse
/// such times. A check before, or a rollback after the call, would overwrite concurrent changes.
///
/// # Errors
/// The errors of `set`.
pub fn set_nearest(
    fd: BorrowedFd<'_>,
    times: &Timestamps,
    set: impl Fn(&Timestamps) -> Result<()>,
) -> Result<()> {
    set(times)?;
    let is_set = |time: &Timespec| ![UTIME_NOW, UTIME_OMIT].contains(&time.tv_nsec);
    let is_rare = |time: &Timespec| is_set(time) && !HELD_BY_ALL.contains(&time.tv_sec);
    let Timestamps { last_access, last_modification } = times;
    if !is_rare(last_access) && !is_rare(last_modification) {
        return Ok(());
    }
    let Ok(now) = look(fd, StatxFlags::ATIME | StatxFlags::MTIME) else { return Ok(()) };
    let is_cut = |wanted: &Timespec, is: i64| is_rare(wanted) && wanted.tv_sec != is;
    if (is_cut(last_access, now.stx_atime.tv_sec)
        || is_cut(last_modification, now.stx_mtime.tv_sec))
        && is_first_of((now.stx_dev_major, now.stx_dev_minor))
    {
        tracing::warn!(
            device = %format_args!("{}:{}", now.stx_dev_major, now.stx_dev_minor),
            "a file's time was set to the nearest that its file system can hold ({RANGES}); \
             further ones are not logged"
        );
    }
    Ok(())
}

/// Maximum number of file systems that are recorded as logged.
const LOGGED_MAX: usize = 256;

/// True if no time of this file system was logged before.
fn is_first_of(device: (u32, u32)) -> bool {
    static LOGGED: Mutex<Vec<(u32, u32)>> = Mutex::new(Vec::new());
    let mut logged = LOGGED.lock();
    let is_first = !logged.contains(&device) && logged.len() < LOGGED_MAX;
    if is_first {
        logged.push(device);
    }
    is_first
}

fn look(fd: BorrowedFd<'_>, mask: StatxFlags) -> Result<rustix::fs::Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::statx(fd, c"", flags, mask).map_err(|e| refusal("stat", e))
}

/// Stores the change time to report until the file changes again. If extended attributes cannot be
/// stored, or the offset of the file system's clock is unknown, the kernel's change time stays
/// visible. The same applies if the file system has no room, unless the change time is the only
/// requested change. The caller must hold [`dos_attributes::lock_of`] the file.
///
/// # Errors
/// The errors of storing an extended attribute.
pub fn store_change_time(
    fd: BorrowedFd<'_>,
    path_only: bool,
    shown: Timestamp,
    is_alone: bool,
) -> Result<()> {
    let mut distance_nanos = STAMP_NANOS;
    for attempt in 0..ATTEMPTS {
        let info = match get_xattr(fd, path_only, dos_attributes::NAME) {
            Ok(value) => dos_attributes::decode(&value).unwrap_or_default().info,
            Err(Errno::NODATA) => StoredDos::default().info,
            Err(Errno::OPNOTSUPP | Errno::PERM) => return Ok(()),
            // A value that cannot be read cannot be preserved.
            Err(errno) => return Err(refusal("read DOS attributes", errno)),
        };
        let now = clock_nanos(libc::CLOCK_REALTIME);
        let expected = match attempt % 2 {
            0 => next_stamp_nanos(),
            _ => now + distance_nanos,
        };
        let set = SetChangeTime { shown, anchor: Timestamp(expected) };
        let value = dos_attributes::encode(&StoredDos { info, changed: Some(set) });
        match set_dos(fd, path_only, &value) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::PERM) => return Ok(()),
            Err(errno) if !is_alone && is_without_room(errno) => {
                tracing::debug!(%errno, "no room for the change time that a client set: the kernel's stays visible");
                return Ok(());
            }
            Err(errno) => return Err(refusal("set the change time", errno)),
        }
        let stamp = look(fd, StatxFlags::CTIME)?.stx_ctime;
        let changed = i128::from(stamp.tv_sec) * 1_000_000_000 + i128::from(stamp.tv_nsec);
        if set.is_of(Timestamp(changed)) {
            // Until then a later change could get a stamp that passes for this one.
            wait_until_after(expected + dos_attributes::STORING_NANOS);
            return Ok(());
        }
        distance_nanos = changed - now;
    }
    tracing::debug!(
        "storing the change time that a client set took too long in each attempt: the kernel's stays visible"
    );
    Ok(())
}

/// True if there is no room for an attribute: on the disk, in the user's quota, or in the file's
/// inode.
fn is_without_room(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::RANGE | Errno::TOOBIG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::fs::File;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    fn second(tv_sec: i64) -> Timespec {
        Timespec { tv_sec, tv_nsec: 0 }
    }

    /// A file system that stores times until 2038.
    #[test]
    fn unstorable_time_is_clamped_to_the_nearest() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("file")).unwrap();
        let set = |times: &Timestamps| {
            let cut = |t: Timespec| Timespec { tv_sec: t.tv_sec.min(i64::from(i32::MAX)), ..t };
            let times = Timestamps {
                last_access: cut(times.last_access),
                last_modification: cut(times.last_modification),
            };
            rustix::fs::futimens(&file, &times).map_err(|e| refusal("set times", e))
        };
        let at =
            |seconds| Timestamps { last_access: second(7), last_modification: second(seconds) };
        let modified = || look(file.as_fd(), StatxFlags::MTIME).unwrap().stx_mtime.tv_sec;
        for (wanted, is) in [(5, 5), (1 << 32, i64::from(i32::MAX)), (-9, -9)] {
            assert_eq!(set_nearest(file.as_fd(), &at(wanted), set), Ok(()));
            assert_eq!(modified(), is);
        }
        assert!(is_first_of((u32::MAX, 1)));
        assert!(!is_first_of((u32::MAX, 1)), "the second is not logged");
    }

    fn stamp(file: &File) -> Timestamp {
        let stamp = look(file.as_fd(), StatxFlags::CTIME).unwrap().stx_ctime;
        Timestamp(i128::from(stamp.tv_sec) * 1_000_000_000 + i128::from(stamp.tv_nsec))
    }

    /// Gets one exact stamp after another, until `is_done`.
    fn stamp_until(is_done: &AtomicBool) {
        let file = tempfile::tempfile().unwrap();
        while !is_done.load(Relaxed) {
            rustix::io::pwrite(&file, b"x", 0).unwrap();
            stamp(&file);
        }
    }

    /// The calls follow one another at once, so that many fall close to a tick. Another thread has the
    /// kernel give exact stamps, each of which a change could get, too.
    #[test]
    fn change_soon_after_a_stored_change_time_is_detected() {
        let is_done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| stamp_until(&is_done));
            let stored = std::panic::catch_unwind(store_and_change);
            is_done.store(true, Relaxed);
            assert!(stored.is_ok(), "see the panic above");
        });
    }

    fn store_and_change() {
        let file = tempfile::tempfile().unwrap();
        let counts = || {
            let value = get_xattr(file.as_fd(), false, dos_attributes::NAME).unwrap();
            let set = dos_attributes::decode(&value).and_then(|stored| stored.changed).unwrap();
            set.is_of(stamp(&file))
        };
        for n in 0..400 {
            store_change_time(file.as_fd(), false, Timestamp(5), true).unwrap();
            assert!(counts(), "store {n}");
            file.set_len(n).unwrap();
            assert!(!counts(), "change {n}");
        }
    }
}
