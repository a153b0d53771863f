//! LOCK. MS-SMB2 2.2.26.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::FileId;

/// One range of a LOCK request. MS-SMB2 2.2.26.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockElement {
    /// Offset of the first byte.
    pub offset_bytes: u64,
    /// Length, in bytes.
    pub length_bytes: u64,
    /// `SMB2_LOCKFLAG_*` bits.
    pub flags: u32,
}

impl LockElement {
    /// Shared lock.
    pub const SHARED: u32 = 1;
    /// Exclusive lock.
    pub const EXCLUSIVE: u32 = 2;
    /// Unlock.
    pub const UNLOCK: u32 = 4;
    /// The request fails instead of waiting.
    pub const FAIL_IMMEDIATELY: u32 = 0x10;
}

/// LOCK request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// Lock sequence number and index, which detect replays.
    pub sequence: u32,
    /// The open.
    pub file_id: FileId,
    /// The ranges.
    pub elements: Vec<LockElement>,
}

impl LockRequest {
    /// Decodes the body, with at most `elements_max` ranges.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, no range or too many.
    pub fn decode(r: &mut Reader<'_>, elements_max: usize) -> Result<Self, DecodeError> {
        r.structure_size(48, "lock")?;
        let count = usize::from(r.u16("lock")?);
        let sequence = r.u32("lock")?;
        let file_id = FileId::decode(r)?;
        if count == 0 || count > elements_max || r.remaining() / 24 < count {
            return Err(r.malformed("lock count"));
        }
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            let (offset_bytes, length_bytes) = (r.u64("lock")?, r.u64("lock")?);
            let flags = r.u32("lock")?;
            r.skip(4, "lock")?;
            elements.push(LockElement { offset_bytes, length_bytes, flags });
        }
        Ok(Self { sequence, file_id, elements })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u16(48);
        w.u16(self.elements.len() as u16);
        w.u32(self.sequence);
        self.file_id.encode(w);
        for element in &self.elements {
            w.u64(element.offset_bytes);
            w.u64(element.length_bytes);
            w.u32(element.flags);
            w.u32(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_request_round_trips_within_its_element_limit() {
        let element = LockElement { offset_bytes: 1, length_bytes: 2, flags: LockElement::UNLOCK };
        let request = LockRequest {
            sequence: 0x11,
            file_id: FileId { persistent: 1, volatile: 2 },
            elements: vec![element; 2],
        };
        let mut bytes = Vec::new();
        request.encode(&mut Writer::new(&mut bytes));
        assert_eq!(LockRequest::decode(&mut Reader::new(&bytes), 2), Ok(request));
        assert!(LockRequest::decode(&mut Reader::new(&bytes), 1).is_err());
    }
}
