//! NFSv4 access control lists. RFC 8881 6.2.

use super::limits::ACL_ENTRIES_MAX;
use super::xdr::{List, xdr_enum, xdr_flags, xdr_struct};

xdr_enum! {
    /// Type of an entry: `acetype4`.
    enum AceType {
        /// Allows the access.
        Allow = 0,
        /// Denies the access.
        Deny = 1,
        /// Logs the access.
        Audit = 2,
        /// Reports the access.
        Alarm = 3,
    }
}

xdr_flags! {
    /// Inheritance and principal type of an entry: `aceflag4`.
    flags AceFlags {
        /// New files inherit the entry.
        FILE_INHERIT = 0x01,
        /// New directories inherit the entry.
        DIRECTORY_INHERIT = 0x02,
        /// Children that inherit the entry do not propagate it.
        NO_PROPAGATE_INHERIT = 0x04,
        /// The entry applies to children only, not to the directory itself.
        INHERIT_ONLY = 0x08,
        /// The entry logs or reports permitted accesses.
        SUCCESSFUL_ACCESS = 0x10,
        /// The entry logs or reports denied accesses.
        FAILED_ACCESS = 0x20,
        /// `who` is a group.
        IDENTIFIER_GROUP = 0x40,
        /// The entry was inherited.
        INHERITED = 0x80,
    }

    /// Access rights: `acemask4`. Files and directories share bits.
    flags AceMask {
        /// Read data; list a directory.
        READ_DATA = 0x0000_0001,
        /// Write data; add files to a directory.
        WRITE_DATA = 0x0000_0002,
        /// Append data; add directories to a directory.
        APPEND_DATA = 0x0000_0004,
        /// Read named attributes.
        READ_NAMED_ATTRS = 0x0000_0008,
        /// Write named attributes.
        WRITE_NAMED_ATTRS = 0x0000_0010,
        /// Execute a file; traverse a directory.
        EXECUTE = 0x0000_0020,
        /// Delete children of a directory.
        DELETE_CHILD = 0x0000_0040,
        /// Read attributes.
        READ_ATTRIBUTES = 0x0000_0080,
        /// Write attributes.
        WRITE_ATTRIBUTES = 0x0000_0100,
        /// Change the retention period.
        WRITE_RETENTION = 0x0000_0200,
        /// Place or release a retention hold.
        WRITE_RETENTION_HOLD = 0x0000_0400,
        /// Delete the file.
        DELETE = 0x0001_0000,
        /// Read the ACL.
        READ_ACL = 0x0002_0000,
        /// Change the ACL.
        WRITE_ACL = 0x0004_0000,
        /// Change the owner.
        WRITE_OWNER = 0x0008_0000,
        /// Use the file for synchronization.
        SYNCHRONIZE = 0x0010_0000,
    }

    /// Flags of a list: `aclflag4`. RFC 8881 6.4.3.
    flags AclFlags {
        /// The list is subject to automatic inheritance.
        AUTO_INHERIT = 0x1,
        /// The list is protected from automatic inheritance.
        PROTECTED = 0x2,
        /// The list was created by default.
        DEFAULTED = 0x4,
    }
}

xdr_struct! {
    /// One entry: `nfsace4`.
    #[derive(Copy)]
    struct NfsAce<'a> {
        /// Type.
        ace_type: AceType,
        /// Inheritance and principal type.
        flags: AceFlags,
        /// Access rights.
        mask: AceMask,
        /// Principal: `user@domain`, a number, or one of [`who`].
        who: &'a [u8],
    }

    /// A list with flags, of the attributes dacl and sacl: `nfsacl41`.
    struct Acl41<'a> {
        /// Inheritance flags of the list.
        flags: AclFlags,
        /// Entries.
        entries: Acl<'a>,
    }
}

/// A list without flags, of the attribute acl.
pub type Acl<'a> = List<NfsAce<'a>, ACL_ENTRIES_MAX>;

/// Special principals without a domain. RFC 8881 6.2.1.5.
pub mod who {
    /// The owner of the file.
    pub const OWNER: &[u8] = b"OWNER@";
    /// The group of the file.
    pub const GROUP: &[u8] = b"GROUP@";
    /// Everyone, including the owner.
    pub const EVERYONE: &[u8] = b"EVERYONE@";
    /// A caller without authentication.
    pub const ANONYMOUS: &[u8] = b"ANONYMOUS@";
    /// Any authenticated caller.
    pub const AUTHENTICATED: &[u8] = b"AUTHENTICATED@";
}

/// Entry types that a server supports: the attribute aclsupport. RFC 8881 6.2.1.2.
pub mod support {
    /// ALLOW entries.
    pub const ALLOW: u32 = 0x1;
    /// DENY entries.
    pub const DENY: u32 = 0x2;
    /// AUDIT entries.
    pub const AUDIT: u32 = 0x4;
    /// ALARM entries.
    pub const ALARM: u32 = 0x8;
}
