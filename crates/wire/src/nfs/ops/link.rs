//! LINK. RFC 8881 18.9.

use crate::nfs::xdr::xdr_struct;

xdr_struct! {
    /// LINK's arguments: creates a link to the saved file in the current directory. The result is
    /// [`crate::nfs::ChangeInfo`].
    #[derive(Copy)]
    struct LinkArgs<'a> {
        /// The name.
        new_name: &'a [u8],
    }
}
