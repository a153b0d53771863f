//! IO_ADVISE. RFC 7862 15.5.

use crate::nfs::xdr::xdr_struct;
use crate::nfs::{Bitmap4, StateId};

/// Hints of IO_ADVISE: bits of its mask. RFC 7862 15.5.
pub mod io_advice {
    /// No particular pattern.
    pub const NORMAL: u32 = 0;
    /// Sequential access.
    pub const SEQUENTIAL: u32 = 1;
    /// Sequential access in descending order.
    pub const SEQUENTIAL_BACKWARDS: u32 = 2;
    /// Random access.
    pub const RANDOM: u32 = 3;
    /// The client will access the range soon.
    pub const WILLNEED: u32 = 4;
    /// The client may access the range soon.
    pub const WILLNEED_OPPORTUNISTIC: u32 = 5;
    /// The client will not access the range any more.
    pub const DONTNEED: u32 = 6;
    /// The client will access the range once.
    pub const NOREUSE: u32 = 7;
    /// The client will read the range.
    pub const READ: u32 = 8;
    /// The client will write the range.
    pub const WRITE: u32 = 9;
    /// The server is near the client.
    pub const INIT_PROXIMITY: u32 = 10;
}

xdr_struct! {
    /// IO_ADVISE's arguments. The result is the set of hints that the server applies.
    #[derive(Copy)]
    struct IoAdviseArgs {
        /// State id that authorizes the access.
        state_id: StateId,
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes; 0 extends to the end of the file.
        count: u64,
        /// Hints: [`io_advice`].
        hints: Bitmap4,
    }
}
