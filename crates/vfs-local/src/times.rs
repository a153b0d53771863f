//! Times that clients set: those that the kernel keeps, and the change time, which it does not let
//! be set and which is stored beside the DOS attributes.

use crate::dos_attributes::{self, SetChangeTime, StoredDos};
use crate::errors::refusal;
use crate::node::{get_xattr, set_dos};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, StatxFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use vfs::{FsError, Result, Timestamp};

/// Times that every file system holds, in seconds: from 1970 until the 31 bits of the oldest inodes
/// end, in 2038.
const HELD_BY_ALL: std::ops::Range<i64> = 0..(1 << 31);
/// How often the change time is stored until the file's own is where it is expected: the second
/// time the distance of the file system's clock is known.
const ATTEMPTS: usize = 3;

/// Sets times by `set`. The kernel cuts one that the file system cannot hold to the nearest that it
/// can, in silence; then the former times are set again.
///
/// # Errors
/// [`FsError::InvalidParameter`] for a time that the file system cannot hold; those of `set`.
pub fn set_exactly(
    fd: BorrowedFd<'_>,
    times: &Timestamps,
    set: impl Fn(&Timestamps) -> Result<()>,
) -> Result<()> {
    let is_set = |time: &Timespec| ![UTIME_NOW, UTIME_OMIT].contains(&time.tv_nsec);
    let is_rare = |time: &Timespec| is_set(time) && !HELD_BY_ALL.contains(&time.tv_sec);
    if !is_rare(&times.last_access) && !is_rare(&times.last_modification) {
        return set(times);
    }
    let former = present(fd)?;
    set(times)?;
    let now = present(fd)?;
    let is_held = |wanted: &Timespec, is: &Timespec| !is_set(wanted) || wanted.tv_sec == is.tv_sec;
    if is_held(&times.last_access, &now.last_access)
        && is_held(&times.last_modification, &now.last_modification)
    {
        return Ok(());
    }
    set(&former)?;
    Err(FsError::InvalidParameter)
}

fn present(fd: BorrowedFd<'_>) -> Result<Timestamps> {
    let stat = look(fd, StatxFlags::ATIME | StatxFlags::MTIME)?;
    let time =
        |t: rustix::fs::StatxTimestamp| Timespec { tv_sec: t.tv_sec, tv_nsec: t.tv_nsec as _ };
    Ok(Timestamps { last_access: time(stat.stx_atime), last_modification: time(stat.stx_mtime) })
}

fn look(fd: BorrowedFd<'_>, mask: StatxFlags) -> Result<rustix::fs::Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::statx(fd, c"", flags, mask).map_err(|e| refusal("stat", e))
}

/// Stores the change time to show until something changes the file again. Where extended attributes
/// cannot be stored, or the file system's clock cannot be followed, the kernel's stays shown.
///
/// # Errors
/// Those of storing.
pub fn store_change_time(fd: BorrowedFd<'_>, path_only: bool, shown: Timestamp) -> Result<()> {
    let mut distance_nanos = 0;
    for _ in 0..ATTEMPTS {
        let info = match get_xattr(fd, path_only, dos_attributes::NAME) {
            Ok(value) => dos_attributes::decode(&value).unwrap_or_default().info,
            Err(Errno::NODATA) => StoredDos::default().info,
            Err(Errno::OPNOTSUPP) => return Ok(()),
            // What cannot be read cannot be kept.
            Err(errno) => return Err(refusal("read DOS attributes", errno)),
        };
        let anchor = Timestamp(clock_nanos() + distance_nanos);
        let set = SetChangeTime { shown, anchor };
        let value = dos_attributes::encode(&StoredDos { info, changed: Some(set) });
        match set_dos(fd, path_only, &value) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP) => return Ok(()),
            Err(errno) => return Err(refusal("set the change time", errno)),
        }
        let stamp = look(fd, StatxFlags::CTIME)?.stx_ctime;
        let changed = i128::from(stamp.tv_sec) * 1_000_000_000 + i128::from(stamp.tv_nsec);
        if set.is_of(Timestamp(changed)) {
            return Ok(());
        }
        distance_nanos += changed - anchor.0;
    }
    tracing::debug!("the change time could not be kept");
    Ok(())
}

/// By this machine's clock, in nanoseconds since 1970.
fn clock_nanos() -> i128 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec` to the pointer, which lives until it returns.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    if result != 0 {
        return 0;
    }
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::fs::File;

    fn second(tv_sec: i64) -> Timespec {
        Timespec { tv_sec, tv_nsec: 0 }
    }

    /// A file system that holds times until 2038.
    #[test]
    fn time_that_cannot_be_held_is_refused_and_changes_nothing() {
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
        let modified = || present(file.as_fd()).unwrap().last_modification.tv_sec;
        assert_eq!(set_exactly(file.as_fd(), &at(5), set), Ok(()));
        let beyond = set_exactly(file.as_fd(), &at(1 << 32), set);
        assert_eq!((beyond, modified()), (Err(FsError::InvalidParameter), 5));
        assert_eq!((set_exactly(file.as_fd(), &at(-9), set), modified()), (Ok(()), -9));
    }
}
