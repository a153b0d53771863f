//! The queue of calls before the workers, and the decision which worker runs when; without threads
//! or a clock.
//!
//! Each holder has its own lane, and lanes with queued calls take turns. A holder with one call
//! waits for at most one call of each other holder, however many those have. A holder's running
//! calls are limited so that a part of the free workers remains for others. So long calls of one
//! holder never occupy all workers.
//!
//! Most calls are answered from memory in some microseconds, less than the wake-up of a thread
//! costs. So one worker takes one call after the other. While other calls are queued a second
//! worker stands by as the *sentry*, and checks every [`TICK`] that the queue moves. If the queue
//! stands still, a call waits for a disk. Then for [`SPREAD`] every call gets a worker of its own
//! at once, within the limit of its holder.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Interval of the sentry's check: the delay of a call whose predecessor waits for a disk. It is
/// less than a seek, and several times a call that is answered from memory.
pub const TICK: Duration = Duration::from_micros(300);

/// Period in which every call gets its own worker after the queue stood still.
pub const SPREAD: Duration = Duration::from_millis(50);

/// Age of the first queued call from which the queue is too slow, even if it moves.
const TOO_LONG: Duration = Duration::from_millis(1);

/// Checks of an empty queue until the sentry leaves.
const QUIET_TICKS: u32 = 3;

/// Lanes without calls that are retained for their holders.
const QUIET_LANES: usize = 64;

/// A holder's running calls are limited to this multiple of the idle workers. One holder alone gets
/// three quarters of the workers, two get three sevenths each, and so on.
const RUNNING_TIMES_FREE: usize = 3;

/// Queued calls by holder, and the number of workers by state. `H` is a holder, `T` is a call.
#[derive(Debug)]
pub struct CallQueue<H, T> {
    /// The lane of each holder.
    places: HashMap<H, LaneId>,
    lanes: Vec<Lane<H, T>>,
    /// Unassigned lanes.
    free: Vec<LaneId>,
    /// Lanes with queued calls, each once, in turn order.
    turns: VecDeque<LaneId>,
    /// Number of queued calls in all lanes.
    waiting: usize,
    bounds: QueueBounds,
    /// Number of all workers.
    threads: usize,
    /// Number of idle workers.
    idle: usize,
    /// Number of workers that were woken or started and have not arrived yet.
    called: usize,
    /// Number of workers that run a call.
    busy: usize,
    finished: u64,
    sentry: Sentry,
    spread_until: Option<Instant>,
}

/// Index of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneId(usize);

/// Calls of one holder; the holder is `None` if the lane is unassigned.
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

/// Upper bounds of the queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueBounds {
    /// Queued calls.
    pub calls: usize,
    /// Queued calls of one holder.
    pub holder_calls: usize,
    /// Queued calls that a holder may always have, while there is any room.
    pub holder_floor: usize,
    pub threads: usize,
    /// Workers that can run non-blocking calls at once.
    pub cpus: usize,
    /// Every call blocks on a disk: each gets a worker at once, without a sentry.
    pub all_wait: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sentry {
    None,
    Called,
    Standing { finished: u64, quiet: u32 },
}

/// Workers that the caller must wake or start after it has released the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerWakeups {
    pub wake: usize,
    pub make: usize,
}

/// Next step of a worker that was woken or has ended a call.
#[derive(Debug, PartialEq, Eq)]
pub enum WorkerStep<T> {
    /// Run the call, then call [`CallQueue::end`] for its lane.
    Run(LaneId, T),
    /// Stand by for [`TICK`], then call [`CallQueue::look`].
    Watch,
    /// Wait for a wake-up.
    Rest,
}

impl<H: Clone + Eq + Hash, T> CallQueue<H, T> {
    #[must_use]
    pub fn new(bounds: QueueBounds) -> Self {
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

    /// Whether no call is queued or running.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.waiting == 0 && self.busy == 0
    }

    /// Number of queued calls.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Number of holders with queued or running calls.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.lanes.iter().filter(|lane| !lane.is_quiet()).count()
    }

    /// Queues a call.
    ///
    /// # Errors
    /// The call itself, if the queue or the holder's part of it is full.
    pub fn join(&mut self, holder: &H, call: T, now: Instant) -> Result<WorkerWakeups, T> {
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
        let mut wakeups = WorkerWakeups::default();
        // A holder at its limit needs no worker now: the end of its running call leads to this one.
        if self.room(running) > 0 {
            if self.busy + self.called == 0 || self.spreads(now) {
                self.request_worker(&mut wakeups);
            } else {
                self.need_sentry(&mut wakeups);
            }
        }
        Ok(wakeups)
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

    /// Unassigns a lane without calls, unless there are few lanes.
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

    /// Whether a holder with `own` queued calls may add one: it may have as many as would remain
    /// free, as in `limits::Ledger`.
    fn has_place(&self, own: usize) -> bool {
        let QueueBounds { calls, holder_calls, holder_floor, .. } = self.bounds;
        let free = calls.saturating_sub(self.waiting);
        free > 0 && own < holder_calls && (own < holder_floor || own < free)
    }

    /// Number of calls that a holder with `running` calls may start now.
    fn room(&self, running: usize) -> usize {
        let free = self.bounds.threads.saturating_sub(self.busy) * RUNNING_TIMES_FREE;
        let room = free.saturating_sub(running) / (RUNNING_TIMES_FREE + 1);
        if running == 0 { room.max(1) } else { room }
    }

    fn room_of(&self, id: LaneId) -> usize {
        let lane = &self.lanes[id.0];
        self.room(lane.running).min(lane.waiting.len())
    }

    /// Number of queued calls that may start now, counted up to the number of workers.
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

    /// Queue time of the call that starts next; `None` if none may start.
    fn next_since(&self) -> Option<Instant> {
        // Holders at their limit run calls, so there are no more of them than workers.
        let next = self.turns.iter().find(|id| self.room_of(**id) > 0)?;
        self.lanes[next.0].waiting.front().map(|(_, since)| *since)
    }

    /// Handles the arrival of a worker that was woken or started.
    pub fn come(&mut self, wakeups: &mut WorkerWakeups) -> WorkerStep<T> {
        self.called -= 1;
        if self.sentry == Sentry::Called {
            self.sentry = Sentry::Standing { finished: self.finished, quiet: 0 };
            return WorkerStep::Watch;
        }
        self.next(wakeups)
    }

    /// Handles the end of a call of the lane `id`.
    pub fn end(&mut self, id: LaneId, wakeups: &mut WorkerWakeups) -> WorkerStep<T> {
        self.busy -= 1;
        self.finished += 1;
        let lane = &mut self.lanes[id.0];
        lane.running -= 1;
        if lane.is_quiet() {
            self.release_lane(id);
        }
        self.next(wakeups)
    }

    /// Handles a check by the sentry.
    pub fn look(&mut self, now: Instant, wakeups: &mut WorkerWakeups) -> WorkerStep<T> {
        let Sentry::Standing { finished, quiet } = self.sentry else { return self.next(wakeups) };
        let since = self.next_since();
        let quiet = if since.is_none() { quiet + 1 } else { 0 };
        self.sentry = Sentry::Standing { finished: self.finished, quiet };
        if quiet >= QUIET_TICKS {
            self.sentry = Sentry::None;
            return self.next(wakeups);
        }
        let waits = since.map(|since| now.saturating_duration_since(since));
        let Some(waits) = waits.filter(|waits| *waits >= TICK) else { return WorkerStep::Watch };
        if finished == self.finished || waits >= TOO_LONG {
            self.spread_until = Some(now + SPREAD);
            // The sentry takes the first call itself.
            for _ in 1..self.runnable() {
                self.request_worker(wakeups);
            }
        } else if self.busy >= self.bounds.cpus {
            return WorkerStep::Watch;
        }
        self.sentry = Sentry::None;
        self.next(wakeups)
    }

    /// Whether an idle worker may exit. A worker that was woken in the meantime may not.
    pub fn leave(&mut self) -> bool {
        let goes = self.idle > 0;
        if goes {
            self.idle -= 1;
            self.threads -= 1;
        }
        goes
    }

    /// Handles a failed thread start. Without any worker all queued calls are dropped.
    pub fn take_unstarted(&mut self) -> Vec<T> {
        self.called -= 1;
        self.threads -= 1;
        if self.sentry == Sentry::Called {
            self.sentry = Sentry::None;
        }
        if self.threads > 0 {
            return Vec::new();
        }
        // No call can run without a worker.
        self.turns.clear();
        self.free.clear();
        self.places.clear();
        self.waiting = 0;
        let waiting = self.lanes.drain(..).flat_map(|lane| lane.waiting);
        waiting.map(|(call, _)| call).collect()
    }

    fn next(&mut self, wakeups: &mut WorkerWakeups) -> WorkerStep<T> {
        let Some((lane, call)) = self.take_next() else {
            self.idle += 1;
            return WorkerStep::Rest;
        };
        self.busy += 1;
        // Workers that were already woken take one call each.
        if self.waiting > self.called && self.next_since().is_some() {
            self.need_sentry(wakeups);
        }
        WorkerStep::Run(lane, call)
    }

    /// Takes the first call of the next holder in turn. A holder at its limit loses its turn.
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

    fn need_sentry(&mut self, wakeups: &mut WorkerWakeups) {
        if self.sentry == Sentry::None && self.request_worker(wakeups) {
            self.sentry = Sentry::Called;
        }
    }

    /// Requests a worker; returns false if all are in use.
    fn request_worker(&mut self, wakeups: &mut WorkerWakeups) -> bool {
        if self.idle > 0 {
            self.idle -= 1;
            wakeups.wake += 1;
        } else if self.threads < self.bounds.threads {
            self.threads += 1;
            wakeups.make += 1;
        } else {
            return false;
        }
        self.called += 1;
        true
    }
}

#[cfg(test)]
mod tests;
