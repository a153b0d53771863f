//! Journal of persistent and durable opens, and renames of their files.
//!
//! A protocol records such opens with the possible paths of their file after a crash. Before a
//! rename of the file or of a directory above it, the records receive the new paths beside the
//! present one. Once the rename is on stable storage, the other paths are dropped. A restart tries
//! all paths and identifies the file ([`crate::FileIdentity`]).
//!
//! A rename of a file without a record costs one load.

use crate::rename_turns::{RenameSubject, TurnRequest};
use crate::table::{FileTable, OpenFileState, OpenName};
use crate::{OpenFile, RequestFiles, UnstableObjects};
use futures_util::future::BoxFuture;
use smallvec::SmallVec;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use sync::Mutex;
use vfs::{FileKey, FsError, RelPath, Result};

/// Paths in the record of an open beside the present one.
pub const FURTHER_PATHS_MAX: usize = 8;

/// Limit of recorded names that one rename may change: all their records are written before it.
const NAMES_CONCERNED_MAX: usize = 1024;

/// Journal of opens that outlive the process.
pub trait OpenJournal: Send + Sync {
    /// Queues the current facts of all recorded opens of these files. The future returns once they
    /// are on stable storage.
    ///
    /// # Errors
    /// The records may not be on stable storage.
    fn record_opens(&self, files: &[FileKey]) -> BoxFuture<'static, Result<()>>;
}

/// Names of a rename: the present one and its successors in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenameNames {
    pub from: RelPath,
    pub to: SmallVec<[RelPath; 2]>,
}

/// A name that an open may get.
#[derive(Debug)]
struct NameInFlight {
    name: Weak<OpenName>,
    path: RelPath,
    /// Whether its rename may have been carried out without reaching stable storage.
    is_left: bool,
}

/// Names that recorded opens may have, beside their present ones.
#[derive(Debug, Default)]
pub(crate) struct NamesInFlight(Mutex<Vec<NameInFlight>>);

impl NamesInFlight {
    /// Paths that `name` may have, each once.
    pub fn of(&self, name: &Arc<OpenName>) -> Vec<RelPath> {
        let mut paths = Vec::new();
        for one in &*self.0.lock() {
            if std::ptr::eq(one.name.as_ptr(), Arc::as_ptr(name)) && !paths.contains(&one.path) {
                paths.push(one.path.clone());
            }
        }
        paths
    }

    /// Adds names. It evicts the oldest unsettled names at the limit.
    ///
    /// # Errors
    /// [`FsError::Unavailable`] if too many renames of one file are in flight.
    fn add(&self, entries: &[(Weak<OpenName>, RelPath)]) -> Result<()> {
        let mut all = self.0.lock();
        all.retain(|one| one.name.strong_count() > 0);
        for (at, (name, path)) in entries.iter().enumerate() {
            let count = |all: &[NameInFlight]| all.iter().filter(|one| is_of(one, name)).count();
            if count(&all) >= FURTHER_PATHS_MAX
                && let Some(oldest) = all.iter().position(|one| one.is_left && is_of(one, name))
            {
                all.remove(oldest);
            }
            if count(&all) >= FURTHER_PATHS_MAX {
                remove(&mut all, &entries[..at]);
                return Err(FsError::Unavailable);
            }
            all.push(NameInFlight { name: name.clone(), path: path.clone(), is_left: false });
        }
        Ok(())
    }

    /// Drops the names of a rename that was not carried out.
    fn withdraw(&self, entries: &[(Weak<OpenName>, RelPath)]) {
        remove(&mut self.0.lock(), entries);
    }

    /// Drops the names of a stable rename, and those that earlier ones left unsettled.
    fn settle(&self, entries: &[(Weak<OpenName>, RelPath)]) {
        let mut all = self.0.lock();
        remove(&mut all, entries);
        all.retain(|one| !one.is_left || entries.iter().all(|(name, _)| !is_of(one, name)));
    }

    /// Retains the names of a rename that was carried out, and may not be stable.
    fn leave(&self, entries: &[(Weak<OpenName>, RelPath)]) {
        for one in &mut *self.0.lock() {
            one.is_left |= entries.iter().any(|(name, path)| is_of(one, name) && one.path == *path);
        }
    }
}

fn is_of(one: &NameInFlight, name: &Weak<OpenName>) -> bool {
    one.name.ptr_eq(name)
}

/// Removes each entry once: another rename may have announced the same name.
fn remove(all: &mut Vec<NameInFlight>, entries: &[(Weak<OpenName>, RelPath)]) {
    for (name, path) in entries {
        let is_it = |one: &NameInFlight| !one.is_left && is_of(one, name) && one.path == *path;
        if let Some(at) = all.iter().position(is_it) {
            all.remove(at);
        }
    }
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

impl crate::Files {
    /// Sets the journal; once, before there are opens to record.
    pub fn set_open_journal(&self, journal: Weak<dyn OpenJournal>) {
        let _ = self.table.open_journal.set(journal);
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
