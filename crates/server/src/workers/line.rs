//! The line of calls before the workers, and who of them is called when; without
//! threads or a clock.
//!
//! Most calls are answered from memory in some microseconds, which is less than
//! what waking a thread costs. So one worker takes one call after the other, and
//! while others wait a second one stands by as the *sentry*: it looks every
//! [`TICK`] whether the line moves. If it stands still, somebody waits for a disk,
//! and for [`SPREAD`] every call gets a worker of its own at once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often the sentry looks: what a call may lose if the one before it waits for
/// a disk. Less than a seek, some times a call that is answered from memory.
pub const TICK: Duration = Duration::from_micros(300);

/// How long every call gets a worker of its own after the line stood still.
pub const SPREAD: Duration = Duration::from_millis(50);

/// The line moves too slowly, even if it moves, once its first waits so long.
const TOO_LONG: Duration = Duration::from_millis(1);

/// Looks at an empty line until the sentry leaves.
const QUIET_TICKS: u32 = 3;

/// What waits, for whom, and how many workers there are. `T` is a call.
#[derive(Debug)]
pub struct Line<T> {
    waiting: VecDeque<(T, Instant)>,
    bounds: Bounds,
    /// All workers.
    threads: usize,
    /// Those that wait to be called.
    idle: usize,
    /// Those that were called and have not come yet.
    called: usize,
    /// Those that run a call.
    busy: usize,
    finished: u64,
    sentry: Sentry,
    spread_until: Option<Instant>,
}

/// What the line never exceeds.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub calls: usize,
    pub threads: usize,
    /// Workers that calls which do not wait can use at once.
    pub processors: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sentry {
    None,
    Called,
    Standing { finished: u64, quiet: u32 },
}

/// Whom the caller must wake or make, after it has let go of the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summons {
    pub wake: usize,
    pub make: usize,
}

/// What a worker that was called, or has ended a call, does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Duty<T> {
    Run(T),
    /// Stand by for [`TICK`], then [`Line::look`].
    Watch,
    /// Wait until called.
    Rest,
}

impl<T> Line<T> {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            waiting: VecDeque::new(),
            bounds,
            threads: 0,
            idle: 0,
            called: 0,
            busy: 0,
            finished: 0,
            sentry: Sentry::None,
            spread_until: None,
        }
    }

    /// Whether nothing waits and nothing runs.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.busy == 0
    }

    /// A call joins.
    ///
    /// # Errors
    /// The call itself, if the line is full.
    pub fn join(&mut self, call: T, now: Instant) -> Result<Summons, T> {
        if self.waiting.len() >= self.bounds.calls {
            return Err(call);
        }
        self.waiting.push_back((call, now));
        let mut summons = Summons::default();
        if self.busy + self.called == 0 || self.spreads(now) {
            self.summon(&mut summons);
        } else {
            self.need_sentry(&mut summons);
        }
        Ok(summons)
    }

    /// A worker comes that was called.
    pub fn come(&mut self, summons: &mut Summons) -> Duty<T> {
        self.called -= 1;
        if self.sentry == Sentry::Called {
            self.sentry = Sentry::Standing { finished: self.finished, quiet: 0 };
            return Duty::Watch;
        }
        self.next(summons)
    }

    /// A worker has ended its call.
    pub fn end(&mut self, summons: &mut Summons) -> Duty<T> {
        self.busy -= 1;
        self.finished += 1;
        self.next(summons)
    }

    /// The sentry looks.
    pub fn look(&mut self, now: Instant, summons: &mut Summons) -> Duty<T> {
        let Sentry::Standing { finished, quiet } = self.sentry else { return self.next(summons) };
        let quiet = if self.waiting.is_empty() { quiet + 1 } else { 0 };
        self.sentry = Sentry::Standing { finished: self.finished, quiet };
        if quiet >= QUIET_TICKS {
            self.sentry = Sentry::None;
            return self.next(summons);
        }
        let waits = self.waiting.front().map(|(_, since)| now.saturating_duration_since(*since));
        let Some(waits) = waits.filter(|waits| *waits >= TICK) else { return Duty::Watch };
        if finished == self.finished || waits >= TOO_LONG {
            self.spread_until = Some(now + SPREAD);
            // This one takes the first itself.
            for _ in 1..self.waiting.len() {
                self.summon(summons);
            }
        } else if self.busy >= self.bounds.processors {
            return Duty::Watch;
        }
        self.sentry = Sentry::None;
        self.next(summons)
    }

    /// A worker that has rested for long goes, unless it was called meanwhile.
    pub fn leave(&mut self) -> bool {
        let goes = self.idle > 0;
        if goes {
            self.idle -= 1;
            self.threads -= 1;
        }
        goes
    }

    /// A worker that was to be made could not be; without any, what waits is dropped.
    pub fn not_made(&mut self) -> Vec<T> {
        self.called -= 1;
        self.threads -= 1;
        if self.sentry == Sentry::Called {
            self.sentry = Sentry::None;
        }
        let nobody = self.threads == 0;
        if nobody { self.waiting.drain(..).map(|(call, _)| call).collect() } else { Vec::new() }
    }

    fn next(&mut self, summons: &mut Summons) -> Duty<T> {
        let Some((call, _)) = self.waiting.pop_front() else {
            self.idle += 1;
            return Duty::Rest;
        };
        self.busy += 1;
        // Who is called already takes one each.
        if self.waiting.len() > self.called {
            self.need_sentry(summons);
        }
        Duty::Run(call)
    }

    fn spreads(&mut self, now: Instant) -> bool {
        let spreads = self.spread_until.is_some_and(|until| now < until);
        if !spreads {
            self.spread_until = None;
        }
        spreads
    }

    fn need_sentry(&mut self, summons: &mut Summons) {
        if self.sentry == Sentry::None && self.summon(summons) {
            self.sentry = Sentry::Called;
        }
    }

    /// Whether there is one to call.
    fn summon(&mut self, summons: &mut Summons) -> bool {
        if self.idle > 0 {
            self.idle -= 1;
            summons.wake += 1;
        } else if self.threads < self.bounds.threads {
            self.threads += 1;
            summons.make += 1;
        } else {
            return false;
        }
        self.called += 1;
        true
    }
}

#[cfg(test)]
mod tests;
