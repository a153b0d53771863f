//! Followed directories and their names.
//!
//! Pure bookkeeping: events of the feed come in by [`FollowedDirectories::handle_change`], and directories
//! to unfollow go out by [`FollowedDirectories::poll_unfollow`].

use crate::counters::CacheCounters;
use crate::name_index::{NameIndex, NameMatch, hash_of};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use vfs::{FileKey, FollowId, KeyedBuildHasher, NameChange};

/// Bytes of a directory beside its names: table entries and its place in the queue.
const DIRECTORY_BYTES: usize = 256;
/// Changes that are retained while a directory is read; beyond them it is read again.
const PENDING_MAX: usize = 65_536;

/// A followed directory.
#[derive(Debug)]
struct FollowedDirectory {
    follow: FollowId,
    /// Its path, if cached paths lead through it.
    path: Option<Box<[u8]>>,
    names: DirectoryNames,
    /// Number of events of the directory or its names.
    event_count: u64,
    /// Change attribute after all of these events.
    change: Option<u64>,
    /// Used since its last turn for eviction.
    was_used: bool,
    charged_bytes: usize,
}

impl FollowedDirectory {
    /// Counts an event, which voids the change attribute.
    fn count_event(&mut self) {
        self.event_count += 1;
        self.change = None;
    }
}

/// Knowledge of the names in a directory.
#[derive(Debug)]
enum DirectoryNames {
    Unknown,
    /// A thread reads the names; changes are retained meanwhile.
    Reading(PendingChanges),
    Known(NameIndex),
    /// The names exceed the budget; another attempt is made after so many removals.
    TooMany {
        removals_left: usize,
    },
}

/// Changes of a directory while it is read.
#[derive(Debug, Default)]
struct PendingChanges {
    changes: Vec<(Box<[u8]>, bool)>,
    is_lost: bool,
}

/// Result of a lookup in the names of a directory.
#[derive(Debug, PartialEq, Eq)]
pub enum NameAnswer {
    /// The names are known.
    Found(NameMatch),
    /// The names have not been read since the last invalidation.
    Unread,
    /// Another thread is reading the names.
    BeingRead,
    /// The names exceed the budget.
    TooMany,
}

/// All followed directories.
#[derive(Debug)]
pub struct FollowedDirectories {
    hasher: KeyedBuildHasher,
    counters: Arc<CacheCounters>,
    budget_bytes: usize,
    directories_max: usize,
    by_key: HashMap<FileKey, FollowedDirectory, KeyedBuildHasher>,
    by_follow: HashMap<FollowId, FileKey, KeyedBuildHasher>,
    /// Eviction queue; it may contain keys of dropped directories.
    turns: VecDeque<FileKey>,
    bytes: usize,
    unfollow: Vec<FollowId>,
    lost_paths: Vec<Box<[u8]>>,
}

impl FollowedDirectories {
    pub fn new(
        counters: Arc<CacheCounters>,
        hasher: KeyedBuildHasher,
        budget_bytes: usize,
        directories_max: usize,
    ) -> Self {
        Self {
            counters,
            budget_bytes,
            directories_max,
            by_key: HashMap::with_hasher(hasher.clone()),
            by_follow: HashMap::with_hasher(hasher.clone()),
            hasher,
            turns: VecDeque::new(),
            bytes: 0,
            unfollow: Vec::new(),
            lost_paths: Vec::new(),
        }
    }

    /// Hasher for names.
    pub fn hasher(&self) -> &KeyedBuildHasher {
        &self.hasher
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the budget, and invalidates all names.
    pub fn set_budget(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.invalidate_names();
    }

    /// Takes a directory to unfollow.
    pub fn poll_unfollow(&mut self) -> Option<FollowId> {
        self.unfollow.pop()
    }

    /// Takes the path of a directory that is no longer followed.
    pub fn poll_lost_path(&mut self) -> Option<Box<[u8]>> {
        self.lost_paths.pop()
    }

    /// Sets the path of a directory. False if cached paths lead through it at another path.
    pub fn set_path(&mut self, key: FileKey, path: &[u8]) -> bool {
        let Some(directory) = self.by_key.get_mut(&key) else { return false };
        &**directory.path.get_or_insert_with(|| path.into()) == path
    }

    /// Clears the path of a directory: no cached path leads through it.
    pub fn clear_path(&mut self, key: FileKey) {
        if let Some(directory) = self.by_key.get_mut(&key) {
            directory.path = None;
        }
    }

    /// The path of the directory with this number.
    pub fn path_of(&self, follow: FollowId) -> Option<&[u8]> {
        self.by_key.get(self.by_follow.get(&follow)?)?.path.as_deref()
    }

    /// The path of a directory, if it is followed and cached paths lead through it.
    pub fn path_at(&self, key: FileKey) -> Option<&[u8]> {
        self.by_key.get(&key)?.path.as_deref()
    }

    /// The number of a followed directory.
    pub fn follow_of(&self, key: FileKey) -> Option<FollowId> {
        self.by_key.get(&key).map(|directory| directory.follow)
    }

    /// The change attribute of a directory, if no event has voided it.
    pub fn change_of(&self, key: FileKey) -> Option<u64> {
        self.by_key.get(&key)?.change
    }

    /// Number of events of a followed directory.
    pub fn event_count_of(&self, key: FileKey) -> Option<u64> {
        self.by_key.get(&key).map(|directory| directory.event_count)
    }

    /// Notes the change attribute, if the number of events is still `event_count`.
    pub fn note_change(&mut self, key: FileKey, event_count: u64, change: u64) {
        if let Some(directory) =
            self.by_key.get_mut(&key).filter(|found| found.event_count == event_count)
        {
            directory.change = Some(change);
        }
    }

    fn count_event(&mut self, follow: FollowId) {
        let key = self.by_follow.get(&follow);
        if let Some(directory) = key.and_then(|key| self.by_key.get_mut(key)) {
            directory.count_event();
        }
    }

    /// Marks the directory as used.
    pub fn touch(&mut self, key: FileKey) {
        if let Some(directory) = self.by_key.get_mut(&key) {
            directory.was_used = true;
        }
    }

    /// Whether the directory is followed.
    pub fn follows(&self, key: FileKey) -> bool {
        self.by_key.contains_key(&key)
    }

    /// Looks up a name.
    pub fn find(&mut self, key: FileKey, name: &[u8]) -> NameAnswer {
        let Some(directory) = self.by_key.get_mut(&key) else { return NameAnswer::Unread };
        directory.was_used = true;
        match &directory.names {
            DirectoryNames::Unknown => NameAnswer::Unread,
            DirectoryNames::Reading(_) => NameAnswer::BeingRead,
            DirectoryNames::Known(index) => {
                NameAnswer::Found(index.find(hash_of(&self.hasher, name), name))
            }
            DirectoryNames::TooMany { .. } => NameAnswer::TooMany,
        }
    }

    /// Adds a followed directory.
    pub fn handle_followed(&mut self, key: FileKey, follow: FollowId) {
        self.drop_directory(key);
        while self.by_key.len() >= self.directories_max && self.evict_one(None) {}
        self.make_room(DIRECTORY_BYTES, None);
        self.bytes += DIRECTORY_BYTES;
        let names = DirectoryNames::Unknown;
        let charged_bytes = DIRECTORY_BYTES;
        let (event_count, change) = (0, None);
        let was_used = true;
        let new = FollowedDirectory {
            follow,
            path: None,
            names,
            event_count,
            change,
            was_used,
            charged_bytes,
        };
        self.by_key.insert(key, new);
        self.by_follow.insert(follow, key);
        if self.turns.len() > 2 * self.by_key.len() + 64 {
            self.turns = self.by_key.keys().copied().collect();
        } else {
            self.turns.push_back(key);
        }
    }

    /// Begins to read the names of a directory. False if it is not followed or another thread reads
    /// it.
    pub fn begin_reading(&mut self, key: FileKey) -> bool {
        match self.by_key.get_mut(&key) {
            Some(directory) if !matches!(directory.names, DirectoryNames::Reading(_)) => {
                directory.names = DirectoryNames::Reading(PendingChanges::default());
                true
            }
            _ => false,
        }
    }

    /// Charges bytes for the names that are being read. False if there is no room, or the result
    /// would be void.
    pub fn charge_reading(&mut self, key: FileKey, bytes: usize) -> bool {
        let Some(directory) = self.by_key.get(&key) else { return false };
        if !matches!(&directory.names, DirectoryNames::Reading(pending) if !pending.is_lost) {
            return false;
        }
        let more = (DIRECTORY_BYTES + bytes).saturating_sub(directory.charged_bytes);
        self.make_room(more, Some(key)) && {
            self.set_charge(key, bytes);
            true
        }
    }

    /// Ends the reading with the `index`. Without one, `count` is the number of names that did not
    /// fit, or zero after an error.
    pub fn end_reading(&mut self, key: FileKey, index: Option<NameIndex>, count: usize) {
        let Some(directory) = self.by_key.get_mut(&key) else { return };
        let DirectoryNames::Reading(pending) =
            std::mem::replace(&mut directory.names, DirectoryNames::Unknown)
        else {
            return;
        };
        match index {
            Some(index) if !pending.is_lost => {
                directory.names = DirectoryNames::Known(index);
                for (name, is_added) in &pending.changes {
                    self.change_name(key, name, *is_added);
                }
            }
            None if count > 0 && !pending.is_lost => {
                directory.names = DirectoryNames::TooMany { removals_left: count / 4 };
                self.set_charge(key, 0);
                tracing::info!(
                    count,
                    "a directory has more names than metadata_cache can hold: lookups in another case scan it; raise metadata_cache to avoid that"
                );
            }
            _ => self.set_charge(key, 0),
        }
        self.recharge(key);
    }

    /// Applies an event of the feed.
    pub fn handle_change(&mut self, change: NameChange<'_>) {
        match change {
            NameChange::Added(follow, name) => self.change_name_in(follow, name, true),
            NameChange::Removed(follow, name) => self.change_name_in(follow, name, false),
            NameChange::Ended(follow) => {
                if let Some(key) = self.by_follow.get(&follow).copied() {
                    self.drop_directory(key);
                }
            }
            NameChange::Lost => {
                self.invalidate_names();
                self.by_key.values_mut().for_each(FollowedDirectory::count_event);
            }
            NameChange::Itself(follow) => self.count_event(follow),
            NameChange::Attributes(..) => {}
        }
    }

    /// Drops all directories.
    pub fn clear(&mut self) {
        let keys: Vec<FileKey> = self.by_key.keys().copied().collect();
        keys.into_iter().for_each(|key| self.drop_directory(key));
        self.turns.clear();
    }

    fn change_name_in(&mut self, follow: FollowId, name: &[u8], is_added: bool) {
        if let Some(key) = self.by_follow.get(&follow).copied() {
            self.change_name(key, name, is_added);
            self.recharge(key);
        }
    }

    fn change_name(&mut self, key: FileKey, name: &[u8], is_added: bool) {
        let Some(directory) = self.by_key.get_mut(&key) else { return };
        directory.count_event();
        let growth = match &mut directory.names {
            DirectoryNames::Reading(pending) => return pending.push(name, is_added),
            DirectoryNames::TooMany { removals_left } if !is_added => {
                *removals_left = removals_left.saturating_sub(1);
                if *removals_left == 0 {
                    directory.names = DirectoryNames::Unknown;
                }
                return;
            }
            DirectoryNames::Known(index) if is_added => index.growth_bytes(name),
            DirectoryNames::Known(_) => 0,
            DirectoryNames::Unknown | DirectoryNames::TooMany { .. } => return,
        };
        if growth > 0 && !self.make_room(growth, Some(key)) {
            return self.invalidate_names_of(key);
        }
        let hash = hash_of(&self.hasher, name);
        let Some(FollowedDirectory { names: DirectoryNames::Known(index), .. }) =
            self.by_key.get_mut(&key)
        else {
            return;
        };
        if is_added {
            index.add(hash, name);
        } else {
            index.remove(hash, name);
            if index.needs_rebuild() {
                self.invalidate_names_of(key);
            }
        }
    }

    /// Invalidates all names, because anything may have changed.
    fn invalidate_names(&mut self) {
        let keys: Vec<FileKey> = self.by_key.keys().copied().collect();
        keys.into_iter().for_each(|key| self.invalidate_names_of(key));
    }

    fn invalidate_names_of(&mut self, key: FileKey) {
        let Some(directory) = self.by_key.get_mut(&key) else { return };
        match &mut directory.names {
            DirectoryNames::Reading(pending) => pending.is_lost = true,
            DirectoryNames::Unknown => {}
            names => {
                *names = DirectoryNames::Unknown;
                self.counters.names.invalidated();
                self.set_charge(key, 0);
            }
        }
    }

    /// Charges the current size of the names.
    fn recharge(&mut self, key: FileKey) {
        if let Some(FollowedDirectory { names: DirectoryNames::Known(index), .. }) =
            self.by_key.get(&key)
        {
            let bytes = index.bytes();
            self.set_charge(key, bytes);
        }
    }

    fn set_charge(&mut self, key: FileKey, bytes: usize) {
        if let Some(directory) = self.by_key.get_mut(&key) {
            let charged = DIRECTORY_BYTES + bytes;
            self.bytes = self.bytes - directory.charged_bytes + charged;
            directory.charged_bytes = charged;
        }
    }

    /// Evicts other directories until there is room. False if that does not suffice.
    fn make_room(&mut self, bytes: usize, for_key: Option<FileKey>) -> bool {
        while self.bytes + bytes > self.budget_bytes {
            if !self.evict_one(for_key) {
                return false;
            }
        }
        true
    }

    /// Evicts an approximately least recently used directory.
    fn evict_one(&mut self, keep: Option<FileKey>) -> bool {
        for _ in 0..2 * self.turns.len() {
            let Some(key) = self.turns.pop_front() else { return false };
            let Some(directory) = self.by_key.get_mut(&key) else { continue };
            let is_read = matches!(directory.names, DirectoryNames::Reading(_));
            if Some(key) == keep || is_read || std::mem::take(&mut directory.was_used) {
                self.turns.push_back(key);
                continue;
            }
            self.drop_directory(key);
            self.counters.names.evicted();
            return true;
        }
        false
    }

    fn drop_directory(&mut self, key: FileKey) {
        let Some(gone) = self.by_key.remove(&key) else { return };
        self.bytes -= gone.charged_bytes;
        self.by_follow.remove(&gone.follow);
        self.unfollow.push(gone.follow);
        self.lost_paths.extend(gone.path);
    }
}

impl PendingChanges {
    fn push(&mut self, name: &[u8], is_added: bool) {
        if self.changes.len() == PENDING_MAX {
            self.is_lost = true;
        }
        if !self.is_lost {
            self.changes.push((name.into(), is_added));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_attribute_from_before_an_event_is_not_noted() {
        let mut directories =
            FollowedDirectories::new(Arc::default(), KeyedBuildHasher::by(1), 1 << 20, 10);
        let (key, follow) = (FileKey { device: 1, inode: 2 }, FollowId(3));
        assert_eq!((directories.event_count_of(key), directories.change_of(key)), (None, None));
        directories.handle_followed(key, follow);
        let event_count = [
            NameChange::Added(follow, b"name"),
            NameChange::Removed(follow, b"name"),
            NameChange::Itself(follow),
            NameChange::Lost,
        ];
        for change in event_count {
            let before = directories.event_count_of(key).unwrap();
            directories.note_change(key, before, 7);
            assert_eq!(directories.change_of(key), Some(7));
            directories.handle_change(NameChange::Attributes(follow, b"name"));
            directories.handle_change(NameChange::Added(FollowId(4), b"name"));
            assert_eq!(directories.change_of(key), Some(7), "it is of something else");
            directories.handle_change(change);
            assert_eq!(directories.change_of(key), None, "{change:?}");
            directories.note_change(key, before, 8);
            assert_eq!(directories.change_of(key), None, "{change:?}");
        }
        directories.handle_change(NameChange::Ended(follow));
        assert_eq!(directories.event_count_of(key), None);
    }
}
