//! Calls from the server to the client on one connection, and their replies. RFC 8881 2.10.3.1: the
//! backchannel shares the connection.

use bytes::Bytes;
use futures_channel::oneshot;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::task::{Poll, Waker};
use sync::Mutex;

/// Calls to one client on one connection.
#[derive(Debug, Default)]
pub struct CallbackCalls {
    state: Mutex<CallbackCallsState>,
}

#[derive(Debug, Default)]
struct CallbackCallsState {
    next_xid: u32,
    /// Encoded calls that wait to be sent.
    outgoing: VecDeque<Vec<u8>>,
    /// Callers that await a reply, by xid.
    awaited: HashMap<u32, oneshot::Sender<Bytes>>,
    waker: Option<Waker>,
    has_ended: bool,
}

/// Most outstanding calls.
const CALLS_MAX: usize = 256;

impl CallbackCalls {
    /// Queues a call, which `put` encodes for an xid. None if the connection has ended or has too
    /// many calls outstanding.
    pub fn send(&self, put: impl FnOnce(u32) -> Vec<u8>) -> Option<oneshot::Receiver<Bytes>> {
        let mut state = self.state.lock();
        // Drops callers that have stopped waiting.
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

    /// Takes the next encoded call.
    pub fn poll_outgoing(&self) -> Option<Vec<u8>> {
        self.state.lock().outgoing.pop_front()
    }

    /// Returns once [`CallbackCalls::poll_outgoing`] has a call. Cancellation-safe.
    pub async fn ready(&self) {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            if !state.outgoing.is_empty() {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Delivers a reply; one without a caller is dropped.
    pub fn answer(&self, xid: u32, results: Bytes) {
        let sender = self.state.lock().awaited.remove(&xid);
        if let Some(sender) = sender {
            // The caller may have stopped waiting.
            let _ = sender.send(results);
        }
    }

    /// Reports a rejected call: its caller gets no reply.
    pub fn refuse(&self, xid: u32) {
        self.state.lock().awaited.remove(&xid);
    }

    /// Ends all calls: the connection is gone.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        state.awaited.clear();
        state.outgoing.clear();
    }

    /// Whether the connection can carry calls.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.state.lock().has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn reply_reaches_its_caller() {
        let calls = CallbackCalls::default();
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
    fn connection_end_ends_every_wait() {
        let calls = CallbackCalls::default();
        let answer = calls.send(|_| Vec::new()).unwrap();
        calls.end();
        assert!(matches!(answer.now_or_never(), Some(Err(_))));
        assert!(calls.send(|_| Vec::new()).is_none());
        assert_eq!(calls.poll_outgoing(), None);
    }

    #[test]
    fn unanswered_calls_are_bounded() {
        let calls = CallbackCalls::default();
        let all: Vec<_> = (0..CALLS_MAX).map(|_| calls.send(|_| Vec::new()).unwrap()).collect();
        assert!(calls.send(|_| Vec::new()).is_none());
        drop(all);
        assert!(calls.send(|_| Vec::new()).is_some(), "given up ones do not count");
    }
}
