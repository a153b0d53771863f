//! The slots of a session: what makes every request happen exactly once.
//! RFC 8881 2.10.6.1.
//!
//! Pure: no lock, no clock. A slot is idle, or has one request at work. The reply
//! of the latest request stays with it, if it was asked for, until the next one.

use crate::limits::FINGERPRINT_BYTES;
use bytes::Bytes;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What tells one request from another that claims to be the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of a COMPOUND's arguments: their length and their beginning, so that a large
    /// WRITE costs no more than another request.
    #[must_use]
    pub fn of(arguments: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        arguments.len().hash(&mut hasher);
        arguments[..arguments.len().min(FINGERPRINT_BYTES)].hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// What a slot says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is new: the slot is its until [`Slots::finish`] or [`Slots::give_up`].
    Execute,
    /// It was answered before, by this.
    Replay(Bytes),
    /// It was answered before, and the reply was not to be kept.
    Uncached,
    /// It is at work.
    Busy,
    /// It is neither the next request nor the latest.
    Misordered,
    /// It has the latest request's number, and is another.
    FalseRetry,
    /// There is no such slot.
    BadSlot,
}

#[derive(Debug, Default)]
struct Slot {
    /// Of the latest request; zero before the first.
    sequence: u32,
    is_busy: bool,
    is_used: bool,
    fingerprint: Fingerprint,
    reply: Option<Bytes>,
}

/// The slots of one session's fore channel.
#[derive(Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    /// How many of them may be used.
    count: u32,
    /// How many are to be used, once the client has heard of it.
    target: u32,
}

impl Slots {
    /// `count` slots that were never used.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self { slots: Vec::new(), count, target: count }
    }

    /// The highest slot that may be used.
    #[must_use]
    pub fn highest(&self) -> u32 {
        self.count.saturating_sub(1)
    }

    /// The highest slot that is to be used.
    #[must_use]
    pub fn target_highest(&self) -> u32 {
        self.target.saturating_sub(1)
    }

    /// How many requests are at work.
    #[must_use]
    pub fn busy_count(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_busy).count()
    }

    /// Would have the client use another number of slots. More it may use at once; fewer
    /// are all it may use once it uses no others.
    pub fn aim(&mut self, count: u32) {
        self.target = count.max(1);
        self.count = self.count.max(self.target);
    }

    /// The client says how far it uses slots. Those that it may use no longer lose their
    /// replies, but know where their numbers were. How many it may use no longer.
    pub fn settle(&mut self, highest: u32) -> u32 {
        if highest >= self.target {
            return 0;
        }
        for slot in self.slots.iter_mut().skip(self.target as usize) {
            slot.reply = None;
        }
        let before = std::mem::replace(&mut self.count, self.target);
        before - self.count
    }

    /// A request has come. RFC 8881 18.46.3.
    pub fn begin(&mut self, slot: u32, sequence: u32, fingerprint: Fingerprint) -> Begun {
        if slot >= self.count {
            return Begun::BadSlot;
        }
        let at = slot as usize;
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, Slot::default);
        }
        let slot = &mut self.slots[at];
        if slot.is_busy {
            return if slot.sequence == sequence { Begun::Busy } else { Begun::Misordered };
        }
        if sequence == slot.sequence.wrapping_add(1) {
            *slot = Slot { sequence, is_busy: true, is_used: true, fingerprint, reply: None };
            return Begun::Execute;
        }
        if sequence != slot.sequence || !slot.is_used {
            return Begun::Misordered;
        }
        if slot.fingerprint != fingerprint {
            return Begun::FalseRetry;
        }
        slot.reply.clone().map_or(Begun::Uncached, Begun::Replay)
    }

    /// The request of a slot is answered; the reply is kept if there is one to keep.
    pub fn finish(&mut self, slot: u32, reply: Option<Bytes>) {
        let is_usable = slot < self.count;
        let Some(slot) = self.slots.get_mut(slot as usize) else { return };
        slot.is_busy = false;
        slot.reply = reply.filter(|_| is_usable);
    }

    /// The request of a slot was withdrawn before anything was done: it may come again.
    pub fn give_up(&mut self, slot: u32) {
        let Some(slot) = self.slots.get_mut(slot as usize) else { return };
        if slot.is_busy {
            slot.sequence = slot.sequence.wrapping_sub(1);
            slot.is_busy = false;
            slot.is_used = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Fingerprint = Fingerprint(1);
    const B: Fingerprint = Fingerprint(2);

    fn reply(text: &'static str) -> Option<Bytes> {
        Some(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_request_that_comes_again_gets_the_stored_reply() {
        let mut slots = Slots::new(2);
        assert_eq!(slots.begin(1, 1, A), Begun::Execute);
        assert_eq!(slots.begin(1, 1, A), Begun::Busy);
        slots.finish(1, reply("done"));
        assert_eq!(slots.begin(1, 1, A), Begun::Replay(Bytes::from_static(b"done")));
        assert_eq!(slots.begin(1, 2, A), Begun::Execute);
        assert_eq!(slots.slots[1].reply, None, "the next request ends what was kept of the last");
    }

    #[test]
    fn what_was_not_to_be_kept_is_not_executed_again() {
        let mut slots = Slots::new(1);
        slots.begin(0, 1, A);
        slots.finish(0, None);
        assert_eq!(slots.begin(0, 1, A), Begun::Uncached);
    }

    #[test]
    fn a_number_that_is_neither_next_nor_last_is_misordered() {
        let mut slots = Slots::new(1);
        assert_eq!(slots.begin(0, 0, A), Begun::Misordered, "before the first");
        assert_eq!(slots.begin(0, 2, A), Begun::Misordered);
        slots.begin(0, 1, A);
        assert_eq!(slots.begin(0, 2, A), Begun::Misordered, "while the first is at work");
        slots.finish(0, None);
        assert_eq!(slots.begin(0, 3, A), Begun::Misordered);
        assert_eq!(slots.begin(0, 0, A), Begun::Misordered);
    }

    #[test]
    fn another_request_under_the_same_number_is_a_false_retry() {
        let mut slots = Slots::new(1);
        slots.begin(0, 1, A);
        slots.finish(0, reply("done"));
        assert_eq!(slots.begin(0, 1, B), Begun::FalseRetry);
    }

    #[test]
    fn a_withdrawn_request_may_come_again() {
        let mut slots = Slots::new(1);
        slots.begin(0, 1, A);
        slots.give_up(0);
        assert_eq!(slots.begin(0, 0, A), Begun::Misordered);
        assert_eq!(slots.begin(0, 1, B), Begun::Execute);
    }

    #[test]
    fn numbers_go_on_after_the_last() {
        let mut slots = Slots::new(1);
        slots.slots.push(Slot { sequence: u32::MAX, is_used: true, ..Slot::default() });
        assert_eq!(slots.begin(0, 0, A), Begun::Execute);
    }

    #[test]
    fn fewer_slots_are_enforced_once_the_client_uses_no_others() {
        let mut slots = Slots::new(3);
        for slot in 0..3 {
            slots.begin(slot, 1, A);
            slots.finish(slot, reply("12345"));
        }
        slots.aim(1);
        assert_eq!((slots.highest(), slots.target_highest()), (2, 0));
        assert_eq!(slots.settle(2), 0, "it has not heard of it yet");
        assert_eq!(slots.begin(2, 2, A), Begun::Execute);
        slots.finish(2, None);
        assert_eq!(slots.settle(0), 2);
        assert_eq!(slots.begin(2, 3, A), Begun::BadSlot);
        assert_eq!(slots.slots[1].reply, None);
        slots.aim(3);
        assert_eq!(slots.begin(2, 3, A), Begun::Execute, "numbers go on");
    }

    #[test]
    fn the_length_of_a_request_is_part_of_what_it_is() {
        let long = vec![7; FINGERPRINT_BYTES * 2];
        assert_eq!(Fingerprint::of(&long), Fingerprint::of(&long.clone()));
        assert_ne!(Fingerprint::of(&long), Fingerprint::of(&long[1..]));
    }

    proptest! {
        #[test]
        fn whatever_comes_no_request_is_executed_twice(
            calls in proptest::collection::vec((0u32..3, 0u32..4, any::<bool>()), 0..60)
        ) {
            let mut slots = Slots::new(2);
            let mut last = [0u32; 2];
            for (slot, sequence, kept) in calls {
                let begun = slots.begin(slot, sequence, A);
                if slot >= 2 {
                    prop_assert_eq!(begun, Begun::BadSlot);
                    continue;
                }
                let last = &mut last[slot as usize];
                if begun == Begun::Execute {
                    prop_assert_eq!(sequence, *last + 1);
                    *last = sequence;
                    slots.finish(slot, if kept { reply("x") } else { None });
                } else if sequence == *last && sequence > 0 {
                    prop_assert!(matches!(begun, Begun::Replay(_) | Begun::Uncached));
                } else {
                    prop_assert_eq!(begun, Begun::Misordered);
                }
            }
        }
    }
}
