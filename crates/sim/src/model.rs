//! What a file server must do, said in a few pages without looking at one.
//!
//! A file is a few cells, a cell is a number; names are numbers too. Every
//! operation is a few steps that happen at once each, so that operations under
//! way together can be tried in every order ([`crate::history`]).

use std::collections::BTreeMap;
use wire::fscc;
use wire::ntstatus::NtStatus;

mod locks;
mod steps;

pub use locks::Lock;

/// The names there are. The directory is there from the beginning.
pub const NAMES: [&str; 5] = ["a", "b", "c", "d\\a", "d\\b"];
/// Bytes of one cell: what a disk writes whole.
pub const CELL_BYTES: usize = 512;
/// Cells of a file.
pub const CELLS_MAX: u8 = 8;

/// Sessions from this number on are of clients that know files by handles.
pub const DIRECT_SESSIONS: u32 = 1 << 20;

/// Number of an operation. The one that made a file or an open is its number too.
pub type OpId = u32;

/// What an open may be used for, and what it lets others do: bits.
#[allow(missing_docs)]
pub mod kinds {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const DELETE: u8 = 4;
    pub const ALL: u8 = 7;
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Op {
    Close { open: OpId },
    Create { name: u8, access: u8, share: u8, disposition: u32, doomed: bool },
    Dispose { open: OpId, delete: bool },
    Flush { open: OpId },
    Lock { open: OpId, lock: Cells, exclusive: bool, waits: bool },
    Read { open: OpId, cells: Cells },
    Rename { open: OpId, to: u8, replace: bool },
    SetSize { open: OpId, count: u8 },
    Unlock { open: OpId, lock: Cells },
    Write { open: OpId, cells: Cells, through: bool },
}

impl Op {
    /// The open that it is about; none for a CREATE.
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

/// Some cells of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cells {
    /// The first.
    pub at: u8,
    /// How many: not zero.
    pub count: u8,
}

impl Cells {
    /// The first one behind them.
    #[must_use]
    pub fn end(self) -> u8 {
        self.at + self.count
    }

    fn overlaps(self, other: Self) -> bool {
        self.at < other.end() && other.at < self.end()
    }
}

/// How it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// Anything would do: nobody can know.
    Any,
    /// A failure that was made to happen.
    Broken,
    /// What was read.
    Cells(Vec<u8>),
    /// Opened, and what was done for it.
    Opened(u32),
    /// A status and nothing else.
    Status(NtStatusCode),
}

/// A status, in an order.
pub type NtStatusCode = u32;

impl Answer {
    fn refused(status: NtStatus) -> Self {
        Self::Status(status.0)
    }

    fn success() -> Self {
        Self::refused(NtStatus::SUCCESS)
    }

    /// Whether what the model says allows what was received.
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

/// An operation that somebody has asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its number; what it writes follows from it.
    pub id: OpId,
    /// The session it belongs to.
    pub session: u32,
    /// What is asked for.
    pub op: Op,
    /// The operation that must be done before, in a chain.
    pub after: Option<OpId>,
    /// Its cancellation has been asked for.
    pub is_cancelled: bool,
}

impl Request {
    /// The number that it writes into cells.
    #[must_use]
    pub fn stamp(&self) -> u8 {
        (self.id % 251) as u8 + 1
    }
}

/// How far an operation has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Progress {
    /// Nothing has happened yet.
    New,
    /// So many steps have been done, and it is about this file.
    At(u8, OpId),
    /// All that is left is to receive this answer.
    Done(Answer),
}

/// The files and what is held on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    /// Files by the operation that made them.
    pub files: BTreeMap<OpId, File>,
    /// Opens by the operation that made them.
    pub opens: BTreeMap<OpId, Open>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct File {
    /// What is in it.
    pub cells: Vec<u8>,
    /// Its name; none once it has been removed.
    pub name: Option<u8>,
    /// The name vanishes with the last open.
    pub is_doomed: bool,
    /// Ranges that are locked, in order of their values.
    pub locks: Vec<Lock>,
    /// What was promised to survive, where losses of power are simulated.
    pub durable: Option<Durable>,
}

/// What a file had when it was last made durable, and what has changed since.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Durable {
    /// What was in it.
    pub cells: Vec<u8>,
    /// Names it has had since; none if it was removed.
    pub names: Vec<Option<u8>>,
    /// Cells that were written, and with what.
    pub written: Vec<(Cells, u8)>,
    /// The least size it has had since.
    pub size_min: u8,
}

/// An open.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Open {
    /// The file.
    pub file: OpId,
    /// Whose it is.
    pub session: u32,
    /// See [`kinds`].
    pub access: u8,
    /// See [`kinds`].
    pub share: u8,
    /// The file is doomed when it is closed.
    pub dooms: bool,
    /// A CLOSE has taken it from its owner; what it holds is held a little longer.
    pub is_closing: bool,
}

/// What can happen beside what is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Calls of the backend fail now and then.
    pub failures: bool,
    /// Losses of power are simulated.
    pub power: bool,
}

impl State {
    /// The file with this name.
    #[must_use]
    pub fn named(&self, name: u8) -> Option<OpId> {
        self.files.iter().find(|(_, file)| file.name == Some(name)).map(|(id, _)| *id)
    }

    fn opens_of(&self, file: OpId) -> impl Iterator<Item = (OpId, &Open)> {
        self.opens.iter().filter(move |(_, open)| open.file == file).map(|(id, open)| (*id, open))
    }

    fn has_opens(&self, file: OpId) -> bool {
        self.opens_of(file).next().is_some()
    }

    /// Whether an open with this access and share mode cannot be had.
    fn conflicts(&self, file: OpId, access: u8, share: u8) -> bool {
        self.opens_of(file).any(|(_, open)| {
            open.access != 0
                && access != 0
                && (access & !open.share != 0 || open.access & !share != 0)
        })
    }

    fn file(&mut self, id: OpId) -> Option<&mut File> {
        self.files.get_mut(&id)
    }

    fn with_file(&mut self, id: OpId, run: impl FnOnce(&mut File)) {
        if let Some(file) = self.files.get_mut(&id) {
            run(file);
        }
    }

    /// Whether an open keeps its file's name: those of clients that know handles do not.
    fn is_kept(&self, file: OpId) -> bool {
        self.opens_of(file).any(|(_, open)| open.session < DIRECT_SESSIONS)
    }

    /// Ends what an open holds. True if its file must be removed now.
    fn release(&mut self, id: OpId) -> bool {
        let Some(open) = self.opens.remove(&id) else { return false };
        let left = self.is_kept(open.file);
        let Some(file) = self.files.get_mut(&open.file) else { return false };
        file.locks.retain(|lock| lock.open != id);
        file.is_doomed |= open.dooms;
        file.is_doomed && file.name.is_some() && !left
    }

    /// Removes a file that is doomed and not open; what becomes of its name.
    fn unlink(&mut self, id: OpId) {
        let is_open = self.is_kept(id);
        let Some(file) = self.files.get_mut(&id) else { return };
        if !file.is_doomed || is_open {
            return;
        }
        file.set_name(None);
        file.is_doomed = false;
        self.files.remove(&id);
    }

    /// Steps towards the end of a session: each of its opens may go, each
    /// file that it leaves doomed may be removed.
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

    /// Whether nothing of a session is left.
    #[must_use]
    pub fn is_rid_of(&self, session: u32) -> bool {
        self.opens.values().all(|open| open.session != session)
    }

    /// Files that are doomed and not open.
    pub fn removable(&self) -> impl Iterator<Item = OpId> {
        let doomed = self.files.iter().filter(|(id, f)| f.is_doomed && !self.is_kept(**id));
        doomed.map(|(id, _)| *id)
    }

    /// The process is gone, and with it all that was held.
    pub fn kill(&mut self) {
        self.opens.clear();
        self.files.retain(|_, file| file.name.is_some());
        for file in self.files.values_mut() {
            file.locks.clear();
            file.is_doomed = false;
        }
    }

    /// What can be seen from below: names and contents.
    #[must_use]
    pub fn image(&self) -> BTreeMap<u8, Vec<u8>> {
        let named = self.files.values().filter_map(|f| Some((f.name?, f.cells.clone())));
        named.collect()
    }
}

impl File {
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
    /// Whether what was found after a loss of power keeps the promise.
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

/// Whether a disposition replaces what is there.
fn replaces(disposition: u32) -> bool {
    [fscc::FILE_SUPERSEDE, fscc::FILE_OVERWRITE, fscc::FILE_OVERWRITE_IF].contains(&disposition)
}

/// Whether a disposition makes what is not there.
fn creates(disposition: u32) -> bool {
    ![fscc::FILE_OPEN, fscc::FILE_OVERWRITE].contains(&disposition)
}
