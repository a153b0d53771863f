//! The clock with which the kernel stamps changes of files.
//!
//! A change gets the time of the last tick or, from Linux 6.13 on, the greatest exact stamp that any
//! file of the machine got since. It gets an exact stamp of its own if the file's former stamp has been
//! seen and is not older than that. So neither clock of user space says what the next stamp is, but the
//! stamp of another file does, and an exact stamp of one file is a lower bound for all later ones.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, MemfdFlags, StatxFlags};
use std::sync::OnceLock;
use std::time::Duration;

/// Time between two looks at the clock.
const PAUSE: Duration = Duration::from_micros(20);
/// Maximum time to wait, in nanoseconds: two of the slowest ticks, which have 100 Hz.
const PATIENCE_NANOS: i128 = 20_000_000;

/// A file in memory whose change time is the clock; `None` if there is none.
fn clock_file() -> Option<&'static OwnedFd> {
    static FILE: OnceLock<Option<OwnedFd>> = OnceLock::new();
    FILE.get_or_init(|| {
        rustix::fs::memfd_create(c"anabranch-clock", MemfdFlags::CLOEXEC)
            .inspect_err(
                |errno| tracing::debug!(%errno, "no file in memory for the clock of stamps"),
            )
            .ok()
    })
    .as_ref()
}

/// The time, in nanoseconds since 1970, with which the kernel stamps the next change of a file that is
/// older, unless a tick or another exact stamp comes between. Without a file in memory the time of
/// the last tick. Stamps of later changes are not earlier.
pub fn next_stamp_nanos() -> i128 {
    let stamped = clock_file().and_then(|file| {
        // A write needs no permission beyond the descriptor's, so any user's thread may do it.
        rustix::io::pwrite(file, b"\0", 0).ok()?;
        // This look also has the kernel stamp the next write of the same tick with its exact time.
        rustix::fs::statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::CTIME).ok()
    });
    match stamped {
        Some(seen) => {
            i128::from(seen.stx_ctime.tv_sec) * 1_000_000_000 + i128::from(seen.stx_ctime.tv_nsec)
        }
        None => clock_nanos(libc::CLOCK_REALTIME_COARSE),
    }
}

/// Waits until all later changes get stamps after `limit_nanos`, or until this takes longer than a tick
/// can. Takes some microseconds after `limit_nanos` from Linux 6.13 on, and up to a tick (10 ms) before.
pub fn wait_until_after(limit_nanos: i128) {
    let begin = clock_nanos(libc::CLOCK_MONOTONIC);
    loop {
        // Asked before the stamp, so that a thread that was not scheduled for long looks once more.
        let is_last = clock_nanos(libc::CLOCK_MONOTONIC) - begin >= PATIENCE_NANOS;
        if next_stamp_nanos() > limit_nanos || is_last {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// A clock of this machine, in nanoseconds since its epoch: 1970, unless it is monotonic.
pub fn clock_nanos(clock: libc::clockid_t) -> i128 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec` to the pointer, which lives until it returns.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result != 0 {
        return 0;
    }
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_after_a_wait_are_later_than_the_limit() {
        for _ in 0..50 {
            let limit = clock_nanos(libc::CLOCK_REALTIME) + 100_000;
            wait_until_after(limit);
            let file = tempfile::tempfile().unwrap();
            rustix::io::pwrite(&file, b"x", 0).unwrap();
            let seen =
                rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, StatxFlags::CTIME).unwrap();
            let stamp = i128::from(seen.stx_ctime.tv_sec) * 1_000_000_000
                + i128::from(seen.stx_ctime.tv_nsec);
            assert!(stamp > limit, "{stamp} {limit}");
        }
    }
}
