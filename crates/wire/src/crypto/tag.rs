//! Tags under a key that only the server has: on what it hands out and wants to know again.
//! RFC 4493.

/// A key for tags that nobody else needs to verify.
pub struct TagKey(lanes::Key);

impl TagKey {
    /// Prepares a key.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Self {
        Self(lanes::Key::new(key))
    }

    /// The tag of these bytes.
    #[must_use]
    pub fn tag(&self, bytes: &[u8]) -> [u8; 16] {
        self.0.sign(&[bytes])
    }
}

impl std::fmt::Debug for TagKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TagKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_that_of_rfc_4493_and_its_key_is_not_shown() {
        let key = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes();
        let message = 0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a_u128.to_be_bytes();
        let key = TagKey::new(&key);
        let tag = 0x070a_16b4_6b4d_4144_f79b_dd9d_d04a_287c_u128.to_be_bytes();
        assert_eq!(key.tag(&message), tag);
        assert_eq!(format!("{key:?}"), "TagKey(..)");
    }
}
