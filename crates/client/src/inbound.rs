//! Splits the received bytes into frames: many small ones per read, and large ones directly into
//! buffers of their own.

use crate::error::Error;
use crate::limits::{LARGE_FRAME_BYTES, RECEIVE_BYTES};
use crate::pool::BufferPool;
use std::sync::Arc;
use wire::frame::{PREFIX_BYTES, payload_length};

/// Limit of the first receive after a large frame. The next frame may be large, too, and bytes
/// received here must be copied.
const PEEK_BYTES: usize = 256;

/// A frame without its prefix, in a buffer that may be longer.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) buffer: Vec<u8>,
    pub(crate) length: usize,
}

/// Received bytes that are not a complete frame yet.
#[derive(Debug)]
pub(crate) struct InboundBytes {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    large: Option<(Frame, usize)>,
    was_large: bool,
    frame_bytes_max: usize,
    pool: Arc<BufferPool>,
}

impl InboundBytes {
    pub(crate) fn new(pool: Arc<BufferPool>, frame_bytes_max: usize) -> Self {
        let buffer = vec![0; RECEIVE_BYTES];
        Self { buffer, start: 0, end: 0, large: None, was_large: false, frame_bytes_max, pool }
    }

    /// The buffer for the next bytes; never empty.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if let Some((frame, filled)) = &mut self.large {
            return &mut frame.buffer[*filled..frame.length];
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len() - self.end < LARGE_FRAME_BYTES {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let most = if self.was_large { PEEK_BYTES } else { usize::MAX };
        let to = self.buffer.len().min(self.end.saturating_add(most));
        &mut self.buffer[self.end..to]
    }

    /// True if every received byte belongs to a frame that was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end && self.large.is_none()
    }

    /// True if the last frame was large, and nothing of the next one has arrived.
    pub(crate) fn is_after_large(&self) -> bool {
        self.was_large && self.is_empty()
    }

    /// Missing bytes of a large frame; 0 if the length is unknown.
    pub(crate) fn missing(&self) -> usize {
        self.large.as_ref().map_or(0, |(frame, filled)| frame.length - filled)
    }

    /// `count` bytes were received.
    pub(crate) fn advance(&mut self, count: usize) {
        match &mut self.large {
            Some((_, filled)) => *filled += count,
            None => self.end += count,
        }
    }

    /// Takes the next complete frame.
    ///
    /// # Errors
    /// [`Error::Hostile`] for a broken or too large frame, at its prefix.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        if let Some((frame, filled)) = self.large.take() {
            if filled < frame.length {
                self.large = Some((frame, filled));
                return Ok(None);
            }
            self.was_large = true;
            return Ok(Some(frame));
        }
        let waiting = &self.buffer[self.start..self.end];
        let Some((prefix, rest)) = waiting.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let length = payload_length(*prefix)?;
        if length > self.frame_bytes_max {
            return Err(Error::Hostile("a frame that is too long"));
        }
        let present = rest.len().min(length);
        if present < length && length < LARGE_FRAME_BYTES {
            // The missing bytes fit behind it.
            self.was_large = false;
            return Ok(None);
        }
        let mut frame = Frame { buffer: self.pool.take(length), length };
        frame.buffer[..present].copy_from_slice(&rest[..present]);
        self.start += PREFIX_BYTES + present;
        if present < length {
            self.large = Some((frame, present));
            return Ok(None);
        }
        self.was_large = length >= LARGE_FRAME_BYTES;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames_of(lengths: &[usize], steps: &[usize]) -> Vec<Vec<u8>> {
        let mut stream = Vec::new();
        for (at, length) in lengths.iter().enumerate() {
            stream.extend_from_slice(&(*length as u32).to_be_bytes());
            stream.extend((0..*length).map(|byte| (byte ^ at) as u8));
        }
        let mut inbound = InboundBytes::new(Arc::new(BufferPool::default()), 1 << 20);
        let (mut sent, mut found, mut turn) = (0, Vec::new(), 0);
        while sent < stream.len() {
            let room = inbound.room();
            let count = room.len().min(steps[turn % steps.len()]).min(stream.len() - sent);
            turn += 1;
            room[..count].copy_from_slice(&stream[sent..sent + count]);
            sent += count;
            inbound.advance(count);
            while let Some(frame) = inbound.next_frame().unwrap() {
                found.push(frame.buffer[..frame.length].to_vec());
            }
        }
        found
    }

    proptest! {
        #[test]
        fn frames_survive_any_segmentation_of_the_stream(
            lengths in prop::collection::vec(
                prop_oneof![0usize..200, Just(LARGE_FRAME_BYTES - 1), 16_000usize..300_000],
                1..12,
            ),
            steps in prop::collection::vec(1usize..400_000, 1..6),
        ) {
            let found = frames_of(&lengths, &steps);
            prop_assert_eq!(found.len(), lengths.len());
            for (at, frame) in found.iter().enumerate() {
                prop_assert_eq!(frame.len(), lengths[at]);
                prop_assert!(frame.iter().enumerate().all(|(i, byte)| *byte == (i ^ at) as u8));
            }
        }
    }

    #[test]
    fn oversized_frame_is_refused_at_its_prefix() {
        let mut inbound = InboundBytes::new(Arc::new(BufferPool::default()), 1000);
        inbound.room()[..4].copy_from_slice(&1001u32.to_be_bytes());
        inbound.advance(4);
        assert!(inbound.next_frame().is_err());
    }
}
