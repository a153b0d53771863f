//! Attributes of files: `fattr4`. RFC 8881 3.3.10 and 5, RFC 7862 12, RFC 8275,
//! RFC 8276, RFC 9754.
//!
//! One table defines every attribute with its number and type. It generates [`NfsAttributes`], the
//! numbers in [`attribute`], [`Fattr::attributes`], and [`AttributeWriter`], with which a server
//! encodes the requested attributes only.

mod types;

use super::acl::{Acl, Acl41};
use super::xdr::{ReservedWord, XdrReader, XdrWriter, field, xdr_struct};
use super::{Bitmap4, FileHandle, FileType, NfsStatus, NfsTime};
use crate::codec::DecodeError;
pub use types::*;

xdr_struct! {
    /// Encoded attributes: a mask, and the values in ascending order of their numbers.
    #[derive(Copy, Default)]
    struct Fattr<'a> {
        /// The attributes that are present.
        mask: Bitmap4,
        /// Their encoded values.
        values: &'a [u8],
    }
}

/// Why attributes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAttributes {
    /// No specification defines the number, so the position of the following values is unknown.
    Unknown(u32),
    /// The values do not match the mask.
    Malformed(DecodeError),
}

impl From<DecodeError> for BadAttributes {
    fn from(malformed: DecodeError) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<BadAttributes> for NfsStatus {
    /// The status of a request with such attributes. RFC 8881 5.
    fn from(bad: BadAttributes) -> Self {
        match bad {
            BadAttributes::Unknown(_) => Self::ATTRNOTSUPP,
            BadAttributes::Malformed(_) => Self::BADXDR,
        }
    }
}

macro_rules! attributes {
    ($($number:literal $field:ident $constant:ident: $type:ty, $doc:literal;)*) => {
        /// Attribute numbers: bit positions in masks.
        pub mod attribute {
            $(#[doc = $doc] pub const $constant: u32 = $number;)*
        }

        /// Each method writes its attribute if it was requested.
        #[allow(clippy::extra_unused_lifetimes)]
        impl AttributeWriter {
            $(
                #[doc = $doc]
                #[inline]
                pub fn $field<'a>(&mut self, w: &mut XdrWriter<'_>, value: &$type) {
                    self.put_with(w, $number, |w| w.put(value));
                }
            )*
        }

        /// Decoded attributes, or attributes to encode; absent ones are `None`.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct NfsAttributes<'a> {
            $(#[doc = $doc] pub $field: Option<$type>,)*
        }

        impl<'a> NfsAttributes<'a> {
            /// All attributes that this crate defines.
            pub const ALL: Bitmap4 = Bitmap4::of(&[$($number,)*]);

            /// The attributes that are present.
            #[must_use]
            pub fn mask(&self) -> Bitmap4 {
                let mut mask = Bitmap4::EMPTY;
                $(if self.$field.is_some() {
                    mask.insert($number);
                })*
                mask
            }

            fn decode_value(
                &mut self,
                number: u32,
                r: &mut XdrReader<'a>,
            ) -> Result<(), BadAttributes> {
                match number {
                    $($number => self.$field = Some(field(r, stringify!($field))?),)*
                    _ => return Err(BadAttributes::Unknown(number)),
                }
                Ok(())
            }

            fn encode_value(&self, number: u32, w: &mut XdrWriter<'_>) {
                match number {
                    $($number => if let Some(value) = &self.$field {
                        w.put(value);
                    },)*
                    _ => {}
                }
            }
        }

        /// The name of the attribute of this number.
        #[must_use]
        pub fn attribute_name(number: u32) -> Option<&'static str> {
            match number {
                $($number => Some(stringify!($field)),)*
                _ => None,
            }
        }
    };
}

attributes! {
    0 supported_attrs SUPPORTED_ATTRS: Bitmap4, "Attributes that the server supports.";
    1 file_type FILE_TYPE: FileType, "File type.";
    2 fh_expire_type FH_EXPIRE_TYPE: u32, "Expiry rules of file handles; 0 for persistent handles.";
    3 change CHANGE: u64, "Change attribute: a different value after each change of the file.";
    4 size SIZE: u64, "File size in bytes.";
    5 link_support LINK_SUPPORT: bool, "True if the file system supports hard links.";
    6 symlink_support SYMLINK_SUPPORT: bool, "True if the file system supports symbolic links.";
    7 named_attr NAMED_ATTR: bool, "True if the file has named attributes.";
    8 fsid FSID: FsId, "Identifier of the file system.";
    9 unique_handles UNIQUE_HANDLES: bool, "True if two different handles always refer to two different files.";
    10 lease_time LEASE_TIME: u32, "Duration of the client's lease, in seconds.";
    11 rdattr_error RDATTR_ERROR: NfsStatus, "Status of a READDIR entry whose attributes are unavailable.";
    12 acl ACL: Acl<'a>, "Access control list.";
    13 aclsupport ACLSUPPORT: u32, "Supported ACL entry types: [`crate::nfs::acl::support`].";
    14 archive ARCHIVE: bool, "True if the file changed since its last backup.";
    15 cansettime CANSETTIME: bool, "True if a client can set the file times.";
    16 case_insensitive CASE_INSENSITIVE: bool, "True if name comparisons ignore case.";
    17 case_preserving CASE_PRESERVING: bool, "True if the file system preserves the case of names.";
    18 chown_restricted CHOWN_RESTRICTED: bool, "True if only the superuser can change a file's owner.";
    19 filehandle FILEHANDLE: FileHandle, "File handle.";
    20 fileid FILEID: u64, "File number, unique within the file system.";
    21 files_avail FILES_AVAIL: u64, "Number of files that this user can still create.";
    22 files_free FILES_FREE: u64, "Number of free file slots in the file system.";
    23 files_total FILES_TOTAL: u64, "Total number of file slots in the file system.";
    24 fs_locations FS_LOCATIONS: FsLocations<'a>, "Other locations of the file system.";
    25 hidden HIDDEN: bool, "True if clients hide the file by default.";
    26 homogeneous HOMOGENEOUS: bool, "True if all objects of the file system support the same attributes.";
    27 maxfilesize MAXFILESIZE: u64, "Maximum file size in bytes.";
    28 maxlink MAXLINK: u32, "Maximum number of hard links of a file.";
    29 maxname MAXNAME: u32, "Maximum length of a name in bytes.";
    30 maxread MAXREAD: u64, "Maximum size of one READ in bytes.";
    31 maxwrite MAXWRITE: u64, "Maximum size of one WRITE in bytes.";
    32 mimetype MIMETYPE: &'a [u8], "MIME type of the data.";
    33 mode MODE: u32, "Permission bits.";
    34 no_trunc NO_TRUNC: bool, "True if the server refuses an overlong name instead of truncating it.";
    35 numlinks NUMLINKS: u32, "Number of hard links.";
    36 owner OWNER: &'a [u8], "Owner, as `user@domain` or a numeric user ID.";
    37 owner_group OWNER_GROUP: &'a [u8], "Owning group, as `group@domain` or a numeric group ID.";
    38 quota_avail_hard QUOTA_AVAIL_HARD: u64, "Bytes that the user can still allocate before the hard quota.";
    39 quota_avail_soft QUOTA_AVAIL_SOFT: u64, "Bytes that the user can still allocate before the soft quota.";
    40 quota_used QUOTA_USED: u64, "Bytes that the quota accounts to the user.";
    41 rawdev RAWDEV: SpecData, "Device number of a block or character device.";
    42 space_avail SPACE_AVAIL: u64, "Bytes available to this user.";
    43 space_free SPACE_FREE: u64, "Free bytes of the file system.";
    44 space_total SPACE_TOTAL: u64, "Total bytes of the file system.";
    45 space_used SPACE_USED: u64, "Bytes that the file allocates.";
    46 system SYSTEM: bool, "True if the file is a Windows system file.";
    47 time_access TIME_ACCESS: NfsTime, "Last access time.";
    48 time_access_set TIME_ACCESS_SET: SetTime, "Sets the last access time.";
    49 time_backup TIME_BACKUP: NfsTime, "Last backup time.";
    50 time_create TIME_CREATE: NfsTime, "Creation time.";
    51 time_delta TIME_DELTA: NfsTime, "Resolution of the file times.";
    52 time_metadata TIME_METADATA: NfsTime, "Last metadata change time.";
    53 time_modify TIME_MODIFY: NfsTime, "Last data modification time.";
    54 time_modify_set TIME_MODIFY_SET: SetTime, "Sets the last data modification time.";
    55 mounted_on_fileid MOUNTED_ON_FILEID: u64, "File number of the directory under the mount point, for the root of a file system.";
    56 dir_notif_delay DIR_NOTIF_DELAY: NfsTime, "Minimum delay before notifications about the directory's own attributes.";
    57 dirent_notif_delay DIRENT_NOTIF_DELAY: NfsTime, "Minimum delay before notifications about attributes of the directory's entries.";
    58 dacl DACL: Acl41<'a>, "Discretionary access control list with its flags.";
    59 sacl SACL: Acl41<'a>, "System (audit) access control list with its flags.";
    60 change_policy CHANGE_POLICY: ChangePolicy, "Change policy: a different value when the file system's policies change.";
    61 fs_status FS_STATUS: FsStatus<'a>, "Status of this file system instance: kind, source and version.";
    62 fs_layout_types FS_LAYOUT_TYPES: LayoutTypes, "Layout types that the file system supports.";
    63 layout_hint LAYOUT_HINT: LayoutContent<'a>, "Preferred layout of a new file.";
    64 layout_types LAYOUT_TYPES: LayoutTypes, "Layout types that the file supports.";
    65 layout_blksize LAYOUT_BLKSIZE: u32, "Preferred block size of a layout, in bytes.";
    66 layout_alignment LAYOUT_ALIGNMENT: u32, "Preferred alignment of I/O under a layout, in bytes.";
    67 fs_locations_info FS_LOCATIONS_INFO: FsLocationsInfo<'a>, "Other locations of the file system, with ranks and properties.";
    68 mdsthreshold MDSTHRESHOLD: MdsThreshold<'a>, "Size thresholds from which the client should use a layout.";
    69 retention_get RETENTION_GET: RetentionGet, "Retention state: remaining duration and begin time.";
    70 retention_set RETENTION_SET: RetentionSet, "Sets the retention duration.";
    71 retentevt_get RETENTEVT_GET: RetentionGet, "Event-based retention state: remaining duration and begin time.";
    72 retentevt_set RETENTEVT_SET: RetentionSet, "Sets the event-based retention duration.";
    73 retention_hold RETENTION_HOLD: u64, "Administrative retention holds, as a bit mask.";
    74 mode_set_masked MODE_SET_MASKED: ModeMasked, "Sets the permission bits under a mask.";
    75 suppattr_exclcreat SUPPATTR_EXCLCREAT: Bitmap4, "Attributes that an exclusive OPEN can set.";
    76 fs_charset_cap FS_CHARSET_CAP: u32, "Capabilities of the file system for UTF-8 names.";
    77 clone_blksize CLONE_BLKSIZE: u32, "Block size in bytes that aligns the ranges of CLONE.";
    78 space_freed SPACE_FREED: u64, "Bytes that removing the file would free.";
    79 change_attr_type CHANGE_ATTR_TYPE: ChangeAttrType, "Behaviour of the change attribute.";
    80 sec_label SEC_LABEL: SecLabel<'a>, "Security label.";
    81 mode_umask MODE_UMASK: ModeUmask, "Permission bits and umask of a new file. RFC 8275.";
    82 xattr_support XATTR_SUPPORT: bool, "True if the file system supports extended attributes. RFC 8276.";
    83 offline OFFLINE: bool, "True if the file's data is on offline storage. RFC 9754.";
    84 time_deleg_access TIME_DELEG_ACCESS: NfsTime, "Last access time, from the delegation holder. RFC 9754.";
    85 time_deleg_modify TIME_DELEG_MODIFY: NfsTime, "Last data modification time, from the delegation holder. RFC 9754.";
    86 open_arguments OPEN_ARGUMENTS: OpenArguments, "OPEN arguments that the server supports. RFC 9754.";
}

impl<'a> Fattr<'a> {
    /// Decodes the attributes.
    ///
    /// # Errors
    /// [`BadAttributes`] if an attribute is unknown, or the values do not match the mask.
    pub fn attributes(&self) -> Result<NfsAttributes<'a>, BadAttributes> {
        let mut attributes = NfsAttributes::default();
        let mut r = XdrReader::new(self.values);
        for number in self.mask.iter() {
            attributes.decode_value(number, &mut r)?;
        }
        if r.remaining() != 0 {
            return Err(r.malformed("attributes").into());
        }
        Ok(attributes)
    }
}

impl NfsAttributes<'_> {
    /// Writes the present attributes as `fattr4`.
    pub fn encode(&self, w: &mut XdrWriter<'_>) {
        let mask = self.mask();
        w.put(&mask);
        let length = w.reserve_u32();
        for number in mask.iter() {
            self.encode_value(number, w);
        }
        w.finish_opaque(length);
    }

    /// Encodes the attributes as a [`Fattr`] whose values live in `buffer`.
    pub fn to_fattr<'b>(&self, buffer: &'b mut Vec<u8>) -> Fattr<'b> {
        let mask = self.mask();
        buffer.clear();
        let w = &mut XdrWriter::new(buffer);
        for number in mask.iter() {
            self.encode_value(number, w);
        }
        Fattr { mask, values: buffer }
    }
}

/// Writes the requested attributes of a file directly into the reply. The server calls one method
/// per attribute that it has, in ascending order of their numbers. [`AttributeWriter::finish`]
/// fills in the mask.
#[derive(Debug)]
#[must_use = "attributes end with finish()"]
pub struct AttributeWriter {
    requested: Bitmap4,
    written: Bitmap4,
    words: u32,
    mask_at: ReservedWord,
    length: ReservedWord,
}

impl AttributeWriter {
    /// Starts a `fattr4` with at most the attributes of `requested`.
    pub fn begin(w: &mut XdrWriter<'_>, requested: Bitmap4) -> Self {
        let words = (128 - requested.0.leading_zeros()).div_ceil(32);
        w.u32(words);
        let mut mask_at = None;
        for _ in 0..words {
            mask_at.get_or_insert(w.reserve_u32());
        }
        let length = w.reserve_u32();
        let mask_at = mask_at.unwrap_or(length);
        Self { requested, written: Bitmap4::EMPTY, words, mask_at, length }
    }

    /// True if the attribute of this number was requested.
    #[must_use]
    pub fn wants(&self, number: u32) -> bool {
        self.requested.contains(number)
    }

    /// Calls `write` for the attribute of this number if it was requested.
    #[inline]
    pub fn put_with(
        &mut self,
        w: &mut XdrWriter<'_>,
        number: u32,
        write: impl FnOnce(&mut XdrWriter<'_>),
    ) {
        if self.wants(number) {
            debug_assert!(self.written.0 >> number == 0, "attributes go upwards");
            self.written.insert(number);
            write(w);
        }
    }

    /// Fills in the mask and the length of the values. Returns the mask.
    pub fn finish(self, w: &mut XdrWriter<'_>) -> Bitmap4 {
        for word in 0..self.words {
            let bits = (self.written.0 >> (32 * word)) as u32;
            w.fill_u32(self.mask_at.plus_words(word), bits);
        }
        w.finish_opaque(self.length);
        self.written
    }
}

#[cfg(test)]
mod tests;
