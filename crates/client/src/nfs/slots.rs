//! The slots of a session: how many requests may be under way, and which number
//! each has. RFC 8881 2.10.6.1.

use crate::sync::lock;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// The slots of one session, shared by its connections.
#[derive(Debug)]
pub(super) struct Slots {
    free: Mutex<Vec<(u32, u32)>>,
    available: Semaphore,
    highest: u32,
}

impl Slots {
    /// `count` slots, of which each begins with sequence number 1.
    pub(super) fn new(count: u32) -> Self {
        let free = Mutex::new((0..count).rev().map(|slot| (slot, 1)).collect());
        Self { free, available: Semaphore::new(count as usize), highest: count.saturating_sub(1) }
    }

    /// Waits for a slot.
    pub(super) async fn take(self: &Arc<Self>) -> Lease {
        if let Ok(permit) = self.available.acquire().await {
            permit.forget();
        }
        // Permits and free slots are as many; the semaphore is never closed.
        let (slot, sequence) = lock(&self.free).pop().expect("a permit stands for a free slot");
        Lease { slots: self.clone(), slot, sequence, state: State::Unsent }
    }

    /// The highest slot there is.
    pub(super) fn highest(&self) -> u32 {
        self.highest
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unsent,
    Sent,
    Answered,
}

/// A slot while a request has it. If its answer never came, and nobody asks for it any more, nobody knows
/// what the server has done, so the slot is not used again.
#[derive(Debug)]
pub(super) struct Lease {
    slots: Arc<Slots>,
    slot: u32,
    sequence: u32,
    state: State,
}

impl Lease {
    /// The slot, and the number of the request in it.
    pub(super) fn numbers(&self) -> (u32, u32) {
        (self.slot, self.sequence)
    }

    /// The request is on its way.
    pub(super) fn sent(&mut self) {
        self.state = State::Sent;
    }

    /// Its answer came.
    pub(super) fn answered(&mut self) {
        self.state = State::Answered;
    }

    /// The answer is that the server did not take the number: the next request has it again.
    /// RFC 8881 18.46.3.
    pub(super) fn refused(&mut self) {
        self.state = State::Unsent;
    }

    /// The answer is that there is none any more: the request is sent by the next number.
    pub(super) fn count_up(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        self.state = State::Unsent;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let next = match self.state {
            State::Sent => return,
            State::Unsent => self.sequence,
            State::Answered => self.sequence.wrapping_add(1),
        };
        lock(&self.slots.free).push((self.slot, next));
        self.slots.available.add_permits(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slot_counts_answered_requests_and_one_without_an_answer_is_lost() {
        let slots = Arc::new(Slots::new(2));
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
        assert!(slots.free.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_number_that_the_server_did_not_take_is_used_again_and_one_that_it_forgot_is_not() {
        let slots = Arc::new(Slots::new(1));
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
