//! When to be woken by a client that has many requests under way.
//!
//! A server that is faster than its client is woken for every single request,
//! and being woken costs more than answering. A client that keeps several
//! requests under way loses nothing if the server lets a few of them come
//! together. This decides how many; it has no socket and no clock.
//!
//! Only what a client has shown is counted on: several requests in one wake,
//! and a long run of wakes in quick succession. If the expected number does
//! not come, the connection looks after a [`STALL`], and counts on half as much.

use std::time::{Duration, Instant};

/// The longest that a request may lie unseen: the price of a wrong guess.
pub const STALL: Duration = Duration::from_millis(1);
/// Requests in one wake that show a client worth waiting for.
const EVIDENCE: usize = 4;
/// Waiting for more saves next to nothing.
const REQUESTS_MAX: usize = 16;
/// Larger requests are worth a wake of their own.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// What every socket has room for.
const WAKE_BYTES_MAX: u16 = 32 * 1024;
/// Wakes farther apart are no quick succession: waiting would only add time.
const BRISK: Duration = Duration::from_micros(200);
/// Quick wakes in a row before anything is waited for, at first and at last:
/// after a wrong guess twice as many are needed.
const RUN: u32 = 64;
const RUN_MAX: u32 = 64 * 1024;

/// How many requests of one connection are waited for.
#[derive(Debug)]
pub struct Coalesce {
    /// 1 if it does not wait.
    requests: usize,
    /// The most that came in one wake; halved by every wrong guess.
    deepest: usize,
    woken: Option<Instant>,
    request_bytes: usize,
    /// Quick wakes in a row.
    run: u32,
    run_needed: u32,
}

impl Default for Coalesce {
    fn default() -> Self {
        Self { requests: 1, deepest: 1, woken: None, request_bytes: 1, run: 0, run_needed: RUN }
    }
}

impl Coalesce {
    /// Bytes to be woken by.
    #[must_use]
    pub fn wake_bytes(&self) -> u16 {
        let bytes = if self.requests == 1 { 1 } else { self.requests * self.request_bytes };
        u16::try_from(bytes).unwrap_or(WAKE_BYTES_MAX).min(WAKE_BYTES_MAX)
    }

    /// When the connection must be looked at although nothing woke it.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.woken.filter(|_| self.requests > 1).map(|woken| woken + STALL)
    }

    /// `bytes` arrived, with `requests` in them.
    pub fn handle_wake(&mut self, requests: usize, bytes: usize, now: Instant) {
        let brisk = self.woken.replace(now).is_some_and(|woken| now < woken + BRISK);
        let Some(each) = bytes.checked_div(requests).filter(|each| *each <= REQUEST_BYTES_MAX)
        else {
            // Large, or a part of a large one.
            (self.requests, self.run) = (1, 0);
            return;
        };
        self.request_bytes = each;
        self.deepest = self.deepest.max(requests);
        self.run = if brisk { self.run.saturating_add(1) } else { 0 };
        if self.run < self.run_needed || self.deepest < EVIDENCE {
            self.requests = 1;
            return;
        }
        self.requests = (self.requests + 1).min(self.deepest / 2).min(REQUESTS_MAX);
        // So long without a wrong guess: the next one is forgiven sooner.
        if self.run.is_multiple_of(RUN) {
            self.run_needed = (self.run_needed / 2).max(RUN);
        }
    }

    /// Whether the deadline has passed: what is there is to be read now, and
    /// [`Coalesce::handle_stalled`] told of it, unless nothing is there.
    pub fn handle_deadline(&mut self, now: Instant) -> bool {
        let due = self.deadline().is_some_and(|due| due <= now);
        if due {
            (self.requests, self.run) = (1, 0);
        }
        due
    }

    /// That is how many requests were there when more were waited for in vain.
    pub fn handle_stalled(&mut self, requests: usize, now: Instant) {
        self.woken = Some(now);
        self.deepest = requests.max(self.deepest / 2);
        self.run_needed = (self.run_needed * 2).min(RUN_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: usize = 117;
    const TICK: Duration = Duration::from_micros(20);

    /// A client that sends `requests` at a time.
    fn run(coalesce: &mut Coalesce, requests: usize, wakes: u32, now: &mut Instant) -> u16 {
        for _ in 0..wakes {
            *now += TICK;
            coalesce.handle_wake(requests, requests * EACH, *now);
        }
        coalesce.wake_bytes()
    }

    #[test]
    fn one_request_at_a_time_is_never_waited_for() {
        let (mut coalesce, mut now) = (Coalesce::default(), Instant::now());
        assert_eq!(run(&mut coalesce, 1, 100_000, &mut now), 1);
        assert_eq!(coalesce.deadline(), None);
    }

    #[test]
    fn a_steady_client_with_many_under_way_is_waited_for_more_and_more() {
        let (mut coalesce, mut now) = (Coalesce::default(), Instant::now());
        run(&mut coalesce, 32, 1, &mut now);
        assert_eq!(run(&mut coalesce, 1, RUN - 1, &mut now), 1, "it must go on for a while");
        assert_eq!(run(&mut coalesce, 1, 1, &mut now), 2 * 117);
        assert_eq!(run(&mut coalesce, 2, 1, &mut now), 3 * 117);
        assert_eq!(run(&mut coalesce, 3, 100, &mut now), 16 * 117);
        assert_eq!(coalesce.deadline(), Some(now + STALL));
    }

    #[test]
    fn a_burst_now_and_then_is_never_waited_for() {
        let (mut coalesce, mut now) = (Coalesce::default(), Instant::now());
        for _ in 0..1000 {
            now += Duration::from_millis(5);
            assert_eq!(run(&mut coalesce, 9, 10, &mut now), 1);
        }
    }

    #[test]
    fn a_wrong_guess_halves_what_is_counted_on_and_makes_the_next_one_later() {
        let (mut coalesce, mut now) = (Coalesce::default(), Instant::now());
        run(&mut coalesce, 32, 100, &mut now);
        assert!(!coalesce.handle_deadline(now), "too early");
        now += STALL;
        assert!(coalesce.handle_deadline(now));
        assert_eq!(coalesce.wake_bytes(), 1);
        coalesce.handle_stalled(5, now);
        assert_eq!(run(&mut coalesce, 5, 2 * RUN - 1, &mut now), 1);
        assert_eq!(run(&mut coalesce, 5, 20, &mut now), 8 * 117);
        // One who has become slow is not waited for at all in the end.
        for _ in 0..4 {
            run(&mut coalesce, 1, RUN_MAX, &mut now);
            now += STALL;
            assert!(coalesce.handle_deadline(now) || coalesce.deepest < EVIDENCE);
            coalesce.handle_stalled(1, now);
        }
        assert_eq!(run(&mut coalesce, 1, RUN_MAX, &mut now), 1);
    }

    #[test]
    fn large_requests_wake_at_once() {
        let (mut coalesce, mut now) = (Coalesce::default(), Instant::now());
        assert!(run(&mut coalesce, 8, 100, &mut now) > 1);
        coalesce.handle_wake(0, 65_536, now);
        assert_eq!(coalesce.wake_bytes(), 1);
        assert!(run(&mut coalesce, 8, 100, &mut now) > 1);
        coalesce.handle_wake(8, 8 * 9000, now);
        assert_eq!(coalesce.wake_bytes(), 1);
    }
}
