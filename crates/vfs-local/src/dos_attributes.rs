//! DOS attributes and creation time in Samba's `user.DOSATTRIB`.
//!
//! The value is an NDR structure: an ASCII string (`0x20`), a version, and the fields of that
//! version. The server reads versions 1 to 5 and writes version 3, which has all fields that it
//! needs. Every Samba since 3.5 reads that version.

use sync::{Mutex, MutexGuard};
use vfs::{DosInfo, Timestamp};

/// Name of the attribute.
pub const NAME: &str = "user.DOSATTRIB";
/// Length of a value of version 3.
const ENCODED_BYTES: usize = 52;
const VALID_ATTRIBUTES: u32 = 1;
const VALID_CREATED: u32 = 0x10;
const VALID_CHANGED: u32 = 0x20;
/// From 1601 to 1970, in 100-nanosecond intervals.
const EPOCH: i128 = 116_444_736_000_000_000;

/// Number of locks, which all files share.
const LOCKS: usize = 64;

/// Locks a file's value from a read until the merged value is stored, so that concurrent changes of
/// two fields do not overwrite each other. A caller holds one such lock at a time.
pub fn lock_of(inode: u64) -> MutexGuard<'static, ()> {
    static ALL: [Mutex<()>; LOCKS] = [const { Mutex::new(()) }; LOCKS];
    ALL[inode as usize % LOCKS].lock()
}

/// The contents of a stored value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredDos {
    /// DOS attributes and creation time.
    pub info: DosInfo,
    /// The change time that a client set, if any.
    pub changed: Option<SetChangeTime>,
}

/// A change time that a client set. The kernel's change time cannot be set, and every change of the
/// file moves it, including storing this value. So the value counts while the kernel's change time
/// is the one that storing it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetChangeTime {
    /// The change time to report.
    pub shown: Timestamp,
    /// The time with which storing the value was expected to stamp the file, by one of the machine's
    /// clocks and the known offset of the file system's. It occupies Samba's field for the file's length, which neither server reads.
    pub anchor: Timestamp,
}

/// Maximum distance of the kernel's change time from the anchor, in nanoseconds: the time from reading
/// a file system's own clock to its stamp.
pub const STORING_NANOS: i128 = 100_000;

impl SetChangeTime {
    /// True if the kernel's change time is the one that storing this value left.
    pub fn is_of(&self, changed: Timestamp) -> bool {
        (-STORING_NANOS..=STORING_NANOS).contains(&(changed.0 - self.anchor.0))
    }
}

/// Decodes a stored value; `None` if its form is unknown.
pub fn decode(bytes: &[u8]) -> Option<StoredDos> {
    let end = bytes.iter().position(|&b| b == 0)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    if end + 1 == bytes.len() || bytes.len() < end + 9 {
        // The form before version 1 is the string alone.
        let bits = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
        return Some(StoredDos::from(DosInfo { bits: Some(bits), created: None }));
    }
    let mut fields = DosAttributeFields { bytes, at: end + 1 };
    fields.align(2);
    let version = fields.u16()?;
    // The union's discriminant repeats the version; its contents are aligned.
    fields.u16()?;
    fields.align(4);
    match version {
        1 => {
            let bits = fields.u32()?;
            fields.skip_sizes()?;
            Some(info(VALID_ATTRIBUTES | VALID_CREATED, bits, fields.u64()?).into())
        }
        3 => {
            let (valid, bits) = (fields.u32()?, fields.u32()?);
            // Size of extended attributes, length, allocation.
            let (_, anchor, _) = (fields.u32()?, fields.u64()?, fields.u64()?);
            let info = info(valid, bits, fields.u64()?);
            let shown = fields.u64()?;
            // The anchor distinguishes this server's value from Samba's own field.
            let is_set = valid & VALID_CHANGED != 0 && anchor != 0;
            let changed =
                is_set.then(|| SetChangeTime { shown: to_time(shown), anchor: to_time(anchor) });
            Some(StoredDos { info, changed })
        }
        4 => {
            let (valid, bits) = (fields.u32()?, fields.u32()?);
            // A time from which Samba derives file ids.
            fields.u64()?;
            Some(info(valid, bits, fields.u64()?).into())
        }
        5 => Some(info(fields.u32()?, fields.u32()?, fields.u64()?).into()),
        _ => None,
    }
}

fn info(valid: u32, bits: u32, created: u64) -> DosInfo {
    DosInfo {
        bits: (valid & VALID_ATTRIBUTES != 0).then_some(bits),
        created: (valid & VALID_CREATED != 0 && created != 0).then(|| to_time(created)),
    }
}

impl From<DosInfo> for StoredDos {
    fn from(info: DosInfo) -> Self {
        Self { info, changed: None }
    }
}

fn to_time(intervals: u64) -> Timestamp {
    Timestamp((i128::from(intervals) - EPOCH) * 100)
}

fn to_intervals(Timestamp(nanos): Timestamp) -> u64 {
    u64::try_from(nanos.div_euclid(100) + EPOCH).unwrap_or(0)
}

/// Encodes a value.
pub fn encode(StoredDos { info, changed }: &StoredDos) -> Vec<u8> {
    let valid = if info.bits.is_some() { VALID_ATTRIBUTES } else { 0 }
        | if info.created.is_some() { VALID_CREATED } else { 0 }
        | if changed.is_some() { VALID_CHANGED } else { 0 };
    let mut out = Vec::with_capacity(ENCODED_BYTES);
    // An empty string, the version, and the version again as the union's discriminant.
    out.extend_from_slice(&[0, 0, 3, 0, 3, 0, 0, 0]);
    out.extend_from_slice(&valid.to_le_bytes());
    out.extend_from_slice(&info.bits.unwrap_or(0).to_le_bytes());
    // The sizes of extended attributes and of the file are not maintained.
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&changed.map_or(0, |it| to_intervals(it.anchor)).to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&info.created.map_or(0, to_intervals).to_le_bytes());
    out.extend_from_slice(&changed.map_or(0, |it| to_intervals(it.shown)).to_le_bytes());
    out
}

struct DosAttributeFields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl DosAttributeFields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = self.bytes.get(self.at..self.at + N)?.try_into().ok()?;
        self.at += N;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// Skips the sizes of extended attributes, file and allocation, which are not maintained.
    fn skip_sizes(&mut self) -> Option<()> {
        self.take::<20>().map(|_| ())
    }

    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dos_attributes_round_trip() {
        let created = Some(Timestamp(1_700_000_000_123_456_700));
        for info in [
            DosInfo { bits: Some(0x20), created },
            DosInfo { bits: None, created },
            DosInfo { bits: Some(0x1027), created: None },
        ] {
            let changed = SetChangeTime { shown: Timestamp(200), anchor: Timestamp(300) };
            for changed in [None, Some(changed)] {
                let stored = StoredDos { info, changed };
                assert_eq!(decode(&encode(&stored)), Some(stored));
            }
        }
    }

    #[test]
    fn set_change_time_counts_until_ctime_moves() {
        let set = SetChangeTime { shown: Timestamp(5), anchor: Timestamp(1_000_000_000) };
        for (kernels, counts) in [
            (999_899_999, false),
            (999_900_000, true),
            (1_000_000_000, true),
            (1_000_100_000, true),
            (1_000_100_001, false),
        ] {
            assert_eq!(set.is_of(Timestamp(kernels)), counts, "{kernels}");
        }
    }

    /// 2001-02-03 04:05:06.
    const CREATED: Timestamp = Timestamp(981_173_106_000_000_000);
    const CREATED_BYTES: [u8; 8] = [0x00, 0x05, 0xB5, 0x7D, 0x96, 0x8D, 0xC0, 0x01];

    #[test]
    fn dos_attributes_of_every_samba_version_decode() {
        let head = |version: u8| vec![0, 0, version, 0, version, 0, 0, 0];
        let valid: &[u8] = &[0x11, 0, 0, 0, 0x27, 0, 0, 0];
        let all = DosInfo { bits: Some(0x27), created: Some(CREATED) }.into();
        for (value, what) in [
            // Written by Samba 4.17.
            ([head(5), valid.into(), CREATED_BYTES.into()].concat(), "5"),
            ([head(4), valid.into(), vec![9; 8], CREATED_BYTES.into()].concat(), "4"),
            ([head(3), valid.into(), vec![9; 20], CREATED_BYTES.into(), vec![9; 8]].concat(), "3"),
            (
                [head(1), valid[4..].into(), vec![9; 20], CREATED_BYTES.into(), vec![9; 8]]
                    .concat(),
                "1",
            ),
            // A preceding string that ends at an odd offset.
            (
                [&b"0x27\0\0\x05\0\x05\0\0\0"[..], valid, &CREATED_BYTES].concat(),
                "5 after a string",
            ),
        ] {
            assert_eq!(decode(&value), Some(all), "version {what}");
        }
        assert_eq!(decode(&head(7)), None);
    }

    #[test]
    fn dos_attributes_are_encoded_as_samba_does() {
        let value = encode(&DosInfo { bits: Some(0x27), created: Some(CREATED) }.into());
        let expected = [
            &[0, 0, 3, 0, 3, 0, 0, 0, 0x11, 0, 0, 0, 0x27, 0, 0, 0][..],
            &[0; 20],
            &CREATED_BYTES,
            &[0; 8],
        ];
        assert_eq!(value, expected.concat());
        assert_eq!(value.len(), ENCODED_BYTES);
    }

    #[test]
    fn oldest_form_and_garbage_decode_safely() {
        let oldest = DosInfo { bits: Some(0x21), created: None };
        assert_eq!(decode(b"0x21\0"), Some(oldest.into()));
        let good = encode(&DosInfo { bits: Some(1), created: Some(Timestamp(5)) }.into());
        for length in 0..good.len() {
            let _ = decode(&good[..length]);
        }
    }
}
