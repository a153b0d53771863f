//! What paths lead to: nodes that are kept open, and who may look for names where.
//!
//! A path is kept only while every directory on the way is followed and none of its
//! names is a symbolic link. So whatever changes where it leads, or who may go there,
//! is heard, and forgets it with all that lies below. Pure bookkeeping, as
//! [`crate::directories`].

use crate::counters::Counters;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{
    Attributes, FileKey, FileKind, Identity, KeyedBuildHasher, Node, NodeHandle, NodeSecurityCache,
    SecurityCacheTotals,
};

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
/// So many nodes are kept in vain before fewer are: then one of so many that could be.
const VAIN_MAX: u8 = 64;
const ADMITTED_ONE_IN: u8 = 8;
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
    pub security: Arc<NodeSecurityCache>,
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
    was_found: bool,
}

/// Whether keeping nodes is of use: who opens more files in turns than can be kept finds
/// none of them again.
#[derive(Debug, Default)]
struct Usefulness {
    /// Nodes that were kept in vain of late.
    vain: u8,
    passed: u8,
}

impl Usefulness {
    /// A node that was kept was of use, for the first time.
    fn found(&mut self) {
        self.vain = self.vain.saturating_sub(VAIN_MAX / 8);
    }

    /// A node is not kept any more.
    fn ended(&mut self, held: &Held) {
        self.vain = (self.vain + u8::from(!held.was_found)).min(VAIN_MAX);
    }

    /// Whether one more is worth keeping.
    fn admits(&mut self) -> bool {
        self.passed = (self.passed + 1) % ADMITTED_ONE_IN;
        self.vain < VAIN_MAX || self.passed == 0
    }
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

/// What is known of a directory that a path leads through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    /// Which it is, if it is followed.
    pub directory: Option<FileKey>,
    /// The caller was seen to be let through it.
    pub is_searcher: bool,
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
    by_path: HashMap<Arc<[u8]>, Box<Place>, KeyedBuildHasher>,
    /// The same in order: what lies below a directory comes together.
    in_order: BTreeSet<Arc<[u8]>>,
    /// The places that have something [`Found`].
    by_handle: HashMap<NodeHandle, Arc<[u8]>, KeyedBuildHasher>,
    /// Whose turn to be given up comes when; may name some that have gone.
    turns: VecDeque<Arc<[u8]>>,
    looks: Vec<Look>,
    next_look: u64,
    kept_count: usize,
    usefulness: Usefulness,
    bytes: usize,
    /// Of descriptors, lists and streams that were asked for.
    known: Arc<SecurityCacheTotals>,
    /// Closing may take long: not under the lock.
    closing: Vec<Arc<dyn Node>>,
    given_up: Vec<FileKey>,
    hasher: KeyedBuildHasher,
    /// By slot, the number of the path that was asked for last.
    seen: Box<[u32]>,
}

/// The path of a name in a directory.
pub fn join(directory: &[u8], name: &[u8]) -> Box<[u8]> {
    if directory.is_empty() { name.into() } else { [directory, b"/", name].concat().into() }
}

impl Places {
    pub fn new(
        counters: Arc<Counters>,
        hasher: KeyedBuildHasher,
        budget_bytes: usize,
        kept_max: usize,
    ) -> Self {
        Self {
            counters,
            budget_bytes,
            kept_max,
            by_path: HashMap::with_hasher(hasher.clone()),
            in_order: BTreeSet::new(),
            by_handle: HashMap::with_hasher(hasher.clone()),
            turns: VecDeque::new(),
            looks: Vec::new(),
            next_look: 0,
            kept_count: 0,
            usefulness: Usefulness::default(),
            bytes: 0,
            known: Arc::default(),
            closing: Vec::new(),
            given_up: Vec::new(),
            hasher,
            seen: vec![0; SEEN_SLOTS].into(),
        }
    }

    /// Bytes that are taken.
    pub fn bytes(&self) -> usize {
        self.bytes + self.known.bytes.load(Ordering::Relaxed)
    }

    /// What descriptors, lists and streams come to that were asked for.
    pub fn known(&self) -> &SecurityCacheTotals {
        &self.known
    }

    /// Security of which nothing is known yet.
    pub fn new_security(&self) -> Arc<NodeSecurityCache> {
        Arc::new(NodeSecurityCache::counted(self.known.clone()))
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
        if !std::mem::replace(&mut held.was_found, true) {
            self.usefulness.found();
        }
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

    /// Whether keeping one more node is worth it.
    pub fn is_worth_keeping(&mut self) -> bool {
        self.usefulness.admits()
    }

    /// What is known of the node at a path.
    pub fn facts(&self, path: &[u8]) -> Option<&Facts> {
        self.by_path.get(path)?.facts.as_ref()
    }

    /// The directory at a path, if it is followed.
    pub fn directory(&self, path: &[u8]) -> Option<FileKey> {
        self.by_path.get(path)?.directory
    }

    /// What is known of the directory at a path, which is used by that, and of `who` in it.
    pub fn way(&mut self, path: &[u8], who: &Identity) -> Way {
        let Some(place) = self.by_path.get_mut(path) else { return Way::default() };
        place.was_used = true;
        Way { directory: place.directory, is_searcher: place.searchers.contains(who) }
    }

    /// What was known of the file at a path was not true of it any more: it is one that is written.
    pub fn note_changed(&mut self, path: &[u8]) {
        if let Some(facts) = self.by_path.get_mut(path).and_then(|place| place.facts.as_mut()) {
            facts.has_dos = false;
        }
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

    /// The directory at `path` is followed; kept if those above it are.
    pub fn put_directory(&mut self, path: &[u8], key: FileKey) {
        let place = if path.is_empty() { Some(self.entry(path)) } else { self.entry_below(path) };
        if let Some(place) = place {
            place.directory = Some(key);
            self.recharge(path);
        }
    }

    /// Keeps what is known of the node at a path, if its directory is followed. Nodes that were
    /// kept of another one, or of an earlier time of this one, are not: whom the system let go
    /// there it might refuse now.
    pub fn put_facts(&mut self, path: &[u8], facts: Facts) {
        let Some(place) = self.entry_below(path) else { return };
        let is_as_before = place.facts.as_ref().is_none_or(|old| old.are_of(&facts.attributes));
        let old = if is_as_before { Vec::new() } else { std::mem::take(&mut place.kept) };
        place.facts = Some(facts);
        self.drop_held(old);
        self.recharge(path);
    }

    /// Keeps a node of which something is known.
    pub fn keep(&mut self, path: &[u8], kept: Kept) {
        while self.kept_count >= self.kept_max && self.evict_one() {}
        if self.facts(path).is_none() {
            return;
        }
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
        self.entry(path).kept.push(Held { kept, idle_ticks: 0, was_found: false });
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
        while self.kept_count >= self.kept_max && self.evict_one() {}
        if self.entry_below(path).is_none() {
            return;
        }
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
        let is_known = match self.by_path.get(path) {
            // Below what is no directory that is followed nothing is known.
            Some(place) if place.directory.is_none() && !path.is_empty() => {
                self.remove(path);
                true
            }
            None if !path.is_empty() => false,
            _ => self.forget_directory(path),
        };
        if is_known {
            self.counters.handles.invalidated();
        }
        self.take_given_up()
    }

    /// Forgets a path and all below; whether there was something.
    fn forget_directory(&mut self, path: &[u8]) -> bool {
        use std::ops::Bound::{Included, Unbounded};
        let below = self.in_order.range::<[u8], _>((Included(path), Unbounded));
        // In byte order `a b` comes between `a` and `a/x`.
        let alike = below.take_while(|at| at.starts_with(path));
        let gone: Vec<Arc<[u8]>> = alike.filter(|at| is_within(at, path)).cloned().collect();
        gone.iter().for_each(|path| self.remove(path));
        !gone.is_empty()
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
        idle.iter().for_each(|held| self.usefulness.ended(held));
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
        let gone: Vec<Arc<[u8]>> = empty.map(|(path, _)| path.clone()).collect();
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

    /// The place of a path whose directory is followed, and not given up to make room.
    fn entry_below(&mut self, path: &[u8]) -> Option<&mut Place> {
        if !self.has_parent(path) {
            return None;
        }
        self.entry(path);
        if !self.has_parent(path) {
            self.remove(path);
        }
        self.by_path.get_mut(path).map(|place| &mut **place)
    }

    fn entry(&mut self, path: &[u8]) -> &mut Place {
        if !self.by_path.contains_key(path) {
            self.make_room(PLACE_BYTES + KEPT_BYTES + path.len());
            let place = Place { was_used: true, ..Place::default() };
            let shared: Arc<[u8]> = path.into();
            self.by_path.insert(shared.clone(), place.into());
            self.in_order.insert(shared.clone());
            if self.turns.len() > 2 * self.by_path.len() + 64 {
                self.turns = self.in_order.iter().cloned().collect();
            } else {
                self.turns.push_back(shared);
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
            let held = self.by_path.get(&path).into_iter().flat_map(|place| &place.kept);
            held.for_each(|held| self.usefulness.ended(held));
            self.remove(&path);
            self.counters.handles.evicted();
            return true;
        }
        false
    }

    fn has_below(&self, path: &[u8]) -> bool {
        use std::ops::Bound::{Excluded, Unbounded};
        let first = if path.is_empty() { Vec::new() } else { [path, b"/"].concat() };
        let mut below = self.in_order.range::<[u8], _>((Excluded(&first[..]), Unbounded));
        below.next().is_some_and(|at| at.starts_with(&first))
    }

    fn remove(&mut self, path: &[u8]) {
        let Some(place) = self.by_path.remove(path) else { return };
        self.in_order.remove(path);
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
