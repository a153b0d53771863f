//! Pending requests: async ids, interim responses, cancellation. MS-SMB2 3.3.4.2, 3.3.5.16.

use crate::limits::{ASYNC_REQUESTS_MAX, EARLY_CANCELS_MAX};
use crate::outgoing::transmit::FrameTransmit;
use crate::signal::Signal;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use sync::Mutex;
use wire::smb::{AsyncId, MessageId};

/// The pending requests of one connection.
#[derive(Debug)]
pub struct PendingRequests {
    next_id: AtomicU64,
    state: Mutex<PendingState>,
}

#[derive(Debug, Default)]
struct PendingState {
    requests: Vec<PendingEntry>,
    /// CANCELs of requests that do not wait yet, because another thread still processes them. The
    /// latest few.
    early: VecDeque<MessageId>,
    interims: VecDeque<FrameTransmit>,
}

#[derive(Debug)]
struct PendingEntry {
    message_id: MessageId,
    async_id: AsyncId,
    cancelled: Arc<Signal>,
}

/// The entry of a pending request; dropping it removes the entry.
#[derive(Debug)]
pub struct WaitTicket<'a> {
    pending: &'a PendingRequests,
    /// AsyncId of the interim and the final response.
    pub async_id: AsyncId,
    /// Raised by CANCEL.
    pub cancelled: Arc<Signal>,
}

impl Default for PendingRequests {
    fn default() -> Self {
        Self { next_id: AtomicU64::new(1), state: Mutex::default() }
    }
}

impl PendingRequests {
    /// Adds a pending request; none if the connection has too many.
    pub fn enter(&self, message_id: MessageId) -> Option<WaitTicket<'_>> {
        self.enter_among(message_id, ASYNC_REQUESTS_MAX)
    }

    /// Adds a request that a limit delays; none if half of the entries are taken. The other half is
    /// for requests that wait for other clients.
    pub fn enter_throttled(&self, message_id: MessageId) -> Option<WaitTicket<'_>> {
        self.enter_among(message_id, ASYNC_REQUESTS_MAX / 2)
    }

    fn enter_among(&self, message_id: MessageId, most: usize) -> Option<WaitTicket<'_>> {
        let mut state = self.state.lock();
        if state.requests.len() >= most {
            return None;
        }
        let async_id = AsyncId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let cancelled = Arc::new(Signal::default());
        if let Some(at) = state.early.iter().position(|early| *early == message_id) {
            state.early.remove(at);
            cancelled.raise();
        }
        state.requests.push(PendingEntry { message_id, async_id, cancelled: cancelled.clone() });
        Some(WaitTicket { pending: self, async_id, cancelled })
    }

    /// Number of pending requests.
    pub fn len(&self) -> usize {
        self.state.lock().requests.len()
    }

    /// Queues an interim response.
    pub fn push_interim(&self, transmit: FrameTransmit) {
        self.state.lock().interims.push_back(transmit);
    }

    /// The next interim response to send.
    pub fn poll_interim(&self) -> Option<FrameTransmit> {
        self.state.lock().interims.pop_front()
    }

    /// Cancels a request by its AsyncId, or else by its MessageId. A request without an entry was
    /// answered, or does not wait yet; in the latter case it is cancelled when it does.
    pub fn cancel(&self, message_id: MessageId, async_id: Option<AsyncId>) {
        let mut state = self.state.lock();
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
}

impl Drop for WaitTicket<'_> {
    fn drop(&mut self) {
        let id = self.async_id;
        self.pending.state.lock().requests.retain(|e| e.async_id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_cancel_takes_effect_when_the_request_waits() {
        let waiting = PendingRequests::default();
        waiting.cancel(MessageId(7), None);
        assert!(!waiting.enter(MessageId(6)).unwrap().cancelled.is_raised());
        assert!(waiting.enter(MessageId(7)).unwrap().cancelled.is_raised());
        assert!(!waiting.enter(MessageId(7)).unwrap().cancelled.is_raised(), "once");
    }

    #[test]
    fn early_cancels_are_bounded() {
        let waiting = PendingRequests::default();
        (0..=EARLY_CANCELS_MAX as u64).for_each(|id| waiting.cancel(MessageId(id), None));
        assert!(!waiting.enter(MessageId(0)).unwrap().cancelled.is_raised());
        assert!(waiting.enter(MessageId(1)).unwrap().cancelled.is_raised());
    }
}
