//! Frames that answer nothing: what a connection's client is told unasked.
//! MS-SMB2 3.3.4.6.
//!
//! Put in from any thread; the connection's task is woken and takes them out.

use crate::transmit::Transmit;
use futures_util::task::AtomicWaker;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

/// The frames for one connection. There is at most one for each open at a
/// time, which bounds them.
#[derive(Debug, Default)]
pub struct Notices {
    queue: Mutex<VecDeque<Transmit>>,
    has_some: AtomicBool,
    task: AtomicWaker,
}

impl Notices {
    /// Puts a frame in and wakes the task.
    pub(crate) fn push(&self, transmit: Transmit) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(transmit);
        self.has_some.store(true, Ordering::Release);
        drop(queue);
        self.task.wake();
    }

    /// Takes the next frame out. One load where there is none.
    pub(crate) fn poll(&self) -> Option<Transmit> {
        if !self.has_some.load(Ordering::Acquire) {
            return None;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let next = queue.pop_front();
        self.has_some.store(!queue.is_empty(), Ordering::Release);
        next
    }

    /// Waits until there is one. For one task at a time; may be dropped.
    pub async fn ready(&self) {
        poll_fn(|cx| {
            if !self.has_some.load(Ordering::Acquire) {
                self.task.register(cx.waker());
            }
            if self.has_some.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_frame_wakes_and_is_taken_once() {
        let notices = Notices::default();
        assert!(notices.ready().now_or_never().is_none());
        notices.push(Transmit::plain(crate::transmit::new_buffer(Vec::new()), None));
        assert!(notices.ready().now_or_never().is_some());
        assert!(notices.poll().is_some());
        assert!(notices.poll().is_none());
        assert!(notices.ready().now_or_never().is_none());
    }
}
