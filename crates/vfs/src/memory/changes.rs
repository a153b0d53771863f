//! Change feeds of a tree in memory.

use super::inode::Inode;
use super::node::MemoryNode;
use super::state::MemoryState;
use super::{FeedDelivery, FeedEvent, MemoryVfs, SharedTree};
use crate::{ChangeFeed, FileKind, FollowId, FsError, Name, NameChange, Node, Result, ServerWork};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use sync::{Mutex, MutexGuard};

/// Changes that a feed retains between drains. A kernel has such a limit, too.
const CHANGES_MAX: usize = 4096;

/// Kind of a change to a name, or to its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Added,
    Attributes,
    Removed,
}

/// Directory, name and kind. A change without a name is of the directory itself.
type MemoryChange = (u64, Option<Name>, ChangeKind);

/// State of one feed.
#[derive(Debug, Default)]
pub(super) struct Follower {
    directories: BTreeSet<u64>,
    changes: VecDeque<MemoryChange>,
    has_lost: bool,
}

/// All live feeds of a tree.
#[derive(Debug, Default)]
pub(super) struct Followers(Vec<Weak<Mutex<Follower>>>);

impl Followers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn notify(&mut self, directory: u64, name: Option<&Name>, kind: ChangeKind) {
        drop(crate::freshness::begin_change());
        self.0.retain(|follower| {
            let Some(follower) = follower.upgrade() else { return false };
            let mut follower = lock(&follower);
            if !follower.directories.contains(&directory) {
                return true;
            }
            if follower.changes.len() == CHANGES_MAX {
                follower.changes.clear();
                follower.has_lost = true;
            }
            follower.changes.push_back((directory, name.cloned(), kind));
            true
        });
    }
}

fn lock(follower: &Mutex<Follower>) -> MutexGuard<'_, Follower> {
    follower.lock()
}

/// Lock order: the tree, then this.
struct MemoryChanges {
    shared: Arc<SharedTree>,
    follower: Arc<Mutex<Follower>>,
}

impl std::fmt::Debug for MemoryChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryChanges").finish_non_exhaustive()
    }
}

impl MemoryVfs {
    pub(super) fn feed(&self) -> Box<dyn ChangeFeed> {
        let follower = Arc::<Mutex<Follower>>::default();
        self.shared.state().followers.0.push(Arc::downgrade(&follower));
        Box::new(MemoryChanges { shared: self.shared.clone(), follower })
    }
}

impl MemoryState {
    /// Reports a change of a node's attributes, by its name and for itself. A file with several
    /// names gets no event by name: a system reports only the name that the change used, which may
    /// be another.
    pub(super) fn notify_attributes(&mut self, number: u64) {
        if self.followers.is_empty() {
            return;
        }
        let mut delivered = vec![(number, None)];
        let is_reported = |inode: &Inode| inode.links == 1 || inode.kind() == FileKind::Directory;
        let is_reported = self.inodes.get(&number).is_some_and(is_reported);
        for (directory, inode) in self.inodes.iter().filter(|_| is_reported) {
            if let super::inode::NodeContent::Directory(names) = &inode.body {
                let of_it = names.names().filter(|(_, to)| *to == number);
                delivered.extend(of_it.map(|(name, _)| (*directory, Some(name.clone()))));
            }
        }
        for (directory, name) in delivered {
            self.followers.notify(directory, name.as_ref(), ChangeKind::Attributes);
        }
    }
}

impl MemoryChanges {
    /// The changes to deliver, and whether the feed overflows.
    fn filter_delivered(&self, changes: VecDeque<MemoryChange>) -> (VecDeque<MemoryChange>, bool) {
        let mut delivered = VecDeque::new();
        for change in changes {
            let event = match change.2 {
                ChangeKind::Added => FeedEvent::Added,
                ChangeKind::Attributes => FeedEvent::Attributes,
                ChangeKind::Removed => FeedEvent::Removed,
            };
            match self.shared.around.delivery(event) {
                FeedDelivery::Delivered => delivered.push_back(change),
                FeedDelivery::Overflows => return (VecDeque::new(), true),
                FeedDelivery::Dropped => {}
            }
        }
        (delivered, false)
    }
}

impl ChangeFeed for MemoryChanges {
    fn follow(&self, _work: ServerWork, directory: &dyn Node) -> Result<FollowId> {
        let node = MemoryNode::of(directory, &self.shared).ok_or(FsError::NotSupported)?;
        let state = self.shared.state();
        state.directory(node.number).ok_or(FsError::NotSupported)?;
        lock(&self.follower).directories.insert(node.number);
        Ok(FollowId(node.number))
    }

    fn unfollow(&self, directory: FollowId) {
        let mut follower = lock(&self.follower);
        follower.directories.remove(&directory.0);
        // The number may be followed again, and must not report events of its earlier use.
        follower.changes.retain(|(of, ..)| *of != directory.0);
    }

    fn drain(&self, report: &mut dyn FnMut(NameChange<'_>)) {
        let mut follower = lock(&self.follower);
        let changes = std::mem::take(&mut follower.changes);
        let has_lost = std::mem::take(&mut follower.has_lost);
        drop(follower);
        let (changes, overflows) = self.filter_delivered(changes);
        if has_lost || overflows {
            report(NameChange::Lost);
        }
        for (directory, name, kind) in &changes {
            let directory = FollowId(*directory);
            report(match (name.as_ref().map(Name::as_bytes), kind) {
                (None, _) => NameChange::Itself(directory),
                (Some(name), ChangeKind::Added) => NameChange::Added(directory, name),
                (Some(name), ChangeKind::Attributes) => NameChange::Attributes(directory, name),
                (Some(name), ChangeKind::Removed) => NameChange::Removed(directory, name),
            });
        }
    }
}
