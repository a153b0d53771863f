//! WRITE. MS-SMB2 2.2.21, 2.2.22.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::FileId;

/// WRITE request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRequest<'a> {
    /// Offset of the first byte; all ones append.
    pub offset_bytes: u64,
    /// The open to write to.
    pub file_id: FileId,
    /// `SMB2_WRITEFLAG_*` bits.
    pub flags: u32,
    /// The data, a slice of the message.
    pub data: &'a [u8],
}

impl<'a> WriteRequest<'a> {
    const STRUCTURE_SIZE: u16 = 49;
    /// The data must be on stable storage before the server responds.
    pub const WRITE_THROUGH: u32 = 1;

    /// Reads the body; the reader's origin is the header's first byte.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the data lies outside it.
    #[inline]
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(Self::STRUCTURE_SIZE, "write")?;
        let data_offset = usize::from(r.u16("write")?);
        let length = r.u32("write")? as usize;
        let offset_bytes = r.u64("write")?;
        let file_id = FileId::decode(r)?;
        // Channel, RemainingBytes, WriteChannelInfo: RDMA only.
        r.skip(12, "write")?;
        let flags = r.u32("write")?;
        if length > 0 && data_offset < r.position() {
            return Err(r.malformed("write data offset"));
        }
        let data = r.part(data_offset, length, "write data")?;
        Ok(Self { offset_bytes, file_id, flags, data })
    }

    /// Appends the part before the data. The caller must append the data directly after it.
    pub fn encode_without_data(&self, w: &mut Writer<'_>) {
        let data_offset = w.position() + 48;
        w.u16(Self::STRUCTURE_SIZE);
        w.u16(data_offset as u16);
        w.u32(self.data.len() as u32);
        w.u64(self.offset_bytes);
        self.file_id.encode(w);
        w.zeros(12);
        w.u32(self.flags);
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        self.encode_without_data(w);
        if self.data.is_empty() {
            w.u8(0);
        } else {
            w.bytes(self.data);
        }
    }
}

/// WRITE response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteResponse {
    /// Bytes written.
    pub count: u32,
}

impl WriteResponse {
    /// Appends the body.
    #[inline]
    pub fn encode(self, w: &mut Writer<'_>) {
        w.u16(17);
        w.u16(0);
        w.u32(self.count);
        w.u32(0);
        w.u16(0);
        w.u16(0);
    }

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is short or has another size.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.structure_size(17, "write response")?;
        r.skip(2, "write response")?;
        Ok(Self { count: r.u32("write response")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_request_round_trips_and_rejects_outside_data() {
        let file_id = FileId { persistent: 3, volatile: 4 };
        let request = WriteRequest { offset_bytes: 9, file_id, flags: 1, data: b"payload" };
        let mut bytes = vec![0; 64];
        request.encode(&mut Writer::with_origin(&mut bytes, 0));
        let decode = |bytes: &[u8]| {
            let mut r = Reader::new(bytes);
            r.skip(64, "header").unwrap();
            WriteRequest::decode(&mut r).map(|w| w.data.len())
        };
        assert_eq!(decode(&bytes), Ok(7));
        assert!(decode(&bytes[..bytes.len() - 1]).is_err());
        bytes[66] = 0;
        assert!(decode(&bytes).is_err(), "data may not overlap the header");
    }
}
