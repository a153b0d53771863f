//! Data of files: READ, WRITE, COMMIT. RFC 8881 18.3, 18.22, 18.32.

use crate::nfs::xdr::{Encode, Reserved, XdrWriter, padding, xdr_struct};
use crate::nfs::{StableHow, StateId, Verifier};

xdr_struct! {
    /// READ's arguments.
    #[derive(Copy)]
    struct ReadArgs {
        /// As who is read.
        state_id: StateId,
        /// From where, in bytes.
        offset: u64,
        /// How much at most, in bytes.
        count: u32,
    }

    /// READ's results, as a client reads them. A server begins them with
    /// [`ReadWriter`].
    #[derive(Copy)]
    struct ReadResult<'a> {
        /// Whether the file ends with this.
        is_end: bool,
        /// What was read.
        data: &'a [u8],
    }

    /// WRITE's arguments.
    #[derive(Copy)]
    struct WriteArgs<'a> {
        /// As who is written.
        state_id: StateId,
        /// To where, in bytes.
        offset: u64,
        /// How safe it must be before the answer.
        stable: StableHow,
        /// What is written.
        data: &'a [u8],
    }

    /// WRITE's results.
    #[derive(Copy)]
    struct WriteResult {
        /// Bytes that were written.
        count: u32,
        /// How safe they are.
        committed: StableHow,
        /// Another one than before if the server may have lost unstable data.
        verifier: Verifier,
    }

    /// COMMIT's arguments. The result is a [`Verifier`].
    #[derive(Copy)]
    struct CommitArgs {
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes; 0 is to the end.
        count: u32,
    }
}

/// READ's results, as a server writes them: data is appended to the writer's
/// buffer, or is sent from elsewhere.
#[derive(Debug)]
#[must_use = "a READ ends with finish() or finish_elsewhere()"]
pub struct ReadWriter {
    is_end: Reserved,
    length: Reserved,
}

impl ReadWriter {
    /// Writes what stands before the data. The data is then appended to
    /// [`XdrWriter::buffer`].
    pub fn begin(w: &mut XdrWriter<'_>) -> Self {
        Self { is_end: w.reserve_u32(), length: w.reserve_u32() }
    }

    /// Ends data that was appended. Returns its length in bytes.
    pub fn finish(self, w: &mut XdrWriter<'_>, is_end: bool) -> usize {
        w.fill_u32(self.is_end, u32::from(is_end));
        w.finish_opaque(self.length)
    }

    /// Ends the results if `length_bytes` of data are not in the buffer, but sent
    /// behind it. Returns how many bytes of padding must be sent behind them.
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
    /// Writes what stands before the data: a client sends `length_bytes` of it
    /// behind, and [`padding`].
    pub fn encode_before_data(&self, w: &mut XdrWriter<'_>, length_bytes: usize) {
        w.put(&self.state_id);
        w.put(&self.offset);
        w.put(&self.stable);
        (length_bytes as u32).encode(w);
    }
}
