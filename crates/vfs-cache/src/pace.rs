//! Pace of file creation: whether a connection's task may create inline. While a journal is
//! written, a create takes longer than other requests should wait.

use std::sync::atomic::{AtomicI64, Ordering};
use vfs::Timestamp;

/// Duration from which a create counts as slow: longer than a preemption on a busy machine.
const SLOW_NANOS: i128 = 30_000_000;
/// Pause after a slow create. One slow create may be a preemption or a journal commit; only
/// repeated ones show a lasting delay.
const PAUSE_NANOS_FIRST: i64 = 250_000_000;
/// The pause doubles with each further slow create, up to this.
const PAUSE_NANOS_MAX: i64 = 10_000_000_000;

/// Recent pace.
#[derive(Debug)]
pub struct Pace {
    /// Time of the latest slow create, in nanoseconds.
    slow_at: AtomicI64,
    /// Pause after it, in nanoseconds.
    pause: AtomicI64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { slow_at: AtomicI64::new(i64::MIN), pause: AtomicI64::new(0) }
    }
}

impl Pace {
    /// Records a create between these times.
    pub fn record(&self, begun: Timestamp, ended: Timestamp) {
        if ended.0 - begun.0 < SLOW_NANOS {
            return;
        }
        let (pause, since) = (self.pause.load(Ordering::Relaxed), self.since_slow(ended));
        // Concurrent creates report the same delay once.
        if (0..pause).contains(&since) && since < nanos_of(ended.0 - begun.0) {
            return;
        }
        let is_again = (0..pause.saturating_add(PAUSE_NANOS_MAX)).contains(&since);
        let next = if is_again { pause.saturating_mul(2) } else { PAUSE_NANOS_FIRST };
        self.pause.store(next.clamp(PAUSE_NANOS_FIRST, PAUSE_NANOS_MAX), Ordering::Relaxed);
        self.slow_at.store(nanos(ended), Ordering::Relaxed);
    }

    /// Whether creates are presumably fast.
    pub fn is_fast(&self, now: Timestamp) -> bool {
        // A clock that was set back must not make the pace slow for ever.
        !(0..self.pause.load(Ordering::Relaxed)).contains(&self.since_slow(now))
    }

    fn since_slow(&self, now: Timestamp) -> i64 {
        nanos(now).saturating_sub(self.slow_at.load(Ordering::Relaxed))
    }
}

fn nanos(at: Timestamp) -> i64 {
    nanos_of(at.0)
}

fn nanos_of(time: i128) -> i64 {
    i64::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;

    /// Records a slow create that ended at this time.
    fn slow(pace: &Pace, ended: i128) {
        pace.record(Timestamp(ended - SLOW_NANOS), Timestamp(ended));
    }

    /// Nanoseconds after `from` until creates may run inline again.
    fn pause_after(pace: &Pace, from: i128) -> i128 {
        let step = SECOND / 8;
        let tries = (1..200).find(|n| pace.is_fast(Timestamp(from + n * step)));
        tries.expect("it ends") * step
    }

    #[test]
    fn slow_create_pauses_inline_creates() {
        let pace = Pace::default();
        assert!(pace.is_fast(Timestamp(0)), "nothing is known yet");
        pace.record(Timestamp(SECOND), Timestamp(SECOND + SLOW_NANOS - 1));
        assert!(pace.is_fast(Timestamp(SECOND + SLOW_NANOS)));
        slow(&pace, SECOND);
        let pause = i128::from(PAUSE_NANOS_FIRST);
        assert!(!pace.is_fast(Timestamp(SECOND + pause - 1)));
        assert!(pace.is_fast(Timestamp(SECOND + pause)));
        assert!(pace.is_fast(Timestamp(0)), "the clock was set back");
    }

    #[test]
    fn repeated_slow_creates_double_the_pause() {
        let (pace, mut now) = (Pace::default(), SECOND);
        let mut waits = Vec::new();
        for _ in 0..8 {
            slow(&pace, now);
            waits.push(pause_after(&pace, now) * 8 / SECOND);
            now += pause_after(&pace, now) + SLOW_NANOS;
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 80, 80], "eighths of a second");
        now += 2 * i128::from(PAUSE_NANOS_MAX) + 1;
        slow(&pace, now);
        assert_eq!(pause_after(&pace, now), i128::from(PAUSE_NANOS_FIRST));
    }

    #[test]
    fn concurrent_slow_creates_count_once() {
        let (pace, now) = (Pace::default(), SECOND);
        slow(&pace, now);
        (1..30).for_each(|n| slow(&pace, now + n * 1_000_000));
        assert_eq!(pause_after(&pace, now), i128::from(PAUSE_NANOS_FIRST));
    }
}
