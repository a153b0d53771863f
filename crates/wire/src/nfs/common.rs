//! What several operations share. RFC 8881 3.

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

    /// How safe written data is: `stable_how4`. RFC 8881 18.32.
    #[derive(PartialOrd, Ord)]
    enum StableHow {
        /// Until a COMMIT, it may be lost with the server.
        Unstable = 0,
        /// The data, and what is needed to read it, survives a loss of power.
        DataSync = 1,
        /// So do all attributes.
        FileSync = 2,
    }

    /// Kinds of byte-range locks: `nfs_lock_type4`. RFC 8881 3.3.
    enum LockType {
        /// Shared.
        Read = 1,
        /// Exclusive.
        Write = 2,
        /// Shared; the client will ask again if it is refused.
        ReadWait = 3,
        /// Exclusive; the client will ask again if it is refused.
        WriteWait = 4,
    }
}

impl LockType {
    /// Whether it excludes other locks.
    #[must_use]
    pub fn is_exclusive(self) -> bool {
        matches!(self, Self::Write | Self::WriteWait)
    }

    /// Whether the client would wait for it.
    #[must_use]
    pub fn may_wait(self) -> bool {
        matches!(self, Self::ReadWait | Self::WriteWait)
    }
}

xdr_flags! {
    /// What a client may do with a file: of ACCESS. RFC 8881 18.1.1.
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
    /// Change attributes of a directory around a change: `change_info4`.
    /// RFC 8881 3.3.12.
    #[derive(Copy, Default)]
    struct ChangeInfo {
        /// Whether nothing else can have happened in between.
        is_atomic: bool,
        /// The attribute before the change.
        before: u64,
        /// The attribute after it.
        after: u64,
    }

    /// Who opens or locks: `state_owner4`. RFC 8881 3.3.14.
    ///
    /// Servers take the client from the session, and ignore the one here.
    #[derive(Copy, Hash)]
    struct StateOwner<'a> {
        /// The client.
        client_id: ClientId,
        /// Which of its processes.
        owner: Opaque<'a, OPAQUE_BYTES_MAX>,
    }
}
