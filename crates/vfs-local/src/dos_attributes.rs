//! DOS attributes and creation time in Samba's `user.DOSATTRIB`.
//!
//! The value is a structure in NDR: an ASCII string (`0x20`), then a version,
//! then its fields. Versions 1 to 5 are read, 3 is written: it has what is
//! needed, and every Samba since 3.5 reads it.

use vfs::{DosInfo, Timestamp};

/// Name of the attribute.
pub const NAME: &str = "user.DOSATTRIB";
/// Bytes of a value of version 3.
const ENCODED_BYTES: usize = 52;
const VALID_ATTRIBUTES: u32 = 1;
const VALID_CREATED: u32 = 0x10;
/// Between 1601 and 1970, in 100-nanosecond intervals.
const EPOCH: i128 = 116_444_736_000_000_000;

/// Reads a stored value; none if it is of no known form.
pub fn decode(bytes: &[u8]) -> Option<DosInfo> {
    let end = bytes.iter().position(|&b| b == 0)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    if end + 1 == bytes.len() || bytes.len() < end + 9 {
        // The form before version 1: the string alone.
        let bits = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
        return Some(DosInfo { bits: Some(bits), created: None });
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
            Some(info(VALID_ATTRIBUTES | VALID_CREATED, bits, fields.u64()?))
        }
        3 => {
            let (valid, bits) = (fields.u32()?, fields.u32()?);
            fields.skip_sizes()?;
            Some(info(valid, bits, fields.u64()?))
        }
        4 => {
            let (valid, bits) = (fields.u32()?, fields.u32()?);
            // A time that numbers of files are made from.
            fields.u64()?;
            Some(info(valid, bits, fields.u64()?))
        }
        5 => Some(info(fields.u32()?, fields.u32()?, fields.u64()?)),
        _ => None,
    }
}

fn info(valid: u32, bits: u32, created: u64) -> DosInfo {
    DosInfo {
        bits: (valid & VALID_ATTRIBUTES != 0).then_some(bits),
        created: (valid & VALID_CREATED != 0 && created != 0)
            .then_some(Timestamp((i128::from(created) - EPOCH) * 100)),
    }
}

/// The value to store.
pub fn encode(info: &DosInfo) -> Vec<u8> {
    let valid = if info.bits.is_some() { VALID_ATTRIBUTES } else { 0 }
        | if info.created.is_some() { VALID_CREATED } else { 0 };
    let created =
        info.created.map_or(0, |t| u64::try_from(t.0.div_euclid(100) + EPOCH).unwrap_or(0));
    let mut out = Vec::with_capacity(ENCODED_BYTES);
    // An empty string, then the version, and again as the union's switch.
    out.extend_from_slice(&[0, 0, 3, 0, 3, 0, 0, 0]);
    out.extend_from_slice(&valid.to_le_bytes());
    out.extend_from_slice(&info.bits.unwrap_or(0).to_le_bytes());
    // Bytes of extended attributes, length, allocation: not kept.
    out.extend_from_slice(&[0; 4 + 8 + 8]);
    out.extend_from_slice(&created.to_le_bytes());
    // Change time: not kept.
    out.extend_from_slice(&[0; 8]);
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
            assert_eq!(decode(&encode(&info)), Some(info));
        }
    }

    /// 2001-02-03 04:05:06.
    const CREATED: Timestamp = Timestamp(981_173_106_000_000_000);
    const CREATED_BYTES: [u8; 8] = [0x00, 0x05, 0xB5, 0x7D, 0x96, 0x8D, 0xC0, 0x01];

    #[test]
    fn what_samba_stored_in_any_version_is_read() {
        let head = |version: u8| vec![0, 0, version, 0, version, 0, 0, 0];
        let valid: &[u8] = &[0x11, 0, 0, 0, 0x27, 0, 0, 0];
        let all = DosInfo { bits: Some(0x27), created: Some(CREATED) };
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
        let value = encode(&DosInfo { bits: Some(0x27), created: Some(CREATED) });
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
        assert_eq!(decode(b"0x21\0"), Some(DosInfo { bits: Some(0x21), created: None }));
        let good = encode(&DosInfo { bits: Some(1), created: Some(Timestamp(5)) });
        for length in 0..good.len() {
            let _ = decode(&good[..length]);
        }
    }
}
