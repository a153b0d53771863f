//! DOS attributes and creation time in Samba's `user.DOSATTRIB`.
//!
//! The value is a structure in NDR: an ASCII string (`0x20`), then a version,
//! then its fields. Versions 1 to 5 are read, 3 is written: it has what is
//! needed, and every Samba since 3.5 reads it.

use vfs::{DosInfo, Timestamp};

/// Name of the attribute.
pub const NAME: &str = "user.DOSATTRIB";
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
    // NDR aligns what follows the string to 4 bytes.
    let mut fields = Fields { bytes, at: (end + 1).next_multiple_of(4) };
    let version = fields.u16()?;
    // A union switch repeats the version.
    fields.u16()?;
    fields.align(4);
    match version {
        1 => Some(DosInfo { bits: Some(fields.u32()?), created: None }),
        3 => decode_3(&mut fields),
        4 | 5 => decode_5(&mut fields),
        _ => None,
    }
}

fn decode_3(fields: &mut Fields<'_>) -> Option<DosInfo> {
    let valid = fields.u32()?;
    let bits = fields.u32()?;
    // Bytes of extended attributes, length and allocation: not kept up to date.
    fields.u32()?;
    fields.align(8);
    fields.u64()?;
    fields.u64()?;
    let created = fields.u64()?;
    Some(info(valid, bits, created))
}

fn decode_5(fields: &mut Fields<'_>) -> Option<DosInfo> {
    let valid = fields.u32()?;
    let bits = fields.u32()?;
    fields.align(8);
    // Version 4 has an inode-derived itime before the creation time; 5 has not.
    let created = fields.u64()?;
    Some(info(valid, bits, created))
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
    let bits = info.bits.unwrap_or(0);
    let mut out = format!("0x{bits:x}\0").into_bytes();
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(&3u16.to_le_bytes());
    out.extend_from_slice(&3u16.to_le_bytes());
    let valid = if info.bits.is_some() { VALID_ATTRIBUTES } else { 0 }
        | if info.created.is_some() { VALID_CREATED } else { 0 };
    out.extend_from_slice(&valid.to_le_bytes());
    out.extend_from_slice(&bits.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.resize(out.len().next_multiple_of(8), 0);
    out.extend_from_slice(&[0; 16]);
    let created =
        info.created.map_or(0, |t| u64::try_from(t.0.div_euclid(100) + EPOCH).unwrap_or(0));
    out.extend_from_slice(&created.to_le_bytes());
    // Change time: not stored.
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

    #[test]
    fn the_oldest_form_and_garbage_do_no_harm() {
        assert_eq!(decode(b"0x21\0"), Some(DosInfo { bits: Some(0x21), created: None }));
        let good = encode(&DosInfo { bits: Some(1), created: Some(Timestamp(5)) });
        for length in 0..good.len() {
            let _ = decode(&good[..length]);
        }
    }
}
