//! READ. MS-SMB2 2.2.19, 2.2.20.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::FileId;

/// READ request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// SMB2_READFLAG_* (3.0.2 and later).
    pub flags: u8,
    /// Requested length. The decoder does not bound it: the handler owns the limit.
    pub length_bytes: u32,
    /// Offset of the first byte, from the start of the file.
    pub offset_bytes: u64,
    /// The open to read from.
    pub file_id: FileId,
    /// A read of fewer bytes than this fails instead of being short.
    pub minimum_bytes: u32,
}

impl ReadRequest {
    const STRUCTURE_SIZE: u16 = 49;

    /// Reads the body; `r` stands just after the header.
    ///
    /// # Errors
    /// [`DecodeError`] if it is short or has another size.
    #[inline]
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.structure_size(Self::STRUCTURE_SIZE, "read")?;
        r.skip(1, "read padding")?;
        let flags = r.u8("read")?;
        let length_bytes = r.u32("read")?;
        let offset_bytes = r.u64("read")?;
        let file_id = FileId::decode(r)?;
        let minimum_bytes = r.u32("read")?;
        // Channel, RemainingBytes, ReadChannelInfo: RDMA only.
        r.skip(12, "read")?;
        Ok(Self { flags, length_bytes, offset_bytes, file_id, minimum_bytes })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u16(Self::STRUCTURE_SIZE);
        w.u8(0x50);
        w.u8(self.flags);
        w.u32(self.length_bytes);
        w.u64(self.offset_bytes);
        self.file_id.encode(w);
        w.u32(self.minimum_bytes);
        w.zeros(12);
        w.u8(0);
    }
}

/// READ response, started before its data is known. The data follows directly: read into the
/// buffer, or sent from a file.
#[derive(Clone, Copy, Debug)]
pub struct ReadResponse {
    length_field: usize,
}

impl ReadResponse {
    /// Length of the part before the data, in bytes.
    pub const FIXED_BYTES: usize = 16;
    /// Offset of the one-byte `DataOffset` field.
    pub const OFFSET_FIELD: usize = 2;

    /// Appends the part before the data; the data starts at `w.position()`.
    #[inline]
    pub fn begin(w: &mut Writer<'_>) -> Self {
        let data_offset = w.position() + Self::FIXED_BYTES;
        w.u16(17);
        w.u8(data_offset as u8);
        w.u8(0);
        let length_field = w.position();
        w.zeros(12);
        Self { length_field }
    }

    /// Decodes the body and returns the data, a slice of the message. The reader's origin is the
    /// header's first byte.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the data lies outside it.
    #[inline]
    pub fn decode<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
        r.structure_size(17, "read response")?;
        let offset = usize::from(r.u8("read response")?);
        r.skip(1, "read response")?;
        let length = r.u32("read response")? as usize;
        r.skip(8, "read response")?;
        if length > 0 && offset < r.position() {
            return Err(r.malformed("read response offset"));
        }
        r.part(offset, length, "read response data")
    }

    /// Patches the length of the data into the response.
    #[inline]
    pub fn finish(self, w: &mut Writer<'_>, length_bytes: u32) {
        w.patch_u32(self.length_field, length_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_request_round_trips_and_tolerates_rdma_fields() {
        let request = ReadRequest {
            flags: 1,
            length_bytes: 4096,
            offset_bytes: 1 << 40,
            file_id: FileId { persistent: 1, volatile: 2 },
            minimum_bytes: 7,
        };
        let mut bytes = Vec::new();
        request.encode(&mut Writer::new(&mut bytes));
        assert_eq!(bytes.len(), 49);
        bytes[36..48].fill(0xAA);
        assert_eq!(ReadRequest::decode(&mut Reader::new(&bytes)), Ok(request));
        for length in 0..48 {
            assert!(ReadRequest::decode(&mut Reader::new(&bytes[..length])).is_err());
        }
    }

    #[test]
    fn read_response_holds_the_offset_of_its_data() {
        let mut out = vec![0; 64];
        let mut w = Writer::with_origin(&mut out, 0);
        let response = ReadResponse::begin(&mut w);
        w.bytes(b"data");
        response.finish(&mut w, 4);
        assert_eq!(out[64..], *b"\x11\0\x50\0\x04\0\0\0\0\0\0\0\0\0\0\0data");
        fn decode(bytes: &[u8]) -> Result<&[u8], DecodeError> {
            let mut r = Reader::new(bytes);
            r.skip(64, "header")?;
            ReadResponse::decode(&mut r)
        }
        assert_eq!(decode(&out[..]), Ok(&b"data"[..]));
        for length in 64..out.len() {
            assert!(decode(&out[..length]).is_err(), "{length}");
        }
        out[66] = 0;
        assert!(decode(&out[..]).is_err(), "data may not overlap the header");
    }
}
