//! IOCTL. MS-SMB2 2.2.31, 2.2.32.

use crate::codec::{Malformed, Reader, Writer};
use crate::smb::ids::FileId;

/// IOCTL request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoctlRequest<'a> {
    /// FSCTL_*; see [`crate::smb::fsctl`].
    pub code: u32,
    /// The open, or all ones.
    pub file_id: FileId,
    /// What goes in.
    pub input: &'a [u8],
    /// Most bytes of input that may come back.
    pub input_bytes_max: u32,
    /// Most bytes of output.
    pub output_bytes_max: u32,
    /// Whether the code is an FSCTL.
    pub is_fsctl: bool,
}

impl<'a> IoctlRequest<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Malformed`] if it is short, has another size, or its input is not in it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
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
}

/// IOCTL response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoctlResponse<'a> {
    /// As asked.
    pub code: u32,
    /// As asked.
    pub file_id: FileId,
    /// What comes out.
    pub output: &'a [u8],
}

impl IoctlResponse<'_> {
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
