//! Leases: the create context in both directions, the break notification, and the response to its
//! acknowledgment. MS-SMB2 2.2.13.2.8, 2.2.13.2.10, 2.2.14.2.10, 2.2.14.2.11, 2.2.23.2, 2.2.25.2.

use crate::codec::{DecodeError, Reader, Writer};

/// A break of the lease is in progress.
pub const LEASE_BREAK_IN_PROGRESS: u32 = 2;
/// The parent lease key is valid.
pub const LEASE_PARENT_KEY_SET: u32 = 4;
/// The server requires an acknowledgment.
const NOTIFY_ACKNOWLEDGE: u32 = 1;

/// The name of the create context, of either version.
pub const LEASE_CONTEXT: &[u8] = b"RqLs";
const V1_LENGTH: usize = 32;
const V2_LENGTH: usize = 52;

/// A lease in a create context, in requests and responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseContext {
    /// Lease key, chosen by the client.
    pub key: [u8; 16],
    /// Lease state: 1 read caching, 2 handle caching, 4 write caching.
    pub state: u32,
    /// See [`LEASE_BREAK_IN_PROGRESS`], [`LEASE_PARENT_KEY_SET`].
    pub flags: u32,
    /// The fields of version 2 only.
    pub v2: Option<LeaseV2>,
}

/// The fields that version 2 adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseV2 {
    /// Lease key of the parent directory, if the flag marks it valid.
    pub parent_key: [u8; 16],
    /// Epoch, incremented on each state change.
    pub epoch: u16,
}

impl LeaseContext {
    /// Decodes the data of a context. Its length determines the version.
    ///
    /// # Errors
    /// [`DecodeError`] for any other length.
    pub fn decode(data: &[u8]) -> Result<Self, DecodeError> {
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

    /// Encodes the data of a context.
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

/// LEASE_BREAK notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBreak {
    /// The lease.
    pub key: [u8; 16],
    /// Lease state that the client holds.
    pub current: u32,
    /// Lease state that the client may retain.
    pub new: u32,
    /// The lease's epoch after the break; 0 for version 1.
    pub epoch: u16,
    /// The client must acknowledge the break.
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
        // `BreakReason` and two mask hints, all reserved.
        w.bytes(&[0; 12]);
    }
}

/// The response to the acknowledgment of a lease break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBreakResponse {
    /// The lease.
    pub key: [u8; 16],
    /// The remaining lease state.
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
    fn lease_versions_round_trip_and_reject_other_lengths() {
        let v1 = LeaseContext { key: KEY, state: 7, flags: LEASE_BREAK_IN_PROGRESS, v2: None };
        let parent = LeaseV2 { parent_key: [9; 16], epoch: 0x1234 };
        let v2 = LeaseContext { flags: LEASE_PARENT_KEY_SET, v2: Some(parent), ..v1 };
        for (lease, length) in [(v1, 32), (v2, 52)] {
            let data = lease.encode();
            assert_eq!((data.len(), LeaseContext::decode(&data)), (length, Ok(lease)));
        }
        for length in (0..100).filter(|l| *l != 32 && *l != 52) {
            assert!(LeaseContext::decode(&vec![0; length]).is_err(), "{length}");
        }
    }

    #[test]
    fn lease_fields_have_the_specified_offsets() {
        let parent = LeaseV2 { parent_key: [9; 16], epoch: 0x1234 };
        let data = LeaseContext { key: KEY, state: 3, flags: 4, v2: Some(parent) }.encode();
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
        let notification = LeaseBreak { key: KEY, current: 7, new: 3, epoch: 2, acknowledge: true };
        let notification = body(&|w| notification.encode(w));
        assert_eq!(notification[..8], [44, 0, 2, 0, 1, 0, 0, 0]);
        assert_eq!(notification[8..24], KEY);
        assert_eq!(notification[24..], [&[7, 0, 0, 0, 3, 0, 0, 0][..], &[0; 12]].concat());
        let answer = LeaseBreakResponse { key: KEY, state: 3 };
        let answer = body(&|w| answer.encode(w));
        assert_eq!(answer[..8], [36, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer[8..24], KEY);
        assert_eq!(answer[24..], [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
