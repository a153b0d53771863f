//! Holes, space and hints: ALLOCATE, DEALLOCATE, SEEK, READ_PLUS, IO_ADVISE,
//! WRITE_SAME. RFC 7862 15.1, 15.4, 15.5, 15.10 to 15.12.

use crate::codec::Malformed;
use crate::nfs::limits::READ_PLUS_SEGMENTS_MAX;
use crate::nfs::xdr::{Decode, Encode, List, Reserved, XdrReader, XdrWriter, xdr_enum, xdr_struct};
use crate::nfs::{Bitmap4, StableHow, StateId};

xdr_enum! {
    /// What is at a place of a file: `data_content4`.
    enum DataContent {
        /// Data.
        Data = 0,
        /// Nothing.
        Hole = 1,
    }
}

/// Hints of IO_ADVISE: numbers in its set. RFC 7862 15.5.
pub mod io_advice {
    /// Nothing special.
    pub const NORMAL: u32 = 0;
    /// From the start to the end.
    pub const SEQUENTIAL: u32 = 1;
    /// From the end to the start.
    pub const SEQUENTIAL_BACKWARDS: u32 = 2;
    /// Here and there.
    pub const RANDOM: u32 = 3;
    /// Soon.
    pub const WILLNEED: u32 = 4;
    /// Soon, perhaps.
    pub const WILLNEED_OPPORTUNISTIC: u32 = 5;
    /// Not any more.
    pub const DONTNEED: u32 = 6;
    /// Only once.
    pub const NOREUSE: u32 = 7;
    /// It will be read.
    pub const READ: u32 = 8;
    /// It will be written.
    pub const WRITE: u32 = 9;
    /// The client is near.
    pub const INIT_PROXIMITY: u32 = 10;
}

xdr_struct! {
    /// ALLOCATE's arguments.
    #[derive(Copy)]
    struct AllocateArgs {
        /// As who.
        state_id: StateId,
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
    }

    /// DEALLOCATE's arguments.
    #[derive(Copy)]
    struct DeallocateArgs {
        /// As who.
        state_id: StateId,
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
    }

    /// SEEK's arguments.
    #[derive(Copy)]
    struct SeekArgs {
        /// As who.
        state_id: StateId,
        /// From where, in bytes.
        offset: u64,
        /// What is looked for.
        what: DataContent,
    }

    /// SEEK's results.
    #[derive(Copy)]
    struct SeekResult {
        /// Whether the file ends before any.
        is_end: bool,
        /// Where it begins, in bytes.
        offset: u64,
    }

    /// READ_PLUS's arguments.
    #[derive(Copy)]
    struct ReadPlusArgs {
        /// As who is read.
        state_id: StateId,
        /// From where, in bytes.
        offset: u64,
        /// How much at most, in bytes.
        count: u32,
    }

    /// READ_PLUS's results, as a client reads them. A server writes them with
    /// [`ReadPlusWriter`].
    struct ReadPlusResult<'a> {
        /// Whether the file ends with this.
        is_end: bool,
        /// Its parts.
        segments: List<ReadPlusSegment<'a>, READ_PLUS_SEGMENTS_MAX>,
    }

    /// IO_ADVISE's arguments. The result is the set of hints that count.
    #[derive(Copy)]
    struct IoAdviseArgs {
        /// As who.
        state_id: StateId,
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes; 0 is to the end.
        count: u64,
        /// Which hints: [`io_advice`].
        hints: Bitmap4,
    }

    /// WRITE_SAME's arguments. The result is [`super::WriteResponse`].
    #[derive(Copy)]
    struct WriteSameArgs<'a> {
        /// As who.
        state_id: StateId,
        /// How safe it must be.
        stable: StableHow,
        /// What is written.
        block: AppDataBlock<'a>,
    }

    /// A pattern that is repeated: `app_data_block4`.
    #[derive(Copy)]
    struct AppDataBlock<'a> {
        /// To where, in bytes.
        offset: u64,
        /// Bytes of a block.
        block_bytes: u64,
        /// How many blocks.
        block_count: u64,
        /// Where in a block its number is.
        number_offset: u64,
        /// The number of the first block.
        block_number: u32,
        /// Where in a block the pattern is.
        pattern_offset: u64,
        /// The pattern.
        pattern: &'a [u8],
    }
}

/// A part of a file: `read_plus_content`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPlusSegment<'a> {
    /// Data.
    Data {
        /// From where, in bytes.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// Nothing.
    Hole {
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes.
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

/// READ_PLUS's results, as a server writes them.
#[derive(Debug)]
#[must_use = "a READ_PLUS ends with finish()"]
pub struct ReadPlusWriter {
    is_end: Reserved,
    count: Reserved,
    segments: u32,
}

impl ReadPlusWriter {
    /// Begins the results.
    pub fn begin(w: &mut XdrWriter<'_>) -> Self {
        Self { is_end: w.reserve_u32(), count: w.reserve_u32(), segments: 0 }
    }

    /// Writes a hole.
    pub fn hole(&mut self, w: &mut XdrWriter<'_>, offset: u64, length: u64) {
        self.segments += 1;
        w.put(&ReadPlusSegment::Hole { offset, length });
    }

    /// Begins data, which is then appended to [`XdrWriter::buffer`] and ended with
    /// [`XdrWriter::finish_opaque`].
    pub fn begin_data(&mut self, w: &mut XdrWriter<'_>, offset: u64) -> Reserved {
        self.segments += 1;
        w.put(&DataContent::Data);
        w.put(&offset);
        w.reserve_u32()
    }

    /// Ends the results.
    pub fn finish(self, w: &mut XdrWriter<'_>, is_end: bool) {
        w.fill_u32(self.is_end, u32::from(is_end));
        w.fill_u32(self.count, self.segments);
    }
}
