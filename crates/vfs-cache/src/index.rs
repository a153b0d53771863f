//! The names of one directory, found whatever their case, in few bytes.
//!
//! A table leads from 32 bits of a name's hash, its case folded, to the place of a
//! record; records of one hash are chained. A record is the next one's place, a
//! length and the name as it is spelt. So a name costs its bytes, five more, and
//! 9 to 20 of the table. The hash is keyed: clients choose names.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use vfs::{Name, fold_case};

/// Bytes of one piece of the arena: places of records are a piece's number and 16 bits.
const PIECE_BYTES: usize = 1 << 16;
/// Bytes of a record before the name.
const RECORD_FIXED: usize = 5;
/// The end of a chain: no record is so near the end of a piece.
const NONE: u32 = u32::MAX;
/// Bytes of records that are gone, up to which nobody minds.
const WASTE_BYTES_MIN: usize = 4 * PIECE_BYTES;

/// The number of a name, equal for all spellings in another case.
#[must_use]
pub fn hash_of(hasher: &RandomState, name: &[u8]) -> u32 {
    // The upper half: the table takes what it needs of the rest from this again.
    (hasher.hash_one(&*fold_case(name)) >> 32) as u32
}

/// Spreads numbers that are random already over all bits that a table looks at.
#[derive(Clone, Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers of 32 bits are keys");
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
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
    heads: HashMap<u32, u32, BuildHasherDefault<Spread>>,
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
        table_bytes(self.heads.capacity()) + self.piece_bytes + pieces
    }

    /// Bytes that one more name of this length may need beside those, while it is put in.
    pub fn growth_bytes(&self, name: &[u8]) -> usize {
        let table = match self.heads.capacity() {
            full if full == self.heads.len() => table_bytes(full + 1),
            _ => 0,
        };
        let bytes = RECORD_FIXED + name.len();
        let piece = self.pieces.last().filter(|piece| piece.len() + bytes < PIECE_BYTES);
        let (length, capacity) = piece.map_or((0, 0), |piece| (piece.len(), piece.capacity()));
        table + if length + bytes > capacity { grown(length, capacity, bytes) } else { 0 }
    }

    /// Whether so much of it is waste that it is better made anew.
    pub fn is_worn(&self) -> bool {
        self.waste_bytes > WASTE_BYTES_MIN.max(self.piece_bytes / 2)
    }

    /// How the name is spelt here.
    pub fn find(&self, hash: u32, wanted: &[u8]) -> Spelling {
        let folded = fold_case(wanted);
        let mut best: Option<&[u8]> = None;
        for (_, name) in self.chain(hash) {
            if name == wanted {
                return Spelling::Exact;
            }
            if best.is_none_or(|best| name < best) && fold_case(name) == folded {
                best = Some(name);
            }
        }
        match best.map(Name::new) {
            Some(Ok(name)) => Spelling::Other(name),
            _ => Spelling::Absent,
        }
    }

    /// Puts a name in, unless it is there.
    pub fn add(&mut self, hash: u32, name: &[u8]) {
        let Ok(length) = u8::try_from(name.len()) else { return };
        if self.chain(hash).any(|(_, known)| known == name) {
            return;
        }
        let next = self.heads.get(&hash).copied().unwrap_or(NONE);
        let at = self.append(next, length, name);
        self.heads.insert(hash, at);
        self.count += 1;
    }

    /// Takes a name out, if it is there.
    pub fn remove(&mut self, hash: u32, name: &[u8]) {
        let mut before = None;
        let Some(at) = self.chain(hash).find_map(|(at, known)| {
            let found = known == name;
            if !found {
                before = Some(at);
            }
            found.then_some(at)
        }) else {
            return;
        };
        let next = self.next(at);
        match before {
            Some(before) => {
                let (piece, from) = place(before);
                self.pieces[piece][from..from + 4].copy_from_slice(&next.to_ne_bytes());
            }
            None if next == NONE => {
                self.heads.remove(&hash);
            }
            None => {
                self.heads.insert(hash, next);
            }
        }
        self.waste_bytes += RECORD_FIXED + name.len();
        self.count -= 1;
    }

    fn append(&mut self, next: u32, length: u8, name: &[u8]) -> u32 {
        let bytes = RECORD_FIXED + name.len();
        let has_room = |piece: &Vec<u8>| piece.len() + bytes < PIECE_BYTES;
        if !self.pieces.last().is_some_and(has_room) {
            self.pieces.push(Vec::new());
        }
        let number = self.pieces.len() - 1;
        let piece = &mut self.pieces[number];
        if piece.len() + bytes > piece.capacity() {
            let before = piece.capacity();
            let wanted = grown(piece.len(), before, bytes);
            piece.reserve_exact(wanted - piece.len());
            self.piece_bytes += piece.capacity() - before;
        }
        let at = (number << 16 | piece.len()) as u32;
        piece.extend_from_slice(&next.to_ne_bytes());
        piece.push(length);
        piece.extend_from_slice(name);
        at
    }

    /// Records of one hash: place and name.
    fn chain(&self, hash: u32) -> impl Iterator<Item = (u32, &[u8])> {
        let first = self.heads.get(&hash).copied();
        let next = |at: &u32| Some(self.next(*at)).filter(|next| *next != NONE);
        std::iter::successors(first, next).map(|at| (at, self.name(at)))
    }

    fn next(&self, at: u32) -> u32 {
        let (piece, from) = place(at);
        let bytes = self.pieces[piece][from..].first_chunk();
        bytes.map_or(NONE, |bytes| u32::from_ne_bytes(*bytes))
    }

    fn name(&self, at: u32) -> &[u8] {
        let (piece, from) = place(at);
        let record = &self.pieces[piece][from + RECORD_FIXED - 1..];
        &record[1..=usize::from(record[0])]
    }
}

/// Capacity of a piece that has too little for so many bytes more: small at first, since
/// small directories are many.
fn grown(length: usize, capacity: usize, bytes: usize) -> usize {
    (2 * capacity).clamp(length + bytes, PIECE_BYTES)
}

fn place(at: u32) -> (usize, usize) {
    ((at >> 16) as usize, (at & 0xFFFF) as usize)
}

/// Bytes that the standard library's table takes for so many entries: a byte of
/// control and an entry for each of a power of two of places, seven eighths of
/// which may be taken.
fn table_bytes(capacity: usize) -> usize {
    const ENTRY_BYTES: usize = 1 + size_of::<(u32, u32)>();
    match capacity {
        0 => 0,
        1..=3 => 4 * ENTRY_BYTES,
        _ => (capacity * 8).div_ceil(7).next_power_of_two() * ENTRY_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    struct Both {
        hasher: RandomState,
        index: NameIndex,
        model: BTreeSet<Vec<u8>>,
    }

    impl Both {
        fn new() -> Self {
            Self { hasher: RandomState::new(), index: NameIndex::default(), model: BTreeSet::new() }
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
        let hasher = RandomState::new();
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
