//! IOCTL. MS-SMB2 2.2.31, 2.2.32.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::FileId;
use crate::smb::output_buffer::put_variable;

/// IOCTL request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoctlRequest<'a> {
    /// FSCTL_*; see [`crate::smb::fsctl`].
    pub code: u32,
    /// The open, or all ones.
    pub file_id: FileId,
    /// Input data.
    pub input: &'a [u8],
    /// Maximum length of the returned input, in bytes.
    pub input_bytes_max: u32,
    /// Maximum length of the output, in bytes.
    pub output_bytes_max: u32,
    /// True if the code is an FSCTL.
    pub is_fsctl: bool,
}

impl<'a> IoctlRequest<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the input lies outside it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(57, "ioctl")?;
        r.skip(2, "ioctl")?;
        let code = r.u32("ioctl")?;
        let file_id = FileId::decode(r)?;
        let input_offset = r.u32("ioctl")? as usize;
        let input_length = r.u32("ioctl")? as usize;
        let input_bytes_max = r.u32("ioctl")?;
        r.skip(8, "ioctl")?;
        let output_bytes_max = r.u32("ioctl")?;
        let is_fsctl = r.u32("ioctl")? & 1 != 0;
        r.skip(4, "ioctl")?;
        let input = r.part(input_offset, input_length, "ioctl input")?;
        Ok(Self { code, file_id, input, input_bytes_max, output_bytes_max, is_fsctl })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let offset = (w.position() + 56) as u32;
        w.u16(57);
        w.u16(0);
        w.u32(self.code);
        self.file_id.encode(w);
        w.u32(if self.input.is_empty() { 0 } else { offset });
        w.u32(self.input.len() as u32);
        w.u32(self.input_bytes_max);
        w.u32(0);
        w.u32(0);
        w.u32(self.output_bytes_max);
        w.u32(u32::from(self.is_fsctl));
        w.u32(0);
        put_variable(w, self.input);
    }
}

/// IOCTL response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoctlResponse<'a> {
    /// Code of the request.
    pub code: u32,
    /// Open of the request.
    pub file_id: FileId,
    /// Output data.
    pub output: &'a [u8],
}

impl<'a> IoctlResponse<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the output lies outside
    /// it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(49, "ioctl response")?;
        r.skip(2, "ioctl response")?;
        let code = r.u32("ioctl response")?;
        let file_id = FileId::decode(r)?;
        r.skip(8, "ioctl response")?;
        let offset = r.u32("ioctl response")? as usize;
        let length = r.u32("ioctl response")? as usize;
        let output = r.part(offset, length, "ioctl output")?;
        Ok(Self { code, file_id, output })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let offset = (w.position() + 48) as u32;
        w.u16(49);
        w.u16(0);
        w.u32(self.code);
        self.file_id.encode(w);
        w.u32(offset);
        w.u32(0);
        w.u32(offset);
        w.u32(self.output.len() as u32);
        w.u32(0);
        w.u32(0);
        if self.output.is_empty() {
            w.u8(0);
        } else {
            w.bytes(self.output);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ioctl_messages_round_trip_and_reject_truncation() {
        let file_id = FileId { persistent: 1, volatile: 2 };
        let request = IoctlRequest {
            code: 0x0014_01FC,
            file_id,
            input: b"input",
            input_bytes_max: 0,
            output_bytes_max: 65_536,
            is_fsctl: true,
        };
        let response = IoctlResponse { code: 0x0014_01FC, file_id, output: b"output" };
        let (mut asked, mut answered) = (vec![0; 64], vec![0; 64]);
        request.encode(&mut Writer::with_origin(&mut asked, 0));
        response.encode(&mut Writer::with_origin(&mut answered, 0));
        let body = |bytes| {
            let mut r = Reader::new(bytes);
            r.skip(64, "header").unwrap();
            r
        };
        assert_eq!(IoctlRequest::decode(&mut body(&asked)), Ok(request));
        assert_eq!(IoctlResponse::decode(&mut body(&answered)), Ok(response));
        for length in 64..answered.len() {
            assert!(IoctlResponse::decode(&mut body(&answered[..length])).is_err(), "{length}");
        }
    }
}
