//! Compound requests and responses in one frame. MS-SMB2 3.2.4.1.4.

use crate::codec::DecodeError;
use crate::smb::header::Header;
use std::ops::Range;

/// Alignment of every message of a compound but the first, in bytes.
pub const COMPOUND_ALIGNMENT: usize = 8;

/// The message at `start`. `next_command` is the distance to the next message, 0 for the last.
///
/// # Errors
/// [`DecodeError`] if the distance is unaligned, shorter than a header, or leads out of the
/// frame.
pub fn next_element(
    frame_length: usize,
    start: usize,
    next_command: u32,
) -> Result<Range<usize>, DecodeError> {
    if next_command == 0 {
        return Ok(start..frame_length);
    }
    let distance = next_command as usize;
    let end = start.saturating_add(distance);
    let fits = distance.is_multiple_of(COMPOUND_ALIGNMENT)
        && distance >= Header::LENGTH
        && end < frame_length;
    if fits { Ok(start..end) } else { Err(DecodeError { what: "next command", at: start }) }
}
