//! File data: READ, WRITE, COMMIT. RFC 8881 18.3, 18.22, 18.32.

use crate::nfs::xdr::{Encode, ReservedWord, XdrWriter, padding, xdr_struct};
use crate::nfs::{StableHow, StateId, Verifier};

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

    /// WRITE's arguments.
    #[derive(Copy)]
    struct WriteArgs<'a> {
        /// State id that authorizes the write.
        state_id: StateId,
        /// Target offset of the first byte.
        offset: u64,
        /// Required durability.
        stable: StableHow,
        /// The data.
        data: &'a [u8],
    }

    /// WRITE's results.
    #[derive(Copy)]
    struct WriteResult {
        /// Bytes written.
        count: u32,
        /// Durability of the written bytes.
        committed: StableHow,
        /// Write verifier. It changes if the server may have lost unstable data.
        verifier: Verifier,
    }

    /// COMMIT's arguments. The result is a [`Verifier`].
    #[derive(Copy)]
    struct CommitArgs {
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes; 0 extends to the end of the file.
        count: u32,
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

impl WriteArgs<'_> {
    /// Writes the part before the data. The client then sends `length_bytes` of data and
    /// [`padding`].
    pub fn encode_before_data(&self, w: &mut XdrWriter<'_>, length_bytes: usize) {
        w.put(&self.state_id);
        w.put(&self.offset);
        w.put(&self.stable);
        (length_bytes as u32).encode(w);
    }
}
