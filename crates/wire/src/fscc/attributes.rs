//! Attribute bits, options and dispositions. MS-FSCC 2.6, MS-SMB2 2.2.13.

#[allow(missing_docs, reason = "the names are the specification's")]
mod numbers {
    pub const FILE_ATTRIBUTE_READONLY: u32 = 0x1;
    pub const FILE_ATTRIBUTE_HIDDEN: u32 = 0x2;
    pub const FILE_ATTRIBUTE_SYSTEM: u32 = 0x4;
    pub const FILE_ATTRIBUTE_DIRECTORY: u32 = 0x10;
    pub const FILE_ATTRIBUTE_ARCHIVE: u32 = 0x20;
    pub const FILE_ATTRIBUTE_NORMAL: u32 = 0x80;
    pub const FILE_ATTRIBUTE_TEMPORARY: u32 = 0x100;
    pub const FILE_ATTRIBUTE_SPARSE: u32 = 0x200;
    pub const FILE_ATTRIBUTE_REPARSE_POINT: u32 = 0x400;
    pub const FILE_ATTRIBUTE_COMPRESSED: u32 = 0x800;
    pub const FILE_ATTRIBUTE_OFFLINE: u32 = 0x1000;
    pub const FILE_ATTRIBUTE_NOT_CONTENT_INDEXED: u32 = 0x2000;
    pub const FILE_ATTRIBUTE_ENCRYPTED: u32 = 0x4000;
    pub const FILE_ATTRIBUTE_INTEGRITY_STREAM: u32 = 0x8000;
    pub const FILE_ATTRIBUTE_NO_SCRUB_DATA: u32 = 0x2_0000;
    pub const FILE_ATTRIBUTE_RECALL_ON_OPEN: u32 = 0x4_0000;
    pub const FILE_ATTRIBUTE_PINNED: u32 = 0x8_0000;
    pub const FILE_ATTRIBUTE_UNPINNED: u32 = 0x10_0000;
    pub const FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS: u32 = 0x40_0000;

    pub const FILE_SUPERSEDE: u32 = 0;
    pub const FILE_OPEN: u32 = 1;
    pub const FILE_CREATE: u32 = 2;
    pub const FILE_OPEN_IF: u32 = 3;
    pub const FILE_OVERWRITE: u32 = 4;
    pub const FILE_OVERWRITE_IF: u32 = 5;

    pub const FILE_DIRECTORY_FILE: u32 = 0x1;
    pub const FILE_WRITE_THROUGH: u32 = 0x2;
    pub const FILE_SEQUENTIAL_ONLY: u32 = 0x4;
    pub const FILE_NO_INTERMEDIATE_BUFFERING: u32 = 0x8;
    pub const FILE_SYNCHRONOUS_IO_ALERT: u32 = 0x10;
    pub const FILE_SYNCHRONOUS_IO_NONALERT: u32 = 0x20;
    pub const FILE_NON_DIRECTORY_FILE: u32 = 0x40;
    pub const FILE_CREATE_TREE_CONNECTION: u32 = 0x80;
    pub const FILE_COMPLETE_IF_OPLOCKED: u32 = 0x100;
    pub const FILE_NO_EA_KNOWLEDGE: u32 = 0x200;
    pub const FILE_RANDOM_ACCESS: u32 = 0x800;
    pub const FILE_DELETE_ON_CLOSE: u32 = 0x1000;
    pub const FILE_OPEN_BY_FILE_ID: u32 = 0x2000;
    pub const FILE_OPEN_FOR_BACKUP_INTENT: u32 = 0x4000;
    pub const FILE_NO_COMPRESSION: u32 = 0x8000;
    pub const FILE_RESERVE_OPFILTER: u32 = 0x10_0000;
    pub const FILE_OPEN_REPARSE_POINT: u32 = 0x20_0000;
    pub const FILE_OPEN_NO_RECALL: u32 = 0x40_0000;

    pub const OWNER_SECURITY_INFORMATION: u32 = 0x1;
    pub const GROUP_SECURITY_INFORMATION: u32 = 0x2;
    pub const DACL_SECURITY_INFORMATION: u32 = 0x4;
    pub const SACL_SECURITY_INFORMATION: u32 = 0x8;
}
pub use numbers::*;
