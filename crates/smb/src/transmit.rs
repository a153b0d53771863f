//! Frames on their way out.

use std::ops::Range;
use std::sync::Arc;
use vfs::Node;
use wire::smb::TransformHeader;

/// Bytes of the direct-TCP prefix.
pub const PREFIX: usize = 4;

/// Where the first SMB2 header of a reply starts in its buffer: room is left
/// for the prefix and for a transform header, so that sealing moves nothing.
pub const MESSAGE_START: usize = PREFIX + TransformHeader::LENGTH;

/// One frame to send: `buffer[start..]`, then the file's bytes if there are any.
#[derive(Debug)]
pub struct Transmit {
    /// The frame, direct-TCP prefix included, from `start` on.
    pub buffer: Vec<u8>,
    /// Bytes before it are unused.
    pub start: usize,
    /// Bytes to send from a file after the buffer; counted in the prefix.
    pub file: Option<FileRange>,
}

/// A part of a file that ends a frame.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The file; it has a `sendfile` source.
    pub node: Arc<dyn Node>,
    /// First byte.
    pub offset: u64,
    /// Promised to the client: if the file has become shorter, zeros follow.
    pub length_bytes: usize,
}

/// A buffer with the room of [`MESSAGE_START`] in front.
#[must_use]
pub fn new_buffer(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer.resize(MESSAGE_START, 0);
    buffer
}

impl Transmit {
    /// Frames what was written at [`MESSAGE_START`] and after, unsealed.
    #[must_use]
    pub fn plain(mut buffer: Vec<u8>, file: Option<FileRange>) -> Self {
        let start = MESSAGE_START - PREFIX;
        let length = buffer.len() - MESSAGE_START + file.as_ref().map_or(0, |f| f.length_bytes);
        put_prefix(&mut buffer, start..MESSAGE_START, length);
        Self { buffer, start, file }
    }

    /// Frames a buffer whose transform header has been filled.
    #[must_use]
    pub fn sealed(mut buffer: Vec<u8>) -> Self {
        let length = buffer.len() - PREFIX;
        put_prefix(&mut buffer, 0..PREFIX, length);
        Self { buffer, start: 0, file: None }
    }

    /// Bytes that the frame has on the wire.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.buffer.len() - self.start + self.file.as_ref().map_or(0, |f| f.length_bytes)
    }
}

fn put_prefix(buffer: &mut [u8], at: Range<usize>, length: usize) {
    debug_assert!(length < 1 << 24, "frames are bounded by FRAME_BYTES_MAX");
    buffer[at].copy_from_slice(&(length as u32).to_be_bytes());
}
