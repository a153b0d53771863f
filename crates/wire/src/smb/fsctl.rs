//! FSCTL numbers, and those payloads that hold more than two integers. MS-SMB2 2.2.31, MS-FSCC 2.3.

use crate::codec::{DecodeError, Reader};
use crate::smb::ids::FileId;

#[allow(missing_docs, reason = "the names are the specification's")]
mod numbers {
    pub const DFS_GET_REFERRALS: u32 = 0x0006_0194;
    pub const DFS_GET_REFERRALS_EX: u32 = 0x0006_01B0;
    pub const PIPE_PEEK: u32 = 0x0011_400C;
    pub const PIPE_WAIT: u32 = 0x0011_0018;
    pub const PIPE_TRANSCEIVE: u32 = 0x0011_C017;
    pub const SRV_REQUEST_RESUME_KEY: u32 = 0x0014_0078;
    pub const SRV_ENUMERATE_SNAPSHOTS: u32 = 0x0014_4064;
    pub const SRV_COPYCHUNK: u32 = 0x0014_40F2;
    pub const SRV_COPYCHUNK_WRITE: u32 = 0x0014_80F2;
    pub const SRV_READ_HASH: u32 = 0x0014_41BB;
    pub const LMR_REQUEST_RESILIENCY: u32 = 0x0014_01D4;
    pub const QUERY_NETWORK_INTERFACE_INFO: u32 = 0x0014_01FC;
    pub const VALIDATE_NEGOTIATE_INFO: u32 = 0x0014_0204;
    pub const GET_REPARSE_POINT: u32 = 0x0009_00A8;
    pub const SET_REPARSE_POINT: u32 = 0x0009_00A4;
    pub const DELETE_REPARSE_POINT: u32 = 0x0009_00AC;
    pub const SET_SPARSE: u32 = 0x0009_00C4;
    pub const SET_ZERO_DATA: u32 = 0x0009_80C8;
    pub const QUERY_ALLOCATED_RANGES: u32 = 0x0009_40CF;
    pub const FILE_LEVEL_TRIM: u32 = 0x0009_8208;
    pub const CREATE_OR_GET_OBJECT_ID: u32 = 0x0009_00C0;
    pub const GET_OBJECT_ID: u32 = 0x0009_009C;
    pub const GET_COMPRESSION: u32 = 0x0009_003C;
    pub const SET_COMPRESSION: u32 = 0x0009_C040;
    pub const GET_INTEGRITY_INFORMATION: u32 = 0x0009_027C;
    pub const SET_INTEGRITY_INFORMATION: u32 = 0x0009_C280;
    pub const DUPLICATE_EXTENTS_TO_FILE: u32 = 0x0009_8344;
    pub const DUPLICATE_EXTENTS_TO_FILE_EX: u32 = 0x0009_83E8;
    pub const QUERY_FILE_REGIONS: u32 = 0x0009_0284;
    pub const IS_VOLUME_DIRTY: u32 = 0x0009_0078;
    pub const MARK_HANDLE: u32 = 0x0009_00FC;
    pub const OFFLOAD_READ: u32 = 0x0009_4264;
    pub const OFFLOAD_WRITE: u32 = 0x0009_8268;
    pub const REFS_STREAM_SNAPSHOT_MANAGEMENT: u32 = 0x0009_0440;
}
pub use numbers::*;

/// One chunk of a server-side copy. MS-SMB2 2.2.31.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyChunk {
    /// Offset in the source, in bytes.
    pub source_offset: u64,
    /// Offset in the target, in bytes.
    pub target_offset: u64,
    /// Length, in bytes.
    pub length_bytes: u32,
}

/// SRV_COPYCHUNK_COPY. MS-SMB2 2.2.31.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyChunkRequest {
    /// Resume key of the source open.
    pub source_key: [u8; 24],
    /// `ChunkCount` as the client sent it.
    pub chunk_count: u32,
    /// The decoded chunks, at most the requested maximum.
    pub chunks: Vec<CopyChunk>,
}

impl CopyChunkRequest {
    /// Decodes the payload, at most `chunks_max` chunks of it.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload is shorter than `ChunkCount` requires, unless
    /// `ChunkCount` exceeds `chunks_max`.
    pub fn decode(bytes: &[u8], chunks_max: u32) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let source_key = r.array("copychunk")?;
        let chunk_count = r.u32("copychunk")?;
        r.skip(4, "copychunk")?;
        let mut chunks = Vec::new();
        if chunk_count <= chunks_max {
            for _ in 0..chunk_count {
                let (source_offset, target_offset) = (r.u64("chunk")?, r.u64("chunk")?);
                let length_bytes = r.u32("chunk")?;
                r.skip(4, "chunk")?;
                chunks.push(CopyChunk { source_offset, target_offset, length_bytes });
            }
        }
        Ok(Self { source_key, chunk_count, chunks })
    }
}

/// SMB2_DUPLICATE_EXTENTS_DATA and its extended form. MS-FSCC 2.3.7.2, 2.3.9.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateExtents {
    /// The open of the source.
    pub source: FileId,
    /// Offset in the source, in bytes.
    pub source_offset: u64,
    /// Offset in the target, in bytes.
    pub target_offset: u64,
    /// Length, in bytes.
    pub length_bytes: u64,
}

impl DuplicateExtents {
    /// Reads the payload.
    ///
    /// # Errors
    /// [`DecodeError`] if it is short.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_from(&mut Reader::new(bytes))
    }

    /// Decodes the extended payload. Its flag requests that the source does not change meanwhile,
    /// which the server always guarantees.
    ///
    /// # Errors
    /// [`DecodeError`] if it is short.
    pub fn decode_extended(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        // `StructureSize`, on which implementations disagree.
        r.skip(8, "duplicate extents")?;
        let this = Self::decode_from(&mut r)?;
        r.skip(8, "duplicate extents")?;
        Ok(this)
    }

    fn decode_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let source = FileId::decode(r)?;
        let mut number = || r.u64("duplicate extents");
        let (source_offset, target_offset, length_bytes) = (number()?, number()?, number()?);
        Ok(Self { source, source_offset, target_offset, length_bytes })
    }
}

/// Bytes of a file, as (offset, length).
pub type ByteRange = (u64, u64);

/// FILE_LEVEL_TRIM: ranges whose contents are no longer needed. MS-FSCC 2.3.13.
///
/// # Errors
/// [`DecodeError`] if the payload is shorter than its count requires, holds more than `ranges_max`
/// ranges, or has a key of byte-range locks, which SMB2 locks do not have (MS-SMB2 3.3.5.15.14).
pub fn decode_trim(bytes: &[u8], ranges_max: u32) -> Result<Vec<ByteRange>, DecodeError> {
    let mut r = Reader::new(bytes);
    if r.u32("trim")? != 0 {
        return Err(r.malformed("trim key"));
    }
    let count = r.u32("trim")?;
    if count > ranges_max {
        return Err(r.malformed("trim ranges"));
    }
    (0..count).map(|_| Ok((r.u64("trim range")?, r.u64("trim range")?))).collect()
}

/// FSCTL_PIPE_WAIT: the name of the pipe. MS-FSCC 2.3.49.
///
/// # Errors
/// [`DecodeError`] if the payload is shorter than the name's length.
pub fn decode_pipe_wait(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let mut r = Reader::new(bytes);
    // The timeout: an existing pipe is always available.
    r.skip(8, "pipe wait")?;
    let length = r.u32("pipe wait")? as usize;
    r.skip(2, "pipe wait")?;
    r.take(length, "pipe name")
}

/// VALIDATE_NEGOTIATE_INFO request. MS-SMB2 2.2.31.4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidateNegotiate {
    /// The client's capabilities.
    pub capabilities: u32,
    /// The client's GUID.
    pub guid: [u8; 16],
    /// The client's security mode.
    pub security_mode: u16,
    /// The dialects that the client offered.
    pub dialects: Vec<u16>,
}

impl ValidateNegotiate {
    /// Reads the payload.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload is short.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let capabilities = r.u32("validate negotiate")?;
        let guid = r.array("validate negotiate")?;
        let security_mode = r.u16("validate negotiate")?;
        let count = usize::from(r.u16("validate negotiate")?);
        let bytes = r.take(count * 2, "validate negotiate")?;
        let dialects = bytes.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect();
        Ok(Self { capabilities, guid, security_mode, dialects })
    }

    /// Writes the payload.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.capabilities.to_le_bytes());
        out.extend_from_slice(&self.guid);
        out.extend_from_slice(&self.security_mode.to_le_bytes());
        out.extend_from_slice(&(self.dialects.len() as u16).to_le_bytes());
        self.dialects.iter().for_each(|d| out.extend_from_slice(&d.to_le_bytes()));
        out
    }
}
