//! Delays and message ids from the caller's seed.

use std::fmt;
use std::time::Duration;

/// A generator of delays and ids: xorshift64*. Nothing secret depends on it.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// A generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Zero is the generator's only fixed point.
        Self(seed | 1)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A delay of `low` to `high`.
    pub fn delay(&mut self, low: Duration, high: Duration) -> Duration {
        let span = high.saturating_sub(low).as_millis() as u64;
        low + Duration::from_millis(self.next_u64() % (span + 1))
    }

    /// An id for a message. RFC 9562, version 4.
    pub fn uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next_u64().to_be_bytes());
        bytes[8..].copy_from_slice(&self.next_u64().to_be_bytes());
        Uuid::of(bytes, 4)
    }
}

/// A UUID. RFC 9562.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// The UUID of `bytes`, in which the bits of version and variant are replaced.
    #[must_use]
    pub fn of(mut bytes: [u8; 16], version: u8) -> Self {
        bytes[6] = bytes[6] & 0x0F | version << 4;
        bytes[8] = bytes[8] & 0x3F | 0x80;
        Self(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if [4, 6, 8, 10].contains(&at) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_stay_in_their_range_and_ids_differ() {
        let mut jitter = Jitter::new(0);
        let (low, high) = (Duration::from_millis(20), Duration::from_millis(120));
        let delays: Vec<_> = (0..100).map(|_| jitter.delay(low, high)).collect();
        assert!(delays.iter().all(|delay| (low..=high).contains(delay)));
        assert!(delays.iter().any(|delay| *delay != delays[0]));
        assert_eq!(jitter.delay(low, low), low);
        assert_ne!(jitter.uuid(), jitter.uuid());
        let text = Uuid::of([0xFF; 16], 8).to_string();
        assert_eq!(text, "ffffffff-ffff-8fff-bfff-ffffffffffff");
    }
}
