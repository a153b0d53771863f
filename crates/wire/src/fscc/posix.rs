//! File and file system information of the SMB 3.1.1 POSIX extensions, in the form that Samba and
//! Linux use. POSIX-SMB2 2.1.3.2.1, POSIX-FSCC 2.1.1, 2.2.1, 2.3.1.

use crate::codec::{DecodeError, Reader, Writer};
use crate::fscc::FileTime;

/// Identifies the extensions in NEGOTIATE and in CREATE.
pub const POSIX_EXTENSIONS: [u8; 16] = [
    0x93, 0xAD, 0x25, 0x50, 0x9C, 0xB4, 0x11, 0xE7, 0xB4, 0x23, 0x83, 0xDE, 0x96, 0x8B, 0xCD, 0x7C,
];
/// FilePosixInformation: for a file, and for directory entries.
pub const FILE_POSIX_INFORMATION: u8 = 100;
/// FileFsPosixInformation.
pub const FS_POSIX_INFORMATION: u8 = 100;
/// Permission bits of a mode: the same on the wire and in POSIX.
pub const MODE_PERMISSIONS: u32 = 0o7777;
/// Bit position of the file type in a mode on the wire.
const KIND_SHIFT: u32 = 12;
/// Length of the encoded information without the two security identifiers.
const INFO_BYTES: usize = 80;
/// Length of the shortest security identifier.
const SID_BYTES_MIN: usize = 8;

/// File types in a mode on the wire. POSIX-FSCC 2.1.1.2.
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

/// Links, mode and owners: the part that the CREATE response and every query share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PosixFileFields {
    /// Number of hard links.
    pub links: u32,
    /// Reparse tag; 0 for a file that is no reparse point.
    pub reparse_tag: u32,
    /// Permission bits.
    pub permissions: u32,
    /// File type.
    pub kind: PosixKind,
    /// Owner and group, as encoded security identifiers.
    pub owners: [Vec<u8>; 2],
}

impl PosixFileFields {
    /// Appends the fields.
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
    /// Length, in bytes.
    pub size_bytes: u64,
    /// Bytes of storage in use.
    pub allocation_bytes: u64,
    /// `FILE_ATTRIBUTE_*` bits.
    pub attributes: u32,
    /// Inode number in its file system.
    pub inode: u64,
    /// Device number of the file system.
    pub device: u32,
    /// Links, mode and owners.
    pub facts: PosixFileFields,
}

impl PosixInfo {
    /// The smallest output buffer for a query, in bytes.
    pub const BYTES_MIN: usize = INFO_BYTES + 2 * SID_BYTES_MIN;

    /// Appends the information.
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

    /// Encoded length, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        INFO_BYTES + self.facts.owners.iter().map(Vec::len).sum::<usize>()
    }
}

/// FileFsPosixInformation: sizes in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PosixFsInfo {
    /// Optimal transfer size, in bytes.
    pub transfer_bytes: u32,
    /// Block size, in bytes.
    pub block_bytes: u32,
    /// Blocks in total.
    pub blocks_total: u64,
    /// Free blocks, including those reserved for privileged users.
    pub blocks_free: u64,
    /// Free blocks that are available to the caller.
    pub blocks_available: u64,
    /// Inodes in total.
    pub nodes_total: u64,
    /// Free inodes.
    pub nodes_free: u64,
    /// Identifier of the file system.
    pub serial: u64,
}

impl PosixFsInfo {
    /// Encoded length, in bytes.
    pub const BYTES: usize = 56;

    /// Appends the information.
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

/// The permission bits in the POSIX context of a CREATE; `None` if the client sets none. POSIX-SMB2
/// 2.1.3.1.1. Linux's client sends 0xffff for a file that it converts into a pipe, a socket or a
/// device afterwards.
///
/// # Errors
/// [`DecodeError`] if it is not four bytes long.
pub fn decode_posix_mode(data: &[u8]) -> Result<Option<u32>, DecodeError> {
    let mut r = Reader::new(data);
    let mode = r.u32("POSIX mode")?;
    if r.remaining() > 0 {
        return Err(r.malformed("POSIX mode"));
    }
    Ok((mode & NO_MODE != NO_MODE).then_some(mode & MODE_PERMISSIONS))
}

/// Placeholder for "no mode", see [`decode_posix_mode`]: all sixteen bits, which no file type has.
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
            facts: PosixFileFields {
                links: 2,
                reparse_tag: 0,
                permissions: 0o1755,
                kind: PosixKind::Directory,
                owners: [vec![1; 16], vec![2; 12]],
            },
        }
    }

    #[test]
    fn posix_file_information_has_linux_layout() {
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
    fn posix_fs_information_has_56_bytes() {
        let mut out = Vec::new();
        PosixFsInfo { block_bytes: 4096, serial: 9, ..PosixFsInfo::default() }
            .encode(&mut Writer::new(&mut out));
        assert_eq!(out.len(), PosixFsInfo::BYTES);
        assert_eq!((&out[4..8], out[48]), (&4096u32.to_le_bytes()[..], 9));
    }

    #[test]
    fn posix_mode_decodes_permission_bits_of_four_bytes() {
        assert_eq!(decode_posix_mode(&0o71_7644u32.to_le_bytes()), Ok(Some(0o7644)));
        for none in [0xffff, u32::MAX] {
            assert_eq!(decode_posix_mode(&u32::to_le_bytes(none)), Ok(None), "{none:#x}");
        }
        assert!(decode_posix_mode(&[0; 3]).is_err());
        assert!(decode_posix_mode(&[0; 5]).is_err());
    }
}
