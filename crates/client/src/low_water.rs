//! Being woken once for much instead of often for little.
//!
//! Whoever waits for the rest of a large message is woken by each segment of it otherwise, and wakes
//! cost most on the other side: a server of the same machine wakes the processor that slept. So this
//! is for those: over a line segments come one after the other anyway, and whoever leaves them in the
//! socket keeps its window small.

use std::os::fd::AsFd;

/// Bytes that are waited for at once. A part of a message, so that one is received while the next is
/// sent; more would have to be there before it is confirmed that it was taken.
const WAITED_BYTES_MAX: usize = 256 * 1024;

/// It is not worth two system calls to wait for fewer.
const WAITED_BYTES_MIN: usize = 64 * 1024;

/// How many bytes a socket waits for.
#[derive(Debug)]
pub(crate) struct LowWater {
    is_wanted: bool,
    bytes: u32,
    /// It is told by each byte what comes of this message: the line is slow.
    is_off: bool,
}

impl LowWater {
    /// Of a new socket. `is_here`: the other end is on this machine; otherwise nothing is done.
    pub(crate) fn new(is_here: bool) -> Self {
        Self { is_wanted: is_here, bytes: 1, is_off: false }
    }

    /// So many bytes of a message are missing; none if nothing was received of one.
    pub(crate) fn wait_for(&mut self, missing: usize, socket: &impl AsFd) {
        if missing == 0 {
            self.is_off = false;
        }
        let is_much = self.is_wanted && missing >= WAITED_BYTES_MIN && !self.is_off;
        self.set(if is_much { missing.min(WAITED_BYTES_MAX) as u32 } else { 1 }, socket);
    }

    /// They take long: whoever wants to know whether anything comes is to be told.
    pub(crate) fn wait_no_more(&mut self, socket: &impl AsFd) {
        self.is_off |= self.bytes > 1;
        self.set(1, socket);
    }

    fn set(&mut self, bytes: u32, socket: &impl AsFd) {
        // A socket that cannot wait for more is woken more often.
        if bytes != self.bytes && sockets::set_receive_low_water(socket, bytes).is_ok() {
            self.bytes = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn much_is_waited_for_unless_it_takes_long() -> std::io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let socket = TcpStream::connect(listener.local_addr()?)?;
        let mut far = LowWater::new(false);
        far.wait_for(WAITED_BYTES_MAX, &socket);
        assert_eq!(far.bytes, 1);
        let mut low_water = LowWater::new(true);
        let mut wait_for = |missing| {
            low_water.wait_for(missing, &socket);
            low_water.bytes as usize
        };
        assert_eq!(wait_for(WAITED_BYTES_MIN - 1), 1);
        assert_eq!(wait_for(WAITED_BYTES_MIN), WAITED_BYTES_MIN);
        assert_eq!(wait_for(10 * WAITED_BYTES_MAX), WAITED_BYTES_MAX);
        assert_eq!(wait_for(0), 1, "the next message may be short");
        assert_eq!(wait_for(WAITED_BYTES_MAX), WAITED_BYTES_MAX);
        low_water.wait_no_more(&socket);
        assert_eq!(low_water.bytes, 1);
        low_water.wait_for(WAITED_BYTES_MAX, &socket);
        assert_eq!(low_water.bytes, 1, "of this message");
        low_water.wait_for(0, &socket);
        low_water.wait_for(WAITED_BYTES_MAX, &socket);
        assert_eq!(low_water.bytes as usize, WAITED_BYTES_MAX);
        Ok(())
    }
}
