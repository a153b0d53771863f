//! What a connection carries the other way: calls to the client, and their answers.
//! RFC 8881 2.10.3.1: the backchannel has no connection of its own.

use crate::client::lock;
use bytes::Bytes;
use futures_channel::oneshot;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

/// Calls to one client by one connection.
#[derive(Debug, Default)]
pub struct Calls {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_xid: u32,
    /// Records that wait to be sent.
    outgoing: VecDeque<Vec<u8>>,
    /// Whoever awaits an answer.
    awaited: HashMap<u32, oneshot::Sender<Bytes>>,
    waker: Option<Waker>,
    has_ended: bool,
}

/// Calls that may be under way at once.
const CALLS_MAX: usize = 256;

impl Calls {
    /// Sends a call, which `put` makes for a number. None if the connection has ended, or
    /// has too many under way.
    pub fn send(&self, put: impl FnOnce(u32) -> Vec<u8>) -> Option<oneshot::Receiver<Bytes>> {
        let mut state = lock(&self.state);
        // Nobody may wait any more for those that were given up.
        state.awaited.retain(|_, sender| !sender.is_canceled());
        if state.has_ended || state.awaited.len() >= CALLS_MAX {
            return None;
        }
        state.next_xid = state.next_xid.wrapping_add(1);
        let xid = state.next_xid;
        let (sender, receiver) = oneshot::channel();
        state.awaited.insert(xid, sender);
        state.outgoing.push_back(put(xid));
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        Some(receiver)
    }

    /// The next record to send.
    pub fn poll_outgoing(&self) -> Option<Vec<u8>> {
        lock(&self.state).outgoing.pop_front()
    }

    /// Returns once [`Calls::poll_outgoing`] has something. May be dropped at any time.
    pub async fn ready(&self) {
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            if !state.outgoing.is_empty() {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// An answer has come; one that nobody awaits is dropped.
    pub fn answer(&self, xid: u32, results: Bytes) {
        let sender = lock(&self.state).awaited.remove(&xid);
        if let Some(sender) = sender {
            // Whoever waited may have given up.
            let _ = sender.send(results);
        }
    }

    /// A call was refused: whoever awaits its answer gets none.
    pub fn refuse(&self, xid: u32) {
        lock(&self.state).awaited.remove(&xid);
    }

    /// The connection has ended: nothing is answered any more.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        state.awaited.clear();
        state.outgoing.clear();
    }

    /// Whether calls can be sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !lock(&self.state).has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn an_answer_reaches_who_called() {
        let calls = Calls::default();
        assert!(calls.ready().now_or_never().is_none());
        let first = calls.send(|xid| vec![xid as u8]).unwrap();
        let second = calls.send(|xid| vec![xid as u8]).unwrap();
        assert!(calls.ready().now_or_never().is_some());
        assert_eq!(calls.poll_outgoing(), Some(vec![1]));
        assert_eq!(calls.poll_outgoing(), Some(vec![2]));
        calls.answer(2, Bytes::from_static(b"two"));
        calls.answer(9, Bytes::from_static(b"nobody's"));
        assert_eq!(second.now_or_never(), Some(Ok(Bytes::from_static(b"two"))));
        assert_eq!(first.now_or_never(), None);
    }

    #[test]
    fn the_end_of_the_connection_ends_every_wait() {
        let calls = Calls::default();
        let answer = calls.send(|_| Vec::new()).unwrap();
        calls.end();
        assert!(matches!(answer.now_or_never(), Some(Err(_))));
        assert!(calls.send(|_| Vec::new()).is_none());
        assert_eq!(calls.poll_outgoing(), None);
    }

    #[test]
    fn calls_that_nobody_answers_are_bounded() {
        let calls = Calls::default();
        let all: Vec<_> = (0..CALLS_MAX).map(|_| calls.send(|_| Vec::new()).unwrap()).collect();
        assert!(calls.send(|_| Vec::new()).is_none());
        drop(all);
        assert!(calls.send(|_| Vec::new()).is_some(), "given up ones do not count");
    }
}
