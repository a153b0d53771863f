//! What the channels of one session share. MS-SMB2 3.2.1.3.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use wire::crypto::{
    Cipher, KeyPurpose, KeySource, OpeningKey, PreauthHash, SealingKey, SessionKey,
    SigningAlgorithm, SigningKey,
};
use wire::smb::{Dialect, SessionId};

/// What NEGOTIATE came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Dialect.
    pub dialect: Dialect,
    /// Algorithm of signatures.
    pub signing: SigningAlgorithm,
    /// Cipher, if sealing is possible.
    pub cipher: Option<Cipher>,
    /// The server's capabilities.
    pub capabilities: u32,
    /// The server's security mode.
    pub security_mode: u16,
    /// The server.
    pub server_guid: [u8; 16],
    /// Largest payload of other requests, in bytes.
    pub transact_bytes_max: u32,
    /// Largest READ, in bytes.
    pub read_bytes_max: u32,
    /// Largest WRITE, in bytes.
    pub write_bytes_max: u32,
}

/// Keys to seal with and to open with.
#[derive(Debug)]
pub(crate) struct Sealing {
    pub(crate) seal: SealingKey,
    pub(crate) open: OpeningKey,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// What its first connection negotiated; all others must come to the same.
    pub negotiated: Negotiated,
    /// Nobody in particular is logged on, so nothing is signed.
    pub is_guest: bool,
    /// Every message is signed.
    pub signs: bool,
    /// Every message is sealed.
    pub seals: bool,
    /// Signs while further channels are bound.
    pub(crate) signing_key: Arc<SigningKey>,
    pub(crate) sealing: Option<Sealing>,
    /// ChannelSequence: raised with each channel that is lost.
    sequence: AtomicU16,
}

/// What a session is made of.
pub(crate) struct SessionParts {
    pub(crate) id: SessionId,
    pub(crate) negotiated: Negotiated,
    pub(crate) is_guest: bool,
    pub(crate) signs: bool,
    pub(crate) seals: bool,
    pub(crate) session_key: SessionKey,
    pub(crate) preauth: PreauthHash,
}

impl Session {
    pub(crate) fn new(parts: SessionParts) -> Self {
        let SessionParts { id, negotiated, is_guest, signs, seals, session_key, preauth } = parts;
        let source =
            KeySource { dialect: negotiated.dialect, session_key: &session_key, preauth: &preauth };
        let sealing = negotiated.cipher.filter(|_| !is_guest).map(|cipher| {
            let key = |purpose| source.sealing(cipher, purpose);
            Sealing {
                seal: SealingKey::new(cipher, &key(KeyPurpose::ClientToServer)),
                open: OpeningKey::new(cipher, &key(KeyPurpose::ServerToClient)),
            }
        });
        let signing_key = Arc::new(source.signing(negotiated.signing));
        let sequence = AtomicU16::new(0);
        Self { id, negotiated, is_guest, signs, seals, signing_key, sealing, sequence }
    }

    /// The present ChannelSequence.
    pub fn sequence(&self) -> u16 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// A channel was lost. MS-SMB2 3.2.7.1.
    pub(crate) fn raise_sequence(&self) {
        self.sequence.fetch_add(1, Ordering::Relaxed);
    }
}
