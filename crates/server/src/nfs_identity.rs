//! What NFS clients know this server again by: its name, and the seal of its file handles.
//! Both are kept beside the clients, for they count for as long as clients remember them.

use files::{Handle, HandleSeal};
use wire::crypto::TagKey;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NfsIdentity {
    /// What the server is called: clients take nothing back from one that calls itself
    /// otherwise. RFC 8881 2.10.4, 8.4.2.1.
    pub guid: [u8; 16],
    seal: [u8; 16],
}

impl NfsIdentity {
    /// One that was not there before. `seal` is random and nobody else's.
    pub fn new(guid: [u8; 16], seal: [u8; 16]) -> Self {
        Self { guid, seal }
    }

    /// As it is kept.
    pub fn record(&self) -> Vec<u8> {
        [self.guid, self.seal].concat()
    }

    /// What was kept; none of what is something else.
    pub fn of_record(record: &[u8]) -> Option<Self> {
        let (guid, seal) = record.split_first_chunk()?;
        Some(Self { guid: *guid, seal: seal.try_into().ok()? })
    }

    /// Seals handles.
    pub fn seal(&self) -> HandleKey {
        HandleKey(TagKey::new(&self.seal))
    }
}

/// The key that file handles are sealed with.
#[derive(Debug)]
pub struct HandleKey(TagKey);

impl HandleSeal for HandleKey {
    fn seal(&self, bytes: &[u8]) -> [u8; Handle::SEAL_BYTES] {
        let mut seal = [0; Handle::SEAL_BYTES];
        seal.copy_from_slice(&self.0.tag(bytes)[..Handle::SEAL_BYTES]);
        seal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_before_are_known_again_by_what_was_kept_and_by_nothing_else() {
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
