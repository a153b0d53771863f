//! The body of an error reply. MS-SMB2 2.2.2.

use crate::codec::Writer;

/// ERROR response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorResponse<'a> {
    /// Number of error contexts in `data` (3.1.1 only, else 0).
    pub contexts: u8,
    /// Error data.
    pub data: &'a [u8],
}

impl ErrorResponse<'_> {
    /// Nothing but the header's status.
    pub const EMPTY: ErrorResponse<'static> = ErrorResponse { contexts: 0, data: &[] };

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
