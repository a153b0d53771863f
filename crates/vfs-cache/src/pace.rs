//! Whether files are made fast enough for whoever has no time: a journal that is being
//! written holds up who makes something, for longer than others should wait for.

use std::sync::atomic::{AtomicI64, Ordering};
use vfs::Timestamp;

/// Making something took long if it took this long: more than losing the processor on a busy
/// machine costs.
const SLOW_NANOS: i128 = 30_000_000;
/// For so long after that nobody tries at once.
const WARY_NANOS: i64 = 10_000_000_000;

/// What was seen lately.
#[derive(Debug)]
pub struct Pace {
    /// When it took long last, in nanoseconds.
    slow_at: AtomicI64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { slow_at: AtomicI64::new(i64::MIN) }
    }
}

impl Pace {
    /// Something was made, or not, between these times.
    pub fn took(&self, begun: Timestamp, ended: Timestamp) {
        if ended.0 - begun.0 >= SLOW_NANOS {
            self.slow_at.store(nanos(ended), Ordering::Relaxed);
        }
    }

    /// Whether it is quick, as far as anybody knows.
    pub fn is_quick(&self, now: Timestamp) -> bool {
        let slow_at = self.slow_at.load(Ordering::Relaxed);
        // A clock that was set back must not make it slow for ever.
        let since = nanos(now).saturating_sub(slow_at);
        !(0..WARY_NANOS).contains(&since)
    }
}

fn nanos(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_tries_at_once_for_a_while_after_it_took_long() {
        let (pace, second) = (Pace::default(), 1_000_000_000);
        assert!(pace.is_quick(Timestamp(0)), "nothing is known yet");
        pace.took(Timestamp(second), Timestamp(second + SLOW_NANOS - 1));
        assert!(pace.is_quick(Timestamp(2 * second)));
        pace.took(Timestamp(second), Timestamp(second + SLOW_NANOS));
        assert!(!pace.is_quick(Timestamp(2 * second)));
        let later = second + SLOW_NANOS + i128::from(WARY_NANOS);
        assert!(!pace.is_quick(Timestamp(later - 1)));
        assert!(pace.is_quick(Timestamp(later)));
        assert!(pace.is_quick(Timestamp(0)), "the clock was set back");
    }
}
