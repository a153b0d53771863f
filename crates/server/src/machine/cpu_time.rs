//! CPU time: of the present thread for the stages of a request, and of the whole process from
//! `/proc/self/task`.

use meter::{Meter, Stage, StageClock};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use sync::Mutex;

/// CPU clock of the present thread.
#[derive(Debug)]
pub struct ThreadClock;

impl StageClock for ThreadClock {
    fn nanoseconds(&self) -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
    }

    fn core(&self) -> usize {
        rustix::thread::sched_getcpu()
    }
}

/// Maximum number of threads that are read.
const THREADS_MAX: usize = 4096;

/// CPU time of the process by core and stage, in nanoseconds.
///
/// System time (sockets, files) counts as `io`. User time counts as `proto`, less the time that
/// [`meter::StageTimes`] estimates for cryptography. The time since the last reading is attributed
/// to the core that the thread ran on at the reading.
#[derive(Debug, Default)]
pub struct ProcessCpuTimes(Mutex<CpuTimes>);

#[derive(Debug, Default)]
struct CpuTimes {
    /// User and system time by thread, in clock ticks.
    threads: HashMap<u64, (u64, u64)>,
    cores: HashMap<usize, Core>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Core {
    stages: [u64; 3],
    /// Estimated cryptography time that is already accounted for.
    crypto_seen: u64,
    /// Estimated cryptography time that must still be deducted from user time.
    crypto_owed: u64,
}

/// Parses `/proc/self/task/ID/stat`: user ticks, system ticks and the core.
fn parse_stat(text: &str) -> Option<(u64, u64, usize)> {
    // The thread name may contain spaces and brackets.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user, system, fields.nth(23)?.parse().ok()?))
}

impl CpuTimes {
    fn add(&mut self, thread: u64, (user, system, core): (u64, u64, usize), tick_nanoseconds: u64) {
        let before = self.threads.insert(thread, (user, system)).unwrap_or_default();
        let since = |now: u64, then: u64| now.saturating_sub(then) * tick_nanoseconds;
        let stages = &mut self.cores.entry(core).or_default().stages;
        stages[Stage::Proto as usize] += since(user, before.0);
        stages[Stage::Io as usize] += since(system, before.1);
    }

    /// Moves estimated cryptography time from `proto` to `crypto`, as far as `proto` has grown
    /// since `before`. No published sum decreases.
    fn split(&mut self, before: &HashMap<usize, Core>, crypto: &[u64]) {
        let (proto, keys) = (Stage::Proto as usize, Stage::Crypto as usize);
        for (core, times) in &mut self.cores {
            let estimated = crypto.get(*core).copied().unwrap_or_default();
            times.crypto_owed += estimated.saturating_sub(times.crypto_seen);
            times.crypto_seen = estimated;
            let fresh = times.stages[proto]
                .saturating_sub(before.get(core).map_or(0, |core| core.stages[proto]));
            let moved = times.crypto_owed.min(fresh);
            times.crypto_owed -= moved;
            times.stages[proto] -= moved;
            times.stages[keys] += moved;
        }
    }
}

impl ProcessCpuTimes {
    /// Reads all threads. Call it about once a second.
    pub fn refresh(&self, meter: &Meter) {
        let tick_nanoseconds = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return };
        let mut times = self.0.lock();
        let before = times.cores.clone();
        let mut seen = Vec::new();
        for thread in threads.flatten().take(THREADS_MAX) {
            let id = thread.file_name().to_str().and_then(|name| name.parse().ok());
            let stat = std::fs::read_to_string(thread.path().join("stat")).ok();
            if let (Some(id), Some(stat)) = (id, stat.as_deref().and_then(parse_stat)) {
                times.add(id, stat, tick_nanoseconds);
                seen.push(id);
            }
        }
        // The last second of ended threads is lost.
        times.threads.retain(|id, _| seen.contains(id));
        times.split(&before, &meter.stages().crypto_nanoseconds());
    }

    /// CPU seconds by core and stage.
    #[must_use]
    pub fn seconds(&self) -> Vec<(usize, Stage, f64)> {
        let times = self.0.lock();
        let mut cores: Vec<(usize, Core)> =
            times.cores.iter().map(|(at, core)| (*at, *core)).collect();
        cores.sort_by_key(|(at, _)| *at);
        let stages = |(at, core): (usize, Core)| {
            Stage::ALL.map(|stage| (at, stage, core.stages[stage as usize] as f64 / 1e9))
        };
        cores.into_iter().flat_map(stages).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_stat_line_is_parsed_for_any_thread_name() {
        let text = "7 (a) b c) S 1 1 1 0 -1 4194560 5 0 0 0 33 44 0 0 20 0 3 0 9 9 9 \
            1 1 1 1 1 1 0 0 0 0 0 0 0 17 5 0 0 0 0 0";
        assert_eq!(parse_stat(text), Some((33, 44, 5)));
        assert_eq!(parse_stat("7 (a) S 1"), None);
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(parse_stat(&own).is_some());
    }

    #[test]
    fn key_operations_are_subtracted_from_user_time() {
        let mut times = CpuTimes::default();
        let look = |times: &mut CpuTimes, user, crypto| {
            let before = times.cores.clone();
            times.add(1, (user, 2, 0), 10);
            times.split(&before, &[crypto]);
            times.cores[&0].stages
        };
        assert_eq!(look(&mut times, 10, 30), [30, 70, 20]);
        // The estimate exceeds the used time; the rest is deducted later.
        assert_eq!(look(&mut times, 11, 60), [40, 70, 20]);
        assert_eq!(look(&mut times, 21, 60), [60, 150, 20]);
    }

    #[test]
    fn own_process_has_used_cpu_time() {
        let times = ProcessCpuTimes::default();
        let used = || {
            times.refresh(&Meter::default());
            times.seconds().iter().map(|(_, _, seconds)| seconds).sum::<f64>()
        };
        // The kernel counts in ticks, and a loaded machine may give this thread none for long.
        let start = std::time::Instant::now();
        while used() == 0.0 {
            assert!(start.elapsed() < std::time::Duration::from_secs(60), "no time is counted");
        }
    }
}
