//! Names that were made by this process a moment ago, and which file each leads to: most of what
//! is made is looked at, listed or removed at once, and its maker knows what it is.
//!
//! A name is known while nothing is told of it in its directory, which is followed: so it leads to
//! the very file that was made, as of the latest draining. That it was made is told, too: then
//! exactly one addition comes between the beginning and the draining after the end, and any more
//! are somebody else's. Pure bookkeeping, as [`crate::directories`].

use crate::keyed::Keyed;
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};
use vfs::{FileKey, FollowId, NameChange, Node, NodeHandle, Opened, Timestamp};

/// Most names that are known.
const NAMES_MAX: usize = 2048;
/// Of the budget, bytes for each of them: less is taken by it, with what it keeps of the node.
const NAME_BYTES: usize = 16 * 1024;
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
}

impl Made {
    fn of(opened: &Opened) -> Self {
        let (key, born) = (opened.attributes.key, opened.attributes.born);
        Self { key, born, handle: None, node: Arc::downgrade(&opened.node) }
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

/// The names that are known. One gives way to the next with the same slot.
#[derive(Debug)]
pub struct Recent {
    hasher: Keyed,
    /// Made room for with the first name.
    slots: Vec<Option<Box<Entry>>>,
    slots_max: usize,
    makings: Vec<Making>,
    next_making: u64,
    count: usize,
}

impl Recent {
    pub fn new(hasher: Keyed, budget_bytes: usize) -> Self {
        let slots_max = slots_for(budget_bytes);
        Self { hasher, slots: Vec::new(), slots_max, makings: Vec::new(), next_making: 0, count: 0 }
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
        self.slots = Vec::new();
        self.count = 0;
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
    pub fn end(&mut self, number: u64, opened: Option<&Opened>) {
        let Some(at) = self.makings.iter().position(|making| making.number == number) else {
            return;
        };
        let Making { directory, name, additions, is_spoilt, .. } = self.makings.swap_remove(at);
        let Some(opened) = opened.filter(|_| additions == 1 && !is_spoilt) else { return };
        if self.slots.is_empty() {
            self.slots.resize_with(self.slots_max, || None);
        }
        let slot = self.slot(directory, &name);
        let entry = Entry { directory, name, made: Made::of(opened), ticks: 0 };
        self.count += usize::from(self.slots[slot].replace(entry.into()).is_none());
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
        for slot in self.slots.iter_mut().filter(|slot| slot.is_some()) {
            if let Some(entry) = slot {
                entry.ticks += 1;
            }
            if slot.take_if(|entry| entry.ticks > TICKS_MAX).is_some() {
                self.count -= 1;
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

    fn forget(&mut self, directory: FollowId, name: &[u8]) {
        if let Some(slot) = self.slot_of(directory, name) {
            self.slots[slot] = None;
            self.count -= 1;
        }
    }

    /// The slot that has the name.
    fn slot_of(&self, directory: FollowId, name: &[u8]) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let slot = self.slot(directory, name);
        let is_it = |entry: &Entry| entry.directory == directory && *entry.name == *name;
        self.slots[slot].as_deref().is_some_and(is_it).then_some(slot)
    }

    /// Where the name belongs; there are slots.
    fn slot(&self, directory: FollowId, name: &[u8]) -> usize {
        self.hasher.hash_one((directory, name)) as usize % self.slots.len()
    }
}

fn slots_for(budget_bytes: usize) -> usize {
    (budget_bytes / NAME_BYTES).min(NAMES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::{MemoryOptions, MemoryVfs, Surroundings};
    use vfs::{Case, CreateHow, FileKind, Identity, Name, RelPath, Vfs, Wanted};

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

    fn opened() -> Opened {
        let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(Always));
        let path = RelPath::root().join(&Name::new(*b"name").unwrap());
        let (kind, mode, dos, wanted) = (FileKind::File, 0o644, None, Wanted::default());
        let how = CreateHow { kind, mode, dos, wanted };
        vfs.create(&Identity::root(), &path, Case::Sensitive, how).unwrap()
    }

    /// What is known after a name was made, while and after which this was told.
    fn is_known(meanwhile: &[NameChange<'_>], after: &[NameChange<'_>]) -> bool {
        let mut recent = Recent::new(Keyed::by(1), 1 << 20);
        let (number, opened) = (recent.begin(HERE, b"name").unwrap(), opened());
        meanwhile.iter().for_each(|change| recent.handle_change(*change));
        recent.end(number, Some(&opened));
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
        let mut recent = Recent::new(Keyed::by(1), 1 << 20);
        let number = recent.begin(HERE, b"name").unwrap();
        recent.handle_change(ADDED);
        recent.end(number, None);
        recent.end(number, Some(&opened()));
        assert!(recent.find(HERE, b"name").is_none());
        assert!(recent.begin(HERE, &[b'n'; NAME_LENGTH_MAX + 1]).is_none());
        assert!(Recent::new(Keyed::by(1), 0).begin(HERE, b"name").is_none());
    }

    #[test]
    fn names_are_bounded_and_forgotten_in_time() {
        let mut recent = Recent::new(Keyed::by(1), 4 * NAME_BYTES);
        let opened = opened();
        for number in 0..100 {
            let name = format!("name{number}");
            let making = recent.begin(HERE, name.as_bytes()).unwrap();
            recent.handle_change(NameChange::Added(HERE, name.as_bytes()));
            recent.end(making, Some(&opened));
            assert!(recent.find(HERE, name.as_bytes()).unwrap().was_opened_as(&*opened.node));
            assert!(recent.count <= 4);
        }
        assert!(!recent.is_empty());
        (0..=TICKS_MAX).for_each(|_| recent.handle_tick());
        assert!(recent.is_empty() && recent.find(HERE, b"name99").is_none());
    }
}
