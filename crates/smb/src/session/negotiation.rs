//! The parameters that a connection negotiated. MS-SMB2 3.3.5.4.

use std::ops::RangeInclusive;
use wire::crypto::{Cipher, SigningAlgorithm};
use wire::smb::Dialect;

/// The parameters that a connection negotiated. Immutable.
#[derive(Debug)]
pub struct Negotiation {
    /// Dialect.
    pub dialect: Dialect,
    /// Requests may cost more than one credit.
    pub multi_credit: bool,
    /// Largest READ, WRITE and QUERY payload.
    pub io_bytes_max: u32,
    /// Cipher, if messages can be encrypted.
    pub cipher: Option<Cipher>,
    /// Signing algorithm.
    pub signing: SigningAlgorithm,
    /// The client's GUID.
    pub client_guid: [u8; 16],
    /// The client's capabilities.
    pub client_capabilities: u32,
    /// The client's security mode.
    pub client_security_mode: u16,
    /// Dialects that the client offered, for VALIDATE_NEGOTIATE_INFO.
    pub client_dialects: Vec<u16>,
    /// Dialects that the server offered then.
    pub served: RangeInclusive<Dialect>,
    /// The server's capabilities, as sent.
    pub capabilities: u32,
    /// The server's security mode, as sent.
    pub security_mode: u16,
    /// The server's GUID, as sent.
    pub server_guid: [u8; 16],
    /// The POSIX extensions are negotiated.
    pub posix: bool,
}

/// The greatest dialect that both sides support.
pub(crate) fn greatest_common(
    served: &RangeInclusive<Dialect>,
    offered: &[u16],
) -> Option<Dialect> {
    let is_common = |d: &Dialect| served.contains(d) && offered.contains(&d.number());
    Dialect::ALL.into_iter().rev().find(is_common)
}
