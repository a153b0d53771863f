//! SESSION_SETUP. MS-SMB2 2.2.5, 2.2.6.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::SessionId;

/// Flags of the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionFlags(pub u16);

impl SessionFlags {
    /// The session is a guest session.
    pub const GUEST: Self = Self(1);
    /// The session is anonymous.
    pub const ANONYMOUS: Self = Self(2);
    /// The session requires encryption.
    pub const ENCRYPT_DATA: Self = Self(4);

    /// True if all flags of `other` are set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// SESSION_SETUP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSetupRequest<'a> {
    /// Bit 0 binds this connection to an existing session.
    pub flags: u8,
    /// Bit 0: signing enabled, bit 1: required.
    pub security_mode: u8,
    /// Client capabilities.
    pub capabilities: u32,
    /// An earlier session of the same user, which this one replaces; 0 for none.
    pub previous_session: SessionId,
    /// GSS token.
    pub token: &'a [u8],
}

impl<'a> SessionSetupRequest<'a> {
    /// Binds this connection to an existing session.
    pub const BINDING: u8 = 1;
    /// The client requires signing.
    pub const SIGNING_REQUIRED: u8 = 2;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the token lies outside it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(25, "session setup")?;
        let flags = r.u8("session setup")?;
        let security_mode = r.u8("session setup")?;
        let capabilities = r.u32("session setup")?;
        r.skip(4, "session setup")?;
        let offset = usize::from(r.u16("session setup")?);
        let length = usize::from(r.u16("session setup")?);
        let previous_session = SessionId(r.u64("session setup")?);
        let token = r.part(offset, length, "security token")?;
        Ok(Self { flags, security_mode, capabilities, previous_session, token })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let offset = w.position() + 24;
        w.u16(25);
        w.u8(self.flags);
        w.u8(self.security_mode);
        w.u32(self.capabilities);
        w.u32(0);
        w.u16(offset as u16);
        w.u16(self.token.len() as u16);
        w.u64(self.previous_session.0);
        w.bytes(self.token);
    }
}

/// SESSION_SETUP response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSetupResponse<'a> {
    /// See [`SessionFlags`].
    pub flags: SessionFlags,
    /// GSS token.
    pub token: &'a [u8],
}

impl<'a> SessionSetupResponse<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the token lies outside it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(9, "session setup response")?;
        let flags = SessionFlags(r.u16("session setup response")?);
        let offset = usize::from(r.u16("session setup response")?);
        let length = usize::from(r.u16("session setup response")?);
        Ok(Self { flags, token: r.part(offset, length, "session setup token")? })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let offset = w.position() + 8;
        w.u16(9);
        w.u16(self.flags.0);
        w.u16(offset as u16);
        w.u16(self.token.len() as u16);
        w.bytes(self.token);
    }
}
