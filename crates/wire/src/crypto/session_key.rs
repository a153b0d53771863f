//! What a logon leaves with both sides.

use std::fmt;
use zeroize::Zeroizing;

/// Longest key that is used, in bytes: that of AES-256.
const BYTES_MAX: usize = 32;

/// The key of a session: 16 bytes by NTLM, by Kerberos as long as the ticket's encryption type has
/// it. MS-SMB2 3.3.5.5.3: all derive from its first 16 bytes, filled up with zeros, but the keys
/// of AES-256, which derive from all of it. Wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey {
    bytes: Zeroizing<[u8; BYTES_MAX]>,
    length: usize,
}

impl SessionKey {
    /// A key of these bytes; what follows the first 32 is not used.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        let used = key.len().min(BYTES_MAX);
        let mut bytes = Zeroizing::new([0; BYTES_MAX]);
        bytes[..used].copy_from_slice(&key[..used]);
        Self { bytes, length: used.max(16) }
    }

    /// Session.SessionKey.
    #[must_use]
    pub fn first(&self) -> &[u8; 16] {
        self.bytes.first_chunk().expect("32 bytes have a first half")
    }

    /// Session.FullSessionKey.
    #[must_use]
    pub fn full(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_keys_are_filled_up_and_long_ones_are_cut() {
        let key = SessionKey::new(&[7; 8]);
        assert_eq!((key.first()[7], key.first()[8], key.full().len()), (7, 0, 16));
        let key = SessionKey::new(&[7; 40]);
        assert_eq!((key.first(), key.full()), (&[7; 16], &[7; 32][..]));
        assert_eq!(SessionKey::new(&[7; 24]).full(), &[7; 24]);
        assert!(!format!("{key:?}").contains('7'));
    }
}
