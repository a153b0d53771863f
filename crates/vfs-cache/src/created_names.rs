//! Recently created files by name. Most created files are soon looked up, listed or removed, and
//! the creator's open identifies them.
//!
//! A name is valid while the feed reports no event for it in its followed directory. So it refers
//! to the created file as of the latest drain. The feed reports the creation itself, too. So
//! exactly one addition must arrive between its begin and the drain after its end; any further one
//! is another process's. Pure bookkeeping, as [`crate::directories`].

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, Weak};
use vfs::{
    FileKey, FollowId, Identity, KeyedBuildHasher, NameChange, Node, NodeHandle, OpenedNode,
    Timestamp,
};

/// Most names.
const NAMES_MAX: usize = 8192;
/// Bytes of the budget for each name, a generous bound that includes a retained open.
const NAME_BYTES: usize = 4 * 1024;
/// Slots that a name may use.
const SLOTS_PER_NAME: usize = 4;
/// Longest name that is tracked, in bytes.
const NAME_LENGTH_MAX: usize = 128;
/// Life of a name in ticks: a later lookup may have to read the disk.
const TICKS_MAX: u8 = 3;

/// A created file.
#[derive(Clone, Debug)]
pub struct CreatedFile {
    pub key: FileKey,
    pub born: Option<Timestamp>,
    /// Its handle, once requested.
    pub handle: Option<NodeHandle>,
    /// The creator's open. This reference pins its allocation, so no other node gets its address.
    node: Weak<dyn Node>,
    pub retained: Option<RetainedOpen>,
}

/// An open of a created file without access to data, for backends with slow lookups.
#[derive(Clone, Debug)]
pub struct RetainedOpen {
    /// Creator.
    pub user: Identity,
    pub node: Arc<dyn Node>,
}

impl CreatedFile {
    fn of(opened: &OpenedNode, retained: Option<RetainedOpen>) -> Self {
        let (key, born) = (opened.attributes.key, opened.attributes.born);
        Self { key, born, handle: None, node: Arc::downgrade(&opened.node), retained }
    }

    /// Whether this is the creator's open.
    pub fn was_opened_as(&self, node: &dyn Node) -> bool {
        std::ptr::addr_eq(self.node.as_ptr(), node)
    }
}

#[derive(Debug)]
struct CreatedEntry {
    directory: FollowId,
    name: Box<[u8]>,
    file: CreatedFile,
    /// Number of the creation; numbers increase.
    number: u64,
    ticks: u8,
}

/// A creation in progress.
#[derive(Debug)]
struct PendingCreation {
    number: u64,
    directory: FollowId,
    name: Box<[u8]>,
    additions: u32,
    is_void: bool,
}

/// Tracked names. A name without a free slot replaces the oldest in its slots.
#[derive(Debug)]
pub struct CreatedNames {
    hasher: KeyedBuildHasher,
    /// Allocated with the first name.
    slots: Vec<Option<Box<CreatedEntry>>>,
    slots_max: usize,
    pending: Vec<PendingCreation>,
    next_creation: u64,
    count: usize,
    /// Most retained opens; the latest names have them.
    retained_max: usize,
    /// Slots with a retained open.
    retained_slots: VecDeque<usize>,
    /// Nodes to close outside the lock, since that may take long.
    closing: Vec<Arc<dyn Node>>,
}

impl CreatedNames {
    /// Tracks no names. Retains at most `retained_max` opens.
    pub fn new(hasher: KeyedBuildHasher, budget_bytes: usize, retained_max: usize) -> Self {
        Self {
            hasher,
            slots: Vec::new(),
            slots_max: slots_for(budget_bytes),
            pending: Vec::new(),
            next_creation: 0,
            count: 0,
            retained_max,
            retained_slots: VecDeque::new(),
            closing: Vec::new(),
        }
    }

    /// Takes the nodes to close, which may take long.
    pub fn take_closing(&mut self) -> Vec<Arc<dyn Node>> {
        std::mem::take(&mut self.closing)
    }

    /// Sets the budget, and drops all names.
    pub fn set_budget(&mut self, budget_bytes: usize) {
        self.clear();
        self.slots_max = slots_for(budget_bytes);
    }

    /// Whether no name is tracked.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Drops all names.
    pub fn clear(&mut self) {
        (0..self.slots.len()).for_each(|slot| self.empty(slot));
        self.slots = Vec::new();
        self.retained_slots.clear();
        self.pending.iter_mut().for_each(|creation| creation.is_void = true);
    }

    /// Begins a creation; None if the name would not be tracked.
    pub fn begin(&mut self, directory: FollowId, name: &[u8]) -> Option<u64> {
        if name.len() > NAME_LENGTH_MAX || self.slots_max == 0 {
            return None;
        }
        self.next_creation += 1;
        let (number, name) = (self.next_creation, name.into());
        self.pending.push(PendingCreation {
            number,
            directory,
            name,
            additions: 0,
            is_void: false,
        });
        Some(number)
    }

    /// Ends a creation, successful or not, after a drain of the feed.
    pub fn end(
        &mut self,
        number: u64,
        opened: Option<&OpenedNode>,
        retained: Option<RetainedOpen>,
    ) {
        let Some(at) = self.pending.iter().position(|creation| creation.number == number) else {
            return;
        };
        let PendingCreation { number, directory, name, additions, is_void } =
            self.pending.swap_remove(at);
        let Some(opened) = opened.filter(|_| additions == 1 && !is_void) else { return };
        if self.slots.is_empty() {
            self.slots.resize_with(self.slots_max, || None);
        }
        let slot = self.slot_for(directory, &name);
        self.empty(slot);
        let retained = retained.filter(|_| self.retained_max > 0);
        if retained.is_some() {
            self.make_room_for_open();
            self.retained_slots.push_back(slot);
        }
        let file = CreatedFile::of(opened, retained);
        self.slots[slot] = Some(CreatedEntry { directory, name, file, number, ticks: 0 }.into());
        self.count += 1;
    }

    fn make_room_for_open(&mut self) {
        while self.retained_slots.len() >= self.retained_max {
            // The slot may hold another name by now, which then loses its open early.
            let Some(slot) = self.retained_slots.pop_front() else { return };
            let entry = self.slots.get_mut(slot).and_then(Option::as_mut);
            let retained = entry.and_then(|entry| entry.file.retained.take());
            self.closing.extend(retained.map(|retained| retained.node));
        }
    }

    fn empty(&mut self, slot: usize) {
        let Some(entry) = self.slots[slot].take() else { return };
        self.count -= 1;
        self.closing.extend(entry.file.retained.map(|retained| retained.node));
    }

    /// The file of a name, as of the latest drain.
    pub fn find(&mut self, directory: FollowId, name: &[u8]) -> Option<&mut CreatedFile> {
        let slot = self.slot_of(directory, name)?;
        self.slots[slot].as_mut().map(|entry| &mut entry.file)
    }

    /// Applies an event of the feed.
    pub fn handle_change(&mut self, change: NameChange<'_>) {
        match change {
            NameChange::Added(directory, name) => {
                self.pending_of(directory, name).for_each(|creation| creation.additions += 1);
                self.remove(directory, name);
            }
            NameChange::Removed(directory, name) => {
                self.pending_of(directory, name).for_each(|creation| creation.is_void = true);
                self.remove(directory, name);
            }
            // Directory numbers are never reused, so nothing is found in this one.
            NameChange::Ended(directory) => {
                let within = |creation: &&mut PendingCreation| creation.directory == directory;
                self.pending.iter_mut().filter(within).for_each(|creation| creation.is_void = true);
            }
            NameChange::Lost => self.clear(),
            // These events change neither the node of the name nor its handle.
            NameChange::Attributes(..) | NameChange::Itself(_) => {}
        }
    }

    /// Ages all names by one tick.
    pub fn handle_tick(&mut self) {
        for slot in 0..self.slots.len() {
            let Some(entry) = &mut self.slots[slot] else { continue };
            entry.ticks += 1;
            if entry.ticks > TICKS_MAX {
                self.empty(slot);
            }
        }
    }

    fn pending_of<'a>(
        &'a mut self,
        directory: FollowId,
        name: &'a [u8],
    ) -> impl Iterator<Item = &'a mut PendingCreation> {
        self.pending
            .iter_mut()
            .filter(move |creation| creation.directory == directory && *creation.name == *name)
    }

    /// Drops a name.
    pub fn remove(&mut self, directory: FollowId, name: &[u8]) {
        if let Some(slot) = self.slot_of(directory, name) {
            self.empty(slot);
        }
    }

    /// The slot of a name.
    fn slot_of(&self, directory: FollowId, name: &[u8]) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let is_it = |entry: &CreatedEntry| entry.directory == directory && *entry.name == *name;
        self.candidate_slots(directory, name)
            .find(|slot| self.slots[*slot].as_deref().is_some_and(is_it))
    }

    /// The slot for a new name: a free one, or that of the oldest.
    fn slot_for(&self, directory: FollowId, name: &[u8]) -> usize {
        let age = |slot: &usize| self.slots[*slot].as_ref().map(|entry| entry.number);
        let candidate_slots = self.candidate_slots(directory, name);
        let first = candidate_slots.start;
        candidate_slots.min_by_key(age).unwrap_or(first)
    }

    /// The slots that a name may use; at least one.
    fn candidate_slots(&self, directory: FollowId, name: &[u8]) -> Range<usize> {
        let sets = self.slots.len().div_ceil(SLOTS_PER_NAME);
        let start = self.hasher.hash_one((directory, name)) as usize % sets * SLOTS_PER_NAME;
        start..(start + SLOTS_PER_NAME).min(self.slots.len())
    }
}

fn slots_for(budget_bytes: usize) -> usize {
    (budget_bytes / NAME_BYTES).min(NAMES_MAX)
}

#[cfg(test)]
pub(crate) mod tests {
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

    /// A clock that stands still.
    #[derive(Debug)]
    pub(crate) struct FixedClock;

    impl Surroundings for FixedClock {
        fn now(&self) -> Timestamp {
            Timestamp(1)
        }
    }

    fn opened() -> OpenedNode {
        let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(FixedClock));
        let path = RelPath::root().join(&Name::new(*b"name").unwrap());
        let (kind, mode, dos, wanted) = (FileKind::File, 0o644, None, AttributeRequest::default());
        let how =
            CreateHow { kind, mode: CreationMode::exactly(mode), dos, wanted, initialiser: None };
        vfs.create(Actor::SUPERUSER, &path, Case::Sensitive, how).unwrap()
    }

    /// Whether a created name is tracked after events during and after its creation.
    fn is_known(meanwhile: &[NameChange<'_>], after: &[NameChange<'_>]) -> bool {
        let mut recent = CreatedNames::new(KeyedBuildHasher::by(1), 1 << 20, 2);
        let (number, opened) = (recent.begin(HERE, b"name").unwrap(), opened());
        meanwhile.iter().for_each(|change| recent.handle_change(*change));
        recent.end(number, Some(&opened), None);
        after.iter().for_each(|change| recent.handle_change(*change));
        let is_known = recent.find(HERE, b"name").is_some();
        assert_eq!(recent.is_empty(), !is_known);
        is_known
    }

    #[test]
    fn created_name_is_valid_until_its_next_event() {
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
    fn failed_creation_is_not_tracked() {
        let mut recent = CreatedNames::new(KeyedBuildHasher::by(1), 1 << 20, 2);
        let number = recent.begin(HERE, b"name").unwrap();
        recent.handle_change(ADDED);
        recent.end(number, None, None);
        recent.end(number, Some(&opened()), None);
        assert!(recent.find(HERE, b"name").is_none());
        assert!(recent.begin(HERE, &[b'n'; NAME_LENGTH_MAX + 1]).is_none());
        assert!(CreatedNames::new(KeyedBuildHasher::by(1), 0, 2).begin(HERE, b"name").is_none());
    }

    #[test]
    fn created_names_are_bounded_and_expire() {
        let mut recent = CreatedNames::new(KeyedBuildHasher::by(1), 4 * NAME_BYTES, 2);
        let opened = opened();
        for number in 0..100 {
            let name = format!("name{number}");
            let creation = recent.begin(HERE, name.as_bytes()).unwrap();
            recent.handle_change(NameChange::Added(HERE, name.as_bytes()));
            recent.end(creation, Some(&opened), None);
            assert!(recent.find(HERE, name.as_bytes()).unwrap().was_opened_as(&*opened.node));
            assert!(recent.count <= 4);
        }
        assert!(!recent.is_empty());
        (0..=TICKS_MAX).for_each(|_| recent.handle_tick());
        assert!(recent.is_empty() && recent.find(HERE, b"name99").is_none());
    }

    #[test]
    fn half_full_slots_retain_nearly_all_names() {
        let mut recent = CreatedNames::new(KeyedBuildHasher::by(1), 16 << 20, 2);
        let (opened, count) = (opened(), recent.slots_max / 2);
        let name = |number: usize| (FollowId(number as u64 % 64), format!("file{number}"));
        for (directory, name) in (0..count).map(name) {
            let creation = recent.begin(directory, name.as_bytes()).unwrap();
            recent.handle_change(NameChange::Added(directory, name.as_bytes()));
            recent.end(creation, Some(&opened), None);
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
    fn latest_names_retain_opens_and_rest_is_closed() {
        let mut recent = CreatedNames::new(KeyedBuildHasher::by(1), 1 << 20, 2);
        let opened = opened();
        let make = |recent: &mut CreatedNames, name: &[u8]| {
            let creation = recent.begin(HERE, name).unwrap();
            recent.handle_change(NameChange::Added(HERE, name));
            let retained = RetainedOpen { user: Identity::root(), node: opened.node.clone() };
            recent.end(creation, Some(&opened), Some(retained));
        };
        let has = |recent: &mut CreatedNames, name: &[u8]| {
            recent.find(HERE, name).is_some_and(|file| file.retained.is_some())
        };
        [&b"a"[..], b"b", b"c"].iter().for_each(|name| make(&mut recent, name));
        assert_eq!([&b"a"[..], b"b", b"c"].map(|name| has(&mut recent, name)), [false, true, true]);
        assert!(recent.find(HERE, b"a").is_some(), "it is known still");
        assert_eq!(recent.take_closing().len(), 1);
        recent.handle_change(NameChange::Removed(HERE, b"b"));
        recent.remove(HERE, b"a");
        assert_eq!(recent.take_closing().len(), 1);
        make(&mut recent, b"c");
        assert_eq!(recent.take_closing().len(), 1, "it was file anew");
        recent.clear();
        assert_eq!(recent.take_closing().len(), 1);
        let mut none = CreatedNames::new(KeyedBuildHasher::by(1), 1 << 20, 0);
        make(&mut none, b"a");
        assert!(!has(&mut none, b"a") && none.find(HERE, b"a").is_some());
    }
}
