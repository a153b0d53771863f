//! The current file handle: PUTFH, LOOKUP, OPENATTR. RFC 8881 18.13, 18.17,
//! 18.19. PUTROOTFH, PUTPUBFH, GETFH, SAVEFH, RESTOREFH and LOOKUPP have no
//! arguments; GETFH's result is a file handle.

use crate::nfs::FileHandle;
use crate::nfs::xdr::xdr_struct;

xdr_struct! {
    /// PUTFH's arguments.
    #[derive(Copy)]
    struct PutFhArgs {
        /// The new current file handle.
        object: FileHandle,
    }

    /// LOOKUP's arguments.
    #[derive(Copy)]
    struct LookupArgs<'a> {
        /// A name in the current directory.
        name: &'a [u8],
    }

    /// OPENATTR's arguments.
    #[derive(Copy)]
    struct OpenAttrArgs {
        /// Creates the named attribute directory if it is absent.
        create_directory: bool,
    }
}
