//! Calls that may take long, on threads that may be held up.

use crate::RequestFiles;
use futures_channel::oneshot;
use futures_util::future::BoxFuture;
use limits::Holder;
use std::time::Duration;
use vfs::{FsError, Result};

/// The holder that a call on a worker is charged to: workers give each holder its turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallHolder {
    /// The server itself: no client waits for the call.
    Server,
    /// All that wait for one file system to have their changes on stable storage: syncs are done
    /// for many clients together.
    Syncs {
        /// As in [`vfs::FileKey`].
        device: u64,
    },
    /// The request whose turn it is to change names: all others wait for it, of every client, so
    /// that it does not wait behind its own client's calls.
    Names,
    /// A user who has logged on, or the address of a client that has proven nothing.
    Client(Holder),
}

/// Runs calls that may block. The implementation bounds them, in all and by holder.
pub trait Workers: Send + Sync {
    /// Runs `task` on some thread, when it is the holder's turn. A task that is dropped unrun
    /// is an error of the caller's operation, not a loss.
    fn run(&self, holder: &CallHolder, task: Box<dyn FnOnce() + Send>);

    /// Ends after `time`; this layer has no clock of its own.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// Runs everything at once where it is asked for, and no time passes: for tests and
/// tools without threads.
#[derive(Clone, Copy, Debug)]
pub struct Inline;

impl Workers for Inline {
    fn run(&self, _: &CallHolder, task: Box<dyn FnOnce() + Send>) {
        task();
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

impl RequestFiles {
    /// Runs `call` on a worker, in its holder's turn.
    ///
    /// # Errors
    /// Those of `call`; [`FsError::TooMany`] if the workers dropped it.
    pub(crate) async fn offload<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        offload(&*self.workers, &self.holder, call).await
    }
}

/// As [`RequestFiles::offload`], for a call that holds [`crate::table::Table::rename_turns`].
pub(crate) async fn offload_in_turn<T: Send + 'static>(
    workers: &dyn Workers,
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    offload(workers, &CallHolder::Names, call).await
}

/// As [`RequestFiles::offload`].
pub(crate) async fn offload<T: Send + 'static>(
    workers: &dyn Workers,
    holder: &CallHolder,
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (tell, told) = oneshot::channel();
    let task = Box::new(move || {
        // The asker may have given up meanwhile.
        let _ = tell.send(call());
    });
    workers.run(holder, task);
    told.await.unwrap_or(Err(FsError::TooMany))
}
