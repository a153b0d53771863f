//! Types that several operations share. RFC 8881 3.

use super::ids::ClientId;
use super::limits::OPAQUE_BYTES_MAX;
use super::xdr::{Opaque, xdr_enum, xdr_flags, xdr_struct};

xdr_enum! {
    /// Types of files: `nfs_ftype4`. RFC 8881 3.2.
    enum FileType {
        /// A regular file.
        Regular = 1,
        /// A directory.
        Directory = 2,
        /// A block device.
        Block = 3,
        /// A character device.
        Character = 4,
        /// A symbolic link.
        Link = 5,
        /// A socket.
        Socket = 6,
        /// A named pipe.
        Fifo = 7,
        /// The directory of a file's named attributes.
        AttributeDirectory = 8,
        /// A named attribute.
        NamedAttribute = 9,
    }

    /// Durability of written data: `stable_how4`. RFC 8881 18.32.
    #[derive(PartialOrd, Ord)]
    enum StableHow {
        /// The data may be lost in a server crash until a COMMIT.
        Unstable = 0,
        /// The data and the metadata needed to read it are on stable storage.
        DataSync = 1,
        /// The data and all metadata are on stable storage.
        FileSync = 2,
    }

    /// Kinds of byte-range locks: `nfs_lock_type4`. RFC 8881 3.3.
    enum LockType {
        /// Shared.
        Read = 1,
        /// Exclusive.
        Write = 2,
        /// Shared; the client retries after a denial.
        ReadWait = 3,
        /// Exclusive; the client retries after a denial.
        WriteWait = 4,
    }
}

impl LockType {
    /// True for an exclusive lock.
    #[must_use]
    pub fn is_exclusive(self) -> bool {
        matches!(self, Self::Write | Self::WriteWait)
    }

    /// True if the client would wait for the lock.
    #[must_use]
    pub fn may_wait(self) -> bool {
        matches!(self, Self::ReadWait | Self::WriteWait)
    }
}

xdr_flags! {
    /// Access rights of ACCESS. RFC 8881 18.1.1.
    flags Access {
        /// Read data, list a directory.
        READ = 0x01,
        /// Look up a name in a directory.
        LOOKUP = 0x02,
        /// Rewrite data, change names in a directory.
        MODIFY = 0x04,
        /// Write new data, add names to a directory.
        EXTEND = 0x08,
        /// Remove a name from a directory.
        DELETE = 0x10,
        /// Execute a file.
        EXECUTE = 0x20,
        /// Read extended attributes. RFC 8276 8.3.
        XATTR_READ = 0x40,
        /// Change extended attributes.
        XATTR_WRITE = 0x80,
        /// List extended attributes.
        XATTR_LIST = 0x100,
    }
}

xdr_struct! {
    /// The directory's change attribute before and after an operation: `change_info4`. RFC 8881
    /// 3.3.12.
    #[derive(Copy, Default)]
    struct ChangeInfo {
        /// True if no other change can have occurred in between.
        is_atomic: bool,
        /// The attribute before the change.
        before: u64,
        /// The attribute after it.
        after: u64,
    }

    /// Open owner or lock owner: `state_owner4`. RFC 8881 3.3.14.
    ///
    /// A server takes the client from the session and ignores the one here.
    #[derive(Copy, Hash)]
    struct StateOwner<'a> {
        /// The client.
        client_id: ClientId,
        /// Opaque owner, chosen by the client.
        owner: Opaque<'a, OPAQUE_BYTES_MAX>,
    }
}
