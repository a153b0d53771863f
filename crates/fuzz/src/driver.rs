//! Runs a target over its corpus and mutations of it. Coverage feedback is not needed, because the
//! corpus has an input for every known path through the code.

use crate::mutate::{Rng, mutate};
use crate::{FuzzFunction, HEAP, corpus};
use rustix::time::{ClockId, clock_gettime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Largest mutated input in bytes.
pub const INPUT_BYTES_MAX: usize = 16 * 1024;

/// CPU time limit for one input, far above the need of any. CPU time does not depend on the load of
/// the machine.
const TAKE_MAX: Duration = Duration::from_secs(2);

/// Runs one input.
///
/// # Panics
/// If the target panics, uses too much memory or takes too long.
pub fn check(target: &FuzzFunction, input: &[u8]) {
    (target.set_up)();
    HEAP.reset_peak_usage();
    let (before, start) = (HEAP.current_usage(), cpu_time());
    (target.run)(input);
    let used = HEAP.peak_usage().saturating_sub(before);
    let may = (target.memory_bytes_max)(input.len());
    assert!(used <= may, "{used} bytes of memory for {} of input; at most {may}", input.len());
    let took = cpu_time() - start;
    assert!(took <= TAKE_MAX, "{took:?}");
}

/// CPU time of this thread; targets use no other thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs every input of `corpus`, then mutations of them.
///
/// # Errors
/// The first failing input, as a line for the corpus.
pub fn run(target: &FuzzFunction, corpus: &[Vec<u8>], seed: u64) -> Result<(), String> {
    for input in corpus {
        tried(target, input)?;
    }
    let mut rng = Rng::new(seed);
    for _ in 0..target.rounds {
        tried(target, &mutate(&mut rng, corpus, INPUT_BYTES_MAX))?;
    }
    Ok(())
}

fn tried(target: &FuzzFunction, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| check(target, input))).map_err(|_| {
        format!("{}: this input fails; keep it:\n{}", target.name, corpus::line(input))
    })
}
