//! Calls that may take long, on threads that may be held up.

use crate::Files;
use futures_channel::oneshot;
use vfs::{FsError, Result};

/// Runs what may block. Bounded by whoever implements it.
pub trait Workers: Send + Sync {
    /// Runs `task` soon, on some thread; dropping it unrun is an error of the
    /// caller's operation, not a loss.
    fn run(&self, task: Box<dyn FnOnce() + Send>);
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
        let (tell, told) = oneshot::channel();
        self.workers.run(Box::new(move || {
            // The asker may have given up meanwhile.
            let _ = tell.send(call());
        }));
        told.await.unwrap_or(Err(FsError::TooMany))
    }
}
