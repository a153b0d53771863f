//! Pseudo-random numbers from a seed: SplitMix64.

/// A random number stream.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which must be nonzero.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    /// Like [`Random::below`], for small numbers.
    pub fn small(&mut self, end: u8) -> u8 {
        u8::try_from(self.below(usize::from(end))).unwrap_or(0)
    }

    /// True with this probability, in percent.
    pub fn percent(&mut self, chance: u32) -> bool {
        self.next() % 100 < u64::from(chance)
    }

    /// An element of `from`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Index of one of `weights`, whose sum must be nonzero.
    pub fn weighted(&mut self, weights: impl Iterator<Item = u32> + Clone) -> usize {
        let mut left = self.next() % u64::from(weights.clone().sum::<u32>());
        for (at, weight) in weights.enumerate() {
            if left < u64::from(weight) {
                return at;
            }
            left -= u64::from(weight);
        }
        0
    }

    /// Splits off an independent stream.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }
}
