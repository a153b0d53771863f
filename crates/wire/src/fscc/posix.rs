//! What the POSIX extensions of SMB 3.1.1 show of a file and a file system:
//! POSIX-SMB2 2.1.3.2.1, POSIX-FSCC 2.1.1, 2.2.1, 2.3.1, in the form that Samba
//! and Linux have.

use crate::codec::{Malformed, Reader, Writer};
use crate::fscc::FileTime;

/// Names the extensions in NEGOTIATE and in CREATE.
pub const POSIX_EXTENSIONS: [u8; 16] = [
    0x93, 0xAD, 0x25, 0x50, 0x9C, 0xB4, 0x11, 0xE7, 0xB4, 0x23, 0x83, 0xDE, 0x96, 0x8B, 0xCD, 0x7C,
];
/// FilePosixInformation: of a file, and of the entries of a directory.
pub const FILE_POSIX_INFORMATION: u8 = 100;
/// FileFsPosixInformation.
pub const FS_POSIX_INFORMATION: u8 = 100;
/// Permission bits of a mode: the same on the wire and in POSIX.
pub const MODE_PERMISSIONS: u32 = 0o7777;
/// Where the kind of a node begins in a mode on the wire.
const KIND_SHIFT: u32 = 12;
/// Bytes of a query's answer without the two identifiers.
const INFO_BYTES: usize = 80;
/// Bytes of the shortest security identifier.
const SID_BYTES_MIN: usize = 8;

/// Kinds of nodes in a mode on the wire. POSIX-FSCC 2.1.1.2.
#[allow(missing_docs, reason = "the names are the specification's")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PosixKind {
    #[default]
    File = 0,
    Directory = 1,
    Symlink = 2,
    CharacterDevice = 3,
    BlockDevice = 4,
    Fifo = 5,
    Socket = 6,
}

/// Links, mode and owners: what the reply to a CREATE tells, and every query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PosixFacts {
    /// Number of names.
    pub links: u32,
    /// Tag of a reparse point.
    pub reparse_tag: u32,
    /// Permission bits.
    pub permissions: u32,
    /// What it is.
    pub kind: PosixKind,
    /// Owner and group, as encoded security identifiers.
    pub owners: [Vec<u8>; 2],
}

impl PosixFacts {
    /// Appends them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mode = self.permissions & MODE_PERMISSIONS | (self.kind as u32) << KIND_SHIFT;
        for number in [self.links, self.reparse_tag, mode] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        self.owners.iter().for_each(|owner| out.extend_from_slice(owner));
    }
}

/// FilePosixInformation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PosixInfo {
    /// Creation, last access, last write, change.
    pub times: [FileTime; 4],
    /// Length.
    pub size_bytes: u64,
    /// Bytes of storage in use.
    pub allocation_bytes: u64,
    /// FILE_ATTRIBUTE_*.
    pub attributes: u32,
    /// Number of the node in its file system.
    pub inode: u64,
    /// Number of the file system.
    pub device: u32,
    /// The rest.
    pub facts: PosixFacts,
}

impl PosixInfo {
    /// The smallest buffer with which it may be asked for, in bytes.
    pub const BYTES_MIN: usize = INFO_BYTES + 2 * SID_BYTES_MIN;

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for time in self.times {
            out.extend_from_slice(&time.0.to_le_bytes());
        }
        out.extend_from_slice(&self.size_bytes.to_le_bytes());
        out.extend_from_slice(&self.allocation_bytes.to_le_bytes());
        out.extend_from_slice(&self.attributes.to_le_bytes());
        out.extend_from_slice(&self.inode.to_le_bytes());
        out.extend_from_slice(&self.device.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        self.facts.encode(out);
    }

    /// Bytes of it.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        INFO_BYTES + self.facts.owners.iter().map(Vec::len).sum::<usize>()
    }
}

/// FileFsPosixInformation: sizes in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PosixFsInfo {
    /// Bytes that one transfer best has.
    pub transfer_bytes: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks in all.
    pub blocks_total: u64,
    /// Blocks free, whoever may use them.
    pub blocks_free: u64,
    /// Blocks free for the caller.
    pub blocks_available: u64,
    /// Nodes in all.
    pub nodes_total: u64,
    /// Nodes that may still be made.
    pub nodes_free: u64,
    /// Number of the file system.
    pub serial: u64,
}

impl PosixFsInfo {
    /// Bytes of it.
    pub const BYTES: usize = 56;

    /// Appends it.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.transfer_bytes);
        w.u32(self.block_bytes);
        for number in [
            self.blocks_total,
            self.blocks_free,
            self.blocks_available,
            self.nodes_total,
            self.nodes_free,
            self.serial,
        ] {
            w.u64(number);
        }
    }
}

/// The permission bits in the POSIX context of a CREATE, if it gives any. POSIX-SMB2 2.1.3.1.1.
/// Linux's client sends 0xffff, which is no mode, where it has none: for what it turns into a pipe,
/// a socket or a device afterwards.
///
/// # Errors
/// [`Malformed`] if it is not four bytes long.
pub fn decode_posix_mode(data: &[u8]) -> Result<Option<u32>, Malformed> {
    let mut r = Reader::new(data);
    let mode = r.u32("POSIX mode")?;
    if r.remaining() > 0 {
        return Err(r.malformed("POSIX mode"));
    }
    Ok((mode & NO_MODE != NO_MODE).then_some(mode & MODE_PERMISSIONS))
}

/// See [`decode_posix_mode`]: all sixteen bits of a mode, with a file type that there is not.
const NO_MODE: u32 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> PosixInfo {
        PosixInfo {
            times: [1, 2, 3, 4].map(FileTime),
            size_bytes: 5,
            allocation_bytes: 6,
            attributes: 0x20,
            inode: 7,
            device: 8,
            facts: PosixFacts {
                links: 2,
                reparse_tag: 0,
                permissions: 0o1755,
                kind: PosixKind::Directory,
                owners: [vec![1; 16], vec![2; 12]],
            },
        }
    }

    #[test]
    fn information_of_a_file_has_the_layout_that_linux_reads() {
        let mut out = Vec::new();
        info().encode(&mut out);
        assert_eq!(out.len(), info().length_bytes());
        // struct smb311_posix_qinfo: attributes at 48, inode at 52, device at 60, links at 68.
        assert_eq!((out[32], out[40], out[48], out[52], out[60]), (5, 6, 0x20, 7, 8));
        assert_eq!(out[68..76], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(out[76..80], 0o11755u32.to_le_bytes());
        assert_eq!(out[80..], [[1; 16].as_slice(), &[2; 12]].concat());
    }

    #[test]
    fn information_of_a_file_system_has_56_bytes() {
        let mut out = Vec::new();
        PosixFsInfo { block_bytes: 4096, serial: 9, ..PosixFsInfo::default() }
            .encode(&mut Writer::new(&mut out));
        assert_eq!(out.len(), PosixFsInfo::BYTES);
        assert_eq!((&out[4..8], out[48]), (&4096u32.to_le_bytes()[..], 9));
    }

    #[test]
    fn a_mode_is_four_bytes_of_which_the_permissions_count() {
        assert_eq!(decode_posix_mode(&0o71_7644u32.to_le_bytes()), Ok(Some(0o7644)));
        for none in [0xffff, u32::MAX] {
            assert_eq!(decode_posix_mode(&u32::to_le_bytes(none)), Ok(None), "{none:#x}");
        }
        assert!(decode_posix_mode(&[0; 3]).is_err());
        assert!(decode_posix_mode(&[0; 5]).is_err());
    }
}
