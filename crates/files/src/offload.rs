//! Calls that may block, on worker threads.

use futures_channel::oneshot;
use futures_util::future::BoxFuture;
use limits::LedgerHolder;
use std::time::Duration;
use vfs::{FsError, Result};

/// Holder that is charged for a call on a worker: workers schedule holders in turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallHolder {
    /// The server itself: no client waits for the call.
    Server,
    /// Syncs of one file system, which serve many clients together.
    Syncs {
        /// Device number, as in [`vfs::FileKey`].
        device: u64,
    },
    /// A request of this client, or of the server, whose turn it is to change names. Requests of
    /// other clients may wait for it, so it does not queue behind its own client's other kinds of
    /// calls. It queues behind that client's other changes of names, and the queue's limits count
    /// both kinds apart.
    Names(Option<LedgerHolder>),
    /// An authenticated user, or the address of an unauthenticated client.
    Client(LedgerHolder),
}

/// Runs calls that may block, with limits in total and by holder.
pub trait Workers: Send + Sync {
    /// Runs `task` on a thread at the holder's turn. A task that is dropped unrun makes its
    /// operation fail.
    fn run(&self, holder: &CallHolder, task: Box<dyn FnOnce() + Send>);

    /// Sleeps for `time`; this layer has no clock.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// Runs each call immediately on the caller's thread, and time does not pass: for tests and tools
/// without threads.
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

/// As [`offload`], for a call that holds a turn of `FileTable::rename_turns`.
pub(crate) async fn offload_in_turn<T: Send + 'static>(
    workers: &dyn Workers,
    holder: &CallHolder,
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let client = match holder {
        CallHolder::Client(client) => Some(client.clone()),
        _ => None,
    };
    offload(workers, &CallHolder::Names(client), call).await
}

/// Runs `call` on a worker, at the holder's turn.
///
/// # Errors
/// Errors of `call`; [`FsError::TooMany`] if the workers dropped it.
pub(crate) async fn offload<T: Send + 'static>(
    workers: &dyn Workers,
    holder: &CallHolder,
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    let task = Box::new(move || {
        // The requester may have been cancelled.
        let _ = sender.send(call());
    });
    workers.run(holder, task);
    receiver.await.unwrap_or(Err(FsError::TooMany))
}
