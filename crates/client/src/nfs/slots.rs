//! The slots of a session and their sequence ids, which limit the requests in flight. RFC 8881
//! 2.10.6.1.

use std::sync::Arc;
use sync::Mutex;
use tokio::sync::Semaphore;

/// The slots of one session, which its connections share.
#[derive(Debug)]
pub(super) struct SessionSlots {
    free: Mutex<Vec<(u32, u32)>>,
    available: Semaphore,
    highest: u32,
}

impl SessionSlots {
    /// Creates `count` slots with sequence id 1.
    pub(super) fn new(count: u32) -> Self {
        let free = Mutex::new((0..count).rev().map(|slot| (slot, 1)).collect());
        Self { free, available: Semaphore::new(count as usize), highest: count.saturating_sub(1) }
    }

    /// Waits for a free slot.
    pub(super) async fn take(self: &Arc<Self>) -> SlotLease {
        if let Ok(permit) = self.available.acquire().await {
            permit.forget();
        }
        // There are as many permits as free slots, and the semaphore is never closed.
        let (slot, sequence) = self.free.lock().pop().expect("a permit stands for a free slot");
        SlotLease { slots: self.clone(), slot, sequence, state: SlotState::Unsent }
    }

    /// The highest slot id.
    pub(super) fn highest(&self) -> u32 {
        self.highest
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    Unsent,
    Sent,
    RecordReply,
}

/// A slot in use by a request. If its reply never arrives and nobody resends the request, the
/// server's state is unknown, so the slot is not used again.
#[derive(Debug)]
pub(super) struct SlotLease {
    slots: Arc<SessionSlots>,
    slot: u32,
    sequence: u32,
    state: SlotState,
}

impl SlotLease {
    /// Slot id and sequence id of the request.
    pub(super) fn numbers(&self) -> (u32, u32) {
        (self.slot, self.sequence)
    }

    /// The request is being sent.
    pub(super) fn sent(&mut self) {
        self.state = SlotState::Sent;
    }

    /// The reply has arrived.
    pub(super) fn answered(&mut self) {
        self.state = SlotState::RecordReply;
    }

    /// The server refused the sequence id, so the next request uses it again. RFC 8881 18.46.3.
    pub(super) fn refused(&mut self) {
        self.state = SlotState::Unsent;
    }

    /// The reply is not cached; the request is resent with the next sequence id.
    pub(super) fn count_up(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        self.state = SlotState::Unsent;
    }
}

impl Drop for SlotLease {
    fn drop(&mut self) {
        let next = match self.state {
            SlotState::Sent => return,
            SlotState::Unsent => self.sequence,
            SlotState::RecordReply => self.sequence.wrapping_add(1),
        };
        self.slots.free.lock().push((self.slot, next));
        self.slots.available.add_permits(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slot_advances_per_reply_and_is_lost_without_one() {
        let slots = Arc::new(SessionSlots::new(2));
        let mut first = slots.take().await;
        assert_eq!(first.numbers(), (0, 1));
        first.sent();
        first.answered();
        drop(first);
        let again = slots.take().await;
        assert_eq!(again.numbers(), (0, 2));
        drop(again);
        let mut unsent_before = slots.take().await;
        assert_eq!(unsent_before.numbers(), (0, 2), "what was not sent is not counted");
        unsent_before.sent();
        drop(unsent_before);
        let other = slots.take().await;
        assert_eq!(other.numbers(), (1, 1));
        assert!(slots.free.lock().is_empty());
    }

    #[tokio::test]
    async fn refused_sequence_id_is_reused_but_an_uncached_one_not() {
        let slots = Arc::new(SessionSlots::new(1));
        let mut lease = slots.take().await;
        lease.sent();
        lease.answered();
        lease.refused();
        drop(lease);
        let mut lease = slots.take().await;
        assert_eq!(lease.numbers(), (0, 1));
        lease.sent();
        lease.answered();
        lease.count_up();
        assert_eq!(lease.numbers(), (0, 2));
        lease.sent();
        lease.answered();
        drop(lease);
        assert_eq!(slots.take().await.numbers(), (0, 3));
    }
}
