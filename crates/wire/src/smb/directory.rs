//! QUERY_DIRECTORY and CHANGE_NOTIFY. MS-SMB2 2.2.33 to 2.2.36.

use crate::codec::{Malformed, Reader, Writer};
use crate::smb::ids::FileId;
use crate::smb::info::put_variable;

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
    /// [`Malformed`] if the body is short, has another size, or the pattern lies outside
    /// it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
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
    /// [`Malformed`] if it is short or has another size.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_were_written() {
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
        let notify = ChangeNotifyRequest { flags: 1, output_bytes: 9, file_id, filter: 0x17 };
        let mut bytes = Vec::new();
        notify.encode(&mut Writer::new(&mut bytes));
        assert_eq!(ChangeNotifyRequest::decode(&mut Reader::new(&bytes)), Ok(notify));
        assert_eq!(bytes.len(), 32);
    }
}
