//! Chains of messages in one frame. MS-SMB2 3.2.4.1.4.

use crate::codec::Malformed;
use crate::smb::header::Header;
use std::ops::Range;

/// Every message of a chain but the first starts at a multiple of this.
pub const COMPOUND_ALIGNMENT: usize = 8;

/// The bytes of the message that starts at `start` and is followed at the
/// distance `next_command` (0: by nothing).
///
/// # Errors
/// [`Malformed`] if the distance is unaligned, shorter than a header or leads
/// out of the frame.
pub fn next_element(
    frame_length: usize,
    start: usize,
    next_command: u32,
) -> Result<Range<usize>, Malformed> {
    if next_command == 0 {
        return Ok(start..frame_length);
    }
    let distance = next_command as usize;
    let end = start.saturating_add(distance);
    let fits = distance.is_multiple_of(COMPOUND_ALIGNMENT)
        && distance >= Header::LENGTH
        && end < frame_length;
    if fits { Ok(start..end) } else { Err(Malformed { what: "next command", at: start }) }
}
