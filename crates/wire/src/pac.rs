//! The user in a Kerberos ticket's privilege attribute certificate. MS-PAC 2.5, MS-RPCE 2.2.6, C706
//! 14.

use crate::codec::{DecodeError, Reader};
use std::fmt::Write;

/// Maximum length of one KERB_VALIDATION_INFO: a ticket in SMB has at most 64 KiB.
const LOGON_INFO_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of subauthorities in a SID. MS-DTYP 2.4.2.2.
const SUBAUTHORITIES_MAX: usize = 15;
/// Number of strings before the user's RID: effective, full, script, profile, home, its drive.
const NAMES: usize = 6;

/// An RPC_UNICODE_STRING, whose text is deferred. MS-DTYP 2.3.10.
struct DeferredText {
    units: usize,
    is_there: bool,
}

impl DeferredText {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let length = r.u16("PAC text")?;
        r.skip(2, "PAC text")?;
        let is_there = r.u32("PAC text")? != 0;
        if !length.is_multiple_of(2) || (!is_there && length != 0) {
            return Err(r.malformed("PAC text"));
        }
        Ok(Self { units: usize::from(length / 2), is_there })
    }

    fn skip_text(&self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        if !self.is_there {
            return Ok(());
        }
        align(r)?;
        let capacity = r.u32("PAC text")? as usize;
        let offset = r.u32("PAC text")?;
        let units = r.u32("PAC text")? as usize;
        if offset != 0 || units != self.units || units > capacity {
            return Err(r.malformed("PAC text"));
        }
        r.skip(units * 2, "PAC text")
    }
}

/// The SID of the user that a KERB_VALIDATION_INFO describes, as text: the domain's SID and the
/// user's RID. The caller must have authenticated the bytes.
///
/// # Errors
/// [`DecodeError`] if the bytes are no KERB_VALIDATION_INFO, exceed 64 KiB, or describe no
/// user of a domain.
pub fn user_sid(logon_info: &[u8]) -> Result<String, DecodeError> {
    let mut r = Reader::new(logon_info);
    if logon_info.len() > LOGON_INFO_BYTES_MAX {
        return Err(r.malformed("PAC length"));
    }
    // Version 1, little-endian, a common header of 8 bytes.
    if r.array::<4>("PAC header")? != [1, 0x10, 8, 0] {
        return Err(r.malformed("PAC header"));
    }
    r.skip(12, "PAC header")?;
    if r.u32("PAC referent")? == 0 {
        return Err(r.malformed("PAC referent"));
    }
    r.skip(48, "PAC times")?;
    let mut names = Vec::with_capacity(NAMES);
    for _ in 0..NAMES {
        names.push(DeferredText::decode(&mut r)?);
    }
    r.skip(4, "PAC counts")?;
    let user = r.u32("PAC user")?;
    r.skip(4, "PAC primary group")?;
    let groups = r.u32("PAC groups")?;
    let has_groups = r.u32("PAC groups")? != 0;
    // User flags and session key.
    r.skip(4 + 16, "PAC flags")?;
    let origin = [DeferredText::decode(&mut r)?, DeferredText::decode(&mut r)?];
    let has_domain = r.u32("PAC domain")? != 0;
    // Account control, failures, further SIDs and resource groups.
    r.skip(60, "PAC rest")?;
    if user == 0 || !has_domain {
        return Err(r.malformed("PAC user"));
    }
    names.iter().try_for_each(|name| name.skip_text(&mut r))?;
    if has_groups {
        align(&mut r)?;
        if r.u32("PAC groups")? != groups {
            return Err(r.malformed("PAC groups"));
        }
        let bytes = usize::try_from(groups).ok().and_then(|count| count.checked_mul(8));
        let bytes = bytes.ok_or_else(|| r.malformed("PAC groups"))?;
        r.skip(bytes, "PAC groups")?;
    }
    origin.iter().try_for_each(|name| name.skip_text(&mut r))?;
    let domain = domain_sid(&mut r)?;
    Ok(format!("{domain}-{user}"))
}

/// An RPC_SID, with room for the user's RID behind it. MS-DTYP 2.4.2.3.
fn domain_sid(r: &mut Reader<'_>) -> Result<String, DecodeError> {
    align(r)?;
    let count = r.u32("PAC SID")? as usize;
    let [revision, own_count] = r.array("PAC SID")?;
    if revision != 1 || usize::from(own_count) != count || count >= SUBAUTHORITIES_MAX {
        return Err(r.malformed("PAC SID"));
    }
    let authority = r.array::<6>("PAC SID")?;
    let authority = authority.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let mut text = format!("S-1-{authority}");
    for _ in 0..count {
        // Formatting into a `String` does not fail.
        let _ = write!(text, "-{}", r.u32("PAC SID")?);
    }
    Ok(text)
}

fn align(r: &mut Reader<'_>) -> Result<(), DecodeError> {
    r.skip(r.position().next_multiple_of(4) - r.position(), "PAC padding")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encoded by Samba 4.17 for `alice` of the domain `CORP`.
    const GOLDEN: &str = "\
        01100800cccccccc900100000000000000000200000000000000000000000000000000000000000000000000\
        0000000000000000000000000000000000000000000000000a000a0004000200160016000800020000000000\
        0000000000000000000000000000000000000000000000000000000000000000520400000102000002000000\
        0c0002000000000000000000000000000000000000000000060008001000020008000a001400020018000200\
        0000000000000000000000000000000000000000000000000000000000000000000000000000000001000000\
        1c00020000000000000000000000000005000000000000000500000061006c0069006300650000000b000000\
        000000000b00000041006c00690063006500200053006d006900740068000000020000000102000007000000\
        5304000007000000040000000000000003000000440043003100000005000000000000000400000043004f00\
        5200500004000000010400000000000515000000c7353a428e6b748455a1aec6010000002000020007000000\
        0100000001010000000000120100000000000000";

    fn golden() -> Vec<u8> {
        let digits = GOLDEN.as_bytes().chunks_exact(2);
        digits.map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn user_sid_of_a_pac_of_samba_is_domain_and_number() {
        let sid = user_sid(&golden()).unwrap();
        assert_eq!(sid, "S-1-5-21-1111111111-2222222222-3333333333-1106");
    }

    #[test]
    fn truncated_and_changed_pacs_are_refused_without_a_panic() {
        let golden = golden();
        // The decoder reads nothing behind the domain's SID.
        let end = golden.windows(8).position(|w| w == [4, 0, 0, 0, 1, 4, 0, 0]).unwrap() + 28;
        for length in 0..end {
            assert!(user_sid(&golden[..length]).is_err(), "{length}");
        }
        for at in 0..golden.len() {
            for bits in [0xFF, 0x01, 0x80] {
                let mut changed = golden.clone();
                changed[at] ^= bits;
                let _ = user_sid(&changed);
            }
        }
        assert!(user_sid(&[&golden[..], &[0; LOGON_INFO_BYTES_MAX]].concat()).is_err());
    }

    #[test]
    fn pac_without_a_user_number_or_domain_is_refused() {
        // The RID follows a header, a referent, times, names and counts.
        let at = 16 + 4 + 48 + 48 + 4;
        let mut nobody = golden();
        nobody[at..at + 4].fill(0);
        assert!(user_sid(&nobody).is_err());
        let domain = at + 4 + 4 + 4 + 4 + 4 + 16 + 16;
        let mut nowhere = golden();
        nowhere[domain..domain + 4].fill(0);
        assert!(user_sid(&nowhere).is_err());
    }
}
