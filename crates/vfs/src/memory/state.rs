//! State of the tree: nodes by number, and their names.

use super::MemoryOptions;
use super::changes::{ChangeKind, Followers};
use super::disk::{DiskChange, SimulatedDisk};
use super::inode::{Inode, MemoryDirectory, NodeContent, NodeMetadata};
use crate::{Actor, FsError, Name, Result, ServerWork, Timestamp};
use std::collections::BTreeMap;

/// Inode number of the root.
pub(super) const ROOT: u64 = 1;

pub(super) struct MemoryState {
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) now: Timestamp,
    /// The simulated disk, if the tree can lose power.
    pub(super) disk: Option<SimulatedDisk>,
    /// The process of this tree is dead.
    pub(super) is_dead: bool,
    /// Feeds to notify of changes to names.
    pub(super) followers: Followers,
    next: u64,
    /// Changes of names by the current call: recovery finds all of them or none.
    transaction: Vec<DiskChange>,
}

impl MemoryState {
    pub(super) fn new(now: Timestamp) -> Self {
        let facts = NodeMetadata::new(Actor::server(ServerWork::ShareRoot), 0o777, None, now);
        let mut root = Inode::new(facts, NodeContent::Directory(MemoryDirectory::within(ROOT)));
        root.links = 2;
        let inodes = BTreeMap::from([(ROOT, root)]);
        let transaction = Vec::new();
        let followers = Followers::default();
        Self { inodes, now, disk: None, is_dead: false, followers, next: ROOT + 1, transaction }
    }

    pub(super) fn dead() -> Self {
        Self { is_dead: true, inodes: BTreeMap::new(), ..Self::new(Timestamp::default()) }
    }

    /// The tree as recovered from disk.
    pub(super) fn restored(lost: &Self, inodes: BTreeMap<u64, Inode>) -> Self {
        Self { inodes, next: lost.next, ..Self::new(lost.now) }
    }

    pub(super) fn inode(&self, number: u64) -> Result<&Inode> {
        self.inodes.get(&number).ok_or(FsError::Stale)
    }

    pub(super) fn inode_mut(&mut self, number: u64) -> Result<&mut Inode> {
        self.inodes.get_mut(&number).ok_or(FsError::Stale)
    }

    pub(super) fn directory(&self, number: u64) -> Option<&MemoryDirectory> {
        match &self.inodes.get(&number)?.body {
            NodeContent::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    /// Whether so many more bytes fit. An endless disk needs no count.
    pub(super) fn has_room(&self, more_bytes: u64, capacity_bytes: u64) -> bool {
        capacity_bytes == MemoryOptions::ENDLESS_BYTES
            || self.used_bytes().saturating_add(more_bytes) <= capacity_bytes
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.inodes.values().map(Inode::allocated_bytes).sum()
    }

    /// Adds a node without a name.
    pub(super) fn add(&mut self, facts: NodeMetadata, body: NodeContent) -> u64 {
        let number = self.next;
        self.next += 1;
        self.inodes.insert(number, Inode::new(facts, body));
        number
    }

    /// Lets a name refer to another node, or removes it.
    pub(super) fn set_name(&mut self, directory: u64, name: &Name, to: Option<u64>) {
        let now = self.now;
        let Some(Inode { body: NodeContent::Directory(names), facts, .. }) =
            self.inodes.get_mut(&directory)
        else {
            return;
        };
        let before = names.get(name);
        match to {
            Some(number) => names.insert(name, number),
            None => names.remove(name),
        }
        facts.modified = now;
        facts.change(now);
        let kind = if to.is_some() { ChangeKind::Added } else { ChangeKind::Removed };
        self.followers.notify(directory, Some(name), kind);
        self.transaction.push(DiskChange { directory, name: name.clone(), to });
        if let Some(number) = to {
            self.link(directory, number);
        }
        if let Some(number) = before {
            self.unlink(directory, number);
        }
    }

    fn link(&mut self, directory: u64, number: u64) {
        let now = self.now;
        let Some(inode) = self.inodes.get_mut(&number) else { return };
        inode.facts.change(now);
        let is_directory = match &mut inode.body {
            NodeContent::Directory(moved) => {
                moved.parent = directory;
                true
            }
            _ => false,
        };
        // A directory also counts its own `.`, and its parent counts its `..`.
        inode.links += if is_directory && inode.links == 0 { 2 } else { 1 };
        if is_directory && let Some(parent) = self.inodes.get_mut(&directory) {
            parent.links += 1;
        }
    }

    fn unlink(&mut self, directory: u64, number: u64) {
        let now = self.now;
        let Some(inode) = self.inodes.get_mut(&number) else { return };
        inode.facts.change(now);
        inode.links -= 1;
        if matches!(inode.body, NodeContent::Directory(_)) {
            // With only `.` left the directory is deleted, unless it has just got another name.
            if inode.links == 1 {
                inode.links = 0;
            }
            if let Some(parent) = self.inodes.get_mut(&directory) {
                parent.links -= 1;
            }
        }
        self.forget(number);
    }

    pub(super) fn close(&mut self, number: u64) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.opens -= 1;
        }
        self.forget(number);
    }

    /// Closes every handle.
    pub(super) fn close_all(&mut self) {
        let numbers: Vec<u64> = self.inodes.keys().copied().collect();
        for number in numbers {
            if let Some(inode) = self.inodes.get_mut(&number) {
                inode.opens = 0;
            }
            self.forget(number);
        }
    }

    /// Frees a node without name, handle or mention on disk.
    pub(super) fn forget(&mut self, number: u64) {
        let unused = self.inodes.get(&number).is_some_and(|i| i.links == 0 && i.opens == 0);
        let mentioned = self.transaction.iter().any(|change| change.to == Some(number))
            || self.disk.as_ref().is_some_and(|disk| disk.mentions(number));
        if unused && !mentioned {
            self.inodes.remove(&number);
        }
    }

    /// Ends the current call: its changes of names are one transaction.
    pub(super) fn end_transaction(&mut self) {
        if self.transaction.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut self.transaction);
        match &mut self.disk {
            Some(disk) => disk.journal.push_back(changes),
            None => changes.iter().filter_map(|change| change.to).for_each(|n| self.forget(n)),
        }
    }
}
