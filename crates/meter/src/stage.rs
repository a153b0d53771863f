//! CPU time by stage: one call in [`STAGE_SAMPLE`] is timed and counted for all of them.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// One call in this many is timed.
pub const STAGE_SAMPLE: u32 = 32;
/// Cores that are distinguished; higher core numbers wrap around.
const CORES_MAX: usize = 256;

thread_local! {
    static TURN: Cell<u32> = const { Cell::new(0) };
}

/// A stage of request processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Signing, encrypting, verifying, decrypting.
    Crypto,
    /// Messages and rules: all other user time.
    Proto,
    /// System time: sockets and files.
    Io,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 3] = [Self::Crypto, Self::Proto, Self::Io];

    /// The displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crypto => "crypto",
            Self::Proto => "proto",
            Self::Io => "io",
        }
    }
}

/// The clock and core of the present thread, read for timed calls only.
pub trait StageClock: Send + Sync + std::fmt::Debug {
    /// CPU time of this thread in nanoseconds, from an arbitrary origin.
    fn nanoseconds(&self) -> u64;

    /// The core that the thread runs on.
    fn core(&self) -> usize;
}

/// Sums of the timed calls.
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
    /// Uses `clock`.
    #[must_use]
    pub fn new(clock: Box<dyn StageClock>) -> Self {
        let crypto_nanoseconds = (0..CORES_MAX).map(|_| AtomicU64::new(0)).collect();
        Self { clock: Some(clock), crypto_nanoseconds }
    }

    /// Runs a cryptographic operation and times it if it is its turn. The operation must not block.
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

    /// Estimated cryptography time by core.
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
    fn stage_sample_is_scaled_up() {
        let steps = Arc::<Steps>::default();
        let times = StageTimes::new(Box::new(steps.clone()));
        let of_test = |times: &StageTimes| (0..10 * STAGE_SAMPLE).for_each(|_| times.crypto(|| ()));
        of_test(&times);
        assert_eq!(times.crypto_nanoseconds()[3], 7 * 10 * u64::from(STAGE_SAMPLE));
        assert_eq!(steps.0.load(Ordering::Relaxed), 7 * 2 * 10, "the clock is read for these only");
        of_test(&StageTimes::default());
    }
}
