//! ALLOCATE, DEALLOCATE. RFC 7862 15.1, 15.4.

use crate::nfs::StateId;
use crate::nfs::xdr::xdr_struct;

xdr_struct! {
    /// ALLOCATE's arguments.
    #[derive(Copy)]
    struct AllocateArgs {
        /// State id that authorizes the access.
        state_id: StateId,
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes.
        length: u64,
    }

    /// DEALLOCATE's arguments.
    #[derive(Copy)]
    struct DeallocateArgs {
        /// State id that authorizes the access.
        state_id: StateId,
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes.
        length: u64,
    }
}
