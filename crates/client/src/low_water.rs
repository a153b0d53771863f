//! Receive low-water mark: one wake-up for many bytes instead of many for few.
//!
//! Without it, a receiver of a large message is woken by each segment. If the server is on the same
//! machine, that costs the server most, because it wakes the sleeping CPU each time. Over a network
//! segments arrive a few at a time, and each group costs a wake-up, a read, and a read without
//! data.

use std::os::fd::AsFd;

/// Minimum bytes that are worth two system calls, and maximum mark.
type LowWaterBounds = (usize, usize);

/// For a local server. The mark is a part of a message, so that one part is received while the next
/// is sent. A higher mark would delay the window update.
const HERE: LowWaterBounds = (64 * 1024, 256 * 1024);

/// For a network. Bytes left in the socket shrink its window, little in proportion to the window of
/// a busy link.
const FAR: LowWaterBounds = (8 * 1024, 32 * 1024);

/// Number of marks before the client tests without one. If each wake-up brings as many bytes
/// without a mark, for instance with merged segments, the mark costs two system calls for nothing.
const WAITS_MAX: u8 = 64;

/// The low-water mark of a socket.
#[derive(Debug)]
pub(crate) struct LowWater {
    bounds: LowWaterBounds,
    bytes: u32,
    /// Remaining number of marks before the next test.
    waits_left: u8,
    /// Missing bytes at the last wait without a mark.
    missing_before: usize,
    /// The rest of this message is received without a mark, because the link is slow.
    is_off: bool,
}

impl LowWater {
    /// For a new socket. `is_here`: the peer is on this machine.
    pub(crate) fn new(is_here: bool) -> Self {
        let bounds = if is_here { HERE } else { FAR };
        Self { bounds, bytes: 1, waits_left: 0, missing_before: 0, is_off: false }
    }

    /// Prepares to wait for `missing` bytes of a message; 0 if nothing of it has arrived.
    pub(crate) fn wait_for(&mut self, missing: usize, socket: &impl AsFd) {
        if missing == 0 {
            self.is_off = false;
        }
        let (least, most) = self.bounds;
        let has_come = std::mem::take(&mut self.missing_before).saturating_sub(missing);
        if missing > 0 && (1..most).contains(&has_come) {
            self.waits_left = WAITS_MAX;
        }
        let is_much = missing >= least && !self.is_off;
        if is_much && self.waits_left > 0 {
            self.waits_left -= 1;
            return self.set(missing.min(most) as u32, socket);
        }
        self.missing_before = if is_much { missing } else { 0 };
        self.set(1, socket);
    }

    /// The bytes take long, so the silence detection needs every wake-up.
    pub(crate) fn wait_no_more(&mut self, socket: &impl AsFd) {
        self.is_off |= self.bytes > 1;
        self.set(1, socket);
    }

    fn set(&mut self, bytes: u32, socket: &impl AsFd) {
        // A socket without a mark only causes more wake-ups.
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
    fn low_water_mark_is_set_unless_data_is_slow() -> std::io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let socket = TcpStream::connect(listener.local_addr()?)?;
        for (is_here, (least, most)) in [(true, HERE), (false, FAR)] {
            let mut low_water = LowWater::new(is_here);
            let mut wait_for = |missing| {
                low_water.wait_for(missing, &socket);
                low_water.bytes as usize
            };
            assert_eq!(wait_for(least - 1), 1);
            assert_eq!(wait_for(10 * most), 1, "it may all come at once");
            assert_eq!(wait_for(0), 1, "as it did");
            assert_eq!(wait_for(10 * most), 1);
            assert_eq!(wait_for(9 * most), 1, "in large pieces");
            assert_eq!(wait_for(9 * most - 1), most);
            assert_eq!(wait_for(least), least);
            assert_eq!(wait_for(10 * most), most);
            assert_eq!(wait_for(0), 1, "the next message may be short");
            assert_eq!(wait_for(most), most);
            low_water.wait_no_more(&socket);
            assert_eq!(low_water.bytes, 1);
            low_water.wait_for(most, &socket);
            assert_eq!(low_water.bytes, 1, "of this message");
            low_water.wait_for(0, &socket);
            low_water.wait_for(most, &socket);
            assert_eq!(low_water.bytes as usize, most);
            low_water.wait_no_more(&socket);
            low_water.wait_for(0, &socket);
            let waits = std::iter::repeat_with(|| {
                low_water.wait_for(most, &socket);
                low_water.bytes > 1
            });
            let waited = waits.take(2 * usize::from(WAITS_MAX)).filter(|waited| *waited).count();
            assert!((1..WAITS_MAX.into()).contains(&waited), "{waited}: tried anew");
        }
        Ok(())
    }
}
