//! Hashes by a key that is handed in: clients choose names and must not choose where they
//! meet, and a simulated run must be the same a second time.

use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};

/// Makes hashers of one key.
#[derive(Clone, Debug)]
pub struct Keyed(DefaultHasher);

impl Keyed {
    /// All that follows depends on the key.
    #[must_use]
    pub fn by(key: u128) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write_u128(key);
        Self(hasher)
    }

    /// A key that nobody knows.
    #[must_use]
    pub fn random() -> Self {
        let half = |number: u8| u128::from(RandomState::new().hash_one(number));
        Self::by(half(0) << 64 | half(1))
    }
}

impl BuildHasher for Keyed {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.0.clone()
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
