//! The form in which names that differ in case only are equal.

use std::borrow::Cow;

/// A name as it is compared where case does not count. Letters are raised one
/// to one, so that a name never equals one of another length: `ß` stays `ß`.
/// Letters beyond the basic plane are raised too. Bytes that are not UTF-8 are
/// compared as they are, ASCII letters among them aside.
#[must_use]
pub fn fold_case(name: &[u8]) -> Cow<'_, [u8]> {
    if !has_case(name) {
        return Cow::Borrowed(name);
    }
    match std::str::from_utf8(name) {
        Ok(text) if !name.is_ascii() => {
            Cow::Owned(text.chars().map(upper).collect::<String>().into_bytes())
        }
        _ => Cow::Owned(name.to_ascii_uppercase()),
    }
}

/// Whether another spelling of the name can exist: false only if none can.
#[must_use]
pub fn has_case(name: &[u8]) -> bool {
    name.iter().any(|b| b.is_ascii_alphabetic() || !b.is_ascii())
}

fn upper(c: char) -> char {
    // The upper case of these is that of another letter: Windows keeps them apart.
    if matches!(c, 'ı' | 'ſ') {
        return c;
    }
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_letter_by_letter() {
        assert_eq!(fold_case(b"ReadMe"), fold_case(b"README"));
        assert_eq!(fold_case("Äöü".as_bytes()), fold_case("äÖÜ".as_bytes()));
        assert_eq!(fold_case("𐐨".as_bytes()), fold_case("𐐀".as_bytes()), "beyond the basic plane");
        assert_ne!(fold_case("straße".as_bytes()), fold_case(b"strasse"));
        assert_ne!(fold_case("ı".as_bytes()), fold_case(b"i"));
        assert_eq!(fold_case(b"a\xFFb"), fold_case(b"A\xFFB"), "not UTF-8");
    }

    #[test]
    fn names_without_letters_are_compared_as_they_are() {
        assert!(!has_case(b"2024-01-31_#7"));
        assert!(matches!(fold_case(b"123"), Cow::Borrowed(b"123")));
        assert!(has_case("日本".as_bytes()), "may be wrong this way, never the other");
    }

    #[test]
    fn folding_is_stable_for_every_letter() {
        for c in (0..=0x0010_FFFF).filter_map(char::from_u32) {
            let once = upper(c);
            assert_eq!(upper(once), once, "{c:?}");
        }
    }
}
