//! The thread pool for calls that may block on a disk: threads around a [`call_queue`].

mod call_queue;

use crate::backend;
use crate::limits::{
    SYNC_WORKERS, WORKER_QUEUE_FLOOR, WORKER_QUEUE_MAX, WORKER_QUEUE_PER_HOLDER_MAX,
};
use call_queue::{CallQueue, QueueBounds, TICK, WorkerStep, WorkerWakeups};
use files::{CallHolder, Workers};
use futures_util::future::BoxFuture;
use limits::ResourceUsage;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::{Condvar, Mutex};

/// Time that an idle thread waits for work before it exits.
const REST: Duration = Duration::from_secs(10);

/// Polling interval of [`WorkerPool::finish`].
const FINISH_LOOK: Duration = Duration::from_millis(5);

type WorkerCall = Box<dyn FnOnce() + Send>;

/// A pool with its own threads, which start on demand, and a queue before them.
///
/// The runtime has such a pool, too, but wakes a thread for every call. Most calls are answered
/// from memory, and the wake-up would be most of their cost.
///
/// Syncs run on separate threads. Each sync waits for a disk, and many concurrent syncs let a file
/// system journal commit once for all of them. Among the other calls they would take the workers
/// from reads and keep a sentry busy for as long as a disk takes.
pub struct WorkerPool {
    runtime: tokio::runtime::Handle,
    shared: Arc<PoolState>,
    syncs: Arc<PoolState>,
}

struct PoolState {
    state: Mutex<WorkerPoolState>,
    rest: Condvar,
}

struct WorkerPoolState {
    queue: CallQueue<CallHolder, WorkerCall>,
    /// Calls that were dropped since the start because the queue was full.
    refused: u64,
    /// Idle threads that were woken and have not noticed it yet.
    wakes: usize,
    closing: bool,
}

impl WorkerPool {
    /// Creates a pool of at most `threads` threads, on the present runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let bounds = QueueBounds {
            calls: WORKER_QUEUE_MAX,
            holder_calls: WORKER_QUEUE_PER_HOLDER_MAX,
            holder_floor: WORKER_QUEUE_FLOOR,
            threads,
            cpus,
            all_wait: false,
        };
        let syncs = QueueBounds { threads: SYNC_WORKERS, all_wait: true, ..bounds };
        Self {
            runtime: tokio::runtime::Handle::current(),
            shared: Arc::new(PoolState::new(bounds)),
            syncs: Arc::new(PoolState::new(syncs)),
        }
    }

    fn workers_for(&self, holder: &CallHolder) -> &Arc<PoolState> {
        match holder {
            CallHolder::Syncs { .. } => &self.syncs,
            CallHolder::Server | CallHolder::Names(_) | CallHolder::Client(_) => &self.shared,
        }
    }

    /// Usage of the queue, for metrics.
    #[must_use]
    pub fn usage(&self) -> ResourceUsage {
        let state = self.shared.state.lock();
        ResourceUsage {
            max: WORKER_QUEUE_MAX as u64,
            used: state.queue.waiting() as u64,
            holders: state.queue.holders() as u64,
            refused: state.refused,
        }
    }

    /// Waits until all calls have ended, at most `within`. Returns whether they have.
    pub async fn finish(&self, within: Duration) -> bool {
        let quiet = async {
            while !(self.shared.is_quiet() && self.syncs.is_quiet()) {
                tokio::time::sleep(FINISH_LOOK).await;
            }
        };
        tokio::time::timeout(within, quiet).await.is_ok()
    }
}

impl std::fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        for workers in [&self.shared, &self.syncs] {
            workers.state.lock().closing = true;
            workers.rest.notify_all();
        }
    }
}

impl Workers for WorkerPool {
    fn run(&self, holder: &CallHolder, task: Box<dyn FnOnce() + Send>) {
        let workers = self.workers_for(holder);
        let joined = workers.state.lock().join(holder, task, Instant::now());
        match joined {
            Ok(wakeups) => workers.call(wakeups),
            // The caller notices that its task was dropped.
            Err(too_many) => drop(too_many),
        }
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let _entered = self.runtime.enter();
        Box::pin(tokio::time::sleep(time))
    }
}

impl WorkerPoolState {
    fn join(
        &mut self,
        holder: &CallHolder,
        call: WorkerCall,
        now: Instant,
    ) -> Result<WorkerWakeups, WorkerCall> {
        let joined = self.queue.join(holder, call, now);
        let wakeups = joined.inspect_err(|_| self.refused += 1)?;
        self.wakes += wakeups.wake;
        Ok(wakeups)
    }
}

impl PoolState {
    fn new(bounds: QueueBounds) -> Self {
        let state =
            WorkerPoolState { queue: CallQueue::new(bounds), refused: 0, wakes: 0, closing: false };
        Self { state: Mutex::new(state), rest: Condvar::new() }
    }

    fn is_quiet(&self) -> bool {
        self.state.lock().queue.is_quiet()
    }

    /// Wakes and starts the requested workers, without the lock.
    fn call(self: &Arc<Self>, wakeups: WorkerWakeups) {
        for _ in 0..wakeups.wake {
            self.rest.notify_one();
        }
        for _ in 0..wakeups.make {
            let shared = self.clone();
            let work = move || shared.work();
            let made = std::thread::Builder::new().name("worker".into()).spawn(work);
            if let Err(error) = made {
                tracing::warn!(%error, "cannot start a worker thread; raise TasksMax or LimitNPROC");
                let dropped = self.state.lock().queue.take_unstarted();
                drop(dropped);
            }
        }
    }

    /// Main loop of a worker thread.
    fn work(self: Arc<Self>) {
        backend::rest_without_power();
        let mut step = self.decide(CallQueue::come);
        loop {
            step = match step {
                WorkerStep::Run(lane, call) => {
                    // The caller of a panicking call notices that its task was dropped.
                    let call = || backend::keep_identity(call);
                    let ended = std::panic::catch_unwind(AssertUnwindSafe(call));
                    drop(ended);
                    self.decide(|queue, wakeups| queue.end(lane, wakeups))
                }
                WorkerStep::Watch => {
                    std::thread::sleep(TICK);
                    let now = Instant::now();
                    self.decide(|queue, wakeups| queue.look(now, wakeups))
                }
                WorkerStep::Rest if self.is_called() => self.decide(CallQueue::come),
                WorkerStep::Rest => return,
            };
        }
    }

    /// Asks the queue for the next step, and wakes the workers that the queue requests.
    fn decide(
        self: &Arc<Self>,
        ask: impl FnOnce(
            &mut CallQueue<CallHolder, WorkerCall>,
            &mut WorkerWakeups,
        ) -> WorkerStep<WorkerCall>,
    ) -> WorkerStep<WorkerCall> {
        let mut wakeups = WorkerWakeups::default();
        let mut state = self.state.lock();
        let step = ask(&mut state.queue, &mut wakeups);
        state.wakes += wakeups.wake;
        drop(state);
        self.call(wakeups);
        step
    }

    /// Waits for a wake-up; returns false if the thread must exit.
    fn is_called(&self) -> bool {
        let until = Instant::now() + REST;
        let mut state = self.state.lock();
        loop {
            if state.wakes > 0 {
                state.wakes -= 1;
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if (left.is_zero() || state.closing) && state.queue.leave() {
                return false;
            }
            let waited = self.rest.wait_timeout(state, left);
            state = waited.0;
        }
    }
}

#[cfg(test)]
mod tests;
