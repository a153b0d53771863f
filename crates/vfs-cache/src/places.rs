//! What paths lead to: nodes that are kept open, and who may look for names where.
//!
//! A path is kept only while every directory on the way is followed and none of its
//! names is a symbolic link. So whatever changes where it leads, or who may go there,
//! is heard, and forgets it with all that lies below. Pure bookkeeping, as
//! [`crate::directories`].

use crate::counters::Counters;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vfs::{Attributes, FileKey, FileKind, Identity, KnownSecurity, Node, NodeHandle};

/// Bytes of a place beside its path: entries of tables and of the queue.
const PLACE_BYTES: usize = 512;
/// Bytes of a node that is kept, beside what it is opened as: table, node, descriptor.
const KEPT_BYTES: usize = 448;
/// Nodes that are kept of one path: for several users, or for reading and for looking.
const KEPT_PER_PLACE_MAX: usize = 4;
/// Users who are known to be let through a directory.
const SEARCHERS_MAX: usize = 8;
/// Paths of which it is remembered that they were asked for: one of several with one
/// number.
const SEEN_SLOTS: usize = 1 << 14;
/// Ticks that a node is kept without being used.
const IDLE_TICKS_MAX: u8 = 5;

/// A node that is kept open.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Whom the system let go there.
    pub who: Identity,
    /// It is open for reading data, or listing.
    pub reads: bool,
    pub node: Arc<dyn Node>,
}

/// What is known of the node that a path leads to.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When it was looked at; with DOS attributes, if they were asked for then.
    pub attributes: Attributes,
    pub has_dos: bool,
    pub security: Arc<KnownSecurity>,
}

impl Facts {
    /// Whether they are still true of a node with these attributes. Whatever is done
    /// to a directory that is followed is heard; any change of a file moves its time.
    pub fn are_of(&self, present: &Attributes) -> bool {
        self.attributes.key == present.key
            && present.links > 0
            && (present.kind == FileKind::Directory
                || (self.attributes.changed == present.changed
                    && self.attributes.change == present.change))
    }
}

#[derive(Debug)]
struct Held {
    kept: Kept,
    idle_ticks: u8,
}

/// A node that is kept for who knows it by its handle. Nothing else is known of it.
#[derive(Debug)]
struct Found {
    handle: NodeHandle,
    node: Arc<dyn Node>,
    idle_ticks: u8,
}

#[derive(Debug, Default)]
struct Place {
    /// Of a directory that is followed.
    directory: Option<FileKey>,
    facts: Option<Facts>,
    kept: Vec<Held>,
    /// What the path leads to, if somebody knows that by its handle.
    found: Option<Found>,
    /// Who was seen to be let through the directory.
    searchers: Vec<Identity>,
    was_used: bool,
    charged_bytes: usize,
}

/// A look at a path that is under way.
#[derive(Debug)]
struct Look {
    number: u64,
    path: Box<[u8]>,
    is_spoilt: bool,
}

/// All paths that are known.
#[derive(Debug)]
pub struct Places {
    counters: Arc<Counters>,
    budget_bytes: usize,
    kept_max: usize,
    by_path: BTreeMap<Box<[u8]>, Place>,
    /// The places that have something [`Found`].
    by_handle: HashMap<NodeHandle, Box<[u8]>>,
    /// Whose turn to be given up comes when; may name some that have gone.
    turns: VecDeque<Box<[u8]>>,
    looks: Vec<Look>,
    next_look: u64,
    kept_count: usize,
    bytes: usize,
    /// Of descriptors and lists that were asked for.
    security_bytes: Arc<AtomicUsize>,
    /// Closing may take long: not under the lock.
    closing: Vec<Arc<dyn Node>>,
    given_up: Vec<FileKey>,
    hasher: RandomState,
    /// By slot, the number of the path that was asked for last.
    seen: Box<[u32]>,
}

/// The path of a name in a directory.
pub fn join(directory: &[u8], name: &[u8]) -> Box<[u8]> {
    if directory.is_empty() { name.into() } else { [directory, b"/", name].concat().into() }
}

impl Places {
    pub fn new(counters: Arc<Counters>, budget_bytes: usize, kept_max: usize) -> Self {
        Self {
            counters,
            budget_bytes,
            kept_max,
            by_path: BTreeMap::new(),
            by_handle: HashMap::new(),
            turns: VecDeque::new(),
            looks: Vec::new(),
            next_look: 0,
            kept_count: 0,
            bytes: 0,
            security_bytes: Arc::default(),
            closing: Vec::new(),
            given_up: Vec::new(),
            hasher: RandomState::new(),
            seen: vec![0; SEEN_SLOTS].into(),
        }
    }

    /// Bytes that are taken.
    pub fn bytes(&self) -> usize {
        self.bytes + self.security_bytes.load(Ordering::Relaxed)
    }

    /// Security of which nothing is known yet.
    pub fn new_security(&self) -> Arc<KnownSecurity> {
        Arc::new(KnownSecurity::counted(self.security_bytes.clone()))
    }

    pub fn set_budget(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.make_room(0);
    }

    /// Nodes that are kept no longer, to be dropped where that may take long.
    pub fn take_closing(&mut self) -> Vec<Arc<dyn Node>> {
        std::mem::take(&mut self.closing)
    }

    /// The node that a path leads to for `who`, if one is kept that serves. Who
    /// reads has it alone: positions of reading ahead are the descriptor's.
    pub fn find(
        &mut self,
        path: &[u8],
        who: &Identity,
        reads: bool,
    ) -> Option<(Arc<dyn Node>, Facts)> {
        let place = self.by_path.get_mut(path)?;
        let serves = |held: &&mut Held| {
            held.kept.who == *who
                && (!reads || (held.kept.reads && Arc::strong_count(&held.kept.node) == 1))
        };
        let held = place.kept.iter_mut().find(serves)?;
        held.idle_ticks = 0;
        place.was_used = true;
        Some((held.kept.node.clone(), place.facts.clone()?))
    }

    /// Whether a path was asked for before, not too long ago: what is asked for once, as
    /// by who walks through all there is, is not worth keeping.
    pub fn is_seen_again(&mut self, path: &[u8]) -> bool {
        let number = self.hasher.hash_one(path);
        let slot = &mut self.seen[number as usize % SEEN_SLOTS];
        let short = (number >> 32) as u32;
        std::mem::replace(slot, short) == short
    }

    /// What is known of the node at a path.
    pub fn facts(&self, path: &[u8]) -> Option<&Facts> {
        self.by_path.get(path)?.facts.as_ref()
    }

    /// The directory at a path, if it is followed.
    pub fn directory(&self, path: &[u8]) -> Option<FileKey> {
        self.by_path.get(path)?.directory
    }

    /// Whether `who` was seen to be let through the directory at a path.
    pub fn is_searcher(&mut self, path: &[u8], who: &Identity) -> bool {
        let Some(place) = self.by_path.get_mut(path) else { return false };
        place.was_used = true;
        place.searchers.contains(who)
    }

    /// Somebody is about to look where a path leads.
    pub fn begin_look(&mut self, path: &[u8]) -> u64 {
        self.next_look += 1;
        let (number, path) = (self.next_look, path.into());
        self.looks.push(Look { number, path, is_spoilt: false });
        number
    }

    /// They have looked; whether nothing that matters has changed meanwhile.
    pub fn end_look(&mut self, number: u64) -> bool {
        let at = self.looks.iter().position(|look| look.number == number);
        at.is_some_and(|at| !self.looks.swap_remove(at).is_spoilt)
    }

    /// The directory at `path` is followed; those above it are.
    pub fn put_directory(&mut self, path: &[u8], key: FileKey) {
        self.entry(path).directory = Some(key);
        self.recharge(path);
    }

    /// Keeps what is known of the node at a path, if its directory is followed.
    pub fn put_facts(&mut self, path: &[u8], facts: Facts) {
        if self.has_parent(path) {
            self.entry(path).facts = Some(facts);
            self.recharge(path);
        }
    }

    /// Keeps a node of which something is known.
    pub fn keep(&mut self, path: &[u8], kept: Kept) {
        if self.facts(path).is_none() {
            return;
        }
        while self.kept_count >= self.kept_max && self.evict_one() {}
        let place = self.entry(path);
        let same = |held: &Held| held.kept.who == kept.who && held.kept.reads == kept.reads;
        if let Some(old) = place.kept.iter().position(same) {
            let old = place.kept.swap_remove(old);
            self.drop_held(vec![old]);
        }
        let place = self.entry(path);
        if place.kept.len() == KEPT_PER_PLACE_MAX {
            let old = place.kept.remove(0);
            self.drop_held(vec![old]);
        }
        self.entry(path).kept.push(Held { kept, idle_ticks: 0 });
        self.kept_count += 1;
        self.recharge(path);
    }

    /// The node of a handle and a path of it, if it is kept: while the path leads to it.
    pub fn find_by_handle(&mut self, handle: &NodeHandle) -> Option<(Arc<dyn Node>, &[u8])> {
        let path = self.by_handle.get(handle)?;
        let place = self.by_path.get_mut(path)?;
        let found = place.found.as_mut()?;
        found.idle_ticks = 0;
        place.was_used = true;
        Some((found.node.clone(), path))
    }

    /// Keeps the node that a path leads to for who knows it by its handle.
    pub fn keep_found(&mut self, path: &[u8], handle: &NodeHandle, node: &Arc<dyn Node>) {
        if !self.has_parent(path) {
            return;
        }
        while self.kept_count >= self.kept_max && self.evict_one() {}
        // Its only path so far, or one of several names.
        let before = self.by_handle.get(handle).cloned();
        [before.as_deref(), Some(path)].into_iter().flatten().for_each(|at| self.drop_found(at));
        let found = Found { handle: handle.clone(), node: node.clone(), idle_ticks: 0 };
        self.entry(path).found = Some(found);
        self.by_handle.insert(handle.clone(), path.into());
        self.kept_count += 1;
        self.recharge(path);
    }

    fn drop_found(&mut self, path: &[u8]) {
        let found = self.by_path.get_mut(path).and_then(|place| place.found.take());
        if let Some(found) = found {
            self.let_go(found);
            self.recharge(path);
        }
    }

    fn let_go(&mut self, found: Found) {
        self.by_handle.remove(&found.handle);
        self.kept_count -= 1;
        self.closing.push(found.node);
    }

    /// `who` was let through the directory at `path`.
    pub fn note_searcher(&mut self, path: &[u8], who: &Identity) {
        let Some(place) = self.by_path.get_mut(path) else { return };
        if place.directory.is_none() || place.searchers.contains(who) {
            return;
        }
        if place.searchers.len() == SEARCHERS_MAX {
            place.searchers.remove(0);
        }
        place.searchers.push(who.clone());
        self.recharge(path);
    }

    /// A path leads elsewhere, or others may go there: it and all below is forgotten.
    /// The directories among that.
    pub fn forget(&mut self, path: &[u8]) -> Vec<FileKey> {
        self.looks.iter_mut().for_each(|look| look.is_spoilt |= is_within(&look.path, path));
        let below = self
            .by_path
            .range::<[u8], _>((std::ops::Bound::Included(path), std::ops::Bound::Unbounded));
        // In byte order `a b` comes between `a` and `a/x`.
        let alike = below.take_while(|(at, _)| at.starts_with(path));
        let gone: Vec<Box<[u8]>> =
            alike.filter(|(at, _)| is_within(at, path)).map(|(at, _)| at.clone()).collect();
        if !gone.is_empty() {
            self.counters.handles.invalidated();
        }
        gone.iter().for_each(|path| self.remove(path));
        self.take_given_up()
    }

    /// Directories to which no known path leads any more.
    pub fn take_given_up(&mut self) -> Vec<FileKey> {
        std::mem::take(&mut self.given_up)
    }

    /// Time has passed: what was not used for long is given up.
    pub fn handle_tick(&mut self) {
        let mut idle = Vec::new();
        for place in self.by_path.values_mut().filter(|place| !place.kept.is_empty()) {
            place.kept.iter_mut().for_each(|held| held.idle_ticks += 1);
            idle.extend(place.kept.extract_if(.., |held| held.idle_ticks > IDLE_TICKS_MAX));
        }
        self.drop_held(idle);
        let mut idle = Vec::new();
        for place in self.by_path.values_mut() {
            let Some(found) = &mut place.found else { continue };
            found.idle_ticks += 1;
            idle.extend(place.found.take_if(|found| found.idle_ticks > IDLE_TICKS_MAX));
        }
        idle.into_iter().for_each(|found| self.let_go(found));
        let is_empty = |place: &Place| {
            let has_node = !place.kept.is_empty() || place.found.is_some();
            !has_node && place.facts.is_none() && place.directory.is_none()
        };
        let empty = self.by_path.iter().filter(|(_, place)| is_empty(place));
        let gone: Vec<Box<[u8]>> = empty.map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| self.remove(path));
    }

    /// A kept node turned out not to be what it was.
    pub fn drop_kept(&mut self, path: &[u8], node: &Arc<dyn Node>) {
        let Some(place) = self.by_path.get_mut(path) else { return };
        let same = |held: &mut Held| Arc::ptr_eq(&held.kept.node, node);
        let old: Vec<Held> = place.kept.extract_if(.., same).collect();
        self.drop_held(old);
        self.counters.handles.invalidated();
        self.recharge(path);
    }

    fn has_parent(&self, path: &[u8]) -> bool {
        // The root is its own.
        let end = path.iter().rposition(|b| *b == b'/').unwrap_or(0);
        self.directory(&path[..end]).is_some()
    }

    fn entry(&mut self, path: &[u8]) -> &mut Place {
        if !self.by_path.contains_key(path) {
            self.make_room(PLACE_BYTES + KEPT_BYTES + path.len());
            let place = Place { was_used: true, ..Place::default() };
            self.by_path.insert(path.into(), place);
            if self.turns.len() > 2 * self.by_path.len() + 64 {
                self.turns = self.by_path.keys().cloned().collect();
            } else {
                self.turns.push_back(path.into());
            }
            self.recharge(path);
        }
        self.by_path.get_mut(path).expect("it was put there")
    }

    fn recharge(&mut self, path: &[u8]) {
        let Some(place) = self.by_path.get_mut(path) else { return };
        let identity = |who: &Identity| size_of::<Identity>() + 4 * who.groups.len();
        let kept: usize = place.kept.iter().map(|h| KEPT_BYTES + identity(&h.kept.who)).sum();
        let searchers: usize = place.searchers.iter().map(identity).sum();
        let found = place
            .found
            .as_ref()
            .map_or(0, |found| KEPT_BYTES + 2 * found.handle.as_bytes().len() + path.len());
        let bytes = PLACE_BYTES + 2 * path.len() + kept + found + searchers;
        self.bytes = self.bytes - place.charged_bytes + bytes;
        place.charged_bytes = bytes;
    }

    fn make_room(&mut self, bytes: usize) {
        while self.bytes() + bytes > self.budget_bytes && self.evict_one() {}
    }

    /// Gives up one that was not used for longest, more or less: directories
    /// only while nothing below them is known.
    fn evict_one(&mut self) -> bool {
        for _ in 0..2 * self.turns.len() {
            let Some(path) = self.turns.pop_front() else { return false };
            let Some(place) = self.by_path.get_mut(&path) else { continue };
            let was_used = std::mem::take(&mut place.was_used);
            if was_used || (place.directory.is_some() && self.has_below(&path)) {
                self.turns.push_back(path);
                continue;
            }
            self.remove(&path);
            self.counters.handles.evicted();
            return true;
        }
        false
    }

    fn has_below(&self, path: &[u8]) -> bool {
        use std::ops::Bound::{Excluded, Unbounded};
        let first = if path.is_empty() { Vec::new() } else { [path, b"/"].concat() };
        let mut below = self.by_path.range::<[u8], _>((Excluded(&first[..]), Unbounded));
        below.next().is_some_and(|(at, _)| at.starts_with(&first))
    }

    fn remove(&mut self, path: &[u8]) {
        let Some(place) = self.by_path.remove(path) else { return };
        self.bytes -= place.charged_bytes;
        self.given_up.extend(place.directory);
        self.drop_held(place.kept);
        if let Some(found) = place.found {
            self.let_go(found);
        }
    }

    fn drop_held(&mut self, held: Vec<Held>) {
        self.kept_count -= held.len();
        self.closing.extend(held.into_iter().map(|held| held.kept.node));
    }
}

/// Whether a path is another one or lies below it.
fn is_within(path: &[u8], above: &[u8]) -> bool {
    above.is_empty()
        || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}
