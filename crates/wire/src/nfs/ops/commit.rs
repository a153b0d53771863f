//! COMMIT. RFC 8881 18.3.

use crate::nfs::xdr::xdr_struct;

xdr_struct! {
    /// COMMIT's arguments. The result is a [`crate::nfs::Verifier`].
    #[derive(Copy)]
    struct CommitArgs {
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes; 0 extends to the end of the file.
        count: u32,
    }
}
