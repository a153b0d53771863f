//! Key derivation from the session key: SP800-108 in counter mode with HMAC-SHA256. MS-SMB2
//! 3.1.4.2.

use crate::smb::Dialect;
use aws_lc_rs::hmac;

/// The purpose of a derived key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPurpose {
    /// Signs messages in both directions.
    Signing,
    /// For applications above SMB.
    Application,
    /// Seals messages from the server to the client.
    ServerToClient,
    /// Seals messages from the client to the server.
    ClientToServer,
}

/// Derives a key of `N` bytes (16 or 32). `preauth` is the hash after the last SESSION_SETUP
/// request; only 3.1.1 uses it.
#[must_use]
pub fn derive<const N: usize>(
    dialect: Dialect,
    session_key: &[u8],
    purpose: KeyPurpose,
    preauth: &[u8; 64],
) -> [u8; N] {
    let (label, context): (&[u8], &[u8]) = if dialect >= Dialect::Smb311 {
        let label: &[u8] = match purpose {
            KeyPurpose::Signing => b"SMBSigningKey\0",
            KeyPurpose::Application => b"SMBAppKey\0",
            KeyPurpose::ServerToClient => b"SMBS2CCipherKey\0",
            KeyPurpose::ClientToServer => b"SMBC2SCipherKey\0",
        };
        (label, preauth)
    } else {
        match purpose {
            KeyPurpose::Signing => (b"SMB2AESCMAC\0", b"SmbSign\0"),
            KeyPurpose::Application => (b"SMB2APP\0", b"SmbRpc\0"),
            KeyPurpose::ServerToClient => (b"SMB2AESCCM\0", b"ServerOut\0"),
            KeyPurpose::ClientToServer => (b"SMB2AESCCM\0", b"ServerIn \0"),
        }
    };
    kdf(session_key, label, context)
}

/// One block of the counter-mode KDF, which yields up to 32 bytes.
fn kdf<const N: usize>(key: &[u8], label: &[u8], context: &[u8]) -> [u8; N] {
    const { assert!(N <= 32, "one block of SHA-256") };
    let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    mac.update(&1u32.to_be_bytes());
    mac.update(label);
    mac.update(&[0]);
    mac.update(context);
    mac.update(&((N * 8) as u32).to_be_bytes());
    let tag = mac.sign();
    let mut out = [0; N];
    out.copy_from_slice(&tag.as_ref()[..N]);
    out
}
