//! Running requests of one connection, with the bytes that they occupy. The received bytes of a
//! request stay in memory until it finishes.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The set of running requests.
#[derive(Debug)]
pub struct UnderWay<J> {
    jobs: FuturesUnordered<Weighed<J>>,
    bytes: usize,
    answer_bytes: usize,
}

#[derive(Debug)]
struct Weighed<J> {
    job: J,
    bytes: usize,
    answer_bytes: usize,
}

impl<J: Future + Unpin> Future for Weighed<J> {
    type Output = (J::Output, usize, usize);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let output = ready!(Pin::new(&mut self.job).poll(cx));
        Poll::Ready((output, self.bytes, self.answer_bytes))
    }
}

impl<J> Default for UnderWay<J> {
    fn default() -> Self {
        Self { jobs: FuturesUnordered::new(), bytes: 0, answer_bytes: 0 }
    }
}

impl<J: Future + Unpin> UnderWay<J> {
    /// Adds a job whose request has `bytes` bytes and whose reply has at most `answer_bytes`.
    pub fn push(&mut self, job: J, bytes: usize, answer_bytes: usize) {
        self.bytes += bytes;
        self.answer_bytes += answer_bytes;
        self.jobs.push(Weighed { job, bytes, answer_bytes });
    }

    /// Returns the next result; `None` if no job runs.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<J::Output>> {
        let next = ready!(self.jobs.poll_next_unpin(cx));
        Poll::Ready(next.map(|(output, bytes, answer_bytes)| {
            self.bytes -= bytes;
            self.answer_bytes -= answer_bytes;
            output
        }))
    }

    /// Runs all jobs to completion.
    pub async fn finish(mut self) {
        while self.jobs.next().await.is_some() {}
    }

    /// Number of running jobs.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether no job runs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Sum of the maximum reply lengths.
    pub fn answer_bytes(&self) -> usize {
        self.answer_bytes
    }

    /// Sum of the request lengths.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;
    use tokio::sync::oneshot;

    #[test]
    fn what_is_done_weighs_nothing_any_more() {
        let mut under_way = UnderWay::default();
        let (first, waits) = oneshot::channel();
        under_way.push(waits, 5, 100);
        let (second, waits) = oneshot::channel();
        under_way.push(waits, 7, 1000);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(under_way.poll_next(cx).is_pending());
        assert_eq!((under_way.len(), under_way.bytes()), (2, 12));
        second.send("second").unwrap();
        assert_eq!(under_way.poll_next(cx), Poll::Ready(Some(Ok("second"))));
        assert_eq!((under_way.len(), under_way.bytes()), (1, 5));
        assert_eq!(under_way.answer_bytes(), 100);
        first.send("first").unwrap();
        assert_eq!(under_way.poll_next(cx), Poll::Ready(Some(Ok("first"))));
        assert_eq!(under_way.poll_next(cx), Poll::Ready(None));
        assert!(under_way.is_empty() && under_way.bytes() == 0);
    }
}
