//! The pool for calls that may wait for a disk: threads around a [`line`].

mod line;

use crate::limits::{
    SYNC_WORKERS, WORKER_QUEUE_FLOOR, WORKER_QUEUE_MAX, WORKER_QUEUE_PER_HOLDER_MAX,
};
use files::{CallHolder, Workers};
use futures_util::future::BoxFuture;
use limits::Usage;
use line::{Bounds, Duty, Line, Summons, TICK};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread waits to be called before it goes.
const REST: Duration = Duration::from_secs(10);

/// How often [`Pool::finish`] looks.
const FINISH_LOOK: Duration = Duration::from_millis(5);

type Call = Box<dyn FnOnce() + Send>;

/// Threads of its own, made when they are needed, and a line before them.
///
/// The runtime has such a pool, too, but wakes a thread for every call: for calls
/// that are answered from memory that is most of their cost.
///
/// Syncs have threads of their own. Each waits for a disk, and many at once are what lets a
/// journal commit once for all of them; among the other calls they would take the workers from
/// calls that read, and have a sentry watch for as long as a disk takes.
pub struct Pool {
    runtime: tokio::runtime::Handle,
    shared: Arc<Shared>,
    syncs: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    rest: Condvar,
}

struct State {
    line: Line<CallHolder, Call>,
    /// Calls that were dropped since the start: too many waited.
    refused: u64,
    /// Resting threads that were called and have not noticed yet.
    wakes: usize,
    closing: bool,
}

impl Pool {
    /// A pool of `threads` at most, on the present runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let bounds = Bounds {
            calls: WORKER_QUEUE_MAX,
            holder_calls: WORKER_QUEUE_PER_HOLDER_MAX,
            holder_floor: WORKER_QUEUE_FLOOR,
            threads,
            processors,
            all_wait: false,
        };
        let syncs = Bounds { threads: SYNC_WORKERS, all_wait: true, ..bounds };
        Self {
            runtime: tokio::runtime::Handle::current(),
            shared: Arc::new(Shared::new(bounds)),
            syncs: Arc::new(Shared::new(syncs)),
        }
    }

    fn workers_for(&self, holder: &CallHolder) -> &Arc<Shared> {
        match holder {
            CallHolder::Syncs { .. } => &self.syncs,
            CallHolder::Server | CallHolder::Names | CallHolder::Client(_) => &self.shared,
        }
    }

    /// What is shown of the calls that wait.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let state = self.shared.lock();
        Usage {
            max: WORKER_QUEUE_MAX as u64,
            used: state.line.waiting() as u64,
            holders: state.line.holders() as u64,
            refused: state.refused,
        }
    }

    /// Waits until all calls have ended, for `within` at most. Whether they have.
    pub async fn finish(&self, within: Duration) -> bool {
        let quiet = async {
            while !(self.shared.is_quiet() && self.syncs.is_quiet()) {
                tokio::time::sleep(FINISH_LOOK).await;
            }
        };
        tokio::time::timeout(within, quiet).await.is_ok()
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for workers in [&self.shared, &self.syncs] {
            workers.lock().closing = true;
            workers.rest.notify_all();
        }
    }
}

impl Workers for Pool {
    fn run(&self, holder: &CallHolder, task: Box<dyn FnOnce() + Send>) {
        let workers = self.workers_for(holder);
        let joined = workers.lock().join(holder, task, Instant::now());
        match joined {
            Ok(summons) => workers.call(summons),
            // Dropping the task tells its caller.
            Err(too_many) => drop(too_many),
        }
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let _entered = self.runtime.enter();
        Box::pin(tokio::time::sleep(time))
    }
}

impl State {
    fn join(&mut self, holder: &CallHolder, call: Call, now: Instant) -> Result<Summons, Call> {
        let joined = self.line.join(holder, call, now);
        let summons = joined.inspect_err(|_| self.refused += 1)?;
        self.wakes += summons.wake;
        Ok(summons)
    }
}

impl Shared {
    fn new(bounds: Bounds) -> Self {
        let state = State { line: Line::new(bounds), refused: 0, wakes: 0, closing: false };
        Self { state: Mutex::new(state), rest: Condvar::new() }
    }

    fn is_quiet(&self) -> bool {
        self.lock().line.is_quiet()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No call runs under the lock; what is in it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes and makes who was called, without the lock.
    fn call(self: &Arc<Self>, summons: Summons) {
        for _ in 0..summons.wake {
            self.rest.notify_one();
        }
        for _ in 0..summons.make {
            let shared = self.clone();
            let work = move || shared.work();
            let made = std::thread::Builder::new().name("worker".into()).spawn(work);
            if let Err(error) = made {
                tracing::warn!("no thread for a call that may wait: {error}");
                let dropped = self.lock().line.not_made();
                drop(dropped);
            }
        }
    }

    /// A thread's life.
    fn work(self: Arc<Self>) {
        vfs_local::rest_without_power();
        let mut duty = self.decide(Line::come);
        loop {
            duty = match duty {
                Duty::Run(lane, call) => {
                    // A call that panics tells its caller by being dropped.
                    let call = || vfs_local::keep_identity(call);
                    let ended = std::panic::catch_unwind(AssertUnwindSafe(call));
                    drop(ended);
                    self.decide(|line, summons| line.end(lane, summons))
                }
                Duty::Watch => {
                    std::thread::sleep(TICK);
                    let now = Instant::now();
                    self.decide(|line, summons| line.look(now, summons))
                }
                Duty::Rest if self.is_called() => self.decide(Line::come),
                Duty::Rest => return,
            };
        }
    }

    /// Asks the line what to do, and calls whom it needs for the rest.
    fn decide(
        self: &Arc<Self>,
        ask: impl FnOnce(&mut Line<CallHolder, Call>, &mut Summons) -> Duty<Call>,
    ) -> Duty<Call> {
        let mut summons = Summons::default();
        let mut state = self.lock();
        let duty = ask(&mut state.line, &mut summons);
        state.wakes += summons.wake;
        drop(state);
        self.call(summons);
        duty
    }

    /// Waits until this thread is called; if it is not, it is to go.
    fn is_called(&self) -> bool {
        let until = Instant::now() + REST;
        let mut state = self.lock();
        loop {
            if state.wakes > 0 {
                state.wakes -= 1;
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if (left.is_zero() || state.closing) && state.line.leave() {
                return false;
            }
            let waited = self.rest.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests;
