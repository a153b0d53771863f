//! An awaitable flag: cancellation of a request, the end of an open.
//!
//! Names no runtime: each waiting future registers its waker.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use sync::Mutex;

/// A flag that is set once; present and later waiters see it.
#[derive(Debug, Default)]
pub struct Signal {
    set: AtomicBool,
    waiters: Mutex<Vec<Waker>>,
}

impl Signal {
    /// True once the signal was raised.
    pub fn is_raised(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Raises the signal and wakes all waiters.
    pub fn raise(&self) {
        self.set.store(true, Ordering::Release);
        let waiters = std::mem::take(&mut *self.waiters.lock());
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Waits for the signal. Cancel-safe.
    pub async fn raised(&self) {
        poll_fn(|cx| {
            if self.is_raised() {
                return Poll::Ready(());
            }
            let mut waiters = self.waiters.lock();
            if !waiters.iter().any(|w| w.will_wake(cx.waker())) {
                waiters.push(cx.waker().clone());
            }
            drop(waiters);
            // A raise between the two checks may have missed the waker.
            if self.is_raised() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn raised_signal_wakes_present_and_later_waiters() {
        let signal = Signal::default();
        assert!(signal.raised().now_or_never().is_none());
        signal.raise();
        assert!(signal.raised().now_or_never().is_some());
    }
}
