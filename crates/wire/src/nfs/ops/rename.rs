//! RENAME. RFC 8881 18.26.

use crate::nfs::ChangeInfo;
use crate::nfs::xdr::xdr_struct;

xdr_struct! {
    /// RENAME's arguments.
    #[derive(Copy)]
    struct RenameArgs<'a> {
        /// A name in the saved directory.
        old_name: &'a [u8],
        /// A name in the current directory.
        new_name: &'a [u8],
    }

    /// RENAME's results.
    #[derive(Copy)]
    struct RenameResult {
        /// Change attribute of the saved directory.
        source: ChangeInfo,
        /// Change attribute of the current directory.
        target: ChangeInfo,
    }
}
