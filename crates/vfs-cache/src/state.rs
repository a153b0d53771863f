//! State of the cache: directories with their names, paths, and created files.

use crate::counters::CacheCounters;
use crate::created_names::{CreatedFile, CreatedNames};
use crate::directories::{FollowedDirectories, NameAnswer};
use crate::name_index::NameMatch;
use crate::options::CacheOptions;
use crate::path_cache::{ParentState, PathCache, PathFacts, join};
use std::sync::Arc;
use vfs::{FileKey, FileKind, FollowId, Identity, KeyedBuildHasher, NameChange, Node, RelPath};

/// Parts of the budget: one in four for paths, and as much for listings.
const PATHS_PART: usize = 4;

/// Part of the budget for listings.
pub fn for_listings(budget_bytes: usize) -> usize {
    budget_bytes / PATHS_PART
}

/// Cached knowledge of a name.
pub enum CachedName {
    /// The name is absent, and the caller may know that.
    Absent,
    /// The name exists in this spelling.
    Spelt(RelPath),
    /// The name exists exactly.
    Exact,
    Unknown,
}

/// State of the cache.
#[derive(Debug)]
pub struct MetadataCacheState {
    pub directories: FollowedDirectories,
    pub paths: PathCache,
    pub recent: CreatedNames,
    /// Number of events and evictions.
    event_count: u64,
}

impl MetadataCacheState {
    /// An empty state. Of the cached opens `retained_max` are for created files.
    pub fn new(
        counters: &Arc<CacheCounters>,
        hasher: &KeyedBuildHasher,
        options: CacheOptions,
        retained_max: usize,
    ) -> Self {
        let CacheOptions { budget_bytes, directories_max, open_nodes_max } = options;
        let for_paths = budget_bytes / PATHS_PART;
        let for_names = budget_bytes - for_paths - for_listings(budget_bytes);
        Self {
            directories: FollowedDirectories::new(
                counters.clone(),
                hasher.clone(),
                for_names,
                directories_max,
            ),
            paths: PathCache::new(
                counters.clone(),
                hasher.clone(),
                for_paths,
                open_nodes_max - retained_max,
            ),
            recent: CreatedNames::new(hasher.clone(), for_paths, retained_max),
            event_count: 0,
        }
    }

    pub fn set_budget(&mut self, budget_bytes: usize) {
        let for_paths = budget_bytes / PATHS_PART;
        self.directories.set_budget(budget_bytes - for_paths - for_listings(budget_bytes));
        self.paths.set_budget(for_paths);
        self.recent.set_budget(for_paths);
        self.settle();
    }

    /// Applies an event of the feed.
    pub fn handle_change(&mut self, change: NameChange<'_>) {
        let gone = match change {
            NameChange::Added(directory, name)
            | NameChange::Attributes(directory, name)
            | NameChange::Removed(directory, name) => {
                self.directories.path_of(directory).map(|at| join(at, name))
            }
            NameChange::Ended(directory) | NameChange::Itself(directory) => {
                self.directories.path_of(directory).map(Into::into)
            }
            NameChange::Lost => Some(Box::default()),
        };
        if let Some(path) = gone {
            self.invalidate(&path);
        }
        self.event_count += 1;
        self.directories.handle_change(change);
        self.recent.handle_change(change);
        self.settle();
    }

    /// While this number is unchanged, followed names lead to the same nodes and no directory was
    /// unfollowed.
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// Invalidates everything.
    pub fn clear(&mut self) {
        self.invalidate(b"");
        self.directories.clear();
        self.recent.clear();
        self.settle();
    }

    /// Invalidates a path and everything below.
    pub fn invalidate(&mut self, path: &[u8]) {
        self.event_count += 1;
        for key in self.paths.invalidate(path) {
            self.directories.clear_path(key);
        }
    }

    /// Invalidates a path after a change by this process.
    pub fn invalidate_name(&mut self, path: &RelPath) {
        self.invalidate(path.as_bytes());
        if let Some((directory, name)) = self.followed_parent(path) {
            self.recent.remove(directory, name);
        }
    }

    /// Propagates evictions: without its directory a path is invalid, and without its path a
    /// directory has none.
    pub fn settle(&mut self) {
        while let Some(path) = self.directories.poll_lost_path() {
            self.invalidate(&path);
        }
        for key in self.paths.take_unfollowed() {
            // Events of a directory without a path will no longer be applied to paths.
            self.event_count += 1;
            self.directories.clear_path(key);
        }
    }

    /// Cached knowledge of the name at the end of `path`, if the caller is known to have search
    /// permission on its directory.
    pub fn cached_name(
        &mut self,
        parent_state: ParentState,
        path: &RelPath,
        any_case: bool,
    ) -> CachedName {
        let Some((_, name)) = split(path) else { return CachedName::Unknown };
        let ParentState { directory: Some(key), is_searcher: true } = parent_state else {
            return CachedName::Unknown;
        };
        match self.directories.find(key, name) {
            NameAnswer::Found(NameMatch::Absent) => CachedName::Absent,
            NameAnswer::Found(NameMatch::Other(_)) if !any_case => CachedName::Absent,
            NameAnswer::Found(NameMatch::Other(name)) => {
                let parent = path.parent().unwrap_or_default();
                CachedName::Spelt(parent.join(&name))
            }
            NameAnswer::Found(NameMatch::Exact) => CachedName::Exact,
            NameAnswer::Unread | NameAnswer::BeingRead | NameAnswer::TooMany => CachedName::Unknown,
        }
    }

    /// The path of a directory, if every change of it would be reported.
    pub fn path_of(&mut self, key: FileKey) -> Option<RelPath> {
        let path = self.directories.path_at(key)?;
        let is_so = self.paths.directory(path) == Some(key);
        let path = RelPath::of_bytes(path).filter(|_| is_so);
        self.directories.touch(key);
        path
    }

    /// The directory of a path, if it is followed, and the name in it.
    pub fn followed_parent<'a>(&self, path: &'a RelPath) -> Option<(FollowId, &'a [u8])> {
        let (parent, name) = split(path)?;
        let key = self.paths.directory(parent)?;
        Some((self.directories.follow_of(key)?, name))
    }

    /// The created file to which the path leads.
    pub fn created(&mut self, path: &RelPath) -> Option<&mut CreatedFile> {
        if self.recent.is_empty() {
            return None;
        }
        let (directory, name) = self.followed_parent(path)?;
        self.recent.find(directory, name)
    }

    /// Whether the path is known to lead to this node, and the node is a file. It was just created
    /// at the path, or is cached by it. The feed would have reported any change of the name.
    pub fn leads_to_file(&mut self, path: &RelPath, key: FileKey) -> bool {
        if self.created(path).is_some_and(|made| made.key == key) {
            return true;
        }
        let is_it = |facts: &PathFacts| {
            facts.attributes.key == key && facts.attributes.kind == FileKind::File
        };
        self.paths.facts(path.as_bytes()).is_some_and(is_it) && self.followed_parent(path).is_some()
    }

    /// As [`MetadataCacheState::created`], if `user` has created it and an open is retained.
    pub fn retained_created(&mut self, path: &RelPath, user: &Identity) -> Option<CreatedFile> {
        let made = self.created(path)?;
        let is_whose = made.retained.as_ref().is_some_and(|retained| retained.user == *user);
        is_whose.then(|| made.clone())
    }

    /// A cached directory with its facts. The feed would have reported any change of its
    /// permissions.
    pub fn cached_directory(
        &mut self,
        user: &Identity,
        path: &RelPath,
    ) -> Option<(Arc<dyn Node>, PathFacts)> {
        self.paths.directory(path.as_bytes())?;
        let found = self.paths.find(path.as_bytes(), user, false)?;
        self.touch_parent(path);
        Some(found)
    }

    /// Marks the directory of a path as used.
    pub fn touch_parent(&mut self, path: &RelPath) {
        if let Some(key) = self.paths.directory(parent_of(path)) {
            self.directories.touch(key);
        }
    }
}

/// The directory of a path and its last component; None for the root.
pub fn split(path: &RelPath) -> Option<(&[u8], &[u8])> {
    let bytes = path.as_bytes();
    if bytes.is_empty() {
        return None;
    }
    Some(match bytes.iter().rposition(|b| *b == b'/') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (&bytes[..0], bytes),
    })
}

/// The directory of a path; the root for the root itself.
pub fn parent_of(path: &RelPath) -> &[u8] {
    split(path).map_or(&b""[..], |(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::created_names::tests::FixedClock;
    use vfs::memory::{MemoryOptions, MemoryVfs};
    use vfs::{Actor, Attributes, OpenHow, Vfs, Wait};

    fn key(inode: u64) -> FileKey {
        FileKey { device: 1, inode }
    }

    fn follow(state: &mut MetadataCacheState, number: u64, path: &[u8]) {
        state.directories.handle_followed(key(number), FollowId(number));
        assert!(state.directories.set_path(key(number), path));
        state.paths.put_directory(path, key(number));
        state.settle();
    }

    #[test]
    fn unfollowing_a_directory_changes_the_event_count() {
        let options = CacheOptions { directories_max: 2, ..CacheOptions::default() };
        let mut state =
            MetadataCacheState::new(&Arc::default(), &KeyedBuildHasher::by(1), options, 0);
        follow(&mut state, 1, b"one");
        follow(&mut state, 2, b"two");
        let event_count = state.event_count();
        state.settle();
        assert_eq!(state.event_count(), event_count, "nothing has happened");
        follow(&mut state, 3, b"three");
        assert!(state.directories.poll_unfollow().is_some(), "one is too many");
        assert_ne!(state.event_count(), event_count);
        let event_count = state.event_count();
        state.clear();
        assert_ne!(state.event_count(), event_count);
    }

    fn attributes_of_root() -> Attributes {
        let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(FixedClock));
        let how = OpenHow::looking(Wait::Allowed);
        vfs.open(Actor::SUPERUSER, &RelPath::root(), how).unwrap().attributes
    }

    #[test]
    fn cached_name_leads_to_its_file_until_a_change_is_reported() {
        let path = |text: &str| RelPath::of_bytes(text.as_bytes()).unwrap();
        let cached = |kind| {
            let mut state = MetadataCacheState::new(
                &Arc::default(),
                &KeyedBuildHasher::by(1),
                CacheOptions::default(),
                0,
            );
            follow(&mut state, 1, b"");
            let attributes = Attributes { kind, key: key(7), ..attributes_of_root() };
            let security = state.paths.new_security();
            state.paths.put_facts(b"name", PathFacts { attributes, has_dos: false, security });
            state
        };
        assert!(cached(FileKind::File).leads_to_file(&path("name"), key(7)));
        assert!(!cached(FileKind::File).leads_to_file(&path("name"), key(8)), "another file");
        assert!(!cached(FileKind::File).leads_to_file(&path("other"), key(7)));
        assert!(!cached(FileKind::Directory).leads_to_file(&path("name"), key(7)));
        for change in [
            NameChange::Removed(FollowId(1), b"name"),
            NameChange::Added(FollowId(1), b"name"),
            NameChange::Lost,
        ] {
            let mut state = cached(FileKind::File);
            state.handle_change(change);
            assert!(!state.leads_to_file(&path("name"), key(7)), "{change:?}");
        }
    }
}
