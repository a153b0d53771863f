//! Supported attributes, and their encoding. RFC 8881 5, RFC 7862 12, RFC 8276 8.4.

use crate::encoding::access_list::{SUPPORT, put_acl, put_dacl};
use crate::encoding::owner::decimal;
use crate::limits::IO_BYTES_MAX;
use files::NamedList;
use std::time::Duration;
use vfs::{Attributes, FileKind, Name, Space, Timestamp, TreeFeatures};
use wire::nfs::attributes::{
    AttributeWriter, ChangeAttrType, FsId, OpenArguments, SpecData, attribute,
};
use wire::nfs::xdr::XdrWriter;
use wire::nfs::{Bitmap4, FileHandle, FileType, NfsStatus, NfsTime};

/// Readable attributes of every minor version.
const READABLE: Bitmap4 = Bitmap4::of(&[
    attribute::SUPPORTED_ATTRS,
    attribute::FILE_TYPE,
    attribute::FH_EXPIRE_TYPE,
    attribute::CHANGE,
    attribute::SIZE,
    attribute::LINK_SUPPORT,
    attribute::SYMLINK_SUPPORT,
    attribute::NAMED_ATTR,
    attribute::FSID,
    attribute::UNIQUE_HANDLES,
    attribute::LEASE_TIME,
    attribute::RDATTR_ERROR,
    attribute::ACL,
    attribute::ACLSUPPORT,
    attribute::CANSETTIME,
    attribute::CASE_INSENSITIVE,
    attribute::CASE_PRESERVING,
    attribute::CHOWN_RESTRICTED,
    attribute::FILEHANDLE,
    attribute::FILEID,
    attribute::FILES_AVAIL,
    attribute::FILES_FREE,
    attribute::FILES_TOTAL,
    attribute::HOMOGENEOUS,
    attribute::MAXFILESIZE,
    attribute::MAXLINK,
    attribute::MAXNAME,
    attribute::MAXREAD,
    attribute::MAXWRITE,
    attribute::MODE,
    attribute::NO_TRUNC,
    attribute::NUMLINKS,
    attribute::OWNER,
    attribute::OWNER_GROUP,
    attribute::RAWDEV,
    attribute::SPACE_AVAIL,
    attribute::SPACE_FREE,
    attribute::SPACE_TOTAL,
    attribute::SPACE_USED,
    attribute::TIME_ACCESS,
    attribute::TIME_CREATE,
    attribute::TIME_DELTA,
    attribute::TIME_METADATA,
    attribute::TIME_MODIFY,
    attribute::MOUNTED_ON_FILEID,
    attribute::DACL,
    attribute::SUPPATTR_EXCLCREAT,
    // RFC 9754; a client without it does not request it.
    attribute::OPEN_ARGUMENTS,
]);
/// Readable attributes of NFSv4.2.
const READABLE_2: Bitmap4 =
    Bitmap4::of(&[attribute::CLONE_BLKSIZE, attribute::CHANGE_ATTR_TYPE, attribute::XATTR_SUPPORT]);
/// Attributes that can only be set.
pub const WRITE_ONLY: Bitmap4 = Bitmap4::of(&[
    attribute::TIME_ACCESS_SET,
    attribute::TIME_MODIFY_SET,
    attribute::MODE_SET_MASKED,
]);
/// Attributes that can be set and read.
const WRITABLE: Bitmap4 = Bitmap4::of(&[
    attribute::SIZE,
    attribute::ACL,
    attribute::MODE,
    attribute::OWNER,
    attribute::OWNER_GROUP,
    attribute::TIME_CREATE,
    attribute::DACL,
]);
/// Attribute of a create in NFSv4.2.
const MODE_UMASK: Bitmap4 = Bitmap4::of(&[attribute::MODE_UMASK]);
/// Attributes of the file system's space.
pub const SPACE: Bitmap4 = Bitmap4::of(&[
    attribute::FILES_AVAIL,
    attribute::FILES_FREE,
    attribute::FILES_TOTAL,
    attribute::SPACE_AVAIL,
    attribute::SPACE_FREE,
    attribute::SPACE_TOTAL,
]);

/// The two attributes with the access list.
pub const LISTS: Bitmap4 = Bitmap4::of(&[attribute::ACL, attribute::DACL]);

/// All supported attributes.
#[must_use]
pub fn supported(minor_version: u32) -> Bitmap4 {
    let later = if minor_version >= 2 { READABLE_2 | MODE_UMASK } else { Bitmap4::EMPTY };
    READABLE | WRITE_ONLY | later
}

/// All attributes that can be set.
#[must_use]
pub fn settable(minor_version: u32) -> Bitmap4 {
    let later = if minor_version >= 2 { MODE_UMASK } else { Bitmap4::EMPTY };
    WRITABLE | WRITE_ONLY | later
}

/// Checks that a client may read the attributes.
///
/// # Errors
/// INVAL for attributes that can only be set.
pub fn check_readable(requested: Bitmap4) -> Result<(), NfsStatus> {
    if (requested & WRITE_ONLY).is_empty() { Ok(()) } else { Err(NfsStatus::INVAL) }
}

/// An object as GETATTR and READDIR report it.
#[derive(Clone, Debug)]
pub struct ReportedObject {
    /// Attributes of the object.
    pub attributes: Attributes,
    /// Its file system id.
    pub fsid: FsId,
    /// Inode number that its directory reports (mounted_on_fileid).
    pub mounted_on: u64,
    /// Its file handle, if requested.
    pub handle: Option<FileHandle>,
    /// Its access list, if requested.
    pub list: Option<NamedList>,
}

/// Facts that all files of a file system share.
#[derive(Clone, Copy, Debug)]
pub struct FileSystemFacts {
    /// Minor version of the protocol.
    pub minor_version: u32,
    /// Lease time of the server.
    pub lease: Duration,
    /// Names are case-insensitive.
    pub is_case_insensitive: bool,
    /// Features of the file system.
    pub features: TreeFeatures,
    /// Its space, if requested.
    pub space: Option<Space>,
}

/// Converts to NFS time.
#[must_use]
pub fn time(at: Timestamp) -> NfsTime {
    // Years 1678 to 2261 fit 64 bits, for which the CPU has a division.
    if let Ok(nanoseconds) = i64::try_from(at.0) {
        let (seconds, rest) =
            (nanoseconds.div_euclid(1_000_000_000), nanoseconds.rem_euclid(1_000_000_000));
        return NfsTime { seconds, nanoseconds: rest as u32 };
    }
    let seconds = at.0.div_euclid(1_000_000_000);
    let nanoseconds = at.0.rem_euclid(1_000_000_000);
    NfsTime {
        seconds: i64::try_from(seconds).unwrap_or(if seconds < 0 { i64::MIN } else { i64::MAX }),
        nanoseconds: nanoseconds as u32,
    }
}

/// Converts from NFS time.
///
/// # Errors
/// INVAL if the nanoseconds exceed a second.
pub fn timestamp(at: NfsTime) -> Result<Timestamp, NfsStatus> {
    if !at.is_valid() {
        return Err(NfsStatus::INVAL);
    }
    Ok(Timestamp(i128::from(at.seconds) * 1_000_000_000 + i128::from(at.nanoseconds)))
}

/// The type of a file.
#[must_use]
pub fn file_type(attributes: &Attributes) -> FileType {
    match attributes.kind {
        FileKind::Device if attributes.device.is_some_and(|device| device.is_block) => {
            FileType::Block
        }
        FileKind::Device => FileType::Character,
        FileKind::Directory => FileType::Directory,
        FileKind::Fifo => FileType::Fifo,
        FileKind::File => FileType::Regular,
        FileKind::Socket => FileType::Socket,
        FileKind::Symlink => FileType::Link,
    }
}

/// Encodes the supported ones of the requested attributes.
pub fn put(
    w: &mut XdrWriter<'_>,
    requested: Bitmap4,
    shown: &ReportedObject,
    around: &FileSystemFacts,
) {
    let mut a = AttributeWriter::begin(w, requested & supported(around.minor_version));
    put_identity(&mut a, w, shown, around);
    put_file_system(&mut a, w, around);
    put_file(&mut a, w, shown, around);
    put_times(&mut a, w, shown);
    a.mounted_on_fileid(w, &shown.mounted_on);
    if let Some(list) = &shown.list {
        a.put_with(w, attribute::DACL, |w| put_dacl(w, list));
    }
    a.suppattr_exclcreat(w, &settable(around.minor_version));
    if around.minor_version >= 2 {
        a.clone_blksize(w, &if around.features.reflink { CLONE_BYTES } else { 0 });
        a.change_attr_type(w, &ChangeAttrType::TimeMetadata);
        a.xattr_support(w, &around.features.xattrs);
    }
    a.open_arguments(w, &OPEN_ARGUMENTS);
    a.finish(w);
}

/// Attributes known of an entry whose stat failed. RFC 8881 5.8.1.12.
pub const KNOWN_WITHOUT_STAT: Bitmap4 =
    Bitmap4::of(&[attribute::RDATTR_ERROR, attribute::MOUNTED_ON_FILEID]);

/// Encodes the requested ones of these, with the error.
pub fn put_inaccessible(
    w: &mut XdrWriter<'_>,
    requested: Bitmap4,
    mounted_on: u64,
    why: NfsStatus,
) {
    let mut a = AttributeWriter::begin(w, requested & KNOWN_WITHOUT_STAT);
    a.rdattr_error(w, &why);
    a.mounted_on_fileid(w, &mounted_on);
    a.finish(w);
}

/// Arguments that OPEN supports, by the numbers of RFC 9754 3.
const OPEN_ARGUMENTS: OpenArguments = OpenArguments {
    // READ, WRITE and BOTH.
    share_access: Bitmap4::of(&[1, 2, 3]),
    share_deny: Bitmap4::of(&[0, 1, 2, 3]),
    // Any, none and cancel. No signals, no pushes, no delegated timestamps, no XOR of open and
    // delegation.
    share_access_want: Bitmap4::of(&[3, 4, 5]),
    // All claims except those of a client restart.
    open_claim: Bitmap4::of(&[0, 1, 2, 4, 5]),
    create_mode: Bitmap4::of(&[0, 1, 2, 3]),
};

/// Alignment of clone ranges on every file system with reflinks.
const CLONE_BYTES: u32 = 4096;

fn put_identity(
    a: &mut AttributeWriter,
    w: &mut XdrWriter<'_>,
    shown: &ReportedObject,
    around: &FileSystemFacts,
) {
    let attributes = &shown.attributes;
    a.supported_attrs(w, &supported(around.minor_version));
    a.file_type(w, &file_type(attributes));
    a.fh_expire_type(w, &0);
    a.change(w, &attributes.change);
    a.size(w, &attributes.size_bytes);
    a.link_support(w, &true);
    a.symlink_support(w, &true);
    a.named_attr(w, &false);
    a.fsid(w, &shown.fsid);
    a.unique_handles(w, &true);
    a.lease_time(w, &(around.lease.as_secs() as u32));
    a.rdattr_error(w, &NfsStatus::OK);
    if let Some(list) = &shown.list {
        a.put_with(w, attribute::ACL, |w| put_acl(w, list));
    }
    a.aclsupport(w, &SUPPORT);
    a.cansettime(w, &true);
    a.case_insensitive(w, &around.is_case_insensitive);
    a.case_preserving(w, &true);
    a.chown_restricted(w, &true);
    if let Some(handle) = &shown.handle {
        a.filehandle(w, handle);
    }
    a.fileid(w, &attributes.key.inode);
}

fn put_file_system(a: &mut AttributeWriter, w: &mut XdrWriter<'_>, around: &FileSystemFacts) {
    if let Some(space) = &around.space {
        a.files_avail(w, &space.nodes_free);
        a.files_free(w, &space.nodes_free);
        a.files_total(w, &space.nodes_total);
    }
    a.homogeneous(w, &true);
    a.maxfilesize(w, &(i64::MAX as u64));
    a.maxlink(w, &u32::from(u16::MAX));
    a.maxname(w, &(Name::LENGTH_MAX as u32));
    a.maxread(w, &u64::from(IO_BYTES_MAX));
    a.maxwrite(w, &u64::from(IO_BYTES_MAX));
}

fn put_file(
    a: &mut AttributeWriter,
    w: &mut XdrWriter<'_>,
    shown: &ReportedObject,
    around: &FileSystemFacts,
) {
    let attributes = &shown.attributes;
    a.mode(w, &(attributes.mode & 0o7777));
    a.no_trunc(w, &true);
    a.numlinks(w, &attributes.links);
    let (digits, at) = decimal(attributes.uid);
    a.owner(w, &&digits[at..]);
    let (digits, at) = decimal(attributes.gid);
    a.owner_group(w, &&digits[at..]);
    let device = attributes.device.map_or(SpecData::default(), |device| SpecData {
        major: device.major,
        minor: device.minor,
    });
    a.rawdev(w, &device);
    if let Some(space) = &around.space {
        a.space_avail(w, &space.available_bytes);
        a.space_free(w, &space.free_bytes);
        a.space_total(w, &space.total_bytes);
    }
    a.space_used(w, &attributes.allocated_bytes);
}

fn put_times(a: &mut AttributeWriter, w: &mut XdrWriter<'_>, shown: &ReportedObject) {
    let attributes = &shown.attributes;
    a.time_access(w, &time(attributes.accessed));
    let born = attributes.dos.created.or(attributes.born).unwrap_or(attributes.changed);
    a.time_create(w, &time(born));
    a.time_delta(w, &NfsTime { seconds: 0, nanoseconds: 1 });
    a.time_metadata(w, &time(attributes.changed));
    a.time_modify(w, &time(attributes.modified));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_have_positive_nanoseconds() {
        let before = NfsTime { seconds: -1, nanoseconds: 999_999_999 };
        assert_eq!(time(Timestamp(-1)), before);
        let far = Timestamp(i128::from(i64::MAX) + 1);
        let shown = NfsTime { seconds: 9_223_372_036, nanoseconds: 854_775_808 };
        assert_eq!((time(far), timestamp(shown)), (shown, Ok(far)));
        let long_ago = Timestamp(i128::from(i64::MIN) - 1);
        let shown = NfsTime { seconds: -9_223_372_037, nanoseconds: 145_224_191 };
        assert_eq!((time(long_ago), timestamp(shown)), (shown, Ok(long_ago)));
        assert_eq!(timestamp(before), Ok(Timestamp(-1)));
        let bad = NfsTime { seconds: 0, nanoseconds: 1_000_000_000 };
        assert_eq!(timestamp(bad), Err(NfsStatus::INVAL));
    }

    #[test]
    fn write_only_attributes_are_not_readable() {
        assert!(check_readable(Bitmap4::of(&[attribute::SIZE])).is_ok());
        let set = Bitmap4::of(&[attribute::TIME_MODIFY_SET]);
        assert_eq!(check_readable(set), Err(NfsStatus::INVAL));
    }

    #[test]
    fn attributes_of_4_2_are_not_supported_in_4_1() {
        assert!(!supported(1).contains(attribute::XATTR_SUPPORT));
        assert!(supported(2).contains(attribute::XATTR_SUPPORT));
        assert!(supported(2).contains_all(settable(2)) && supported(1).contains_all(settable(1)));
    }
}
