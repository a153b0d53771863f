//! TREE_CONNECT. MS-SMB2 2.2.9, 2.2.10.

use crate::codec::{DecodeError, Reader, Writer};

/// TREE_CONNECT request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeConnectRequest<'a> {
    /// In 3.1.1, bit 2 marks the presence of the extension.
    pub flags: u16,
    /// `\\server\share`, UTF-16LE.
    pub path: &'a [u8],
}

impl<'a> TreeConnectRequest<'a> {
    /// Decodes the body. The 3.1.1 extension needs no special handling: its path is at the offset
    /// of the plain one.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the path lies outside it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(9, "tree connect")?;
        let flags = r.u16("tree connect")?;
        let offset = usize::from(r.u16("tree connect")?);
        let length = usize::from(r.u16("tree connect")?);
        Ok(Self { flags, path: r.part(offset, length, "tree path")? })
    }

    /// Appends the body, without the 3.1.1 extension.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let offset = w.position() + 8;
        w.u16(9);
        w.u16(self.flags);
        w.u16(offset as u16);
        w.u16(self.path.len() as u16);
        w.bytes(self.path);
    }
}

/// TREE_CONNECT response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeConnectResponse {
    /// 1 disk, 2 pipe.
    pub share_type: u8,
    /// `SMB2_SHAREFLAG_*` bits.
    pub flags: u32,
    /// `SMB2_SHARE_CAP_*` bits.
    pub capabilities: u32,
    /// Maximal access of an open on this share.
    pub maximal_access: u32,
}

impl TreeConnectResponse {
    /// A directory.
    pub const DISK: u8 = 1;
    /// Named pipes.
    pub const PIPE: u8 = 2;
    /// SMB2_SHARE_CAP_CONTINUOUS_AVAILABILITY.
    pub const CONTINUOUS_AVAILABILITY: u32 = 0x10;
    /// SMB2_SHAREFLAG_ENCRYPT_DATA.
    pub const ENCRYPT_DATA: u32 = 0x8000;
    /// SMB2_SHAREFLAG_ACCESS_BASED_DIRECTORY_ENUM.
    pub const ACCESS_BASED_ENUM: u32 = 0x0800;
    /// SMB2_SHAREFLAG_NO_CACHING.
    pub const NO_CACHING: u32 = 0x30;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is short or has another size.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.structure_size(16, "tree connect response")?;
        let share_type = r.u8("tree connect response")?;
        r.skip(1, "tree connect response")?;
        Ok(Self {
            share_type,
            flags: r.u32("tree connect response")?,
            capabilities: r.u32("tree connect response")?,
            maximal_access: r.u32("tree connect response")?,
        })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u16(16);
        w.u8(self.share_type);
        w.u8(0);
        w.u32(self.flags);
        w.u32(self.capabilities);
        w.u32(self.maximal_access);
    }
}
