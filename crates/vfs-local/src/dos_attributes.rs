//! DOS attributes and creation time in Samba's `user.DOSATTRIB`.
//!
//! The value is a structure in NDR: an ASCII string (`0x20`), then a version,
//! then its fields. Versions 1 to 5 are read, 3 is written: it has what is
//! needed, and every Samba since 3.5 reads it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use vfs::{DosInfo, Timestamp};

/// Name of the attribute.
pub const NAME: &str = "user.DOSATTRIB";
/// Bytes of a value of version 3.
const ENCODED_BYTES: usize = 52;
const VALID_ATTRIBUTES: u32 = 1;
const VALID_CREATED: u32 = 0x10;
const VALID_CHANGED: u32 = 0x20;
/// Between 1601 and 1970, in 100-nanosecond intervals.
const EPOCH: i128 = 116_444_736_000_000_000;

/// Locks for all files: two of one lock wait for each other now and then.
const LOCKS: usize = 64;

/// Held from reading a file's value until what was merged with it is stored: changes of one field at
/// the same time as another would be lost. Callers take one at a time.
pub fn lock_of(inode: u64) -> MutexGuard<'static, ()> {
    static ALL: [Mutex<()>; LOCKS] = [const { Mutex::new(()) }; LOCKS];
    ALL[inode as usize % LOCKS].lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that a stored value holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredDos {
    /// DOS attributes and creation time.
    pub info: DosInfo,
    /// The change time that a client set, if one did.
    pub changed: Option<SetChangeTime>,
}

/// A change time that a client set. The kernel's own cannot be set, and moves with everything that
/// changes the file, storing this included: so it counts while the kernel's is the one that storing
/// it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetChangeTime {
    /// The time to show.
    pub shown: Timestamp,
    /// The time of this machine's clock when it was stored, moved by how far the file system's clock
    /// is known to be from it. It stands where Samba has the file's length, which neither server
    /// reads.
    pub anchor: Timestamp,
}

/// How far a change time may lie before the clock that was read first, in nanoseconds: file systems
/// stamp files with the time of the last tick, and the slowest has 100 a second.
const TICK_NANOS: i128 = 10_000_000;
/// How long the kernel may take from there to stamping the file, in nanoseconds. A change by somebody
/// else in this time is not seen.
const STORING_NANOS: i128 = 2_000_000;

impl SetChangeTime {
    /// Whether the file, whose change time by the kernel this is, is as storing it left it.
    pub fn is_of(&self, changed: Timestamp) -> bool {
        (-TICK_NANOS..=STORING_NANOS).contains(&(changed.0 - self.anchor.0))
    }
}

/// Reads a stored value; none if it is of no known form.
pub fn decode(bytes: &[u8]) -> Option<StoredDos> {
    let end = bytes.iter().position(|&b| b == 0)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    if end + 1 == bytes.len() || bytes.len() < end + 9 {
        // The form before version 1: the string alone.
        let bits = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
        return Some(StoredDos::from(DosInfo { bits: Some(bits), created: None }));
    }
    let mut fields = Fields { bytes, at: end + 1 };
    fields.align(2);
    let version = fields.u16()?;
    // A union's switch repeats the version; what it holds is aligned.
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
            // Bytes of extended attributes, length, allocation.
            let (_, anchor, _) = (fields.u32()?, fields.u64()?, fields.u64()?);
            let info = info(valid, bits, fields.u64()?);
            let shown = fields.u64()?;
            // The anchor tells what this server stored from Samba's own field.
            let is_set = valid & VALID_CHANGED != 0 && anchor != 0;
            let changed =
                is_set.then(|| SetChangeTime { shown: to_time(shown), anchor: to_time(anchor) });
            Some(StoredDos { info, changed })
        }
        4 => {
            let (valid, bits) = (fields.u32()?, fields.u32()?);
            // A time that numbers of files are made from.
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

/// The value to store.
pub fn encode(StoredDos { info, changed }: &StoredDos) -> Vec<u8> {
    let valid = if info.bits.is_some() { VALID_ATTRIBUTES } else { 0 }
        | if info.created.is_some() { VALID_CREATED } else { 0 }
        | if changed.is_some() { VALID_CHANGED } else { 0 };
    let mut out = Vec::with_capacity(ENCODED_BYTES);
    // An empty string, then the version, and again as the union's switch.
    out.extend_from_slice(&[0, 0, 3, 0, 3, 0, 0, 0]);
    out.extend_from_slice(&valid.to_le_bytes());
    out.extend_from_slice(&info.bits.unwrap_or(0).to_le_bytes());
    // Bytes of extended attributes and allocation are not kept, nor is the length.
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&changed.map_or(0, |it| to_intervals(it.anchor)).to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&info.created.map_or(0, to_intervals).to_le_bytes());
    out.extend_from_slice(&changed.map_or(0, |it| to_intervals(it.shown)).to_le_bytes());
    out
}

struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
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

    /// Bytes of extended attributes, length, allocation: not kept up to date.
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
    fn what_is_stored_is_read_back() {
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
    fn set_change_time_counts_until_the_kernels_moves_on() {
        let set = SetChangeTime { shown: Timestamp(5), anchor: Timestamp(1_000_000_000) };
        for (kernels, counts) in [
            (989_999_999, false),
            (990_000_000, true),
            (1_000_000_000, true),
            (1_002_000_000, true),
            (1_002_000_001, false),
        ] {
            assert_eq!(set.is_of(Timestamp(kernels)), counts, "{kernels}");
        }
    }

    /// 2001-02-03 04:05:06.
    const CREATED: Timestamp = Timestamp(981_173_106_000_000_000);
    const CREATED_BYTES: [u8; 8] = [0x00, 0x05, 0xB5, 0x7D, 0x96, 0x8D, 0xC0, 0x01];

    #[test]
    fn what_samba_stored_in_any_version_is_read() {
        let head = |version: u8| vec![0, 0, version, 0, version, 0, 0, 0];
        let valid: &[u8] = &[0x11, 0, 0, 0, 0x27, 0, 0, 0];
        let all = DosInfo { bits: Some(0x27), created: Some(CREATED) }.into();
        for (value, what) in [
            // As Samba 4.17 wrote it.
            ([head(5), valid.into(), CREATED_BYTES.into()].concat(), "5"),
            ([head(4), valid.into(), vec![9; 8], CREATED_BYTES.into()].concat(), "4"),
            ([head(3), valid.into(), vec![9; 20], CREATED_BYTES.into(), vec![9; 8]].concat(), "3"),
            (
                [head(1), valid[4..].into(), vec![9; 20], CREATED_BYTES.into(), vec![9; 8]]
                    .concat(),
                "1",
            ),
            // A string in front, which ends at an odd place.
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
    fn what_is_stored_is_in_the_form_of_samba() {
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
    fn the_oldest_form_and_garbage_do_no_harm() {
        let oldest = DosInfo { bits: Some(0x21), created: None };
        assert_eq!(decode(b"0x21\0"), Some(oldest.into()));
        let good = encode(&DosInfo { bits: Some(1), created: Some(Timestamp(5)) }.into());
        for length in 0..good.len() {
            let _ = decode(&good[..length]);
        }
    }
}
