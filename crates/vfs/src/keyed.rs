//! Hashes by a key that nobody outside knows: clients choose names, owners and keys, and must not
//! choose where they meet in a table; a simulated run hands its key in, and is the same a second
//! time.

use foldhash::SharedSeed;
use foldhash::quality::{FoldHasher, SeedableRandomState};
use std::hash::{BuildHasher, RandomState};

/// Makes hashers of one key. A request asks a dozen tables, for which SipHash took three to five
/// per cent of what names cost the server.
#[derive(Clone, Debug)]
pub struct Keyed(SeedableRandomState);

impl Keyed {
    /// All that follows depends on the key.
    #[must_use]
    pub fn by(key: u64) -> Self {
        Self(SeedableRandomState::with_seed(key, SharedSeed::global_fixed()))
    }

    /// A key that nobody knows, nor what all of this process have in common.
    #[must_use]
    pub fn random() -> Self {
        let key = RandomState::new().hash_one(0);
        Self(SeedableRandomState::with_seed(key, SharedSeed::global_random()))
    }
}

/// One that nobody knows.
impl Default for Keyed {
    fn default() -> Self {
        Self::random()
    }
}

impl BuildHasher for Keyed {
    type Hasher = FoldHasher<'static>;

    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_has_the_same_numbers_and_another_has_others() {
        let of = |key| Keyed::by(key).hash_one("name");
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        assert_ne!(Keyed::random().hash_one("name"), Keyed::random().hash_one("name"));
    }
}
