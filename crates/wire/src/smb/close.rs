//! CLOSE and FLUSH. MS-SMB2 2.2.15 to 2.2.18.

use crate::codec::{Malformed, Reader, Writer};
use crate::fscc::FileTime;
use crate::smb::ids::FileId;

/// CLOSE request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseRequest {
    /// SMB2_CLOSE_FLAG_*.
    pub flags: u16,
    /// The open.
    pub file_id: FileId,
}

impl CloseRequest {
    /// Attributes are wanted in the reply.
    pub const POSTQUERY_ATTRIBUTES: u16 = 1;

    /// Reads the body.
    ///
    /// # Errors
    /// [`Malformed`] if it is short or has another size.
    #[inline]
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.structure_size(24, "close")?;
        let flags = r.u16("close")?;
        r.skip(4, "close")?;
        Ok(Self { flags, file_id: FileId::decode(r)? })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u16(24);
        w.u16(self.flags);
        w.u32(0);
        self.file_id.encode(w);
    }
}

/// CLOSE response; all zero but the flags where attributes were not wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloseResponse {
    /// Echo of the request's flags.
    pub flags: u16,
    /// Creation, last access, last write, change.
    pub times: [FileTime; 4],
    /// Bytes of storage in use.
    pub allocation_bytes: u64,
    /// Length.
    pub size_bytes: u64,
    /// FILE_ATTRIBUTE_*.
    pub attributes: u32,
}

impl CloseResponse {
    /// Appends the body.
    #[inline]
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u16(60);
        w.u16(self.flags);
        w.u32(0);
        for time in self.times {
            w.u64(time.0);
        }
        w.u64(self.allocation_bytes);
        w.u64(self.size_bytes);
        w.u32(self.attributes);
    }
}

/// FLUSH request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushRequest {
    /// The open.
    pub file_id: FileId,
}

impl FlushRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Malformed`] if it is short or has another size.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.structure_size(24, "flush")?;
        r.skip(6, "flush")?;
        Ok(Self { file_id: FileId::decode(r)? })
    }
}
