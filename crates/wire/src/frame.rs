//! Direct TCP framing of SMB messages. MS-SMB2 2.1.
//!
//! A four-byte prefix precedes each message: a zero byte, then the length as a 24-bit big-endian
//! integer.

use crate::codec::DecodeError;

/// Length of the prefix, in bytes.
pub const PREFIX_BYTES: usize = 4;

/// The largest payload length that the prefix can express, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 0x00FF_FFFF;

/// The length that a prefix announces, in bytes without the prefix itself.
///
/// # Errors
/// [`DecodeError`] if the first byte is not zero: NetBIOS session messages
/// other than data, or not SMB at all.
pub fn payload_length(prefix: [u8; PREFIX_BYTES]) -> Result<usize, DecodeError> {
    let [kind, high, middle, low] = prefix;
    if kind != 0 {
        return Err(DecodeError { what: "direct TCP prefix", at: 0 });
    }
    Ok(u32::from_be_bytes([0, high, middle, low]) as usize)
}

/// The prefix of a payload of `length` bytes; `None` above [`PAYLOAD_BYTES_MAX`].
#[must_use]
pub fn prefix(length: usize) -> Option<[u8; PREFIX_BYTES]> {
    let length = u32::try_from(length).ok().filter(|l| *l as usize <= PAYLOAD_BYTES_MAX)?;
    Some(length.to_be_bytes())
}

/// The first payload of a stream, or `None` until it has arrived completely. The next prefix starts
/// [`PREFIX_BYTES`] plus the payload's length further on.
///
/// # Errors
/// [`DecodeError`] for a broken prefix, or for a payload longer than `length_max`; both are
/// reported as soon as the prefix has arrived.
pub fn first_payload(stream: &[u8], length_max: usize) -> Result<Option<&[u8]>, DecodeError> {
    let Some((prefix, rest)) = stream.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let length = payload_length(*prefix)?;
    if length > length_max {
        return Err(DecodeError { what: "direct TCP length", at: 1 });
    }
    Ok(rest.get(..length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_round_trips_the_payload_length() {
        for length in [0, 1, 0xABCD, 0x12_3456, PAYLOAD_BYTES_MAX] {
            assert_eq!(payload_length(prefix(length).unwrap()), Ok(length));
        }
        assert_eq!(prefix(0x01_0203), Some([0, 1, 2, 3]));
        assert_eq!(prefix(PAYLOAD_BYTES_MAX + 1), None);
        assert_eq!(prefix(usize::MAX), None);
    }

    #[test]
    fn netbios_messages_other_than_data_are_refused() {
        assert!(payload_length([0x81, 0, 0, 68]).is_err());
    }

    #[test]
    fn partial_payload_is_not_returned() {
        let stream = [0, 0, 0, 3, b'a', b'b', b'c', 0];
        for length in 0..7 {
            assert_eq!(first_payload(&stream[..length], 100), Ok(None), "{length}");
        }
        assert_eq!(first_payload(&stream[..7], 100), Ok(Some(&b"abc"[..])));
        assert_eq!(first_payload(&stream, 3), Ok(Some(&b"abc"[..])));
    }

    #[test]
    fn oversized_payload_is_refused_at_its_prefix() {
        assert!(first_payload(&[0, 0, 0, 4], 3).is_err());
        assert_eq!(first_payload(&[0, 0, 0], 3), Ok(None));
    }
}
