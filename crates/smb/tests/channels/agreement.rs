//! The negotiated parameters of a connection, and the derived keys.

use wire::codec::Reader;
use wire::crypto::{KeySource, PreauthHash, SessionKey, SigningAlgorithm, SigningKey};
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::{NegotiateRequest, NegotiateResponse, context, decode_algorithms};
use wire::smb::{Command, Dialect, Header};

/// Dialect, signing, and the preauthentication hashes. MS-SMB2 3.2.5.2.
#[derive(Clone)]
pub struct AgreedSession {
    dialect: Dialect,
    algorithm: SigningAlgorithm,
    connection: PreauthHash,
    /// Hash of the logon in progress.
    logon: PreauthHash,
}

impl AgreedSession {
    pub fn new(dialect: Dialect) -> Self {
        let algorithm = match dialect {
            Dialect::Smb202 | Dialect::Smb210 => SigningAlgorithm::HmacSha256,
            _ => SigningAlgorithm::AesCmac,
        };
        let connection = PreauthHash::default();
        Self { dialect, algorithm, logon: connection.clone(), connection }
    }

    /// The server's signing algorithm.
    pub fn algorithm(&self) -> SigningAlgorithm {
        self.algorithm
    }

    pub fn begin_logon(&mut self) {
        self.logon = self.connection.clone();
    }

    pub fn note_request(&mut self, command: Command, message: &[u8]) {
        match command {
            Command::NEGOTIATE => self.connection.update(message),
            Command::SESSION_SETUP => self.logon.update(message),
            _ => {}
        }
    }

    pub fn note_reply(&mut self, header: &Header, message: &[u8]) {
        match header.command {
            Command::NEGOTIATE => {
                self.connection.update(message);
                self.take_algorithm(message);
            }
            // The hash excludes the final response.
            Command::SESSION_SETUP if header.status == NtStatus::MORE_PROCESSING_REQUIRED => {
                self.logon.update(message);
            }
            _ => {}
        }
    }

    fn take_algorithm(&mut self, message: &[u8]) {
        let mut reader = Reader::new(message);
        reader.skip(Header::LENGTH, "header").unwrap();
        let response = NegotiateResponse::decode(&mut reader).unwrap();
        let Some(data) = response.context(context::SIGNING) else { return };
        let number = decode_algorithms(data).unwrap()[0];
        self.algorithm = SigningAlgorithm::from_number(number).unwrap();
    }

    /// The signing key of the channel whose logon ended with `session_key`.
    pub fn signing_key(&self, session_key: &[u8; 16]) -> SigningKey {
        let session_key = &SessionKey::new(session_key);
        let source = KeySource { dialect: self.dialect, session_key, preauth: &self.logon };
        source.signing(self.algorithm)
    }
}

/// NEGOTIATE of a client that offers these algorithms with 3.1.1, or none with older dialects.
pub fn request<'a>(
    dialect: Dialect,
    capabilities: u32,
    contexts: &'a [(u16, Vec<u8>)],
) -> NegotiateRequest<'a> {
    let contexts = contexts.iter().map(|(kind, data)| (*kind, &data[..])).collect();
    NegotiateRequest {
        security_mode: 1,
        capabilities,
        client_guid: [3; 16],
        dialects: vec![dialect.number()],
        contexts,
    }
}

/// Negotiate contexts: SHA-512 without salt, and these algorithms.
pub fn contexts(signing: &[SigningAlgorithm]) -> Vec<(u16, Vec<u8>)> {
    let mut algorithms = vec![signing.len() as u8, 0];
    algorithms.extend(signing.iter().flat_map(|one| one.number().to_le_bytes()));
    vec![(context::PREAUTH_INTEGRITY, vec![1, 0, 0, 0, 1, 0]), (context::SIGNING, algorithms)]
}
