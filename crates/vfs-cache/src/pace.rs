//! Whether files are made fast enough for whoever has no time: a journal that is being
//! written holds up who makes something, for longer than others should wait for.

use std::sync::atomic::{AtomicI64, Ordering};
use vfs::Timestamp;

/// Making something took long if it took this long: more than losing the processor on a busy
/// machine costs.
const SLOW_NANOS: i128 = 30_000_000;
/// For so long after that nobody tries at once. One that took long may have lost the processor,
/// or met the end of a journal; only who meets it again and again waits for something that stays.
const WARY_NANOS_FIRST: i64 = 250_000_000;
/// Twice as long each time that it took long again soon after, up to this.
const WARY_NANOS_MAX: i64 = 10_000_000_000;

/// What was seen lately.
#[derive(Debug)]
pub struct Pace {
    /// When it took long last, in nanoseconds.
    slow_at: AtomicI64,
    /// How long to be wary after that, in nanoseconds.
    wary: AtomicI64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { slow_at: AtomicI64::new(i64::MIN), wary: AtomicI64::new(0) }
    }
}

impl Pace {
    /// Something was made, or not, between these times.
    pub fn took(&self, begun: Timestamp, ended: Timestamp) {
        if ended.0 - begun.0 < SLOW_NANOS {
            return;
        }
        let (wary, since) = (self.wary.load(Ordering::Relaxed), self.since_slow(ended));
        // Those that began together tell of one delay.
        if (0..wary).contains(&since) && since < nanos_of(ended.0 - begun.0) {
            return;
        }
        let is_again = (0..wary.saturating_add(WARY_NANOS_MAX)).contains(&since);
        let next = if is_again { wary.saturating_mul(2) } else { WARY_NANOS_FIRST };
        self.wary.store(next.clamp(WARY_NANOS_FIRST, WARY_NANOS_MAX), Ordering::Relaxed);
        self.slow_at.store(nanos(ended), Ordering::Relaxed);
    }

    /// Whether it is quick, as far as anybody knows.
    pub fn is_quick(&self, now: Timestamp) -> bool {
        // A clock that was set back must not make it slow for ever.
        !(0..self.wary.load(Ordering::Relaxed)).contains(&self.since_slow(now))
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

    /// Tells of one that took long and ended then.
    fn slow(pace: &Pace, ended: i128) {
        pace.took(Timestamp(ended - SLOW_NANOS), Timestamp(ended));
    }

    /// For how many nanoseconds after `from` nobody tries.
    fn wary_after(pace: &Pace, from: i128) -> i128 {
        let step = SECOND / 8;
        let tries = (1..200).find(|n| pace.is_quick(Timestamp(from + n * step)));
        tries.expect("it ends") * step
    }

    #[test]
    fn nobody_tries_at_once_for_a_while_after_it_took_long() {
        let pace = Pace::default();
        assert!(pace.is_quick(Timestamp(0)), "nothing is known yet");
        pace.took(Timestamp(SECOND), Timestamp(SECOND + SLOW_NANOS - 1));
        assert!(pace.is_quick(Timestamp(SECOND + SLOW_NANOS)));
        slow(&pace, SECOND);
        let wary = i128::from(WARY_NANOS_FIRST);
        assert!(!pace.is_quick(Timestamp(SECOND + wary - 1)));
        assert!(pace.is_quick(Timestamp(SECOND + wary)));
        assert!(pace.is_quick(Timestamp(0)), "the clock was set back");
    }

    #[test]
    fn who_finds_it_slow_each_time_tries_ever_more_rarely() {
        let (pace, mut now) = (Pace::default(), SECOND);
        let mut waits = Vec::new();
        for _ in 0..8 {
            slow(&pace, now);
            waits.push(wary_after(&pace, now) * 8 / SECOND);
            now += wary_after(&pace, now) + SLOW_NANOS;
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 80, 80], "eighths of a second");
        now += 2 * i128::from(WARY_NANOS_MAX) + 1;
        slow(&pace, now);
        assert_eq!(wary_after(&pace, now), i128::from(WARY_NANOS_FIRST));
    }

    #[test]
    fn those_that_waited_for_the_same_are_one_delay() {
        let (pace, now) = (Pace::default(), SECOND);
        slow(&pace, now);
        (1..30).for_each(|n| slow(&pace, now + n * 1_000_000));
        assert_eq!(wary_after(&pace, now), i128::from(WARY_NANOS_FIRST));
    }
}
