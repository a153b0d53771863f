//! Domain names in wire form. RFC 1035 3.1 and 4.1.4, RFC 6762 16.

use crate::limits::{NAME_BYTES_MAX, POINTERS_MAX};

/// Maximum length of a label in bytes. RFC 1035 2.3.4.
const LABEL_BYTES_MAX: usize = 63;
/// The two upper bits of a compression pointer.
const POINTER: u8 = 0xC0;

/// A domain name: its labels in wire form, uncompressed, with the root label.
#[derive(Clone, Debug)]
pub struct DnsName(Vec<u8>);

/// Names are equal regardless of ASCII case. Length bytes are at most 63, so they are no letters.
impl PartialEq for DnsName {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for DnsName {}

impl DnsName {
    /// The name of these labels. Labels that are too long are cut at the end of a character.
    #[must_use]
    pub fn of(labels: &[&str]) -> Self {
        let mut wire = Vec::new();
        for label in labels {
            let label = &label[..label.floor_char_boundary(LABEL_BYTES_MAX)];
            wire.push(label.len() as u8);
            wire.extend_from_slice(label.as_bytes());
        }
        wire.push(0);
        Self(wire)
    }

    /// The wire form.
    #[must_use]
    pub fn as_wire(&self) -> &[u8] {
        &self.0
    }

    /// Decodes the name at `at` of `message`, and returns it with the position after it.
    ///
    /// Pointers lead backwards only, so every name ends.
    #[must_use]
    pub fn decode(message: &[u8], mut at: usize) -> Option<(Self, usize)> {
        let mut wire = Vec::new();
        let mut end = None;
        let mut pointers = 0;
        let mut lowest = at;
        loop {
            let length = *message.get(at)?;
            if length & POINTER == POINTER {
                let low = *message.get(at + 1)?;
                end = end.or(Some(at + 2));
                at = usize::from(u16::from_be_bytes([length & !POINTER, low]));
                pointers += 1;
                if at >= lowest || pointers > POINTERS_MAX {
                    return None;
                }
                lowest = at;
                continue;
            }
            // The other two values of the upper bits are undefined.
            if usize::from(length) > LABEL_BYTES_MAX {
                return None;
            }
            let label = message.get(at..=at + usize::from(length))?;
            wire.extend_from_slice(label);
            if wire.len() > NAME_BYTES_MAX {
                return None;
            }
            at += label.len();
            if length == 0 {
                return Some((Self(wire), end.unwrap_or(at)));
            }
        }
    }

    /// The positions at which labels begin in the wire form, without the root.
    pub(super) fn label_starts(&self) -> impl Iterator<Item = usize> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let length = usize::from(*self.0.get(at)?);
            let start = at;
            at += length + 1;
            (length > 0).then_some(start)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_name_is_decoded_and_loops_are_refused() {
        let message = b"\x05local\x00\x03NAS\xC0\x00\xC0\x07\xC0\x0F\xC0";
        let (name, after) = DnsName::decode(message, 7).unwrap();
        assert_eq!((name, after), (DnsName::of(&["nas", "local"]), 13));
        let (name, after) = DnsName::decode(message, 13).unwrap();
        assert_eq!((name, after), (DnsName::of(&["NAS", "LOCAL"]), 15));
        assert_eq!(DnsName::decode(message, 15), None, "points to itself");
        assert_eq!(DnsName::decode(message, 17), None, "half a pointer");
        assert_eq!(DnsName::decode(message, 18), None, "past the end");
        assert_eq!(DnsName::decode(b"\x40", 0), None);
        assert_eq!(DnsName::decode(b"\x03ab", 0), None);
    }

    #[test]
    fn name_longer_than_255_bytes_is_refused() {
        let label = [&[63][..], &[b'a'; 63]].concat();
        let of = |count: usize| [label.repeat(count), vec![0]].concat();
        assert!(DnsName::decode(&of(3), 0).is_some());
        assert!(DnsName::decode(&of(4), 0).is_none());
    }

    #[test]
    fn long_label_is_cut_at_a_character() {
        let name = DnsName::of(&[&"ä".repeat(40)]);
        assert_eq!(name.as_wire()[0], 62);
    }
}
