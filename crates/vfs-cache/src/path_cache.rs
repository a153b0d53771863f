//! Path cache: open nodes by path, and search permissions of directories.
//!
//! A path is cached only while every directory on it is followed and none of its names is a
//! symbolic link. So the feed reports each change of where it leads or who may walk it, and the
//! change invalidates everything below. Pure bookkeeping, as [`crate::directories`].

use crate::counters::CacheCounters;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{
    Attributes, FileKey, FileKind, Identity, KeyedBuildHasher, Node, NodeHandle, NodeSecurityCache,
    SecurityCacheTotals,
};

/// Bytes of an entry beside its path: table entries and its place in the queue.
const PATH_BYTES: usize = 512;
/// Bytes of a cached open beside its identity: table entry, node, descriptor.
const OPEN_BYTES: usize = 448;
/// Cached opens of one path: for several users, and with or without read access.
const OPENS_PER_PATH_MAX: usize = 4;
/// Users with known search permission on a directory.
const SEARCHERS_MAX: usize = 8;
/// Slots of recently requested paths; paths that share a slot replace each other.
const REPEAT_SLOTS: usize = 1 << 14;
/// Useless cached opens from which on only a sample of opens is cached.
const USELESS_MAX: u8 = 64;
const ADMITTED_ONE_IN: u8 = 8;
/// Longest life of an unused open in ticks.
const IDLE_TICKS_MAX: u8 = 5;

/// A cached open.
#[derive(Clone, Debug)]
pub struct CachedOpen {
    /// Identity that opened it.
    pub user: Identity,
    /// It is open for reading data or listing.
    pub reads: bool,
    pub node: Arc<dyn Node>,
}

/// Cached facts of the node at a path.
#[derive(Clone, Debug)]
pub struct PathFacts {
    /// Attributes at one moment; with DOS attributes if `has_dos`.
    pub attributes: Attributes,
    pub has_dos: bool,
    pub security: Arc<NodeSecurityCache>,
}

impl PathFacts {
    /// Whether the facts are valid for a node with these attributes. The feed reports every change
    /// of a followed directory; each change of a file changes its time.
    pub fn are_of(&self, present: &Attributes) -> bool {
        self.attributes.key == present.key
            && present.links > 0
            && (present.kind == FileKind::Directory
                || (self.attributes.changed == present.changed
                    && self.attributes.change == present.change))
    }
}

#[derive(Debug)]
struct CachedOpenEntry {
    cached: CachedOpen,
    idle_ticks: u8,
    was_found: bool,
}

/// Whether caching opens is useful: a client that cycles through more files than fit never gets a
/// hit.
#[derive(Debug, Default)]
struct Usefulness {
    /// Recently evicted opens without a use.
    useless: u8,
    passed: u8,
}

impl Usefulness {
    /// Notes the first use of a cached open.
    fn found(&mut self) {
        self.useless = self.useless.saturating_sub(USELESS_MAX / 8);
    }

    /// Notes the end of a cached open.
    fn ended(&mut self, entry: &CachedOpenEntry) {
        self.useless = (self.useless + u8::from(!entry.was_found)).min(USELESS_MAX);
    }

    /// Whether to cache one more open.
    fn admits(&mut self) -> bool {
        self.passed = (self.passed + 1) % ADMITTED_ONE_IN;
        self.useless < USELESS_MAX || self.passed == 0
    }
}

/// A cached node by its handle, without further facts.
#[derive(Debug)]
struct HandleEntry {
    handle: NodeHandle,
    node: Arc<dyn Node>,
    idle_ticks: u8,
}

#[derive(Debug, Default)]
struct PathEntry {
    /// Identity of a followed directory.
    directory: Option<FileKey>,
    facts: Option<PathFacts>,
    cached: Vec<CachedOpenEntry>,
    /// Node by handle, if a client uses one.
    found: Option<HandleEntry>,
    /// Users with known search permission on the directory.
    searchers: Vec<Identity>,
    was_used: bool,
    charged_bytes: usize,
}

/// Cached state of a path's directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParentState {
    /// Its identity, if it is followed.
    pub directory: Option<FileKey>,
    /// The caller is known to have search permission on it.
    pub is_searcher: bool,
}

/// A lookup of a path in progress.
#[derive(Debug)]
struct PendingLookup {
    number: u64,
    path: Box<[u8]>,
    is_void: bool,
}

/// All cached paths.
#[derive(Debug)]
pub struct PathCache {
    counters: Arc<CacheCounters>,
    budget_bytes: usize,
    opens_max: usize,
    by_path: HashMap<Arc<[u8]>, Box<PathEntry>, KeyedBuildHasher>,
    /// The same paths in order, so that a subtree is contiguous.
    sorted_paths: BTreeSet<Arc<[u8]>>,
    /// Paths with a [`HandleEntry`].
    by_handle: HashMap<NodeHandle, Arc<[u8]>, KeyedBuildHasher>,
    /// Eviction queue; it may contain dropped paths.
    turns: VecDeque<Arc<[u8]>>,
    looks: Vec<PendingLookup>,
    next_look: u64,
    open_count: usize,
    usefulness: Usefulness,
    bytes: usize,
    /// Totals of cached descriptors, lists and streams.
    known: Arc<SecurityCacheTotals>,
    /// Nodes to close outside the lock, since that may take long.
    closing: Vec<Arc<dyn Node>>,
    unfollowed: Vec<FileKey>,
    hasher: KeyedBuildHasher,
    /// Hash of the latest requested path, by slot.
    recent_requests: Box<[u32]>,
}

/// The path of a name in a directory.
pub fn join(directory: &[u8], name: &[u8]) -> Box<[u8]> {
    if directory.is_empty() { name.into() } else { [directory, b"/", name].concat().into() }
}

impl PathCache {
    pub fn new(
        counters: Arc<CacheCounters>,
        hasher: KeyedBuildHasher,
        budget_bytes: usize,
        opens_max: usize,
    ) -> Self {
        Self {
            counters,
            budget_bytes,
            opens_max,
            by_path: HashMap::with_hasher(hasher.clone()),
            sorted_paths: BTreeSet::new(),
            by_handle: HashMap::with_hasher(hasher.clone()),
            turns: VecDeque::new(),
            looks: Vec::new(),
            next_look: 0,
            open_count: 0,
            usefulness: Usefulness::default(),
            bytes: 0,
            known: Arc::default(),
            closing: Vec::new(),
            unfollowed: Vec::new(),
            hasher,
            recent_requests: vec![0; REPEAT_SLOTS].into(),
        }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes + self.known.bytes.load(Ordering::Relaxed)
    }

    /// Totals of cached descriptors, lists and streams.
    pub fn security_totals(&self) -> &SecurityCacheTotals {
        &self.known
    }

    /// An empty security cache for a node.
    pub fn new_security(&self) -> Arc<NodeSecurityCache> {
        Arc::new(NodeSecurityCache::counted(self.known.clone()))
    }

    pub fn set_budget(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.make_room(0);
    }

    /// Takes the nodes to close, which may take long.
    pub fn take_closing(&mut self) -> Vec<Arc<dyn Node>> {
        std::mem::take(&mut self.closing)
    }

    /// A cached open of a path for `user`. An open for reading is given to one caller at a time,
    /// because readahead positions belong to the descriptor.
    pub fn find(
        &mut self,
        path: &[u8],
        user: &Identity,
        reads: bool,
    ) -> Option<(Arc<dyn Node>, PathFacts)> {
        let place = self.by_path.get_mut(path)?;
        let serves = |entry: &&mut CachedOpenEntry| {
            entry.cached.user == *user
                && (!reads || (entry.cached.reads && Arc::strong_count(&entry.cached.node) == 1))
        };
        let entry = place.cached.iter_mut().find(serves)?;
        entry.idle_ticks = 0;
        if !std::mem::replace(&mut entry.was_found, true) {
            self.usefulness.found();
        }
        place.was_used = true;
        Some((entry.cached.node.clone(), place.facts.clone()?))
    }

    /// Whether the path was requested before, not too long ago. Paths requested once, as by a
    /// recursive walk, are not worth caching.
    pub fn is_repeated(&mut self, path: &[u8]) -> bool {
        let number = self.hasher.hash_one(path);
        let slot = &mut self.recent_requests[number as usize % REPEAT_SLOTS];
        let short = (number >> 32) as u32;
        std::mem::replace(slot, short) == short
    }

    /// Whether one more open is worth caching.
    pub fn is_worth_caching(&mut self) -> bool {
        self.usefulness.admits()
    }

    /// Cached facts of the node at a path.
    pub fn facts(&self, path: &[u8]) -> Option<&PathFacts> {
        self.by_path.get(path)?.facts.as_ref()
    }

    /// The directory at a path, if it is followed.
    pub fn directory(&self, path: &[u8]) -> Option<FileKey> {
        self.by_path.get(path)?.directory
    }

    /// Cached state of the directory at a path, for `user`; counts as a use.
    pub fn parent_state(&mut self, path: &[u8], user: &Identity) -> ParentState {
        let Some(place) = self.by_path.get_mut(path) else { return ParentState::default() };
        place.was_used = true;
        ParentState { directory: place.directory, is_searcher: place.searchers.contains(user) }
    }

    /// Notes that cached facts of a file were stale: it is being written.
    pub fn note_changed(&mut self, path: &[u8]) {
        if let Some(facts) = self.by_path.get_mut(path).and_then(|place| place.facts.as_mut()) {
            facts.has_dos = false;
        }
    }

    /// Begins a lookup of a path.
    pub fn begin_lookup(&mut self, path: &[u8]) -> u64 {
        self.next_look += 1;
        let (number, path) = (self.next_look, path.into());
        self.looks.push(PendingLookup { number, path, is_void: false });
        number
    }

    /// Ends a lookup. Returns whether no relevant change intervened.
    pub fn end_lookup(&mut self, number: u64) -> bool {
        let at = self.looks.iter().position(|look| look.number == number);
        at.is_some_and(|at| !self.looks.swap_remove(at).is_void)
    }

    /// Adds a followed directory, if its parent is followed.
    pub fn put_directory(&mut self, path: &[u8], key: FileKey) {
        let place = if path.is_empty() { Some(self.entry(path)) } else { self.entry_below(path) };
        if let Some(place) = place {
            place.directory = Some(key);
            self.recharge(path);
        }
    }

    /// Stores the facts of the node at a path, if its directory is followed. Drops opens of another
    /// node, or of older facts: the system might now refuse their users.
    pub fn put_facts(&mut self, path: &[u8], facts: PathFacts) {
        let Some(place) = self.entry_below(path) else { return };
        let is_as_before = place.facts.as_ref().is_none_or(|old| old.are_of(&facts.attributes));
        let old = if is_as_before { Vec::new() } else { std::mem::take(&mut place.cached) };
        place.facts = Some(facts);
        self.close_entries(old);
        self.recharge(path);
    }

    /// Caches an open of a path with facts.
    pub fn cache_open(&mut self, path: &[u8], cached: CachedOpen) {
        while self.open_count >= self.opens_max && self.evict_one() {}
        if self.facts(path).is_none() {
            return;
        }
        let place = self.entry(path);
        let same = |entry: &CachedOpenEntry| {
            entry.cached.user == cached.user && entry.cached.reads == cached.reads
        };
        if let Some(old) = place.cached.iter().position(same) {
            let old = place.cached.swap_remove(old);
            self.close_entries(vec![old]);
        }
        let place = self.entry(path);
        if place.cached.len() == OPENS_PER_PATH_MAX {
            let old = place.cached.remove(0);
            self.close_entries(vec![old]);
        }
        self.entry(path).cached.push(CachedOpenEntry { cached, idle_ticks: 0, was_found: false });
        self.open_count += 1;
        self.recharge(path);
    }

    /// The node of a handle with its path, while the path leads to it.
    pub fn find_by_handle(&mut self, handle: &NodeHandle) -> Option<(Arc<dyn Node>, &[u8])> {
        let path = self.by_handle.get(handle)?;
        let place = self.by_path.get_mut(path)?;
        let found = place.found.as_mut()?;
        found.idle_ticks = 0;
        place.was_used = true;
        Some((found.node.clone(), path))
    }

    /// Caches the node at a path by its handle.
    pub fn cache_handle(&mut self, path: &[u8], handle: &NodeHandle, node: &Arc<dyn Node>) {
        while self.open_count >= self.opens_max && self.evict_one() {}
        if self.entry_below(path).is_none() {
            return;
        }
        // The handle's earlier path, which is another hard link, and the path's earlier handle.
        let before = self.by_handle.get(handle).cloned();
        [before.as_deref(), Some(path)]
            .into_iter()
            .flatten()
            .for_each(|at| self.drop_handle_entry(at));
        let found = HandleEntry { handle: handle.clone(), node: node.clone(), idle_ticks: 0 };
        self.entry(path).found = Some(found);
        self.by_handle.insert(handle.clone(), path.into());
        self.open_count += 1;
        self.recharge(path);
    }

    fn drop_handle_entry(&mut self, path: &[u8]) {
        let found = self.by_path.get_mut(path).and_then(|place| place.found.take());
        if let Some(found) = found {
            self.close_handle_entry(found);
            self.recharge(path);
        }
    }

    fn close_handle_entry(&mut self, found: HandleEntry) {
        self.by_handle.remove(&found.handle);
        self.open_count -= 1;
        self.closing.push(found.node);
    }

    /// Notes that `user` has search permission on the directory.
    pub fn note_searcher(&mut self, path: &[u8], user: &Identity) {
        let Some(place) = self.by_path.get_mut(path) else { return };
        if place.directory.is_none() || place.searchers.contains(user) {
            return;
        }
        if place.searchers.len() == SEARCHERS_MAX {
            place.searchers.remove(0);
        }
        place.searchers.push(user.clone());
        self.recharge(path);
    }

    /// Invalidates a path with everything below it, because it leads elsewhere or its permissions
    /// changed. Returns the directories among that.
    pub fn invalidate(&mut self, path: &[u8]) -> Vec<FileKey> {
        self.looks.iter_mut().for_each(|look| look.is_void |= is_within(&look.path, path));
        let is_known = match self.by_path.get(path) {
            // Without a followed directory nothing is cached below.
            Some(place) if place.directory.is_none() && !path.is_empty() => {
                self.remove(path);
                true
            }
            None if !path.is_empty() => false,
            _ => self.invalidate_subtree(path),
        };
        if is_known {
            self.counters.handles.invalidated();
        }
        self.take_unfollowed()
    }

    /// Invalidates a path and everything below. Returns whether anything was cached.
    fn invalidate_subtree(&mut self, path: &[u8]) -> bool {
        use std::ops::Bound::{Included, Unbounded};
        let below = self.sorted_paths.range::<[u8], _>((Included(path), Unbounded));
        // In byte order `a b` comes between `a` and `a/x`.
        let alike = below.take_while(|at| at.starts_with(path));
        let gone: Vec<Arc<[u8]>> = alike.filter(|at| is_within(at, path)).cloned().collect();
        gone.iter().for_each(|path| self.remove(path));
        !gone.is_empty()
    }

    /// Takes directories to which no cached path leads any more.
    pub fn take_unfollowed(&mut self) -> Vec<FileKey> {
        std::mem::take(&mut self.unfollowed)
    }

    /// Ages all entries by one tick, and drops unused ones.
    pub fn handle_tick(&mut self) {
        let mut idle = Vec::new();
        for place in self.by_path.values_mut().filter(|place| !place.cached.is_empty()) {
            place.cached.iter_mut().for_each(|entry| entry.idle_ticks += 1);
            idle.extend(place.cached.extract_if(.., |entry| entry.idle_ticks > IDLE_TICKS_MAX));
        }
        idle.iter().for_each(|entry| self.usefulness.ended(entry));
        self.close_entries(idle);
        let mut idle = Vec::new();
        for place in self.by_path.values_mut() {
            let Some(found) = &mut place.found else { continue };
            found.idle_ticks += 1;
            idle.extend(place.found.take_if(|found| found.idle_ticks > IDLE_TICKS_MAX));
        }
        idle.into_iter().for_each(|found| self.close_handle_entry(found));
        let is_empty = |place: &PathEntry| {
            let has_node = !place.cached.is_empty() || place.found.is_some();
            !has_node && place.facts.is_none() && place.directory.is_none()
        };
        let empty = self.by_path.iter().filter(|(_, place)| is_empty(place));
        let gone: Vec<Arc<[u8]>> = empty.map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| self.remove(path));
    }

    /// Drops a cached open that is stale.
    pub fn drop_open(&mut self, path: &[u8], node: &Arc<dyn Node>) {
        let Some(place) = self.by_path.get_mut(path) else { return };
        let same = |entry: &mut CachedOpenEntry| Arc::ptr_eq(&entry.cached.node, node);
        let old: Vec<CachedOpenEntry> = place.cached.extract_if(.., same).collect();
        self.close_entries(old);
        self.counters.handles.invalidated();
        self.recharge(path);
    }

    fn has_parent(&self, path: &[u8]) -> bool {
        // The root is its own parent.
        let end = path.iter().rposition(|b| *b == b'/').unwrap_or(0);
        self.directory(&path[..end]).is_some()
    }

    /// Entry of a path whose directory is followed and was not evicted to make room.
    fn entry_below(&mut self, path: &[u8]) -> Option<&mut PathEntry> {
        if !self.has_parent(path) {
            return None;
        }
        self.entry(path);
        if !self.has_parent(path) {
            self.remove(path);
        }
        self.by_path.get_mut(path).map(|place| &mut **place)
    }

    fn entry(&mut self, path: &[u8]) -> &mut PathEntry {
        if !self.by_path.contains_key(path) {
            self.make_room(PATH_BYTES + OPEN_BYTES + path.len());
            let place = PathEntry { was_used: true, ..PathEntry::default() };
            let shared: Arc<[u8]> = path.into();
            self.by_path.insert(shared.clone(), place.into());
            self.sorted_paths.insert(shared.clone());
            if self.turns.len() > 2 * self.by_path.len() + 64 {
                self.turns = self.sorted_paths.iter().cloned().collect();
            } else {
                self.turns.push_back(shared);
            }
            self.recharge(path);
        }
        self.by_path.get_mut(path).expect("it was put there")
    }

    fn recharge(&mut self, path: &[u8]) {
        let Some(place) = self.by_path.get_mut(path) else { return };
        let identity = |user: &Identity| size_of::<Identity>() + 4 * user.groups.len();
        let cached: usize =
            place.cached.iter().map(|h| OPEN_BYTES + identity(&h.cached.user)).sum();
        let searchers: usize = place.searchers.iter().map(identity).sum();
        let found = place
            .found
            .as_ref()
            .map_or(0, |found| OPEN_BYTES + 2 * found.handle.as_bytes().len() + path.len());
        let bytes = PATH_BYTES + 2 * path.len() + cached + found + searchers;
        self.bytes = self.bytes - place.charged_bytes + bytes;
        place.charged_bytes = bytes;
    }

    fn make_room(&mut self, bytes: usize) {
        while self.bytes() + bytes > self.budget_bytes && self.evict_one() {}
    }

    /// Evicts an approximately least recently used entry; a directory only if nothing below it is
    /// cached.
    fn evict_one(&mut self) -> bool {
        for _ in 0..2 * self.turns.len() {
            let Some(path) = self.turns.pop_front() else { return false };
            let Some(place) = self.by_path.get_mut(&path) else { continue };
            let was_used = std::mem::take(&mut place.was_used);
            if was_used || (place.directory.is_some() && self.has_below(&path)) {
                self.turns.push_back(path);
                continue;
            }
            let entry = self.by_path.get(&path).into_iter().flat_map(|place| &place.cached);
            entry.for_each(|entry| self.usefulness.ended(entry));
            self.remove(&path);
            self.counters.handles.evicted();
            return true;
        }
        false
    }

    fn has_below(&self, path: &[u8]) -> bool {
        use std::ops::Bound::{Excluded, Unbounded};
        let first = if path.is_empty() { Vec::new() } else { [path, b"/"].concat() };
        let mut below = self.sorted_paths.range::<[u8], _>((Excluded(&first[..]), Unbounded));
        below.next().is_some_and(|at| at.starts_with(&first))
    }

    fn remove(&mut self, path: &[u8]) {
        let Some(place) = self.by_path.remove(path) else { return };
        self.sorted_paths.remove(path);
        self.bytes -= place.charged_bytes;
        self.unfollowed.extend(place.directory);
        self.close_entries(place.cached);
        if let Some(found) = place.found {
            self.close_handle_entry(found);
        }
    }

    fn close_entries(&mut self, entry: Vec<CachedOpenEntry>) {
        self.open_count -= entry.len();
        self.closing.extend(entry.into_iter().map(|entry| entry.cached.node));
    }
}

/// Whether a path is `above` or lies below it.
fn is_within(path: &[u8], above: &[u8]) -> bool {
    above.is_empty()
        || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}
