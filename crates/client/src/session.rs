//! The state that the channels of a session share. MS-SMB2 3.2.1.3.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use wire::crypto::{
    Cipher, KeyPurpose, KeySource, OpeningKey, PreauthHash, SealingKey, SessionKey,
    SigningAlgorithm, SigningKey,
};
use wire::ntlm::NtlmVersion;
use wire::smb::{Dialect, SessionId};

/// Result of NEGOTIATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiatedParameters {
    /// Dialect.
    pub dialect: Dialect,
    /// Signing algorithm.
    pub signing: SigningAlgorithm,
    /// Cipher, if encryption is supported.
    pub cipher: Option<Cipher>,
    /// The server's capabilities.
    pub capabilities: u32,
    /// The server's security mode.
    pub security_mode: u16,
    /// ServerGuid.
    pub server_guid: [u8; 16],
    /// Maximum payload of requests other than READ and WRITE, in bytes.
    pub transact_bytes_max: u32,
    /// Maximum READ, in bytes.
    pub read_bytes_max: u32,
    /// Maximum WRITE, in bytes.
    pub write_bytes_max: u32,
}

/// Encryption and decryption keys.
#[derive(Debug)]
pub(crate) struct ClientSealingKeys {
    pub(crate) seal: SealingKey,
    pub(crate) open: OpeningKey,
}

/// A session.
#[derive(Debug)]
pub struct ClientSession {
    /// Session id.
    pub id: SessionId,
    /// Result of NEGOTIATE on the first connection; all others must have an equal one.
    pub negotiated: NegotiatedParameters,
    /// Guest or anonymous, so that nothing is signed.
    pub is_guest: bool,
    /// Every message is signed.
    pub signs: bool,
    /// Every message is sealed.
    pub seals: bool,
    /// The server's system, as it claims in an NTLM logon.
    pub server_version: Option<NtlmVersion>,
    /// Signs the binding of further channels.
    pub(crate) signing_key: Arc<SigningKey>,
    pub(crate) sealing: Option<ClientSealingKeys>,
    /// ChannelSequence, incremented with each lost channel.
    sequence: AtomicU16,
}

/// Constructor arguments of a session.
pub(crate) struct ClientSessionParts {
    pub(crate) id: SessionId,
    pub(crate) negotiated: NegotiatedParameters,
    pub(crate) is_guest: bool,
    pub(crate) signs: bool,
    pub(crate) seals: bool,
    pub(crate) session_key: SessionKey,
    pub(crate) preauth: PreauthHash,
    pub(crate) server_version: Option<NtlmVersion>,
}

impl ClientSession {
    pub(crate) fn new(parts: ClientSessionParts) -> Self {
        let ClientSessionParts { id, negotiated, is_guest, signs, seals, .. } = parts;
        let ClientSessionParts { session_key, preauth, server_version, .. } = parts;
        let source =
            KeySource { dialect: negotiated.dialect, session_key: &session_key, preauth: &preauth };
        let sealing = negotiated.cipher.filter(|_| !is_guest).map(|cipher| {
            let key = |purpose| source.sealing(cipher, purpose);
            ClientSealingKeys {
                seal: SealingKey::new(cipher, &key(KeyPurpose::ClientToServer)),
                open: OpeningKey::new(cipher, &key(KeyPurpose::ServerToClient)),
            }
        });
        let signing_key = Arc::new(source.signing(negotiated.signing));
        let sequence = AtomicU16::new(0);
        Self {
            id,
            negotiated,
            is_guest,
            signs,
            seals,
            server_version,
            signing_key,
            sealing,
            sequence,
        }
    }

    /// Current ChannelSequence.
    pub fn sequence(&self) -> u16 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// Increments the ChannelSequence after a channel was lost. MS-SMB2 3.2.7.1.
    pub(crate) fn raise_sequence(&self) {
        self.sequence.fetch_add(1, Ordering::Relaxed);
    }
}
