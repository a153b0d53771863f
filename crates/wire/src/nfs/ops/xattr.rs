//! Extended attributes: GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR. RFC 8276 8.4.

use crate::nfs::limits::XATTR_NAMES_MAX;
use crate::nfs::xdr::{List, xdr_enum, xdr_struct};

xdr_enum! {
    /// Whether the attribute must be there: `setxattr_option4`.
    enum SetXattrOption {
        /// Either way.
        Either = 0,
        /// It must not.
        Create = 1,
        /// It must.
        Replace = 2,
    }
}

xdr_struct! {
    /// GETXATTR's arguments. The result is the value.
    #[derive(Copy)]
    struct GetXattrArgs<'a> {
        /// The name, without `user.`.
        name: &'a [u8],
    }

    /// SETXATTR's arguments. The result is [`ChangeInfo`](crate::nfs::ChangeInfo).
    #[derive(Copy)]
    struct SetXattrArgs<'a> {
        /// Whether it must be there.
        option: SetXattrOption,
        /// The name, without `user.`.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    }

    /// LISTXATTRS's arguments.
    #[derive(Copy)]
    struct ListXattrsArgs {
        /// After which name to go on; 0 is from the start.
        cookie: u64,
        /// Bytes of the whole result that there may be.
        bytes_max: u32,
    }

    /// LISTXATTRS's results.
    struct ListXattrsResult<'a> {
        /// Where to go on after these.
        cookie: u64,
        /// The names, without `user.`.
        names: List<&'a [u8], XATTR_NAMES_MAX>,
        /// Whether they were the last.
        is_end: bool,
    }

    /// REMOVEXATTR's arguments. The result is [`ChangeInfo`](crate::nfs::ChangeInfo).
    #[derive(Copy)]
    struct RemoveXattrArgs<'a> {
        /// The name, without `user.`.
        name: &'a [u8],
    }
}
