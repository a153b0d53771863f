//! Simulated disk: the state that survives a power loss.

use super::data::Data;
use super::inode::{Body, Directory, Facts, Inode};
use super::state::{ROOT, State};
use crate::{Name, Result};
use std::collections::{BTreeMap, VecDeque};

/// A change of one name.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) directory: u64,
    pub(super) name: Name,
    pub(super) to: Option<u64>,
}

/// Everything that has been written back.
#[derive(Default)]
pub(super) struct Disk {
    /// Facts of each node, and the data of files.
    nodes: BTreeMap<u64, (Facts, Data)>,
    names: BTreeMap<(u64, Name), u64>,
    /// Changes of names that are in memory only, in order.
    pub(super) journal: VecDeque<Vec<Change>>,
}

impl Disk {
    /// A disk to which the whole tree has been written.
    pub(super) fn of(state: &State) -> Self {
        let mut disk = Self::default();
        for (number, inode) in &state.inodes {
            disk.store(*number, inode);
            if let Body::Directory(directory) = &inode.body {
                disk.names.extend(directory.names().map(|(n, to)| ((*number, n.clone()), to)));
            }
        }
        disk
    }

    fn store(&mut self, number: u64, inode: &Inode) {
        let data = if let Body::File(data) = &inode.body { data.clone() } else { Data::default() };
        self.nodes.insert(number, (inode.facts.clone(), data));
    }

    /// Whether recovery may find the node.
    pub(super) fn mentions(&self, number: u64) -> bool {
        self.names.values().any(|to| *to == number)
            || self.journal.iter().flatten().any(|change| change.to == Some(number))
    }

    /// Commits the first `count` transactions of the journal.
    fn commit(&mut self, count: usize) -> Vec<u64> {
        let changes: Vec<Change> = self.journal.drain(..count).flatten().collect();
        let mut touched = Vec::new();
        for Change { directory, name, to } in changes {
            let before = match to {
                Some(number) => self.names.insert((directory, name), number),
                None => self.names.remove(&(directory, name)),
            };
            touched.extend(before.into_iter().chain(to));
        }
        touched
    }
}

/// Writes a node and all names to disk.
pub(super) fn sync(state: &mut State, number: u64) -> Result<()> {
    let State { disk, inodes, .. } = state;
    let Some(disk) = disk else { return Ok(()) };
    if let Some(inode) = inodes.get(&number) {
        disk.store(number, inode);
    }
    let touched = disk.commit(disk.journal.len());
    touched.into_iter().for_each(|number| state.forget(number));
    Ok(())
}

/// Writes back some of the unwritten changes.
pub(super) fn write_back(state: &mut State, takes: &mut dyn FnMut() -> bool) {
    let State { disk, inodes, .. } = state;
    let Some(disk) = disk else { return };
    for (number, inode) in inodes.iter() {
        let Body::File(newer) = &inode.body else { continue };
        if !takes() {
            continue;
        }
        let (facts, older) =
            disk.nodes.remove(number).unwrap_or_else(|| (inode.facts.clone(), Data::default()));
        disk.nodes.insert(*number, (facts, older.mixed(newer, |_| takes())));
    }
    let count = disk.journal.iter().take_while(|_| takes()).count();
    let touched = disk.commit(count);
    touched.into_iter().for_each(|number| state.forget(number));
}

/// The tree after recovery from a power loss.
pub(super) fn recovered(mut lost: State, takes: &mut dyn FnMut() -> bool) -> State {
    let mut disk = lost.disk.take().expect("only a tree with a disk loses power");
    let count = disk.journal.iter().take_while(|_| takes()).count();
    disk.commit(count);
    let mut found = BTreeMap::new();
    for (number, inode) in &lost.inodes {
        // A node that was never written is recovered empty.
        let (facts, older) =
            disk.nodes.remove(number).unwrap_or_else(|| (inode.facts.clone(), Data::default()));
        let body = match &inode.body {
            Body::Directory(_) => Body::Directory(Directory::within(ROOT)),
            Body::File(newer) => Body::File(older.mixed(newer, |_| takes())),
            Body::Symlink(target) => Body::Symlink(target.clone()),
            Body::Special(kind) => Body::Special(*kind),
        };
        let facts = if takes() { inode.facts.clone() } else { facts };
        found.insert(*number, Inode::new(facts, body));
    }
    if let Some(root) = found.get_mut(&ROOT) {
        root.links = 2;
    }
    let mut state = State::restored(&lost, found);
    for ((directory, name), to) in &disk.names {
        state.set_name(*directory, name, Some(*to));
    }
    state.end_transaction();
    state.close_all();
    state.disk = Some(Disk::of(&state));
    state
}
