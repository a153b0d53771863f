//! Record marking: delimits messages in a stream. RFC 5531 11.

use crate::codec::DecodeError;
use crate::nfs::xdr::{ReservedWord, XdrWriter};
use std::borrow::Cow;

/// Length of the mark before each fragment.
pub const MARK_BYTES: usize = 4;

/// Set in the mark of a record's last fragment.
const LAST_FRAGMENT: u32 = 1 << 31;

/// Maximum number of fragments in one record. Some clients send fragments of 4,000 bytes. A higher
/// limit would make the scan of a large record slow.
pub const FRAGMENTS_MAX: usize = 2048;

/// The result of scanning the start of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// A complete record.
    Complete(RecordExtent),
    /// An incomplete record.
    Incomplete {
        /// Minimum length of the stream, from the start of the record, before another scan is
        /// useful.
        stream_bytes_min: usize,
    },
}

/// Position of a record at the start of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordExtent {
    /// Length of the record with its marks, in bytes.
    pub stream_bytes: usize,
    /// Number of fragments.
    pub fragments: usize,
}

impl RecordExtent {
    /// The message: borrowed if it has one fragment, else reassembled.
    ///
    /// `stream` is the input of [`scan_record`].
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

/// Decodes the mark at `at`: whether its fragment is the last, and the length.
fn mark_at(stream: &[u8], at: usize) -> Option<(bool, usize)> {
    let mark = u32::from_be_bytes(stream.get(at..at + MARK_BYTES)?.try_into().ok()?);
    Some((mark & LAST_FRAGMENT != 0, (mark & !LAST_FRAGMENT) as usize))
}

/// Scans the first record of `stream` for its end. Its message may have up to `record_bytes_max`
/// bytes.
///
/// # Errors
/// [`DecodeError`] if the message is longer, has more than [`FRAGMENTS_MAX`] fragments, or
/// an empty fragment before the last. The caller cannot resynchronize with such a stream.
pub fn scan_record(stream: &[u8], record_bytes_max: usize) -> Result<Scan, DecodeError> {
    let mut at = 0;
    let mut payload_bytes = 0;
    for fragments in 1..=FRAGMENTS_MAX {
        let Some((is_last, length)) = mark_at(stream, at) else {
            return Ok(Scan::Incomplete { stream_bytes_min: at + MARK_BYTES });
        };
        payload_bytes += length;
        if payload_bytes > record_bytes_max {
            return Err(DecodeError { what: "record length", at });
        }
        if length == 0 && !is_last {
            return Err(DecodeError { what: "empty fragment", at });
        }
        at += MARK_BYTES + length;
        if is_last && at <= stream.len() {
            return Ok(Scan::Complete(RecordExtent { stream_bytes: at, fragments }));
        }
        if at > stream.len() || is_last {
            let next_mark = if is_last { 0 } else { MARK_BYTES };
            return Ok(Scan::Incomplete { stream_bytes_min: at + next_mark });
        }
    }
    Err(DecodeError { what: "number of fragments", at })
}

/// Starts a record of one fragment, whose message follows.
pub fn begin_record(w: &mut XdrWriter<'_>) -> ReservedWord {
    w.reserve_u32()
}

/// Completes a record; `beyond_bytes` more bytes follow the buffer, for instance from a file.
pub fn end_record(w: &mut XdrWriter<'_>, mark: ReservedWord, beyond_bytes: usize) {
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
    fn single_fragment_record_is_borrowed() {
        let stream = [fragment(true, b"hello"), fragment(true, b"next")].concat();
        let Ok(Scan::Complete(extent)) = scan_record(&stream, 100) else { panic!() };
        assert_eq!(extent, RecordExtent { stream_bytes: 9, fragments: 1 });
        assert!(matches!(extent.payload(&stream), Cow::Borrowed(b"hello")));
    }

    #[test]
    fn record_fragments_are_reassembled() {
        let stream =
            [fragment(false, b"he"), fragment(false, b"l"), fragment(true, b"lo")].concat();
        let Ok(Scan::Complete(extent)) = scan_record(&stream, 5) else { panic!() };
        assert_eq!(extent.payload(&stream)[..], *b"hello");
        assert!(scan_record(&stream, 4).is_err(), "all of them count together");
    }

    #[test]
    fn partial_record_reports_the_missing_length() {
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
    fn excess_and_empty_fragments_are_refused() {
        assert!(scan_record(&fragment(false, b""), 100).is_err());
        let many = fragment(false, b"x").repeat(FRAGMENTS_MAX + 1);
        assert!(scan_record(&many, usize::MAX).is_err());
        assert!(scan_record(&LAST_FRAGMENT.to_be_bytes(), 100).is_ok());
        assert!(scan_record(&u32::MAX.to_be_bytes(), 1 << 20).is_err());
    }

    #[test]
    fn written_record_is_found_by_the_scan() {
        let mut out = Vec::new();
        let w = &mut XdrWriter::new(&mut out);
        let mark = begin_record(w);
        w.u32(7);
        end_record(w, mark, 0);
        assert_eq!(out, [0x80, 0, 0, 4, 0, 0, 0, 7]);
    }
}
