//! Test support: observes the frames that one end of a connection sends, and detects nonce reuse.
//!
//! AES-GMAC's nonce is made of the message id, the sender's role and the CANCEL bit. Two different
//! messages under one nonce reveal the authentication key. MS-SMB2 3.1.4.1. The check applies to
//! all signing algorithms on one connection, so that each session detects a violation.

use crate::codec::Reader;
use crate::crypto::SigningAlgorithm;
use crate::smb::negotiate::{NegotiateResponse, context, decode_algorithms};
use crate::smb::{Command, Flags, Header, SessionId, TransformHeader};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use sync::Mutex;

/// The parts of a signature's nonce, and the session whose channel key it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SignatureNonce {
    session_id: SessionId,
    message_id: u64,
    is_response: bool,
    is_cancel: bool,
}

/// Nonces across all connections of a server: the connections of a session share its AES-GMAC key
/// and its encryption key.
#[derive(Debug, Default)]
pub struct Witness {
    gmac: HashMap<SignatureNonce, [u8; 16]>,
    seals: HashMap<(SessionId, [u8; 16]), [u8; 16]>,
}

impl Witness {
    /// The number of distinct AES-GMAC-signed and of distinct sealed messages.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.gmac.len(), self.seals.len())
    }
}

/// The signatures and seals that one end of one connection has sent.
#[derive(Debug, Default)]
pub struct Wiretap {
    witness: Arc<Mutex<Witness>>,
    signatures: HashMap<SignatureNonce, [u8; 16]>,
    signs_by_gmac: bool,
    signed: u64,
}

impl Wiretap {
    /// Observes one of several connections that share a witness.
    #[must_use]
    pub fn beside(witness: &Arc<Mutex<Witness>>) -> Self {
        Self { witness: witness.clone(), ..Self::default() }
    }

    /// Records a frame without its direct-TCP prefix. An identical retransmission reveals nothing
    /// and is allowed.
    ///
    /// # Errors
    /// A description of the two uses of one nonce, or of the malformed frame.
    pub fn observe(&mut self, frame: &[u8]) -> Result<(), String> {
        if let Ok(header) = TransformHeader::decode(frame) {
            let nonce = (header.session_id, header.nonce);
            let mut witness = self.witness.lock();
            return note(&mut witness.seals, nonce, header.signature);
        }
        let mut rest = frame;
        loop {
            let mut reader = Reader::new(rest);
            let header = Header::decode(&mut reader)
                .map_err(|malformed| format!("no message: {malformed}"))?;
            if header.command == Command::NEGOTIATE && header.flags.contains(Flags::RESPONSE) {
                self.signs_by_gmac = chooses_gmac(&mut reader);
            }
            self.observe_message(&header)?;
            match header.next_command {
                0 => return Ok(()),
                next => rest = rest.get(next as usize..).ok_or("a chain beyond its frame")?,
            }
        }
    }

    /// The number of signed messages.
    #[must_use]
    pub fn signed(&self) -> u64 {
        self.signed
    }

    fn observe_message(&mut self, header: &Header) -> Result<(), String> {
        if !header.flags.contains(Flags::SIGNED) {
            let is_blank = header.signature == [0; 16];
            return if is_blank { Ok(()) } else { Err(format!("half signed: {header:?}")) };
        }
        self.signed += 1;
        let nonce = SignatureNonce {
            session_id: header.session_id,
            message_id: header.message_id.0,
            is_response: header.flags.contains(Flags::RESPONSE),
            is_cancel: header.command == Command::CANCEL,
        };
        if !self.signs_by_gmac {
            return note(&mut self.signatures, nonce, header.signature);
        }
        let mut witness = self.witness.lock();
        note(&mut witness.gmac, nonce, header.signature)
    }
}

fn chooses_gmac(body: &mut Reader<'_>) -> bool {
    let Ok(response) = NegotiateResponse::decode(body) else { return false };
    let chosen = response.context(context::SIGNING).map(decode_algorithms);
    matches!(chosen, Some(Ok(numbers)) if numbers == [SigningAlgorithm::AesGmac.number()])
}

fn note<N: std::hash::Hash + Eq + std::fmt::Debug>(
    noted: &mut HashMap<N, [u8; 16]>,
    nonce: N,
    tag: [u8; 16],
) -> Result<(), String> {
    match noted.entry(nonce) {
        Entry::Occupied(entry) if *entry.get() != tag => {
            Err(format!("two messages share a nonce: {:?}", entry.key()))
        }
        Entry::Occupied(_) => Ok(()),
        Entry::Vacant(entry) => {
            entry.insert(tag);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Writer;
    use crate::crypto::{Cipher, SealingKey, SigningAlgorithm, SigningKey};
    use crate::ntstatus::NtStatus;
    use crate::smb::{MessageId, TreeId};

    fn reply(message_id: u64, status: NtStatus, signs: bool) -> Vec<u8> {
        let flags = if signs { Flags::RESPONSE | Flags::SIGNED } else { Flags::RESPONSE };
        let header = Header {
            credit_charge: 1,
            status,
            command: Command::LOCK,
            credits: 1,
            flags,
            next_command: 0,
            message_id: MessageId(message_id),
            process_id: 0,
            tree_id: TreeId(1),
            session_id: SessionId(9),
            signature: [0; 16],
        };
        let mut bytes = Vec::new();
        header.encode(&mut Writer::new(&mut bytes));
        if signs {
            SigningKey::new(SigningAlgorithm::AesGmac, &[7; 16]).sign(&mut bytes);
        }
        bytes
    }

    #[test]
    fn interim_and_final_reply_both_signed_are_found() {
        let mut wiretap = Wiretap::default();
        wiretap.observe(&reply(5, NtStatus::PENDING, true)).unwrap();
        let repeated = reply(5, NtStatus::PENDING, true);
        assert_eq!(wiretap.observe(&repeated), Ok(()), "the same bytes");
        assert!(wiretap.observe(&reply(5, NtStatus::SUCCESS, true)).is_err());
        assert_eq!(wiretap.observe(&reply(6, NtStatus::SUCCESS, true)), Ok(()));
    }

    #[test]
    fn unsigned_interim_reply_shares_nothing() {
        let mut wiretap = Wiretap::default();
        for (status, signs) in [(NtStatus::PENDING, false), (NtStatus::SUCCESS, true)] {
            wiretap.observe(&reply(5, status, signs)).unwrap();
        }
        assert_eq!(wiretap.signed(), 1);
        let mut half = reply(6, NtStatus::PENDING, false);
        half[Header::SIGNATURE.start] = 1;
        assert!(wiretap.observe(&half).is_err());
    }

    #[test]
    fn gmac_key_used_on_a_second_connection_is_found() {
        let witness = Arc::default();
        let mut taps = [Wiretap::beside(&witness), Wiretap::beside(&witness)];
        taps.iter_mut().for_each(|tap| tap.signs_by_gmac = true);
        taps[0].observe(&reply(5, NtStatus::SUCCESS, true)).unwrap();
        assert_eq!(taps[1].observe(&reply(6, NtStatus::SUCCESS, true)), Ok(()));
        assert!(taps[1].observe(&reply(5, NtStatus::ACCESS_DENIED, true)).is_err());
        assert_eq!(witness.lock().counts(), (2, 0));
    }

    #[test]
    fn seals_of_two_keys_with_one_counter_are_found() {
        let mut wiretap = Wiretap::default();
        let seal = |key: &SealingKey, fill| {
            let mut frame = [fill; TransformHeader::LENGTH + 8];
            key.seal_in_place(&mut frame, SessionId(9));
            frame
        };
        let (key, copy) = (
            SealingKey::new(Cipher::Aes128Gcm, &[7; 32]),
            SealingKey::new(Cipher::Aes128Gcm, &[7; 32]),
        );
        wiretap.observe(&seal(&key, 1)).unwrap();
        wiretap.observe(&seal(&key, 1)).unwrap();
        assert!(wiretap.observe(&seal(&copy, 2)).is_err());
    }
}
