//! Files with the set-group-ID bit and without group execution, which once meant mandatory locking.
//! A write by a member of that group preserves the bit, and the kernel must know the writer's groups
//! for it. chmod(2).

use rustix::fs::Mode;
use rustix::time::ClockId;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// A verdict is reused for this long: a local program may change a mode at any time, and each write
/// would ask the kernel for it otherwise.
const VERDICT_MS_MAX: u64 = 10;
/// Bits of a verdict that hold the number of [`MARKED`]; the others hold the time.
const COUNT_BITS: u32 = 20;

/// Number of times that this process has marked a file: every verdict of before is void.
static MARKED: AtomicU64 = AtomicU64::new(0);

/// Reports that this process has given a file this mode. After the change, so that a verdict of the
/// present count is one of the present mode.
pub fn note_mode(mode: Mode) {
    if is_mark(mode.as_raw_mode()) {
        MARKED.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_mark(mode: u32) -> bool {
    mode & 0o2010 == 0o2000
}

/// Recent verdict that a file is not marked. 0: none.
#[derive(Debug, Default)]
pub struct UnmarkedVerdict(AtomicU64);

impl UnmarkedVerdict {
    /// True if the file is marked.
    pub fn is_marked(&self, file: BorrowedFd<'_>) -> bool {
        let now = stamp(coarse_ms());
        let then = self.0.load(Ordering::Relaxed);
        if then != 0 && is_recent(then, now) {
            return false;
        }
        // On an error the caller acts without privileges, and the kernel decides.
        let is_marked = rustix::fs::fstat(file).is_ok_and(|stat| is_mark(stat.st_mode));
        self.0.store(if is_marked { 0 } else { now }, Ordering::Relaxed);
        is_marked
    }
}

/// The time with the count of [`MARKED`], never 0.
fn stamp(ms: u64) -> u64 {
    let count = MARKED.load(Ordering::Relaxed) & ((1 << COUNT_BITS) - 1);
    ((ms + 1) << COUNT_BITS) | count
}

fn is_recent(then: u64, now: u64) -> bool {
    let counts_agree = (then ^ now) & ((1 << COUNT_BITS) - 1) == 0;
    counts_agree && (now >> COUNT_BITS).saturating_sub(then >> COUNT_BITS) <= VERDICT_MS_MAX
}

/// Milliseconds by the clock that costs no system call.
fn coarse_ms() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn verdict_is_void_after_its_time_and_after_a_mark() {
        let then = stamp(1000);
        assert!(is_recent(then, stamp(1000 + VERDICT_MS_MAX)));
        assert!(!is_recent(then, stamp(1001 + VERDICT_MS_MAX)));
        note_mode(Mode::from_raw_mode(0o2755));
        note_mode(Mode::from_raw_mode(0o644));
        let file = tempfile::tempfile().unwrap();
        let verdict = UnmarkedVerdict::default();
        assert!(!verdict.is_marked(file.as_fd()));
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o2644)).unwrap();
        note_mode(Mode::from_raw_mode(0o2644));
        assert!(verdict.is_marked(file.as_fd()));
    }

    #[test]
    fn mark_by_a_local_program_counts_after_the_verdicts_time() {
        let file = tempfile::tempfile().unwrap();
        let verdict = UnmarkedVerdict::default();
        assert!(!verdict.is_marked(file.as_fd()));
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o2644)).unwrap();
        let begin = std::time::Instant::now();
        while !verdict.is_marked(file.as_fd()) {
            assert!(begin.elapsed() < std::time::Duration::from_secs(10), "never noticed");
        }
    }
}
