//! What has arrived from one NFS client and was not handled yet: records, by the marks of
//! their fragments. RFC 5531 11.

use crate::limits::{
    FRAME_BYTES_PER_SECOND_MIN, FRAME_PROOF_BYTES, FRAME_STEP_BYTES, RECEIVE_BYTES,
};
use crate::spare;
use bytes::{Buf, Bytes, BytesMut};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::ReadHalf;
use wire::nfs::rpc::record::MARK_BYTES;
use wire::nfs::rpc::{Scan, scan_record};

/// What arrived is no record, or one that is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRecord(pub &'static str);

/// Bytes of one connection: complete records, then perhaps a part of one.
#[derive(Debug, Default)]
pub struct Input {
    buffer: BytesMut,
    /// When the record at the front began to arrive.
    began: Option<Instant>,
}

impl Input {
    /// Receives once. An idle connection has no buffer: it takes one when there
    /// is something to read. Nothing is lost if this is dropped.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn receive(&mut self, reader: &mut ReadHalf<'_>, room: usize) -> io::Result<usize> {
        if self.buffer.capacity() == 0 {
            reader.readable().await?;
        }
        poll_fn(|cx| {
            if self.buffer.capacity() == 0 {
                self.buffer = spare::take();
            }
            self.buffer.reserve(room);
            let received = pin!(reader.read_buf(&mut self.buffer)).poll(cx);
            if received.is_pending() {
                // Called readable in vain, as every new connection is once.
                self.release();
            }
            received
        })
        .await
    }

    /// Room that the next receive should have. A record gets what it lacks once a part of
    /// it is there that costs the sender something too, and beyond a step only as much
    /// again as has arrived.
    ///
    /// # Errors
    /// See [`Input::take_record`].
    pub fn room(&self, length_max: usize) -> Result<usize, BadRecord> {
        let small = RECEIVE_BYTES - RECEIVE_BYTES / 4;
        let Scan::Incomplete { stream_bytes_min } = self.scan(length_max)? else {
            return Ok(small);
        };
        if self.buffer.len() < FRAME_PROOF_BYTES {
            return Ok(small);
        }
        let missing = stream_bytes_min.saturating_sub(self.buffer.len());
        Ok(missing.min(FRAME_STEP_BYTES.max(self.buffer.len())).max(small))
    }

    /// Whether a record is complete.
    ///
    /// # Errors
    /// See [`Input::take_record`].
    pub fn has_record(&self, length_max: usize) -> Result<bool, BadRecord> {
        Ok(matches!(self.scan(length_max)?, Scan::Complete(_)))
    }

    /// The next record that is complete, without its marks.
    ///
    /// # Errors
    /// [`BadRecord`] if the marks are none, or announce more than `length_max`.
    pub fn take_record(&mut self, length_max: usize) -> Result<Option<Bytes>, BadRecord> {
        let Scan::Complete(extent) = self.scan(length_max)? else { return Ok(None) };
        self.began = None;
        let mut record = self.buffer.split_to(extent.stream_bytes);
        if extent.fragments == 1 {
            record.advance(MARK_BYTES);
            return Ok(Some(record.freeze()));
        }
        Ok(Some(extent.payload(&record).into_owned().into()))
    }

    /// What is there of the first fragment, without its mark, and perhaps of what follows.
    pub fn front(&self) -> &[u8] {
        self.buffer.get(MARK_BYTES..).unwrap_or_default()
    }

    fn scan(&self, length_max: usize) -> Result<Scan, BadRecord> {
        scan_record(&self.buffer, length_max).map_err(|malformed| BadRecord(malformed.what))
    }

    /// Starts the clock of a record that is there in part, if it does not run.
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

    /// When the record at the front must be complete, if it may stall for `within`.
    pub fn deadline(&self, within: Duration) -> Option<Instant> {
        let began = self.began?;
        let length = match self.scan(usize::MAX) {
            Ok(Scan::Incomplete { stream_bytes_min }) => stream_bytes_min,
            _ => 0,
        };
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
        Input { buffer: BytesMut::from(bytes), began: None }
    }

    #[test]
    fn records_are_taken_whole_and_in_order() {
        let mut input = input(b"\x80\0\0\x02ab\x80\0\0\x03cd");
        assert_eq!(input.take_record(9).unwrap().unwrap(), &b"ab"[..]);
        assert!(!input.has_record(9).unwrap());
        assert_eq!(input.take_record(9), Ok(None));
        input.buffer.extend_from_slice(b"e");
        assert_eq!(input.take_record(9).unwrap().unwrap(), &b"cde"[..]);
        assert!(input.take_record(9).unwrap().is_none());
    }

    #[test]
    fn fragments_of_a_record_are_put_together() {
        let mut input = input(b"\0\0\0\x02ab\x80\0\0\x01c\x80\0\0\x01d");
        assert_eq!(input.take_record(3).unwrap().unwrap(), &b"abc"[..]);
        assert_eq!(input.take_record(3).unwrap().unwrap(), &b"d"[..]);
    }

    #[test]
    fn a_length_one_beyond_the_limit_is_refused_before_anything_arrives() {
        assert!(input(b"\x80\0\0\x0a").take_record(9).is_err());
        assert_eq!(input(b"\x80\0\0\x09").take_record(9), Ok(None));
        assert!(input(b"\0\0\0\x05abcde\x80\0\0\x05").take_record(9).is_err(), "together");
    }

    #[test]
    fn room_follows_what_has_arrived_and_not_what_is_announced() {
        let mut input = input(&[0x80, 0x80, 0, 0]);
        assert_eq!(input.room(usize::MAX).unwrap(), RECEIVE_BYTES / 4 * 3);
        input.buffer.resize(FRAME_PROOF_BYTES, 0);
        assert_eq!(input.room(usize::MAX).unwrap(), FRAME_STEP_BYTES);
    }

    #[test]
    fn a_part_of_a_record_is_waited_for_as_long_as_its_length_takes() {
        let start = Instant::now();
        let mut input = input(&[0x80, 0, 0x80, 0, 1]);
        assert_eq!(input.deadline(WITHIN), None);
        input.watch(start);
        let due = start + WITHIN + Duration::from_secs(2);
        assert_eq!(input.deadline(WITHIN), Some(due));
        // More bytes of the same record do not give more time.
        input.buffer.extend_from_slice(&[0; 100]);
        input.watch(start + Duration::from_secs(9));
        assert_eq!(input.deadline(WITHIN), Some(due));
        input.unwatch();
        assert_eq!(input.deadline(WITHIN), None);
    }
}
