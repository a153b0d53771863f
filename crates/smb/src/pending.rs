//! Requests that wait: their async ids, their interim answers, their cancellation.
//! MS-SMB2 3.3.4.2, 3.3.5.16.

use crate::limits::{ASYNC_REQUESTS_MAX, EARLY_CANCELS_MAX};
use crate::signal::Signal;
use crate::transmit::Transmit;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::smb::{AsyncId, MessageId};

/// The waiting requests of one connection.
#[derive(Debug)]
pub struct Waiting {
    next_id: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Entry>,
    /// Cancelled while they were not waiting yet: a request may be at work on
    /// another thread before it comes to wait. The latest few.
    early: VecDeque<MessageId>,
    interims: VecDeque<Transmit>,
}

#[derive(Debug)]
struct Entry {
    message_id: MessageId,
    async_id: AsyncId,
    cancelled: Arc<Signal>,
}

/// Held by a request while it waits; dropping it ends its entry.
#[derive(Debug)]
pub struct WaitTicket<'a> {
    waiting: &'a Waiting,
    /// The id that the interim and the final answer carry.
    pub async_id: AsyncId,
    /// Raised by CANCEL.
    pub cancelled: Arc<Signal>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { next_id: AtomicU64::new(1), state: Mutex::default() }
    }
}

impl Waiting {
    /// Enters a request; none if too many wait already.
    pub fn enter(&self, message_id: MessageId) -> Option<WaitTicket<'_>> {
        self.enter_among(message_id, ASYNC_REQUESTS_MAX)
    }

    /// Enters a request that waits for limits; none if half of the places are taken: the
    /// others are for those that wait for other clients.
    pub fn enter_throttled(&self, message_id: MessageId) -> Option<WaitTicket<'_>> {
        self.enter_among(message_id, ASYNC_REQUESTS_MAX / 2)
    }

    fn enter_among(&self, message_id: MessageId, most: usize) -> Option<WaitTicket<'_>> {
        let mut state = self.lock();
        if state.requests.len() >= most {
            return None;
        }
        let async_id = AsyncId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let cancelled = Arc::new(Signal::default());
        if let Some(at) = state.early.iter().position(|early| *early == message_id) {
            state.early.remove(at);
            cancelled.raise();
        }
        state.requests.push(Entry { message_id, async_id, cancelled: cancelled.clone() });
        Some(WaitTicket { waiting: self, async_id, cancelled })
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.lock().requests.len()
    }

    /// Queues an interim answer.
    pub fn push_interim(&self, transmit: Transmit) {
        self.lock().interims.push_back(transmit);
    }

    /// The next interim answer to send.
    pub fn poll_interim(&self) -> Option<Transmit> {
        self.lock().interims.pop_front()
    }

    /// Cancels the request named by its async id, or else by its message id.
    /// One that is not there has been answered, or is yet to wait: if it does,
    /// it is cancelled then.
    pub fn cancel(&self, message_id: MessageId, async_id: Option<AsyncId>) {
        let mut state = self.lock();
        let found = state.requests.iter().find(|e| match async_id {
            Some(id) => e.async_id == id,
            None => e.message_id == message_id,
        });
        let signal = found.map(|e| e.cancelled.clone());
        if signal.is_none() && async_id.is_none() {
            if state.early.len() == EARLY_CANCELS_MAX {
                state.early.pop_front();
            }
            state.early.push_back(message_id);
        }
        drop(state);
        if let Some(signal) = signal {
            signal.raise();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WaitTicket<'_> {
    fn drop(&mut self) {
        let id = self.async_id;
        self.waiting.lock().requests.retain(|e| e.async_id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_cancelled_before_it_waits_is_cancelled_when_it_does() {
        let waiting = Waiting::default();
        waiting.cancel(MessageId(7), None);
        assert!(!waiting.enter(MessageId(6)).unwrap().cancelled.is_raised());
        assert!(waiting.enter(MessageId(7)).unwrap().cancelled.is_raised());
        assert!(!waiting.enter(MessageId(7)).unwrap().cancelled.is_raised(), "once");
    }

    #[test]
    fn only_the_latest_early_cancels_are_remembered() {
        let waiting = Waiting::default();
        (0..=EARLY_CANCELS_MAX as u64).for_each(|id| waiting.cancel(MessageId(id), None));
        assert!(!waiting.enter(MessageId(0)).unwrap().cancelled.is_raised());
        assert!(waiting.enter(MessageId(1)).unwrap().cancelled.is_raised());
    }
}
