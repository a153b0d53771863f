//! QUERY_DIRECTORY. MS-SMB2 2.2.33; the response is an output buffer, 2.2.34.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::FileId;
use crate::smb::output_buffer::put_variable;

/// Flags of QUERY_DIRECTORY. MS-SMB2 2.2.33.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryFlags(pub u8);

impl QueryFlags {
    /// Restarts at the first entry with the same pattern.
    pub const RESTART: u8 = 1;
    /// Returns a single entry.
    pub const SINGLE: u8 = 2;
    /// Continues after the entry with the given index.
    pub const INDEX: u8 = 4;
    /// Restarts at the first entry with a new pattern.
    pub const REOPEN: u8 = 16;

    /// True if `flag` is set.
    #[must_use]
    pub fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
}

/// QUERY_DIRECTORY request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryDirectoryRequest<'a> {
    /// File information class.
    pub class: u8,
    /// See [`QueryFlags`].
    pub flags: QueryFlags,
    /// Index to continue after, if the flags contain [`QueryFlags::INDEX`].
    pub index: u32,
    /// The directory.
    pub file_id: FileId,
    /// The pattern, UTF-16LE.
    pub pattern: &'a [u8],
    /// Output buffer of the client, in bytes.
    pub output_bytes: u32,
}

impl<'a> QueryDirectoryRequest<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the pattern lies outside
    /// it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(33, "query directory")?;
        let class = r.u8("query directory")?;
        let flags = QueryFlags(r.u8("query directory")?);
        let index = r.u32("query directory")?;
        let file_id = FileId::decode(r)?;
        let offset = usize::from(r.u16("query directory")?);
        let length = usize::from(r.u16("query directory")?);
        let output_bytes = r.u32("query directory")?;
        let pattern = r.part(offset, length, "pattern")?;
        Ok(Self { class, flags, index, file_id, pattern, output_bytes })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let offset = w.position() + 32;
        w.u16(33);
        w.u8(self.class);
        w.u8(self.flags.0);
        w.u32(self.index);
        self.file_id.encode(w);
        w.u16(offset as u16);
        w.u16(self.pattern.len() as u16);
        w.u32(self.output_bytes);
        put_variable(w, self.pattern);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_read_as_it_was_written() {
        let file_id = FileId { persistent: 1, volatile: 2 };
        let query = QueryDirectoryRequest {
            class: 37,
            flags: QueryFlags(QueryFlags::RESTART),
            index: 3,
            file_id,
            pattern: b"*\0",
            output_bytes: 65_536,
        };
        let mut bytes = vec![0; 64];
        query.encode(&mut Writer::with_origin(&mut bytes, 0));
        let mut r = Reader::new(&bytes);
        r.skip(64, "header").unwrap();
        assert_eq!(QueryDirectoryRequest::decode(&mut r), Ok(query));
    }
}
