//! The server's NFS identity: its owner name and the key of its file handles. Both are stored with
//! the client records, because clients remember them just as long.

use files::{HandleSeal, ObjectHandle};
use wire::crypto::TagKey;

/// Owner name and file handle key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NfsIdentity {
    /// The server owner. Clients reclaim no state from a server with another owner. RFC 8881
    /// 2.10.4, 8.4.2.1.
    pub guid: [u8; 16],
    seal: [u8; 16],
}

impl NfsIdentity {
    /// Creates a new identity. `seal` must be random and unique.
    pub fn new(guid: [u8; 16], seal: [u8; 16]) -> Self {
        Self { guid, seal }
    }

    /// The stored form.
    pub fn record(&self) -> Vec<u8> {
        [self.guid, self.seal].concat()
    }

    /// Decodes the stored form; `None` if the length is wrong.
    pub fn of_record(record: &[u8]) -> Option<Self> {
        let (guid, seal) = record.split_first_chunk()?;
        Some(Self { guid: *guid, seal: seal.try_into().ok()? })
    }

    /// The key that authenticates file handles.
    pub fn seal(&self) -> HandleKey {
        HandleKey(TagKey::new(&self.seal))
    }
}

/// MAC key of file handles.
#[derive(Debug)]
pub struct HandleKey(TagKey);

impl HandleSeal for HandleKey {
    fn seal(&self, bytes: &[u8]) -> [u8; ObjectHandle::SEAL_BYTES] {
        let mut seal = [0; ObjectHandle::SEAL_BYTES];
        seal.copy_from_slice(&self.0.tag(bytes)[..ObjectHandle::SEAL_BYTES]);
        seal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_handles_are_valid_with_the_stored_key_only() {
        let identity = NfsIdentity::new([1; 16], [2; 16]);
        let kept = NfsIdentity::of_record(&identity.record()).unwrap();
        assert_eq!(kept.guid, [1; 16]);
        assert_eq!(kept.seal().seal(b"handle"), identity.seal().seal(b"handle"));
        let other = NfsIdentity::new([1; 16], [3; 16]);
        assert_ne!(other.seal().seal(b"handle"), identity.seal().seal(b"handle"));
        for length in [0, 16, 31, 33] {
            assert!(NfsIdentity::of_record(&vec![7; length]).is_none(), "{length} bytes");
        }
    }
}
