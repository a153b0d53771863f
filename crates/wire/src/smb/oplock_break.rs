//! OPLOCK_BREAK: notification, acknowledgment and response. MS-SMB2 2.2.23 to 2.2.25.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::FileId;

/// OPLOCK_BREAK as the server sends it: the break notification, and the response to its
/// acknowledgment. MS-SMB2 2.2.23.1, 2.2.25.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OplockBreak {
    /// The remaining oplock level.
    pub level: u8,
    /// The open.
    pub file_id: FileId,
}

impl OplockBreak {
    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short or has another size, such as that of a lease
    /// break.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.structure_size(24, "oplock break")?;
        let level = r.u8("oplock break")?;
        r.skip(5, "oplock break")?;
        Ok(Self { level, file_id: FileId::decode(r)? })
    }

    /// Appends the body.
    pub fn encode(self, w: &mut Writer<'_>) {
        w.u16(24);
        w.u8(self.level);
        w.bytes(&[0; 5]);
        self.file_id.encode(w);
    }
}

/// OPLOCK_BREAK acknowledgment, of an oplock or of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OplockBreakAck {
    /// MS-SMB2 2.2.24.1.
    Oplock {
        /// The oplock level that the client retains.
        level: u8,
        /// The open.
        file_id: FileId,
    },
    /// MS-SMB2 2.2.24.2.
    Lease {
        /// Lease key.
        key: [u8; 16],
        /// Lease state that the client retains.
        state: u32,
    },
}

impl OplockBreakAck {
    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body has neither form.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.u16("oplock break")? {
            24 => {
                let level = r.u8("oplock break")?;
                r.skip(5, "oplock break")?;
                Ok(Self::Oplock { level, file_id: FileId::decode(r)? })
            }
            36 => {
                r.skip(6, "lease break")?;
                let key = r.array("lease break")?;
                Ok(Self::Lease { key, state: r.u32("lease break")? })
            }
            _ => Err(r.malformed("oplock break size")),
        }
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        match *self {
            Self::Oplock { level, file_id } => OplockBreak { level, file_id }.encode(w),
            Self::Lease { key, state } => {
                w.u16(36);
                w.zeros(6);
                w.bytes(&key);
                w.u32(state);
                w.u64(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oplock_breaks_and_acknowledgments_round_trip() {
        let file_id = FileId { persistent: 1, volatile: 2 };
        let notice = OplockBreak { level: 1, file_id };
        let mut bytes = Vec::new();
        notice.encode(&mut Writer::new(&mut bytes));
        assert_eq!(OplockBreak::decode(&mut Reader::new(&bytes)), Ok(notice));
        let oplock = OplockBreakAck::Oplock { level: 1, file_id };
        for ack in [oplock, OplockBreakAck::Lease { key: [7; 16], state: 3 }] {
            let mut bytes = Vec::new();
            ack.encode(&mut Writer::new(&mut bytes));
            assert_eq!(OplockBreakAck::decode(&mut Reader::new(&bytes)), Ok(ack));
            assert!([24, 36].contains(&bytes.len()));
        }
    }
}
