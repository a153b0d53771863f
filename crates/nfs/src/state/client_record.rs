//! Record of a client on stable storage for the grace period: its owner string, and the principal
//! that alone may reclaim it. RFC 8881 8.4.2.1, 18.35.4.

use crate::state::principal::Principal;

/// Magic number of a record. Older versions stored the bare owner string.
const MAGIC: &[u8; 8] = b"\0nfscli1";
/// Flavor, uid, gid, and whether the source port was reserved.
const PRINCIPAL_BYTES: usize = 13;

/// Record of one client: see the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientRecord {
    /// The whole owner string: two clients never share a record.
    pub owner: Vec<u8>,
    /// Principal of its EXCHANGE_ID; none in records of older versions.
    pub principal: Option<Principal>,
}

impl ClientRecord {
    /// Encodes the record. Different records have different encodings.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Some(Principal { flavor, uid, gid, has_reserved_port }) = self.principal else {
            return self.owner.clone();
        };
        let mut bytes = MAGIC.to_vec();
        [flavor, uid, gid].iter().for_each(|part| bytes.extend(part.to_le_bytes()));
        bytes.push(u8::from(has_reserved_port));
        bytes.extend(&self.owner);
        bytes
    }

    /// Decodes a record.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let with_principal = || {
            let rest = bytes.strip_prefix(MAGIC)?;
            let (principal, owner) = rest.split_first_chunk::<PRINCIPAL_BYTES>()?;
            let part = |at: usize| {
                let bytes = [0, 1, 2, 3].map(|offset| principal[at + offset]);
                u32::from_le_bytes(bytes)
            };
            let principal = Principal {
                flavor: part(0),
                uid: part(4),
                gid: part(8),
                has_reserved_port: principal[12] != 0,
            };
            Some(Self { owner: owner.to_vec(), principal: Some(principal) })
        };
        with_principal().unwrap_or_else(|| Self { owner: bytes.to_vec(), principal: None })
    }

    /// Whether the record is of a client with this owner string and principal.
    #[must_use]
    pub fn is_of(&self, owner: &[u8], principal: Principal) -> bool {
        self.owner == owner && self.principal.is_none_or(|own| own == principal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_record_decodes_as_encoded() {
        let principal =
            Principal { flavor: 1, uid: 0x0102_0304, gid: u32::MAX, has_reserved_port: true };
        let owner = vec![7; 1024];
        for principal in [None, Some(principal)] {
            let record = ClientRecord { owner: owner.clone(), principal };
            assert_eq!(ClientRecord::decode(&record.encode()), record);
        }
        let cut = &MAGIC[..];
        assert_eq!(
            ClientRecord::decode(cut),
            ClientRecord { owner: cut.to_vec(), principal: None }
        );
    }

    #[test]
    fn client_record_matches_its_principal_only() {
        let root = Principal { flavor: 1, uid: 0, gid: 0, has_reserved_port: true };
        let program = Principal { has_reserved_port: false, ..root };
        let record = ClientRecord { owner: b"host".to_vec(), principal: Some(root) };
        assert!(record.is_of(b"host", root));
        assert!(!record.is_of(b"host", program) && !record.is_of(b"hos", root));
        let former = ClientRecord { principal: None, ..record };
        assert!(former.is_of(b"host", program), "nothing is known of its principal");
    }
}
