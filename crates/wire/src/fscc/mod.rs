//! File system control codes and information classes. MS-FSCC.

mod attributes;
mod directory;
mod ea;
mod file_info;
mod fs_info;
mod notify;
mod object_id;
mod posix;
mod quota;
mod reparse;
mod time;
mod upcase;
mod wildcard;

pub use attributes::*;
pub use directory::{
    DirectoryClass, DirectoryRecord, put_directory_record, put_posix_directory_record,
    take_directory_record,
};
pub use ea::{EaEntry, decode_ea_list, decode_ea_names, put_ea_list};
pub use file_info::{
    BasicInfo, FileFacts, FileInfoClass, RenameInfo, StreamFact, encode_file_info, streams_fitting,
};
pub use fs_info::{
    FILE_VC_QUOTA_ENFORCE, FILE_VC_QUOTA_TRACK, FsFacts, FsInfoClass, encode_fs_info,
};
pub use notify::{NotifyAction, NotifyList, notify_list_bytes};
pub use object_id::{OBJECT_ID_BUFFER_BYTES, object_id, object_id_buffer};
pub use posix::{
    FILE_POSIX_INFORMATION, FS_POSIX_INFORMATION, POSIX_EXTENSIONS, PosixFileFields, PosixFsInfo,
    PosixInfo, PosixKind, decode_posix_mode,
};
pub use quota::{
    QUOTA_NO_LIMIT, QUOTA_REMOVE, QuotaEntry, QuotaList, QuotaQuery, decode_quota_list,
    decode_quota_users,
};
pub use reparse::{
    LX_VERSION_BYTES, REPARSE_BYTES_MAX, REPARSE_TAG_AF_UNIX, REPARSE_TAG_LX_FIFO,
    REPARSE_TAG_LX_SYMLINK, REPARSE_TAG_NFS, REPARSE_TAG_SYMLINK, ReparseBuffer, SpecialFile,
    Symlink, decode_nfs_link,
};
pub use time::FileTime;
pub use upcase::upcase;
pub use wildcard::{WildcardPattern, has_wildcards, matches};
