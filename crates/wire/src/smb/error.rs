//! The body of an error reply. MS-SMB2 2.2.2.

use crate::codec::{Malformed, Reader, Writer};

/// The tag of symbolic links. MS-FSCC 2.1.2.1.
pub const IO_REPARSE_TAG_SYMLINK: u32 = 0xA000_000C;

/// ERROR response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorResponse<'a> {
    /// Number of error contexts in `data` (3.1.1 only, else 0).
    pub contexts: u8,
    /// Error data.
    pub data: &'a [u8],
}

impl<'a> ErrorResponse<'a> {
    /// Nothing but the header's status.
    pub const EMPTY: ErrorResponse<'static> = ErrorResponse { contexts: 0, data: &[] };

    /// Reads the body.
    ///
    /// # Errors
    /// [`Malformed`] if it is short, has another size, or the data is not in it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        r.structure_size(9, "error response")?;
        let contexts = r.u8("error response")?;
        r.skip(1, "error response")?;
        let length = r.u32("error response")? as usize;
        Ok(Self { contexts, data: r.take(length, "error response data")? })
    }

    /// The one error context of a reply that stops at a symbolic link whose text is
    /// `target`; `unparsed` bytes of the path in UTF-16 lie behind it. MS-SMB2 2.2.2.1,
    /// 2.2.2.2.1.
    #[must_use]
    pub fn symlink_context(target: &[u16], unparsed: u16, is_relative: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        let length = target.len() * 2;
        // Length and id of the context; SymLinkLength counts what is behind it.
        w.u32((32 + 2 * length) as u32);
        w.u32(0);
        w.u32((28 + 2 * length) as u32);
        w.bytes(b"SYML");
        w.u32(IO_REPARSE_TAG_SYMLINK);
        w.u16((12 + 2 * length) as u16);
        w.u16(unparsed);
        // The substitute name, then the print name: the same.
        for field in [0, length, length, length] {
            w.u16(field as u16);
        }
        w.u32(u32::from(is_relative));
        target.iter().chain(target).for_each(|unit| w.u16(*unit));
        out
    }

    /// Appends the body. Without data one zero byte stands in its place.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u16(9);
        w.u8(self.contexts);
        w.u8(0);
        w.u32(self.data.len() as u32);
        if self.data.is_empty() {
            w.u8(0);
        } else {
            w.bytes(self.data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_as_it_was_written() {
        for response in [ErrorResponse::EMPTY, ErrorResponse { contexts: 1, data: b"context" }] {
            let mut bytes = Vec::new();
            response.encode(&mut Writer::new(&mut bytes));
            assert_eq!(ErrorResponse::decode(&mut Reader::new(&bytes)), Ok(response));
            assert!(bytes.len() >= 9, "the structure's size counts one byte of data");
        }
    }
}
