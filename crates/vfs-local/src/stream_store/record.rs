//! The two links between a store file and its host: the reference in the host's attribute, and the
//! record in the store file's attribute.
//!
//! Users may write attributes of their own files, and programs copy them between files. So a
//! reference proves nothing by itself; it counts if the record refers to that very file.

use crate::local_node::LocalNode;
use crate::xattr_notes;
use std::sync::atomic::{AtomicU32, Ordering};

/// Last byte of an attribute that refers to a file. In Samba's layout the byte is the number of
/// continuation attributes, at most 15.
const REFERENCE: u8 = 0xF0;
/// Prefix of a reference.
const MAGIC: &[u8] = b"\0anabranch-stream:1\0";
/// Version of the record layout.
const VERSION: u8 = 2;
/// The layout version without the host's rights.
const VERSION_WITHOUT_RIGHTS: u8 = 1;
/// Maximum length of a kernel handle in a record.
const HANDLE_BYTES_MAX: usize = vfs::NodeHandle::BYTES_MAX;
/// Length of the hash of a file's owner, group, mode and ACL.
const RIGHTS_BYTES: usize = 32;
/// Maximum length of a record.
pub const RECORD_BYTES_MAX: usize = 1 + 8 + 8 + RIGHTS_BYTES + 2 * (1 + HANDLE_BYTES_MAX);

/// Id of a store file, unique in its store and across the stores of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredId([u8; 16]);

impl StoredId {
    /// A new id, unique in this process. It is not secret.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (now, count) = (xattr_notes::now() as u64, COUNT.fetch_add(1, Ordering::Relaxed));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&now.to_be_bytes());
        id[8..12].copy_from_slice(&std::process::id().to_be_bytes());
        id[12..].copy_from_slice(&count.to_be_bytes());
        Self(id)
    }

    /// The id in a stream attribute's value, if that is a reference.
    pub fn of_attribute(value: &[u8]) -> Option<Self> {
        let id = value.strip_prefix(MAGIC)?.strip_suffix(&[REFERENCE])?;
        id.try_into().ok().map(Self)
    }

    /// The attribute value of a stream in the file with this id.
    pub fn attribute(self) -> Vec<u8> {
        [MAGIC, &self.0, &[REFERENCE]].concat()
    }

    /// File name in the store.
    pub fn file_name(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses a file name in a store.
    pub fn of_file_name(name: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(name).ok().filter(|text| text.len() == 32)?;
        let id = Self(u128::from_str_radix(text, 16).ok()?.to_be_bytes());
        (id.file_name() == text).then_some(id)
    }
}

/// Identity of a file on its file system, across mounts and in snapshots. An inode number may be
/// reused, but not with the same creation time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostIdentity {
    inode: u64,
    /// Creation time in nanoseconds; 0 if the file system does not store it.
    born: i64,
}

impl HostIdentity {
    /// The identity of a node.
    pub fn of(node: &LocalNode) -> Self {
        let born = node.born.map_or(0, |born| i64::try_from(born.0).unwrap_or(0));
        Self { inode: node.key.inode, born }
    }

    /// True if a file that reuses the inode number cannot be distinguished.
    pub fn is_ambiguous(self) -> bool {
        self.born == 0
    }

    /// Inode number.
    pub fn inode(self) -> u64 {
        self.inode
    }
}

/// A store file's record of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFileRecord {
    /// The host.
    pub host: HostIdentity,
    /// Hash of the host's owner, group, mode and ACL, if recorded. Equal hashes give the same users
    /// the same rights.
    pub host_rights: Option<[u8; RIGHTS_BYTES]>,
    /// The kernel's handle of the host; empty if there is none.
    pub host_handle: Vec<u8>,
    /// The kernel's handle of the store file itself. A different handle reveals a copy, for
    /// instance from a backup.
    pub own_handle: Vec<u8>,
}

impl StoreFileRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let version = self.host_rights.map_or(VERSION_WITHOUT_RIGHTS, |_| VERSION);
        let mut bytes = vec![version];
        bytes.extend_from_slice(&self.host.inode.to_le_bytes());
        bytes.extend_from_slice(&self.host.born.to_le_bytes());
        bytes.extend(self.host_rights.into_iter().flatten());
        for handle in [&self.host_handle, &self.own_handle] {
            let handle = handle.get(..HANDLE_BYTES_MAX).unwrap_or(handle);
            bytes.push(u8::try_from(handle.len()).unwrap_or(0));
            bytes.extend_from_slice(handle);
        }
        bytes
    }

    /// Decodes a record, which a local program may have written.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (inode, rest) = rest.split_first_chunk()?;
        let (born, rest) = rest.split_first_chunk()?;
        let (host_rights, rest) = match *version {
            VERSION => rest.split_first_chunk().map(|(rights, rest)| (Some(*rights), rest))?,
            VERSION_WITHOUT_RIGHTS => (None, rest),
            _ => return None,
        };
        let (host_handle, rest) = split_handle(rest)?;
        let (own_handle, rest) = split_handle(rest)?;
        let host =
            HostIdentity { inode: u64::from_le_bytes(*inode), born: i64::from_le_bytes(*born) };
        let is_whole = rest.is_empty();
        is_whole.then(|| Self {
            host,
            host_rights,
            host_handle: host_handle.to_vec(),
            own_handle: own_handle.to_vec(),
        })
    }
}

fn split_handle(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
        .filter(|(handle, _)| handle.len() <= HANDLE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_differs_from_every_samba_value() {
        let id = StoredId::new();
        assert_ne!(id, StoredId::new());
        let value = id.attribute();
        assert_eq!(StoredId::of_attribute(&value), Some(id));
        assert_eq!(StoredId::of_file_name(id.file_name().as_bytes()), Some(id));
        for last in 0..=15 {
            let mut data = value.clone();
            *data.last_mut().unwrap() = last;
            assert_eq!(StoredId::of_attribute(&data), None, "a stream's data with {last} extents");
        }
        for length in 0..value.len() {
            assert_eq!(StoredId::of_attribute(&value[..length]), None);
        }
        for name in
            ["", "lost+found", &"0".repeat(33), &"A".repeat(32), &format!("+{}", "1".repeat(31))]
        {
            assert_eq!(StoredId::of_file_name(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn record_round_trips_and_rejects_truncation() {
        let host = HostIdentity { inode: 7, born: -3 };
        for host_rights in [None, Some([9; RIGHTS_BYTES])] {
            let (host_handle, own_handle) = (vec![1; 20], vec![2; HANDLE_BYTES_MAX]);
            let record = StoreFileRecord { host, host_rights, host_handle, own_handle };
            let bytes = record.encode();
            assert!(bytes.len() <= RECORD_BYTES_MAX);
            assert_eq!(StoreFileRecord::decode(&bytes), Some(record));
            for length in 0..bytes.len() {
                assert_eq!(StoreFileRecord::decode(&bytes[..length]), None);
            }
            assert_eq!(StoreFileRecord::decode(&[&bytes[..], b"x"].concat()), None);
        }
        let long = [&[VERSION_WITHOUT_RIGHTS][..], &[0; 16], &[200], &[0; 200], &[0]].concat();
        assert_eq!(StoreFileRecord::decode(&long), None);
    }
}
