//! Stored descriptors: Samba's `security.NTACL` in hexadecimal, and the permissions for which one is
//! valid. The lane decodes and hashes them with its own code, not with the server's.

use super::journal::ObjectKind;
use super::observed::ObservedInode;
use aws_lc_rs::digest;

/// Name of the extended attribute.
pub const NAME: &str = "security.NTACL";
/// Name of the extended attribute with a POSIX access list.
pub const ACCESS_LIST: &str = "system.posix_acl_access";
/// Offset and length in bytes of the fields of a version 4 value: hash, creator, second hash.
const SHOWN: usize = 14;
const MAKER: (usize, usize) = (78, 10);
const HASH: usize = 96;
const HASH_BYTES: usize = 64;
/// Bytes of a SHA-256 hash.
const STATE_BYTES: usize = 32;
const END: usize = HASH + HASH_BYTES;
/// Creator's name of a value that is valid in several states of changing permissions.
const TRANSITION: &[u8] = b"anabranch\0";

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SambaDescriptor {
    /// Hashes of the permissions for which the descriptor is valid.
    pub states: Vec<Vec<u8>>,
    /// The descriptor itself.
    pub descriptor: Vec<u8>,
}

impl SambaDescriptor {
    /// Parses a value in hexadecimal; `None` if it is not a stored descriptor.
    pub fn parse(value: &str) -> Option<Self> {
        let digits = value.as_bytes().chunks_exact(2);
        let bytes = digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
        let descriptor = bytes.get(END..)?.to_vec();
        let mut room = bytes[HASH..END].to_vec();
        if bytes[MAKER.0..MAKER.0 + MAKER.1] == *TRANSITION {
            room.extend_from_slice(&bytes[SHOWN..SHOWN + HASH_BYTES]);
        } else {
            room.truncate(STATE_BYTES);
        }
        let states = room.chunks(STATE_BYTES).filter(|state| state.iter().any(|byte| *byte != 0));
        Some(Self { states: states.map(<[u8]>::to_vec).collect(), descriptor })
    }

    /// Whether it is valid for the permissions of this inode.
    pub fn counts_at(&self, inode: &ObservedInode) -> bool {
        self.states.contains(&state_of(inode))
    }
}

/// Whether both values have the same descriptor, for any permissions.
pub fn is_same(left: &str, right: &str) -> bool {
    let (left, right) = (SambaDescriptor::parse(left), SambaDescriptor::parse(right));
    left.zip(right).is_some_and(|(left, right)| left.descriptor == right.descriptor)
}

/// SHA-256 of Samba's `smb_acl_wrapper` of an inode, in NDR: pointers, owner, group, mode, the access
/// list, and of a directory an empty default list.
fn state_of(inode: &ObservedInode) -> Vec<u8> {
    let is_directory = inode.kind == Some(ObjectKind::Directory);
    let kind_bits: u32 = if is_directory { 0o40_000 } else { 0o100_000 };
    let mut out = 0x0002_0000u32.to_le_bytes().to_vec();
    out.extend(if is_directory { 0x0002_0004u32 } else { 0 }.to_le_bytes());
    for id in [inode.owner.0, inode.owner.1] {
        out.extend(u64::from(id).to_le_bytes());
    }
    out.extend((kind_bits | inode.mode).to_le_bytes());
    put_list(&mut out, &entries_of(inode));
    if is_directory {
        put_list(&mut out, &[]);
    }
    digest::digest(&digest::SHA256, &out).as_ref().to_vec()
}

/// Samba's tag, bits and number of each entry.
type SambaAclEntry = (u16, u32, Option<u32>);

fn entries_of(inode: &ObservedInode) -> Vec<SambaAclEntry> {
    let Some(list) = inode.attributes.get(ACCESS_LIST) else {
        let bits = |shift: u32| inode.mode >> shift & 7;
        return vec![(2, bits(6), None), (4, bits(3), None), (5, bits(0), None)];
    };
    // After the version: tag, bits and number of each entry, little-endian.
    let number = |digits: &str| {
        let bytes = digits.as_bytes().rchunks(2).filter_map(|two| std::str::from_utf8(two).ok());
        u32::from_str_radix(&bytes.collect::<String>(), 16).unwrap_or(0)
    };
    let entries = list.as_bytes().get(8..).unwrap_or_default().chunks_exact(16);
    let texts = entries.filter_map(|entry| std::str::from_utf8(entry).ok());
    let entry = |text: &str| {
        let (tag, id) = (number(&text[..4]), number(&text[8..]));
        let (tag, is_named) = match tag {
            0x01 => (2, false),
            0x02 => (1, true),
            0x04 => (4, false),
            0x08 => (3, true),
            0x10 => (6, false),
            _ => (5, false),
        };
        (tag, number(&text[4..8]), is_named.then_some(id))
    };
    texts.map(entry).collect()
}

fn put_list(out: &mut Vec<u8>, entries: &[SambaAclEntry]) {
    let align = |out: &mut Vec<u8>, to: usize| out.resize(out.len().next_multiple_of(to), 0);
    let count = (entries.len() as u32).to_le_bytes();
    align(out, 4);
    out.extend(count);
    align(out, 8);
    out.extend(count);
    out.extend([0; 4]);
    for (tag, bits, id) in entries {
        align(out, 8);
        out.extend([tag.to_le_bytes(), tag.to_le_bytes()].concat());
        if let Some(id) = id {
            align(out, 8);
            out.extend(u64::from(*id).to_le_bytes());
        }
        align(out, 4);
        out.extend(bits.to_le_bytes());
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A value with these states and this descriptor, in hexadecimal.
    pub fn value(states: &[Vec<u8>], descriptor: u8) -> String {
        let mut bytes = vec![0; END];
        bytes[MAKER.0..MAKER.0 + MAKER.1].copy_from_slice(match states.len() {
            1 => b"posix_acl\0",
            _ => TRANSITION,
        });
        for (place, state) in
            [HASH, HASH + STATE_BYTES, SHOWN, SHOWN + STATE_BYTES].iter().zip(states)
        {
            bytes[*place..place + STATE_BYTES].copy_from_slice(state);
        }
        bytes.push(descriptor);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The state of a file with this mode, of user 7 and group 8.
    pub fn state(mode: u32) -> Vec<u8> {
        state_of(&inode(ObjectKind::File, mode, (7, 8), None))
    }

    fn inode(kind: ObjectKind, mode: u32, owner: (u32, u32), list: Option<&str>) -> ObservedInode {
        let list = list.map(|list| (ACCESS_LIST.to_owned(), list.to_owned()));
        ObservedInode {
            kind: Some(kind),
            mode,
            owner,
            size: 0,
            modified: 0,
            links: 1,
            attributes: list.into_iter().collect::<BTreeMap<_, _>>(),
            cells: Vec::new(),
            target: None,
        }
    }

    #[test]
    fn value_is_parsed_with_one_state_and_with_several() {
        for count in 1..=4u8 {
            let states: Vec<_> = (1..=count).map(|state| vec![state; STATE_BYTES]).collect();
            let parsed = SambaDescriptor::parse(&value(&states, 9)).unwrap();
            assert_eq!(parsed, SambaDescriptor { states, descriptor: vec![9] });
        }
        assert_eq!(SambaDescriptor::parse("77"), None);
    }

    #[test]
    fn descriptor_is_the_same_beside_other_permissions() {
        let of = |state: u8, descriptor| value(&[vec![state; STATE_BYTES]], descriptor);
        assert!(is_same(&of(1, 7), &of(2, 7)));
        assert!(!is_same(&of(1, 7), &of(1, 8)));
        assert!(!is_same("77", "77"));
    }

    /// Stored by Samba beside a file with these permissions.
    #[test]
    fn hash_of_permissions_is_samba_s() {
        let list = "0200000001000700ffffffff02000700e903000004000500ffffffff08000500e9030000\
                    10000700ffffffff20000500ffffffff";
        let hash = state_of(&inode(ObjectKind::File, 0o775, (1001, 1001), Some(list)));
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, "b97d1cf7c759bfea8efdca1ff760f411a2249f571fdc9509f23724b25a631392");
    }
}
