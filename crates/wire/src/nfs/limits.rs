//! Upper bounds of one message's contents. A length from the network is a request, which these
//! bounds limit.

/// Bytes of a file handle. RFC 8881 3.2, `NFS4_FHSIZE`.
pub const FILE_HANDLE_BYTES_MAX: usize = 128;

/// Bytes of owners, of names of clients and servers. RFC 8881 3.2,
/// `NFS4_OPAQUE_LIMIT`.
pub const OPAQUE_BYTES_MAX: usize = 1024;

/// Bytes of the tag of a compound, which is echoed.
pub const TAG_BYTES_MAX: usize = 1024;

/// Words of 32 bits in a bitmap. Attributes of NFSv4.2 take three; the others
/// are for versions to come.
pub const BITMAP_WORDS_MAX: usize = 16;

/// Operations that one compound may announce. A session's own limit is far below; this bound covers
/// requests without a session.
pub const COMPOUND_OPERATIONS_MAX: usize = 1024;

/// Bytes of one RPC call or reply, all fragments together: a READ or WRITE of 4 MiB with its
/// headers.
pub const RECORD_BYTES_MAX: usize = (4 << 20) + (64 << 10);

/// Bytes of credentials and of verifiers. RFC 5531 8.2.
pub const AUTH_BYTES_MAX: usize = 400;

/// Groups in AUTH_SYS credentials. RFC 5531 appendix A.
pub const GROUPS_MAX: usize = 16;

/// Bytes of the machine's name in AUTH_SYS credentials. RFC 5531 appendix A.
pub const MACHINE_NAME_BYTES_MAX: usize = 255;

/// State identifiers in one TEST_STATEID.
pub const TEST_STATE_IDS_MAX: usize = 4096;

/// Callback security flavors that a client may offer.
pub const CALLBACK_SECURITY_MAX: usize = 16;

/// Algorithms in one list of SP4_SSV.
pub const ALGORITHMS_MAX: usize = 16;

/// Entries of an access control list.
pub const ACL_ENTRIES_MAX: usize = 4096;

/// Servers and paths in fs_locations.
pub const LOCATIONS_MAX: usize = 64;

/// Components of one path.
pub const PATH_COMPONENTS_MAX: usize = 256;

/// Security mechanisms in one reply.
pub const SECURITY_FLAVORS_MAX: usize = 32;

/// Names in one answer to LISTXATTRS.
pub const XATTR_NAMES_MAX: usize = 65_536;

/// Entries in one answer to READDIR.
pub const READDIR_ENTRIES_MAX: usize = 65_536;

/// Segments in one answer to READ_PLUS.
pub const READ_PLUS_SEGMENTS_MAX: usize = 4096;

/// Servers that a copy may come from.
pub const COPY_SOURCES_MAX: usize = 16;

/// State ids in the reply to an asynchronous copy.
pub const COPY_STATE_IDS_MAX: usize = 1;

/// Layout segments in one answer.
pub const LAYOUTS_MAX: usize = 64;

/// Entries in each referring call list of CB_SEQUENCE.
pub const REFERRING_CALLS_MAX: usize = 64;

/// Notifications and device changes in one callback.
pub const NOTIFICATIONS_MAX: usize = 1024;
