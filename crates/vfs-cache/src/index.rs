//! The names of one directory, found whatever their case, in few bytes.
//!
//! A table of 64 bits a place: 32 of a name's hash, its case folded, and where its record is,
//! which is a length and the name as it is spelt. A hash stands where its upper bits say, or
//! in the next free place: so one look reads one line of the processor's cache, mostly, and
//! the record's; and a table that doubles is read and written from one end to the other.
//! A name costs its bytes, one more, and 11 to 21 of the table. The hash is keyed: clients
//! choose names.

use std::hash::BuildHasher;
use vfs::{KeyedBuildHasher, Name, fold_case};

/// Bytes of one piece of the arena: places of records are a piece's number and 16 bits.
const PIECE_BYTES: usize = 1 << 16;
/// Bytes of a record before the name.
const RECORD_FIXED: usize = 1;
/// A place of the table that is free: no record is so near the end of a piece.
const FREE: Entry = Entry { hash: 0, at: u32::MAX };
/// Places of the smallest table; of four, three may be taken.
const TABLE_MIN: usize = 4;
/// Bytes of records that are gone, up to which nobody minds.
const WASTE_BYTES_MIN: usize = 4 * PIECE_BYTES;

/// The number of a name, equal for all spellings in another case.
#[must_use]
pub fn hash_of(hasher: &KeyedBuildHasher, name: &[u8]) -> u32 {
    let mut upper = [0; Name::LENGTH_MAX];
    let folded = match upper.get_mut(..name.len()) {
        // Most are, and need no memory for that.
        Some(upper) if name.is_ascii() => {
            upper.copy_from_slice(name);
            upper.make_ascii_uppercase();
            hasher.hash_one(&*upper)
        }
        _ => hasher.hash_one(&*fold_case(name)),
    };
    (folded >> 32) as u32
}

/// A place of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    hash: u32,
    /// Where the record is.
    at: u32,
}

/// How a name that was asked for is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// There is none, in whatever case.
    Absent,
    /// As it was asked for.
    Exact,
    /// In another case only; of several, the first in byte order.
    Other(Name),
}

/// The names of one directory.
#[derive(Debug, Default)]
pub struct NameIndex {
    /// A power of two of them, or none.
    table: Vec<Entry>,
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

    /// Bytes that are allocated for it.
    pub fn bytes(&self) -> usize {
        let pieces = self.pieces.capacity() * size_of::<Vec<u8>>();
        self.table.capacity() * size_of::<Entry>() + self.piece_bytes + pieces
    }

    /// Bytes that one more name of this length may need beside those, while it is put in.
    pub fn growth_bytes(&self, name: &[u8]) -> usize {
        let table =
            if self.is_full() { grown_table(self.table.len()) * size_of::<Entry>() } else { 0 };
        table + self.room_for(RECORD_FIXED + name.len()).unwrap_or(0)
    }

    /// Capacity that the last piece, or a new one, is to have for so many bytes more; none if
    /// it has enough.
    fn room_for(&self, bytes: usize) -> Option<usize> {
        let last = self.pieces.last().filter(|piece| piece.len() + bytes < PIECE_BYTES);
        let (length, capacity) = last.map_or((0, 0), |piece| (piece.len(), piece.capacity()));
        // Small at first, since small directories are many.
        let is_small = self.pieces.len() == usize::from(last.is_some());
        let least = if is_small { length + bytes } else { PIECE_BYTES };
        (length + bytes > capacity).then(|| (2 * capacity).clamp(least, PIECE_BYTES))
    }

    /// Whether so much of it is waste that it is better made anew.
    pub fn is_worn(&self) -> bool {
        self.waste_bytes > WASTE_BYTES_MIN.max(self.piece_bytes / 2)
    }

    /// How the name is spelt here.
    pub fn find(&self, hash: u32, wanted: &[u8]) -> Spelling {
        let mut others: Vec<&[u8]> = Vec::new();
        for (_, name) in self.of_hash(hash) {
            if name == wanted {
                return Spelling::Exact;
            }
            others.push(name);
        }
        if others.is_empty() {
            return Spelling::Absent;
        }
        let folded = fold_case(wanted);
        let best = others.into_iter().filter(|name| fold_case(name) == folded).min();
        match best.map(Name::new) {
            Some(Ok(name)) => Spelling::Other(name),
            _ => Spelling::Absent,
        }
    }

    /// Puts a name in, unless it is there.
    pub fn add(&mut self, hash: u32, name: &[u8]) {
        let Ok(length) = u8::try_from(name.len()) else { return };
        if self.of_hash(hash).any(|(_, known)| known == name) {
            return;
        }
        if self.is_full() {
            self.grow();
        }
        let at = self.append(length, name);
        let free = self.first_free(hash);
        self.table[free] = Entry { hash, at };
        self.count += 1;
    }

    /// Takes a name out, if it is there.
    pub fn remove(&mut self, hash: u32, name: &[u8]) {
        let found = self.of_hash(hash).find(|(_, known)| *known == name);
        let Some((mut hole, _)) = found else { return };
        let mut next = self.after(hole);
        // Who stands behind its place for want of it moves up, so that none is looked for in vain.
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

    /// Places of the table and names of one hash.
    fn of_hash(&self, hash: u32) -> impl Iterator<Item = (usize, &[u8])> {
        let first = (!self.table.is_empty()).then(|| self.home(hash));
        let places = std::iter::successors(first, |at| Some(self.after(*at)));
        let taken = places.take_while(|at| self.table[*at] != FREE);
        let alike = taken.filter(move |at| self.table[*at].hash == hash);
        alike.map(|at| (at, self.name(self.table[at].at)))
    }

    /// Where a hash stands if nobody else does.
    fn home(&self, hash: u32) -> usize {
        // The upper bits, as many as there are places.
        ((u64::from(hash) * self.table.len() as u64) >> 32) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.table.len() - 1)
    }

    /// How far it is from one place to another, forward.
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

/// Places of the next larger table.
fn grown_table(places: usize) -> usize {
    (2 * places).max(TABLE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    struct Both {
        hasher: KeyedBuildHasher,
        index: NameIndex,
        model: BTreeSet<Vec<u8>>,
    }

    impl Both {
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
                Spelling::Exact
            } else {
                let mut alike = self.model.iter().filter(|n| fold_case(n) == fold_case(name));
                alike
                    .next()
                    .map_or(Spelling::Absent, |n| Spelling::Other(Name::new(n.clone()).unwrap()))
            };
            assert_eq!(self.index.find(hash_of(&self.hasher, name), name), expected);
            assert_eq!(self.index.len(), self.model.len());
        }
    }

    proptest! {
        #[test]
        fn names_are_found_as_a_naive_search_finds_them(
            steps in prop::collection::vec((any::<bool>(), "[aAbBäÄ𐐨𐐀1]{1,3}"), 0..200)
        ) {
            let mut both = Both::new();
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
    fn names_of_one_hash_are_told_apart_and_leave_one_by_one() {
        let mut index = NameIndex::default();
        for name in [&b"a"[..], b"b", b"c"] {
            index.add(7, name);
        }
        index.remove(7, b"b");
        assert_eq!(index.find(7, b"a"), Spelling::Exact);
        assert_eq!(index.find(7, b"b"), Spelling::Absent);
        assert_eq!(index.find(7, b"C"), Spelling::Other(Name::new(&b"c"[..]).unwrap()));
        index.remove(7, b"c");
        index.remove(7, b"a");
        assert_eq!((index.find(7, b"a"), index.len()), (Spelling::Absent, 0));
    }

    #[test]
    fn a_name_costs_well_under_a_hundred_bytes() {
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
        assert_eq!(found, Spelling::Other(Name::new(&b"IMG_00765432.jpeg"[..]).unwrap()));
    }

    #[test]
    fn an_index_that_is_mostly_waste_says_so() {
        let mut index = NameIndex::default();
        let long = [b'x'; 250];
        for _ in 0..2_000 {
            index.add(1, &long);
            index.remove(1, &long);
        }
        assert!(index.is_worn());
        index = NameIndex::default();
        index.add(1, &long);
        assert!(!index.is_worn());
    }
}
