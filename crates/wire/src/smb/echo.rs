//! Bodies of four bytes: LOGOFF, TREE_DISCONNECT, ECHO, CANCEL, and the responses to FLUSH and
//! LOCK. MS-SMB2 2.2.7, 2.2.8, 2.2.11, 2.2.12, 2.2.18, 2.2.27 to 2.2.30.

use crate::codec::{DecodeError, Reader, Writer};

/// A body without fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmptyBody;

impl EmptyBody {
    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is short or has another size.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.structure_size(4, "empty body")?;
        r.skip(2, "empty body")?;
        Ok(Self)
    }

    /// Appends the body.
    pub fn encode(self, w: &mut Writer<'_>) {
        w.u16(4);
        w.u16(0);
    }
}
