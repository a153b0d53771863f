//! Key derivation for channels and sessions, shared by client and server. MS-SMB2 3.2.5.3.1,
//! 3.3.5.5.3.

use crate::crypto::{
    Cipher, KeyPurpose, PreauthHash, SessionKey, SigningAlgorithm, SigningKey, derive,
};
use crate::smb::Dialect;
use zeroize::Zeroizing;

/// The inputs of key derivation. The first channel's inputs give the session's keys; a further
/// channel's inputs give that channel's signing key.
#[derive(Clone, Copy, Debug)]
pub struct KeySource<'a> {
    /// The connection's dialect.
    pub dialect: Dialect,
    /// The logon's session key. A channel that binds to a session uses that session's key.
    pub session_key: &'a SessionKey,
    /// The preauthentication hash after the last SESSION_SETUP request.
    pub preauth: &'a PreauthHash,
}

impl KeySource<'_> {
    /// The signing key. Dialects before 3.0 sign with the session key itself.
    #[must_use]
    pub fn signing(&self, algorithm: SigningAlgorithm) -> SigningKey {
        if self.dialect < Dialect::Smb300 {
            return SigningKey::new(algorithm, self.session_key.first());
        }
        let key = self.derive(self.session_key.first(), KeyPurpose::Signing);
        SigningKey::new(algorithm, &key)
    }

    /// The encryption or decryption key for `purpose`. AES-128 uses its first half.
    #[must_use]
    pub fn sealing(&self, cipher: Cipher, purpose: KeyPurpose) -> Zeroizing<[u8; 32]> {
        if cipher.is_256() {
            return self.derive(self.session_key.full(), purpose);
        }
        let half: Zeroizing<[u8; 16]> = self.derive(self.session_key.first(), purpose);
        let mut key = Zeroizing::new([0; 32]);
        key[..16].copy_from_slice(&*half);
        key
    }

    /// Derives a key that is wiped when it is dropped.
    fn derive<const N: usize>(&self, key: &[u8], purpose: KeyPurpose) -> Zeroizing<[u8; N]> {
        Zeroizing::new(derive(self.dialect, key, purpose, &self.preauth.0))
    }
}
