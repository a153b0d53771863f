//! Index of one directory's names, case-insensitive and compact.
//!
//! An open-addressing table of 64-bit slots: 32 bits of the hash of the case-folded name, and the
//! position of its record. A record is a length and the name as stored. A hash stands in the slot
//! that its upper bits select, or in the next free one. So a lookup mostly touches one cache line
//! of the table and one of the record, and doubling the table is sequential. A name costs its
//! bytes, one more, and 11 to 21 of the table. The hash is keyed, because clients choose names.

use std::hash::BuildHasher;
use vfs::{KeyedBuildHasher, Name, fold_case};

/// Bytes of one piece of the arena: a position is a piece number and 16 bits.
const PIECE_BYTES: usize = 1 << 16;
/// Bytes of a record before its name.
const RECORD_FIXED: usize = 1;
/// A free slot: no record starts so near the end of a piece.
const FREE: IndexSlot = IndexSlot { hash: 0, at: u32::MAX };
/// Slots of the smallest table; three of four may be used.
const TABLE_MIN: usize = 4;
/// Bytes of removed records that are tolerated at any size.
const WASTE_BYTES_MIN: usize = 4 * PIECE_BYTES;

/// Hash of a name, equal for all of its case variants.
#[must_use]
pub fn hash_of(hasher: &KeyedBuildHasher, name: &[u8]) -> u32 {
    let mut upper = [0; Name::LENGTH_MAX];
    let folded = match upper.get_mut(..name.len()) {
        // ASCII names need no allocation.
        Some(upper) if name.is_ascii() => {
            upper.copy_from_slice(name);
            upper.make_ascii_uppercase();
            hasher.hash_one(&*upper)
        }
        _ => hasher.hash_one(&*fold_case(name)),
    };
    (folded >> 32) as u32
}

/// A slot of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IndexSlot {
    hash: u32,
    /// Position of the record.
    at: u32,
}

/// Match of a wanted name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameMatch {
    /// No case variant exists.
    Absent,
    /// The exact name exists.
    Exact,
    /// Only another case variant exists; of several the first in byte order.
    Other(Name),
}

/// Index of one directory's names.
#[derive(Debug, Default)]
pub struct NameIndex {
    /// Empty, or a power of two of slots.
    table: Vec<IndexSlot>,
    pieces: Vec<Vec<u8>>,
    piece_bytes: usize,
    waste_bytes: usize,
    count: usize,
}

impl NameIndex {
    /// Number of names.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Allocated bytes.
    pub fn bytes(&self) -> usize {
        let pieces = self.pieces.capacity() * size_of::<Vec<u8>>();
        self.table.capacity() * size_of::<IndexSlot>() + self.piece_bytes + pieces
    }

    /// Additional bytes that adding a name of this length may need.
    pub fn growth_bytes(&self, name: &[u8]) -> usize {
        let table =
            if self.is_full() { grown_table(self.table.len()) * size_of::<IndexSlot>() } else { 0 };
        table + self.room_for(RECORD_FIXED + name.len()).unwrap_or(0)
    }

    /// Capacity that the last piece, or a new one, needs for so many more bytes; None if it
    /// suffices.
    fn room_for(&self, bytes: usize) -> Option<usize> {
        let last = self.pieces.last().filter(|piece| piece.len() + bytes < PIECE_BYTES);
        let (length, capacity) = last.map_or((0, 0), |piece| (piece.len(), piece.capacity()));
        // The first piece starts small, because small directories are frequent.
        let is_small = self.pieces.len() == usize::from(last.is_some());
        let least = if is_small { length + bytes } else { PIECE_BYTES };
        (length + bytes > capacity).then(|| (2 * capacity).clamp(least, PIECE_BYTES))
    }

    /// Whether the waste justifies a rebuild.
    pub fn needs_rebuild(&self) -> bool {
        self.waste_bytes > WASTE_BYTES_MIN.max(self.piece_bytes / 2)
    }

    /// Looks up a name.
    pub fn find(&self, hash: u32, wanted: &[u8]) -> NameMatch {
        let mut others: Vec<&[u8]> = Vec::new();
        for (_, name) in self.slots_of(hash) {
            if name == wanted {
                return NameMatch::Exact;
            }
            others.push(name);
        }
        if others.is_empty() {
            return NameMatch::Absent;
        }
        let folded = fold_case(wanted);
        let best = others.into_iter().filter(|name| fold_case(name) == folded).min();
        match best.map(Name::new) {
            Some(Ok(name)) => NameMatch::Other(name),
            _ => NameMatch::Absent,
        }
    }

    /// Adds a name, unless it exists.
    pub fn add(&mut self, hash: u32, name: &[u8]) {
        let Ok(length) = u8::try_from(name.len()) else { return };
        if self.slots_of(hash).any(|(_, known)| known == name) {
            return;
        }
        if self.is_full() {
            self.grow();
        }
        let at = self.append(length, name);
        let free = self.first_free(hash);
        self.table[free] = IndexSlot { hash, at };
        self.count += 1;
    }

    /// Removes a name, if it exists.
    pub fn remove(&mut self, hash: u32, name: &[u8]) {
        let found = self.slots_of(hash).find(|(_, known)| *known == name);
        let Some((mut hole, _)) = found else { return };
        let mut next = self.after(hole);
        // Entries that were displaced past the hole move up, so that lookups find them.
        while self.table[next] != FREE {
            let home = self.home(self.table[next].hash);
            if self.distance(home, next) >= self.distance(hole, next) {
                self.table[hole] = self.table[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.table[hole] = FREE;
        self.waste_bytes += RECORD_FIXED + name.len();
        self.count -= 1;
    }

    fn append(&mut self, length: u8, name: &[u8]) -> u32 {
        let bytes = RECORD_FIXED + name.len();
        let capacity = self.room_for(bytes);
        if self.pieces.last().is_none_or(|piece| piece.len() + bytes >= PIECE_BYTES) {
            self.pieces.push(Vec::new());
        }
        let number = self.pieces.len() - 1;
        let piece = &mut self.pieces[number];
        if let Some(capacity) = capacity {
            self.piece_bytes -= piece.capacity();
            piece.reserve_exact(capacity - piece.len());
            self.piece_bytes += piece.capacity();
        }
        let at = (number << 16 | piece.len()) as u32;
        piece.push(length);
        piece.extend_from_slice(name);
        at
    }

    /// Slots and names of one hash.
    fn slots_of(&self, hash: u32) -> impl Iterator<Item = (usize, &[u8])> {
        let first = (!self.table.is_empty()).then(|| self.home(hash));
        let places = std::iter::successors(first, |at| Some(self.after(*at)));
        let taken = places.take_while(|at| self.table[*at] != FREE);
        let alike = taken.filter(move |at| self.table[*at].hash == hash);
        alike.map(|at| (at, self.name(self.table[at].at)))
    }

    /// Preferred slot of a hash.
    fn home(&self, hash: u32) -> usize {
        // The upper bits, as many as the table needs.
        ((u64::from(hash) * self.table.len() as u64) >> 32) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.table.len() - 1)
    }

    /// Forward distance between two slots.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.table.len() - 1)
    }

    fn first_free(&self, hash: u32) -> usize {
        let mut at = self.home(hash);
        while self.table[at] != FREE {
            at = self.after(at);
        }
        at
    }

    fn is_full(&self) -> bool {
        4 * (self.count + 1) > 3 * self.table.len()
    }

    fn grow(&mut self) {
        let places = grown_table(self.table.len());
        let before = std::mem::replace(&mut self.table, vec![FREE; places]);
        for entry in before.into_iter().filter(|entry| *entry != FREE) {
            let free = self.first_free(entry.hash);
            self.table[free] = entry;
        }
    }

    fn name(&self, at: u32) -> &[u8] {
        let record = &self.pieces[(at >> 16) as usize][(at & 0xFFFF) as usize..];
        &record[1..=usize::from(record[0])]
    }
}

/// Slots of the next larger table.
fn grown_table(places: usize) -> usize {
    (2 * places).max(TABLE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    struct IndexWithModel {
        hasher: KeyedBuildHasher,
        index: NameIndex,
        model: BTreeSet<Vec<u8>>,
    }

    impl IndexWithModel {
        fn new() -> Self {
            Self {
                hasher: KeyedBuildHasher::random(),
                index: NameIndex::default(),
                model: BTreeSet::new(),
            }
        }

        fn add(&mut self, name: &[u8]) {
            self.index.add(hash_of(&self.hasher, name), name);
            self.model.insert(name.to_vec());
        }

        fn remove(&mut self, name: &[u8]) {
            self.index.remove(hash_of(&self.hasher, name), name);
            self.model.remove(name);
        }

        fn check(&self, name: &[u8]) {
            let expected = if self.model.contains(name) {
                NameMatch::Exact
            } else {
                let mut alike = self.model.iter().filter(|n| fold_case(n) == fold_case(name));
                alike
                    .next()
                    .map_or(NameMatch::Absent, |n| NameMatch::Other(Name::new(n.clone()).unwrap()))
            };
            assert_eq!(self.index.find(hash_of(&self.hasher, name), name), expected);
            assert_eq!(self.index.len(), self.model.len());
        }
    }

    proptest! {
        #[test]
        fn index_matches_a_naive_search(
            steps in prop::collection::vec((any::<bool>(), "[aAbBäÄ𐐨𐐀1]{1,3}"), 0..200)
        ) {
            let mut both = IndexWithModel::new();
            for (adds, name) in &steps {
                if *adds { both.add(name.as_bytes()) } else { both.remove(name.as_bytes()) }
                both.check(name.as_bytes());
            }
            for (_, name) in &steps {
                both.check(name.as_bytes());
            }
        }
    }

    #[test]
    fn names_with_equal_hash_are_distinct_and_removable() {
        let mut index = NameIndex::default();
        for name in [&b"a"[..], b"b", b"c"] {
            index.add(7, name);
        }
        index.remove(7, b"b");
        assert_eq!(index.find(7, b"a"), NameMatch::Exact);
        assert_eq!(index.find(7, b"b"), NameMatch::Absent);
        assert_eq!(index.find(7, b"C"), NameMatch::Other(Name::new(&b"c"[..]).unwrap()));
        index.remove(7, b"c");
        index.remove(7, b"a");
        assert_eq!((index.find(7, b"a"), index.len()), (NameMatch::Absent, 0));
    }

    #[test]
    fn name_costs_at_most_45_bytes() {
        let hasher = KeyedBuildHasher::random();
        let mut index = NameIndex::default();
        for number in 0..1_000_000 {
            let name = format!("IMG_{number:08}.jpeg");
            index.add(hash_of(&hasher, name.as_bytes()), name.as_bytes());
        }
        let each = index.bytes() / index.len();
        assert!(each <= 45, "{each} bytes for a name of 17");
        let wanted = "img_00765432.JPEG";
        let found = index.find(hash_of(&hasher, wanted.as_bytes()), wanted.as_bytes());
        assert_eq!(found, NameMatch::Other(Name::new(&b"IMG_00765432.jpeg"[..]).unwrap()));
    }

    #[test]
    fn wasteful_index_needs_a_rebuild() {
        let mut index = NameIndex::default();
        let long = [b'x'; 250];
        for _ in 0..2_000 {
            index.add(1, &long);
            index.remove(1, &long);
        }
        assert!(index.needs_rebuild());
        index = NameIndex::default();
        index.add(1, &long);
        assert!(!index.needs_rebuild());
    }
}
