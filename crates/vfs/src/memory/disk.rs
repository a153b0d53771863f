//! Simulated disk: the state that survives a power loss.

use super::data::SparseBytes;
use super::inode::{Inode, MemoryDirectory, NodeContent, NodeMetadata};
use super::state::{MemoryState, ROOT};
use crate::{Name, Result};
use std::collections::{BTreeMap, VecDeque};

/// A change of one name.
#[derive(Clone, Debug)]
pub(super) struct DiskChange {
    pub(super) directory: u64,
    pub(super) name: Name,
    pub(super) to: Option<u64>,
}

/// Everything that has been written back.
#[derive(Default)]
pub(super) struct SimulatedDisk {
    /// Facts of each node, and the data of files.
    nodes: BTreeMap<u64, (NodeMetadata, SparseBytes)>,
    names: BTreeMap<(u64, Name), u64>,
    /// Changes of names that are in memory only, in order.
    pub(super) journal: VecDeque<Vec<DiskChange>>,
}

impl SimulatedDisk {
    /// A disk to which the whole tree has been written.
    pub(super) fn of(state: &MemoryState) -> Self {
        let mut disk = Self::default();
        for (number, inode) in &state.inodes {
            disk.store(*number, inode);
            if let NodeContent::Directory(directory) = &inode.body {
                disk.names.extend(directory.names().map(|(n, to)| ((*number, n.clone()), to)));
            }
        }
        disk
    }

    fn store(&mut self, number: u64, inode: &Inode) {
        let data = if let NodeContent::File(data) = &inode.body {
            data.clone()
        } else {
            SparseBytes::default()
        };
        self.nodes.insert(number, (inode.facts.clone(), data));
    }

    /// Whether recovery may find the node.
    pub(super) fn mentions(&self, number: u64) -> bool {
        self.names.values().any(|to| *to == number)
            || self.journal.iter().flatten().any(|change| change.to == Some(number))
    }

    /// Commits the first `count` transactions of the journal.
    fn commit(&mut self, count: usize) -> Vec<u64> {
        let changes: Vec<DiskChange> = self.journal.drain(..count).flatten().collect();
        let mut touched = Vec::new();
        for DiskChange { directory, name, to } in changes {
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
pub(super) fn sync(state: &mut MemoryState, number: u64) -> Result<()> {
    let MemoryState { disk, inodes, .. } = state;
    let Some(disk) = disk else { return Ok(()) };
    if let Some(inode) = inodes.get(&number) {
        disk.store(number, inode);
    }
    let touched = disk.commit(disk.journal.len());
    touched.into_iter().for_each(|number| state.forget(number));
    Ok(())
}

/// Writes back some of the unwritten changes.
pub(super) fn write_back(state: &mut MemoryState, takes: &mut dyn FnMut() -> bool) {
    let MemoryState { disk, inodes, .. } = state;
    let Some(disk) = disk else { return };
    for (number, inode) in inodes.iter() {
        let NodeContent::File(newer) = &inode.body else { continue };
        if !takes() {
            continue;
        }
        let (facts, older) = disk
            .nodes
            .remove(number)
            .unwrap_or_else(|| (inode.facts.clone(), SparseBytes::default()));
        disk.nodes.insert(*number, (facts, older.mixed(newer, |_| takes())));
    }
    let count = disk.journal.iter().take_while(|_| takes()).count();
    let touched = disk.commit(count);
    touched.into_iter().for_each(|number| state.forget(number));
}

/// The tree after recovery from a power loss.
pub(super) fn recovered(mut lost: MemoryState, takes: &mut dyn FnMut() -> bool) -> MemoryState {
    let mut disk = lost.disk.take().expect("only a tree with a disk loses power");
    let count = disk.journal.iter().take_while(|_| takes()).count();
    disk.commit(count);
    let mut found = BTreeMap::new();
    for (number, inode) in &lost.inodes {
        // A node that was never written is recovered empty.
        let (facts, older) = disk
            .nodes
            .remove(number)
            .unwrap_or_else(|| (inode.facts.clone(), SparseBytes::default()));
        let body = match &inode.body {
            NodeContent::Directory(_) => NodeContent::Directory(MemoryDirectory::within(ROOT)),
            NodeContent::File(newer) => NodeContent::File(older.mixed(newer, |_| takes())),
            NodeContent::Symlink(target) => NodeContent::Symlink(target.clone()),
            NodeContent::Special(kind) => NodeContent::Special(*kind),
        };
        let facts = if takes() { inode.facts.clone() } else { facts };
        found.insert(*number, Inode::new(facts, body));
    }
    if let Some(root) = found.get_mut(&ROOT) {
        root.links = 2;
    }
    let mut state = MemoryState::restored(&lost, found);
    for ((directory, name), to) in &disk.names {
        state.set_name(*directory, name, Some(*to));
    }
    state.end_transaction();
    state.close_all();
    state.disk = Some(SimulatedDisk::of(&state));
    state
}
