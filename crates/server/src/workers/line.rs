//! The line of calls before the workers, and who of them is called when; without
//! threads or a clock.
//!
//! Each holder has a lane of its own, and those with calls waiting take turns: a holder with
//! one call waits for one call of each other holder at most, however many those have. A holder
//! may run as many calls at once as leave a part of the free workers to the others, so that
//! long calls of one do not have all workers.
//!
//! Most calls are answered from memory in some microseconds, which is less than
//! what waking a thread costs. So one worker takes one call after the other, and
//! while others wait a second one stands by as the *sentry*: it looks every
//! [`TICK`] whether the line moves. If it stands still, somebody waits for a disk,
//! and for [`SPREAD`] every call gets a worker of its own at once, as far as its holder may
//! have them.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
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

/// Lanes that their holders keep without calls, for the next ones.
const QUIET_LANES: usize = 64;

/// A holder may run as many calls at once as this times the workers that then still run none:
/// one alone three quarters of them, two three sevenths each, and so on.
const RUNNING_TIMES_FREE: usize = 3;

/// What waits, for whom, and how many workers there are. `H` is a holder, `T` is a call.
#[derive(Debug)]
pub struct Line<H, T> {
    /// By holder, where its lane is.
    places: HashMap<H, LaneId>,
    lanes: Vec<Lane<H, T>>,
    /// Lanes of nobody.
    free: Vec<LaneId>,
    /// The lanes that have calls waiting, each once, by turn.
    turns: VecDeque<LaneId>,
    /// Calls that wait, in all lanes.
    waiting: usize,
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

/// Which of the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneId(usize);

/// The calls of one holder; of none if the lane is free.
#[derive(Debug)]
struct Lane<H, T> {
    holder: Option<H>,
    waiting: VecDeque<(T, Instant)>,
    running: usize,
}

impl<H, T> Lane<H, T> {
    fn is_quiet(&self) -> bool {
        self.running == 0 && self.waiting.is_empty()
    }
}

/// What the line never exceeds.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Calls that wait.
    pub calls: usize,
    /// Of those, one holder's.
    pub holder_calls: usize,
    /// Of those, what a holder may have in any case, while there is any room.
    pub holder_floor: usize,
    pub threads: usize,
    /// Workers that calls which do not wait can use at once.
    pub processors: usize,
    /// Every call waits for a disk: each gets a worker of its own at once, and nobody watches.
    pub all_wait: bool,
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
    /// Run the call, then [`Line::end`] of its lane.
    Run(LaneId, T),
    /// Stand by for [`TICK`], then [`Line::look`].
    Watch,
    /// Wait until called.
    Rest,
}

impl<H: Clone + Eq + Hash, T> Line<H, T> {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            places: HashMap::new(),
            lanes: Vec::new(),
            free: Vec::new(),
            turns: VecDeque::new(),
            waiting: 0,
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
        self.waiting == 0 && self.busy == 0
    }

    /// Calls that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Holders that have calls, waiting or running.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.lanes.iter().filter(|lane| !lane.is_quiet()).count()
    }

    /// A call joins.
    ///
    /// # Errors
    /// The call itself, if the line is full, or its holder has as many waiting as it may have.
    pub fn join(&mut self, holder: &H, call: T, now: Instant) -> Result<Summons, T> {
        let known = self.places.get(holder).copied();
        let own = known.map_or(0, |id| self.lanes[id.0].waiting.len());
        if !self.has_place(own) {
            return Err(call);
        }
        let id = known.unwrap_or_else(|| self.new_lane(holder));
        let lane = &mut self.lanes[id.0];
        lane.waiting.push_back((call, now));
        let running = lane.running;
        self.waiting += 1;
        if own == 0 {
            self.turns.push_back(id);
        }
        let mut summons = Summons::default();
        // The end of a call of a holder that runs as many as it may leads to the next one.
        if self.room(running) > 0 {
            if self.busy + self.called == 0 || self.spreads(now) {
                self.summon(&mut summons);
            } else {
                self.need_sentry(&mut summons);
            }
        }
        Ok(summons)
    }

    fn new_lane(&mut self, holder: &H) -> LaneId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.lanes.push(Lane { holder: None, waiting: VecDeque::new(), running: 0 });
            LaneId(self.lanes.len() - 1)
        });
        self.lanes[id.0].holder = Some(holder.clone());
        self.places.insert(holder.clone(), id);
        id
    }

    /// Frees a lane without calls, unless there are few.
    fn release_lane(&mut self, id: LaneId) {
        if self.places.len() <= QUIET_LANES {
            return;
        }
        let lane = &mut self.lanes[id.0];
        lane.waiting = VecDeque::new();
        if let Some(holder) = lane.holder.take() {
            self.places.remove(&holder);
            self.free.push(id);
        }
    }

    /// Whether a holder with so many calls waiting may add one: it may have as many as would
    /// still be free, as in `limits::Ledger`.
    fn has_place(&self, own: usize) -> bool {
        let Bounds { calls, holder_calls, holder_floor, .. } = self.bounds;
        let free = calls.saturating_sub(self.waiting);
        free > 0 && own < holder_calls && (own < holder_floor || own < free)
    }

    /// How many calls a holder that runs so many may begin now.
    fn room(&self, running: usize) -> usize {
        let free = self.bounds.threads.saturating_sub(self.busy) * RUNNING_TIMES_FREE;
        let room = free.saturating_sub(running) / (RUNNING_TIMES_FREE + 1);
        if running == 0 { room.max(1) } else { room }
    }

    fn room_of(&self, id: LaneId) -> usize {
        let lane = &self.lanes[id.0];
        self.room(lane.running).min(lane.waiting.len())
    }

    /// How many of the calls that wait may begin now; it is not counted beyond the workers.
    fn runnable(&self) -> usize {
        let mut count = 0;
        for id in &self.turns {
            count += self.room_of(*id);
            if count >= self.bounds.threads {
                break;
            }
        }
        count
    }

    /// Since when the call waits that begins next; none if none may begin.
    fn next_since(&self) -> Option<Instant> {
        // Holders without room run calls: there are no more of them than workers.
        let next = self.turns.iter().find(|id| self.room_of(**id) > 0)?;
        self.lanes[next.0].waiting.front().map(|(_, since)| *since)
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

    /// A worker has ended a call of the lane.
    pub fn end(&mut self, id: LaneId, summons: &mut Summons) -> Duty<T> {
        self.busy -= 1;
        self.finished += 1;
        let lane = &mut self.lanes[id.0];
        lane.running -= 1;
        if lane.is_quiet() {
            self.release_lane(id);
        }
        self.next(summons)
    }

    /// The sentry looks.
    pub fn look(&mut self, now: Instant, summons: &mut Summons) -> Duty<T> {
        let Sentry::Standing { finished, quiet } = self.sentry else { return self.next(summons) };
        let since = self.next_since();
        let quiet = if since.is_none() { quiet + 1 } else { 0 };
        self.sentry = Sentry::Standing { finished: self.finished, quiet };
        if quiet >= QUIET_TICKS {
            self.sentry = Sentry::None;
            return self.next(summons);
        }
        let waits = since.map(|since| now.saturating_duration_since(since));
        let Some(waits) = waits.filter(|waits| *waits >= TICK) else { return Duty::Watch };
        if finished == self.finished || waits >= TOO_LONG {
            self.spread_until = Some(now + SPREAD);
            // This one takes the first itself.
            for _ in 1..self.runnable() {
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
        if self.threads > 0 {
            return Vec::new();
        }
        // Nothing runs without a worker.
        self.turns.clear();
        self.free.clear();
        self.places.clear();
        self.waiting = 0;
        let waiting = self.lanes.drain(..).flat_map(|lane| lane.waiting);
        waiting.map(|(call, _)| call).collect()
    }

    fn next(&mut self, summons: &mut Summons) -> Duty<T> {
        let Some((lane, call)) = self.take_next() else {
            self.idle += 1;
            return Duty::Rest;
        };
        self.busy += 1;
        // Who is called already takes one each.
        if self.waiting > self.called && self.next_since().is_some() {
            self.need_sentry(summons);
        }
        Duty::Run(lane, call)
    }

    /// The first call of the holder whose turn it is. One that runs as many as it may loses its
    /// turn.
    fn take_next(&mut self) -> Option<(LaneId, T)> {
        for _ in 0..self.turns.len() {
            let id = self.turns.pop_front()?;
            if self.room_of(id) == 0 {
                self.turns.push_back(id);
                continue;
            }
            let lane = &mut self.lanes[id.0];
            let (call, _) = lane.waiting.pop_front()?;
            lane.running += 1;
            self.waiting -= 1;
            if !lane.waiting.is_empty() {
                self.turns.push_back(id);
            }
            return Some((id, call));
        }
        None
    }

    fn spreads(&mut self, now: Instant) -> bool {
        let spreads = self.bounds.all_wait || self.spread_until.is_some_and(|until| now < until);
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
