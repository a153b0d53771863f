//! Required, permitted and forbidden states of a disk after a cut, derived from the replies to
//! clients.
//!
//! Each entry of a directory and each attribute of an object is a register with a history. After a
//! cut it has the last value that was promised by then, or a later one that had been requested. An
//! operation on two names changes both or none.

use super::check::{TreeCheck, Violation};
use super::history::{RegisterHistory, RegisterVersion};
use super::journal::{Effect, FlushScope, JournalOperation, ObjectKind, WorkloadJournal};
use super::observed::ObservedTree;
use super::recording::DiskRecording;
use std::collections::BTreeMap;

/// A file, directory or symbolic link.
#[derive(Debug)]
pub struct ModelObject {
    pub kind: ObjectKind,
    pub inode: u64,
    pub target: Option<String>,
    pub mode: RegisterHistory<u32>,
    pub owner: RegisterHistory<(u32, u32)>,
    pub size: RegisterHistory<u64>,
    pub cells: BTreeMap<usize, RegisterHistory<u64>>,
    /// The inner none is an unknown time.
    pub modified: RegisterHistory<Option<i128>>,
    pub attributes: BTreeMap<String, RegisterHistory<Option<String>>>,
}

/// The parts of an operation that the model needs.
#[derive(Debug)]
pub struct ModelOperation {
    pub row: String,
    pub text: String,
    /// Whether its reply promised that it is stable.
    pub promises: bool,
    pub requested: usize,
    /// Directory, name and place in the history of each entry that it changes.
    pub names: Vec<(u32, String, usize)>,
}

/// The model of one run.
#[derive(Debug, Default)]
pub struct PromiseModel {
    pub operations: Vec<ModelOperation>,
    pub objects: BTreeMap<u32, ModelObject>,
    /// Entries by directory.
    pub names: BTreeMap<u32, BTreeMap<String, RegisterHistory<Option<u32>>>>,
    pub root: u32,
    /// See [`super::file_system::FileSystem::loses_replaced_names`].
    pub loses_replaced_names: bool,
    /// See [`super::file_system::FileSystem::shows_cut_data`].
    pub shows_cut_data: bool,
}

/// Position of an operation among the requests of the disk.
#[derive(Clone, Copy, Debug)]
struct OperationPoints {
    operation: usize,
    requested: usize,
    promised: Option<usize>,
}

impl OperationPoints {
    fn version<T>(self, value: T) -> RegisterVersion<T> {
        let Self { operation, requested, promised } = self;
        RegisterVersion { value, operation, requested, promised }
    }
}

impl PromiseModel {
    /// Builds the model from the journal, with the times of the recording. The first object is the
    /// root.
    pub fn new(journal: &WorkloadJournal, recording: &DiskRecording) -> Self {
        let mut model = Self::default();
        for operation in &journal.operations {
            model.push(operation, |time_ns| recording.count_until(time_ns));
        }
        model
    }

    fn push(&mut self, operation: &JournalOperation, count_until: impl Fn(u64) -> usize) {
        let answered = count_until(operation.answer);
        let placed = OperationPoints {
            operation: self.operations.len(),
            requested: count_until(operation.request),
            promised: operation.promises.then_some(answered),
        };
        self.operations.push(ModelOperation {
            row: operation.row.clone(),
            text: operation.text.clone(),
            promises: operation.promises,
            requested: placed.requested,
            names: Vec::new(),
        });
        for effect in &operation.effects {
            self.apply(effect, placed);
        }
        if let Some(settled) = operation.settles {
            self.settle(settled, answered);
        }
    }

    fn apply(&mut self, effect: &Effect, placed: OperationPoints) {
        match effect {
            Effect::Name { directory, name, object } => {
                let names = self.names.entry(*directory).or_default();
                let history =
                    names.entry(name.clone()).or_insert_with(|| RegisterHistory::new(Some(None)));
                let place = history.push(placed.version(*object));
                self.operations[placed.operation].names.push((*directory, name.clone(), place));
            }
            Effect::Created { object, kind, inode, mode, owner, target } => {
                if self.objects.is_empty() {
                    self.root = *object;
                }
                let mut created = ModelObject::new(*kind, *inode, target.clone());
                created.mode.push(placed.version(*mode));
                created.owner.push(placed.version(*owner));
                created.size.push(placed.version(0));
                self.objects.insert(*object, created);
                if *kind == ObjectKind::Directory {
                    self.names.entry(*object).or_default();
                }
            }
            Effect::Mode { object, .. }
            | Effect::Owner { object, .. }
            | Effect::Size { object, .. }
            | Effect::Data { object, .. }
            | Effect::Modified { object, .. }
            | Effect::Attribute { object, .. } => {
                if let Some(changed) = self.objects.get_mut(object) {
                    changed.apply(effect, placed);
                }
            }
        }
    }

    fn settle(&mut self, settled: FlushScope, at: usize) {
        match settled {
            FlushScope::Directory(directory) => {
                for history in self.names.entry(directory).or_default().values_mut() {
                    history.promise(at, |_, _| true);
                }
            }
            FlushScope::Data(object) => {
                if let Some(settled) = self.objects.get_mut(&object) {
                    settled.promise_data(at);
                }
            }
            FlushScope::Object(object) => {
                if let Some(settled) = self.objects.get_mut(&object) {
                    settled.promise(at);
                }
                for history in self.names.values_mut().flat_map(BTreeMap::values_mut) {
                    history.promise(at, |versions, place| is_name_of(object, versions, place));
                }
            }
        }
    }

    /// The violations of `tree`, the result of a cut at the point `at`.
    pub fn check(&self, tree: &ObservedTree, at: usize) -> Vec<Violation> {
        TreeCheck::run(self, tree, at)
    }

    /// Number of operations by row.
    pub fn rows(&self) -> BTreeMap<&str, usize> {
        let mut rows = BTreeMap::new();
        for operation in &self.operations {
            *rows.entry(operation.row.as_str()).or_default() += 1;
        }
        rows
    }
}

/// Whether a version of an entry adds or removes this name of the object.
fn is_name_of(object: u32, versions: &[RegisterVersion<Option<u32>>], place: usize) -> bool {
    let before = place.checked_sub(1).and_then(|before| versions[before].value);
    versions[place].value == Some(object)
        || versions[place].value.is_none() && before == Some(object)
}

impl ModelObject {
    fn new(kind: ObjectKind, inode: u64, target: Option<String>) -> Self {
        Self {
            kind,
            inode,
            target,
            mode: RegisterHistory::new(None),
            owner: RegisterHistory::new(None),
            size: RegisterHistory::new(None),
            cells: BTreeMap::new(),
            modified: RegisterHistory::new(Some(None)),
            attributes: BTreeMap::new(),
        }
    }

    fn apply(&mut self, effect: &Effect, placed: OperationPoints) {
        match effect {
            Effect::Mode { mode, .. } => _ = self.mode.push(placed.version(*mode)),
            Effect::Owner { owner, .. } => _ = self.owner.push(placed.version(*owner)),
            Effect::Size { bytes, .. } => _ = self.size.push(placed.version(*bytes)),
            Effect::Data { cell, tags, .. } => {
                for (at, tag) in tags.iter().enumerate() {
                    let history = self
                        .cells
                        .entry(cell + at)
                        .or_insert_with(|| RegisterHistory::new(Some(0)));
                    history.push(placed.version(*tag));
                }
            }
            Effect::Modified { nanoseconds, .. } => {
                self.modified.push(placed.version(*nanoseconds));
            }
            Effect::Attribute { name, value, .. } => {
                let history = self.attributes.entry(name.clone());
                let history = history.or_insert_with(|| RegisterHistory::new(Some(None)));
                history.push(placed.version(value.clone()));
            }
            Effect::Name { .. } | Effect::Created { .. } => {}
        }
    }

    /// Whether an attribute belongs to the object from the beginning.
    pub fn is_created_with(&self, name: &str) -> bool {
        let created = self.mode.first_operation();
        let history = self.attributes.get(name);
        created.is_some() && created == history.and_then(RegisterHistory::first_operation)
    }

    fn promise_data(&mut self, at: usize) {
        self.size.promise(at, |_, _| true);
        self.cells.values_mut().for_each(|cell| cell.promise(at, |_, _| true));
    }

    fn promise(&mut self, at: usize) {
        self.promise_data(at);
        self.mode.promise(at, |_, _| true);
        self.owner.promise(at, |_, _| true);
        self.modified.promise(at, |_, _| true);
        self.attributes.values_mut().for_each(|one| one.promise(at, |_, _| true));
    }
}
