//! SET_INFO. MS-SMB2 2.2.39, 2.2.40.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::FileId;
use crate::smb::info_type::InfoType;
use crate::smb::output_buffer::put_variable;

/// SET_INFO request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetInfoRequest<'a> {
    /// See [`InfoType`].
    pub kind: InfoType,
    /// Information class.
    pub class: u8,
    /// `AdditionalInformation`: OWNER_SECURITY_INFORMATION and further flags.
    pub additional: u32,
    /// The open.
    pub file_id: FileId,
    /// The information.
    pub input: &'a [u8],
}

impl<'a> SetInfoRequest<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the input lies outside it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(33, "set info")?;
        let kind = InfoType::from_number(r.u8("set info")?);
        let class = r.u8("set info")?;
        let length = r.u32("set info")? as usize;
        let offset = usize::from(r.u16("set info")?);
        r.skip(2, "set info")?;
        let additional = r.u32("set info")?;
        let file_id = FileId::decode(r)?;
        let input = r.part(offset, length, "set info input")?;
        Ok(Self { kind, class, additional, file_id, input })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let offset = w.position() + 32;
        w.u16(33);
        w.u8(self.kind.number());
        w.u8(self.class);
        w.u32(self.input.len() as u32);
        w.u16(offset as u16);
        w.u16(0);
        w.u32(self.additional);
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
            let file_id = FileId { persistent: 1, volatile: 2 };
            let set =
                SetInfoRequest { kind: InfoType::File, class: 20, additional: 0, file_id, input };
            let mut bytes = vec![0; 64];
            set.encode(&mut Writer::with_origin(&mut bytes, 0));
            let mut r = Reader::new(&bytes);
            r.skip(64, "header").unwrap();
            assert_eq!(SetInfoRequest::decode(&mut r), Ok(set));
        }
    }
}
