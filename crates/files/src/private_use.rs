//! Private use characters in names.
//!
//! SMB clients send a character of the Unicode private use area for a byte that Windows forbids in
//! names: U+F022 for `:`, U+F029 for a trailing dot. MS-FSCC 2.1.5 does not define them; macOS and
//! Linux agree on them for NTFS. This server stores the original byte. Samba and other servers
//! store the private character, so disks from them contain both forms.

use std::borrow::Cow;
use vfs::{Case, RelPath, Result};

/// First code point for control characters and punctuation.
pub const CONTROL_BASE: u32 = 0xF000;
/// U+F100 + byte: a byte that is not part of valid UTF-8.
pub const RAW_BYTE_BASE: u32 = 0xF100;
/// The code point of the first of [`PUNCTUATION`].
pub const PUNCTUATION_BASE: u32 = 0xF020;
/// Punctuation that Windows forbids, in the order of its code points.
pub const PUNCTUATION: [u8; 8] = *b"\"*:<>?\\|";
/// First UTF-8 byte of each private use character.
const FIRST_BYTE: u8 = 0xEF;
/// A space at the end of a name.
pub const TRAILING_SPACE: u32 = 0xF028;
/// A dot at the end of a name.
pub const TRAILING_DOT: u32 = 0xF029;

/// The byte that a private use character represents.
#[must_use]
pub fn mapped_byte(c: char) -> Option<u8> {
    let code = u32::from(c);
    Some(match code {
        0xF001..=0xF01F => (code - CONTROL_BASE) as u8,
        PUNCTUATION_BASE..=0xF027 => PUNCTUATION[(code - PUNCTUATION_BASE) as usize],
        TRAILING_SPACE => b' ',
        TRAILING_DOT => b'.',
        0xF180..=0xF1FF => (code - RAW_BYTE_BASE) as u8,
        _ => return None,
    })
}

/// The stored name with each private use character mapped to its byte; none if it has no such
/// character.
#[must_use]
pub fn mapped_name(name: &[u8]) -> Option<Vec<u8>> {
    // Most names have none and need no copy.
    if !name.contains(&FIRST_BYTE) {
        return None;
    }
    let mut mapped = Vec::with_capacity(name.len());
    let mut rest = name;
    let mut is_other = false;
    while let Some(at) = rest.iter().position(|byte| *byte == FIRST_BYTE) {
        let (before, from) = rest.split_at(at);
        mapped.extend_from_slice(before);
        let character = from.get(..3).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let byte = character.and_then(|text| text.chars().next()).and_then(mapped_byte);
        is_other |= byte.is_some();
        mapped.push(byte.unwrap_or(FIRST_BYTE));
        rest = &from[if byte.is_some() { 3 } else { 1 }..];
    }
    mapped.extend_from_slice(rest);
    is_other.then_some(mapped)
}

/// Limit of ambiguous names of one path that are looked up: each look-up takes time in proportion to
/// the path.
pub const AMBIGUOUS_NAMES_MAX: usize = 128;

/// Two readings of a client's path with private use characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmbiguousPath {
    /// Each private use character mapped to its byte.
    pub mapped: RelPath,
    /// Each private use character as it is. As many components as `mapped`.
    pub literal: RelPath,
}

impl AmbiguousPath {
    /// Whether `path` is one of the possible readings.
    #[must_use]
    pub fn may_be(&self, path: &RelPath, case: Case) -> bool {
        let fold = |name| match case {
            Case::Insensitive => vfs::fold_case(name),
            Case::Sensitive => Cow::Borrowed(name),
        };
        let mut names = path.components();
        self.components().all(|(mapped, literal)| {
            let name = names.next().map(fold);
            name.is_some_and(|name| name == fold(mapped) || name == fold(literal))
        }) && names.next().is_none()
    }

    /// Chooses a reading by the names that are there. In each directory the mapped name is preferred,
    /// then the literal one. A missing name is taken as mapped, and so are all below it.
    pub(crate) fn choose(&self, exists: impl Fn(&RelPath) -> bool) -> Result<RelPath> {
        // Nearly always so.
        if exists(&self.mapped) {
            return Ok(self.mapped.clone());
        }
        let mut chosen = RelPath::with_capacity(self.literal.as_bytes().len());
        let (mut looked_at, mut is_missing) = (0, false);
        for (mapped, literal) in self.components() {
            let mut name = mapped;
            if mapped != literal && !is_missing && looked_at < AMBIGUOUS_NAMES_MAX {
                let with = |name| {
                    let mut path = chosen.clone();
                    path.try_push(name).map(|()| path)
                };
                looked_at += 1;
                if !exists(&with(mapped)?) {
                    let is_literal = with(literal).is_ok_and(|path| exists(&path));
                    is_missing = !is_literal;
                    name = if is_literal { literal } else { mapped };
                }
            }
            chosen.try_push(name)?;
        }
        Ok(chosen)
    }

    fn components(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.mapped.components().zip(self.literal.components())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_characters_are_replaced_by_their_bytes() {
        for (stored, mapped) in [
            ("a\u{F022}b", Some(&b"a:b"[..])),
            ("\u{F001}\u{F020}\u{F027}", Some(b"\x01\"|")),
            ("end\u{F029}", Some(b"end.")),
            ("\u{F028}\u{F1FF}", Some(b" \xFF")),
            ("\u{FF01}\u{F022}", Some(b"\xEF\xBC\x81:")),
            ("plain", None),
            ("\u{F000}\u{F02A}\u{F100}\u{F17F}\u{F200}\u{FF01}", None),
        ] {
            assert_eq!(mapped_name(stored.as_bytes()).as_deref(), mapped, "{stored:?}");
        }
        assert_eq!(mapped_name(b"\xEF\x80"), None, "cut off");
        assert_eq!(mapped_name(b"\xEF\xEF\x80\xA2"), Some(b"\xEF:".to_vec()));
    }

    #[test]
    fn mapped_name_is_preferred_in_each_directory_that_exists() {
        let path = |text: &str| RelPath::of_components(text.as_bytes().to_vec()).unwrap();
        let ambiguous = AmbiguousPath {
            mapped: path("a:/b/c?/d*"),
            literal: path("a\u{F022}/b/c\u{F025}/d\u{F021}"),
        };
        for (present, chosen) in [
            (&["a:", "a:/b", "a:/b/c?", "a:/b/c?/d*"][..], "a:/b/c?/d*"),
            (&["a:", "a\u{F022}", "a\u{F022}/b", "a\u{F022}/b/c?"], "a:/b/c?/d*"),
            (&["a\u{F022}", "a\u{F022}/b", "a\u{F022}/b/c?"], "a\u{F022}/b/c?/d*"),
            (
                &["a:", "a:/b", "a:/b/c\u{F025}", "a:/b/c\u{F025}/d\u{F021}"],
                "a:/b/c\u{F025}/d\u{F021}",
            ),
            (&[], "a:/b/c?/d*"),
        ] {
            let exists =
                |path: &RelPath| present.iter().any(|name| path.as_bytes() == name.as_bytes());
            assert_eq!(ambiguous.choose(exists).unwrap(), path(chosen), "{present:?}");
        }
    }

    /// Each look-up takes time in proportion to the path.
    #[test]
    fn long_ambiguous_path_takes_few_look_ups() {
        let path = |name: &str| {
            let names = vec![name; 4000];
            RelPath::of_components(names.join("/").into_bytes()).unwrap()
        };
        let ambiguous = AmbiguousPath { mapped: path("a:"), literal: path("a\u{F022}") };
        let count = std::cell::Cell::new(0);
        let counted = |exists: bool| {
            count.set(count.get() + 1);
            exists
        };
        assert_eq!(ambiguous.choose(|_| counted(false)).unwrap(), ambiguous.mapped);
        assert_eq!(count.take(), 3, "nothing exists below a missing name");
        assert_eq!(ambiguous.choose(|_| counted(true)).unwrap(), ambiguous.mapped);
        assert_eq!(count.take(), 1);
        let is_literal = |path: &RelPath| counted(path.components().all(|name| name.len() > 2));
        ambiguous.choose(is_literal).unwrap();
        assert_eq!(count.take(), 1 + 2 * AMBIGUOUS_NAMES_MAX);
    }

    #[test]
    fn either_reading_of_each_component_matches() {
        let path = |text: &str| RelPath::of_components(text.as_bytes().to_vec()).unwrap();
        let ambiguous =
            AmbiguousPath { mapped: path("a:b/c/d?"), literal: path("a\u{F022}b/c/d\u{F025}") };
        for stored in ["a:b/c/d?", "a\u{F022}b/c/d?", "A:B/c/d\u{F025}"] {
            assert!(ambiguous.may_be(&path(stored), Case::Insensitive), "{stored}");
        }
        assert!(!ambiguous.may_be(&path("A:b/c/d?"), Case::Sensitive));
        for other in ["a:b/c", "a:b/c/d?/e", "a/c/d?"] {
            assert!(!ambiguous.may_be(&path(other), Case::Insensitive), "{other}");
        }
    }
}
