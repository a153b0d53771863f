//! CLONE. RFC 7862 15.13.

use crate::nfs::StateId;
use crate::nfs::xdr::xdr_struct;

xdr_struct! {
    /// CLONE's arguments: clones from the saved file to the current one.
    #[derive(Copy)]
    struct CloneArgs {
        /// State id that authorizes the read.
        source_state_id: StateId,
        /// State id that authorizes the write.
        destination_state_id: StateId,
        /// Offset of the first byte.
        source_offset: u64,
        /// Target offset of the first byte.
        destination_offset: u64,
        /// Length, in bytes; 0 extends to the end of the file.
        count: u64,
    }
}
