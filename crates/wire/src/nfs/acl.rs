//! Access control lists as NFS has them. RFC 8881 6.2.

use super::limits::ACL_ENTRIES_MAX;
use super::xdr::{List, xdr_enum, xdr_flags, xdr_struct};

xdr_enum! {
    /// What an entry does: `acetype4`.
    enum AceType {
        /// Allows.
        Allow = 0,
        /// Denies.
        Deny = 1,
        /// Has accesses logged.
        Audit = 2,
        /// Has accesses reported.
        Alarm = 3,
    }
}

xdr_flags! {
    /// How an entry is inherited and whom it names: `aceflag4`.
    flags AceFlags {
        /// New files get it.
        FILE_INHERIT = 0x01,
        /// New directories get it.
        DIRECTORY_INHERIT = 0x02,
        /// What inherits it does not pass it on.
        NO_PROPAGATE_INHERIT = 0x04,
        /// It is for what inherits it, not for the directory itself.
        INHERIT_ONLY = 0x08,
        /// Accesses that were allowed are meant.
        SUCCESSFUL_ACCESS = 0x10,
        /// Accesses that were refused are meant.
        FAILED_ACCESS = 0x20,
        /// `who` is a group.
        IDENTIFIER_GROUP = 0x40,
        /// It was inherited.
        INHERITED = 0x80,
    }

    /// What may be done: `acemask4`. Files and directories share bits.
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
        /// Execute a file; go through a directory.
        EXECUTE = 0x0000_0020,
        /// Remove what is in a directory.
        DELETE_CHILD = 0x0000_0040,
        /// Read attributes.
        READ_ATTRIBUTES = 0x0000_0080,
        /// Write attributes.
        WRITE_ATTRIBUTES = 0x0000_0100,
        /// Change how long the file is retained.
        WRITE_RETENTION = 0x0000_0200,
        /// Hold the file back from being removed.
        WRITE_RETENTION_HOLD = 0x0000_0400,
        /// Remove.
        DELETE = 0x0001_0000,
        /// Read the list.
        READ_ACL = 0x0002_0000,
        /// Change the list.
        WRITE_ACL = 0x0004_0000,
        /// Change the owner.
        WRITE_OWNER = 0x0008_0000,
        /// Wait for the file.
        SYNCHRONIZE = 0x0010_0000,
    }

    /// How a list came about: `aclflag4`. RFC 8881 6.4.3.
    flags AclFlags {
        /// Entries of the directory above are taken over.
        AUTO_INHERIT = 0x1,
        /// They are not.
        PROTECTED = 0x2,
        /// Nobody asked for this list.
        DEFAULTED = 0x4,
    }
}

xdr_struct! {
    /// One entry: `nfsace4`.
    #[derive(Copy)]
    struct Ace<'a> {
        /// What it does.
        ace_type: AceType,
        /// How it is inherited.
        flags: AceFlags,
        /// What may be done.
        mask: AceMask,
        /// By whom: `user@domain`, a number, or one of [`who`].
        who: &'a [u8],
    }

    /// A list with flags, of the attributes dacl and sacl: `nfsacl41`.
    struct Acl41<'a> {
        /// How it came about.
        flags: AclFlags,
        /// Its entries.
        entries: Acl<'a>,
    }
}

/// A list without flags, of the attribute acl.
pub type Acl<'a> = List<Ace<'a>, ACL_ENTRIES_MAX>;

/// Those that entries can name without a domain. RFC 8881 6.2.1.5.
pub mod who {
    /// The owner of the file.
    pub const OWNER: &[u8] = b"OWNER@";
    /// The group of the file.
    pub const GROUP: &[u8] = b"GROUP@";
    /// Everyone, the owner among them.
    pub const EVERYONE: &[u8] = b"EVERYONE@";
    /// Whoever comes without a name.
    pub const ANONYMOUS: &[u8] = b"ANONYMOUS@";
    /// Whoever proved a name.
    pub const AUTHENTICATED: &[u8] = b"AUTHENTICATED@";
}

/// Kinds of entries that a server keeps: the attribute aclsupport. RFC 8881 6.2.1.2.
pub mod support {
    /// Allowing ones.
    pub const ALLOW: u32 = 0x1;
    /// Denying ones.
    pub const DENY: u32 = 0x2;
    /// Logging ones.
    pub const AUDIT: u32 = 0x4;
    /// Reporting ones.
    pub const ALARM: u32 = 0x8;
}
