//! Attributes: which there are, and how a file's are written. RFC 8881 5, RFC 7862 12,
//! RFC 8276 8.4.

use crate::access_list::{SUPPORT, put_acl, put_dacl};
use crate::limits::IO_BYTES_MAX;
use files::NamedList;
use std::time::Duration;
use vfs::{Attributes, Features, FileKind, Name, Space, Timestamp};
use wire::nfs::attributes::{
    AttributeWriter, ChangeAttrType, FsId, OpenArguments, SpecData, attribute,
};
use wire::nfs::xdr::XdrWriter;
use wire::nfs::{Bitmap4, FileHandle, FileType, NfsStatus, NfsTime};

/// Those that can be read, in all versions.
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
    // Of RFC 9754; who does not know it does not ask for it.
    attribute::OPEN_ARGUMENTS,
]);
/// Those of version 4.2.
const READABLE_2: Bitmap4 =
    Bitmap4::of(&[attribute::CLONE_BLKSIZE, attribute::CHANGE_ATTR_TYPE, attribute::XATTR_SUPPORT]);
/// Those that can only be set.
pub const WRITE_ONLY: Bitmap4 = Bitmap4::of(&[
    attribute::TIME_ACCESS_SET,
    attribute::TIME_MODIFY_SET,
    attribute::MODE_SET_MASKED,
]);
/// Those that can be set and read.
const WRITABLE: Bitmap4 = Bitmap4::of(&[
    attribute::SIZE,
    attribute::ACL,
    attribute::MODE,
    attribute::OWNER,
    attribute::OWNER_GROUP,
    attribute::TIME_CREATE,
    attribute::DACL,
]);
/// Set with a new file in version 4.2.
const MODE_UMASK: Bitmap4 = Bitmap4::of(&[attribute::MODE_UMASK]);
/// Those of the file system's space.
pub const SPACE: Bitmap4 = Bitmap4::of(&[
    attribute::FILES_AVAIL,
    attribute::FILES_FREE,
    attribute::FILES_TOTAL,
    attribute::SPACE_AVAIL,
    attribute::SPACE_FREE,
    attribute::SPACE_TOTAL,
]);

/// The access list, as either attribute.
pub const LISTS: Bitmap4 = Bitmap4::of(&[attribute::ACL, attribute::DACL]);

/// All that are supported.
#[must_use]
pub fn supported(minor_version: u32) -> Bitmap4 {
    let later = if minor_version >= 2 { READABLE_2 | MODE_UMASK } else { Bitmap4::EMPTY };
    READABLE | WRITE_ONLY | later
}

/// Those that can be set.
#[must_use]
pub fn settable(minor_version: u32) -> Bitmap4 {
    let later = if minor_version >= 2 { MODE_UMASK } else { Bitmap4::EMPTY };
    WRITABLE | WRITE_ONLY | later
}

/// Whether attributes may be asked for.
///
/// # Errors
/// INVAL for those that can only be set.
pub fn check_readable(requested: Bitmap4) -> Result<(), NfsStatus> {
    if (requested & WRITE_ONLY).is_empty() { Ok(()) } else { Err(NfsStatus::INVAL) }
}

/// A file as it is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its attributes.
    pub attributes: Attributes,
    /// Its file system's number.
    pub fsid: FsId,
    /// The number that its directory has for it.
    pub mounted_on: u64,
    /// Its handle, if it is asked for.
    pub handle: Option<FileHandle>,
    /// Its access list, if it is asked for.
    pub list: Option<NamedList>,
}

/// What is the same for all files of a file system.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Of the protocol.
    pub minor_version: u32,
    /// How long clients keep what they have.
    pub lease: Duration,
    /// Names match in any case.
    pub is_case_insensitive: bool,
    /// What can be stored.
    pub features: Features,
    /// Its space, if it is asked for.
    pub space: Option<Space>,
}

/// The time as NFS tells it.
#[must_use]
pub fn time(at: Timestamp) -> NfsTime {
    // Years 1678 to 2261: numbers that the processor divides by itself.
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

/// The time as files have it.
///
/// # Errors
/// INVAL if its nanoseconds are more than a second.
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

/// A user or group as its number in decimal, which is what clients with AUTH_SYS
/// understand. RFC 8881 5.9.
pub fn decimal(number: u32) -> ([u8; 10], usize) {
    let (mut digits, mut at, mut left) = ([0; 10], 10, number);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return (digits, at);
        }
    }
}

/// The number of a user or group; nothing else is a name here.
///
/// # Errors
/// BADOWNER for what is no number.
pub fn number_of(owner: &[u8]) -> Result<u32, NfsStatus> {
    let text = std::str::from_utf8(owner).map_err(|_| NfsStatus::BADOWNER)?;
    // Some add the domain all the same.
    let text = text.split('@').next().unwrap_or_default();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(NfsStatus::BADOWNER);
    }
    // All ones means "keep" to the system.
    text.parse().ok().filter(|number| *number != u32::MAX).ok_or(NfsStatus::BADOWNER)
}

/// Writes those attributes of a file that are asked for and that there are.
pub fn put(w: &mut XdrWriter<'_>, requested: Bitmap4, shown: &Shown, around: &Around) {
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

/// What is known of a file that could not be looked at. RFC 8881 5.8.1.12.
pub const UNSEEN: Bitmap4 = Bitmap4::of(&[attribute::RDATTR_ERROR, attribute::MOUNTED_ON_FILEID]);

/// Writes what is asked for and known of a file that could not be looked at, and why.
pub fn put_inaccessible(
    w: &mut XdrWriter<'_>,
    requested: Bitmap4,
    mounted_on: u64,
    why: NfsStatus,
) {
    let mut a = AttributeWriter::begin(w, requested & UNSEEN);
    a.rdattr_error(w, &why);
    a.mounted_on_fileid(w, &mounted_on);
    a.finish(w);
}

/// What OPEN supports, by the numbers of RFC 9754 3.
const OPEN_ARGUMENTS: OpenArguments = OpenArguments {
    // To read, to write.
    share_access: Bitmap4::of(&[1, 2, 3]),
    share_deny: Bitmap4::of(&[0, 1, 2, 3]),
    // Any, none, cancelled; neither signals nor pushes, no times, no open left out.
    share_access_want: Bitmap4::of(&[3, 4, 5]),
    // All but those of before a client's restart.
    open_claim: Bitmap4::of(&[0, 1, 2, 4, 5]),
    create_mode: Bitmap4::of(&[0, 1, 2, 3]),
};

/// What ranges of clones are multiples of, on all file systems that have them.
const CLONE_BYTES: u32 = 4096;

fn put_identity(a: &mut AttributeWriter, w: &mut XdrWriter<'_>, shown: &Shown, around: &Around) {
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

fn put_file_system(a: &mut AttributeWriter, w: &mut XdrWriter<'_>, around: &Around) {
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

fn put_file(a: &mut AttributeWriter, w: &mut XdrWriter<'_>, shown: &Shown, around: &Around) {
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

fn put_times(a: &mut AttributeWriter, w: &mut XdrWriter<'_>, shown: &Shown) {
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
    fn users_are_shown_by_number_and_understood_so() {
        for number in [0, 7, 10, 1000, u32::MAX - 1] {
            let (digits, at) = decimal(number);
            assert_eq!(digits[at..], *number.to_string().as_bytes());
            assert_eq!(number_of(&digits[at..]), Ok(number));
        }
        assert_eq!(number_of(b"12@example.org"), Ok(12));
        for bad in [&b""[..], b"root", b"-1", b"+1", b"4294967295", b"99999999999", b"\xff", b"@a"]
        {
            assert_eq!(number_of(bad), Err(NfsStatus::BADOWNER));
        }
    }

    #[test]
    fn times_before_1970_have_nanoseconds_that_are_added() {
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
    fn what_can_only_be_set_cannot_be_asked_for() {
        assert!(check_readable(Bitmap4::of(&[attribute::SIZE])).is_ok());
        let set = Bitmap4::of(&[attribute::TIME_MODIFY_SET]);
        assert_eq!(check_readable(set), Err(NfsStatus::INVAL));
    }

    #[test]
    fn attributes_of_the_later_version_are_not_shown_in_the_earlier() {
        assert!(!supported(1).contains(attribute::XATTR_SUPPORT));
        assert!(supported(2).contains(attribute::XATTR_SUPPORT));
        assert!(supported(2).contains_all(settable(2)) && supported(1).contains_all(settable(1)));
    }
}
