//! Deterministic random mutations of inputs.

/// A small random number generator (splitmix64): repeatable, not secret.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator for a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end.max(1) as u64) as usize
    }
}

/// Values at the edges of counts and lengths.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    7,
    8,
    63,
    64,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    u64::MAX,
];

/// A mutated copy of some input of `corpus`, or random bytes.
pub fn mutate(rng: &mut Rng, corpus: &[Vec<u8>], bytes_max: usize) -> Vec<u8> {
    let mut bytes = match corpus.len() {
        0 => random(rng, 64),
        count => corpus[rng.below(count)].clone(),
    };
    // Few changes in most cases: many at once are refused early.
    for _ in 0..1 + rng.below(4) * rng.below(4) {
        change(rng, &mut bytes, corpus);
    }
    bytes.truncate(bytes_max);
    bytes
}

fn random(rng: &mut Rng, length_max: usize) -> Vec<u8> {
    (0..rng.below(length_max)).map(|_| rng.number() as u8).collect()
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = rng.below(bytes.len());
    match rng.below(10) {
        0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << rng.below(8),
        2 if !bytes.is_empty() => bytes[at] = rng.number() as u8,
        3 | 4 => put_edge(rng, bytes),
        5 => bytes.truncate(at),
        6 => {
            let end = at + rng.below(bytes.len() - at);
            bytes.drain(at..end);
        }
        7 => {
            let some = random(rng, 32);
            bytes.splice(at..at, some);
        }
        8 => {
            let end = at + rng.below((bytes.len() - at).min(256));
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        _ => splice(rng, bytes, corpus),
    }
}

/// Writes an edge value, or a number near the present one, to a possible field.
fn put_edge(rng: &mut Rng, bytes: &mut [u8]) {
    let width = 1 << rng.below(4);
    let Some(room) = bytes.len().checked_sub(width) else { return };
    let at = (rng.below(room + 1) / width * width).min(room);
    let field = &mut bytes[at..at + width];
    let mut old = [0; 8];
    old[..width].copy_from_slice(field);
    let value = match rng.below(3) {
        0 => u64::from_le_bytes(old).wrapping_add(rng.below(17) as u64).wrapping_sub(8),
        _ => EDGES[rng.below(EDGES.len())],
    };
    field.copy_from_slice(&value.to_le_bytes()[..width]);
}

/// Joins the front of this input and the back of another one.
fn splice(rng: &mut Rng, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    if corpus.is_empty() {
        return;
    }
    let other = &corpus[rng.below(corpus.len())];
    let (keep, from) = (rng.below(bytes.len() + 1), rng.below(other.len() + 1));
    bytes.truncate(keep);
    bytes.extend_from_slice(&other[from..]);
}
