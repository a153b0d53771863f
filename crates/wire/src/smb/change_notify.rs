//! CHANGE_NOTIFY. MS-SMB2 2.2.35, 2.2.36.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::FileId;
use crate::smb::output_buffer::{OUTPUT_HEAD_BYTES, put_output_buffer};

/// CHANGE_NOTIFY request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeNotifyRequest {
    /// See [`ChangeNotifyRequest::WATCH_TREE`].
    pub flags: u16,
    /// Output buffer of the client, in bytes.
    pub output_bytes: u32,
    /// The directory.
    pub file_id: FileId,
    /// `FILE_NOTIFY_CHANGE_*` bits.
    pub filter: u32,
}

impl ChangeNotifyRequest {
    /// Watches the complete tree below the directory.
    pub const WATCH_TREE: u16 = 1;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is short or has another size.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.structure_size(32, "change notify")?;
        let flags = r.u16("change notify")?;
        let output_bytes = r.u32("change notify")?;
        let file_id = FileId::decode(r)?;
        let filter = r.u32("change notify")?;
        Ok(Self { flags, output_bytes, file_id, filter })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u16(32);
        w.u16(self.flags);
        w.u32(self.output_bytes);
        self.file_id.encode(w);
        w.u32(self.filter);
        w.u32(0);
    }
}

/// Appends a CHANGE_NOTIFY response without changes. It sets `OutputBufferOffset` even so, for
/// clients that read it regardless of the status. MS-SMB2 2.2.36, 3.3.4.4.
pub fn empty_notify_response(w: &mut Writer<'_>) {
    put_output_buffer(w, w.position() + OUTPUT_HEAD_BYTES, &[]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_read_as_it_was_written() {
        let notify = ChangeNotifyRequest {
            flags: 1,
            output_bytes: 9,
            file_id: FileId { persistent: 1, volatile: 2 },
            filter: 0x17,
        };
        let mut bytes = Vec::new();
        notify.encode(&mut Writer::new(&mut bytes));
        assert_eq!(ChangeNotifyRequest::decode(&mut Reader::new(&bytes)), Ok(notify));
        assert_eq!(bytes.len(), 32);
    }
}
