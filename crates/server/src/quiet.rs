//! A bound on the lines that clients can write to the log.

use crate::limits::LOG_PERIOD;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Lets some lines through in each [`LOG_PERIOD`] and counts the others.
#[derive(Debug)]
pub struct Quiet {
    lines_max: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    lines: u32,
    unsaid: u64,
}

impl Quiet {
    /// At most `lines_max` lines in each period.
    #[must_use]
    pub fn new(lines_max: u32) -> Self {
        Self { lines_max, state: Mutex::default() }
    }

    /// Whether a line may be written now; if so, how many were not since the last.
    #[must_use]
    pub fn says(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.since.is_none_or(|since| now.duration_since(since) >= LOG_PERIOD) {
            (state.since, state.lines) = (Some(now), 0);
        }
        if state.lines >= self.lines_max {
            state.unsaid += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn lines_beyond_the_limit_are_counted_and_told_in_the_next_period() {
        let (quiet, start) = (Quiet::new(2), Instant::now());
        assert_eq!([quiet.says(start), quiet.says(start)], [Some(0), Some(0)]);
        let last = start + LOG_PERIOD - Duration::from_millis(1);
        assert_eq!([quiet.says(last), quiet.says(last)], [None, None]);
        assert_eq!(quiet.says(start + LOG_PERIOD), Some(2));
        assert_eq!(quiet.says(start + LOG_PERIOD), Some(0));
    }
}
