//! Case folding of names.

use std::borrow::Cow;

/// Case-folds a name for comparison. Folding maps one letter to one letter, so two names of
/// different length never become equal: `ß` stays `ß`. Letters beyond the Basic Multilingual Plane
/// are folded, too. Of a name that is not UTF-8 only the ASCII letters are folded.
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

/// Whether another case variant of the name can exist. False only if none can.
#[must_use]
pub fn has_case(name: &[u8]) -> bool {
    name.iter().any(|b| b.is_ascii_alphabetic() || !b.is_ascii())
}

fn upper(c: char) -> char {
    // The upper case of these letters is that of another letter, which Windows keeps distinct.
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
    fn folding_maps_letters_one_to_one() {
        assert_eq!(fold_case(b"ReadMe"), fold_case(b"README"));
        assert_eq!(fold_case("Äöü".as_bytes()), fold_case("äÖÜ".as_bytes()));
        assert_eq!(fold_case("𐐨".as_bytes()), fold_case("𐐀".as_bytes()), "beyond the basic plane");
        assert_ne!(fold_case("straße".as_bytes()), fold_case(b"strasse"));
        assert_ne!(fold_case("ı".as_bytes()), fold_case(b"i"));
        assert_eq!(fold_case(b"a\xFFb"), fold_case(b"A\xFFB"), "not UTF-8");
    }

    #[test]
    fn name_without_letters_is_not_folded() {
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
