//! What was done so far, counted as it is done; what it comes to at the end.

use crate::error::{Error, Failure};
use crate::limits::FAILURES_KEPT_MAX;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counters that all tasks of a copy share.
#[derive(Debug, Default)]
pub struct Tally {
    /// Files that are to be copied, as far as is known.
    pub files_found: AtomicU64,
    /// Their bytes.
    pub bytes_found: AtomicU64,
    /// All directories have been listed: the above will not grow.
    pub is_listed: AtomicBool,
    /// Files that were copied.
    pub files_copied: AtomicU64,
    /// Bytes that were written, holes left out.
    pub bytes_copied: AtomicU64,
    /// Bytes that an earlier run had written.
    pub bytes_resumed: AtomicU64,
    /// Bytes of holes.
    pub bytes_holes: AtomicU64,
    /// Files that are there as they are.
    pub files_same: AtomicU64,
    /// Directories that were made.
    pub directories_made: AtomicU64,
    /// What only the target has.
    pub extras: AtomicU64,
    /// What of it was removed.
    pub removed: AtomicU64,
    /// A file on one side, a directory on the other.
    pub mismatched: AtomicU64,
    /// Links and devices, and what the filters leave out.
    pub left_out: AtomicU64,
    /// What was not copied and should have been.
    pub failed: AtomicU64,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    failures: Vec<Failure>,
    messages: Vec<String>,
    fatal: Option<Error>,
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files that are done.
    pub files: u64,
    /// Files that are known of.
    pub files_found: u64,
    /// Bytes that are done.
    pub bytes: u64,
    /// Bytes that are known of.
    pub bytes_found: u64,
    /// Whether more may be found.
    pub is_listed: bool,
}

/// What a copy came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Files that were copied.
    pub files_copied: u64,
    /// Bytes that were written.
    pub bytes_copied: u64,
    /// Bytes that an earlier run had written.
    pub bytes_resumed: u64,
    /// Bytes of holes, which were not sent.
    pub bytes_holes: u64,
    /// Files that were there as they are.
    pub files_same: u64,
    /// Directories that were made.
    pub directories_made: u64,
    /// What only the target has.
    pub extras: u64,
    /// What of it was removed.
    pub removed: u64,
    /// A file on one side, a directory on the other.
    pub mismatched: u64,
    /// Links, devices, and what the filters leave out.
    pub left_out: u64,
    /// What was not copied and should have been.
    pub failed: u64,
    /// Which, and why; at most a thousand.
    pub failures: Vec<Failure>,
    /// Why it ended early, if it did.
    pub fatal: Option<String>,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Tally {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something was not copied.
    pub(crate) fn fail(&self, path: &str, error: &Error) {
        add(&self.failed, 1);
        let mut notes = self.notes();
        if error.is_fatal() {
            notes.fatal.get_or_insert_with(|| error.clone());
        }
        if notes.failures.len() < FAILURES_KEPT_MAX {
            notes.failures.push(Failure { path: path.to_owned(), why: error.to_string() });
        }
    }

    /// Why no other file will fare better, if so.
    /// Whether something is there now that was not, or the other way round.
    pub(crate) fn has_changed(&self) -> bool {
        let changes = [&self.files_copied, &self.directories_made, &self.removed];
        changes.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    pub(crate) fn fatal(&self) -> Option<Error> {
        self.notes().fatal.clone()
    }

    /// Says something to the user.
    pub(crate) fn say(&self, message: String) {
        self.notes().messages.push(message);
    }

    /// What is to be said, once.
    pub fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut self.notes().messages)
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let bytes = [&self.bytes_copied, &self.bytes_resumed, &self.bytes_holes];
        Progress {
            files: read(&self.files_copied) + read(&self.failed),
            files_found: read(&self.files_found),
            bytes: bytes.into_iter().map(read).sum(),
            bytes_found: read(&self.bytes_found),
            is_listed: self.is_listed.load(Ordering::Relaxed),
        }
    }

    /// What it came to.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let notes = self.notes();
        Summary {
            files_copied: read(&self.files_copied),
            bytes_copied: read(&self.bytes_copied),
            bytes_resumed: read(&self.bytes_resumed),
            bytes_holes: read(&self.bytes_holes),
            files_same: read(&self.files_same),
            directories_made: read(&self.directories_made),
            extras: read(&self.extras),
            removed: read(&self.removed),
            mismatched: read(&self.mismatched),
            left_out: read(&self.left_out),
            failed: read(&self.failed),
            failures: notes.failures.clone(),
            fatal: notes.fatal.as_ref().map(ToString::to_string),
        }
    }
}

impl Summary {
    /// The exit code, which means what robocopy's does: 1 something was copied, 2 the
    /// target has more, 4 something is a file here and a directory there, 8 something was not
    /// copied, 16 it could not go on; their sum.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let copied = self.files_copied + self.directories_made > 0;
        let bits = [
            (1, copied),
            (2, self.extras > 0),
            (4, self.mismatched > 0),
            (8, self.failed > 0),
            (16, self.fatal.is_some()),
        ];
        bits.iter().filter(|(_, on)| *on).map(|(bit, _)| bit).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_sums_of_what_happened() {
        assert_eq!(Summary::default().exit_code(), 0);
        let copied = Summary { files_copied: 1, ..Summary::default() };
        assert_eq!(copied.exit_code(), 1);
        let extra = Summary { extras: 2, ..copied.clone() };
        assert_eq!(extra.exit_code(), 3);
        let bad = Summary { failed: 1, mismatched: 1, ..copied };
        assert_eq!(Summary { removed: 2, ..extra }.exit_code(), 3, "as with robocopy /MIR");
        assert_eq!(bad.exit_code(), 13);
        assert_eq!(Summary { fatal: Some(String::new()), ..bad }.exit_code(), 29);
    }

    #[test]
    fn the_first_failure_that_ends_all_is_kept() {
        let tally = Tally::default();
        tally.fail("a", &Error::Differs);
        assert_eq!(tally.fatal(), None);
        tally.fail("b", &Error::Full("disk".into()));
        tally.fail("c", &Error::Lost("net".into()));
        assert_eq!(tally.fatal(), Some(Error::Full("disk".into())));
        assert_eq!((tally.summary().failed, tally.summary().failures.len()), (3, 3));
    }
}
