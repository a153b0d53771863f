//! CLOSE. MS-SMB2 2.2.15, 2.2.16.

use crate::codec::{DecodeError, Reader, Writer};
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
    /// The client requests the attributes in the response.
    pub const POSTQUERY_ATTRIBUTES: u16 = 1;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is short or has another size.
    #[inline]
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
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

/// CLOSE response. All fields but the flags are zero unless the client requested the attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloseResponse {
    /// Echo of the request's flags.
    pub flags: u16,
    /// Creation, last access, last write, change.
    pub times: [FileTime; 4],
    /// Bytes of storage in use.
    pub allocation_bytes: u64,
    /// Length, in bytes.
    pub size_bytes: u64,
    /// `FILE_ATTRIBUTE_*` bits.
    pub attributes: u32,
}

impl CloseResponse {
    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is short or has another size.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.structure_size(60, "close response")?;
        let flags = r.u16("close response")?;
        r.skip(4, "close response")?;
        let mut times = [FileTime(0); 4];
        for time in &mut times {
            *time = FileTime(r.u64("close response")?);
        }
        let allocation_bytes = r.u64("close response")?;
        let size_bytes = r.u64("close response")?;
        let attributes = r.u32("close response")?;
        Ok(Self { flags, times, allocation_bytes, size_bytes, attributes })
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_response_round_trips() {
        let response = CloseResponse {
            flags: 1,
            times: [FileTime(3), FileTime(4), FileTime(5), FileTime(6)],
            allocation_bytes: 7,
            size_bytes: 8,
            attributes: 9,
        };
        let mut bytes = Vec::new();
        response.encode(&mut Writer::new(&mut bytes));
        assert_eq!(CloseResponse::decode(&mut Reader::new(&bytes)), Ok(response));
        assert!(CloseResponse::decode(&mut Reader::new(&bytes[..59])).is_err());
    }
}
