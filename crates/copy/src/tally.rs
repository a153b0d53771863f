//! Counters of a copy in progress, and its summary at the end.

use crate::error::{Error, Failure};
use crate::limits::FAILURES_KEPT_MAX;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::{Mutex, MutexGuard};

/// Counters that all tasks of a copy share.
#[derive(Debug, Default)]
pub struct CopyTally {
    /// Files found so far that are to be copied.
    pub files_found: AtomicU64,
    /// Bytes of `files_found`.
    pub bytes_found: AtomicU64,
    /// All directories have been listed: `files_found` and `bytes_found` are final.
    pub is_listed: AtomicBool,
    /// Files that were copied.
    pub files_copied: AtomicU64,
    /// Symbolic links that were copied as links.
    pub links_copied: AtomicU64,
    /// Bytes that were written, without holes.
    pub bytes_copied: AtomicU64,
    /// Bytes that an earlier run had written.
    pub bytes_resumed: AtomicU64,
    /// Bytes of holes.
    pub bytes_sparse: AtomicU64,
    /// Files that the target already has.
    pub files_unchanged: AtomicU64,
    /// Directories that were created.
    pub directories_created: AtomicU64,
    /// Entries that only the target has.
    pub extras: AtomicU64,
    /// Extra entries that were removed.
    pub removed: AtomicU64,
    /// Names that are a file on one side and a directory on the other.
    pub mismatched: AtomicU64,
    /// Links, devices and entries that the filters exclude.
    pub skipped: AtomicU64,
    /// Entries whose copy failed.
    pub failed: AtomicU64,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    failures: Vec<Failure>,
    messages: Vec<String>,
    fatal: Option<Error>,
}

/// Progress of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobProgress {
    /// Files that were copied or failed.
    pub files: u64,
    /// Files found so far.
    pub files_found: u64,
    /// Bytes that were copied, resumed or skipped as holes.
    pub bytes: u64,
    /// Bytes of the files found so far.
    pub bytes_found: u64,
    /// Whether all directories have been listed, so that the totals are final.
    pub is_listed: bool,
}

/// The result of a copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Files that were copied.
    pub files_copied: u64,
    /// Symbolic links that were copied as links.
    pub links_copied: u64,
    /// Bytes that were written.
    pub bytes_copied: u64,
    /// Bytes that an earlier run had written.
    pub bytes_resumed: u64,
    /// Bytes of holes, which were not sent.
    pub bytes_sparse: u64,
    /// Files that the target already had.
    pub files_unchanged: u64,
    /// Directories that were created.
    pub directories_created: u64,
    /// Entries that only the target has.
    pub extras: u64,
    /// Extra entries that were removed.
    pub removed: u64,
    /// Names that are a file on one side and a directory on the other.
    pub mismatched: u64,
    /// Links, devices and entries that the filters exclude.
    pub skipped: u64,
    /// Entries whose copy failed.
    pub failed: u64,
    /// The failed entries with their reasons; at most [`FAILURES_KEPT_MAX`].
    pub failures: Vec<Failure>,
    /// The error that ended the copy early, if any.
    pub fatal: Option<String>,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl CopyTally {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock()
    }

    /// Records that the entry at `path` was not copied.
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

    /// Whether the copy has changed the target.
    pub(crate) fn has_changed(&self) -> bool {
        let changes =
            [&self.files_copied, &self.links_copied, &self.directories_created, &self.removed];
        changes.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// The error that makes every further file fail, too, if there was one.
    pub(crate) fn fatal(&self) -> Option<Error> {
        self.notes().fatal.clone()
    }

    /// Queues a message for the user.
    pub(crate) fn say(&self, message: String) {
        self.notes().messages.push(message);
    }

    /// Takes the queued messages.
    pub fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut self.notes().messages)
    }

    /// The progress so far. Reads the counters one by one, without a common snapshot.
    #[must_use]
    pub fn progress(&self) -> JobProgress {
        let bytes = [&self.bytes_copied, &self.bytes_resumed, &self.bytes_sparse];
        JobProgress {
            files: read(&self.files_copied) + read(&self.failed),
            files_found: read(&self.files_found),
            bytes: bytes.into_iter().map(read).sum(),
            bytes_found: read(&self.bytes_found),
            is_listed: self.is_listed.load(Ordering::Relaxed),
        }
    }

    /// The result so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let notes = self.notes();
        Summary {
            files_copied: read(&self.files_copied),
            links_copied: read(&self.links_copied),
            bytes_copied: read(&self.bytes_copied),
            bytes_resumed: read(&self.bytes_resumed),
            bytes_sparse: read(&self.bytes_sparse),
            files_unchanged: read(&self.files_unchanged),
            directories_created: read(&self.directories_created),
            extras: read(&self.extras),
            removed: read(&self.removed),
            mismatched: read(&self.mismatched),
            skipped: read(&self.skipped),
            failed: read(&self.failed),
            failures: notes.failures.clone(),
            fatal: notes.fatal.as_ref().map(ToString::to_string),
        }
    }
}

impl Summary {
    /// Whether the target has every entry of the source that the options select.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failed == 0 && self.mismatched == 0 && self.fatal.is_none()
    }

    /// The exit code, a sum with robocopy's meanings: 1 something was copied, 2 the target has extra
    /// entries, 4 a file on one side is a directory on the other, 8 something was not copied, 16 the
    /// copy ended early.
    #[must_use]
    pub fn robocopy_exit_code(&self) -> u8 {
        let copied = self.files_copied + self.links_copied + self.directories_created > 0;
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
    fn robocopy_exit_code_is_the_sum_of_its_outcomes() {
        assert_eq!(Summary::default().robocopy_exit_code(), 0);
        let copied = Summary { files_copied: 1, ..Summary::default() };
        assert_eq!(copied.robocopy_exit_code(), 1);
        let extra = Summary { extras: 2, ..copied.clone() };
        assert_eq!(extra.robocopy_exit_code(), 3);
        let bad = Summary { failed: 1, mismatched: 1, ..copied };
        assert_eq!(
            Summary { removed: 2, ..extra }.robocopy_exit_code(),
            3,
            "as with robocopy /MIR"
        );
        assert_eq!(bad.robocopy_exit_code(), 13);
        assert!(!bad.is_complete() && Summary { extras: 1, ..Summary::default() }.is_complete());
        assert_eq!(Summary { fatal: Some(String::new()), ..bad }.robocopy_exit_code(), 29);
    }

    #[test]
    fn first_fatal_failure_is_reported() {
        let tally = CopyTally::default();
        tally.fail("a", &Error::Differs);
        assert_eq!(tally.fatal(), None);
        tally.fail("b", &Error::Full("disk".into()));
        tally.fail("c", &Error::Lost("net".into()));
        assert_eq!(tally.fatal(), Some(Error::Full("disk".into())));
        assert_eq!((tally.summary().failed, tally.summary().failures.len()), (3, 3));
    }
}
