//! Received bytes of one client that were not handled yet.
//!
//! The buffer knows only the framing of the protocol.

use crate::conn::memory::MemoryLease;
use crate::conn::protocol::{End, Framing};
use crate::conn::spare;
use crate::conn::tls::Tls;
use crate::limits::{
    FRAME_BYTES_PER_SECOND_MIN, FRAME_PROOF_BYTES, FRAME_STEP_BYTES, LARGE_FRAME_BYTES,
    RECEIVE_BYTES, SPARE_BUFFER_BYTES_MAX,
};
use bytes::buf::Limit;
use bytes::{Buf, BufMut, BytesMut};
use meter::Arrival;
use std::future::{Future, poll_fn};
use std::io;
use std::marker::PhantomData;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;

const PAGE_BYTES: usize = 4096;

/// Receive buffer of one connection: complete frames, then perhaps a partial one.
#[derive(Debug)]
pub struct ReceiveBuffer<F> {
    buffer: BytesMut,
    /// Arrival time of the first byte of the frame at the front.
    began: Option<Instant>,
    /// Shape of the last frame if it was large; the next frame is expected to be alike.
    large: Option<LargeFrame>,
    /// Length of the last frame that was taken, including its framing.
    taken_bytes: usize,
    /// Arrival time of that frame's first byte, if it came in several pieces.
    taken_began: Option<Instant>,
    /// See [`ReceiveBuffer::is_admitted`].
    is_admitted: bool,
    framing: PhantomData<F>,
}

/// Shape of a large frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LargeFrame {
    /// Length including the framing, in bytes.
    length_bytes: usize,
    /// Offset of a WRITE's data from the start of the frame.
    data_at: usize,
}

impl LargeFrame {
    /// Allocates a buffer for a frame of this shape so that its data begins on a page boundary.
    /// Copies from the socket and into the page cache are a tenth faster then.
    fn buffer(self) -> BytesMut {
        let mut buffer = BytesMut::with_capacity(PAGE_BYTES + self.length_bytes);
        let data = buffer.as_ptr().addr() + self.data_at;
        let gap = data.next_multiple_of(PAGE_BYTES) - data;
        buffer.resize(gap, 0);
        buffer.advance(gap);
        buffer
    }
}

impl<F> Default for ReceiveBuffer<F> {
    fn default() -> Self {
        Self {
            buffer: BytesMut::new(),
            began: None,
            large: None,
            taken_bytes: 0,
            taken_began: None,
            is_admitted: false,
            framing: PhantomData,
        }
    }
}

impl<F: Framing> ReceiveBuffer<F> {
    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Receives once. An idle connection has no buffer: this call allocates one when the socket is
    /// readable. A read that does not fill the buffer shows that the socket is empty, so no second
    /// read follows. Cancel safe.
    ///
    /// # Errors
    /// Any error of the socket.
    pub async fn receive(
        &mut self,
        reader: &mut ReadHalf<'_>,
        room: usize,
        lease: &mut MemoryLease,
    ) -> io::Result<usize> {
        if self.buffer.capacity() == 0 {
            reader.readable().await?;
            self.expect(lease);
        }
        poll_fn(|cx| {
            let mut into = self.prepare(room);
            let received = pin!(reader.read_buf(&mut into)).poll(cx);
            if received.is_pending() {
                // The readiness was spurious, as it is once for each new connection.
                self.release();
            }
            received
        })
        .await
    }

    /// As [`ReceiveBuffer::receive`], from a TLS stream.
    ///
    /// # Errors
    /// Any error of [`Tls::arrived`].
    pub async fn receive_by(
        &mut self,
        tls: &mut Tls,
        stream: &TcpStream,
        room: usize,
        lease: &mut MemoryLease,
    ) -> Result<usize, End> {
        if !tls.arrived(stream).await? {
            return Ok(0);
        }
        self.expect(lease);
        let into = self.prepare(room);
        let room = room.min(into.remaining_mut());
        tls.take(&mut into.limit(room)).map_err(End::Network)
    }

    /// Receives bytes that are already in the socket and returns their number.
    /// [`ReceiveBuffer::receive`] reports the end of the stream and errors.
    pub fn receive_now(
        &mut self,
        stream: &TcpStream,
        room: usize,
        lease: &mut MemoryLease,
    ) -> usize {
        self.expect(lease);
        stream.try_read_buf(&mut self.prepare(room)).unwrap_or(0)
    }

    /// Drops the plan for a large buffer unless `lease` covers it: no byte of that frame has
    /// arrived yet.
    fn expect(&mut self, lease: &mut MemoryLease) {
        if self.buffer.capacity() == 0
            && let Some(large) = self.large
            && !lease.covers_more(large.length_bytes)
        {
            self.large = None;
        }
    }

    /// Bytes of memory that the buffer takes, or will take when the frame at the front is complete.
    /// Zero until enough of a large frame has arrived.
    pub fn held_bytes(&self) -> usize {
        let capacity = self.buffer.capacity();
        let own = if capacity > SPARE_BUFFER_BYTES_MAX { capacity } else { 0 };
        self.large_extent().unwrap_or(own)
    }

    /// Whether a part of a large frame has arrived.
    pub fn is_large(&self) -> bool {
        self.large_extent().is_some()
    }

    fn large_extent(&self) -> Option<usize> {
        let extent = self.extent(usize::MAX).ok()?;
        let is_proven = self.buffer.len() >= FRAME_PROOF_BYTES;
        (is_proven && extent > SPARE_BUFFER_BYTES_MAX).then_some(extent)
    }

    /// Whether memory for the whole frame at the front was granted; the grant lasts until the frame
    /// is taken.
    pub fn is_admitted(&self) -> bool {
        self.is_admitted
    }

    /// See [`ReceiveBuffer::is_admitted`].
    pub fn admit(&mut self) {
        self.is_admitted = true;
    }

    /// Prepares the buffer to receive into. A large frame is received up to its end and no further,
    /// so that the next frame gets its own buffer. The first frame after a large one is received in
    /// one piece.
    fn prepare(&mut self, room: usize) -> Limit<&mut BytesMut> {
        if self.buffer.capacity() == 0 {
            if let Some(large) = self.large {
                self.buffer = large.buffer();
                return (&mut self.buffer).limit(large.length_bytes);
            }
            self.buffer = spare::take();
        }
        self.buffer.reserve(room);
        let limit = match self.extent(usize::MAX) {
            Ok(extent) if extent >= LARGE_FRAME_BYTES => extent.saturating_sub(self.buffer.len()),
            _ => usize::MAX,
        };
        (&mut self.buffer).limit(limit)
    }

    /// Room for the next receive, in bytes. A frame gets its missing length only after the sender
    /// has sent a substantial part. Beyond one step it gets at most as much again as has arrived.
    ///
    /// # Errors
    /// See [`ReceiveBuffer::take_frame`].
    pub fn room(&self, length_max: usize) -> Result<usize, End> {
        let small = RECEIVE_BYTES - RECEIVE_BYTES / 4;
        let extent = self.extent(length_max)?;
        if self.buffer.len() < FRAME_PROOF_BYTES {
            return Ok(small);
        }
        let missing = extent.saturating_sub(self.buffer.len());
        Ok(missing.min(FRAME_STEP_BYTES.max(self.buffer.len())).max(small))
    }

    /// Whether the frame at the front is complete.
    ///
    /// # Errors
    /// See [`ReceiveBuffer::take_frame`].
    pub fn has_frame(&self, length_max: usize) -> Result<bool, End> {
        Ok(self.extent(length_max)? <= self.buffer.len())
    }

    /// Takes the next complete frame, without its framing.
    ///
    /// # Errors
    /// [`End::Garbage`] if the framing is invalid or announces more than `length_max`.
    pub fn take_frame(&mut self, length_max: usize) -> Result<Option<BytesMut>, End> {
        let length_bytes = self.extent(length_max)?;
        if self.buffer.len() < length_bytes {
            return Ok(None);
        }
        let frame = F::unmark(self.buffer.split_to(length_bytes));
        self.taken_began = self.began.take();
        self.is_admitted = false;
        self.taken_bytes = length_bytes;
        self.large = (LARGE_FRAME_BYTES..=FRAME_STEP_BYTES)
            .contains(&length_bytes)
            .then(|| LargeFrame { length_bytes, data_at: F::PREFIX_BYTES + F::data_at(&frame) });
        Ok(Some(frame))
    }

    /// Arrival facts of the last frame, which was taken at `now`.
    pub fn arrival(&self, now: Instant) -> Arrival {
        let first_byte = self.taken_began.unwrap_or(now);
        Arrival { first_byte, taken: now, wire_bytes: self.taken_bytes as u64 }
    }

    /// Payload bytes at the front of the buffer; later messages may follow.
    pub fn front(&self) -> &[u8] {
        self.buffer.get(F::PREFIX_BYTES..).unwrap_or_default()
    }

    fn extent(&self, length_max: usize) -> Result<usize, End> {
        F::extent(&self.buffer, length_max).map_err(End::Garbage)
    }

    /// Starts the timeout of a partial frame, if it does not run.
    pub fn watch(&mut self, now: Instant) {
        if self.buffer.is_empty() {
            self.began = None;
        } else if self.began.is_none() {
            self.began = Some(now);
        }
    }

    /// Stops the timeout, because the server itself has stopped reading.
    pub fn unwatch(&mut self) {
        self.began = None;
    }

    /// Deadline for the frame at the front, if it may stall for `within`.
    pub fn deadline(&self, within: Duration) -> Option<Instant> {
        let began = self.began?;
        let length = self.extent(usize::MAX).unwrap_or_default();
        Some(began + within + Duration::from_secs((length / FRAME_BYTES_PER_SECOND_MIN) as u64))
    }

    /// Releases the buffer if it is empty.
    pub fn release(&mut self) {
        spare::give_back(&mut self.buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::nfs_protocol::RecordMarks;
    use crate::conn::smb_protocol::DirectTcp;

    const WITHIN: Duration = Duration::from_secs(30);

    type ReceiveBuffer = super::ReceiveBuffer<DirectTcp>;

    fn input(bytes: &[u8]) -> ReceiveBuffer {
        ReceiveBuffer { buffer: BytesMut::from(bytes), ..ReceiveBuffer::default() }
    }

    #[test]
    fn frames_are_returned_whole_and_in_order() {
        let mut input = input(b"\0\0\0\x02ab\0\0\0\x00\0\0\0\x03cd");
        assert_eq!(input.take_frame(9).unwrap().unwrap(), &b"ab"[..]);
        assert_eq!(input.take_frame(9).unwrap().unwrap(), &b""[..]);
        assert!(!input.has_frame(9).unwrap());
        assert!(input.take_frame(9).unwrap().is_none());
        input.buffer.extend_from_slice(b"e");
        assert!(input.has_frame(9).unwrap());
        assert_eq!(input.take_frame(9).unwrap().unwrap(), &b"cde"[..]);
        assert!(input.is_empty());
    }

    #[test]
    fn buffer_grows_with_received_bytes_not_with_announced_ones() {
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
    fn large_frame_is_charged_in_full_at_its_first_bytes() {
        let mut input = input(&[0, 0x80, 0, 0]);
        assert_eq!(input.held_bytes(), 0, "a length alone is a wish");
        input.buffer.resize(FRAME_PROOF_BYTES, 0);
        let whole = DirectTcp::PREFIX_BYTES + 0x80_0000;
        assert_eq!(input.held_bytes(), whole);
        input.admit();
        input.buffer.resize(whole / 2 + 1, 0);
        input.buffer.reserve(whole);
        assert_eq!(input.held_bytes(), whole, "whatever its buffer grows to");
        assert!(input.is_admitted());
        input.buffer.resize(whole, 0);
        assert!(input.take_frame(usize::MAX).unwrap().is_some());
        assert!(!input.is_admitted(), "the next frame asks anew");
    }

    #[test]
    fn large_frame_gets_its_own_buffer_with_page_aligned_data() {
        let mut first = vec![0, 4, 0, 0];
        first.resize(DirectTcp::PREFIX_BYTES + LARGE_FRAME_BYTES, 7);
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
        // The alignment must not depend on the allocator.
        for _ in 0..10 {
            let mut next = ReceiveBuffer { large: input.large, ..ReceiveBuffer::default() };
            assert_eq!(Limit::limit(&next.prepare(1)), first.len());
            next.buffer.extend_from_slice(&first);
            let frame = next.take_frame(LARGE_FRAME_BYTES).unwrap().unwrap();
            assert_eq!(frame, first[DirectTcp::PREFIX_BYTES..]);
            let data = &frame[DirectTcp::data_at(&frame)..];
            assert_eq!(data.as_ptr().addr() % PAGE_BYTES, 0);
        }
    }

    #[test]
    fn fragmented_message_is_returned_after_its_last_fragment() {
        let stream = b"\0\0\0\x02ab\x80\0\0\x01c";
        let mut input = super::ReceiveBuffer::<RecordMarks>::default();
        for byte in stream {
            assert!(input.take_frame(9).unwrap().is_none());
            input.buffer.extend_from_slice(&[*byte]);
        }
        assert_eq!(input.take_frame(9).unwrap().unwrap(), &b"abc"[..]);
        assert!(input.is_empty());
    }

    #[test]
    fn small_frames_are_received_together() {
        let mut input = input(b"\0\0\0\x02ab");
        assert!(input.take_frame(9).unwrap().is_some());
        assert_eq!(input.large, None);
        assert!(Limit::limit(&input.prepare(1000)) > 1000);
    }

    #[test]
    fn partial_frame_timeout_grows_with_its_length() {
        let start = Instant::now();
        let mut input = input(&[0, 0, 0x80, 0, 1]);
        assert_eq!(input.deadline(WITHIN), None);
        input.watch(start);
        let due = start + WITHIN + Duration::from_secs(2);
        assert_eq!(input.deadline(WITHIN), Some(due));
        // More bytes of the same frame do not extend the deadline.
        input.buffer.extend_from_slice(&[0; 100]);
        input.watch(start + Duration::from_secs(9));
        assert_eq!(input.deadline(WITHIN), Some(due));
        input.unwatch();
        assert_eq!(input.deadline(WITHIN), None);
    }

    #[test]
    fn frame_timeout_restarts_with_each_frame() {
        let start = Instant::now();
        let mut input = input(b"\0\0\0\x01a\0\0");
        input.watch(start);
        assert!(input.take_frame(9).unwrap().is_some());
        input.watch(start + Duration::from_secs(5));
        assert_eq!(input.deadline(WITHIN), Some(start + Duration::from_secs(5) + WITHIN));
    }
}
