//! AES-CMAC tags under a key that only the server has. They authenticate opaque values that the
//! server issues and receives back. RFC 4493.

/// A key for tags that only this server verifies.
pub struct TagKey(lanes::LaneKey);

impl TagKey {
    /// Prepares a key.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Self {
        Self(lanes::LaneKey::new(key))
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
    fn tag_matches_rfc_4493_and_debug_hides_the_key() {
        let key = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes();
        let message = 0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a_u128.to_be_bytes();
        let key = TagKey::new(&key);
        let tag = 0x070a_16b4_6b4d_4144_f79b_dd9d_d04a_287c_u128.to_be_bytes();
        assert_eq!(key.tag(&message), tag);
        assert_eq!(format!("{key:?}"), "TagKey(..)");
    }
}
