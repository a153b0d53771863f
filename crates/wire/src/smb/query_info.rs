//! QUERY_INFO. MS-SMB2 2.2.37; the response is an output buffer, 2.2.38.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::FileId;
use crate::smb::info_type::InfoType;
use crate::smb::output_buffer::put_variable;

/// QUERY_INFO request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryInfoRequest<'a> {
    /// See [`InfoType`].
    pub kind: InfoType,
    /// Information class.
    pub class: u8,
    /// Output buffer of the client, in bytes.
    pub output_bytes: u32,
    /// `AdditionalInformation`: OWNER_SECURITY_INFORMATION and further flags.
    pub additional: u32,
    /// Flags; they position a query of extended attributes.
    pub flags: u32,
    /// The open.
    pub file_id: FileId,
    /// Names of the requested quotas or extended attributes.
    pub input: &'a [u8],
}

impl<'a> QueryInfoRequest<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the input lies outside it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(41, "query info")?;
        let kind = InfoType::from_number(r.u8("query info")?);
        let class = r.u8("query info")?;
        let output_bytes = r.u32("query info")?;
        let offset = usize::from(r.u16("query info")?);
        r.skip(2, "query info")?;
        let length = r.u32("query info")? as usize;
        let additional = r.u32("query info")?;
        let flags = r.u32("query info")?;
        let file_id = FileId::decode(r)?;
        let input = r.part(offset, length, "query info input")?;
        Ok(Self { kind, class, output_bytes, additional, flags, file_id, input })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let offset = w.position() + 40;
        w.u16(41);
        w.u8(self.kind.number());
        w.u8(self.class);
        w.u32(self.output_bytes);
        w.u16(if self.input.is_empty() { 0 } else { offset as u16 });
        w.u16(0);
        w.u32(self.input.len() as u32);
        w.u32(self.additional);
        w.u32(self.flags);
        self.file_id.encode(w);
        put_variable(w, self.input);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_read_as_it_was_written() {
        for input in [&b""[..], b"input"] {
            let query = QueryInfoRequest {
                kind: InfoType::Security,
                class: 0,
                output_bytes: 5,
                additional: 7,
                flags: 1,
                file_id: FileId { persistent: 1, volatile: 2 },
                input,
            };
            let mut bytes = vec![0; 64];
            query.encode(&mut Writer::with_origin(&mut bytes, 0));
            let mut r = Reader::new(&bytes);
            r.skip(64, "header").unwrap();
            assert_eq!(QueryInfoRequest::decode(&mut r), Ok(query));
        }
    }
}
