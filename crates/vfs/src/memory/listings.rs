//! Listing feed of a tree in memory: compares each followed directory with its last snapshot.

use super::node::MemoryNode;
use super::state::MemoryState;
use super::{FeedDelivery, FeedEvent, MemoryVfs, SharedTree};
use crate::{Attributes, FileKind, FollowId, FsError, ListingFeed, Name, Node, Result, ServerWork};
use std::collections::BTreeMap;
use std::sync::Arc;
use sync::{Mutex, MutexGuard};

/// State of a followed directory and its entries. A subdirectory or a file with several names
/// counts by its presence only, because a system reports no changes of it here.
#[derive(Debug, PartialEq, Eq)]
struct ListingSnapshot {
    itself: (u32, u32, u32),
    children: Vec<(Name, u64, Option<Attributes>)>,
}

impl ListingSnapshot {
    fn of(state: &MemoryState, number: u64) -> Option<Self> {
        let facts = &state.inodes.get(&number)?.facts;
        let itself = (facts.mode, facts.uid, facts.gid);
        let children = state.directory(number)?.names().map(|(name, child)| {
            let heard = state.inodes.get(&child);
            let heard = heard.filter(|i| i.links == 1 && i.kind() != FileKind::Directory);
            let key = crate::FileKey { device: 0, inode: child };
            (name.clone(), child, heard.map(|inode| inode.attributes(key, true)))
        });
        Some(Self { itself, children: children.collect() })
    }
}

#[derive(Debug, Default)]
struct FollowedListings {
    next: u64,
    by_id: BTreeMap<u64, (u64, Option<ListingSnapshot>)>,
}

/// Lock order: the tree, then this.
struct MemoryListings {
    shared: Arc<SharedTree>,
    followed: Mutex<FollowedListings>,
}

impl std::fmt::Debug for MemoryListings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryListings").finish_non_exhaustive()
    }
}

impl MemoryVfs {
    pub(super) fn listings(&self) -> Box<dyn ListingFeed> {
        Box::new(MemoryListings { shared: self.shared.clone(), followed: Mutex::default() })
    }
}

impl MemoryListings {
    fn followed(&self) -> MutexGuard<'_, FollowedListings> {
        self.followed.lock()
    }
}

impl ListingFeed for MemoryListings {
    fn follow(&self, _work: ServerWork, directory: &dyn Node) -> Result<FollowId> {
        let node = MemoryNode::of(directory, &self.shared).ok_or(FsError::NotSupported)?;
        let is_deaf = self.shared.around.delivery(FeedEvent::Followed) == FeedDelivery::Dropped;
        let state = self.shared.state();
        let snapshot = ListingSnapshot::of(&state, node.number).ok_or(FsError::NotSupported)?;
        let mut followed = self.followed();
        followed.next += 1;
        let id = followed.next;
        if is_deaf {
            return Ok(FollowId(id));
        }
        followed.by_id.insert(id, (node.number, Some(snapshot)));
        Ok(FollowId(id))
    }

    fn unfollow(&self, directory: FollowId) {
        self.followed().by_id.remove(&directory.0);
    }

    fn drain(&self, report: &mut dyn FnMut(Option<FollowId>)) {
        let state = self.shared.state();
        let changed = |_: &u64, (number, snapshot): &mut (u64, Option<ListingSnapshot>)| {
            ListingSnapshot::of(&state, *number) != *snapshot
        };
        let mut followed = self.followed();
        let changed: Vec<u64> = followed.by_id.extract_if(.., changed).map(|(id, _)| id).collect();
        drop(followed);
        drop(state);
        for id in changed {
            match self.shared.around.delivery(FeedEvent::Listing) {
                FeedDelivery::Delivered => report(Some(FollowId(id))),
                FeedDelivery::Overflows => {
                    self.followed().by_id.clear();
                    report(None);
                }
                FeedDelivery::Dropped => {}
            }
        }
    }
}
