//! A whole connection: frames in, jobs polled, replies looked at; before anyone
//! has logged on, and after.
//!
//! An input is a row of frames, each behind two bytes: its length, and three
//! flags that leave fields as they are which else would stop nearly every
//! mutated frame at the door (see [`repair`]).

mod repair;
mod rig;

use repair::Repair;
use rig::{Place, Rig};
use smb::limits::{FRAME_BYTES_MAX, FRAME_BYTES_MAX_BEFORE_LOGIN};
use wire::smb::Dialect;

/// Room for the connection and its server themselves.
const BASE_BYTES: usize = 256 * 1024;

/// Before the logon a frame may have [`FRAME_BYTES_MAX_BEFORE_LOGIN`], which is
/// kept in parts: a token, a message that a hash is over.
pub fn bytes_max_before_logon(input_bytes: usize) -> usize {
    BASE_BYTES + FRAME_BYTES_MAX_BEFORE_LOGIN + 32 * input_bytes
}

/// After it a reply may have [`FRAME_BYTES_MAX`], in a buffer that has doubled
/// just now, and what it is made from may be as long again.
pub fn bytes_max_after_logon(input_bytes: usize) -> usize {
    BASE_BYTES + 4 * FRAME_BYTES_MAX + 64 * input_bytes
}

/// Frames to a connection that has just been made.
pub fn before_logon(input: &[u8]) {
    let mut rig = Rig::new(Place::Nowhere);
    let mut repair = Repair::default();
    for (flags, frame) in frames(input) {
        let mut frame = frame.to_vec();
        repair.message_ids(flags, &mut frame);
        if rig.feed(&frame).is_err() {
            break;
        }
        assert!(!rig.is_established(), "nobody knows the password");
    }
    rig.end();
}

/// Frames of someone who is logged on and has a share. The first byte chooses
/// the dialect, and where files are kept: in a folder, as they are by a server, or
/// in the backend for tests, which has little room and fails when it is used up.
pub fn after_logon(input: &[u8]) {
    let Some((&first, input)) = input.split_first() else { return };
    let dialect = [Dialect::Smb202, Dialect::Smb210, Dialect::Smb302, Dialect::Smb311]
        [usize::from(first & 3)];
    let in_memory = first & 4 != 0;
    let mut rig = Rig::new(if in_memory { Place::Memory } else { Place::folder() });
    let mut repair = rig.log_on(dialect);
    for (flags, frame) in frames(input) {
        let mut frame = frame.to_vec();
        repair.message_ids(flags, &mut frame);
        repair.requests(flags, &mut frame);
        if !in_memory {
            repair::spare_the_disk(&mut frame);
        }
        if rig.feed(&frame).is_err() {
            break;
        }
    }
    rig.end();
}

/// Flags and frames of an input.
fn frames(mut input: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = input.split_first_chunk::<2>()?;
        let head = u16::from_le_bytes(*head);
        let length = usize::from(head & repair::LENGTH).min(rest.len());
        let (frame, rest) = rest.split_at(length);
        input = rest;
        Some((head, frame))
    })
}
