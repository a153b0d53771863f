//! SEEK. RFC 7862 15.11.

use crate::nfs::StateId;
use crate::nfs::xdr::{xdr_enum, xdr_struct};

xdr_enum! {
    /// Content of a file range: `data_content4`.
    enum DataContent {
        /// Data.
        Data = 0,
        /// A hole.
        Hole = 1,
    }
}

xdr_struct! {
    /// SEEK's arguments.
    #[derive(Copy)]
    struct SeekArgs {
        /// State id that authorizes the access.
        state_id: StateId,
        /// Offset of the first byte.
        offset: u64,
        /// The content to find.
        what: DataContent,
    }

    /// SEEK's results.
    #[derive(Copy)]
    struct SeekResult {
        /// True if the file ends before a match.
        is_end: bool,
        /// Offset of the match, in bytes.
        offset: u64,
    }
}
