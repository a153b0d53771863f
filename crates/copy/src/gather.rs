//! Short calls that may wait for a disk, gathered: a thread that is at it takes call after call,
//! since waking one for each costs more than the call.

use crate::error::Error;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// One more thread helps for so many calls in line: disks do several at a time, and a thread that
/// is woken for what another is done with at once is a loss.
const CALLS_EACH_THREAD: usize = 16;

/// Threads that take calls at once, whatever the line.
const THREADS_MAX: usize = 16;

type Call = Box<dyn FnOnce() + Send>;

/// The line of calls. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gather {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    line: VecDeque<Call>,
    /// Threads that take calls.
    threads: usize,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Gather {
    /// Does `work` on a thread that may wait. Given up by its caller it is done nevertheless.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (tell, told) = oneshot::channel();
        let is_short = {
            let mut shared = self.lock();
            shared.line.push_back(Box::new(move || drop(tell.send(work()))));
            let wanted = (1 + shared.line.len() / CALLS_EACH_THREAD).min(THREADS_MAX);
            let is_short = shared.threads < wanted;
            shared.threads += usize::from(is_short);
            is_short
        };
        if is_short {
            let gather = self.clone();
            tokio::task::spawn_blocking(move || gather.take_calls());
        }
        told.await.unwrap_or_else(|_| Err(Error::Refused("a thread of the copy ended".into())))
    }

    fn take_calls(&self) {
        while let Some(call) = self.next() {
            // A call that panics fails alone: its caller learns it by the channel that is dropped.
            let _ = catch_unwind(AssertUnwindSafe(call));
        }
    }

    /// The next call; with none left the thread gives up its place under the same lock, so that
    /// no call comes in between.
    fn next(&self) -> Option<Call> {
        let mut shared = self.lock();
        let call = shared.line.pop_front();
        if call.is_none() {
            shared.threads -= 1;
        }
        call
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_call_is_done_once_by_few_threads() {
        let gather = Gather::default();
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
        // A thread gives up its place after its last call was answered.
        let end = async {
            while gather.lock().threads > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(20), end).await;
        assert!(ended.is_ok(), "no thread is left");
        assert!(threads.len() <= THREADS_MAX, "{}", threads.len());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_call_that_waits_holds_up_a_long_line_only_as_long_as_it_must() {
        let gather = Gather::default();
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
        // Those that another thread was not woken for come once the first is done.
        for _ in 0..CALLS_EACH_THREAD {
            let done = tokio::time::timeout(Duration::from_secs(10), calls.join_next()).await;
            assert!(done.expect("another thread takes them").unwrap().unwrap());
        }
        free.send(()).unwrap();
        assert!(calls.join_all().await.into_iter().all(|done| done));
    }

    #[tokio::test]
    async fn a_call_that_panics_fails_alone() {
        let gather = Gather::default();
        let failed = gather.run(|| -> Result<(), Error> { panic!("as a test") }).await;
        assert!(failed.is_err());
        assert_eq!(gather.run(|| Ok(1)).await.unwrap(), 1);
    }
}
