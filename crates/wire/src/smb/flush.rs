//! FLUSH. MS-SMB2 2.2.17; the response is an empty body, 2.2.18.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::FileId;

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
    /// [`DecodeError`] if it is short or has another size.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.structure_size(24, "flush")?;
        r.skip(6, "flush")?;
        Ok(Self { file_id: FileId::decode(r)? })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u16(24);
        w.zeros(6);
        self.file_id.encode(w);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_request_has_the_published_bytes() {
        let request = FlushRequest { file_id: FileId { persistent: 1, volatile: 2 } };
        let mut bytes = Vec::new();
        request.encode(&mut Writer::new(&mut bytes));
        assert_eq!(bytes, *b"\x18\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0");
        assert_eq!(FlushRequest::decode(&mut Reader::new(&bytes)), Ok(request));
    }
}
