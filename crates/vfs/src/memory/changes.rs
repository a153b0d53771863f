//! What happens to names, for those who follow directories.

use super::node::MemoryNode;
use super::state::State;
use super::{MemoryVfs, Shared};
use crate::{ChangeFeed, FollowId, FsError, Name, NameChange, Node, Result};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Changes that are kept for one who does not ask, as a kernel has a limit.
const CHANGES_MAX: usize = 4096;

/// What happened to one name, or to its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    Added,
    Attributes,
    Removed,
}

/// One who follows directories.
#[derive(Debug, Default)]
pub(super) struct Follower {
    directories: BTreeSet<u64>,
    /// A change without a name is of the directory itself.
    changes: VecDeque<(u64, Option<Name>, Happened)>,
    has_lost: bool,
}

/// All who follow directories.
#[derive(Debug, Default)]
pub(super) struct Followers(Vec<Weak<Mutex<Follower>>>);

impl Followers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn tell(&mut self, directory: u64, name: Option<&Name>, happened: Happened) {
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
            follower.changes.push_back((directory, name.cloned(), happened));
            true
        });
    }
}

fn lock(follower: &Mutex<Follower>) -> MutexGuard<'_, Follower> {
    follower.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lock order: the tree, then this.
struct MemoryChanges {
    shared: Arc<Shared>,
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

impl State {
    /// Attributes of a node were changed: told by its names, and of itself.
    pub(super) fn tell_attributes(&mut self, number: u64) {
        if self.followers.is_empty() {
            return;
        }
        let mut told = vec![(number, None)];
        for (directory, inode) in &self.inodes {
            if let super::inode::Body::Directory(names) = &inode.body {
                let of_it = names.names().filter(|(_, to)| *to == number);
                told.extend(of_it.map(|(name, _)| (*directory, Some(name.clone()))));
            }
        }
        for (directory, name) in told {
            self.followers.tell(directory, name.as_ref(), Happened::Attributes);
        }
    }
}

impl ChangeFeed for MemoryChanges {
    fn follow(&self, directory: &dyn Node) -> Result<FollowId> {
        let node = MemoryNode::of(directory, &self.shared).ok_or(FsError::NotSupported)?;
        let state = self.shared.state();
        state.directory(node.number).ok_or(FsError::NotSupported)?;
        lock(&self.follower).directories.insert(node.number);
        Ok(FollowId(node.number))
    }

    fn unfollow(&self, directory: FollowId) {
        let mut follower = lock(&self.follower);
        follower.directories.remove(&directory.0);
        // A number may be followed anew: what was before is none of its business.
        follower.changes.retain(|(of, ..)| *of != directory.0);
    }

    fn drain(&self, tell: &mut dyn FnMut(NameChange<'_>)) {
        let mut follower = lock(&self.follower);
        let changes = std::mem::take(&mut follower.changes);
        let has_lost = std::mem::take(&mut follower.has_lost);
        drop(follower);
        if has_lost {
            tell(NameChange::Lost);
        }
        for (directory, name, happened) in &changes {
            let directory = FollowId(*directory);
            tell(match (name.as_ref().map(Name::as_bytes), happened) {
                (None, _) => NameChange::Itself(directory),
                (Some(name), Happened::Added) => NameChange::Added(directory, name),
                (Some(name), Happened::Attributes) => NameChange::Attributes(directory, name),
                (Some(name), Happened::Removed) => NameChange::Removed(directory, name),
            });
        }
    }
}
