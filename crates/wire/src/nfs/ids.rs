//! Newtypes for the protocol's ids, so that they cannot be confused.

use super::limits::FILE_HANDLE_BYTES_MAX;
use super::xdr::{Decode, Encode, XdrReader, XdrWriter, field, xdr_newtype};
use crate::codec::DecodeError;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Client id, assigned by the server: `clientid4`. RFC 8881 2.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// Session id: `sessionid4`. RFC 8881 2.10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NfsSessionId(pub [u8; 16]);

/// Eight bytes that distinguish one instance from another: `verifier4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Verifier(pub [u8; 8]);

xdr_newtype!(ClientId NfsSessionId Verifier);

/// Id of an open, of locks or of a delegation: `stateid4`. RFC 8881 8.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId {
    /// Sequence number, incremented with each change of the state.
    pub seqid: u32,
    /// Identifies the state.
    pub other: [u8; 12],
}

impl StateId {
    /// Anonymous state id: as an argument, an access without an open.
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; 12] };
    /// READ bypass state id: a READ that ignores locks.
    pub const READ_BYPASS: Self = Self { seqid: u32::MAX, other: [0xFF; 12] };
    /// Current state id: that of the preceding operation in the compound.
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };
    /// Invalid state id.
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };

    /// True if `other` is one of the two reserved values. RFC 8881 8.2.3.
    #[must_use]
    pub fn is_special(&self) -> bool {
        self.other == [0; 12] || self.other == [0xFF; 12]
    }
}

impl Decode<'_> for StateId {
    #[inline]
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { seqid: field(r, "stateid.seqid")?, other: field(r, "stateid.other")? })
    }
}

impl Encode for StateId {
    #[inline]
    fn encode(&self, w: &mut XdrWriter<'_>) {
        w.put(&self.seqid);
        w.put(&self.other);
    }
}

/// File handle of at most 128 bytes. RFC 8881 4.2.
#[derive(Clone, Copy)]
pub struct FileHandle {
    length_bytes: u8,
    bytes: [u8; FILE_HANDLE_BYTES_MAX],
}

impl FileHandle {
    /// A handle of these bytes; `None` if they exceed the limit.
    #[must_use]
    pub fn new(handle: &[u8]) -> Option<Self> {
        let mut bytes = [0; FILE_HANDLE_BYTES_MAX];
        bytes.get_mut(..handle.len())?.copy_from_slice(handle);
        Some(Self { length_bytes: handle.len() as u8, bytes })
    }

    /// The bytes of the handle.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length_bytes)]
    }
}

impl PartialEq for FileHandle {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for FileHandle {}

impl Hash for FileHandle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileHandle(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

impl Decode<'_> for FileHandle {
    #[inline]
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
        let handle = r.opaque(FILE_HANDLE_BYTES_MAX, "filehandle")?;
        Self::new(handle).ok_or(r.malformed("filehandle"))
    }
}

impl Encode for FileHandle {
    #[inline]
    fn encode(&self, w: &mut XdrWriter<'_>) {
        w.opaque(self.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_state_ids_have_an_other_of_zeros_or_ones() {
        for id in [StateId::ANONYMOUS, StateId::READ_BYPASS, StateId::CURRENT, StateId::INVALID] {
            assert!(id.is_special());
        }
        assert!(!StateId { seqid: 0, other: *b"abcdefghijkl" }.is_special());
    }

    #[test]
    fn file_handle_has_at_most_128_bytes() {
        assert!(FileHandle::new(&[7; 128]).is_some());
        assert!(FileHandle::new(&[7; 129]).is_none());
        let mut out = Vec::new();
        XdrWriter::new(&mut out).opaque(&[7; 129]);
        assert!(XdrReader::new(&out).get::<FileHandle>().is_err());
        let handle = FileHandle::new(&[1, 2, 3]).unwrap();
        out.clear();
        XdrWriter::new(&mut out).put(&handle);
        assert_eq!(out, [0, 0, 0, 3, 1, 2, 3, 0]);
        assert_eq!(XdrReader::new(&out).get(), Ok(handle));
    }
}
