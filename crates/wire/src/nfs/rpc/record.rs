//! Record marking: where one message ends in a stream and the next begins.
//! RFC 5531 11.

use crate::codec::Malformed;
use crate::nfs::xdr::{Reserved, XdrWriter};
use std::borrow::Cow;

/// Bytes of the mark before each fragment.
pub const MARK_BYTES: usize = 4;

/// Set in the mark of a record's last fragment.
const LAST_FRAGMENT: u32 = 1 << 31;

/// Fragments of one record. Some clients cut at 4,000 bytes; more of them than
/// this would make looking for the end of a large record slow.
pub const FRAGMENTS_MAX: usize = 2048;

/// What is at the start of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// A whole record.
    Complete(Extent),
    /// The beginning of one.
    Incomplete {
        /// How many bytes of the stream, from the start of the record, must be
        /// there before it is worth looking again.
        stream_bytes_min: usize,
    },
}

/// Where a record lies at the start of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of the stream that it takes, marks and all.
    pub stream_bytes: usize,
    /// Fragments that it was cut into.
    pub fragments: usize,
}

impl Extent {
    /// The message: where it is, unless it was cut and must be put together.
    ///
    /// `stream` is what [`scan_record`] saw.
    #[must_use]
    pub fn payload<'a>(&self, stream: &'a [u8]) -> Cow<'a, [u8]> {
        if self.fragments == 1 {
            return Cow::Borrowed(&stream[MARK_BYTES..self.stream_bytes]);
        }
        let mut whole = Vec::with_capacity(self.stream_bytes - self.fragments * MARK_BYTES);
        let mut at = 0;
        while at < self.stream_bytes {
            let (_, length) = mark_at(stream, at).unwrap_or_default();
            whole.extend_from_slice(&stream[at + MARK_BYTES..at + MARK_BYTES + length]);
            at += MARK_BYTES + length;
        }
        Cow::Owned(whole)
    }
}

/// Whether the fragment whose mark is at `at` is the last, and its length.
fn mark_at(stream: &[u8], at: usize) -> Option<(bool, usize)> {
    let mark = u32::from_be_bytes(stream.get(at..at + MARK_BYTES)?.try_into().ok()?);
    Some((mark & LAST_FRAGMENT != 0, (mark & !LAST_FRAGMENT) as usize))
}

/// Looks for the end of the record that `stream` begins with, whose message may
/// have `record_bytes_max` bytes.
///
/// # Errors
/// [`Malformed`] if it is longer, has more than [`FRAGMENTS_MAX`] fragments, or
/// an empty one before the last. There is no way on in such a stream.
pub fn scan_record(stream: &[u8], record_bytes_max: usize) -> Result<Scan, Malformed> {
    let mut at = 0;
    let mut payload_bytes = 0;
    for fragments in 1..=FRAGMENTS_MAX {
        let Some((is_last, length)) = mark_at(stream, at) else {
            return Ok(Scan::Incomplete { stream_bytes_min: at + MARK_BYTES });
        };
        payload_bytes += length;
        if payload_bytes > record_bytes_max {
            return Err(Malformed { what: "record length", at });
        }
        if length == 0 && !is_last {
            return Err(Malformed { what: "empty fragment", at });
        }
        at += MARK_BYTES + length;
        if is_last && at <= stream.len() {
            return Ok(Scan::Complete(Extent { stream_bytes: at, fragments }));
        }
        if at > stream.len() || is_last {
            let next_mark = if is_last { 0 } else { MARK_BYTES };
            return Ok(Scan::Incomplete { stream_bytes_min: at + next_mark });
        }
    }
    Err(Malformed { what: "number of fragments", at })
}

/// Begins a record of one fragment. What follows is its message.
pub fn begin_record(w: &mut XdrWriter<'_>) -> Reserved {
    w.reserve_u32()
}

/// Ends a record: `beyond_bytes` more bytes follow what is in the buffer, for
/// instance from a file.
pub fn end_record(w: &mut XdrWriter<'_>, mark: Reserved, beyond_bytes: usize) {
    let length = w.position() - mark.position() - MARK_BYTES + beyond_bytes;
    w.fill_u32(mark, LAST_FRAGMENT | length as u32);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(is_last: bool, data: &[u8]) -> Vec<u8> {
        let mark = if is_last { LAST_FRAGMENT } else { 0 } | data.len() as u32;
        [&mark.to_be_bytes(), data].concat()
    }

    #[test]
    fn a_record_of_one_fragment_stays_where_it_is() {
        let stream = [fragment(true, b"hello"), fragment(true, b"next")].concat();
        let Ok(Scan::Complete(extent)) = scan_record(&stream, 100) else { panic!() };
        assert_eq!(extent, Extent { stream_bytes: 9, fragments: 1 });
        assert!(matches!(extent.payload(&stream), Cow::Borrowed(b"hello")));
    }

    #[test]
    fn fragments_are_put_together() {
        let stream =
            [fragment(false, b"he"), fragment(false, b"l"), fragment(true, b"lo")].concat();
        let Ok(Scan::Complete(extent)) = scan_record(&stream, 5) else { panic!() };
        assert_eq!(extent.payload(&stream)[..], *b"hello");
        assert!(scan_record(&stream, 4).is_err(), "all of them count together");
    }

    #[test]
    fn a_part_of_a_record_says_how_much_is_missing() {
        let stream = [fragment(false, b"he"), fragment(true, b"llo")].concat();
        for end in 0..stream.len() {
            let Ok(Scan::Incomplete { stream_bytes_min }) = scan_record(&stream[..end], 5) else {
                panic!("{end}")
            };
            assert!(stream_bytes_min > end && stream_bytes_min <= stream.len(), "{end}");
        }
        assert!(matches!(scan_record(&stream, 5), Ok(Scan::Complete(_))));
    }

    #[test]
    fn endless_and_empty_fragments_are_refused() {
        assert!(scan_record(&fragment(false, b""), 100).is_err());
        let many = fragment(false, b"x").repeat(FRAGMENTS_MAX + 1);
        assert!(scan_record(&many, usize::MAX).is_err());
        assert!(scan_record(&LAST_FRAGMENT.to_be_bytes(), 100).is_ok());
        assert!(scan_record(&u32::MAX.to_be_bytes(), 1 << 20).is_err());
    }

    #[test]
    fn a_record_that_was_written_is_found() {
        let mut out = Vec::new();
        let w = &mut XdrWriter::new(&mut out);
        let mark = begin_record(w);
        w.u32(7);
        end_record(w, mark, 0);
        assert_eq!(out, [0x80, 0, 0, 4, 0, 0, 0, 7]);
    }
}
