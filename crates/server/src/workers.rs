//! The pool for calls that may wait for a disk.

use crate::limits::WORKER_QUEUE_MAX;
use files::Workers;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Runs calls on the runtime's blocking threads, whose number is bounded by
/// the runtime's configuration.
#[derive(Debug)]
pub struct Pool {
    runtime: tokio::runtime::Handle,
    queued: Arc<AtomicUsize>,
}

impl Pool {
    /// A pool on the present runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[must_use]
    pub fn new() -> Self {
        Self { runtime: tokio::runtime::Handle::current(), queued: Arc::default() }
    }
}

impl Workers for Pool {
    fn run(&self, task: Box<dyn FnOnce() + Send>) {
        if self.queued.fetch_add(1, Ordering::Relaxed) >= WORKER_QUEUE_MAX {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            // Dropping the task tells its caller.
            return;
        }
        let queued = self.queued.clone();
        self.runtime.spawn_blocking(move || {
            queued.fetch_sub(1, Ordering::Relaxed);
            task();
        });
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let _entered = self.runtime.enter();
        Box::pin(tokio::time::sleep(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn calls_run_and_one_beyond_the_line_is_dropped_at_once() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().max_blocking_threads(1).build().unwrap();
        let _entered = runtime.enter();
        let pool = Pool::new();
        let (tell, told) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        pool.run(Box::new(move || gone.recv().unwrap()));
        while pool.queued.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        pool.queued.store(WORKER_QUEUE_MAX - 1, Ordering::Relaxed);
        let (last, too_many) = (tell.clone(), tell);
        pool.run(Box::new(move || last.send("last").unwrap()));
        pool.run(Box::new(move || too_many.send("too many").unwrap()));
        assert_eq!(pool.queued.load(Ordering::Relaxed), WORKER_QUEUE_MAX);
        go.send(()).unwrap();
        assert_eq!(
            told.iter().collect::<Vec<_>>(),
            ["last"],
            "both senders are gone: the other call was dropped"
        );
    }
}
