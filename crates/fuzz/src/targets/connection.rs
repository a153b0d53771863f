//! A whole connection: frames in, jobs polled, responses checked; before a logon and after.
//!
//! An input is a sequence of frames, each after two bytes: its length, and three flags. The flags
//! leave fields unrepaired that would stop nearly every mutated frame (see [`repair`]).

mod repair;
mod rig;

use repair::Repair;
use rig::{ConnectionRig, ShareStorage};
use smb::limits::{FRAME_BYTES_MAX, FRAME_BYTES_MAX_BEFORE_LOGIN};
use wire::smb::Dialect;

/// Memory of the connection and its server themselves.
const BASE_BYTES: usize = 256 * 1024;

/// Before the logon a frame may have [`FRAME_BYTES_MAX_BEFORE_LOGIN`] bytes, parts of which are
/// retained: a token, and a message for the preauthentication hash.
pub fn bytes_max_before_logon(input_bytes: usize) -> usize {
    BASE_BYTES + FRAME_BYTES_MAX_BEFORE_LOGIN + 32 * input_bytes
}

/// After the logon a response may have [`FRAME_BYTES_MAX`] bytes, in a buffer that has just
/// doubled, and its source may be as long again.
pub fn bytes_max_after_logon(input_bytes: usize) -> usize {
    BASE_BYTES + 4 * FRAME_BYTES_MAX + 64 * input_bytes
}

/// Frames for a new connection.
pub fn before_logon(input: &[u8]) {
    let mut rig = ConnectionRig::new(ShareStorage::Nowhere);
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

/// Frames of a logged-on user with a share. The first byte chooses the dialect and the storage: a
/// folder, as on a server, or the test backend, which is small and fails when full.
pub fn after_logon(input: &[u8]) {
    let Some((&first, input)) = input.split_first() else { return };
    let dialect = [Dialect::Smb202, Dialect::Smb210, Dialect::Smb302, Dialect::Smb311]
        [usize::from(first & 3)];
    let in_memory = first & 4 != 0;
    let mut rig =
        ConnectionRig::new(if in_memory { ShareStorage::Memory } else { ShareStorage::folder() });
    let mut repair = rig.log_on(dialect);
    for (flags, frame) in frames(input) {
        let mut frame = frame.to_vec();
        repair.message_ids(flags, &mut frame);
        repair.requests(flags, &mut frame);
        if !in_memory {
            repair::remove_allocations(&mut frame);
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
