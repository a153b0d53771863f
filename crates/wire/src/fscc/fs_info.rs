//! File system information classes. MS-FSCC 2.5.

use crate::codec::{Writer, put_utf16};
use crate::fscc::FileTime;

/// File system information classes that a client may query.
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

    /// The smallest output buffer for a query of this class, in bytes.
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

/// Quota flag: the volume tracks the bytes that each user stores. MS-FSCC 2.5.2.
pub const FILE_VC_QUOTA_TRACK: u32 = 0x1;
/// Quota flag: the volume also enforces the limits.
pub const FILE_VC_QUOTA_ENFORCE: u32 = 0x2;

/// The attributes of a share's file system from which every query class is encoded.
#[derive(Clone, Debug, Default)]
pub struct FsFacts {
    /// Creation time of the volume.
    pub created: FileTime,
    /// Serial number.
    pub serial: u32,
    /// Label.
    pub label: String,
    /// Allocation units in total.
    pub units_total: u64,
    /// Free units, including those reserved for privileged users.
    pub units_free: u64,
    /// Free units that are available to the caller.
    pub units_available: u64,
    /// Sectors of 512 bytes per unit.
    pub sectors_per_unit: u32,
    /// `FILE_CASE_PRESERVED_NAMES` and further attribute flags.
    pub attributes: u32,
    /// Maximum length of a path component, in characters.
    pub name_max: u32,
    /// True if the volume supports FSCTL_FILE_LEVEL_TRIM.
    pub trims: bool,
    /// `FILE_VC_QUOTA_*` flags.
    pub quota_flags: u32,
    /// Identifies the volume in FileFsObjectIdInformation.
    pub object_id: [u8; 16],
}

/// ExtendedInfo of FileFsObjectIdInformation, which tools recognise the server by: Samba has its
/// name there, too, and Windows zeros. MS-FSCC 2.5.6.
pub const PRODUCT: &[u8] = b"Anabranch";

/// Bytes of ExtendedInfo.
const EXTENDED_INFO_BYTES: usize = 48;

fn padded(text: &[u8]) -> [u8; EXTENDED_INFO_BYTES] {
    let mut out = [0; EXTENDED_INFO_BYTES];
    out.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
    out
}

/// Bytes of a sector.
const SECTOR: u32 = 512;

/// Appends the response to a query of `class`.
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
            // FILE_DEVICE_DISK.
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
            w.bytes(&padded(PRODUCT));
        }
        FsInfoClass::SectorSize => put_sector_size(w, facts.trims),
    }
}

/// Logical sectors of 512 bytes, physical sectors of 4096 bytes. MS-FSCC 2.5.8.
fn put_sector_size(w: &mut Writer<'_>, trims: bool) {
    w.u32(SECTOR);
    w.u32(4096);
    w.u32(4096);
    w.u32(4096);
    // Aligned device, aligned partition, and optionally SSINFO_FLAGS_TRIM_ENABLED.
    w.u32(if trims { 3 | 8 } else { 3 });
    w.u32(0);
    w.u32(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_id_information_names_the_product() {
        let mut out = Vec::new();
        let facts = FsFacts { object_id: [7; 16], ..FsFacts::default() };
        encode_fs_info(FsInfoClass::ObjectId, &facts, &mut Writer::new(&mut out));
        assert_eq!(out.len(), FsInfoClass::ObjectId.bytes_min());
        assert_eq!((&out[..16], &out[16..26]), (&[7; 16][..], &b"Anabranch\0"[..]));
    }
}
