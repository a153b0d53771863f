//! The session key that a logon establishes.

use std::fmt;
use zeroize::Zeroizing;

/// Maximum length of the key in use, in bytes: that of AES-256.
const BYTES_MAX: usize = 32;

/// The session key: 16 bytes with NTLM; with Kerberos its length follows the ticket's encryption
/// type. Key derivation uses its first 16 bytes, padded with zeros; AES-256 keys use all of it.
/// MS-SMB2 3.3.5.5.3. Wiped on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey {
    bytes: Zeroizing<[u8; BYTES_MAX]>,
    length: usize,
}

impl SessionKey {
    /// Takes the first 32 bytes of `key`.
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
    fn short_keys_are_padded_and_long_keys_truncated() {
        let key = SessionKey::new(&[7; 8]);
        assert_eq!((key.first()[7], key.first()[8], key.full().len()), (7, 0, 16));
        let key = SessionKey::new(&[7; 40]);
        assert_eq!((key.first(), key.full()), (&[7; 16], &[7; 32][..]));
        assert_eq!(SessionKey::new(&[7; 24]).full(), &[7; 24]);
        assert!(!format!("{key:?}").contains('7'));
    }
}
