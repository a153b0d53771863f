//! What has arrived from one client and was not handled yet.
//!
//! Knows nothing of SMB but the 4-byte prefix of direct TCP. MS-SMB2 2.1.

use crate::limits::{
    FRAME_BYTES_PER_SECOND_MIN, FRAME_PROOF_BYTES, FRAME_STEP_BYTES, LARGE_FRAME_BYTES,
    RECEIVE_BYTES,
};
use crate::spare;
use bytes::buf::Limit;
use bytes::{Buf, BufMut, BytesMut};
use smb::Close;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use wire::frame::{self, PREFIX_BYTES as PREFIX};

const PAGE_BYTES: usize = 4096;

/// Where the data of a WRITE that is not sealed begins in its frame.
const WRITE_DATA_AT: usize = wire::smb::Header::LENGTH + 48;

/// Bytes of one connection: complete frames, then perhaps a part of one.
#[derive(Debug, Default)]
pub struct Input {
    buffer: BytesMut,
    /// When the frame at the front began to arrive.
    began: Option<Instant>,
    /// Length of the last frame, if it was large: the next is expected to be like it.
    large_length: Option<usize>,
}

/// An empty buffer for a frame like one of `length` bytes, whose data begins with a
/// page: copying out of the socket and into the page cache is a tenth quicker then.
fn page_aligned(length: usize) -> BytesMut {
    let mut buffer = BytesMut::with_capacity(PAGE_BYTES + PREFIX + length);
    let data = buffer.as_ptr().addr() + PREFIX + WRITE_DATA_AT;
    let gap = data.next_multiple_of(PAGE_BYTES) - data;
    buffer.resize(gap, 0);
    buffer.advance(gap);
    buffer
}

impl Input {
    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Receives once. An idle connection has no buffer: it takes one when there
    /// is something to read. A read that does not fill it shows that the socket
    /// is empty, so none is tried in vain. Nothing is lost if this is dropped.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn receive(&mut self, reader: &mut ReadHalf<'_>, room: usize) -> io::Result<usize> {
        if self.buffer.capacity() == 0 {
            reader.readable().await?;
        }
        poll_fn(|cx| {
            let mut into = self.prepare(room);
            let received = pin!(reader.read_buf(&mut into)).poll(cx);
            if received.is_pending() {
                // Called readable in vain, as every new connection is once.
                self.release();
            }
            received
        })
        .await
    }

    /// Receives once what is there already; says how many bytes. The end of the stream and errors
    /// are left to [`Input::receive`].
    pub fn receive_now(&mut self, stream: &TcpStream, room: usize) -> usize {
        stream.try_read_buf(&mut self.prepare(room)).unwrap_or(0)
    }

    /// Where to receive to. A large frame is received to its end and no further, so that
    /// the next one has a buffer of its own; the first after a large one in one piece.
    fn prepare(&mut self, room: usize) -> Limit<&mut BytesMut> {
        if self.buffer.capacity() == 0 {
            if let Some(length) = self.large_length {
                self.buffer = page_aligned(length);
                return (&mut self.buffer).limit(PREFIX + length);
            }
            self.buffer = spare::take();
        }
        self.buffer.reserve(room);
        let limit = match self.frame_length(usize::MAX) {
            Ok(Some(length)) if length >= LARGE_FRAME_BYTES => {
                (PREFIX + length).saturating_sub(self.buffer.len())
            }
            _ => usize::MAX,
        };
        (&mut self.buffer).limit(limit)
    }

    /// Room that the next receive should have. A frame gets what it lacks once a
    /// part of it is there that costs the sender something too, and beyond a step
    /// only as much again as has arrived.
    ///
    /// # Errors
    /// See [`Input::take_frame`].
    pub fn room(&self, length_max: usize) -> Result<usize, Close> {
        let small = RECEIVE_BYTES - RECEIVE_BYTES / 4;
        let Some(length) = self.frame_length(length_max)? else { return Ok(small) };
        if self.buffer.len() < FRAME_PROOF_BYTES {
            return Ok(small);
        }
        let missing = (length + PREFIX).saturating_sub(self.buffer.len());
        Ok(missing.min(FRAME_STEP_BYTES.max(self.buffer.len())).max(small))
    }

    /// Whether a frame is complete.
    ///
    /// # Errors
    /// See [`Input::take_frame`].
    pub fn has_frame(&self, length_max: usize) -> Result<bool, Close> {
        Ok(self
            .frame_length(length_max)?
            .is_some_and(|length| self.buffer.len() >= PREFIX + length))
    }

    /// The next frame that is complete, without its prefix.
    ///
    /// # Errors
    /// [`Close`] if the prefix is not one, or announces more than `length_max`.
    pub fn take_frame(&mut self, length_max: usize) -> Result<Option<BytesMut>, Close> {
        let Some(length) = self.frame_length(length_max)? else { return Ok(None) };
        if self.buffer.len() < PREFIX + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        self.began = None;
        self.large_length =
            (LARGE_FRAME_BYTES..=FRAME_STEP_BYTES).contains(&length).then_some(length);
        Ok(Some(self.buffer.split_to(length)))
    }

    /// Length of the frame at the front, if its prefix is there.
    fn frame_length(&self, length_max: usize) -> Result<Option<usize>, Close> {
        let Some(&prefix) = self.buffer.first_chunk::<PREFIX>() else { return Ok(None) };
        let length = frame::payload_length(prefix).map_err(|_| Close::Garbage("prefix"))?;
        if length > length_max {
            return Err(Close::Garbage("frame length"));
        }
        Ok(Some(length))
    }

    /// Starts the clock of a frame that is there in part, if it does not run.
    pub fn watch(&mut self, now: Instant) {
        if self.buffer.is_empty() {
            self.began = None;
        } else if self.began.is_none() {
            self.began = Some(now);
        }
    }

    /// Stops the clock: it is we who do not read.
    pub fn unwatch(&mut self) {
        self.began = None;
    }

    /// When the frame at the front must be complete, if it may stall for `within`.
    pub fn deadline(&self, within: Duration) -> Option<Instant> {
        let began = self.began?;
        let length = self.frame_length(usize::MAX).ok().flatten().unwrap_or_default();
        Some(began + within + Duration::from_secs((length / FRAME_BYTES_PER_SECOND_MIN) as u64))
    }

    /// Lets go of the buffer if nothing is in it.
    pub fn release(&mut self) {
        spare::give_back(&mut self.buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(30);

    fn input(bytes: &[u8]) -> Input {
        Input { buffer: BytesMut::from(bytes), ..Input::default() }
    }

    #[test]
    fn frames_are_taken_whole_and_in_order() {
        let mut input = input(b"\0\0\0\x02ab\0\0\0\x00\0\0\0\x03cd");
        assert_eq!(input.take_frame(9).unwrap().unwrap(), &b"ab"[..]);
        assert_eq!(input.take_frame(9).unwrap().unwrap(), &b""[..]);
        assert!(!input.has_frame(9).unwrap());
        assert_eq!(input.take_frame(9).unwrap(), None);
        input.buffer.extend_from_slice(b"e");
        assert!(input.has_frame(9).unwrap());
        assert_eq!(input.take_frame(9).unwrap().unwrap(), &b"cde"[..]);
        assert!(input.is_empty());
    }

    #[test]
    fn a_length_one_beyond_the_limit_is_refused_before_anything_arrives() {
        assert_eq!(input(b"\0\0\0\x0a").take_frame(9), Err(Close::Garbage("frame length")));
        assert_eq!(input(b"\0\0\0\x09").take_frame(9), Ok(None));
        assert_eq!(input(b"GET ").take_frame(usize::MAX), Err(Close::Garbage("prefix")));
    }

    #[test]
    fn room_follows_what_has_arrived_and_not_what_is_announced() {
        let mut input = input(&[0, 0x80, 0, 0]);
        assert_eq!(input.room(usize::MAX).unwrap(), RECEIVE_BYTES / 4 * 3);
        input.buffer.resize(FRAME_PROOF_BYTES, 0);
        assert_eq!(input.room(usize::MAX).unwrap(), FRAME_STEP_BYTES);
        input.buffer.resize(4 * 1024 * 1024, 0);
        assert_eq!(
            input.room(usize::MAX).unwrap(),
            4 * 1024 * 1024,
            "as much again as has arrived"
        );
    }

    #[test]
    fn a_frame_after_a_large_one_has_a_buffer_of_its_own_with_its_data_on_a_page() {
        let mut first = vec![0, 4, 0, 0];
        first.resize(PREFIX + LARGE_FRAME_BYTES, 7);
        let mut input = input(&first[..100]);
        assert_eq!(
            Limit::limit(&input.prepare(1 << 20)),
            first.len() - 100,
            "no byte of the next one"
        );
        input.buffer.extend_from_slice(&first[100..]);
        let taken = input.take_frame(LARGE_FRAME_BYTES).unwrap().unwrap();
        assert_eq!(taken.len(), LARGE_FRAME_BYTES);
        input.release();
        // However the allocator places it.
        for _ in 0..10 {
            let mut next = Input { large_length: input.large_length, ..Input::default() };
            assert_eq!(Limit::limit(&next.prepare(1)), first.len());
            next.buffer.extend_from_slice(&first);
            let frame = next.take_frame(LARGE_FRAME_BYTES).unwrap().unwrap();
            assert_eq!(frame, first[PREFIX..]);
            assert_eq!(frame[WRITE_DATA_AT..].as_ptr().addr() % PAGE_BYTES, 0);
        }
    }

    #[test]
    fn small_frames_are_received_together() {
        let mut input = input(b"\0\0\0\x02ab");
        assert!(input.take_frame(9).unwrap().is_some());
        assert_eq!(input.large_length, None);
        assert!(Limit::limit(&input.prepare(1000)) > 1000);
    }

    #[test]
    fn a_part_of_a_frame_is_waited_for_as_long_as_its_length_takes() {
        let start = Instant::now();
        let mut input = input(&[0, 0, 0x80, 0, 1]);
        assert_eq!(input.deadline(WITHIN), None);
        input.watch(start);
        let due = start + WITHIN + Duration::from_secs(2);
        assert_eq!(input.deadline(WITHIN), Some(due));
        // More bytes of the same frame do not give more time.
        input.buffer.extend_from_slice(&[0; 100]);
        input.watch(start + Duration::from_secs(9));
        assert_eq!(input.deadline(WITHIN), Some(due));
        input.unwatch();
        assert_eq!(input.deadline(WITHIN), None);
    }

    #[test]
    fn the_clock_runs_anew_for_every_frame() {
        let start = Instant::now();
        let mut input = input(b"\0\0\0\x01a\0\0");
        input.watch(start);
        assert!(input.take_frame(9).unwrap().is_some());
        input.watch(start + Duration::from_secs(5));
        assert_eq!(input.deadline(WITHIN), Some(start + Duration::from_secs(5) + WITHIN));
    }
}
