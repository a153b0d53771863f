//! Slots in which responses wait for their requests' futures.

use crate::error::Error;
use crate::pool::PooledBytes;
use std::task::{Poll, Waker};
use wire::smb::Header;

/// A response: its header, and the message.
#[derive(Debug)]
pub(crate) struct ChannelReply {
    pub(crate) header: Header,
    /// The complete message, including the header, from which offsets count.
    pub(crate) message: PooledBytes,
}

#[derive(Debug)]
enum ResponseSlot {
    Free {
        next: Option<usize>,
    },
    Waiting(Option<Waker>),
    Done(Result<ChannelReply, Error>),
    /// The future was dropped; the slot becomes free when the response arrives.
    Abandoned,
}

/// All slots of one channel.
#[derive(Debug, Default)]
pub(crate) struct ResponseSlots {
    slots: Vec<ResponseSlot>,
    free: Option<usize>,
}

impl ResponseSlots {
    /// Takes a slot that awaits a response.
    pub(crate) fn take(&mut self) -> usize {
        match self.free {
            Some(at) => {
                if let ResponseSlot::Free { next } = self.slots[at] {
                    self.free = next;
                }
                self.slots[at] = ResponseSlot::Waiting(None);
                at
            }
            None => {
                self.slots.push(ResponseSlot::Waiting(None));
                self.slots.len() - 1
            }
        }
    }

    fn release(&mut self, at: usize) {
        self.slots[at] = ResponseSlot::Free { next: self.free };
        self.free = Some(at);
    }

    /// Releases the slot of a request that was not sent.
    pub(crate) fn cancel(&mut self, at: usize) {
        self.release(at);
    }

    /// The response has arrived; returns the waker.
    pub(crate) fn finish(
        &mut self,
        at: usize,
        result: Result<ChannelReply, Error>,
    ) -> Option<Waker> {
        match std::mem::replace(&mut self.slots[at], ResponseSlot::Abandoned) {
            ResponseSlot::Waiting(waker) => {
                self.slots[at] = ResponseSlot::Done(result);
                waker
            }
            ResponseSlot::Abandoned => {
                self.release(at);
                None
            }
            other => {
                self.slots[at] = other;
                None
            }
        }
    }

    /// Returns the response, or registers `waker` for it.
    pub(crate) fn poll(&mut self, at: usize, waker: &Waker) -> Poll<Result<ChannelReply, Error>> {
        match &mut self.slots[at] {
            ResponseSlot::Waiting(present) => {
                if !present.as_ref().is_some_and(|present| present.will_wake(waker)) {
                    *present = Some(waker.clone());
                }
                Poll::Pending
            }
            _ => {
                let done = std::mem::replace(&mut self.slots[at], ResponseSlot::Abandoned);
                self.release(at);
                match done {
                    ResponseSlot::Done(result) => Poll::Ready(result),
                    _ => Poll::Ready(Err(Error::Misuse("a request after the final reply"))),
                }
            }
        }
    }

    /// The future was dropped.
    pub(crate) fn abandon(&mut self, at: usize) {
        match self.slots[at] {
            ResponseSlot::Waiting(_) => self.slots[at] = ResponseSlot::Abandoned,
            ResponseSlot::Done(_) => self.release(at),
            _ => {}
        }
    }

    /// No response will arrive any more; returns the wakers.
    pub(crate) fn fail_all(&mut self, error: &Error) -> Vec<Waker> {
        (0..self.slots.len())
            .filter(|at| {
                matches!(self.slots[*at], ResponseSlot::Waiting(_) | ResponseSlot::Abandoned)
            })
            .collect::<Vec<_>>()
            .into_iter()
            .filter_map(|at| self.finish(at, Err(error.clone())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> Error {
        Error::Misuse("test")
    }

    #[test]
    fn slot_is_released_after_its_response_or_abandonment() {
        let (mut slots, waker) = (ResponseSlots::default(), Waker::noop());
        let at = slots.take();
        assert!(slots.poll(at, waker).is_pending());
        assert!(slots.finish(at, Err(error())).is_some());
        assert!(matches!(slots.poll(at, waker), Poll::Ready(Err(_))));
        assert_eq!(slots.take(), at);
        slots.abandon(at);
        assert_ne!(slots.take(), at, "its answer may still come");
        assert!(slots.finish(at, Err(error())).is_none());
        assert_eq!(slots.take(), at);
    }

    #[test]
    fn fail_all_wakes_every_waiter() {
        let (mut slots, waker) = (ResponseSlots::default(), Waker::noop());
        let (one, two, three) = (slots.take(), slots.take(), slots.take());
        assert!(slots.poll(one, waker).is_pending() && slots.poll(two, waker).is_pending());
        slots.abandon(three);
        assert_eq!(slots.fail_all(&error()).len(), 2);
        assert!(slots.poll(one, waker).is_ready() && slots.poll(two, waker).is_ready());
        assert_eq!(slots.slots.len(), 3);
    }
}
