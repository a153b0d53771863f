//! The pool for calls that may wait for a disk.

use files::Workers;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls that may wait in line; beyond it, callers are told that there are
/// too many.
const QUEUE_MAX: usize = 64 * 1024;

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
        if self.queued.fetch_add(1, Ordering::Relaxed) >= QUEUE_MAX {
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
}
