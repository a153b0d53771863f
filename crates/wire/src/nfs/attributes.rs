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
    0 supported_attrs SUPPORTED_ATTRS: Bitmap4, "Attributes that the server keeps.";
    1 file_type FILE_TYPE: FileType, "What kind of file it is.";
    2 fh_expire_type FH_EXPIRE_TYPE: u32, "When file handles end; 0 is never.";
    3 change CHANGE: u64, "Another number after each change.";
    4 size SIZE: u64, "Bytes of data.";
    5 link_support LINK_SUPPORT: bool, "Whether files can have several names.";
    6 symlink_support SYMLINK_SUPPORT: bool, "Whether there are symbolic links.";
    7 named_attr NAMED_ATTR: bool, "Whether the file has named attributes.";
    8 fsid FSID: FsId, "The file system.";
    9 unique_handles UNIQUE_HANDLES: bool, "Whether different handles are different files.";
    10 lease_time LEASE_TIME: u32, "Seconds that state lives without its client.";
    11 rdattr_error RDATTR_ERROR: NfsStatus, "Why READDIR has no other attributes of the entry.";
    12 acl ACL: Acl<'a>, "Who may do what.";
    13 aclsupport ACLSUPPORT: u32, "Kinds of entries: [`crate::nfs::acl::support`].";
    14 archive ARCHIVE: bool, "Changed since the last backup.";
    15 cansettime CANSETTIME: bool, "Whether times can be set.";
    16 case_insensitive CASE_INSENSITIVE: bool, "Whether names match in any case.";
    17 case_preserving CASE_PRESERVING: bool, "Whether names keep their case.";
    18 chown_restricted CHOWN_RESTRICTED: bool, "Whether only the superuser gives files away.";
    19 filehandle FILEHANDLE: FileHandle, "Its handle.";
    20 fileid FILEID: u64, "Its number in its file system.";
    21 files_avail FILES_AVAIL: u64, "Files that this user may still make.";
    22 files_free FILES_FREE: u64, "Files that can still be made.";
    23 files_total FILES_TOTAL: u64, "Files that there can be.";
    24 fs_locations FS_LOCATIONS: FsLocations<'a>, "Where else the file system is.";
    25 hidden HIDDEN: bool, "Not shown by default.";
    26 homogeneous HOMOGENEOUS: bool, "Whether all files of the file system have the same abilities.";
    27 maxfilesize MAXFILESIZE: u64, "Bytes that a file may have.";
    28 maxlink MAXLINK: u32, "Names that a file may have.";
    29 maxname MAXNAME: u32, "Bytes that a name may have.";
    30 maxread MAXREAD: u64, "Bytes that one READ may give.";
    31 maxwrite MAXWRITE: u64, "Bytes that one WRITE may take.";
    32 mimetype MIMETYPE: &'a [u8], "What its data is.";
    33 mode MODE: u32, "Permission bits.";
    34 no_trunc NO_TRUNC: bool, "Whether names that are too long are refused.";
    35 numlinks NUMLINKS: u32, "Names that it has.";
    36 owner OWNER: &'a [u8], "Its owner.";
    37 owner_group OWNER_GROUP: &'a [u8], "Its group.";
    38 quota_avail_hard QUOTA_AVAIL_HARD: u64, "Bytes up to the hard limit.";
    39 quota_avail_soft QUOTA_AVAIL_SOFT: u64, "Bytes up to the soft limit.";
    40 quota_used QUOTA_USED: u64, "Bytes that count.";
    41 rawdev RAWDEV: SpecData, "The device that it stands for.";
    42 space_avail SPACE_AVAIL: u64, "Bytes that this user may still use.";
    43 space_free SPACE_FREE: u64, "Bytes that are free.";
    44 space_total SPACE_TOTAL: u64, "Bytes that there are.";
    45 space_used SPACE_USED: u64, "Bytes that the file takes.";
    46 system SYSTEM: bool, "Of the operating system.";
    47 time_access TIME_ACCESS: NfsTime, "When it was last read.";
    48 time_access_set TIME_ACCESS_SET: SetTime, "Sets when it was last read.";
    49 time_backup TIME_BACKUP: NfsTime, "When it was last backed up.";
    50 time_create TIME_CREATE: NfsTime, "When it was made.";
    51 time_delta TIME_DELTA: NfsTime, "The smallest step of times.";
    52 time_metadata TIME_METADATA: NfsTime, "When its attributes last changed.";
    53 time_modify TIME_MODIFY: NfsTime, "When its data last changed.";
    54 time_modify_set TIME_MODIFY_SET: SetTime, "Sets when its data last changed.";
    55 mounted_on_fileid MOUNTED_ON_FILEID: u64, "Number of the directory that its file system is mounted on.";
    56 dir_notif_delay DIR_NOTIF_DELAY: NfsTime, "How long news of a directory's attributes may take.";
    57 dirent_notif_delay DIRENT_NOTIF_DELAY: NfsTime, "How long news of its entries may take.";
    58 dacl DACL: Acl41<'a>, "Who may do what, with flags.";
    59 sacl SACL: Acl41<'a>, "What is logged, with flags.";
    60 change_policy CHANGE_POLICY: ChangePolicy, "Changes when the file system's abilities do.";
    61 fs_status FS_STATUS: FsStatus<'a>, "How the file system came to be here.";
    62 fs_layout_types FS_LAYOUT_TYPES: LayoutTypes, "Layouts that the file system has.";
    63 layout_hint LAYOUT_HINT: LayoutContent<'a>, "The layout that is wished.";
    64 layout_types LAYOUT_TYPES: LayoutTypes, "Layouts that the file has.";
    65 layout_blksize LAYOUT_BLKSIZE: u32, "Bytes of a layout's block.";
    66 layout_alignment LAYOUT_ALIGNMENT: u32, "Bytes that layouts are aligned to.";
    67 fs_locations_info FS_LOCATIONS_INFO: FsLocationsInfo<'a>, "Where else the file system is, in detail.";
    68 mdsthreshold MDSTHRESHOLD: MdsThreshold<'a>, "From which sizes a layout is worth it.";
    69 retention_get RETENTION_GET: RetentionGet, "How long the file is retained.";
    70 retention_set RETENTION_SET: RetentionSet, "Sets it.";
    71 retentevt_get RETENTEVT_GET: RetentionGet, "How long it is retained after an event.";
    72 retentevt_set RETENTEVT_SET: RetentionSet, "Sets it.";
    73 retention_hold RETENTION_HOLD: u64, "Who holds it back from being removed.";
    74 mode_set_masked MODE_SET_MASKED: ModeMasked, "Sets some of the permission bits.";
    75 suppattr_exclcreat SUPPATTR_EXCLCREAT: Bitmap4, "Attributes that an exclusive CREATE can set.";
    76 fs_charset_cap FS_CHARSET_CAP: u32, "Which names are taken.";
    77 clone_blksize CLONE_BLKSIZE: u32, "Bytes that CLONE's ranges are multiples of.";
    78 space_freed SPACE_FREED: u64, "Bytes that removing it would free.";
    79 change_attr_type CHANGE_ATTR_TYPE: ChangeAttrType, "What the change attribute is.";
    80 sec_label SEC_LABEL: SecLabel<'a>, "Its security label.";
    81 mode_umask MODE_UMASK: ModeUmask, "Permission bits of a new file, and the umask. RFC 8275.";
    82 xattr_support XATTR_SUPPORT: bool, "Whether there are extended attributes. RFC 8276.";
    83 offline OFFLINE: bool, "Whether its data is on slow storage. RFC 9754.";
    84 time_deleg_access TIME_DELEG_ACCESS: NfsTime, "The time of the last read, from who has a delegation. RFC 9754.";
    85 time_deleg_modify TIME_DELEG_MODIFY: NfsTime, "The time of the last change, from who has one. RFC 9754.";
    86 open_arguments OPEN_ARGUMENTS: OpenArguments, "What OPEN supports. RFC 9754.";
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
