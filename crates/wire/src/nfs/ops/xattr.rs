//! Extended attributes: GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR. RFC 8276 8.4.

use crate::nfs::limits::XATTR_NAMES_MAX;
use crate::nfs::xdr::{List, xdr_enum, xdr_struct};

xdr_enum! {
    /// Creation mode of an extended attribute: `setxattr_option4`.
    enum SetXattrOption {
        /// Creates or replaces the attribute.
        Either = 0,
        /// Creates the attribute; it must not exist.
        Create = 1,
        /// Replaces the attribute; it must exist.
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
        /// Creation mode.
        option: SetXattrOption,
        /// The name, without `user.`.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    }

    /// LISTXATTRS's arguments.
    #[derive(Copy)]
    struct ListXattrsArgs {
        /// Cookie of the name to continue after; 0 for the start.
        cookie: u64,
        /// Maximum length of the complete result, in bytes.
        bytes_max: u32,
    }

    /// LISTXATTRS's results.
    struct ListXattrsResult<'a> {
        /// Cookie to continue after these names.
        cookie: u64,
        /// The names, without `user.`.
        names: List<&'a [u8], XATTR_NAMES_MAX>,
        /// True if these are the last names.
        is_end: bool,
    }

    /// REMOVEXATTR's arguments. The result is [`ChangeInfo`](crate::nfs::ChangeInfo).
    #[derive(Copy)]
    struct RemoveXattrArgs<'a> {
        /// The name, without `user.`.
        name: &'a [u8],
    }
}
