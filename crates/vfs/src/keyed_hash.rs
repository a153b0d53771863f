//! Hash tables with a secret key. Clients choose names, owners and keys, and must not be able to
//! make them collide. A simulated run passes its own key, so that it is reproducible.

use foldhash::SharedSeed;
use foldhash::quality::{FoldHasher, SeedableRandomState};
use std::hash::{BuildHasher, RandomState};

/// [`BuildHasher`] with one key. A request looks into a dozen tables, for which SipHash took three
/// to five per cent of the server's CPU time on names.
#[derive(Clone, Debug)]
pub struct KeyedBuildHasher(SeedableRandomState);

impl KeyedBuildHasher {
    /// With a given key, on which every hash depends.
    #[must_use]
    pub fn by(key: u64) -> Self {
        Self(SeedableRandomState::with_seed(key, SharedSeed::global_fixed()))
    }

    /// With a secret key, and the secret that all tables of this process share.
    #[must_use]
    pub fn random() -> Self {
        let key = RandomState::new().hash_one(0);
        Self(SeedableRandomState::with_seed(key, SharedSeed::global_random()))
    }
}

/// Same as [`KeyedBuildHasher::random`].
impl Default for KeyedBuildHasher {
    fn default() -> Self {
        Self::random()
    }
}

impl BuildHasher for KeyedBuildHasher {
    type Hasher = FoldHasher<'static>;

    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_hash_alike_and_others_differ() {
        let of = |key| KeyedBuildHasher::by(key).hash_one("name");
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        assert_ne!(
            KeyedBuildHasher::random().hash_one("name"),
            KeyedBuildHasher::random().hash_one("name")
        );
    }
}
