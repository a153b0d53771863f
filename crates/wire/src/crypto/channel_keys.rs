//! The keys of a channel and of its session, as both ends make them.
//! MS-SMB2 3.2.5.3.1, 3.3.5.5.3.

use crate::crypto::{
    Cipher, KeyPurpose, PreauthHash, SessionKey, SigningAlgorithm, SigningKey, derive,
};
use crate::smb::Dialect;
use zeroize::Zeroizing;

/// What keys are made of: those of a session by its first channel's, those of
/// a further channel by its own.
#[derive(Clone, Copy, Debug)]
pub struct KeySource<'a> {
    /// The connection's dialect.
    pub dialect: Dialect,
    /// What the logon gave, or the session's if a channel is bound to it.
    pub session_key: &'a SessionKey,
    /// The hash after the last SESSION_SETUP request.
    pub preauth: &'a PreauthHash,
}

impl KeySource<'_> {
    /// The key to sign with. Dialects before 3.0 sign with the session key itself.
    #[must_use]
    pub fn signing(&self, algorithm: SigningAlgorithm) -> SigningKey {
        if self.dialect < Dialect::Smb300 {
            return SigningKey::new(algorithm, self.session_key.first());
        }
        let key = self.derive(self.session_key.first(), KeyPurpose::Signing);
        SigningKey::new(algorithm, &key)
    }

    /// The key to seal or open with, by its purpose; of AES-128 the first half is used.
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

    /// A key that is wiped once it is prepared.
    fn derive<const N: usize>(&self, key: &[u8], purpose: KeyPurpose) -> Zeroizing<[u8; N]> {
        Zeroizing::new(derive(self.dialect, key, purpose, &self.preauth.0))
    }
}
