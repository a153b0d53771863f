//! Entries of a directory listing. MS-FSCC 2.4.8, 2.4.10, 2.4.14, 2.4.17 to 2.4.20, 2.4.33.

use crate::codec::{DecodeError, Reader, utf16_units};
use crate::fscc::{FileTime, PosixInfo};
use crate::smb::AppleDetails;

/// The information classes that a client may request in QUERY_DIRECTORY.
#[allow(missing_docs, reason = "the names are the specification's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryClass {
    Directory,
    FullDirectory,
    BothDirectory,
    Names,
    IdBothDirectory,
    IdFullDirectory,
    IdExtdDirectory,
    IdExtdBothDirectory,
}

impl DirectoryClass {
    /// The class with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Directory,
            2 => Self::FullDirectory,
            3 => Self::BothDirectory,
            12 => Self::Names,
            37 => Self::IdBothDirectory,
            38 => Self::IdFullDirectory,
            60 => Self::IdExtdDirectory,
            63 => Self::IdExtdBothDirectory,
            _ => return None,
        })
    }

    /// True if the class contains more than the name.
    #[must_use]
    pub fn needs_attributes(self) -> bool {
        self != Self::Names
    }

    /// True if the class contains `EaSize`.
    #[must_use]
    pub fn shows_ea_bytes(self) -> bool {
        !matches!(self, Self::Directory | Self::Names)
    }
}

/// One entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryRecord {
    /// Position in the directory (`FileIndex`), from which a listing can resume.
    pub index: u32,
    /// Creation, last access, last write, change.
    pub times: [FileTime; 4],
    /// Length (`EndOfFile`), in bytes.
    pub size_bytes: u64,
    /// Bytes of storage in use.
    pub allocation_bytes: u64,
    /// `FILE_ATTRIBUTE_*` bits.
    pub attributes: u32,
    /// Bytes of extended attributes, or the reparse tag of a reparse point.
    pub ea_bytes: u32,
    /// Id of the file in its volume (`FileId`).
    pub file_index: u64,
    /// Name.
    pub name: Vec<u16>,
    /// Apple's replacement for `ea_bytes` and the short name, in
    /// [`DirectoryClass::IdBothDirectory`] only.
    pub apple: Option<AppleDetails>,
}

/// Appends an entry to `out` if it fits into `limit` bytes counted from `start`, and links the
/// entry at `previous` to it. Returns the new entry's offset, or `None` if it does not fit.
pub fn put_directory_record(
    class: DirectoryClass,
    record: &DirectoryRecord,
    out: &mut Vec<u8>,
    start: usize,
    previous: Option<usize>,
    limit: usize,
) -> Option<usize> {
    let length = fixed_bytes(class) + record.name.len() * 2;
    let at = begin_record(length, out, start, previous, limit)?;
    put_u32(out, record.index);
    if class != DirectoryClass::Names {
        put_common(record, out);
    }
    put_u32(out, (record.name.len() * 2) as u32);
    put_class(class, record, out);
    for unit in &record.name {
        out.extend_from_slice(&unit.to_le_bytes());
    }
    Some(at)
}

/// Decodes the first entry of a list. Returns the entry and the rest of the list, which is empty
/// after the last entry.
///
/// # Errors
/// [`DecodeError`] if the entry is truncated, or `NextEntryOffset` does not lead forward.
pub fn take_directory_record(
    class: DirectoryClass,
    list: &[u8],
) -> Result<(DirectoryRecord, &[u8]), DecodeError> {
    let mut r = Reader::new(list);
    let next = r.u32("directory record")? as usize;
    let mut record = DirectoryRecord { index: r.u32("directory record")?, ..Default::default() };
    if class != DirectoryClass::Names {
        for time in &mut record.times {
            *time = FileTime(r.u64("directory record")?);
        }
        record.size_bytes = r.u64("directory record")?;
        record.allocation_bytes = r.u64("directory record")?;
        record.attributes = r.u32("directory record")?;
    }
    let name_bytes = r.u32("directory record")? as usize;
    if !matches!(class, DirectoryClass::Names | DirectoryClass::Directory) {
        record.ea_bytes = r.u32("directory record")?;
    }
    let index_at = match class {
        DirectoryClass::IdBothDirectory => Some(96),
        DirectoryClass::IdFullDirectory
        | DirectoryClass::IdExtdDirectory
        | DirectoryClass::IdExtdBothDirectory => Some(72),
        _ => None,
    };
    if let Some(at) = index_at {
        let bytes = r.part(at, 8, "directory record")?;
        record.file_index = Reader::new(bytes).u64("directory record")?;
    }
    let name = r.part(fixed_bytes(class), name_bytes, "directory record name")?;
    record.name = utf16_units(name, "directory record name")?;
    if next == 0 {
        return Ok((record, &[]));
    }
    if next < fixed_bytes(class) + name_bytes {
        return Err(r.malformed("directory record distance"));
    }
    let rest = list.get(next..).filter(|rest| !rest.is_empty());
    Ok((record, rest.ok_or_else(|| r.malformed("directory record distance"))?))
}

/// Like [`put_directory_record`], with FilePosixInformation entries. POSIX-FSCC 2.2.1.
pub fn put_posix_directory_record(
    info: &PosixInfo,
    name: &[u16],
    out: &mut Vec<u8>,
    start: usize,
    previous: Option<usize>,
    limit: usize,
) -> Option<usize> {
    // 12 bytes: `NextEntryOffset` and `FileIndex` before the information, the name's length behind
    // it.
    let length = 12 + info.length_bytes() + name.len() * 2;
    let at = begin_record(length, out, start, previous, limit)?;
    put_u32(out, 0);
    info.encode(out);
    put_u32(out, (name.len() * 2) as u32);
    name.iter().for_each(|unit| out.extend_from_slice(&unit.to_le_bytes()));
    Some(at)
}

/// Starts an entry of `length` bytes if it fits, and links the previous entry to it.
fn begin_record(
    length: usize,
    out: &mut Vec<u8>,
    start: usize,
    previous: Option<usize>,
    limit: usize,
) -> Option<usize> {
    let at = start + (out.len() - start).next_multiple_of(8);
    if at - start + length > limit {
        return None;
    }
    out.resize(at, 0);
    if let Some(previous) = previous {
        let distance = (at - previous) as u32;
        out[previous..previous + 4].copy_from_slice(&distance.to_le_bytes());
    }
    put_u32(out, 0);
    Some(at)
}

fn fixed_bytes(class: DirectoryClass) -> usize {
    match class {
        DirectoryClass::Names => 12,
        DirectoryClass::Directory => 64,
        DirectoryClass::FullDirectory => 68,
        DirectoryClass::BothDirectory => 94,
        DirectoryClass::IdFullDirectory => 80,
        DirectoryClass::IdBothDirectory => 104,
        DirectoryClass::IdExtdDirectory => 88,
        DirectoryClass::IdExtdBothDirectory => 114,
    }
}

fn put_common(record: &DirectoryRecord, out: &mut Vec<u8>) {
    for time in record.times {
        put_u64(out, time.0);
    }
    put_u64(out, record.size_bytes);
    put_u64(out, record.allocation_bytes);
    put_u32(out, record.attributes);
}

/// Writes the class-specific fields between `FileNameLength` and the name.
fn put_class(class: DirectoryClass, record: &DirectoryRecord, out: &mut Vec<u8>) {
    // The server generates no short names: their length is 0 and their field zero.
    const SHORT_NAME: [u8; 26] = [0; 26];
    match class {
        DirectoryClass::Directory | DirectoryClass::Names => {}
        DirectoryClass::FullDirectory => put_u32(out, record.ea_bytes),
        DirectoryClass::BothDirectory => {
            put_u32(out, record.ea_bytes);
            out.extend_from_slice(&SHORT_NAME);
        }
        DirectoryClass::IdFullDirectory => {
            put_u32(out, record.ea_bytes);
            put_u32(out, 0);
            put_u64(out, record.file_index);
        }
        DirectoryClass::IdBothDirectory => {
            match &record.apple {
                Some(details) => put_apple(details, out),
                None => {
                    put_u32(out, record.ea_bytes);
                    out.extend_from_slice(&SHORT_NAME);
                    out.extend_from_slice(&[0; 2]);
                }
            }
            put_u64(out, record.file_index);
        }
        DirectoryClass::IdExtdDirectory | DirectoryClass::IdExtdBothDirectory => {
            put_u32(out, record.ea_bytes);
            put_u32(out, 0);
            put_u64(out, record.file_index);
            put_u64(out, 0);
            if class == DirectoryClass::IdExtdBothDirectory {
                out.extend_from_slice(&SHORT_NAME);
            }
        }
    }
}

/// Declares the short name as 24 bytes long, because Apple's clients read no other field.
fn put_apple(details: &AppleDetails, out: &mut Vec<u8>) {
    put_u32(out, details.maximal_access);
    out.extend_from_slice(&24u16.to_le_bytes());
    put_u64(out, details.fork_bytes);
    out.extend_from_slice(&details.finder_info);
    out.extend_from_slice(&details.mode.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_part_length_matches_every_class() {
        for number in [1, 2, 3, 12, 37, 38, 60, 63] {
            let class = DirectoryClass::from_number(number).unwrap();
            let mut out = Vec::new();
            put_directory_record(class, &DirectoryRecord::default(), &mut out, 0, None, 1024)
                .unwrap();
            assert_eq!(out.len(), fixed_bytes(class), "class {number}");
        }
    }

    #[test]
    fn directory_entries_round_trip() {
        for number in [1, 2, 3, 12, 37, 38, 60, 63] {
            let class = DirectoryClass::from_number(number).unwrap();
            let mut record = DirectoryRecord {
                index: 1,
                times: [FileTime(2), FileTime(3), FileTime(4), FileTime(5)],
                size_bytes: 6,
                allocation_bytes: 7,
                attributes: 8,
                ea_bytes: 9,
                file_index: 10,
                name: vec![65, 66, 67],
                apple: None,
            };
            let mut out = Vec::new();
            let first = put_directory_record(class, &record, &mut out, 0, None, 1024);
            put_directory_record(class, &record, &mut out, 0, first, 1024).unwrap();
            if class == DirectoryClass::Names {
                let name = record.name.clone();
                record = DirectoryRecord { index: 1, name, ..Default::default() };
            }
            if number < 4 {
                record.file_index = 0;
            }
            if number == 1 {
                record.ea_bytes = 0;
            }
            let (read, rest) = take_directory_record(class, &out).unwrap();
            assert_eq!(read, record, "class {number}");
            let (read, end) = take_directory_record(class, rest).unwrap();
            assert_eq!((read, end), (record, &[][..]), "class {number}");
            for length in 0..rest.len() {
                assert!(take_directory_record(class, &rest[..length]).is_err(), "{length}");
            }
            out[0] = 8;
            assert!(take_directory_record(class, &out).is_err(), "it leads into itself");
        }
    }

    #[test]
    fn posix_entry_name_follows_the_owner_sids() {
        let mut info = PosixInfo::default();
        info.facts.owners = [vec![1; 12], vec![2; 12]];
        let mut out = Vec::new();
        let first = put_posix_directory_record(&info, &[65, 66], &mut out, 0, None, 120);
        assert_eq!((first, out.len()), (Some(0), 8 + 80 + 24 + 4 + 4));
        assert_eq!(out[112..], [4, 0, 0, 0, 65, 0, 66, 0]);
        assert_eq!(put_posix_directory_record(&info, &[], &mut out, 0, first, 235), None);
        let second = put_posix_directory_record(&info, &[], &mut out, 0, first, 236);
        assert_eq!((second, out[0], out.len()), (Some(120), 120, 236));
    }

    #[test]
    fn apple_details_replace_the_short_name() {
        let details = AppleDetails {
            maximal_access: 0x1F,
            fork_bytes: 3,
            finder_info: [9; 16],
            mode: 0o100_644,
        };
        let plain = DirectoryRecord { file_index: 7, ..DirectoryRecord::default() };
        let record = DirectoryRecord { apple: Some(details), ..plain };
        let mut out = Vec::new();
        let class = DirectoryClass::IdBothDirectory;
        put_directory_record(class, &record, &mut out, 0, None, 1024).unwrap();
        assert_eq!((out.len(), out[64], out[68], out[70]), (fixed_bytes(class), 0x1F, 24, 3));
        assert_eq!(out[78..94], [9; 16]);
        assert_eq!(out[94..104], [0xA4, 0x81, 7, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn entry_without_room_leaves_the_buffer_unchanged() {
        let record = DirectoryRecord { name: vec![65; 4], ..DirectoryRecord::default() };
        let mut out = Vec::new();
        let first = put_directory_record(DirectoryClass::Names, &record, &mut out, 0, None, 43);
        assert_eq!((first, out.len()), (Some(0), 20));
        let second = put_directory_record(DirectoryClass::Names, &record, &mut out, 0, first, 43);
        assert_eq!((second, out.len()), (None, 20));
        let second = put_directory_record(DirectoryClass::Names, &record, &mut out, 0, first, 44);
        assert_eq!((second, out.len(), out[0]), (Some(24), 44, 24));
    }
}
