//! Names that were made by this process a moment ago, and which file each leads to: most of what
//! is made is looked at, listed or removed at once, and its maker knows what it is.
//!
//! A name is known while nothing is told of it in its directory, which is followed: so it leads to
//! the very file that was made, as of the latest draining. That it was made is told, too: then
//! exactly one addition comes between the beginning and the draining after the end, and any more
//! are somebody else's. Pure bookkeeping, as [`crate::directories`].

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, Weak};
use vfs::{
    FileKey, FollowId, Identity, KeyedBuildHasher, NameChange, Node, NodeHandle, OpenedNode,
    Timestamp,
};

/// Most names that are known.
const NAMES_MAX: usize = 8192;
/// Of the budget, bytes for each of them: less is taken by it, with what it keeps of the node.
const NAME_BYTES: usize = 4 * 1024;
/// Slots that a name may be in.
const WAYS: usize = 4;
/// Longer names are not kept.
const NAME_LENGTH_MAX: usize = 128;
/// Ticks that a name is known for: what is looked at later may have to be read from a disk.
const TICKS_MAX: u8 = 3;

/// A file that was made.
#[derive(Clone, Debug)]
pub struct Made {
    pub key: FileKey,
    pub born: Option<Timestamp>,
    /// What it is called for longer, once somebody has asked for that.
    pub handle: Option<NodeHandle>,
    /// As it was opened by its maker: nothing else is at that address while this is there.
    node: Weak<dyn Node>,
    pub keepsake: Option<Keepsake>,
}

/// A file that was made, kept open for looking where it would take long to be found again.
#[derive(Clone, Debug)]
pub struct Keepsake {
    /// Who made it.
    pub who: Identity,
    pub node: Arc<dyn Node>,
}

impl Made {
    fn of(opened: &OpenedNode, keepsake: Option<Keepsake>) -> Self {
        let (key, born) = (opened.attributes.key, opened.attributes.born);
        Self { key, born, handle: None, node: Arc::downgrade(&opened.node), keepsake }
    }

    /// Whether it was opened as this when it was made.
    pub fn was_opened_as(&self, node: &dyn Node) -> bool {
        std::ptr::addr_eq(self.node.as_ptr(), node)
    }
}

#[derive(Debug)]
struct Entry {
    directory: FollowId,
    name: Box<[u8]>,
    made: Made,
    /// Of its making: they grow.
    number: u64,
    ticks: u8,
}

/// A name that is being made.
#[derive(Debug)]
struct Making {
    number: u64,
    directory: FollowId,
    name: Box<[u8]>,
    additions: u32,
    is_spoilt: bool,
}

/// The names that are known. Where all its slots are taken, a name takes that of the oldest.
#[derive(Debug)]
pub struct Recent {
    hasher: KeyedBuildHasher,
    /// Made room for with the first name.
    slots: Vec<Option<Box<Entry>>>,
    slots_max: usize,
    makings: Vec<Making>,
    next_making: u64,
    count: usize,
    /// The latest names that were made with a keepsake have it: at most so many.
    keepsakes_max: usize,
    /// The slots of these.
    with_keepsake: VecDeque<usize>,
    /// Closing may take long: not under the lock.
    closing: Vec<Arc<dyn Node>>,
}

impl Recent {
    /// Nothing is known. So many keepsakes are had at once, of names for which there is room.
    pub fn new(hasher: KeyedBuildHasher, budget_bytes: usize, keepsakes_max: usize) -> Self {
        Self {
            hasher,
            slots: Vec::new(),
            slots_max: slots_for(budget_bytes),
            makings: Vec::new(),
            next_making: 0,
            count: 0,
            keepsakes_max,
            with_keepsake: VecDeque::new(),
            closing: Vec::new(),
        }
    }

    /// Keepsakes that are given up, to be dropped where that may take long.
    pub fn take_closing(&mut self) -> Vec<Arc<dyn Node>> {
        std::mem::take(&mut self.closing)
    }

    /// Takes another budget; what is known is forgotten.
    pub fn set_budget(&mut self, budget_bytes: usize) {
        self.clear();
        self.slots_max = slots_for(budget_bytes);
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets all names.
    pub fn clear(&mut self) {
        (0..self.slots.len()).for_each(|slot| self.empty(slot));
        self.slots = Vec::new();
        self.with_keepsake.clear();
        self.makings.iter_mut().for_each(|making| making.is_spoilt = true);
    }

    /// A name is about to be made; none if it would not be kept.
    pub fn begin(&mut self, directory: FollowId, name: &[u8]) -> Option<u64> {
        if name.len() > NAME_LENGTH_MAX || self.slots_max == 0 {
            return None;
        }
        self.next_making += 1;
        let (number, name) = (self.next_making, name.into());
        self.makings.push(Making { number, directory, name, additions: 0, is_spoilt: false });
        Some(number)
    }

    /// It was made, or not; all that was done since has been told.
    pub fn end(&mut self, number: u64, opened: Option<&OpenedNode>, keepsake: Option<Keepsake>) {
        let Some(at) = self.makings.iter().position(|making| making.number == number) else {
            return;
        };
        let Making { number, directory, name, additions, is_spoilt } = self.makings.swap_remove(at);
        let Some(opened) = opened.filter(|_| additions == 1 && !is_spoilt) else { return };
        if self.slots.is_empty() {
            self.slots.resize_with(self.slots_max, || None);
        }
        let slot = self.slot_for(directory, &name);
        self.empty(slot);
        let keepsake = keepsake.filter(|_| self.keepsakes_max > 0);
        if keepsake.is_some() {
            self.make_room_for_keepsake();
            self.with_keepsake.push_back(slot);
        }
        let made = Made::of(opened, keepsake);
        self.slots[slot] = Some(Entry { directory, name, made, number, ticks: 0 }.into());
        self.count += 1;
    }

    fn make_room_for_keepsake(&mut self) {
        while self.with_keepsake.len() >= self.keepsakes_max {
            // The name may be another one by now, which then goes without one earlier.
            let Some(slot) = self.with_keepsake.pop_front() else { return };
            let entry = self.slots.get_mut(slot).and_then(Option::as_mut);
            let keepsake = entry.and_then(|entry| entry.made.keepsake.take());
            self.closing.extend(keepsake.map(|keepsake| keepsake.node));
        }
    }

    fn empty(&mut self, slot: usize) {
        let Some(entry) = self.slots[slot].take() else { return };
        self.count -= 1;
        self.closing.extend(entry.made.keepsake.map(|keepsake| keepsake.node));
    }

    /// What a name leads to, as of what was told last.
    pub fn find(&mut self, directory: FollowId, name: &[u8]) -> Option<&mut Made> {
        let slot = self.slot_of(directory, name)?;
        self.slots[slot].as_mut().map(|entry| &mut entry.made)
    }

    /// Something happened.
    pub fn handle_change(&mut self, change: NameChange<'_>) {
        match change {
            NameChange::Added(directory, name) => {
                self.makings_of(directory, name).for_each(|making| making.additions += 1);
                self.forget(directory, name);
            }
            NameChange::Removed(directory, name) => {
                self.makings_of(directory, name).for_each(|making| making.is_spoilt = true);
                self.forget(directory, name);
            }
            // Numbers of directories are never given again: nobody finds what is in this one.
            NameChange::Ended(directory) => {
                let within = |making: &&mut Making| making.directory == directory;
                self.makings.iter_mut().filter(within).for_each(|making| making.is_spoilt = true);
            }
            NameChange::Lost => self.clear(),
            // Neither what the name leads to nor what that is called changes by these.
            NameChange::Attributes(..) | NameChange::Itself(_) => {}
        }
    }

    /// Time has passed.
    pub fn handle_tick(&mut self) {
        for slot in 0..self.slots.len() {
            let Some(entry) = &mut self.slots[slot] else { continue };
            entry.ticks += 1;
            if entry.ticks > TICKS_MAX {
                self.empty(slot);
            }
        }
    }

    fn makings_of<'a>(
        &'a mut self,
        directory: FollowId,
        name: &'a [u8],
    ) -> impl Iterator<Item = &'a mut Making> {
        self.makings
            .iter_mut()
            .filter(move |making| making.directory == directory && *making.name == *name)
    }

    /// What the name leads to is known no longer.
    pub fn forget(&mut self, directory: FollowId, name: &[u8]) {
        if let Some(slot) = self.slot_of(directory, name) {
            self.empty(slot);
        }
    }

    /// The slot that has the name.
    fn slot_of(&self, directory: FollowId, name: &[u8]) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let is_it = |entry: &Entry| entry.directory == directory && *entry.name == *name;
        self.ways(directory, name).find(|slot| self.slots[*slot].as_deref().is_some_and(is_it))
    }

    /// The slot that the name takes, which does not have one: a free one or that of the oldest.
    fn slot_for(&self, directory: FollowId, name: &[u8]) -> usize {
        let age = |slot: &usize| self.slots[*slot].as_ref().map(|entry| entry.number);
        let ways = self.ways(directory, name);
        let first = ways.start;
        ways.min_by_key(age).unwrap_or(first)
    }

    /// The slots where the name belongs; there are some.
    fn ways(&self, directory: FollowId, name: &[u8]) -> Range<usize> {
        let sets = self.slots.len().div_ceil(WAYS);
        let start = self.hasher.hash_one((directory, name)) as usize % sets * WAYS;
        start..(start + WAYS).min(self.slots.len())
    }
}

fn slots_for(budget_bytes: usize) -> usize {
    (budget_bytes / NAME_BYTES).min(NAMES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::{MemoryOptions, MemoryVfs, Surroundings};
    use vfs::{
        Actor, AttributeRequest, Case, CreateHow, CreationMode, FileKind, Identity, Name, RelPath,
        Vfs,
    };

    const HERE: FollowId = FollowId(7);
    const ELSEWHERE: FollowId = FollowId(8);
    const ADDED: NameChange<'_> = NameChange::Added(HERE, b"name");
    const REMOVED: NameChange<'_> = NameChange::Removed(HERE, b"name");

    #[derive(Debug)]
    struct Always;

    impl Surroundings for Always {
        fn now(&self) -> Timestamp {
            Timestamp(1)
        }
    }

    fn opened() -> OpenedNode {
        let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(Always));
        let path = RelPath::root().join(&Name::new(*b"name").unwrap());
        let (kind, mode, dos, wanted) = (FileKind::File, 0o644, None, AttributeRequest::default());
        let how =
            CreateHow { kind, mode: CreationMode::exactly(mode), dos, wanted, initialiser: None };
        vfs.create(Actor::SUPERUSER, &path, Case::Sensitive, how).unwrap()
    }

    /// What is known after a name was made, while and after which this was told.
    fn is_known(meanwhile: &[NameChange<'_>], after: &[NameChange<'_>]) -> bool {
        let mut recent = Recent::new(KeyedBuildHasher::by(1), 1 << 20, 2);
        let (number, opened) = (recent.begin(HERE, b"name").unwrap(), opened());
        meanwhile.iter().for_each(|change| recent.handle_change(*change));
        recent.end(number, Some(&opened), None);
        after.iter().for_each(|change| recent.handle_change(*change));
        let is_known = recent.find(HERE, b"name").is_some();
        assert_eq!(recent.is_empty(), !is_known);
        is_known
    }

    #[test]
    fn a_name_is_known_from_the_one_addition_on_until_anything_is_done_to_it() {
        assert!(is_known(&[ADDED], &[]));
        assert!(!is_known(&[], &[]), "it was not heard of");
        assert!(!is_known(&[ADDED, ADDED], &[]), "something took its place");
        assert!(!is_known(&[ADDED, REMOVED], &[]));
        assert!(!is_known(&[ADDED, REMOVED, ADDED], &[]), "one by us, one by another");
        assert!(!is_known(&[REMOVED, ADDED], &[]), "which of them was ours nobody can tell");
        for change in [ADDED, REMOVED, NameChange::Lost] {
            assert!(!is_known(&[ADDED], &[change]), "{change:?}");
            assert!(!is_known(&[ADDED, change], &[]), "{change:?}");
        }
        assert!(!is_known(&[ADDED, NameChange::Ended(HERE)], &[]));
        let others = [
            NameChange::Added(ELSEWHERE, b"name"),
            NameChange::Removed(HERE, b"other"),
            NameChange::Attributes(HERE, b"name"),
            NameChange::Itself(HERE),
        ];
        assert!(is_known(&[&others[..], &[ADDED]].concat(), &others));
    }

    #[test]
    fn what_was_not_made_is_not_known() {
        let mut recent = Recent::new(KeyedBuildHasher::by(1), 1 << 20, 2);
        let number = recent.begin(HERE, b"name").unwrap();
        recent.handle_change(ADDED);
        recent.end(number, None, None);
        recent.end(number, Some(&opened()), None);
        assert!(recent.find(HERE, b"name").is_none());
        assert!(recent.begin(HERE, &[b'n'; NAME_LENGTH_MAX + 1]).is_none());
        assert!(Recent::new(KeyedBuildHasher::by(1), 0, 2).begin(HERE, b"name").is_none());
    }

    #[test]
    fn names_are_bounded_and_forgotten_in_time() {
        let mut recent = Recent::new(KeyedBuildHasher::by(1), 4 * NAME_BYTES, 2);
        let opened = opened();
        for number in 0..100 {
            let name = format!("name{number}");
            let making = recent.begin(HERE, name.as_bytes()).unwrap();
            recent.handle_change(NameChange::Added(HERE, name.as_bytes()));
            recent.end(making, Some(&opened), None);
            assert!(recent.find(HERE, name.as_bytes()).unwrap().was_opened_as(&*opened.node));
            assert!(recent.count <= 4);
        }
        assert!(!recent.is_empty());
        (0..=TICKS_MAX).for_each(|_| recent.handle_tick());
        assert!(recent.is_empty() && recent.find(HERE, b"name99").is_none());
    }

    #[test]
    fn nearly_all_of_half_as_many_names_as_there_are_slots_are_known() {
        let mut recent = Recent::new(KeyedBuildHasher::by(1), 16 << 20, 2);
        let (opened, count) = (opened(), recent.slots_max / 2);
        let name = |number: usize| (FollowId(number as u64 % 64), format!("file{number}"));
        for (directory, name) in (0..count).map(name) {
            let making = recent.begin(directory, name.as_bytes()).unwrap();
            recent.handle_change(NameChange::Added(directory, name.as_bytes()));
            recent.end(making, Some(&opened), None);
        }
        let mut is_known = |number: &usize| {
            let (directory, name) = name(*number);
            recent.find(directory, name.as_bytes()).is_some()
        };
        let known = (0..count).filter(&mut is_known).count();
        assert!(known * 20 > count * 19, "{known} of {count}");
        assert!((count - 100..count).all(|number| is_known(&number)), "the latest");
    }

    #[test]
    fn the_latest_names_have_a_keepsake_and_what_is_given_up_is_closed_by_others() {
        let mut recent = Recent::new(KeyedBuildHasher::by(1), 1 << 20, 2);
        let opened = opened();
        let make = |recent: &mut Recent, name: &[u8]| {
            let making = recent.begin(HERE, name).unwrap();
            recent.handle_change(NameChange::Added(HERE, name));
            let keepsake = Keepsake { who: Identity::root(), node: opened.node.clone() };
            recent.end(making, Some(&opened), Some(keepsake));
        };
        let has = |recent: &mut Recent, name: &[u8]| {
            recent.find(HERE, name).is_some_and(|made| made.keepsake.is_some())
        };
        [&b"a"[..], b"b", b"c"].iter().for_each(|name| make(&mut recent, name));
        assert_eq!([&b"a"[..], b"b", b"c"].map(|name| has(&mut recent, name)), [false, true, true]);
        assert!(recent.find(HERE, b"a").is_some(), "it is known still");
        assert_eq!(recent.take_closing().len(), 1);
        recent.handle_change(NameChange::Removed(HERE, b"b"));
        recent.forget(HERE, b"a");
        assert_eq!(recent.take_closing().len(), 1);
        make(&mut recent, b"c");
        assert_eq!(recent.take_closing().len(), 1, "it was made anew");
        recent.clear();
        assert_eq!(recent.take_closing().len(), 1);
        let mut none = Recent::new(KeyedBuildHasher::by(1), 1 << 20, 0);
        make(&mut none, b"a");
        assert!(!has(&mut none, b"a") && none.find(HERE, b"a").is_some());
    }
}
