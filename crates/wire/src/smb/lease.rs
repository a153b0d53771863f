//! Leases: the create context in both directions, the notice that one breaks,
//! the answer to its acknowledgment. MS-SMB2 2.2.13.2.8, 2.2.13.2.10, 2.2.14.2.10,
//! 2.2.14.2.11, 2.2.23.2, 2.2.25.2.

use crate::codec::{Malformed, Reader, Writer};

/// A break is under way.
pub const LEASE_BREAK_IN_PROGRESS: u32 = 2;
/// The parent's key is one.
pub const LEASE_PARENT_KEY_SET: u32 = 4;
/// An acknowledgment is waited for.
const NOTIFY_ACKNOWLEDGE: u32 = 1;

/// The name of the create context, of either version.
pub const LEASE_CONTEXT: &[u8] = b"RqLs";
const V1_LENGTH: usize = 32;
const V2_LENGTH: usize = 52;

/// A lease as create contexts have it, in requests and replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// The client's name for it.
    pub key: [u8; 16],
    /// What is to be kept: 1 reads, 2 handles, 4 writes.
    pub state: u32,
    /// See [`LEASE_BREAK_IN_PROGRESS`], [`LEASE_PARENT_KEY_SET`].
    pub flags: u32,
    /// What version 2 has in addition.
    pub v2: Option<LeaseV2>,
}

/// What version 2 adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseV2 {
    /// The lease of the directory that the file is in, if the flag says so.
    pub parent_key: [u8; 16],
    /// Counts changes.
    pub epoch: u16,
}

impl Lease {
    /// Reads the data of a context; its length tells the version.
    ///
    /// # Errors
    /// [`Malformed`] for any other length.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(data);
        if data.len() != V1_LENGTH && data.len() != V2_LENGTH {
            return Err(r.malformed("lease length"));
        }
        let key = r.array("lease")?;
        let state = r.u32("lease")?;
        let flags = r.u32("lease")?;
        r.skip(8, "lease")?;
        let v2 = if data.len() == V2_LENGTH {
            Some(LeaseV2 { parent_key: r.array("lease")?, epoch: r.u16("lease")? })
        } else {
            None
        };
        Ok(Self { key, state, flags, v2 })
    }

    /// The data of a context.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(V2_LENGTH);
        let mut w = Writer::with_origin(&mut data, 0);
        w.bytes(&self.key);
        w.u32(self.state);
        w.u32(self.flags);
        w.u64(0);
        if let Some(v2) = &self.v2 {
            w.bytes(&v2.parent_key);
            w.u16(v2.epoch);
            w.u16(0);
        }
        data
    }
}

/// The notice that a lease breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBreak {
    /// The lease.
    pub key: [u8; 16],
    /// What the client has had.
    pub current: u32,
    /// What it may keep.
    pub new: u32,
    /// The lease's epoch after the break; 0 for version 1.
    pub epoch: u16,
    /// It is to acknowledge.
    pub acknowledge: bool,
}

impl LeaseBreak {
    /// Appends the body.
    pub fn encode(self, w: &mut Writer<'_>) {
        w.u16(44);
        w.u16(self.epoch);
        w.u32(if self.acknowledge { NOTIFY_ACKNOWLEDGE } else { 0 });
        w.bytes(&self.key);
        w.u32(self.current);
        w.u32(self.new);
        // A reason and two hints, which nobody gives.
        w.bytes(&[0; 12]);
    }
}

/// The answer to the acknowledgment of a lease break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBreakResponse {
    /// The lease.
    pub key: [u8; 16],
    /// What is left of it.
    pub state: u32,
}

impl LeaseBreakResponse {
    /// Appends the body.
    pub fn encode(self, w: &mut Writer<'_>) {
        w.u16(36);
        w.u16(0);
        w.u32(0);
        w.bytes(&self.key);
        w.u32(self.state);
        w.u64(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = *b"0123456789abcdef";

    #[test]
    fn both_versions_read_what_they_wrote_and_no_other_length() {
        let v1 = Lease { key: KEY, state: 7, flags: LEASE_BREAK_IN_PROGRESS, v2: None };
        let parent = LeaseV2 { parent_key: [9; 16], epoch: 0x1234 };
        let v2 = Lease { flags: LEASE_PARENT_KEY_SET, v2: Some(parent), ..v1 };
        for (lease, length) in [(v1, 32), (v2, 52)] {
            let data = lease.encode();
            assert_eq!((data.len(), Lease::decode(&data)), (length, Ok(lease)));
        }
        for length in (0..100).filter(|l| *l != 32 && *l != 52) {
            assert!(Lease::decode(&vec![0; length]).is_err(), "{length}");
        }
    }

    #[test]
    fn fields_stand_where_the_specification_has_them() {
        let parent = LeaseV2 { parent_key: [9; 16], epoch: 0x1234 };
        let data = Lease { key: KEY, state: 3, flags: 4, v2: Some(parent) }.encode();
        assert_eq!(data[..16], KEY);
        assert_eq!(data[16..24], [3, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(data[24..32], [0; 8], "duration");
        assert_eq!(data[32..48], [9; 16]);
        assert_eq!(data[48..], [0x34, 0x12, 0, 0]);
        let body = |write: &dyn Fn(&mut Writer<'_>)| {
            let mut out = Vec::new();
            write(&mut Writer::with_origin(&mut out, 0));
            out
        };
        let told = LeaseBreak { key: KEY, current: 7, new: 3, epoch: 2, acknowledge: true };
        let told = body(&|w| told.encode(w));
        assert_eq!(told[..8], [44, 0, 2, 0, 1, 0, 0, 0]);
        assert_eq!(told[8..24], KEY);
        assert_eq!(told[24..], [&[7, 0, 0, 0, 3, 0, 0, 0][..], &[0; 12]].concat());
        let answer = LeaseBreakResponse { key: KEY, state: 3 };
        let answer = body(&|w| answer.encode(w));
        assert_eq!(answer[..8], [36, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer[8..24], KEY);
        assert_eq!(answer[24..], [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
