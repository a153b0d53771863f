//! What happens to names, for those who follow directories.

use super::inode::Inode;
use super::node::MemoryNode;
use super::state::State;
use super::{Event, Hearing, MemoryVfs, Shared};
use crate::{ChangeFeed, FileKind, FollowId, FsError, Name, NameChange, Node, Result, ServerWork};
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

/// In which directory; one without a name is of the directory itself.
type Change = (u64, Option<Name>, Happened);

/// One who follows directories.
#[derive(Debug, Default)]
pub(super) struct Follower {
    directories: BTreeSet<u64>,
    changes: VecDeque<Change>,
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
        drop(crate::freshness::changing());
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
    /// Attributes of a node were changed: told by its name, and of itself. Of a file with
    /// several names systems tell the one that it was found by, which may be another.
    pub(super) fn tell_attributes(&mut self, number: u64) {
        if self.followers.is_empty() {
            return;
        }
        let mut told = vec![(number, None)];
        let is_heard = |inode: &Inode| inode.links == 1 || inode.kind() == FileKind::Directory;
        let is_heard = self.inodes.get(&number).is_some_and(is_heard);
        for (directory, inode) in self.inodes.iter().filter(|_| is_heard) {
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

impl MemoryChanges {
    /// What is told of changes; whether too many came for that.
    fn heard(&self, changes: VecDeque<Change>) -> (VecDeque<Change>, bool) {
        let mut told = VecDeque::new();
        for change in changes {
            let event = match change.2 {
                Happened::Added => Event::Added,
                Happened::Attributes => Event::Attributes,
                Happened::Removed => Event::Removed,
            };
            match self.shared.around.hearing(event) {
                Hearing::Told => told.push_back(change),
                Hearing::Overflows => return (VecDeque::new(), true),
                Hearing::Swallowed => {}
            }
        }
        (told, false)
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
        // A number may be followed anew: what was before is none of its business.
        follower.changes.retain(|(of, ..)| *of != directory.0);
    }

    fn drain(&self, tell: &mut dyn FnMut(NameChange<'_>)) {
        let mut follower = lock(&self.follower);
        let changes = std::mem::take(&mut follower.changes);
        let has_lost = std::mem::take(&mut follower.has_lost);
        drop(follower);
        let (changes, overflows) = self.heard(changes);
        if has_lost || overflows {
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
