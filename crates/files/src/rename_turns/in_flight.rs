//! Renames in flight and renames that have ended, as concurrent opens see them.
//!
//! An open resolves a path without a turn. A rename announces itself before it looks for opens, and
//! an open registers before it relies on its lookup, so one of them sees the other. The rename of a
//! directory concerns all opens in its tree. The rename of a file concerns opens of that file and
//! opens by the old or the new name. It is counted by hashes of these, which both sides know.

use super::TreeSet;
use crate::Volume;
use smallvec::SmallVec;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::{FileKey, KeyedBuildHasher, RelPath, fold_case};

/// Number of counts for renames of files. Two files that share one only make an open look again.
const FILE_COUNTS: usize = 4096;

/// Number of the last rename that had ended when a path was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RenameEpoch(u64);

/// Renames of one subject.
#[derive(Debug, Default)]
struct RenameCount {
    in_flight: AtomicU64,
    /// Number of the last rename that ended.
    last_ended: AtomicU64,
}

impl RenameCount {
    fn is_in_flight(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) != 0
    }

    /// Whether no rename is in flight and none has ended since. The order of the loads matters: a
    /// rename stores its end before it leaves.
    fn is_quiet_since(&self, epoch: RenameEpoch) -> bool {
        !self.is_in_flight() && self.last_ended.load(Ordering::SeqCst) <= epoch.0
    }
}

/// The file that an open or a rename concerns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenameSubject<'a> {
    /// File system of the share's root.
    pub root_device: u64,
    /// The file, once it is known.
    pub file: Option<FileKey>,
    /// Its path. Only the last component counts, because shares have different roots.
    pub path: &'a RelPath,
}

impl<'a> RenameSubject<'a> {
    /// An open of `file`, if that is known, by this path in `volume`.
    pub fn new(volume: &Volume, file: Option<FileKey>, path: &'a RelPath) -> Self {
        Self { root_device: volume.vfs_serial(), file, path }
    }
}

/// Counts of renames by subject.
#[derive(Debug)]
pub(super) struct RenameCounts {
    /// All renames; its last end numbers them.
    all: RenameCount,
    trees: Vec<RenameCount>,
    files: Vec<RenameCount>,
    hasher: KeyedBuildHasher,
}

impl Default for RenameCounts {
    fn default() -> Self {
        let counts = |count| std::iter::repeat_with(RenameCount::default).take(count).collect();
        Self {
            all: RenameCount::default(),
            trees: counts(super::TREES),
            files: counts(FILE_COUNTS),
            hasher: KeyedBuildHasher::default(),
        }
    }
}

impl RenameCounts {
    pub fn epoch(&self) -> RenameEpoch {
        RenameEpoch(self.all.last_ended.load(Ordering::SeqCst))
    }

    /// Whether no rename can have affected any open since.
    pub fn is_quiet_since(&self, epoch: RenameEpoch) -> bool {
        self.all.is_quiet_since(epoch)
    }

    pub fn are_trees_quiet_since(&self, epoch: RenameEpoch, trees: TreeSet) -> bool {
        trees.numbers().all(|number| self.trees[number].is_quiet_since(epoch))
    }

    pub fn is_file_quiet_since(&self, epoch: RenameEpoch, subject: RenameSubject<'_>) -> bool {
        self.of_file(subject).all(|count| count.is_quiet_since(epoch))
    }

    pub fn is_in_flight(&self, trees: TreeSet, subject: RenameSubject<'_>) -> bool {
        self.all.is_in_flight()
            && (trees.numbers().any(|number| self.trees[number].is_in_flight())
                || self.of_file(subject).any(RenameCount::is_in_flight))
    }

    fn of_file(&self, subject: RenameSubject<'_>) -> impl Iterator<Item = &RenameCount> {
        let places = [subject.file.map(|key| self.of_key(key)), self.of_name(subject.path)];
        places.into_iter().flatten().map(|place| &self.files[place])
    }

    fn of_key(&self, key: FileKey) -> usize {
        self.place(self.hasher.hash_one(key))
    }

    /// The count of a name, by its last component. It is folded, because a rename and an open of one
    /// name may write it differently.
    fn of_name(&self, path: &RelPath) -> Option<usize> {
        let name = path.name()?;
        Some(self.place(self.hasher.hash_one(fold_case(name.as_bytes()))))
    }

    #[allow(clippy::cast_possible_truncation, reason = "it is less than the number of counts")]
    fn place(&self, hash: u64) -> usize {
        (hash % self.files.len() as u64) as usize
    }

    /// Announces a rename that concerns all opens in `trees`.
    pub fn begin_in_trees(&self, trees: TreeSet) -> RenameInFlight<'_> {
        self.all.in_flight.fetch_add(1, Ordering::SeqCst);
        let subjects: SmallVec<[_; 4]> =
            trees.numbers().map(|number| &self.trees[number]).collect();
        for subject in &subjects {
            subject.in_flight.fetch_add(1, Ordering::SeqCst);
        }
        RenameInFlight { counts: self, subjects }
    }
}

/// A rename in flight, until it is dropped.
pub(crate) struct RenameInFlight<'a> {
    counts: &'a RenameCounts,
    subjects: SmallVec<[&'a RenameCount; 4]>,
}

impl RenameInFlight<'_> {
    /// Announces that opens of a file are concerned.
    pub fn note_file(&mut self, key: FileKey) {
        self.note(self.counts.of_key(key));
    }

    /// Announces that opens by a name are concerned.
    pub fn note_name(&mut self, path: &RelPath) {
        if let Some(place) = self.counts.of_name(path) {
            self.note(place);
        }
    }

    fn note(&mut self, place: usize) {
        let subject = &self.counts.files[place];
        subject.in_flight.fetch_add(1, Ordering::SeqCst);
        self.subjects.push(subject);
    }
}

impl Drop for RenameInFlight<'_> {
    fn drop(&mut self) {
        let number = self.counts.all.last_ended.fetch_add(1, Ordering::SeqCst) + 1;
        for subject in &self.subjects {
            subject.last_ended.fetch_max(number, Ordering::SeqCst);
            subject.in_flight.fetch_sub(1, Ordering::SeqCst);
        }
        self.counts.all.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}
