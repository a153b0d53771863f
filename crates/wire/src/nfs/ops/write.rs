//! WRITE. RFC 8881 18.32.

use crate::nfs::xdr::{Encode, XdrWriter, xdr_struct};
use crate::nfs::{StableHow, StateId, Verifier};

xdr_struct! {
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
}

impl WriteArgs<'_> {
    /// Writes the part before the data. The client then sends `length_bytes` of data and
    /// [`crate::nfs::xdr::padding`].
    pub fn encode_before_data(&self, w: &mut XdrWriter<'_>, length_bytes: usize) {
        w.put(&self.state_id);
        w.put(&self.offset);
        w.put(&self.stable);
        (length_bytes as u32).encode(w);
    }
}
