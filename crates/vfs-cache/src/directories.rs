//! The directories that are followed, and what is known of the names in them.
//!
//! Pure bookkeeping: what happened comes in ([`Directories::handle_change`]), and
//! what is to be followed no longer is taken out ([`Directories::poll_unfollow`]).

use crate::counters::Counters;
use crate::index::{NameIndex, Spelling, hash_of};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use vfs::{FileKey, FollowId, KeyedBuildHasher, NameChange};

/// Bytes of a directory beside its names: entries of tables, a place in the queue.
const DIRECTORY_BYTES: usize = 256;
/// Changes that are kept while a directory is read; with more it is read again.
const PENDING_MAX: usize = 65_536;

/// A directory that is followed.
#[derive(Debug)]
struct Directory {
    follow: FollowId,
    /// Where it is, if paths lead through it.
    path: Option<Box<[u8]>>,
    names: Names,
    /// How often something was told of it or its names.
    told: u64,
    /// Its change attribute, when all that was told so far had been done.
    change: Option<u64>,
    /// Since its turn to be given up came last.
    was_used: bool,
    charged_bytes: usize,
}

impl Directory {
    /// Something was told of it.
    fn handle_told(&mut self) {
        self.told += 1;
        self.change = None;
    }
}

/// What is known of the names in a directory.
#[derive(Debug)]
enum Names {
    Unknown,
    /// Somebody reads it, beside what happens meanwhile.
    Reading(Pending),
    Known(NameIndex),
    /// They do not fit into the budget; again worth a try after so many have gone.
    TooMany {
        removals_left: usize,
    },
}

/// What happened while a directory was being read.
#[derive(Debug, Default)]
struct Pending {
    changes: Vec<(Box<[u8]>, bool)>,
    is_lost: bool,
}

/// What is known of a name.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is known.
    Found(Spelling),
    /// The directory has not been read, or not since it was given up.
    Unread,
    /// Somebody reads it just now.
    BeingRead,
    /// It holds more names than there is room for.
    TooMany,
}

/// All directories that are followed.
#[derive(Debug)]
pub struct Directories {
    hasher: KeyedBuildHasher,
    counters: Arc<Counters>,
    budget_bytes: usize,
    directories_max: usize,
    by_key: HashMap<FileKey, Directory, KeyedBuildHasher>,
    by_follow: HashMap<FollowId, FileKey, KeyedBuildHasher>,
    /// Whose turn to be given up comes when; may name some that have gone.
    turns: VecDeque<FileKey>,
    bytes: usize,
    unfollow: Vec<FollowId>,
    lost_paths: Vec<Box<[u8]>>,
}

impl Directories {
    pub fn new(
        counters: Arc<Counters>,
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

    /// What makes hashes of names.
    pub fn hasher(&self) -> &KeyedBuildHasher {
        &self.hasher
    }

    /// Bytes that are taken.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes another budget, at once.
    pub fn set_budget(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.forget_names();
    }

    /// Which directory is to be followed no longer.
    pub fn poll_unfollow(&mut self) -> Option<FollowId> {
        self.unfollow.pop()
    }

    /// Where a directory was that is to be followed no longer.
    pub fn poll_lost_path(&mut self) -> Option<Box<[u8]>> {
        self.lost_paths.pop()
    }

    /// Paths lead through the directory at this one; false if they do at another.
    pub fn set_path(&mut self, key: FileKey, path: &[u8]) -> bool {
        let Some(directory) = self.by_key.get_mut(&key) else { return false };
        &**directory.path.get_or_insert_with(|| path.into()) == path
    }

    /// It has left the path that led to it.
    pub fn clear_path(&mut self, key: FileKey) {
        if let Some(directory) = self.by_key.get_mut(&key) {
            directory.path = None;
        }
    }

    /// Where the directory is that is followed by this number.
    pub fn path_of(&self, follow: FollowId) -> Option<&[u8]> {
        self.by_key.get(self.by_follow.get(&follow)?)?.path.as_deref()
    }

    /// Where the directory is, if it is followed and paths lead through it.
    pub fn path_at(&self, key: FileKey) -> Option<&[u8]> {
        self.by_key.get(&key)?.path.as_deref()
    }

    /// By which number it is followed.
    pub fn follow_of(&self, key: FileKey) -> Option<FollowId> {
        self.by_key.get(&key).map(|directory| directory.follow)
    }

    /// Its change attribute, if that is known and nothing was told since.
    pub fn change_of(&self, key: FileKey) -> Option<u64> {
        self.by_key.get(&key)?.change
    }

    /// How often something was told of it, if it is followed.
    pub fn told_of(&self, key: FileKey) -> Option<u64> {
        self.by_key.get(&key).map(|directory| directory.told)
    }

    /// Its change attribute was seen after so much was told of it.
    pub fn note_change(&mut self, key: FileKey, told: u64, change: u64) {
        if let Some(directory) = self.by_key.get_mut(&key).filter(|found| found.told == told) {
            directory.change = Some(change);
        }
    }

    fn handle_told(&mut self, follow: FollowId) {
        let key = self.by_follow.get(&follow);
        if let Some(directory) = key.and_then(|key| self.by_key.get_mut(key)) {
            directory.handle_told();
        }
    }

    /// It was used.
    pub fn touch(&mut self, key: FileKey) {
        if let Some(directory) = self.by_key.get_mut(&key) {
            directory.was_used = true;
        }
    }

    /// Whether it is followed.
    pub fn knows(&self, key: FileKey) -> bool {
        self.by_key.contains_key(&key)
    }

    /// How a name is spelt.
    pub fn find(&mut self, key: FileKey, name: &[u8]) -> Answer {
        let Some(directory) = self.by_key.get_mut(&key) else { return Answer::Unread };
        directory.was_used = true;
        match &directory.names {
            Names::Unknown => Answer::Unread,
            Names::Reading(_) => Answer::BeingRead,
            Names::Known(index) => Answer::Found(index.find(hash_of(&self.hasher, name), name)),
            Names::TooMany { .. } => Answer::TooMany,
        }
    }

    /// A directory is followed from now on.
    pub fn handle_followed(&mut self, key: FileKey, follow: FollowId) {
        self.give_up(key);
        while self.by_key.len() >= self.directories_max && self.evict_one(None) {}
        self.make_room(DIRECTORY_BYTES, None);
        self.bytes += DIRECTORY_BYTES;
        let names = Names::Unknown;
        let charged_bytes = DIRECTORY_BYTES;
        let (told, change) = (0, None);
        let was_used = true;
        let new = Directory { follow, path: None, names, told, change, was_used, charged_bytes };
        self.by_key.insert(key, new);
        self.by_follow.insert(follow, key);
        if self.turns.len() > 2 * self.by_key.len() + 64 {
            self.turns = self.by_key.keys().copied().collect();
        } else {
            self.turns.push_back(key);
        }
    }

    /// Somebody begins to read the directory; false if it is not followed or is
    /// being read already.
    pub fn begin_reading(&mut self, key: FileKey) -> bool {
        match self.by_key.get_mut(&key) {
            Some(directory) if !matches!(directory.names, Names::Reading(_)) => {
                directory.names = Names::Reading(Pending::default());
                true
            }
            _ => false,
        }
    }

    /// As many bytes are needed for what is being read; false if there is no
    /// room for them, or no use.
    pub fn charge_reading(&mut self, key: FileKey, bytes: usize) -> bool {
        let Some(directory) = self.by_key.get(&key) else { return false };
        if !matches!(&directory.names, Names::Reading(pending) if !pending.is_lost) {
            return false;
        }
        let more = (DIRECTORY_BYTES + bytes).saturating_sub(directory.charged_bytes);
        self.make_room(more, Some(key)) && {
            self.set_charge(key, bytes);
            true
        }
    }

    /// The directory was read: `index`, or none if there was no room for
    /// more than `count` names, or zero for another reason.
    pub fn end_reading(&mut self, key: FileKey, index: Option<NameIndex>, count: usize) {
        let Some(directory) = self.by_key.get_mut(&key) else { return };
        let Names::Reading(pending) = std::mem::replace(&mut directory.names, Names::Unknown)
        else {
            return;
        };
        match index {
            Some(index) if !pending.is_lost => {
                directory.names = Names::Known(index);
                for (name, is_added) in &pending.changes {
                    self.change_name(key, name, *is_added);
                }
            }
            None if count > 0 && !pending.is_lost => {
                directory.names = Names::TooMany { removals_left: count / 4 };
                self.set_charge(key, 0);
                tracing::info!(
                    count,
                    "a directory holds more names than metadata_cache has room for; names of other case are looked for in all of it"
                );
            }
            _ => self.set_charge(key, 0),
        }
        self.recharge(key);
    }

    /// Something happened.
    pub fn handle_change(&mut self, change: NameChange<'_>) {
        match change {
            NameChange::Added(follow, name) => self.change_name_in(follow, name, true),
            NameChange::Removed(follow, name) => self.change_name_in(follow, name, false),
            NameChange::Ended(follow) => {
                if let Some(key) = self.by_follow.get(&follow).copied() {
                    self.give_up(key);
                }
            }
            NameChange::Lost => {
                self.forget_names();
                self.by_key.values_mut().for_each(Directory::handle_told);
            }
            NameChange::Itself(follow) => self.handle_told(follow),
            NameChange::Attributes(..) => {}
        }
    }

    /// Follows nothing any more.
    pub fn clear(&mut self) {
        let keys: Vec<FileKey> = self.by_key.keys().copied().collect();
        keys.into_iter().for_each(|key| self.give_up(key));
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
        directory.handle_told();
        let growth = match &mut directory.names {
            Names::Reading(pending) => return pending.push(name, is_added),
            Names::TooMany { removals_left } if !is_added => {
                *removals_left = removals_left.saturating_sub(1);
                if *removals_left == 0 {
                    directory.names = Names::Unknown;
                }
                return;
            }
            Names::Known(index) if is_added => index.growth_bytes(name),
            Names::Known(_) => 0,
            Names::Unknown | Names::TooMany { .. } => return,
        };
        if growth > 0 && !self.make_room(growth, Some(key)) {
            return self.forget_names_of(key);
        }
        let hash = hash_of(&self.hasher, name);
        let Some(Directory { names: Names::Known(index), .. }) = self.by_key.get_mut(&key) else {
            return;
        };
        if is_added {
            index.add(hash, name);
        } else {
            index.remove(hash, name);
            if index.is_worn() {
                self.forget_names_of(key);
            }
        }
    }

    /// Anything may have happened.
    fn forget_names(&mut self) {
        let keys: Vec<FileKey> = self.by_key.keys().copied().collect();
        keys.into_iter().for_each(|key| self.forget_names_of(key));
    }

    fn forget_names_of(&mut self, key: FileKey) {
        let Some(directory) = self.by_key.get_mut(&key) else { return };
        match &mut directory.names {
            Names::Reading(pending) => pending.is_lost = true,
            Names::Unknown => {}
            names => {
                *names = Names::Unknown;
                self.counters.names.invalidated();
                self.set_charge(key, 0);
            }
        }
    }

    /// Charges what the names take by now.
    fn recharge(&mut self, key: FileKey) {
        if let Some(Directory { names: Names::Known(index), .. }) = self.by_key.get(&key) {
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

    /// Gives up others until there is room; false if that is not enough.
    fn make_room(&mut self, bytes: usize, for_key: Option<FileKey>) -> bool {
        while self.bytes + bytes > self.budget_bytes {
            if !self.evict_one(for_key) {
                return false;
            }
        }
        true
    }

    /// Gives up one that was not used for longest, more or less.
    fn evict_one(&mut self, keep: Option<FileKey>) -> bool {
        for _ in 0..2 * self.turns.len() {
            let Some(key) = self.turns.pop_front() else { return false };
            let Some(directory) = self.by_key.get_mut(&key) else { continue };
            let is_read = matches!(directory.names, Names::Reading(_));
            if Some(key) == keep || is_read || std::mem::take(&mut directory.was_used) {
                self.turns.push_back(key);
                continue;
            }
            self.give_up(key);
            self.counters.names.evicted();
            return true;
        }
        false
    }

    fn give_up(&mut self, key: FileKey) {
        let Some(gone) = self.by_key.remove(&key) else { return };
        self.bytes -= gone.charged_bytes;
        self.by_follow.remove(&gone.follow);
        self.unfollow.push(gone.follow);
        self.lost_paths.extend(gone.path);
    }
}

impl Pending {
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
    fn a_change_attribute_that_was_seen_before_something_was_told_is_not_noted() {
        let mut directories =
            Directories::new(Arc::default(), KeyedBuildHasher::by(1), 1 << 20, 10);
        let (key, follow) = (FileKey { device: 1, inode: 2 }, FollowId(3));
        assert_eq!((directories.told_of(key), directories.change_of(key)), (None, None));
        directories.handle_followed(key, follow);
        let told = [
            NameChange::Added(follow, b"name"),
            NameChange::Removed(follow, b"name"),
            NameChange::Itself(follow),
            NameChange::Lost,
        ];
        for change in told {
            let before = directories.told_of(key).unwrap();
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
        assert_eq!(directories.told_of(key), None);
    }
}
