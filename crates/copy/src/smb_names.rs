//! Maps names of bytes, as local directories and NFS have them, to names that SMB can hold, and
//! back.
//!
//! SMB forbids control characters, `"*:<>?\|`, and a dot or space at the end of a name (MS-FSCC
//! 2.1.5). macOS, Linux (`mapposix`) and Anabranch's server use one character of the Unicode private
//! use area for each: U+F022 for `:`, U+F029 for a dot at the end. A byte that is not UTF-8 becomes
//! U+F100 plus its value, as Anabranch's server shows it.
//!
//! A byte name may contain such private characters itself. [`encode`] then writes each as its UTF-8
//! bytes, so that it differs from the name that it would be mistaken for. A share may contain a name
//! that no byte name is escaped to. [`decode`] returns it unchanged. Both functions are inverse to
//! each other on all names (Cantor, Schröder, Bernstein): different names stay different in either
//! direction, and every name returns as it was.

/// First code point for control characters and punctuation.
const CONTROL_BASE: u32 = 0xF000;
/// Punctuation that SMB forbids, in the order of its code points.
const PUNCTUATION: [char; 8] = ['"', '*', ':', '<', '>', '?', '\\', '|'];
const PUNCTUATION_BASE: u32 = 0xF020;
const TRAILING_SPACE: char = '\u{F028}';
const TRAILING_DOT: char = '\u{F029}';
/// U+F100 + byte: a byte that is not part of valid UTF-8.
const RAW_BYTE_BASE: u32 = 0xF100;

/// The byte that a private character stands for.
fn mapped_byte(c: char) -> Option<u8> {
    let code = u32::from(c);
    match code {
        0xF001..=0xF01F => Some((code - CONTROL_BASE) as u8),
        PUNCTUATION_BASE..=0xF027 => Some(PUNCTUATION[(code - PUNCTUATION_BASE) as usize] as u8),
        0xF028 => Some(b' '),
        0xF029 => Some(b'.'),
        _ => raw_byte(c),
    }
}

/// The byte of a character that stands for a byte outside of UTF-8.
fn raw_byte(c: char) -> Option<u8> {
    let code = u32::from(c);
    (0xF180..=0xF1FF).contains(&code).then(|| (code - RAW_BYTE_BASE) as u8)
}

fn raw_char(byte: u8) -> char {
    char::from_u32(RAW_BYTE_BASE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Whether SMB can hold the name as it is.
#[must_use]
pub fn is_valid(name: &str) -> bool {
    let is_forbidden = |c: char| c < ' ' || c == '/' || PUNCTUATION.contains(&c);
    !name.is_empty() && !name.ends_with(['.', ' ']) && !name.contains(is_forbidden)
}

/// Whether the name has a character that either direction treats specially; most names have none.
fn is_plain(name: &[u8]) -> bool {
    let is_special = |byte: &u8| !(0x20..0x7F).contains(byte) || b"\"*:<>?\\|/".contains(byte);
    !name.iter().any(is_special) && !name.ends_with(b".") && !name.ends_with(b" ")
}

/// Decodes UTF-8; `other` receives each byte that is not part of it.
fn decode_utf8(out: &mut String, bytes: &[u8], mut push: impl FnMut(&mut String, char)) {
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push(out, c));
        out.extend(chunk.invalid().iter().map(|byte| raw_char(*byte)));
    }
}

fn push_as_bytes(out: &mut String, c: char) {
    out.extend(c.encode_utf8(&mut [0; 4]).bytes().map(raw_char));
}

/// Writes each byte that SMB cannot hold as a private character, and each private character as its
/// bytes.
fn escape(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len() + 8);
    decode_utf8(&mut out, name, |out, c| {
        if let Some(at) = PUNCTUATION.iter().position(|one| *one == c) {
            out.extend(char::from_u32(PUNCTUATION_BASE + at as u32));
        } else if c < ' ' {
            out.extend(char::from_u32(CONTROL_BASE + u32::from(c)));
        } else if mapped_byte(c).is_some() {
            push_as_bytes(out, c);
        } else {
            out.push(c);
        }
    });
    let last = match out.pop() {
        Some(' ') => Some(TRAILING_SPACE),
        Some('.') => Some(TRAILING_DOT),
        other => other,
    };
    out.extend(last);
    out
}

/// Writes each private character as the byte that it stands for.
fn unescape(name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for c in name.chars() {
        match mapped_byte(c) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out
}

/// Whether an SMB name stands for the byte name of the same characters. It does unless it is the
/// escaped form of another name, and that name is not taken by itself. An escaped form is longer
/// than a valid name that it stands for, so the recursion ends.
fn is_literal(name: &str) -> bool {
    let original = unescape(name);
    if original == name.as_bytes() || [b".".as_slice(), b".."].contains(&&*original) {
        return true;
    }
    if escape(&original) != name {
        return true;
    }
    std::str::from_utf8(&original).is_ok_and(|text| is_valid(text) && is_literal(text))
}

/// The SMB name of a byte name other than `.` and `..`.
#[must_use]
pub fn encode(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if is_plain(name) || (is_valid(text) && is_literal(text)) => text.to_owned(),
        _ => escape(name),
    }
}

/// The byte name of an SMB name. A name that SMB cannot hold, which some servers list nevertheless,
/// is returned unchanged.
#[must_use]
pub fn decode(name: &str) -> Vec<u8> {
    if is_plain(name.as_bytes()) || is_literal(name) {
        return name.as_bytes().to_vec();
    }
    unescape(name)
}

/// A byte name as text. Each byte outside of UTF-8, and each byte of a character that stands for
/// one, becomes U+F100 plus its value: different names stay different.
#[must_use]
pub fn text_of(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    decode_utf8(&mut out, name, |out, c| match raw_byte(c) {
        Some(_) => push_as_bytes(out, c),
        None => out.push(c),
    });
    out
}

/// The byte name or path of [`text_of`]'s text.
#[must_use]
pub fn bytes_of(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for c in text.chars() {
        match raw_byte(c) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out
}

/// A name of either kind with each private character as what it stands for: equal for two names that
/// a server or another client may take for one.
#[must_use]
pub fn reading(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    // A step shortens the name, and the bytes of one step may form the next one's character.
    while !is_plain(&name) {
        let mut next = Vec::with_capacity(name.len());
        for chunk in name.utf8_chunks() {
            next.extend(unescape(chunk.valid()));
            next.extend_from_slice(chunk.invalid());
        }
        if next == name {
            break;
        }
        name = next;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn forbidden_characters_become_those_of_macos_and_linux() {
        for (name, expected) in [
            (&b"a:b"[..], "a\u{F022}b"),
            (b"what?*", "what\u{F025}\u{F021}"),
            (b"\"<>|\\", "\u{F020}\u{F023}\u{F024}\u{F027}\u{F026}"),
            (b"tab\x01\x1F", "tab\u{F001}\u{F01F}"),
            (b"end.", "end\u{F029}"),
            (b"end..", "end.\u{F029}"),
            (b"end ", "end\u{F028}"),
            (b" .a. b", " .a. b"),
            (b"...", "..\u{F029}"),
            (b"raw\xFF", "raw\u{F1FF}"),
            ("ä🦀".as_bytes(), "ä🦀"),
        ] {
            assert_eq!(encode(name), expected);
            assert_eq!(decode(expected), name, "{expected:?}");
        }
    }

    #[test]
    fn private_characters_of_a_name_are_not_mistaken() {
        let private = "a\u{F022}b".as_bytes();
        assert_eq!(encode(private), "a\u{F1EF}\u{F180}\u{F1A2}b", "not that of a:b");
        assert_eq!(decode(&encode(private)), private);
        // No byte name is escaped to these.
        for odd in ["a\u{F029}b", "\u{F1C3}\u{F1A4}", "\u{F029}", ".\u{F029}", "\u{F141}"] {
            assert_eq!(decode(odd), odd.as_bytes());
            assert_eq!(encode(odd.as_bytes()), odd);
        }
        assert_eq!(decode("a."), b"a.", "a server lists what SMB cannot hold");
    }

    #[test]
    fn text_of_bytes_is_readable_and_unique() {
        assert_eq!(text_of(b"a:b."), "a:b.");
        assert_eq!(text_of(b"\xFF\xC3\xA4"), "\u{F1FF}ä");
        assert_ne!(text_of("\u{F1FF}".as_bytes()), text_of(b"\xFF"));
    }

    #[test]
    fn names_of_one_reading_are_recognised() {
        for name in ["a:b", "a\u{F022}b", "a\u{F1EF}\u{F180}\u{F1A2}b"] {
            assert_eq!(reading(name.as_bytes()), b"a:b", "{name:?}");
        }
        assert_ne!(reading(b"a?b"), b"a:b");
    }

    /// Names of few characters, so that escaped forms of others are among them.
    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        let part = prop::sample::select(vec![
            &b"a"[..],
            b"A",
            b".",
            b" ",
            b":",
            b"\\",
            b"\x01",
            b"\xFF",
            b"\xEF",
            b"\x80",
            b"\xA2",
            b"\xED\xA0\x80",
            "ä".as_bytes(),
            "\u{F022}".as_bytes(),
            "\u{F028}".as_bytes(),
            "\u{F029}".as_bytes(),
            "\u{F1EF}".as_bytes(),
            "\u{F180}".as_bytes(),
            "\u{F1A2}".as_bytes(),
            "\u{F187}\u{F1A2}".as_bytes(),
        ]);
        let parts = prop::collection::vec(part, 1..9).prop_map(|parts| parts.concat());
        let any = prop::collection::vec(any::<u8>(), 1..24);
        prop_oneof![4 => parts, 1 => any].prop_filter("a name", |name| {
            ![&b"."[..], b".."].contains(&&name[..]) && !name.contains(&b'/') && !name.contains(&0)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

        #[test]
        fn encoded_name_is_valid_and_decodes_to_itself(name in hostile()) {
            let encoded = encode(&name);
            prop_assert!(is_valid(&encoded), "{encoded:?}");
            prop_assert_eq!(decode(&encoded), name);
        }

        #[test]
        fn decoded_name_encodes_to_itself(name in hostile()) {
            for listed in [escape(&name), String::from_utf8_lossy(&name).into_owned()] {
                if is_valid(&listed) {
                    prop_assert_eq!(encode(&decode(&listed)), listed);
                }
            }
        }

        #[test]
        fn different_names_stay_different(names in prop::collection::hash_set(hostile(), 2..12)) {
            let mut encoded = HashMap::new();
            for name in &names {
                prop_assert_eq!(encoded.insert(encode(name), name), None);
            }
        }

        #[test]
        fn name_survives_as_text(name in prop::collection::vec(any::<u8>(), 0..24), other in hostile()) {
            for name in [name, other] {
                prop_assert_eq!(bytes_of(&text_of(&name)), name);
            }
        }

        #[test]
        fn name_and_its_encoded_form_have_one_reading(name in hostile()) {
            prop_assert_eq!(reading(encode(&name).as_bytes()), reading(&name));
        }
    }
}
