//! Records on their way to one NFS client: those that are ready together leave in one
//! system call.

use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Records in one system call.
const SLICES_MAX: usize = 64;

/// Records that have not left yet.
#[derive(Debug, Default)]
pub struct Output {
    queue: VecDeque<Vec<u8>>,
    /// Bytes of the first that have left.
    sent: usize,
    bytes: usize,
}

impl Output {
    /// Queues a record.
    pub fn push(&mut self, record: Vec<u8>) {
        self.bytes += record.len();
        self.queue.push_back(record);
    }

    /// Whether everything has left.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes that wait.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// Sends what the socket takes; says how many bytes it took.
    ///
    /// # Errors
    /// Those of the socket; not that it is full.
    pub fn flush(&mut self, stream: &TcpStream) -> io::Result<usize> {
        let before = self.bytes;
        while !self.queue.is_empty() {
            match self.send(stream) {
                Ok(count) => self.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(before - self.bytes)
    }

    fn send(&self, stream: &TcpStream) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut skipped = self.sent;
        for (slice, record) in slices.iter_mut().zip(&self.queue) {
            *slice = IoSlice::new(&record[skipped..]);
            skipped = 0;
            count += 1;
        }
        stream.try_io(Interest::WRITABLE, || {
            let mut none = SendAncillaryBuffer::default();
            let flags = SendFlags::NOSIGNAL;
            Ok(rustix::net::sendmsg(stream.as_fd(), &slices[..count], &mut none, flags)?)
        })
    }

    fn advance(&mut self, mut count: usize) {
        self.bytes -= count;
        while let Some(front) = self.queue.front() {
            let left = front.len() - self.sent;
            if count < left {
                self.sent += count;
                return;
            }
            count -= left;
            self.sent = 0;
            self.queue.pop_front();
        }
    }
}
