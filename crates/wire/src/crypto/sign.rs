//! Message signing. MS-SMB2 3.1.4.1, 3.1.5.1.

use crate::smb::{Command, Flags, Header};
use aws_lc_rs::{aead, constant_time, hmac};

/// Signing algorithms of the signing capabilities context. MS-SMB2 2.2.3.1.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningAlgorithm {
    /// Dialects before 3.0.
    HmacSha256,
    /// 3.0 and later.
    AesCmac,
    /// 3.1.1, if both sides support it.
    AesGmac,
}

impl SigningAlgorithm {
    /// The algorithm with this number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        [Self::HmacSha256, Self::AesCmac, Self::AesGmac].into_iter().find(|a| a.number() == number)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::HmacSha256 => 0,
            Self::AesCmac => 1,
            Self::AesGmac => 2,
        }
    }

    /// Its display name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HmacSha256 => "HMAC-SHA256",
            Self::AesCmac => "AES-128-CMAC",
            Self::AesGmac => "AES-128-GMAC",
        }
    }
}

/// A prepared signing key. Several threads may use it concurrently.
pub struct SigningKey(AlgorithmKey);

#[allow(clippy::large_enum_variant)] // A session has one key, and every message uses it.
enum AlgorithmKey {
    HmacSha256(hmac::Key),
    AesCmac(lanes::LaneKey),
    AesGmac(Box<aead::LessSafeKey>),
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

impl SigningKey {
    /// Prepares a 16-byte key.
    ///
    /// # Panics
    /// Never: AES-128 takes any 16 bytes.
    #[must_use]
    pub fn new(algorithm: SigningAlgorithm, key: &[u8; 16]) -> Self {
        Self(match algorithm {
            SigningAlgorithm::HmacSha256 => {
                AlgorithmKey::HmacSha256(hmac::Key::new(hmac::HMAC_SHA256, key))
            }
            SigningAlgorithm::AesCmac => AlgorithmKey::AesCmac(lanes::LaneKey::new(key)),
            SigningAlgorithm::AesGmac => {
                let key = aead::UnboundKey::new(&aead::AES_128_GCM, key)
                    .expect("AES-128 takes any 16 bytes");
                AlgorithmKey::AesGmac(Box::new(aead::LessSafeKey::new(key)))
            }
        })
    }

    /// The algorithm that the key belongs to.
    #[must_use]
    pub fn algorithm(&self) -> SigningAlgorithm {
        match &self.0 {
            AlgorithmKey::HmacSha256(_) => SigningAlgorithm::HmacSha256,
            AlgorithmKey::AesCmac(_) => SigningAlgorithm::AesCmac,
            AlgorithmKey::AesGmac(_) => SigningAlgorithm::AesGmac,
        }
    }

    /// Signs a message, from its header to its end, in place.
    ///
    /// # Panics
    /// If `message` is shorter than a header.
    pub fn sign(&self, message: &mut [u8]) {
        message[Header::SIGNATURE].fill(0);
        let signature = self.compute(message);
        message[Header::SIGNATURE].copy_from_slice(&signature);
    }

    /// Signs messages in place, each from its header to its end. AES-CMAC signs a batch in a
    /// fraction of the time of single calls.
    ///
    /// # Panics
    /// If a message is shorter than a header.
    pub fn sign_all(&self, messages: &mut [&mut [u8]]) {
        let AlgorithmKey::AesCmac(key) = &self.0 else {
            return messages.iter_mut().for_each(|message| self.sign(message));
        };
        for message in messages.iter_mut() {
            message[Header::SIGNATURE].fill(0);
        }
        let unsigned: Vec<&[u8]> = messages.iter().map(|message| &**message).collect();
        let signatures = key.sign_all(&unsigned);
        for (message, signature) in messages.iter_mut().zip(signatures) {
            message[Header::SIGNATURE].copy_from_slice(&signature);
        }
    }

    /// True if a message, from its header to its end, carries the correct signature. Copies
    /// nothing, and leaves the message unchanged.
    #[must_use]
    pub fn verify_in_place(&self, message: &mut [u8]) -> bool {
        let Some(field) = message.get_mut(Header::SIGNATURE) else { return false };
        let mut sent = [0; 16];
        sent.copy_from_slice(field);
        field.fill(0);
        let expected = self.compute(message);
        message[Header::SIGNATURE].copy_from_slice(&sent);
        constant_time::verify_slices_are_equal(&sent, &expected).is_ok()
    }

    /// Like [`SigningKey::verify_in_place`], for a batch; AES-CMAC verifies it in a fraction of the
    /// time.
    #[must_use]
    pub fn verify_all(&self, messages: &mut [&mut [u8]]) -> Vec<bool> {
        let AlgorithmKey::AesCmac(key) = &self.0 else {
            return messages.iter_mut().map(|message| self.verify_in_place(message)).collect();
        };
        // A message without room for a signature has none to compare with.
        let sent: Vec<Option<[u8; 16]>> = messages
            .iter_mut()
            .map(|message| {
                let field = message.get_mut(Header::SIGNATURE)?;
                let sent = <[u8; 16]>::try_from(&*field).ok()?;
                field.fill(0);
                Some(sent)
            })
            .collect();
        let unsigned: Vec<&[u8]> = messages.iter().map(|message| &**message).collect();
        let expected = key.sign_all(&unsigned);
        let restored = messages.iter_mut().zip(sent).zip(expected);
        restored
            .map(|((message, sent), expected)| {
                let Some(sent) = sent else { return false };
                message[Header::SIGNATURE].copy_from_slice(&sent);
                constant_time::verify_slices_are_equal(&sent, &expected).is_ok()
            })
            .collect()
    }

    /// Like [`SigningKey::verify_in_place`], for an immutable message. AES-GMAC copies it.
    #[must_use]
    pub fn verify(&self, message: &[u8]) -> bool {
        let Some(sent) = message.get(Header::SIGNATURE) else { return false };
        let expected = match &self.0 {
            AlgorithmKey::HmacSha256(key) => {
                let mut mac = hmac::Context::with_key(key);
                mac.update(&message[..Header::SIGNATURE.start]);
                mac.update(&[0; 16]);
                mac.update(&message[Header::SIGNATURE.end..]);
                first_16(mac.sign().as_ref())
            }
            AlgorithmKey::AesCmac(key) => key.sign(&[
                &message[..Header::SIGNATURE.start],
                &[0; 16],
                &message[Header::SIGNATURE.end..],
            ]),
            // The library takes one contiguous input only.
            AlgorithmKey::AesGmac(_) => {
                let mut copy = message.to_vec();
                copy[Header::SIGNATURE].fill(0);
                self.compute(&copy)
            }
        };
        constant_time::verify_slices_are_equal(sent, &expected).is_ok()
    }

    fn compute(&self, message: &[u8]) -> [u8; 16] {
        match &self.0 {
            AlgorithmKey::HmacSha256(key) => first_16(hmac::sign(key, message).as_ref()),
            AlgorithmKey::AesCmac(key) => key.sign(&[message]),
            AlgorithmKey::AesGmac(key) => gmac(key, message),
        }
    }
}

/// GMAC with the nonce of MS-SMB2 3.1.4.1: the message id, one bit for the server and one for
/// CANCEL.
fn gmac(key: &aead::LessSafeKey, message: &[u8]) -> [u8; 16] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&message[24..32]);
    let flags = u32::from_le_bytes([message[16], message[17], message[18], message[19]]);
    let command = Command(u16::from_le_bytes([message[12], message[13]]));
    let is_cancel = command == Command::CANCEL;
    nonce[8] = u8::from(Flags(flags).contains(Flags::RESPONSE)) | u8::from(is_cancel) << 1;
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    match key.seal_in_place_separate_tag(nonce, aead::Aad::from(message), &mut []) {
        Ok(tag) => first_16(tag.as_ref()),
        Err(_) => [0; 16],
    }
}

fn first_16(bytes: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    out.copy_from_slice(&bytes[..16]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_verify_judges_each_message_without_changing_it() {
        for number in 0..3 {
            let algorithm = SigningAlgorithm::from_number(number).unwrap();
            let key = SigningKey::new(algorithm, &[7; 16]);
            let mut messages: Vec<Vec<u8>> =
                (0..9).map(|at| vec![at; 64 + 40 * at as usize]).collect();
            messages.iter_mut().for_each(|message| key.sign(message));
            messages[2][63] ^= 1;
            messages[5][99] ^= 0x80;
            messages[7].truncate(50);
            let before = messages.clone();
            let mut parts: Vec<&mut [u8]> = messages.iter_mut().map(Vec::as_mut_slice).collect();
            let good = key.verify_all(&mut parts);
            let expected: Vec<bool> = (0..9).map(|at| ![2, 5, 7].contains(&at)).collect();
            assert_eq!(good, expected, "{algorithm:?}");
            assert_eq!(messages, before);
        }
    }

    #[test]
    fn batch_signatures_equal_single_signatures() {
        for number in 0..3 {
            let algorithm = SigningAlgorithm::from_number(number).unwrap();
            let key = SigningKey::new(algorithm, &[7; 16]);
            let mut together: Vec<Vec<u8>> = (64..74).map(|length| vec![3; length * 7]).collect();
            let mut alone = together.clone();
            alone.iter_mut().for_each(|message| key.sign(message));
            key.sign_all(&mut together.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
            assert_eq!(together, alone, "{algorithm:?}");
        }
    }

    #[test]
    fn verify_methods_agree_and_leave_the_message_unchanged() {
        for number in 0..3 {
            let algorithm = SigningAlgorithm::from_number(number).unwrap();
            let key = SigningKey::new(algorithm, &[7; 16]);
            let mut message: Vec<u8> = (0..200).collect();
            key.sign(&mut message);
            for flipped in [None, Some(0), Some(Header::SIGNATURE.start), Some(199)] {
                let mut sent = message.clone();
                if let Some(at) = flipped {
                    sent[at] ^= 1;
                }
                let before = sent.clone();
                assert_eq!(key.verify(&sent), flipped.is_none(), "{algorithm:?} {flipped:?}");
                assert_eq!(key.verify_in_place(&mut sent), flipped.is_none());
                assert_eq!(sent, before);
            }
            assert!(!key.verify_in_place(&mut [0; 60]), "shorter than a header");
        }
    }
}
