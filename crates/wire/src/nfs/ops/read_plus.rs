//! READ_PLUS. RFC 7862 15.10.

use crate::codec::DecodeError;
use crate::nfs::StateId;
use crate::nfs::limits::READ_PLUS_SEGMENTS_MAX;
use crate::nfs::ops::seek::DataContent;
use crate::nfs::xdr::{Decode, Encode, List, ReservedWord, XdrReader, XdrWriter, xdr_struct};

xdr_struct! {
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
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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
