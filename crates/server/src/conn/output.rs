//! Send queue of one client: buffers that one system call sends together, and ranges of files that
//! are sent from the page cache.

use crate::conn::protocol::{OutgoingMessage, Protocol};
use crate::conn::tls::Tls;
use meter::SentReply;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Maximum number of buffers in one system call.
const SLICES_MAX: usize = 64;
/// Sent in place of the rest of a file that became shorter than the announced length.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Queue of unsent messages.
#[derive(Debug, Default)]
pub struct Output {
    queue: VecDeque<QueuedMessage>,
    bytes: usize,
    /// Memory of the queued buffers, including parts that were already sent.
    buffer_bytes: usize,
    /// Requests whose replies were sent since the last [`Output::take_sent`].
    sent: Vec<SentReply>,
}

#[derive(Debug)]
struct QueuedMessage {
    message: OutgoingMessage,
    /// Sent bytes of the buffer, including `start`.
    sent: usize,
    /// Sent bytes of the file.
    file_sent: usize,
    /// The file was shorter than announced.
    file_ended: bool,
}

impl Output {
    /// Queues a message.
    pub fn push(&mut self, message: OutgoingMessage) {
        self.bytes += message.length_bytes();
        self.buffer_bytes += message.buffer.capacity();
        let sent = message.start;
        self.queue.push_back(QueuedMessage { message, sent, file_sent: 0, file_ended: false });
    }

    /// Whether all output was sent.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of unsent bytes.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of the queued buffers; file ranges take none.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Takes the requests whose replies were sent.
    pub fn take_sent(&mut self) -> impl Iterator<Item = SentReply> {
        self.sent.drain(..)
    }

    /// Sends as much as the socket takes and returns the number of bytes. Sent buffers return to
    /// `conn`.
    ///
    /// # Errors
    /// Any error of the socket, except that it is full.
    pub fn flush(&mut self, stream: &TcpStream, conn: &mut impl Protocol) -> io::Result<usize> {
        let before = self.bytes;
        while let Some(front) = self.queue.front() {
            let in_buffer = front.sent < front.message.buffer.len();
            let result = if in_buffer { self.send_buffers(stream) } else { self.send_file(stream) };
            match result {
                Ok(count) => self.advance(count, conn),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(before - self.bytes)
    }

    /// As [`Output::flush`], on a TLS stream. Encrypted bytes leave this queue.
    ///
    /// # Errors
    /// As [`Output::flush`].
    pub fn flush_by(
        &mut self,
        tls: &mut Tls,
        stream: &TcpStream,
        conn: &mut impl Protocol,
    ) -> io::Result<usize> {
        let mut sent = tls.send(stream)?;
        while !tls.has_unsent() && !self.queue.is_empty() {
            let count = self.seal_buffers(tls)?;
            self.advance(count, conn);
            sent += tls.send(stream)?;
        }
        Ok(sent)
    }

    /// Encrypts as much as TLS takes at once. The protocol requests no file ranges under TLS.
    fn seal_buffers(&self, tls: &mut Tls) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        for (slice, item) in slices.iter_mut().zip(&self.queue) {
            if item.message.file.is_some() {
                return Err(io::ErrorKind::Unsupported.into());
            }
            *slice = IoSlice::new(&item.message.buffer[item.sent..]);
            count += 1;
        }
        tls.seal(&slices[..count])
    }

    /// Sends buffers up to the first one that a file range follows.
    fn send_buffers(&self, stream: &TcpStream) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut flags = SendFlags::NOSIGNAL;
        for item in self.queue.iter().take(SLICES_MAX) {
            slices[count] = IoSlice::new(&item.message.buffer[item.sent..]);
            count += 1;
            if item.message.file.is_some() {
                // MORE puts the file's bytes into the same segments.
                flags |= SendFlags::MORE;
                break;
            }
        }
        stream.try_io(Interest::WRITABLE, || {
            let mut none = SendAncillaryBuffer::default();
            Ok(rustix::net::sendmsg(stream.as_fd(), &slices[..count], &mut none, flags)?)
        })
    }

    fn send_file(&mut self, stream: &TcpStream) -> io::Result<usize> {
        let Some(item) = self.queue.front_mut() else { return Ok(0) };
        let Some(file) = &item.message.file else { return Ok(0) };
        let left = file.length_bytes - item.file_sent;
        let source = file.node.local_file().filter(|_| !item.file_ended);
        let source = source.and_then(|file| file.sendfile_source());
        let Some(source) = source else {
            let count = left.min(ZEROS.len());
            return stream.try_write(&ZEROS[..count]);
        };
        let mut offset = file.offset + item.file_sent as u64;
        let sent = stream.try_io(Interest::WRITABLE, || {
            Ok(rustix::fs::sendfile(stream.as_fd(), source, Some(&mut offset), left)?)
        });
        match sent {
            Ok(0) => {
                item.file_ended = true;
                Err(Errno::INTR.into())
            }
            other => other,
        }
    }

    fn advance(&mut self, mut count: usize, conn: &mut impl Protocol) {
        self.bytes -= count;
        while let Some(item) = self.queue.front_mut() {
            let in_buffer = (item.message.buffer.len() - item.sent).min(count);
            item.sent += in_buffer;
            count -= in_buffer;
            if item.sent < item.message.buffer.len() {
                return;
            }
            let length = item.message.file.as_ref().map_or(0, |f| f.length_bytes);
            let in_file = (length - item.file_sent).min(count);
            item.file_sent += in_file;
            count -= in_file;
            if item.file_sent < length {
                return;
            }
            if let Some(item) = self.queue.pop_front() {
                self.buffer_bytes -= item.message.buffer.capacity();
                self.sent.extend_from_slice(&item.message.sent);
                conn.recycle(item.message.buffer);
            }
            if count == 0 {
                return;
            }
        }
    }
}
