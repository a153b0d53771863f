//! Renames of files with recorded opens: see [`crate::OpenJournal`].
//!
//! Before a rename of the file or of a directory above it, the records receive the new paths beside
//! the present one. Once the rename is on stable storage, the other paths are dropped.
//!
//! A rename of a file without a record costs one load.

use crate::open_journal::OpenJournal;
use crate::open_name::OpenName;
use crate::rename_turns::{RenameSubject, TurnRequest};
use crate::table::{FileTable, OpenFileState};
use crate::{OpenFile, RequestFiles, UnstableObjects};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use vfs::{FileKey, FsError, RelPath, Result};

/// Limit of recorded names that one rename may change: all their records are written before it.
const NAMES_CONCERNED_MAX: usize = 1024;

/// Names of a rename: the present one and its successors in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenameNames {
    pub from: RelPath,
    pub to: SmallVec<[RelPath; 2]>,
}

/// A rename whose names all concerned records contain.
#[derive(Debug)]
pub(crate) struct AnnouncedRename {
    table: Arc<FileTable>,
    names: RenameNames,
    files: Vec<FileKey>,
    /// Affected names; a name that is closed meanwhile drops out.
    entries: Vec<(Weak<OpenName>, RelPath)>,
    state: RenameState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RenameState {
    Announced,
    CarriedOut,
    Settled,
}

impl AnnouncedRename {
    /// Registers the names; the caller writes the records.
    fn new(table: &Arc<FileTable>, open: &OpenFile, names: RenameNames) -> Result<Self> {
        let concerned = table.recorded_names(open, &names.from);
        if concerned.len() > NAMES_CONCERNED_MAX {
            return Err(FsError::ShareViolation);
        }
        let mut files: Vec<FileKey> = concerned.iter().map(|(key, _)| *key).collect();
        files.sort_unstable();
        files.dedup();
        let entries: Vec<_> = concerned
            .iter()
            .flat_map(|(_, name)| moved(name, &names).map(|path| (Arc::downgrade(name), path)))
            .collect();
        table.names_in_flight.add(&entries)?;
        let (table, state) = (table.clone(), RenameState::Announced);
        Ok(Self { table, names, files, entries, state })
    }

    /// Whether the records of all opens that the rename concerns now contain their new names.
    fn covers(&self, concerned: &[(FileKey, Arc<OpenName>)], names: &RenameNames) -> bool {
        let is_recorded = |name: &Arc<OpenName>, path: &RelPath| {
            let is_it = |known: &Weak<OpenName>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(name));
            self.entries.iter().any(|(known, to)| is_it(known) && to == path)
        };
        self.names == *names
            && concerned
                .iter()
                .all(|(_, name)| moved(name, names).all(|path| is_recorded(name, &path)))
    }

    /// Notes that the rename was carried out.
    pub fn note_carried_out(&mut self) {
        self.state = RenameState::CarriedOut;
    }
}

impl Drop for AnnouncedRename {
    fn drop(&mut self) {
        match self.state {
            RenameState::Announced => self.table.names_in_flight.withdraw(&self.entries),
            RenameState::CarriedOut => self.table.names_in_flight.leave(&self.entries),
            RenameState::Settled => self.table.names_in_flight.settle(&self.entries),
        }
    }
}

/// Paths of `name` during the rename, including the present one, which counts until the rename is
/// stable; none if the name lies elsewhere.
fn moved(name: &OpenName, names: &RenameNames) -> impl Iterator<Item = RelPath> {
    let path = name.path();
    let all = std::iter::once(&names.from).chain(&names.to);
    all.filter_map(move |to| path.moved(&names.from, to))
}

impl FileTable {
    /// Names of recorded opens at or below `from`, the present name of `open`.
    fn recorded_names(&self, open: &OpenFile, from: &RelPath) -> Vec<(FileKey, Arc<OpenName>)> {
        let of = |state: &Arc<OpenFileState>| {
            let is_concerned = |name: &&Arc<OpenName>| {
                // The state itself holds one reference to each name.
                let is_open = Arc::strong_count(name) > 1;
                is_open
                    && Arc::ptr_eq(&name.volume.vfs, &open.volume().vfs)
                    && name.path().starts_with(from)
            };
            let held = state.view();
            let names: Vec<_> = held.names().iter().filter(is_concerned).cloned().collect();
            let key = state.present_key();
            names.into_iter().map(move |name| (key, name))
        };
        let below = match open.is_directory() {
            true => self.open_below(open.volume(), from, false),
            false => Vec::new(),
        };
        let recorded = std::iter::once(&open.state).chain(&below).filter(|s| s.is_recorded());
        recorded.flat_map(of).collect()
    }

    /// Whether any open may have been recorded: one load.
    pub(crate) fn has_records(&self) -> bool {
        self.has_recorded.load(Ordering::SeqCst)
    }

    /// Whether the rename of `open` may proceed: it concerns no recorded open, or all their records
    /// contain its names.
    pub(crate) fn is_announced(
        &self,
        open: &OpenFile,
        names: &RenameNames,
        announced: Option<&AnnouncedRename>,
    ) -> bool {
        let concerned = self.recorded_names(open, &names.from);
        concerned.is_empty() || announced.is_some_and(|one| one.covers(&concerned, names))
    }

    pub(crate) fn open_journal(&self) -> Option<Arc<dyn OpenJournal>> {
        self.open_journal.get().and_then(Weak::upgrade)
    }
}

impl OpenFile {
    /// Notes that the journal has, or will have, a record of the open.
    pub(crate) fn note_recorded(&self) {
        self.state.note_recorded();
        self.table.has_recorded.store(true, Ordering::SeqCst);
    }
}

impl RequestFiles {
    /// Call before the first record of an open is written. A rename either sees that there will be
    /// one, or has ended when this returns.
    pub async fn begin_record(&self, open: &OpenFile) {
        open.note_recorded();
        let path = open.path();
        let subject = RenameSubject::new(open.volume(), Some(open.key()), &path);
        if self.table.rename_turns.is_in_flight(subject) {
            let change = TurnRequest { moves_directory: false, ..open.name_change() };
            drop(self.table.rename_turns.take(&change, &[]).await);
        }
    }

    /// Writes a change that all opens of a file share, if the journal has any of them.
    ///
    /// # Errors
    /// The change may not be on stable storage.
    pub async fn record_opens(&self, open: &OpenFile) -> Result<()> {
        match self.table.open_journal().filter(|_| open.state.is_recorded()) {
            Some(journal) => journal.record_opens(&[open.key()]).await,
            None => Ok(()),
        }
    }

    /// Records the names of a rename before it is carried out.
    pub(crate) async fn announce_rename(
        &self,
        open: &OpenFile,
        names: RenameNames,
    ) -> Result<AnnouncedRename> {
        let announced = AnnouncedRename::new(&self.table, open, names)?;
        if let Some(journal) = self.table.open_journal() {
            journal.record_opens(&announced.files).await?;
        }
        Ok(announced)
    }

    /// Makes an announced rename stable, then drops the other names from the records without
    /// waiting for that: each record contains the file's name.
    ///
    /// # Errors
    /// As [`RequestFiles::make_stable`]; the records retain all names then.
    pub(crate) async fn settle_rename(
        &self,
        open: &OpenFile,
        mut announced: AnnouncedRename,
    ) -> Result<()> {
        let mut unstable = UnstableObjects::default();
        unstable.add_open(open);
        for path in std::iter::once(&announced.names.from).chain(&announced.names.to) {
            if self.add_directory_of(&mut unstable, open.volume(), path).await.is_err() {
                // The directory was renamed since. The records retain all names.
                return Ok(());
            }
        }
        self.make_stable(unstable).await?;
        announced.state = RenameState::Settled;
        let files = std::mem::take(&mut announced.files);
        drop(announced);
        if let Some(journal) = self.table.open_journal() {
            drop(journal.record_opens(&files));
        }
        Ok(())
    }
}
