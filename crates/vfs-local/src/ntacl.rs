//! Samba's `xattr_NTACL`: a security descriptor, and from version 3 on a hash of the permissions
//! with which it was stored. NDR, little-endian.
//!
//! While permissions change in several steps, the value holds the hashes of all intermediate
//! states, in the space of both of Samba's hashes, under a description of its own. Samba then
//! treats the descriptor as one for other permissions.
//!
//! If a file system has no room for Samba's form (ext4: 4 KiB for all extended attributes of a
//! file), the value is packed ([`encode_packed`]). Samba does not read the packed form.

use crate::packing;

/// Space for one hash; SHA-256 fills its first half.
const HASH_BYTES: usize = 64;
const HASH_SHA256: u16 = 1;
/// Fixed part of a self-relative descriptor. MS-DTYP 2.4.6.
const DESCRIPTOR_HEAD: usize = 20;
/// Bytes of a SHA-256 hash.
const STATE_BYTES: usize = 32;
/// Maximum number of states in a value while permissions change.
pub const STATES_MAX: usize = 2 * HASH_BYTES / STATE_BYTES;
/// Description of the hash; Samba writes `posix_acl`.
const DESCRIPTION: &[u8; 10] = b"posix_acl\0";
/// Description of a value that is valid in several states.
const TRANSITION: &[u8; 10] = b"anabranch\0";
const DESCRIPTION_BYTES_MAX: usize = 1024;

/// A hash of permissions.
pub type StateHash = [u8; STATE_BYTES];

/// A decoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDescriptor {
    /// Self-relative security descriptor.
    pub descriptor: Vec<u8>,
    /// Its validity.
    pub counts: Counts,
}

/// Validity of a stored descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counts {
    /// For any permissions.
    Always,
    /// While the permissions have one of these hashes.
    While(Vec<StateHash>),
    /// Unknown: the hash covers state that only that Samba server had.
    Unknown,
}

impl Counts {
    /// True if the descriptor is in force with the permissions of this hash.
    pub fn has(&self, state: &StateHash) -> bool {
        match self {
            Self::Always => true,
            Self::While(states) => states.contains(state),
            Self::Unknown => false,
        }
    }
}

/// Tag of a packed value, which is no version of Samba's.
const PACKED: &[u8; 4] = b"AnP1";

/// Encodes a packed value, for a file system without room for [`encode`]: the number of states, the
/// states, and the packed descriptor.
pub fn encode_packed(descriptor: &[u8], states: &[StateHash]) -> Option<Vec<u8>> {
    if states.is_empty() || states.len() > STATES_MAX {
        return None;
    }
    let packed = packing::pack(descriptor)?;
    Some([&PACKED[..], &[states.len() as u8], states.as_flattened(), &packed].concat())
}

fn decode_packed(bytes: &[u8]) -> Option<StoredDescriptor> {
    let (count, rest) = bytes.split_first()?;
    let (states, packed) = rest.split_at_checked(usize::from(*count) * STATE_BYTES)?;
    let descriptor = packing::unpack(packed)?;
    let counts = Counts::While(states_of(states));
    (descriptor.len() >= DESCRIPTOR_HEAD).then_some(StoredDescriptor { descriptor, counts })
}

/// Decodes a value; `None` if its form is unknown.
pub fn decode(bytes: &[u8]) -> Option<StoredDescriptor> {
    if let Some(packed) = bytes.strip_prefix(PACKED) {
        return decode_packed(packed);
    }
    let version = u16_at(bytes, 0)?;
    // The union's discriminant repeats the version. The pointers follow, all of them non-null.
    let pointers = if version == 1 { 1 } else { 2 };
    let has_all =
        (0..pointers).all(|n| bytes.get(4 + 4 * n..8 + 4 * n).is_some_and(|p| p != [0; 4]));
    if u16_at(bytes, 2)? != version || !has_all {
        return None;
    }
    const AFTER: usize = 12;
    let (start, counts) = match version {
        1 => (8, Counts::Always),
        // A hash of 16 bytes, which Samba never used.
        2 => (AFTER + 16, Counts::Always),
        3 => {
            let hash = hash_at(bytes, AFTER + 2)?;
            // A zero hash: written by a server that ignores system permissions.
            let counts = if hash == [0; HASH_BYTES] { Counts::Always } else { Counts::Unknown };
            (AFTER + 2 + HASH_BYTES, counts)
        }
        4 => {
            let text = bytes.get(AFTER + 2 + HASH_BYTES..)?;
            let end = text.iter().take(DESCRIPTION_BYTES_MAX).position(|&b| b == 0)? + 1;
            // A timestamp precedes the hash of the permissions.
            let at = (AFTER + 2 + HASH_BYTES + end).next_multiple_of(4) + 8;
            let is_known = u16_at(bytes, AFTER)? == HASH_SHA256;
            let (shown, hash) = (hash_at(bytes, AFTER + 2)?, hash_at(bytes, at)?);
            let is_transition = text.starts_with(TRANSITION);
            let counts = match is_known {
                true if is_transition => Counts::While(states_of(&[hash, shown].concat())),
                // The rest of a SHA-256 hash's space is zero.
                true if hash[STATE_BYTES..] == [0; HASH_BYTES - STATE_BYTES] => {
                    Counts::While(states_of(&hash))
                }
                _ => Counts::Unknown,
            };
            (at + HASH_BYTES, counts)
        }
        _ => return None,
    };
    let descriptor =
        relocate(bytes.get(start.next_multiple_of(4)..)?, start.next_multiple_of(4), 0)?;
    Some(StoredDescriptor { descriptor, counts })
}

/// The hashes in a space that may be partially filled.
fn states_of(room: &[u8]) -> Vec<StateHash> {
    let states = room.chunks_exact(STATE_BYTES).filter_map(|state| state.try_into().ok());
    states.filter(|state| *state != [0; STATE_BYTES]).collect()
}

/// Encodes a value in version 4. It is valid while the permissions have one of `states`: one state,
/// or up to [`STATES_MAX`] while permissions change. With one state the second hash, of Samba's
/// view of the permissions, is zero and matches nothing.
pub fn encode(descriptor: &[u8], states: &[StateHash]) -> Option<Vec<u8>> {
    if states.is_empty() || states.len() > STATES_MAX {
        return None;
    }
    let mut room = states.concat();
    room.resize(2 * HASH_BYTES, 0);
    let (hash, shown) = room.split_at(HASH_BYTES);
    let mut out = Vec::with_capacity(160 + descriptor.len());
    out.extend_from_slice(&[4, 0, 4, 0, 0, 0, 2, 0, 4, 0, 2, 0]);
    out.extend_from_slice(&HASH_SHA256.to_le_bytes());
    out.extend_from_slice(shown);
    out.extend_from_slice(if states.len() > 1 { TRANSITION } else { DESCRIPTION });
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(hash);
    let start = out.len();
    out.extend_from_slice(&relocate(descriptor, 0, start)?);
    Some(out)
}

/// Adjusts the offsets in a descriptor, which count from the start of the enclosing structure, from
/// one start to another.
fn relocate(descriptor: &[u8], from: usize, to: usize) -> Option<Vec<u8>> {
    let mut out = descriptor.to_vec();
    let head: &mut [u8; DESCRIPTOR_HEAD] = out.first_chunk_mut()?;
    for place in head[4..].chunks_exact_mut(4) {
        let offset = u32::from_le_bytes([place[0], place[1], place[2], place[3]]) as usize;
        if offset != 0 {
            let moved = offset.checked_sub(from)?.checked_add(to)?;
            place.copy_from_slice(&u32::try_from(moved).ok()?.to_le_bytes());
        }
    }
    Some(out)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]))
}

fn hash_at(bytes: &[u8], at: usize) -> Option<[u8; HASH_BYTES]> {
    bytes.get(at..at + HASH_BYTES)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owner, group, and full control for everyone, with offsets from `base`.
    fn descriptor(base: u8) -> Vec<u8> {
        let mut out = vec![1, 0, 4, 0x80];
        for offset in [20u8, 36, 0, 52] {
            let at = if offset == 0 { 0 } else { offset + base };
            out.extend_from_slice(&[at, 0, 0, 0]);
        }
        let unix = [1, 2, 0, 0, 0, 0, 0, 22];
        out.extend_from_slice(&unix);
        out.extend_from_slice(&[1, 0, 0, 0, 0xE8, 3, 0, 0]);
        out.extend_from_slice(&unix);
        out.extend_from_slice(&[2, 0, 0, 0, 0xE8, 3, 0, 0]);
        out.extend_from_slice(&[4, 0, 28, 0, 1, 0, 0, 0, 0, 0, 20, 0, 0xFF, 1, 0x1F, 0]);
        out.extend_from_slice(&[1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        out
    }

    /// Encoded by Samba's own library in each version.
    fn of_samba(version: u8) -> Vec<u8> {
        let mut out = vec![version, 0, version, 0, 0, 0, 2, 0];
        if version > 1 {
            out.extend_from_slice(&[4, 0, 2, 0]);
        }
        match version {
            1 => {}
            2 => out.extend_from_slice(&[7; 16]),
            3 => {
                out.extend_from_slice(&[1, 0]);
                out.extend_from_slice(&[7; 64]);
                out.extend_from_slice(&[0; 2]);
            }
            _ => {
                out.extend_from_slice(&[1, 0]);
                out.extend_from_slice(&[0; 64]);
                out.extend_from_slice(b"posix_acl\0");
                out.extend_from_slice(&[0; 8]);
                out.extend(0..32u8);
                out.extend_from_slice(&[0; 32]);
            }
        }
        let base = out.len() as u8;
        out.extend_from_slice(&descriptor(base));
        out
    }

    #[test]
    fn ntacl_of_every_samba_version_decodes() {
        let lengths = [88, 108, 160, 240];
        let counts = |version| decode(&of_samba(version)).map(|s| (s.descriptor, s.counts));
        for version in 1..=4u8 {
            assert_eq!(of_samba(version).len(), lengths[usize::from(version) - 1]);
            let expected = match version {
                1 | 2 => Counts::Always,
                3 => Counts::Unknown,
                _ => Counts::While(vec![std::array::from_fn(|n| n as u8)]),
            };
            assert_eq!(counts(version), Some((descriptor(0), expected)), "version {version}");
        }
        let mut ignoring = of_samba(3);
        ignoring[14..78].fill(0);
        assert_eq!(decode(&ignoring).map(|s| s.counts), Some(Counts::Always));
    }

    #[test]
    fn ntacl_is_encoded_as_sambas_version_4() {
        let hash = std::array::from_fn(|n| n as u8);
        assert_eq!(encode(&descriptor(0), &[hash]).unwrap(), of_samba(4));
    }

    #[test]
    fn transition_is_valid_in_each_of_its_states() {
        for count in 2..=STATES_MAX {
            let states: Vec<StateHash> = (0..count).map(|n| [n as u8 + 1; STATE_BYTES]).collect();
            let written = encode(&descriptor(0), &states).unwrap();
            assert_eq!(written.len(), of_samba(4).len());
            let read = decode(&written).unwrap();
            assert_eq!((read.descriptor, read.counts), (descriptor(0), Counts::While(states)));
        }
        assert_eq!(encode(&descriptor(0), &[]), None);
        assert_eq!(encode(&descriptor(0), &[[1; STATE_BYTES]; STATES_MAX + 1]), None);
    }

    #[test]
    fn packed_ntacl_is_valid_in_its_states_despite_damage() {
        let states = [[1; STATE_BYTES], [2; STATE_BYTES]];
        let packed = encode_packed(&descriptor(0), &states).unwrap();
        let counts = Counts::While(states.to_vec());
        assert_eq!(decode(&packed), Some(StoredDescriptor { descriptor: descriptor(0), counts }));
        for length in 0..packed.len() {
            assert_eq!(decode(&packed[..length]), None);
        }
        for at in 0..packed.len() {
            let mut changed = packed.clone();
            changed[at] = !changed[at];
            let _ = decode(&changed);
        }
        assert_eq!(encode_packed(&descriptor(0), &[]), None);
    }

    #[test]
    fn longer_samba_hash_has_unknown_validity() {
        let mut longer = of_samba(4);
        longer[159] = 1;
        assert_eq!(decode(&longer).map(|stored| stored.counts), Some(Counts::Unknown));
    }

    #[test]
    fn damaged_ntacl_values_decode_safely() {
        for version in 1..=4 {
            let bytes = of_samba(version);
            for length in 0..bytes.len() {
                let _ = decode(&bytes[..length]);
            }
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] = !changed[at];
                let _ = decode(&changed);
            }
        }
        assert_eq!(encode(&[1; 10], &[[0; STATE_BYTES]]), None);
    }
}
