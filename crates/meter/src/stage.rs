//! Where processor time goes: pieces of work that are timed once in so many, and counted as
//! many times.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// One piece of work in so many is timed.
pub const STAGE_SAMPLE: u32 = 32;
/// Processors that are told apart; what runs on others is counted with them in turn.
const CORES_MAX: usize = 256;

thread_local! {
    static TURN: Cell<u32> = const { Cell::new(0) };
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Signing, sealing, verifying, opening.
    Crypto,
    /// Messages and rules: what the process does beside.
    Proto,
    /// In the system: sockets and files.
    Io,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Crypto, Self::Proto, Self::Io];

    /// What is shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crypto => "crypto",
            Self::Proto => "proto",
            Self::Io => "io",
        }
    }
}

/// The clock and the processor of the present thread, read for what is timed only.
pub trait StageClock: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since some moment, of this thread.
    fn nanoseconds(&self) -> u64;

    /// The processor that the thread runs on.
    fn core(&self) -> usize;
}

/// Sums of what was timed.
#[derive(Debug)]
pub struct StageTimes {
    clock: Option<Box<dyn StageClock>>,
    crypto_nanoseconds: Box<[AtomicU64]>,
}

impl Default for StageTimes {
    /// Times nothing.
    fn default() -> Self {
        Self { clock: None, crypto_nanoseconds: Box::default() }
    }
}

impl StageTimes {
    /// Times by a clock.
    #[must_use]
    pub fn new(clock: Box<dyn StageClock>) -> Self {
        let crypto_nanoseconds = (0..CORES_MAX).map(|_| AtomicU64::new(0)).collect();
        Self { clock: Some(clock), crypto_nanoseconds }
    }

    /// Does a piece of work with keys, timed in its turn. Nothing in it may wait.
    pub fn crypto<T>(&self, work: impl FnOnce() -> T) -> T {
        let turn = TURN.get();
        if turn != 0 {
            TURN.set(turn - 1);
            return work();
        }
        TURN.set(STAGE_SAMPLE - 1);
        let Some(clock) = &self.clock else { return work() };
        let began = clock.nanoseconds();
        let done = work();
        let took = clock.nanoseconds().saturating_sub(began);
        self.crypto_nanoseconds[clock.core() % CORES_MAX]
            .fetch_add(took * u64::from(STAGE_SAMPLE), Ordering::Relaxed);
        done
    }

    /// Estimated time with keys, of all pieces, by processor.
    #[must_use]
    pub fn crypto_nanoseconds(&self) -> Vec<u64> {
        self.crypto_nanoseconds.iter().map(|sum| sum.load(Ordering::Relaxed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Debug, Default)]
    struct Steps(AtomicU64);

    impl StageClock for Arc<Steps> {
        fn nanoseconds(&self) -> u64 {
            self.0.fetch_add(7, Ordering::Relaxed)
        }

        fn core(&self) -> usize {
            CORES_MAX + 3
        }
    }

    #[test]
    fn one_in_so_many_is_timed_and_counts_for_all() {
        let steps = Arc::<Steps>::default();
        let times = StageTimes::new(Box::new(steps.clone()));
        let of_test = |times: &StageTimes| (0..10 * STAGE_SAMPLE).for_each(|_| times.crypto(|| ()));
        of_test(&times);
        assert_eq!(times.crypto_nanoseconds()[3], 7 * 10 * u64::from(STAGE_SAMPLE));
        assert_eq!(steps.0.load(Ordering::Relaxed), 7 * 2 * 10, "the clock is read for these only");
        of_test(&StageTimes::default());
    }
}
