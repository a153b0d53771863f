//! Network Data Representation, as far as these interfaces need it. C706 14.

use crate::codec::{DecodeError, Reader, Writer};

/// Maximum length of one string, in characters.
const STRING_MAX: usize = 4096;

/// Decodes a `[unique, string] wchar_t *`.
pub(super) fn unique_string(r: &mut Reader<'_>) -> Result<Option<String>, DecodeError> {
    if r.u32("referent")? == 0 {
        return Ok(None);
    }
    string(r).map(Some)
}

/// Decodes a conformant varying string.
pub(super) fn string(r: &mut Reader<'_>) -> Result<String, DecodeError> {
    align(r)?;
    r.skip(8, "string")?;
    let count = r.u32("string")? as usize;
    if count > STRING_MAX {
        return Err(r.malformed("string length"));
    }
    let bytes = r.take(count * 2, "string")?;
    let units: Vec<u16> = bytes.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect();
    align(r)?;
    let end = units.iter().position(|&u| u == 0).unwrap_or(units.len());
    Ok(String::from_utf16_lossy(&units[..end]))
}

/// Skips the padding before a 32-bit value; there is none at the end of a message.
pub(super) fn align(r: &mut Reader<'_>) -> Result<(), DecodeError> {
    let pad = r.position().next_multiple_of(4) - r.position();
    r.skip(pad.min(r.remaining()), "padding")
}

/// Writes a conformant varying string with its terminator.
pub(super) fn put_string(w: &mut Writer<'_>, text: &str) {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    w.u32(units.len() as u32);
    w.u32(0);
    w.u32(units.len() as u32);
    units.iter().for_each(|u| w.u16(*u));
    w.align(4);
}

/// Writes a unique pointer's referent.
pub(super) fn put_referent(w: &mut Writer<'_>, number: u32) {
    w.u32(0x0002_0000 + number * 4);
}
