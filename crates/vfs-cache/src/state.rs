//! All that is known: directories with their names, and places.

use crate::counters::Counters;
use crate::directories::{Answer, Directories};
use crate::index::Spelling;
use crate::places::{Facts, Places, Way, join};
use crate::recent::{Made, Recent};
use crate::tree::CacheOptions;
use std::sync::Arc;
use vfs::{FileKey, FileKind, FollowId, Identity, KeyedBuildHasher, NameChange, Node, RelPath};

/// Of the budget, what places may take: one part in four, and as much what is listed.
const PLACES_PART: usize = 4;

/// Of the budget, what listings may take.
pub fn for_listings(budget_bytes: usize) -> usize {
    budget_bytes / PLACES_PART
}

/// What is known of a name before anybody is asked.
pub enum Foreknown {
    /// It is not there, and the caller may know that.
    Absent,
    /// It is spelt like this.
    As(RelPath),
    /// It is there as it was asked for.
    There,
    Nothing,
}

/// All that is known.
#[derive(Debug)]
pub struct State {
    pub directories: Directories,
    pub places: Places,
    pub recent: Recent,
    /// How often something was told or given up.
    told: u64,
}

impl State {
    /// Nothing is known. Of the nodes that may be kept open so many are for what was just made.
    pub fn new(
        counters: &Arc<Counters>,
        hasher: &KeyedBuildHasher,
        options: CacheOptions,
        keepsakes_max: usize,
    ) -> Self {
        let CacheOptions { budget_bytes, directories_max, kept_max } = options;
        let for_places = budget_bytes / PLACES_PART;
        let for_names = budget_bytes - for_places - for_listings(budget_bytes);
        Self {
            directories: Directories::new(
                counters.clone(),
                hasher.clone(),
                for_names,
                directories_max,
            ),
            places: Places::new(
                counters.clone(),
                hasher.clone(),
                for_places,
                kept_max - keepsakes_max,
            ),
            recent: Recent::new(hasher.clone(), for_places, keepsakes_max),
            told: 0,
        }
    }

    pub fn set_budget(&mut self, budget_bytes: usize) {
        let for_places = budget_bytes / PLACES_PART;
        self.directories.set_budget(budget_bytes - for_places - for_listings(budget_bytes));
        self.places.set_budget(for_places);
        self.recent.set_budget(for_places);
        self.settle();
    }

    /// Something happened.
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
            self.forget(&path);
        }
        self.told += 1;
        self.directories.handle_change(change);
        self.recent.handle_change(change);
        self.settle();
    }

    /// As long as this number stays, so does what followed names lead to, and what is followed.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.forget(b"");
        self.directories.clear();
        self.recent.clear();
        self.settle();
    }

    /// Forgets a path and all below.
    pub fn forget(&mut self, path: &[u8]) {
        self.told += 1;
        for key in self.places.forget(path) {
            self.directories.clear_path(key);
        }
    }

    /// What this process has done to a path itself: it leads elsewhere.
    pub fn forget_name(&mut self, path: &RelPath) {
        self.forget(path.as_bytes());
        if let Some((directory, name)) = self.followed_parent(path) {
            self.recent.forget(directory, name);
        }
    }

    /// Directories that were given up take the places below with them.
    pub fn settle(&mut self) {
        while let Some(path) = self.directories.poll_lost_path() {
            self.forget(&path);
        }
        for key in self.places.take_given_up() {
            // What is no longer followed by its path is told of no more, by and by.
            self.told += 1;
            self.directories.clear_path(key);
        }
    }

    /// What is known of the name at the end of `path`, if the caller is known to be let
    /// through its directory.
    pub fn foreknown(&mut self, way: Way, path: &RelPath, any_case: bool) -> Foreknown {
        let Some((_, name)) = split(path) else { return Foreknown::Nothing };
        let Way { directory: Some(key), is_searcher: true } = way else {
            return Foreknown::Nothing;
        };
        match self.directories.find(key, name) {
            Answer::Found(Spelling::Absent) => Foreknown::Absent,
            Answer::Found(Spelling::Other(_)) if !any_case => Foreknown::Absent,
            Answer::Found(Spelling::Other(name)) => {
                let parent = path.parent().unwrap_or_default();
                Foreknown::As(parent.join(&name))
            }
            Answer::Found(Spelling::Exact) => Foreknown::There,
            Answer::Unread | Answer::BeingRead | Answer::TooMany => Foreknown::Nothing,
        }
    }

    /// Where a directory is, if that cannot change unheard.
    pub fn path_of(&mut self, key: FileKey) -> Option<RelPath> {
        let path = self.directories.path_at(key)?;
        let is_so = self.places.directory(path) == Some(key);
        let path = RelPath::of_bytes(path).filter(|_| is_so);
        self.directories.touch(key);
        path
    }

    /// The directory that a path is in, if it is followed, and the name in it.
    pub fn followed_parent<'a>(&self, path: &'a RelPath) -> Option<(FollowId, &'a [u8])> {
        let (parent, name) = split(path)?;
        let key = self.places.directory(parent)?;
        Some((self.directories.follow_of(key)?, name))
    }

    /// What was made by this path a moment ago, if that is what it leads to.
    pub fn made(&mut self, path: &RelPath) -> Option<&mut Made> {
        if self.recent.is_empty() {
            return None;
        }
        let (directory, name) = self.followed_parent(path)?;
        self.recent.find(directory, name)
    }

    /// Whether the path is known to lead to this node, which is a file: it was created by this path a
    /// moment ago, or is cached by it. Every change of the name would have been reported.
    pub fn leads_to_file(&mut self, path: &RelPath, key: FileKey) -> bool {
        if self.made(path).is_some_and(|made| made.key == key) {
            return true;
        }
        let is_it =
            |facts: &Facts| facts.attributes.key == key && facts.attributes.kind == FileKind::File;
        self.places.facts(path.as_bytes()).is_some_and(is_it)
            && self.followed_parent(path).is_some()
    }

    /// The same, if `who` has made it and it is kept open.
    pub fn kept_made(&mut self, path: &RelPath, who: &Identity) -> Option<Made> {
        let made = self.made(path)?;
        let is_whose = made.keepsake.as_ref().is_some_and(|keepsake| keepsake.who == *who);
        is_whose.then(|| made.clone())
    }

    /// A directory that is kept, with what was known of it then. Whatever was done to its
    /// permissions would have been heard.
    pub fn kept_directory(
        &mut self,
        who: &Identity,
        path: &RelPath,
    ) -> Option<(Arc<dyn Node>, Facts)> {
        self.places.directory(path.as_bytes())?;
        let found = self.places.find(path.as_bytes(), who, false)?;
        self.touch_parent(path);
        Some(found)
    }

    /// What leads to the node at a path was used.
    pub fn touch_parent(&mut self, path: &RelPath) {
        if let Some(key) = self.places.directory(parent_of(path)) {
            self.directories.touch(key);
        }
    }
}

/// The directory that a path is in, and its last component; none for the root.
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

/// The directory that a path is in; of the root, which none would tell of, the root itself.
pub fn parent_of(path: &RelPath) -> &[u8] {
    split(path).map_or(&b""[..], |(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::{MemoryOptions, MemoryVfs, Surroundings};
    use vfs::{Actor, Attributes, OpenHow, Timestamp, Vfs, Wait};

    fn key(inode: u64) -> FileKey {
        FileKey { device: 1, inode }
    }

    fn follow(state: &mut State, number: u64, path: &[u8]) {
        state.directories.handle_followed(key(number), FollowId(number));
        assert!(state.directories.set_path(key(number), path));
        state.places.put_directory(path, key(number));
        state.settle();
    }

    #[test]
    fn that_a_directory_is_followed_no_longer_is_seen_by_the_number() {
        let options = CacheOptions { directories_max: 2, ..CacheOptions::default() };
        let mut state = State::new(&Arc::default(), &KeyedBuildHasher::by(1), options, 0);
        follow(&mut state, 1, b"one");
        follow(&mut state, 2, b"two");
        let told = state.told();
        state.settle();
        assert_eq!(state.told(), told, "nothing has happened");
        follow(&mut state, 3, b"three");
        assert!(state.directories.poll_unfollow().is_some(), "one is too many");
        assert_ne!(state.told(), told);
        let told = state.told();
        state.clear();
        assert_ne!(state.told(), told);
    }

    fn attributes_of_root() -> Attributes {
        #[derive(Debug)]
        struct Always;
        impl Surroundings for Always {
            fn now(&self) -> Timestamp {
                Timestamp(1)
            }
        }
        let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(Always));
        let how = OpenHow::looking(Wait::Allowed);
        vfs.open(Actor::SUPERUSER, &RelPath::root(), how).unwrap().attributes
    }

    #[test]
    fn cached_name_leads_to_its_file_until_a_change_is_reported() {
        let path = |text: &str| RelPath::of_bytes(text.as_bytes()).unwrap();
        let cached = |kind| {
            let mut state =
                State::new(&Arc::default(), &KeyedBuildHasher::by(1), CacheOptions::default(), 0);
            follow(&mut state, 1, b"");
            let attributes = Attributes { kind, key: key(7), ..attributes_of_root() };
            let security = state.places.new_security();
            state.places.put_facts(b"name", Facts { attributes, has_dos: false, security });
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
