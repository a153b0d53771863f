//! REMOVE. RFC 8881 18.25.

use crate::nfs::xdr::xdr_struct;

xdr_struct! {
    /// REMOVE's arguments. The result is [`crate::nfs::ChangeInfo`].
    #[derive(Copy)]
    struct RemoveArgs<'a> {
        /// A name in the current directory.
        name: &'a [u8],
    }
}
