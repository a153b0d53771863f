//! The header of an encrypted message. MS-SMB2 2.2.41.

use crate::codec::{DecodeError, Reader};
use crate::smb::ids::SessionId;

/// TRANSFORM_HEADER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformHeader {
    /// Authentication tag.
    pub signature: [u8; 16],
    /// Nonce; 11 or 12 bytes of it are used.
    pub nonce: [u8; 16],
    /// Length of the plaintext message, in bytes.
    pub original_bytes: u32,
    /// The session whose keys apply.
    pub session_id: SessionId,
}

impl TransformHeader {
    /// Bytes of the header.
    pub const LENGTH: usize = 52;
    /// Start of the authenticated part of the header.
    pub const AUTHENTICATED: usize = 20;
    const MAGIC: [u8; 4] = *b"\xFDSMB";

    /// Decodes the header of a sealed frame, and checks its length against the frame's.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame is short, not marked as encrypted, or its length differs
    /// from `original_bytes`.
    pub fn decode(frame: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(frame);
        if r.array::<4>("transform header")? != Self::MAGIC {
            return Err(r.malformed("transform header"));
        }
        let signature = r.array("transform header")?;
        let nonce = r.array("transform header")?;
        let original_bytes = r.u32("transform header")?;
        r.skip(2, "transform header")?;
        let flags = r.u16("transform header")?;
        let session_id = SessionId(r.u64("transform header")?);
        // 1: encrypted (3.1.1), or AES-128-CCM as the algorithm (3.0).
        if flags != 1 || original_bytes as usize != r.remaining() {
            return Err(r.malformed("transform header"));
        }
        Ok(Self { signature, nonce, original_bytes, session_id })
    }

    /// Writes the header over the first [`TransformHeader::LENGTH`] bytes of `out`.
    ///
    /// # Panics
    /// If `out` is shorter.
    pub fn put(&self, out: &mut [u8]) {
        out[0..4].copy_from_slice(&Self::MAGIC);
        out[4..20].copy_from_slice(&self.signature);
        out[20..36].copy_from_slice(&self.nonce);
        out[36..40].copy_from_slice(&self.original_bytes.to_le_bytes());
        out[40..42].fill(0);
        out[42..44].copy_from_slice(&1u16.to_le_bytes());
        out[44..52].copy_from_slice(&self.session_id.0.to_le_bytes());
    }
}
