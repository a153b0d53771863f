//! Running requests of one connection, with the bytes that they occupy. The received bytes of a
//! request stay in memory until it finishes.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The set of running requests.
#[derive(Debug)]
pub struct InFlight<J> {
    jobs: FuturesUnordered<ChargedRequest<J>>,
    bytes: usize,
    answer_bytes: usize,
}

#[derive(Debug)]
struct ChargedRequest<J> {
    job: J,
    bytes: usize,
    answer_bytes: usize,
}

impl<J: Future + Unpin> Future for ChargedRequest<J> {
    type Output = (J::Output, usize, usize);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let output = ready!(Pin::new(&mut self.job).poll(cx));
        Poll::Ready((output, self.bytes, self.answer_bytes))
    }
}

impl<J> Default for InFlight<J> {
    fn default() -> Self {
        Self { jobs: FuturesUnordered::new(), bytes: 0, answer_bytes: 0 }
    }
}

impl<J: Future + Unpin> InFlight<J> {
    /// Adds a job whose request has `bytes` bytes and whose reply has at most `answer_bytes`.
    pub fn push(&mut self, job: J, bytes: usize, answer_bytes: usize) {
        self.bytes += bytes;
        self.answer_bytes += answer_bytes;
        self.jobs.push(ChargedRequest { job, bytes, answer_bytes });
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
    fn finished_request_is_no_longer_charged() {
        let mut in_flight = InFlight::default();
        let (first, waits) = oneshot::channel();
        in_flight.push(waits, 5, 100);
        let (second, waits) = oneshot::channel();
        in_flight.push(waits, 7, 1000);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(in_flight.poll_next(cx).is_pending());
        assert_eq!((in_flight.len(), in_flight.bytes()), (2, 12));
        second.send("second").unwrap();
        assert_eq!(in_flight.poll_next(cx), Poll::Ready(Some(Ok("second"))));
        assert_eq!((in_flight.len(), in_flight.bytes()), (1, 5));
        assert_eq!(in_flight.answer_bytes(), 100);
        first.send("first").unwrap();
        assert_eq!(in_flight.poll_next(cx), Poll::Ready(Some(Ok("first"))));
        assert_eq!(in_flight.poll_next(cx), Poll::Ready(None));
        assert!(in_flight.is_empty() && in_flight.bytes() == 0);
    }
}
