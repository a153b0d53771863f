//! Being woken once for much instead of often for little.
//!
//! Whoever waits for the rest of a large message is woken by each segment of it otherwise. Of a
//! server of the same machine that costs most on the other side, which wakes the processor that
//! slept. Over a line segments come a few at a time, and each few would be a wake, a read and a read
//! in vain.

use std::os::fd::AsFd;

/// It is not worth two system calls to wait for fewer bytes, and no more than these are waited for
/// at once.
type Bounds = (usize, usize);

/// From this machine. A part of a message, so that one is received while the next is
/// sent; more would have to be there before it is confirmed that it was taken.
const HERE: Bounds = (64 * 1024, 256 * 1024);

/// Over a line. What is left in the socket makes its window smaller: little beside that of a line
/// on which much is under way.
const FAR: Bounds = (8 * 1024, 32 * 1024);

/// Waits for much before it is tried again what comes without: two system calls for nothing where
/// each wake brings as much anyway, as on a line whose segments are put together.
const WAITS_MAX: u8 = 64;

/// How many bytes a socket waits for.
#[derive(Debug)]
pub(crate) struct LowWater {
    bounds: Bounds,
    bytes: u32,
    /// How often it is still worth while.
    waits_left: u8,
    /// What was missing when it was last waited for whatever comes.
    missing_before: usize,
    /// It is told by each byte what comes of this message: the line is slow.
    is_off: bool,
}

impl LowWater {
    /// Of a new socket. `is_here`: the other end is on this machine.
    pub(crate) fn new(is_here: bool) -> Self {
        let bounds = if is_here { HERE } else { FAR };
        Self { bounds, bytes: 1, waits_left: 0, missing_before: 0, is_off: false }
    }

    /// So many bytes of a message are missing; none if nothing was received of one.
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
