//! READ. RFC 8881 18.22.

use crate::nfs::StateId;
use crate::nfs::xdr::{ReservedWord, XdrWriter, padding, xdr_struct};

xdr_struct! {
    /// READ's arguments.
    #[derive(Copy)]
    struct ReadArgs {
        /// State id that authorizes the read.
        state_id: StateId,
        /// Offset of the first byte.
        offset: u64,
        /// Maximum length, in bytes.
        count: u32,
    }

    /// READ's results as a client decodes them. A server encodes them with [`ReadWriter`].
    #[derive(Copy)]
    struct ReadResult<'a> {
        /// True if the data ends at the end of the file.
        is_end: bool,
        /// The data.
        data: &'a [u8],
    }
}

/// READ's results as a server encodes them. The data is appended to the writer's buffer, or sent
/// from elsewhere.
#[derive(Debug)]
#[must_use = "a READ ends with finish() or finish_elsewhere()"]
pub struct ReadWriter {
    is_end: ReservedWord,
    length: ReservedWord,
}

impl ReadWriter {
    /// Writes the part before the data. The caller then appends the data to [`XdrWriter::buffer`].
    pub fn begin(w: &mut XdrWriter<'_>) -> Self {
        Self { is_end: w.reserve_u32(), length: w.reserve_u32() }
    }

    /// Completes appended data. Returns its length in bytes.
    pub fn finish(self, w: &mut XdrWriter<'_>, is_end: bool) -> usize {
        w.fill_u32(self.is_end, u32::from(is_end));
        w.finish_opaque(self.length)
    }

    /// Completes results whose `length_bytes` of data are sent behind the buffer. Returns the
    /// number of padding bytes that must follow the data.
    pub fn finish_elsewhere(
        self,
        w: &mut XdrWriter<'_>,
        is_end: bool,
        length_bytes: usize,
    ) -> usize {
        w.fill_u32(self.is_end, u32::from(is_end));
        w.fill_u32(self.length, length_bytes as u32);
        padding(length_bytes)
    }
}
