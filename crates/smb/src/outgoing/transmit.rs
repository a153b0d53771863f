//! Outgoing frames.

use crate::limits::{SIGNATURES_PER_BATCH, TRANSMIT_EARLY_BYTES};
use files::ResidentRange;
use meter::{SentReply, StageTimes};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use wire::crypto::SigningKey;
use wire::smb::TransformHeader;

/// Length of the direct-TCP prefix in bytes.
pub const PREFIX: usize = 4;

/// Offset of the first SMB2 header of a response in its buffer. Prefix and transform header fit in
/// front, so that encryption moves nothing.
pub const MESSAGE_START: usize = PREFIX + TransformHeader::LENGTH;

/// Metering records of the responses in one frame.
pub type SentList = SmallVec<[SentReply; 2]>;

/// One frame to send: `buffer[start..]`, then file data if any.
#[derive(Debug)]
pub struct FrameTransmit {
    /// The frame, direct-TCP prefix included, from `start` on.
    pub buffer: Vec<u8>,
    /// Offset of the frame in the buffer.
    pub start: usize,
    /// File data to send after the buffer; counted in the prefix.
    pub file: Option<ResidentRange>,
    /// The key that must still sign the message; several messages are signed in one batch.
    pub(crate) unsigned: Option<Arc<SigningKey>>,
    /// Metering records of its responses, completed once it was sent.
    pub sent: SentList,
}

/// A buffer with [`MESSAGE_START`] bytes reserved.
#[must_use]
pub fn new_buffer(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer.resize(MESSAGE_START, 0);
    buffer
}

impl FrameTransmit {
    /// Frames the plain message that begins at [`MESSAGE_START`].
    #[must_use]
    pub fn plain(mut buffer: Vec<u8>, file: Option<ResidentRange>) -> Self {
        let start = MESSAGE_START - PREFIX;
        let length = buffer.len() - MESSAGE_START + file.as_ref().map_or(0, |f| f.length_bytes);
        put_prefix(&mut buffer, start..MESSAGE_START, length);
        Self { buffer, start, file, unsigned: None, sent: SentList::new() }
    }

    /// Frames a buffer with a complete transform header.
    #[must_use]
    pub fn sealed(mut buffer: Vec<u8>) -> Self {
        let length = buffer.len() - PREFIX;
        put_prefix(&mut buffer, 0..PREFIX, length);
        Self { buffer, start: 0, file: None, unsigned: None, sent: SentList::new() }
    }

    /// Signs the message, if it is unsigned.
    pub(crate) fn sign(&mut self) {
        if let Some(key) = self.unsigned.take() {
            key.sign(&mut self.buffer[MESSAGE_START..]);
        }
    }

    /// Length of the frame on the wire.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.buffer.len() - self.start + self.file.as_ref().map_or(0, |f| f.length_bytes)
    }
}

/// Frames to send, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<FrameTransmit>,
    bytes: usize,
}

impl Outbox {
    pub fn push(&mut self, transmit: FrameTransmit) {
        self.bytes += transmit.length_bytes();
        self.queue.push_back(transmit);
    }

    /// The next frame. If it is unsigned, all queued unsigned frames are signed in one batch first.
    pub fn pop(&mut self, stages: &StageTimes) -> Option<FrameTransmit> {
        if self.queue.front()?.unsigned.is_some() {
            stages.crypto(|| self.sign_batch());
        }
        let transmit = self.queue.pop_front()?;
        self.bytes -= transmit.length_bytes();
        Some(transmit)
    }

    /// Bytes of all frames.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if the frames should be sent before the next request. The client can then work
    /// meanwhile, and buffers are reused while the CPU cache still has them. Unsigned frames wait
    /// for a full batch.
    pub fn is_worth_sending(&self) -> bool {
        let is_unsigned = self.queue.front().is_some_and(|front| front.unsigned.is_some());
        self.bytes >= TRANSMIT_EARLY_BYTES
            && (!is_unsigned || self.queue.len() >= SIGNATURES_PER_BATCH)
    }

    /// Frees the memory of an empty queue.
    pub fn shrink(&mut self) {
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }

    /// Signs all unsigned messages, those of one key in one batch.
    fn sign_batch(&mut self) {
        while let Some(key) = self.queue.iter().find_map(|frame| frame.unsigned.clone()) {
            let mut messages = Vec::new();
            for frame in &mut self.queue {
                if frame.unsigned.take_if(|other| Arc::ptr_eq(other, &key)).is_some() {
                    messages.push(&mut frame.buffer[MESSAGE_START..]);
                }
            }
            key.sign_all(&mut messages);
        }
    }
}

fn put_prefix(buffer: &mut [u8], at: Range<usize>, length: usize) {
    debug_assert!(length < 1 << 24, "frames are bounded by FRAME_BYTES_MAX");
    buffer[at].copy_from_slice(&(length as u32).to_be_bytes());
}
