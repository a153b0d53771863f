//! CLOSE. RFC 8881 18.2.

use crate::nfs::StateId;
use crate::nfs::xdr::xdr_struct;

xdr_struct! {
    /// CLOSE's arguments. The result is an invalid [`StateId`].
    #[derive(Copy)]
    struct CloseArgs {
        /// Unused since version 4.1.
        sequence_id: u32,
        /// State id of the open.
        state_id: StateId,
    }
}
