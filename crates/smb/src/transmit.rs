//! Frames on their way out.

use crate::channel::Channel;
use crate::limits::{SIGNED_TOGETHER, TRANSMIT_EARLY_BYTES};
use crate::metering::SentList;
use files::ResidentRange;
use meter::StageTimes;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
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
    pub file: Option<ResidentRange>,
    /// Whose key the message is still to be signed with, which is done for several at once.
    pub(crate) unsigned: Option<Arc<Channel>>,
    /// What it answers, to be counted once it has left.
    pub sent: SentList,
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
    pub fn plain(mut buffer: Vec<u8>, file: Option<ResidentRange>) -> Self {
        let start = MESSAGE_START - PREFIX;
        let length = buffer.len() - MESSAGE_START + file.as_ref().map_or(0, |f| f.length_bytes);
        put_prefix(&mut buffer, start..MESSAGE_START, length);
        Self { buffer, start, file, unsigned: None, sent: SentList::new() }
    }

    /// Frames a buffer whose transform header has been filled.
    #[must_use]
    pub fn sealed(mut buffer: Vec<u8>) -> Self {
        let length = buffer.len() - PREFIX;
        put_prefix(&mut buffer, 0..PREFIX, length);
        Self { buffer, start: 0, file: None, unsigned: None, sent: SentList::new() }
    }

    /// Signs it, if that is still to be done.
    pub(crate) fn sign(&mut self) {
        if let Some(channel) = self.unsigned.take() {
            channel.signing.sign(&mut self.buffer[MESSAGE_START..]);
        }
    }

    /// Bytes that the frame has on the wire.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.buffer.len() - self.start + self.file.as_ref().map_or(0, |f| f.length_bytes)
    }
}

/// Frames that wait to be sent, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Transmit>,
    bytes: usize,
}

impl Outbox {
    pub fn push(&mut self, transmit: Transmit) {
        self.bytes += transmit.length_bytes();
        self.queue.push_back(transmit);
    }

    /// The next frame. If it is not signed yet, all are that are not.
    pub fn pop(&mut self, stages: &StageTimes) -> Option<Transmit> {
        if self.queue.front()?.unsigned.is_some() {
            stages.crypto(|| self.sign_together());
        }
        let transmit = self.queue.pop_front()?;
        self.bytes -= transmit.length_bytes();
        Some(transmit)
    }

    /// Bytes of all frames.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the frames had better leave before more is asked for: the client has something
    /// to do meanwhile, and buffers are used again while the processor's cache still has them.
    /// What is to be signed together waits for its like.
    pub fn is_worth_sending(&self) -> bool {
        let is_unsigned = self.queue.front().is_some_and(|front| front.unsigned.is_some());
        self.bytes >= TRANSMIT_EARLY_BYTES && (!is_unsigned || self.queue.len() >= SIGNED_TOGETHER)
    }

    /// Gives memory back if nothing waits.
    pub fn shrink(&mut self) {
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }

    /// Signs what is not signed yet, all messages of one key together.
    fn sign_together(&mut self) {
        while let Some(channel) = self.queue.iter().find_map(|frame| frame.unsigned.clone()) {
            let mut messages = Vec::new();
            for frame in &mut self.queue {
                if frame.unsigned.take_if(|other| Arc::ptr_eq(other, &channel)).is_some() {
                    messages.push(&mut frame.buffer[MESSAGE_START..]);
                }
            }
            channel.signing.sign_all(&mut messages);
        }
    }
}

fn put_prefix(buffer: &mut [u8], at: Range<usize>, length: usize) {
    debug_assert!(length < 1 << 24, "frames are bounded by FRAME_BYTES_MAX");
    buffer[at].copy_from_slice(&(length as u32).to_be_bytes());
}
