//! Sealing (encryption) of messages. MS-SMB2 3.1.4.3, 3.3.5.2.1.1.

use crate::smb::{SessionId, TransformHeader};
use aes::{Aes128, Aes256};
use aws_lc_rs::aead;
use ccm::aead::{AeadInOut, KeyInit};
use ccm::consts::{U11, U16};
use std::sync::atomic::{AtomicU64, Ordering};

/// Ciphers of the encryption capabilities context. MS-SMB2 2.2.3.1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// Number 1.
    Aes128Ccm,
    /// Number 2.
    Aes128Gcm,
    /// Number 3.
    Aes256Ccm,
    /// Number 4.
    Aes256Gcm,
}

impl Cipher {
    /// The cipher with this number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        match number {
            1 => Some(Self::Aes128Ccm),
            2 => Some(Self::Aes128Gcm),
            3 => Some(Self::Aes256Ccm),
            4 => Some(Self::Aes256Gcm),
            _ => None,
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Aes128Ccm => 1,
            Self::Aes128Gcm => 2,
            Self::Aes256Ccm => 3,
            Self::Aes256Gcm => 4,
        }
    }

    /// True if the key has 32 bytes.
    #[must_use]
    pub fn is_256(self) -> bool {
        matches!(self, Self::Aes256Ccm | Self::Aes256Gcm)
    }

    /// Its display name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Ccm => "AES-128-CCM",
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Ccm => "AES-256-CCM",
            Self::Aes256Gcm => "AES-256-GCM",
        }
    }
}

/// The tag does not match: the message was tampered with, or sealed with another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealMismatch;

/// An encryption key. Several threads may use it concurrently.
///
/// The key owns its nonce counter and cannot be cloned, so no two messages under it share a nonce.
/// All channels of a session use the same instance. MS-SMB2 3.1.4.3.
#[derive(Debug)]
pub struct SealingKey {
    key: CipherKey,
    next_nonce: AtomicU64,
}

/// A decryption key. Several threads may use it concurrently.
#[derive(Debug)]
pub struct OpeningKey(CipherKey);

enum CipherKey {
    Gcm(Box<aead::LessSafeKey>),
    Ccm128(Box<ccm::Ccm<Aes128, U16, U11>>),
    Ccm256(Box<ccm::Ccm<Aes256, U16, U11>>),
}

impl std::fmt::Debug for CipherKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CipherKey(..)")
    }
}

impl CipherKey {
    fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        let gcm = |algorithm, key: &[u8]| {
            let key = aead::UnboundKey::new(algorithm, key).expect("the length is the algorithm's");
            Self::Gcm(Box::new(aead::LessSafeKey::new(key)))
        };
        match cipher {
            Cipher::Aes128Gcm => gcm(&aead::AES_128_GCM, &key[..16]),
            Cipher::Aes256Gcm => gcm(&aead::AES_256_GCM, key),
            Cipher::Aes128Ccm => {
                Self::Ccm128(Box::new(ccm::Ccm::new_from_slice(&key[..16]).expect("16 bytes")))
            }
            Cipher::Aes256Ccm => {
                Self::Ccm256(Box::new(ccm::Ccm::new_from_slice(key).expect("32 bytes")))
            }
        }
    }

    fn seal(
        &self,
        nonce: &[u8; 16],
        aad: &[u8],
        body: &mut [u8],
    ) -> Result<[u8; 16], SealMismatch> {
        let mut tag = [0; 16];
        match self {
            Self::Gcm(key) => {
                let nonce = aead::Nonce::try_assume_unique_for_key(&nonce[..12])
                    .map_err(|_| SealMismatch)?;
                let sealed = key
                    .seal_in_place_separate_tag(nonce, aead::Aad::from(aad), body)
                    .map_err(|_| SealMismatch)?;
                tag.copy_from_slice(sealed.as_ref());
            }
            Self::Ccm128(key) => {
                let sealed = key
                    .encrypt_inout_detached(&ccm_nonce(nonce), aad, body.into())
                    .map_err(|_| SealMismatch)?;
                tag.copy_from_slice(&sealed);
            }
            Self::Ccm256(key) => {
                let sealed = key
                    .encrypt_inout_detached(&ccm_nonce(nonce), aad, body.into())
                    .map_err(|_| SealMismatch)?;
                tag.copy_from_slice(&sealed);
            }
        }
        Ok(tag)
    }

    fn open(
        &self,
        nonce: &[u8; 16],
        aad: &[u8],
        body: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), SealMismatch> {
        match self {
            Self::Gcm(key) => {
                let nonce = aead::Nonce::try_assume_unique_for_key(&nonce[..12])
                    .map_err(|_| SealMismatch)?;
                key.open_in_place_separate_tag(nonce, aead::Aad::from(aad), tag, body)
                    .map_err(|_| SealMismatch)?;
            }
            Self::Ccm128(key) => {
                key.decrypt_inout_detached(&ccm_nonce(nonce), aad, body.into(), tag.into())
                    .map_err(|_| SealMismatch)?;
            }
            Self::Ccm256(key) => {
                key.decrypt_inout_detached(&ccm_nonce(nonce), aad, body.into(), tag.into())
                    .map_err(|_| SealMismatch)?;
            }
        }
        Ok(())
    }
}

fn ccm_nonce(nonce: &[u8; 16]) -> ccm::Nonce<U11> {
    let mut first = [0; 11];
    first.copy_from_slice(&nonce[..11]);
    first.into()
}

impl SealingKey {
    /// Prepares a key; ciphers of 128 bits use its first half.
    #[must_use]
    pub fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        Self { key: CipherKey::new(cipher, key), next_nonce: AtomicU64::new(1) }
    }

    /// Seals `frame[52..]` in place under a fresh nonce and writes the transform header before it.
    ///
    /// # Panics
    /// If `frame` is shorter than a transform header.
    pub fn seal_in_place(&self, frame: &mut [u8], session_id: SessionId) {
        // A 64-bit counter does not wrap during the lifetime of a session.
        let counter = self.next_nonce.fetch_add(1, Ordering::Relaxed);
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&counter.to_le_bytes());
        let (head, body) = frame.split_at_mut(TransformHeader::LENGTH);
        let mut header = TransformHeader {
            signature: [0; 16],
            nonce,
            original_bytes: body.len() as u32,
            session_id,
        };
        header.put(head);
        header.signature = self
            .key
            .seal(&nonce, &head[TransformHeader::AUTHENTICATED..], body)
            .expect("lengths are bounded by the frame, far below the ciphers' limits");
        header.put(head);
    }
}

impl OpeningKey {
    /// Prepares a key; ciphers of 128 bits use its first half.
    #[must_use]
    pub fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        Self(CipherKey::new(cipher, key))
    }

    /// Opens a sealed frame in place; afterwards `frame[52..]` is plaintext.
    ///
    /// # Errors
    /// [`SealMismatch`]: the caller must not use the contents of `frame`.
    pub fn open_in_place(&self, frame: &mut [u8]) -> Result<(), SealMismatch> {
        let header = TransformHeader::decode(frame).map_err(|_| SealMismatch)?;
        let (head, body) = frame.split_at_mut(TransformHeader::LENGTH);
        self.0.open(&header.nonce, &head[TransformHeader::AUTHENTICATED..], body, &header.signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_wiped_on_drop() {
        fn wiped<T: zeroize::ZeroizeOnDrop>() {}
        // aws-lc wipes its keys in its own allocator.
        wiped::<Aes128>();
        wiped::<Aes256>();
        wiped::<zeroize::Zeroizing<[u8; 32]>>();
    }

    #[test]
    fn concurrent_seals_never_share_a_nonce() {
        let key = SealingKey::new(Cipher::Aes128Gcm, &[7; 32]);
        let seal = || {
            let mut frame = [0; TransformHeader::LENGTH + 8];
            key.seal_in_place(&mut frame, SessionId(5));
            TransformHeader::decode(&frame).unwrap().nonce
        };
        let nonces: Vec<[u8; 16]> = std::thread::scope(|scope| {
            let sealer = |_| scope.spawn(|| (0..100).map(|_| seal()).collect::<Vec<_>>());
            let sealers: Vec<_> = (0..4).map(sealer).collect();
            sealers.into_iter().flat_map(|sealer| sealer.join().unwrap()).collect()
        });
        let unique: std::collections::BTreeSet<_> = nonces.iter().collect();
        assert_eq!((nonces.len(), unique.len()), (400, 400));
    }

    #[test]
    fn sealed_message_opens_with_its_own_key_only() {
        for number in 1..=4 {
            let cipher = Cipher::from_number(number).unwrap();
            let mut frame = vec![0; TransformHeader::LENGTH];
            frame.extend_from_slice(b"some message of no round length");
            let plain = frame[TransformHeader::LENGTH..].to_vec();
            SealingKey::new(cipher, &[7; 32]).seal_in_place(&mut frame, SessionId(5));
            assert_ne!(frame[TransformHeader::LENGTH..], plain);
            for at in [4, 20, 44, 60] {
                let mut changed = frame.clone();
                changed[at] ^= 1;
                assert_eq!(
                    OpeningKey::new(cipher, &[7; 32]).open_in_place(&mut changed),
                    Err(SealMismatch),
                    "{at}"
                );
            }
            assert_eq!(
                OpeningKey::new(cipher, &[8; 32]).open_in_place(&mut frame.clone()),
                Err(SealMismatch)
            );
            assert_eq!(OpeningKey::new(cipher, &[7; 32]).open_in_place(&mut frame), Ok(()));
            assert_eq!(frame[TransformHeader::LENGTH..], plain);
        }
    }
}
