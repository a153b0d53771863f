//! Limits the rate at which the source is read.

use std::num::NonZeroU64;
use std::time::Duration;
use sync::Mutex;
use tokio::time::Instant;

/// The rate of a copy, shared by all its tasks.
#[derive(Debug)]
pub(crate) struct ReadRateLimit {
    bytes_per_second: NonZeroU64,
    /// When the next read may begin.
    next: Mutex<Instant>,
}

impl ReadRateLimit {
    pub(crate) fn new(bytes_per_second: NonZeroU64) -> Self {
        Self { bytes_per_second, next: Mutex::new(Instant::now()) }
    }

    /// Waits until a read of this length is due. Reads are granted in the order of their calls.
    pub(crate) async fn wait(&self, length_bytes: u64) {
        let due = {
            let mut next = self.next.lock();
            let due = reserve(*next, Instant::now(), length_bytes, self.bytes_per_second);
            *next = due.1;
            due.0
        };
        tokio::time::sleep_until(due).await;
    }
}

/// When a read may begin, and when the one after it. An idle time is not made up for.
fn reserve(next: Instant, now: Instant, bytes: u64, rate: NonZeroU64) -> (Instant, Instant) {
    let begin = next.max(now);
    (begin, begin + Duration::from_secs_f64(bytes as f64 / rate.get() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_spaced_by_the_rate() {
        let (start, rate) = (Instant::now(), NonZeroU64::new(1000).unwrap());
        let second = Duration::from_secs(1);
        let (begin, next) = reserve(start, start, 2000, rate);
        assert_eq!((begin, next), (start, start + 2 * second));
        let (begin, next) = reserve(next, start + second, 500, rate);
        assert_eq!((begin, next), (start + 2 * second, start + Duration::from_millis(2500)));
        let (begin, _) = reserve(next, start + 9 * second, 500, rate);
        assert_eq!(begin, start + 9 * second, "an idle time is not made up for");
    }
}
