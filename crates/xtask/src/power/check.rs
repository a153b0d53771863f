//! Compares the content of a disk after a cut with the model.

use super::descriptor::{self, SambaDescriptor};
use super::history::{PermittedVersions, RegisterHistory};
use super::journal::{CELL_BYTES, ObjectKind};
use super::long_streams;
use super::model::{ModelObject, ModelOperation, PromiseModel};
use super::observed::{ObservedInode, ObservedTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Prefix of the temporary name of a file that becomes a symbolic link. SEMANTICS, "Loss of power".
const LINK_IN_THE_MAKING: &str = ".anabranch-link-";

/// Block size of btrfs in bytes.
const BLOCK_BYTES: u64 = 4096;

/// A register whose value is not permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Row of the operation whose promise is broken; `None` if nothing was promised.
    pub row: Option<String>,
    /// The operation.
    pub operation: String,
    /// The value found, and the permitted ones.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.row.as_deref().unwrap_or("nothing promised");
        write!(f, "{row}: {}: {}", self.operation, self.found)
    }
}

/// Whether a descriptor in flight is on disk while the permissions are still the old ones.
fn is_half_stored(
    name: &str,
    found: Option<&str>,
    permitted: &PermittedVersions<'_, Option<String>>,
) -> bool {
    let is_under_way = permitted.values().count() > 1;
    let mut values = permitted.values().flatten();
    name == descriptor::NAME
        && is_under_way
        && found.is_some_and(|found| values.any(|value| descriptor::is_same(found, value)))
}

/// Whether a long stream is in the middle of a write in flight.
fn is_half_written(found: Option<&str>, permitted: &PermittedVersions<'_, Option<String>>) -> bool {
    let values: Vec<&str> = permitted.values().flatten().map(String::as_str).collect();
    found.is_some_and(|found| long_streams::is_between(found, &values))
}

/// Versions that match an entry; none is the initial one.
type EntryVersions = Vec<Option<usize>>;

/// One comparison of a tree with the model.
pub struct TreeCheck<'a> {
    model: &'a PromiseModel,
    tree: &'a ObservedTree,
    at: usize,
    places: BTreeMap<(u32, &'a str), EntryVersions>,
    /// Entries that were found.
    present: BTreeSet<(u32, &'a str)>,
    found: Vec<Violation>,
}

impl<'a> TreeCheck<'a> {
    /// The violations of `tree` after a cut at the point `at`.
    pub fn run(model: &PromiseModel, tree: &ObservedTree, at: usize) -> Vec<Violation> {
        let (places, present, found) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        let mut check = TreeCheck { model, tree, at, places, present, found };
        check.compare();
        check.found
    }

    fn compare(&mut self) {
        let mut reached = BTreeSet::from([self.model.root]);
        let mut directories = vec![(self.model.root, self.tree.root)];
        let mut files = BTreeMap::new();
        while let Some((directory, inode)) = directories.pop() {
            for (candidates, inode) in self.check_directory(directory, Some(inode)) {
                let is_directory =
                    candidates.iter().all(|o| self.kind(*o) == ObjectKind::Directory);
                let last = *candidates.last().unwrap_or(&self.model.root);
                if is_directory && reached.insert(last) {
                    directories.push((last, inode));
                }
                files.insert(inode, candidates);
            }
        }
        // Entries of a missing directory are missing, too.
        for directory in self.model.names.keys().filter(|one| !reached.contains(one)) {
            self.check_directory(*directory, None);
        }
        for (inode, candidates) in &files {
            self.check_inode(*inode, candidates);
        }
        self.check_pairs();
    }

    fn kind(&self, object: u32) -> ObjectKind {
        self.model.objects.get(&object).map_or(ObjectKind::File, |object| object.kind)
    }

    /// Compares the entries of a directory. Returns the objects that each may refer to, and its inode.
    fn check_directory(&mut self, directory: u32, inode: Option<u64>) -> Vec<(Vec<u32>, u64)> {
        static NONE: BTreeMap<String, u64> = BTreeMap::new();
        let model = self.model;
        let entries = inode.and_then(|inode| self.tree.names.get(&inode)).unwrap_or(&NONE);
        let Some(names) = model.names.get(&directory) else { return Vec::new() };
        let mut reached = Vec::new();
        for (name, history) in names {
            let found = entries.get(name).copied();
            let permitted = history.permitted(self.at);
            let (mut places, mut objects) = self.places_of(&permitted, found);
            if places.is_empty()
                && let Some(replaced) =
                    self.replaced_object_that_is_back(history, &permitted, found)
            {
                places.push(Some(permitted.first));
                objects.push(replaced);
            }
            if places.is_empty() {
                let found = match found {
                    None => "is not there",
                    Some(_) if permitted.values().all(Option::is_none) => "is there",
                    Some(_) => "is another object than it may be",
                };
                self.report(permitted.promised_by, format!("entry {name} {found}"));
            } else if let Some(inode) = found {
                reached.push((objects, inode));
            }
            if found.is_some() {
                self.present.insert((directory, name));
            }
            self.places.insert((directory, name), places);
        }
        let is_strange =
            |name: &&String| !names.contains_key(*name) && !name.starts_with(LINK_IN_THE_MAKING);
        for name in entries.keys().filter(is_strange) {
            self.report(None, format!("entry {name} is of no operation"));
        }
        reached
    }

    fn places_of(
        &self,
        permitted: &PermittedVersions<'_, Option<u32>>,
        found: Option<u64>,
    ) -> (EntryVersions, Vec<u32>) {
        let (mut places, mut objects) = (Vec::new(), Vec::new());
        if permitted.initial.is_some() && found.is_none() {
            places.push(None);
        }
        for (at, version) in permitted.versions.iter().enumerate() {
            let inode = version.value.and_then(|object| self.model.objects.get(&object));
            if inode.map(|object| object.inode) == found {
                places.push(Some(permitted.first + at));
                objects.extend(version.value);
            }
        }
        if found.is_none()
            && self.model.loses_replaced_names
            && let Some(at) = self.first_lossy_replacement(permitted)
        {
            places.extend((at..permitted.versions.len()).map(|at| Some(permitted.first + at)));
        }
        (places, objects)
    }

    /// The replaced object, where only the flush of its successor promises the name, and the name
    /// has changed again since or before that flush. On btrfs such a sync persists that the new
    /// object has left the name, but not that it replaced the old one. It happens without any
    /// server.
    fn replaced_object_that_is_back(
        &self,
        history: &RegisterHistory<Option<u32>>,
        permitted: &PermittedVersions<'_, Option<u32>>,
        found: Option<u64>,
    ) -> Option<u32> {
        let last = &self.model.operations[permitted.promised_by?];
        // A flush of a moved object persists that it has left the name.
        let is_moved_on = permitted.versions.first()?.value.is_none();
        let place = permitted.first.checked_sub(usize::from(is_moved_on))?;
        let replacement = &self.model.operations[history.before(place + 1)?.operation];
        let replaced = history.before(place)?.value?;
        let inode = self.model.objects.get(&replaced)?.inode;
        let is_meant = self.model.loses_replaced_names
            && !last.promises
            && !replacement.promises
            && (is_moved_on || permitted.versions.len() > 1)
            && found == Some(inode);
        is_meant.then_some(replaced)
    }

    /// Version whose object was replaced, without a promise, by an object that was never synced.
    fn first_lossy_replacement(
        &self,
        permitted: &PermittedVersions<'_, Option<u32>>,
    ) -> Option<usize> {
        permitted.versions.windows(2).position(|pair| {
            let operation = &self.model.operations[pair[1].operation];
            let new = pair[1].value.and_then(|object| self.model.objects.get(&object));
            let is_unsynced = |object: &ModelObject| {
                object.mode.permitted(operation.requested).promised_by.is_none()
            };
            pair[0].value.is_some() && !operation.promises && new.is_some_and(is_unsynced)
        })
    }

    /// Compares an inode with the objects that it may be; one of them must match.
    fn check_inode(&mut self, inode: u64, candidates: &[u32]) {
        let Some(found) = self.tree.inodes.get(&inode) else { return };
        let objects = candidates.iter().filter_map(|object| self.model.objects.get(object));
        let faults = objects.map(|object| self.faults_of(object, found));
        let best = faults.min_by_key(Vec::len).unwrap_or_default();
        self.found.extend(best);
        let names = self.tree.names_of(inode);
        if found.kind != Some(ObjectKind::Directory) && found.links != names {
            self.report(
                None,
                format!("inode {inode} has {names} names, and counts {}", found.links),
            );
        }
    }

    fn faults_of(&self, object: &ModelObject, found: &ObservedInode) -> Vec<Violation> {
        let mut faults = Vec::new();
        let mut fault = |by, text| faults.push(self.violation(by, text));
        if found.kind != Some(object.kind) || found.target != object.target {
            fault(None, format!("is a {:?} of target {:?}", found.kind, found.target));
        }
        let mode = object.mode.permitted(self.at);
        let is_narrow = self.is_incomplete(object, found) || self.is_narrowed(object, found);
        if !mode.contains(&found.mode) && !is_narrow {
            let may: Vec<_> = mode.values().map(|mode| format!("{mode:o}")).collect();
            fault(mode.promised_by, format!("mode {:o}, may be {}", found.mode, may.join(" or ")));
        }
        let owner = object.owner.permitted(self.at);
        if !owner.contains(&found.owner) {
            let may: Vec<_> = owner.values().collect();
            fault(owner.promised_by, format!("owner {:?}, may be {may:?}", found.owner));
        }
        let modified = object.modified.permitted(self.at);
        if !modified.contains(&None) && !modified.contains(&Some(found.modified)) {
            let may: Vec<_> = modified.values().flatten().collect();
            fault(modified.promised_by, format!("modified at {}, may be {may:?}", found.modified));
        }
        self.data_faults(object, found, &mut fault);
        self.attribute_faults(object, found, &mut fault);
        faults
    }

    fn data_faults(
        &self,
        object: &ModelObject,
        found: &ObservedInode,
        fault: &mut impl FnMut(Option<usize>, String),
    ) {
        let size = object.size.permitted(self.at);
        // A write in flight may have extended the file in part.
        let least = size.values().min().copied().unwrap_or(0);
        let most = size.values().max().copied().unwrap_or(0);
        if !(least..=most).contains(&found.size) {
            fault(size.promised_by, format!("size {}, may be {least} to {most}", found.size));
        }
        for (at, tag) in found.cells.iter().enumerate() {
            let Some(history) = object.cells.get(&at) else {
                if *tag != Some(0) {
                    fault(None, format!("cell {at} is {tag:?}, which was never written"));
                }
                continue;
            };
            let permitted = history.permitted(self.at);
            // Beyond the shortest permitted length, within the block of that end.
            let was_cut_off = (least..least.next_multiple_of(BLOCK_BYTES))
                .contains(&(at as u64 * CELL_BYTES as u64));
            let is_cut_data = self.model.shows_cut_data
                && was_cut_off
                && tag.is_some_and(|tag| history.had_before(permitted.first, &tag));
            if !tag.is_some_and(|tag| permitted.contains(&tag)) && !is_cut_data {
                let may: Vec<_> = permitted.values().collect();
                fault(permitted.promised_by, format!("cell {at} is {tag:?}, may be {may:?}"));
                return;
            }
        }
    }

    fn attribute_faults(
        &self,
        object: &ModelObject,
        found: &ObservedInode,
        fault: &mut impl FnMut(Option<usize>, String),
    ) {
        for (name, history) in &object.attributes {
            let value = found.attributes.get(name).cloned();
            let permitted = history.permitted(self.at);
            let is_on_the_way = is_half_stored(name, value.as_deref(), &permitted)
                || is_half_written(value.as_deref(), &permitted)
                || (name == descriptor::ACCESS_LIST && self.is_narrowed(object, found));
            if !permitted.contains(&value) && !is_on_the_way {
                let may: Vec<_> = permitted.values().collect();
                fault(permitted.promised_by, format!("{name} is {value:?}, may be {may:?}"));
            }
        }
        for name in found.attributes.keys().filter(|name| !object.attributes.contains_key(*name)) {
            fault(None, format!("{name} was never set"));
        }
        self.wholeness_faults(object, found, fault);
    }

    /// A stored descriptor must be in force. A file has the attributes of its creation from the
    /// beginning. A directory has its descriptor before other users have any access.
    fn wholeness_faults(
        &self,
        object: &ModelObject,
        found: &ObservedInode,
        fault: &mut impl FnMut(Option<usize>, String),
    ) {
        let created = object.mode.first_operation();
        for (name, history) in &object.attributes {
            let permitted = history.permitted(self.at);
            // A missing or removed object is checked above.
            let is_lacking = !found.attributes.contains_key(name)
                && permitted.initial.is_some()
                && !permitted.versions.is_empty()
                && permitted.versions.iter().all(|version| version.value.is_some());
            let is_incomplete = self.is_incomplete(object, found);
            if is_lacking && object.is_created_with(name) && !is_incomplete {
                fault(created, format!("it is there without {name}, which it is created with"));
            }
        }
        let stored = found.attributes.get(descriptor::NAME);
        if let Some(stored) = stored.and_then(|value| SambaDescriptor::parse(value))
            && !stored.counts_at(found)
        {
            let history = object.attributes.get(descriptor::NAME);
            let permitted = history.map(|history| history.permitted(self.at));
            // A mode replaces a descriptor, which is then invalid and removed.
            if permitted.as_ref().is_some_and(|permitted| permitted.contains(&None)) {
                return;
            }
            let last = permitted.and_then(|permitted| permitted.versions.last());
            let list = found.attributes.get(descriptor::ACCESS_LIST);
            let (mode, owner) = (found.mode, found.owner);
            let text = format!(
                "the descriptor is void beside mode {mode:o}, owner {owner:?}, list {list:?}"
            );
            fault(last.map(|last| last.operation), text);
        }
    }

    /// Whether a change of owner and mode, or of an ACL to a mode, is in flight, and the mode
    /// grants no right that one of the states before and after lacks.
    fn is_narrowed(&self, object: &ModelObject, found: &ObservedInode) -> bool {
        let mode = object.mode.permitted(self.at);
        let [owner, group, others] = [6, 3, 0].map(|shift| {
            (found.mode >> shift & 7, mode.values().fold(7, |all, mode| all & mode >> shift))
        });
        let all = mode.values().fold(group.1 & others.1, |all, mode| all & mode >> 6);
        let list = object.attributes.get(descriptor::ACCESS_LIST);
        let loses_list = list.is_some_and(|list| {
            let permitted = list.permitted(self.at);
            permitted.values().any(Option::is_some) && permitted.values().any(Option::is_none)
        });
        (object.owner.permitted(self.at).values().count() > 1 || loses_list)
            && owner.0 & !owner.1 == 0
            && (group.0 | others.0) & !all == 0
    }

    /// Whether a directory's creation is in flight and only its creator has access.
    fn is_incomplete(&self, object: &ModelObject, found: &ObservedInode) -> bool {
        const OTHERS: u32 = 0o077;
        let history = object.attributes.get(descriptor::NAME);
        object.kind == ObjectKind::Directory
            && object.is_created_with(descriptor::NAME)
            && history.is_some_and(|history| history.permitted(self.at).initial.is_some())
            && found.mode & OTHERS == 0
    }

    /// An operation on two names has changed both or none.
    fn check_pairs(&mut self) {
        let model = self.model;
        for operation in &model.operations {
            if operation.names.len() < 2 || operation.requested >= self.at {
                continue;
            }
            let mut is_done = Vec::new();
            let mut is_undone = Vec::new();
            for (directory, name, place) in &operation.names {
                let Some(found) = self.places.get(&(*directory, name.as_str())) else { continue };
                if !found.is_empty() {
                    is_done.push(found.iter().all(|one| one.is_some_and(|one| one >= *place)));
                    is_undone.push(found.iter().all(|one| one.is_none_or(|one| one < *place)));
                }
            }
            if is_done.contains(&true)
                && is_undone.contains(&true)
                && !self.has_both_names(operation)
                && !self.is_removed_meanwhile(operation)
            {
                let (row, text) = (operation.row.clone(), operation.text.clone());
                let names = operation.names.iter().map(|(directory, name, _)| {
                    let is_there = self.present.contains(&(*directory, name.as_str()));
                    format!("{name} {}", if is_there { "is there" } else { "is not there" })
                });
                let found =
                    format!("half of it is there: {}", names.collect::<Vec<_>>().join(", "));
                self.found.push(Violation { row: Some(row), operation: text, found });
            }
        }
    }

    /// Whether a file that was moved to another directory has its old name beside its new or a
    /// later one. On btrfs a sync of the new directory persists its entries but not those of the
    /// old one. Nothing is lost, and the promise of each name is checked separately.
    fn has_both_names(&self, operation: &ModelOperation) -> bool {
        let [(from, old, _), (to, new, _)] = operation.names.as_slice() else { return false };
        if from == to || !self.present.contains(&(*from, old.as_str())) {
            return false;
        }
        let mut latest = (*to, new.as_str());
        for later in &self.model.operations {
            let is_later = later.requested > operation.requested && later.requested < self.at;
            let [(left, name, _), (to, new, _)] = later.names.as_slice() else { continue };
            let leaves = is_later && (*left, name.as_str()) == latest;
            if leaves && !self.present.contains(&latest) {
                latest = (*to, new.as_str());
            }
        }
        self.present.contains(&latest)
    }

    /// Whether a file that was moved to another directory has neither name, and another file took
    /// its new name before the cut. On btrfs a sync of another object may persist the removal but
    /// not the replacement. The promise of each name is checked separately.
    fn is_removed_meanwhile(&self, operation: &ModelOperation) -> bool {
        let [(from, ..), (to, name, place)] = operation.names.as_slice() else { return false };
        let Some(history) = self.model.names.get(to).and_then(|names| names.get(name)) else {
            return false;
        };
        let permitted = history.permitted(self.at);
        let is_replaced = permitted.first + permitted.versions.len() > place + 1;
        let mut names = operation.names.iter();
        from != to
            && is_replaced
            && names.all(|(directory, name, _)| !self.present.contains(&(*directory, name)))
    }

    fn report(&mut self, by: Option<usize>, found: String) {
        let violation = self.violation(by, found);
        self.found.push(violation);
    }

    fn violation(&self, by: Option<usize>, found: String) -> Violation {
        let operation = by.and_then(|by| self.model.operations.get(by));
        Violation {
            row: operation.map(|operation| operation.row.clone()),
            operation: operation.map_or_else(String::new, |operation| operation.text.clone()),
            found,
        }
    }
}

#[cfg(test)]
mod tests;
