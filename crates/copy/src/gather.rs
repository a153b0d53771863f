//! Batches short calls that may block on a disk: a running thread takes call after call, since
//! waking a thread for each costs more than the call.

use crate::error::Error;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use sync::Mutex;
use tokio::sync::oneshot;

/// Queued calls for each further thread. Disks serve several calls at a time, but waking a thread
/// for calls that another finishes at once is a loss.
const CALLS_EACH_THREAD: usize = 16;

/// Most threads that take calls at once, however long the queue is.
const THREADS_MAX: usize = 16;

type BlockingCall = Box<dyn FnOnce() + Send>;

/// The queue of calls. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockingCalls {
    pending: Arc<Mutex<PendingCalls>>,
}

#[derive(Default)]
struct PendingCalls {
    queue: VecDeque<BlockingCall>,
    /// Threads that take calls.
    threads: usize,
}

impl std::fmt::Debug for PendingCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingCalls").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl BlockingCalls {
    /// Runs `work` on a thread of the blocking pool. It runs even if the caller drops this future.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let needs_thread = {
            let mut pending = self.pending.lock();
            pending.queue.push_back(Box::new(move || drop(reply.send(work()))));
            let wanted = (1 + pending.queue.len() / CALLS_EACH_THREAD).min(THREADS_MAX);
            let needs_thread = pending.threads < wanted;
            pending.threads += usize::from(needs_thread);
            needs_thread
        };
        if needs_thread {
            let gather = self.clone();
            tokio::task::spawn_blocking(move || gather.take_calls());
        }
        answer.await.unwrap_or_else(|_| Err(Error::Refused("a thread of the copy ended".into())))
    }

    fn take_calls(&self) {
        while let Some(call) = self.next() {
            // A call that panics fails alone: its caller sees the dropped channel.
            let _ = catch_unwind(AssertUnwindSafe(call));
        }
    }

    /// The next call. With none left, the thread is uncounted under the same lock, so that no call
    /// is queued in between without a thread.
    fn next(&self) -> Option<BlockingCall> {
        let mut pending = self.pending.lock();
        let call = pending.queue.pop_front();
        if call.is_none() {
            pending.threads -= 1;
        }
        call
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn each_call_runs_once_on_a_bounded_number_of_threads() {
        let gather = BlockingCalls::default();
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..200 {
            let gather = gather.clone();
            calls.spawn(async move {
                let call = move || Ok((number, std::thread::current().id()));
                gather.run(call).await.unwrap()
            });
        }
        let done = calls.join_all().await;
        let numbers: HashSet<u32> = done.iter().map(|(number, _)| *number).collect();
        let threads: HashSet<_> = done.iter().map(|(_, thread)| *thread).collect();
        assert_eq!(numbers.len(), 200);
        // A thread is uncounted only after the reply to its last call.
        let end = async {
            while gather.pending.lock().threads > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(20), end).await;
        assert!(ended.is_ok(), "no thread is left");
        assert!(threads.len() <= THREADS_MAX, "{}", threads.len());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn blocked_call_does_not_stall_a_long_queue() {
        let gather = BlockingCalls::default();
        let (free, held) = mpsc::channel();
        let mut calls = tokio::task::JoinSet::new();
        let holder = gather.clone();
        calls.spawn(async move {
            let wait = move || Ok(held.recv_timeout(Duration::from_secs(20)).is_ok());
            holder.run(wait).await.unwrap()
        });
        for _ in 0..2 * CALLS_EACH_THREAD {
            let gather = gather.clone();
            calls.spawn(async move { gather.run(|| Ok(true)).await.unwrap() });
        }
        // Later calls may wait for the blocked thread: only a full queue starts a further one.
        for _ in 0..CALLS_EACH_THREAD {
            let done = tokio::time::timeout(Duration::from_secs(10), calls.join_next()).await;
            assert!(done.expect("another thread takes them").unwrap().unwrap());
        }
        free.send(()).unwrap();
        assert!(calls.join_all().await.into_iter().all(|done| done));
    }

    #[tokio::test]
    async fn panicking_call_fails_alone() {
        let gather = BlockingCalls::default();
        let failed = gather.run(|| -> Result<(), Error> { panic!("as a test") }).await;
        assert!(failed.is_err());
        assert_eq!(gather.run(|| Ok(1)).await.unwrap(), 1);
    }
}
