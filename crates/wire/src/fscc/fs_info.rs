//! File system information classes. MS-FSCC 2.5.

use crate::codec::{Writer, put_utf16};
use crate::fscc::FileTime;

/// Classes that a client may ask for.
#[allow(missing_docs, reason = "the names are the specification's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsInfoClass {
    Volume,
    Size,
    Device,
    Attribute,
    Control,
    FullSize,
    ObjectId,
    SectorSize,
}

impl FsInfoClass {
    /// The class with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Volume,
            3 => Self::Size,
            4 => Self::Device,
            5 => Self::Attribute,
            6 => Self::Control,
            7 => Self::FullSize,
            8 => Self::ObjectId,
            11 => Self::SectorSize,
            _ => return None,
        })
    }

    /// The smallest buffer with which the class may be asked for, in bytes.
    #[must_use]
    pub fn bytes_min(self) -> usize {
        match self {
            Self::Volume => 24,
            Self::Size => 24,
            Self::Device => 8,
            Self::Attribute => 16,
            Self::Control => 48,
            Self::FullSize => 32,
            Self::ObjectId => 64,
            Self::SectorSize => 28,
        }
    }
}

/// As a quota flag: what users store is counted. MS-FSCC 2.5.2.
pub const FILE_VC_QUOTA_TRACK: u32 = 0x1;
/// And nobody may store more than their limit.
pub const FILE_VC_QUOTA_ENFORCE: u32 = 0x2;

/// All that the classes show of a share's file system.
#[derive(Clone, Debug, Default)]
pub struct FsFacts {
    /// When the volume was made.
    pub created: FileTime,
    /// Serial number.
    pub serial: u32,
    /// Label.
    pub label: String,
    /// Allocation units in all.
    pub units_total: u64,
    /// Units free, whoever may use them.
    pub units_free: u64,
    /// Units free for the caller.
    pub units_available: u64,
    /// Sectors of 512 bytes in a unit.
    pub sectors_per_unit: u32,
    /// FILE_CASE_PRESERVED_NAMES and so on.
    pub attributes: u32,
    /// Longest component, in characters.
    pub name_max: u32,
    /// Parts of files can be given back (FSCTL_FILE_LEVEL_TRIM).
    pub trims: bool,
    /// FILE_VC_QUOTA_TRACK and so on.
    pub quota_flags: u32,
    /// Names the volume in FS_OBJECTID.
    pub object_id: [u8; 16],
}

/// Bytes of a sector.
const SECTOR: u32 = 512;

/// Appends the answer to a query of `class`.
pub fn encode_fs_info(class: FsInfoClass, facts: &FsFacts, w: &mut Writer<'_>) {
    match class {
        FsInfoClass::Volume => {
            w.u64(facts.created.0);
            w.u32(facts.serial);
            w.u32((facts.label.encode_utf16().count() * 2) as u32);
            w.u16(0);
            put_utf16(w.buffer(), &facts.label);
        }
        FsInfoClass::Size => {
            w.u64(facts.units_total);
            w.u64(facts.units_available);
            w.u32(facts.sectors_per_unit);
            w.u32(SECTOR);
        }
        FsInfoClass::Device => {
            // A disk, mounted.
            w.u32(7);
            w.u32(0x20);
        }
        FsInfoClass::Attribute => {
            w.u32(facts.attributes);
            w.u32(facts.name_max);
            w.u32(8);
            put_utf16(w.buffer(), "NTFS");
        }
        FsInfoClass::Control => {
            w.zeros(24);
            // No default quota.
            w.u64(u64::MAX);
            w.u64(u64::MAX);
            w.u32(facts.quota_flags);
            w.u32(0);
        }
        FsInfoClass::FullSize => {
            w.u64(facts.units_total);
            w.u64(facts.units_available);
            w.u64(facts.units_free);
            w.u32(facts.sectors_per_unit);
            w.u32(SECTOR);
        }
        FsInfoClass::ObjectId => {
            w.bytes(&facts.object_id);
            w.zeros(48);
        }
        FsInfoClass::SectorSize => put_sector_size(w, facts.trims),
    }
}

/// MS-FSCC 2.5.8: logical sectors of 512, physical ones of 4096 bytes.
fn put_sector_size(w: &mut Writer<'_>, trims: bool) {
    w.u32(SECTOR);
    w.u32(4096);
    w.u32(4096);
    w.u32(4096);
    // Aligned device, aligned partition; and whether trim works.
    w.u32(if trims { 3 | 8 } else { 3 });
    w.u32(0);
    w.u32(0);
}
