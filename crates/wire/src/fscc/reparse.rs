//! Reparse points. MS-FSCC 2.1.2.

use crate::codec::{DecodeError, Reader};

/// IO_REPARSE_TAG_SYMLINK.
pub const REPARSE_TAG_SYMLINK: u32 = 0xA000_000C;
/// IO_REPARSE_TAG_NFS: UNIX file types that Windows lacks. MS-FSCC 2.1.2.6.
pub const REPARSE_TAG_NFS: u32 = 0x8000_0014;
/// IO_REPARSE_TAG_LX_SYMLINK: a symbolic link of the Windows Subsystem for Linux, in which four
/// bytes of version precede a target in UTF-8. MS-FSCC 2.1.2.1.
pub const REPARSE_TAG_LX_SYMLINK: u32 = 0xA000_001D;
/// IO_REPARSE_TAG_AF_UNIX: a socket of the Windows Subsystem for Linux, without data.
pub const REPARSE_TAG_AF_UNIX: u32 = 0x8000_0023;
/// IO_REPARSE_TAG_LX_FIFO: a pipe of the Windows Subsystem for Linux, without data.
pub const REPARSE_TAG_LX_FIFO: u32 = 0x8000_0024;
/// Length of the version field before the target of [`REPARSE_TAG_LX_SYMLINK`].
pub const LX_VERSION_BYTES: usize = 4;
/// Maximum length of a reparse buffer, including its header.
pub const REPARSE_BYTES_MAX: usize = 16 * 1024;

/// SYMLINK_FLAG_RELATIVE.
const RELATIVE: u32 = 1;
/// Length of the header. Tags of other vendors have a GUID behind it.
const HEADER_BYTES: usize = 8;
const GUID_BYTES: usize = 16;
/// Marks the tags of Microsoft.
const MICROSOFT: u32 = 0x8000_0000;
/// Length of a symbolic link's fixed data before its names.
const SYMLINK_BYTES: usize = 12;

const NFS_LINK: u64 = 0x0000_0000_014B_4E4C;
const NFS_CHARACTER: u64 = 0x0000_0000_0052_4843;
const NFS_BLOCK: u64 = 0x0000_0000_004B_4C42;
const NFS_FIFO: u64 = 0x0000_0000_4F46_4946;
const NFS_SOCKET: u64 = 0x0000_0000_4B43_4F53;

/// A complete reparse buffer with a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReparseBuffer<'a> {
    /// Reparse tag.
    pub tag: u32,
    /// Data of the tag.
    pub data: &'a [u8],
}

/// A symbolic link that the client resolves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symlink {
    /// Target path, with `\` between components.
    pub target: Vec<u16>,
    /// True if the target is relative to the link's directory.
    pub is_relative: bool,
}

/// UNIX file types other than file, directory and symbolic link, with device numbers.
#[allow(missing_docs, reason = "the names are the specification's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialFile {
    Character { major: u32, minor: u32 },
    Block { major: u32, minor: u32 },
    Fifo,
    Socket,
}

impl<'a> ReparseBuffer<'a> {
    /// Decodes a buffer from disk or from the network. MS-FSCC 2.1.2.2, 2.1.2.3.
    ///
    /// # Errors
    /// [`DecodeError`] if its length differs from `ReparseDataLength`, or exceeds
    /// [`REPARSE_BYTES_MAX`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let tag = r.u32("reparse tag")?;
        let length = usize::from(r.u16("reparse length")?);
        r.skip(2, "reparse header")?;
        if tag & MICROSOFT == 0 {
            r.skip(GUID_BYTES, "reparse guid")?;
        }
        let data = r.take(length, "reparse data")?;
        if r.remaining() > 0 || bytes.len() > REPARSE_BYTES_MAX || tag == 0 {
            return Err(r.malformed("reparse buffer"));
        }
        Ok(Self { tag, data })
    }
}

/// Encodes a buffer of a Microsoft tag.
fn encode(tag: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + data.len());
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&(data.len() as u16).to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(data);
    out
}

impl Symlink {
    /// Decodes the data of [`REPARSE_TAG_SYMLINK`]. The print name is ignored.
    ///
    /// # Errors
    /// [`DecodeError`] if a name lies outside the data.
    pub fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(data);
        let offset = usize::from(r.u16("link")?);
        let length = usize::from(r.u16("link")?);
        r.skip(4, "link")?;
        let is_relative = r.u32("link")? & RELATIVE != 0;
        let target = r.part(SYMLINK_BYTES + offset, length, "link target")?;
        let target = crate::codec::utf16_units(target, "link target")?;
        Ok(Self { target, is_relative })
    }

    /// The complete buffer; `None` if it would exceed the maximum length.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let data = self.data()?;
        Some(encode(REPARSE_TAG_SYMLINK, &data))
    }

    fn data(&self) -> Option<Vec<u8>> {
        let bytes = self.target.len() * 2;
        if HEADER_BYTES + SYMLINK_BYTES + 2 * bytes > REPARSE_BYTES_MAX {
            return None;
        }
        // The substitute name doubles as the print name, which follows it.
        let mut data = Vec::with_capacity(SYMLINK_BYTES + 2 * bytes);
        for number in [0, bytes, bytes, bytes] {
            data.extend_from_slice(&(number as u16).to_le_bytes());
        }
        data.extend_from_slice(&(if self.is_relative { RELATIVE } else { 0 }).to_le_bytes());
        for _ in 0..2 {
            self.target.iter().for_each(|unit| data.extend_from_slice(&unit.to_le_bytes()));
        }
        Some(data)
    }

    /// Symbolic Link Error Response, from which the client resolves the path itself.
    /// `unparsed_bytes` is the length of the path behind the link. MS-SMB2 2.2.2.2.1.
    #[must_use]
    pub fn error_data(&self, unparsed_bytes: u16) -> Option<Vec<u8>> {
        /// `SymLinkErrorTag`: "SYML".
        const ERROR_TAG: u32 = 0x4C4D_5953;
        let data = self.data()?;
        let mut out = Vec::with_capacity(16 + data.len());
        out.extend_from_slice(&(12 + data.len() as u32).to_le_bytes());
        out.extend_from_slice(&ERROR_TAG.to_le_bytes());
        out.extend_from_slice(&REPARSE_TAG_SYMLINK.to_le_bytes());
        out.extend_from_slice(&(data.len() as u16).to_le_bytes());
        out.extend_from_slice(&unparsed_bytes.to_le_bytes());
        out.extend_from_slice(&data);
        Some(out)
    }
}

impl SpecialFile {
    /// The complete buffer.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let device = |kind: u64, major: u32, minor: u32| {
            [&kind.to_le_bytes()[..], &major.to_le_bytes(), &minor.to_le_bytes()].concat()
        };
        let data = match *self {
            Self::Character { major, minor } => device(NFS_CHARACTER, major, minor),
            Self::Block { major, minor } => device(NFS_BLOCK, major, minor),
            Self::Fifo => NFS_FIFO.to_le_bytes().to_vec(),
            Self::Socket => NFS_SOCKET.to_le_bytes().to_vec(),
        };
        encode(REPARSE_TAG_NFS, &data)
    }

    /// The file type that a buffer describes; `None` if it is neither pipe, socket nor device.
    ///
    /// # Errors
    /// [`DecodeError`] for data of [`REPARSE_TAG_NFS`] with an unknown type.
    pub fn decode(buffer: &ReparseBuffer<'_>) -> Result<Option<Self>, DecodeError> {
        match buffer.tag {
            REPARSE_TAG_AF_UNIX => return Ok(Some(Self::Socket)),
            REPARSE_TAG_LX_FIFO => return Ok(Some(Self::Fifo)),
            REPARSE_TAG_NFS => {}
            _ => return Ok(None),
        }
        if decode_nfs_link(buffer.data)?.is_some() {
            return Ok(None);
        }
        let mut r = Reader::new(buffer.data);
        Ok(Some(match r.u64("special file")? {
            NFS_CHARACTER => Self::Character { major: r.u32("device")?, minor: r.u32("device")? },
            NFS_BLOCK => Self::Block { major: r.u32("device")?, minor: r.u32("device")? },
            NFS_FIFO => Self::Fifo,
            NFS_SOCKET => Self::Socket,
            _ => return Err(r.malformed("special file")),
        }))
    }
}

/// The target of a symbolic link in [`REPARSE_TAG_NFS`] data; `None` for other types.
///
/// # Errors
/// [`DecodeError`] for data with an unknown type.
pub fn decode_nfs_link(data: &[u8]) -> Result<Option<Vec<u16>>, DecodeError> {
    let mut r = Reader::new(data);
    let kind = r.u64("special file")?;
    let length = match kind {
        NFS_LINK => return crate::codec::utf16_units(r.rest(), "link target").map(Some),
        NFS_CHARACTER | NFS_BLOCK => 8,
        NFS_FIFO | NFS_SOCKET => 0,
        _ => return Err(r.malformed("special file")),
    };
    if r.remaining() == length { Ok(None) } else { Err(r.malformed("special file")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn symlink_buffer_round_trips() {
        let link = Symlink { target: units(r"..\a b"), is_relative: true };
        let bytes = link.encode().unwrap();
        // Tag, length, reserved; offsets and lengths of both names; flags.
        let start = [0x0C, 0, 0, 0xA0, 36, 0, 0, 0, 0, 0, 12, 0, 12, 0, 12, 0, 1, 0, 0, 0];
        assert_eq!(bytes[..20], start);
        let buffer = ReparseBuffer::decode(&bytes).unwrap();
        assert_eq!(buffer.tag, REPARSE_TAG_SYMLINK);
        assert_eq!(Symlink::decode(buffer.data), Ok(link));
    }

    #[test]
    fn symlink_error_names_target_and_unparsed_rest() {
        let link = Symlink { target: units("t"), is_relative: false };
        let data = link.error_data(6).unwrap();
        let expected = [
            &[28, 0, 0, 0, b'S', b'Y', b'M', b'L', 0x0C, 0, 0, 0xA0, 16, 0, 6, 0][..],
            &[0, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0, 0, b't', 0, b't', 0],
        ];
        assert_eq!(data, expected.concat());
    }

    #[test]
    fn special_files_round_trip_through_the_nfs_tag() {
        let device = SpecialFile::Character { major: 1, minor: 3 }.encode();
        let expected =
            [&[0x14, 0, 0, 0x80, 16, 0, 0, 0][..], b"CHR\0\0\0\0\0", &[1, 0, 0, 0, 3, 0, 0, 0]];
        assert_eq!(device, expected.concat());
        for special in [SpecialFile::Fifo, SpecialFile::Socket] {
            let bytes = special.encode();
            let buffer = ReparseBuffer::decode(&bytes).unwrap();
            assert_eq!(decode_nfs_link(buffer.data), Ok(None));
            assert_eq!(SpecialFile::decode(&buffer), Ok(Some(special)));
        }
        for special in [
            SpecialFile::Character { major: 1, minor: 3 },
            SpecialFile::Block { major: 8, minor: 0 },
        ] {
            let bytes = special.encode();
            let buffer = ReparseBuffer::decode(&bytes).unwrap();
            assert_eq!(SpecialFile::decode(&buffer), Ok(Some(special)));
        }
        for (tag, special) in
            [(REPARSE_TAG_AF_UNIX, SpecialFile::Socket), (REPARSE_TAG_LX_FIFO, SpecialFile::Fifo)]
        {
            assert_eq!(SpecialFile::decode(&ReparseBuffer { tag, data: b"" }), Ok(Some(special)));
        }
        assert!(decode_nfs_link(b"FIFO\0\0\0\0x").is_err());
        let link = [b"LNK\x01\0\0\0\0", &b"a\0"[..]].concat();
        assert_eq!(decode_nfs_link(&link), Ok(Some(units("a"))));
    }

    #[test]
    fn reparse_buffer_with_a_wrong_length_is_refused() {
        let good = SpecialFile::Fifo.encode();
        for length in 0..good.len() {
            assert!(ReparseBuffer::decode(&good[..length]).is_err(), "{length}");
        }
        assert!(ReparseBuffer::decode(&[&good[..], &[0]].concat()).is_err());
        let foreign = [&[1, 0, 0, 0, 1, 0, 0, 0][..], &[7; 16], &[9]].concat();
        assert_eq!(ReparseBuffer::decode(&foreign).unwrap().data, [9]);
        assert!(ReparseBuffer::decode(&foreign[..9]).is_err(), "without its GUID");
        let data = [0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'a', 0];
        assert!(Symlink::decode(&data).is_err(), "a name beyond the end");
    }
}
