//! File information classes. MS-FSCC 2.4.

use crate::codec::{DecodeError, Reader, Writer};
use crate::fscc::FileTime;

/// File information classes that a client may query or set.
#[allow(missing_docs, reason = "the names are the specification's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileInfoClass {
    Basic,
    Standard,
    Internal,
    Ea,
    Access,
    Name,
    Rename,
    Link,
    Disposition,
    Position,
    FullEa,
    Mode,
    Alignment,
    All,
    Allocation,
    EndOfFile,
    AlternateName,
    Stream,
    Pipe,
    PipeLocal,
    Compression,
    NetworkOpen,
    AttributeTag,
    ValidDataLength,
    ShortName,
    NormalizedName,
    Id,
    DispositionEx,
    RenameEx,
}

impl FileInfoClass {
    /// The class with this number; `None` if SMB2 does not define it.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            4 => Self::Basic,
            5 => Self::Standard,
            6 => Self::Internal,
            7 => Self::Ea,
            8 => Self::Access,
            9 => Self::Name,
            10 => Self::Rename,
            11 => Self::Link,
            13 => Self::Disposition,
            14 => Self::Position,
            15 => Self::FullEa,
            16 => Self::Mode,
            17 => Self::Alignment,
            18 => Self::All,
            19 => Self::Allocation,
            20 => Self::EndOfFile,
            21 => Self::AlternateName,
            22 => Self::Stream,
            23 => Self::Pipe,
            24 => Self::PipeLocal,
            28 => Self::Compression,
            34 => Self::NetworkOpen,
            35 => Self::AttributeTag,
            39 => Self::ValidDataLength,
            40 => Self::ShortName,
            48 => Self::NormalizedName,
            59 => Self::Id,
            64 => Self::DispositionEx,
            65 => Self::RenameEx,
            _ => return None,
        })
    }

    /// The smallest output buffer for a query of this class, in bytes: its fixed part.
    #[must_use]
    pub fn bytes_min(self) -> usize {
        match self {
            Self::Basic | Self::Pipe | Self::PipeLocal => 40,
            Self::Standard | Self::Id => 24,
            Self::Stream => 32,
            Self::Internal | Self::Position | Self::AttributeTag => 8,
            Self::Name | Self::AlternateName | Self::NormalizedName => 8,
            Self::Ea | Self::Access | Self::Mode | Self::Alignment => 4,
            Self::All => 104,
            Self::Compression => 16,
            Self::NetworkOpen => 56,
            _ => 0,
        }
    }
}

/// The attributes of one open from which every query class is encoded.
#[derive(Clone, Debug, Default)]
pub struct FileFacts {
    /// Creation, last access, last write, change.
    pub times: [FileTime; 4],
    /// `FILE_ATTRIBUTE_*` bits.
    pub attributes: u32,
    /// Bytes of storage in use.
    pub allocation_bytes: u64,
    /// Length, in bytes.
    pub size_bytes: u64,
    /// Number of hard links.
    pub links: u32,
    /// True while a delete is pending.
    pub delete_pending: bool,
    /// True for a directory.
    pub is_directory: bool,
    /// 64-bit id of the file in its volume.
    pub index: u64,
    /// Serial number of the volume.
    pub volume_serial: u64,
    /// Bytes of extended attributes.
    pub ea_bytes: u32,
    /// Granted access mask.
    pub access: u32,
    /// Current byte offset (FilePositionInformation).
    pub position: u64,
    /// Mode flags (FileModeInformation).
    pub mode: u32,
    /// Path in the share, with a leading `\`.
    pub name: Vec<u16>,
    /// Streams. A file has at least the unnamed one.
    pub streams: Vec<StreamFact>,
    /// Reparse tag; 0 for a file that is no reparse point.
    pub reparse_tag: u32,
}

/// One stream of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamFact {
    /// `:name:$DATA`.
    pub name: Vec<u16>,
    /// Length, in bytes.
    pub size_bytes: u64,
    /// Bytes of storage in use.
    pub allocation_bytes: u64,
}

/// Appends the response to a query of `class`; false if the class cannot be queried.
pub fn encode_file_info(class: FileInfoClass, facts: &FileFacts, w: &mut Writer<'_>) -> bool {
    match class {
        FileInfoClass::Basic => put_basic(facts, w),
        FileInfoClass::Standard => put_standard(facts, w),
        FileInfoClass::Internal => w.u64(facts.index),
        FileInfoClass::Ea => w.u32(facts.ea_bytes),
        FileInfoClass::Access => w.u32(facts.access),
        FileInfoClass::Name => put_name(&facts.name, w),
        FileInfoClass::NormalizedName => put_name(facts.name.get(1..).unwrap_or_default(), w),
        FileInfoClass::Position => w.u64(facts.position),
        FileInfoClass::Mode => w.u32(facts.mode),
        FileInfoClass::Alignment => w.u32(0),
        FileInfoClass::All => put_all(facts, w),
        FileInfoClass::Stream => put_streams(&facts.streams, w),
        FileInfoClass::Compression => {
            w.u64(facts.size_bytes);
            w.zeros(8);
        }
        FileInfoClass::NetworkOpen => {
            facts.times.iter().for_each(|t| w.u64(t.0));
            w.u64(facts.allocation_bytes);
            w.u64(facts.size_bytes);
            w.u32(facts.attributes);
            w.u32(0);
        }
        FileInfoClass::AttributeTag => {
            w.u32(facts.attributes);
            w.u32(facts.reparse_tag);
        }
        FileInfoClass::Id => {
            w.u64(facts.volume_serial);
            w.u64(facts.index);
            w.u64(0);
        }
        _ => return false,
    }
    true
}

fn put_basic(facts: &FileFacts, w: &mut Writer<'_>) {
    facts.times.iter().for_each(|t| w.u64(t.0));
    w.u32(facts.attributes);
    w.u32(0);
}

fn put_standard(facts: &FileFacts, w: &mut Writer<'_>) {
    w.u64(facts.allocation_bytes);
    w.u64(facts.size_bytes);
    w.u32(facts.links);
    w.u8(u8::from(facts.delete_pending));
    w.u8(u8::from(facts.is_directory));
    w.u16(0);
}

fn put_all(facts: &FileFacts, w: &mut Writer<'_>) {
    put_basic(facts, w);
    put_standard(facts, w);
    w.u64(facts.index);
    w.u32(facts.ea_bytes);
    w.u32(facts.access);
    w.u64(facts.position);
    w.u32(facts.mode);
    w.u32(0);
    put_name(&facts.name, w);
}

fn put_name(name: &[u16], w: &mut Writer<'_>) {
    w.u32((name.len() * 2) as u32);
    name.iter().for_each(|u| w.u16(*u));
}

/// Length of one stream's entry without its name, in bytes.
const STREAM_ENTRY_BYTES: usize = 24;

/// The number of streams whose entries fit into `room` bytes. The server sends whole entries only.
/// MS-FSA 2.1.5.12.28.
#[must_use]
pub fn streams_fitting(streams: &[StreamFact], room: usize) -> usize {
    let mut end = 0usize;
    let fits = |stream: &&StreamFact| {
        end = end.next_multiple_of(8) + STREAM_ENTRY_BYTES + 2 * stream.name.len();
        end <= room
    };
    streams.iter().take_while(fits).count()
}

fn put_streams(streams: &[StreamFact], w: &mut Writer<'_>) {
    for (at, stream) in streams.iter().enumerate() {
        let start = w.position();
        w.u32(0);
        w.u32((stream.name.len() * 2) as u32);
        w.u64(stream.size_bytes);
        w.u64(stream.allocation_bytes);
        stream.name.iter().for_each(|u| w.u16(*u));
        if at + 1 < streams.len() {
            w.align(8);
            let next = (w.position() - start) as u32;
            w.patch_u32(start, next);
        }
    }
}

/// FileBasicInformation in a set request. MS-FSCC 2.4.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicInfo {
    /// Creation, last access, last write, change; see [`FileTime`] for the special values.
    pub times: [FileTime; 4],
    /// `FILE_ATTRIBUTE_*` bits; 0 leaves the attributes unchanged.
    pub attributes: u32,
}

impl BasicInfo {
    /// Reads the information.
    ///
    /// # Errors
    /// [`DecodeError`] if it is short.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let mut times = [FileTime(0); 4];
        for time in &mut times {
            *time = FileTime(r.u64("basic info")?);
        }
        let attributes = r.u32("basic info")?;
        r.skip(4, "basic info")?;
        Ok(Self { times, attributes })
    }
}

/// FileRenameInformation and FileLinkInformation for SMB2. MS-FSCC 2.4.41, 2.4.28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenameInfo<'a> {
    /// First byte: `ReplaceIfExists`; in the Ex classes, flags.
    pub flags: u32,
    /// Must be 0 over the network.
    pub root: u64,
    /// New path in the share, UTF-16LE.
    pub name: &'a [u8],
}

impl<'a> RenameInfo<'a> {
    /// Reads the information.
    ///
    /// # Errors
    /// [`DecodeError`] if it is short.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let flags = r.u32("rename")?;
        r.skip(4, "rename")?;
        let root = r.u64("rename")?;
        let length = r.u32("rename")? as usize;
        Ok(Self { flags, root, name: r.take(length, "rename name")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_list_contains_whole_entries_only() {
        let stream = |length| StreamFact { name: vec![65; length], ..StreamFact::default() };
        let all = vec![stream(7), stream(1), stream(3)];
        for room in 0..200 {
            let count = streams_fitting(&all, room);
            let bytes = |count| {
                let facts = FileFacts { streams: all[..count].to_vec(), ..FileFacts::default() };
                let mut out = Vec::new();
                assert!(encode_file_info(
                    FileInfoClass::Stream,
                    &facts,
                    &mut Writer::new(&mut out)
                ));
                out.len()
            };
            assert!(bytes(count) <= room);
            assert!(count == all.len() || bytes(count + 1) > room, "{room}");
        }
    }
}
