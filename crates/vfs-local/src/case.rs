//! Names that differ in case only.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir, openat};
use std::mem::MaybeUninit;
use vfs::Name;

/// Bytes read from a directory at once.
const BUFFER_BYTES: usize = 32 * 1024;

/// A name in the form in which names are compared.
pub fn fold(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_ascii_uppercase();
    }
    match std::str::from_utf8(name) {
        Ok(text) => text.chars().flat_map(upper).collect::<String>().into_bytes(),
        Err(_) => name.to_ascii_uppercase(),
    }
}

/// One letter to one letter, as NTFS compares: `ß` stays `ß`.
fn upper(c: char) -> Option<char> {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(u), None) if !matches!(c, 'ı' | 'ſ') => Some(u),
        _ => Some(c),
    }
}

/// Whether another spelling of the name can exist.
fn has_case(name: &[u8]) -> bool {
    name.iter().any(|b| b.is_ascii_alphabetic() || !b.is_ascii())
}

/// The name in `directory` that differs from `wanted` in case only; the first
/// in byte order if there are several.
pub fn find(directory: &impl AsFd, wanted: &[u8]) -> Option<Name> {
    if !has_case(wanted) {
        return None;
    }
    // The handle may be for looking up only: listing needs one of its own.
    let list: OwnedFd =
        openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .ok()?;
    let folded = fold(wanted);
    let mut best: Option<Vec<u8>> = None;
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
    let mut entries = RawDir::new(list, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.ok()?;
        let name = entry.file_name().to_bytes();
        if fold(name) == folded && best.as_deref().is_none_or(|b| name < b) {
            best = Some(name.to_vec());
        }
    }
    best.and_then(|name| Name::new(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_letter_by_letter() {
        assert_eq!(fold(b"ReadMe"), fold(b"README"));
        assert_eq!(fold("Äöü".as_bytes()), fold("äÖÜ".as_bytes()));
        assert_eq!(fold("𐐨".as_bytes()), fold("𐐀".as_bytes()), "beyond the basic plane");
        assert_ne!(fold("straße".as_bytes()), fold(b"strasse"));
    }
}
