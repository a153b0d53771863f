//! A small reference model of a file server, independent of the implementation.
//!
//! A file consists of a few cells, each holding a number; names are numbers, too. Every operation
//! is a sequence of atomic steps, so that concurrent operations can be tried in every order
//! ([`crate::history`]).

use std::collections::BTreeMap;
use wire::fscc;
use wire::ntstatus::NtStatus;

mod locks;
mod steps;

pub use locks::ModelLock;

/// All names. The directory exists from the start.
pub const NAMES: [&str; 5] = ["a", "b", "c", "d\\a", "d\\b"];
/// Length of one cell, which a disk writes atomically.
pub const CELL_BYTES: usize = 512;
/// Maximum number of cells per file.
pub const CELLS_MAX: u8 = 8;

/// Session numbers from here on belong to clients by handle.
pub const DIRECT_SESSIONS: u32 = 1 << 20;

/// Number of an operation. It also identifies the file or open that the operation created.
pub type OpId = u32;

/// Access and share bits of an open.
#[allow(missing_docs)]
pub mod kinds {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const DELETE: u8 = 4;
    pub const ALL: u8 = 7;
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum FileOperation {
    Close { open: OpId },
    Create { name: u8, access: u8, share: u8, disposition: u32, delete_on_close: bool },
    Dispose { open: OpId, delete: bool },
    Flush { open: OpId },
    Lock { open: OpId, lock: Cells, exclusive: bool, waits: bool },
    Read { open: OpId, cells: Cells },
    Rename { open: OpId, to: u8, replace: bool },
    SetSize { open: OpId, count: u8 },
    Unlock { open: OpId, lock: Cells },
    Write { open: OpId, cells: Cells, through: bool },
}

impl FileOperation {
    /// The open that it refers to; `None` for a CREATE.
    #[must_use]
    pub fn open(&self) -> Option<OpId> {
        match *self {
            Self::Create { .. } => None,
            Self::Close { open }
            | Self::Dispose { open, .. }
            | Self::Flush { open }
            | Self::Lock { open, .. }
            | Self::Read { open, .. }
            | Self::Rename { open, .. }
            | Self::SetSize { open, .. }
            | Self::Unlock { open, .. }
            | Self::Write { open, .. } => Some(open),
        }
    }
}

/// A range of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cells {
    /// First cell.
    pub at: u8,
    /// Number of cells, nonzero.
    pub count: u8,
}

impl Cells {
    /// End of the range, exclusive.
    #[must_use]
    pub fn end(self) -> u8 {
        self.at + self.count
    }

    fn overlaps(self, other: Self) -> bool {
        self.at < other.end() && other.at < self.end()
    }
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelAnswer {
    /// Any answer is possible.
    Any,
    /// An injected failure.
    Broken,
    /// The data of a read.
    Cells(Vec<u8>),
    /// Opened, with the create action.
    Opened(u32),
    /// A bare status.
    Status(NtStatusCode),
}

/// A status code, with an order.
pub type NtStatusCode = u32;

impl ModelAnswer {
    fn refused(status: NtStatus) -> Self {
        Self::Status(status.0)
    }

    fn success() -> Self {
        Self::refused(NtStatus::SUCCESS)
    }

    /// True if the model's answer allows the received one.
    #[must_use]
    pub fn allows(&self, received: &Self) -> bool {
        let broken = [NtStatus::DISK_FULL.0, NtStatus::UNEXPECTED_IO_ERROR.0];
        match (self, received) {
            (Self::Any, _) => true,
            (Self::Broken, Self::Status(status)) => broken.contains(status),
            _ => self == received,
        }
    }
}

/// A requested operation.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Its number, which determines the data that it writes.
    pub id: OpId,
    /// Its session.
    pub session: u32,
    /// The operation.
    pub op: FileOperation,
    /// Its predecessor in a chain of related requests.
    pub after: Option<OpId>,
    /// Its cancellation was requested.
    pub is_cancelled: bool,
}

impl ModelRequest {
    /// The number that it writes into cells.
    #[must_use]
    pub fn stamp(&self) -> u8 {
        (self.id % 251) as u8 + 1
    }
}

/// Progress of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperationProgress {
    /// No step is executed yet.
    New,
    /// This many steps are executed, on this file.
    At(u8, OpId),
    /// Only the answer is left to be received.
    Done(ModelAnswer),
}

/// Files, opens and locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelState {
    /// Files, by the operation that created them.
    pub files: BTreeMap<OpId, ReferenceFile>,
    /// Opens, by the operation that created them.
    pub opens: BTreeMap<OpId, ReferenceOpen>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReferenceFile {
    /// Contents.
    pub cells: Vec<u8>,
    /// Name; `None` once it was removed.
    pub name: Option<u8>,
    /// Delete pending: the last close removes the name.
    pub is_delete_pending: bool,
    /// Byte-range locks, sorted.
    pub locks: Vec<ModelLock>,
    /// Guaranteed state after a power failure, in runs with such failures.
    pub durable: Option<Durable>,
}

/// State of a file at its last sync, and its changes since then.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Durable {
    /// Contents.
    pub cells: Vec<u8>,
    /// Names since then; `None` for a removal.
    pub names: Vec<Option<u8>>,
    /// Cells written since then, with their values.
    pub written: Vec<(Cells, u8)>,
    /// Minimum size since then.
    pub size_min: u8,
}

/// An open.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReferenceOpen {
    /// The file.
    pub file: OpId,
    /// Its session.
    pub session: u32,
    /// See [`kinds`].
    pub access: u8,
    /// See [`kinds`].
    pub share: u8,
    /// Delete on close.
    pub deletes_on_close: bool,
    /// A CLOSE has removed it from its owner, and its locks and share mode remain for a moment.
    pub is_closing: bool,
}

/// Events other than the requested operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelRules {
    /// Backend calls can fail.
    pub failures: bool,
    /// Power failures occur.
    pub power: bool,
}

impl ModelState {
    /// The file with this name.
    #[must_use]
    pub fn named(&self, name: u8) -> Option<OpId> {
        self.files.iter().find(|(_, file)| file.name == Some(name)).map(|(id, _)| *id)
    }

    fn opens_of(&self, file: OpId) -> impl Iterator<Item = (OpId, &ReferenceOpen)> {
        self.opens.iter().filter(move |(_, open)| open.file == file).map(|(id, open)| (*id, open))
    }

    fn has_opens(&self, file: OpId) -> bool {
        self.opens_of(file).next().is_some()
    }

    /// True if an open with this access and share mode is a sharing violation.
    fn conflicts(&self, file: OpId, access: u8, share: u8) -> bool {
        self.opens_of(file).any(|(_, open)| {
            open.access != 0
                && access != 0
                && (access & !open.share != 0 || open.access & !share != 0)
        })
    }

    fn file(&mut self, id: OpId) -> Option<&mut ReferenceFile> {
        self.files.get_mut(&id)
    }

    fn with_file(&mut self, id: OpId, run: impl FnOnce(&mut ReferenceFile)) {
        if let Some(file) = self.files.get_mut(&id) {
            run(file);
        }
    }

    /// True if an open retains its file's name; opens of clients by handle do not.
    fn is_kept(&self, file: OpId) -> bool {
        self.opens_of(file).any(|(_, open)| open.session < DIRECT_SESSIONS)
    }

    /// Releases the locks and share mode of an open. True if its file must be removed now.
    fn release(&mut self, id: OpId) -> bool {
        let Some(open) = self.opens.remove(&id) else { return false };
        let left = self.is_kept(open.file);
        let Some(file) = self.files.get_mut(&open.file) else { return false };
        file.locks.retain(|lock| lock.open != id);
        file.is_delete_pending |= open.deletes_on_close;
        file.is_delete_pending && file.name.is_some() && !left
    }

    /// Removes a delete-pending file without opens.
    fn unlink(&mut self, id: OpId) {
        let is_open = self.is_kept(id);
        let Some(file) = self.files.get_mut(&id) else { return };
        if !file.is_delete_pending || is_open {
            return;
        }
        file.set_name(None);
        file.is_delete_pending = false;
        self.files.remove(&id);
    }

    /// Possible steps of an ending session: closing an open, or removing a delete-pending file.
    #[must_use]
    pub fn end_session(&self, session: u32) -> Vec<Self> {
        let mut after = Vec::new();
        for id in self.opens.iter().filter(|(_, o)| o.session == session).map(|(id, _)| *id) {
            let mut state = self.clone();
            state.release(id);
            after.push(state);
        }
        for id in self.removable() {
            let mut state = self.clone();
            state.unlink(id);
            after.push(state);
        }
        after
    }

    /// True if nothing of a session is left.
    #[must_use]
    pub fn is_rid_of(&self, session: u32) -> bool {
        self.opens.values().all(|open| open.session != session)
    }

    /// Delete-pending files without opens.
    pub fn removable(&self) -> impl Iterator<Item = OpId> {
        let pending =
            self.files.iter().filter(|(id, f)| f.is_delete_pending && !self.is_kept(**id));
        pending.map(|(id, _)| *id)
    }

    /// The process died; all opens and locks are gone.
    pub fn kill(&mut self) {
        self.opens.clear();
        self.files.retain(|_, file| file.name.is_some());
        for file in self.files.values_mut() {
            file.locks.clear();
            file.is_delete_pending = false;
        }
    }

    /// Names and contents as the backend shows them.
    #[must_use]
    pub fn image(&self) -> BTreeMap<u8, Vec<u8>> {
        let named = self.files.values().filter_map(|f| Some((f.name?, f.cells.clone())));
        named.collect()
    }
}

impl ReferenceFile {
    fn write(&mut self, cells: Cells, stamp: u8) {
        if cells.count == 0 {
            return;
        }
        let end = usize::from(cells.end());
        if self.cells.len() < end {
            self.cells.resize(end, 0);
        }
        self.cells[usize::from(cells.at)..end].fill(stamp);
        if let Some(durable) = &mut self.durable {
            durable.written.push((cells, stamp));
        }
    }

    fn set_size(&mut self, count: u8) {
        self.cells.resize(usize::from(count), 0);
        if let Some(durable) = &mut self.durable {
            durable.size_min = durable.size_min.min(count);
        }
    }

    fn set_name(&mut self, name: Option<u8>) {
        self.name = name;
        if let Some(durable) = &mut self.durable {
            durable.names.push(name);
        }
    }

    fn sync(&mut self) {
        self.durable = Some(Durable {
            cells: self.cells.clone(),
            names: vec![self.name],
            written: Vec::new(),
            size_min: self.cells.len() as u8,
        });
    }
}

impl Durable {
    /// True if the tree after a power failure keeps the guarantee.
    #[must_use]
    pub fn is_kept(&self, image: &BTreeMap<u8, Vec<u8>>) -> bool {
        self.names.iter().any(|name| match name {
            None => true,
            Some(name) => image.get(name).is_some_and(|cells| self.allows(cells)),
        })
    }

    fn allows(&self, found: &[u8]) -> bool {
        found.len() >= usize::from(self.size_min)
            && found.iter().enumerate().all(|(at, value)| {
                let old = self.cells.get(at).copied().unwrap_or(0);
                let cut = *value == 0 && at >= usize::from(self.size_min);
                let wrote = |(cells, stamp): &(Cells, u8)| {
                    stamp == value && (cells.at..cells.end()).contains(&(at as u8))
                };
                *value == old || cut || self.written.iter().any(wrote)
            })
    }
}

/// True if a disposition replaces an existing file.
fn replaces(disposition: u32) -> bool {
    [fscc::FILE_SUPERSEDE, fscc::FILE_OVERWRITE, fscc::FILE_OVERWRITE_IF].contains(&disposition)
}

/// True if a disposition creates a missing file.
fn creates(disposition: u32) -> bool {
    ![fscc::FILE_OPEN, fscc::FILE_OVERWRITE].contains(&disposition)
}
