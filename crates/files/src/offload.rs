//! Calls that may take long, on threads that may be held up.

use crate::Files;
use futures_channel::oneshot;
use futures_util::future::BoxFuture;
use std::time::Duration;
use vfs::{FsError, Result};

/// Runs what may block. Bounded by whoever implements it.
pub trait Workers: Send + Sync {
    /// Runs `task` soon, on some thread; dropping it unrun is an error of the
    /// caller's operation, not a loss.
    fn run(&self, task: Box<dyn FnOnce() + Send>);

    /// Ends after `time`; this layer has no clock of its own.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// Runs everything at once where it is asked for, and no time passes: for tests and
/// tools without threads.
#[derive(Clone, Copy, Debug)]
pub struct Inline;

impl Workers for Inline {
    fn run(&self, task: Box<dyn FnOnce() + Send>) {
        task();
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

impl Files {
    /// Runs `call` on a worker.
    ///
    /// # Errors
    /// Those of `call`; [`FsError::TooMany`] if the workers dropped it.
    pub(crate) async fn offload<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        offload(&*self.workers, call).await
    }
}

/// As [`Files::offload`].
pub(crate) async fn offload<T: Send + 'static>(
    workers: &dyn Workers,
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (tell, told) = oneshot::channel();
    workers.run(Box::new(move || {
        // The asker may have given up meanwhile.
        let _ = tell.send(call());
    }));
    told.await.unwrap_or(Err(FsError::TooMany))
}
