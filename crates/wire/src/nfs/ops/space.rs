//! Sparse files and access hints: ALLOCATE, DEALLOCATE, SEEK, READ_PLUS, IO_ADVISE, WRITE_SAME. RFC
//! 7862 15.1, 15.4, 15.5, 15.10 to 15.12.

use crate::codec::Malformed;
use crate::nfs::limits::READ_PLUS_SEGMENTS_MAX;
use crate::nfs::xdr::{
    Decode, Encode, List, ReservedWord, XdrReader, XdrWriter, xdr_enum, xdr_struct,
};
use crate::nfs::{Bitmap4, StableHow, StateId};

xdr_enum! {
    /// Content of a file range: `data_content4`.
    enum DataContent {
        /// Data.
        Data = 0,
        /// A hole.
        Hole = 1,
    }
}

/// Hints of IO_ADVISE: bits of its mask. RFC 7862 15.5.
pub mod io_advice {
    /// No particular pattern.
    pub const NORMAL: u32 = 0;
    /// Sequential access.
    pub const SEQUENTIAL: u32 = 1;
    /// Sequential access in descending order.
    pub const SEQUENTIAL_BACKWARDS: u32 = 2;
    /// Random access.
    pub const RANDOM: u32 = 3;
    /// The client will access the range soon.
    pub const WILLNEED: u32 = 4;
    /// The client may access the range soon.
    pub const WILLNEED_OPPORTUNISTIC: u32 = 5;
    /// The client will not access the range any more.
    pub const DONTNEED: u32 = 6;
    /// The client will access the range once.
    pub const NOREUSE: u32 = 7;
    /// The client will read the range.
    pub const READ: u32 = 8;
    /// The client will write the range.
    pub const WRITE: u32 = 9;
    /// The server is near the client.
    pub const INIT_PROXIMITY: u32 = 10;
}

xdr_struct! {
    /// ALLOCATE's arguments.
    #[derive(Copy)]
    struct AllocateArgs {
        /// State id that authorizes the access.
        state_id: StateId,
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes.
        length: u64,
    }

    /// DEALLOCATE's arguments.
    #[derive(Copy)]
    struct DeallocateArgs {
        /// State id that authorizes the access.
        state_id: StateId,
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes.
        length: u64,
    }

    /// SEEK's arguments.
    #[derive(Copy)]
    struct SeekArgs {
        /// State id that authorizes the access.
        state_id: StateId,
        /// Offset of the first byte.
        offset: u64,
        /// The content to find.
        what: DataContent,
    }

    /// SEEK's results.
    #[derive(Copy)]
    struct SeekResult {
        /// True if the file ends before a match.
        is_end: bool,
        /// Offset of the match, in bytes.
        offset: u64,
    }

    /// READ_PLUS's arguments.
    #[derive(Copy)]
    struct ReadPlusArgs {
        /// State id that authorizes the read.
        state_id: StateId,
        /// Offset of the first byte.
        offset: u64,
        /// Maximum length, in bytes.
        count: u32,
    }

    /// READ_PLUS's results as a client decodes them. A server encodes them with [`ReadPlusWriter`].
    struct ReadPlusResult<'a> {
        /// True if the segments end at the end of the file.
        is_end: bool,
        /// Segments.
        segments: List<ReadPlusSegment<'a>, READ_PLUS_SEGMENTS_MAX>,
    }

    /// IO_ADVISE's arguments. The result is the set of hints that the server applies.
    #[derive(Copy)]
    struct IoAdviseArgs {
        /// State id that authorizes the access.
        state_id: StateId,
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes; 0 extends to the end of the file.
        count: u64,
        /// Hints: [`io_advice`].
        hints: Bitmap4,
    }

    /// WRITE_SAME's arguments. The result is [`super::WriteResponse`].
    #[derive(Copy)]
    struct WriteSameArgs<'a> {
        /// State id that authorizes the access.
        state_id: StateId,
        /// Required durability.
        stable: StableHow,
        /// The pattern.
        block: AppDataBlock<'a>,
    }

    /// A repeated pattern: `app_data_block4`.
    #[derive(Copy)]
    struct AppDataBlock<'a> {
        /// Offset of the first block, in bytes.
        offset: u64,
        /// Size of a block, in bytes.
        block_bytes: u64,
        /// Number of blocks.
        block_count: u64,
        /// Offset of the block number in a block.
        number_offset: u64,
        /// The number of the first block.
        block_number: u32,
        /// Offset of the pattern in a block.
        pattern_offset: u64,
        /// The pattern.
        pattern: &'a [u8],
    }
}

/// A segment of a file: `read_plus_content`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPlusSegment<'a> {
    /// Data.
    Data {
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// A hole.
    Hole {
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes.
        length: u64,
    },
}

impl<'a> Decode<'a> for ReadPlusSegment<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        Ok(match r.get()? {
            DataContent::Data => Self::Data { offset: r.get()?, data: r.get()? },
            DataContent::Hole => Self::Hole { offset: r.get()?, length: r.get()? },
        })
    }
}

impl Encode for ReadPlusSegment<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Data { offset, data } => {
                w.put(&DataContent::Data);
                w.put(offset);
                w.put(data);
            }
            Self::Hole { offset, length } => {
                w.put(&DataContent::Hole);
                w.put(offset);
                w.put(length);
            }
        }
    }
}

/// READ_PLUS's results as a server encodes them.
#[derive(Debug)]
#[must_use = "a READ_PLUS ends with finish()"]
pub struct ReadPlusWriter {
    is_end: ReservedWord,
    count: ReservedWord,
    segments: u32,
}

impl ReadPlusWriter {
    /// Starts the results.
    pub fn begin(w: &mut XdrWriter<'_>) -> Self {
        Self { is_end: w.reserve_u32(), count: w.reserve_u32(), segments: 0 }
    }

    /// Writes a hole.
    pub fn hole(&mut self, w: &mut XdrWriter<'_>, offset: u64, length: u64) {
        self.segments += 1;
        w.put(&ReadPlusSegment::Hole { offset, length });
    }

    /// Starts a data segment. The caller appends its data to [`XdrWriter::buffer`] and completes it
    /// with [`XdrWriter::finish_opaque`].
    pub fn begin_data(&mut self, w: &mut XdrWriter<'_>, offset: u64) -> ReservedWord {
        self.segments += 1;
        w.put(&DataContent::Data);
        w.put(&offset);
        w.reserve_u32()
    }

    /// Completes the results.
    pub fn finish(self, w: &mut XdrWriter<'_>, is_end: bool) {
        w.fill_u32(self.is_end, u32::from(is_end));
        w.fill_u32(self.count, self.segments);
    }
}
