//! Slots of a session: exactly-once execution. RFC 8881 2.10.6.1.
//!
//! Pure: no lock, no clock. A slot is idle or executes one request. It caches the reply of the
//! latest request, if the client asked for that, until the next one.

use crate::limits::FINGERPRINT_BYTES;
use bytes::Bytes;
use std::hash::{BuildHasher, Hash, Hasher};
use vfs::KeyedBuildHasher;

/// Fingerprint to distinguish a retransmission from a different request with the same sequence id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Covers the operations behind SEQUENCE: their length and their head, so that a large WRITE
    /// costs no more than another request. SEQUENCE itself may differ, because Linux encodes a
    /// retransmission anew with its current highest slot.
    #[must_use]
    pub fn of(operations: &[u8]) -> Self {
        // The key is fixed: a client that forges a collision harms only itself.
        let mut hasher = KeyedBuildHasher::by(0).build_hasher();
        operations.len().hash(&mut hasher);
        operations[..operations.len().min(FINGERPRINT_BYTES)].hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Cached reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedReply {
    /// Encoded results, from the COMPOUND status on.
    pub bytes: Bytes,
    /// The reply was sent under TLS: no connection without TLS gets it.
    pub is_sealed: bool,
}

/// Decision of the slot on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotDecision {
    /// A new request, which owns the slot until [`ForeSlots::finish`] or [`ForeSlots::cancel`].
    Execute,
    /// A retransmission with a cached reply.
    Replay(CachedReply),
    /// A retransmission without a cached reply.
    Uncached,
    /// The request is executing.
    Busy,
    /// Neither the next sequence id nor the latest.
    Misordered,
    /// A different request with the latest sequence id.
    FalseRetry,
    /// The slot does not exist.
    BadSlot,
}

#[derive(Debug, Default)]
struct ForeSlot {
    /// Sequence id of the latest request; zero before the first.
    sequence: u32,
    is_busy: bool,
    is_used: bool,
    fingerprint: Fingerprint,
    reply: Option<CachedReply>,
    /// Version of the target that the latest reply reported.
    reported_target: u32,
    /// The client had the current target when it sent the current request.
    knows_target: bool,
}

/// Slots of one session's fore channel.
#[derive(Debug)]
pub struct ForeSlots {
    slots: Vec<ForeSlot>,
    /// Slots that the client may use.
    count: u32,
    /// Slots that the client should use.
    target: u32,
    /// Version of the target.
    target_version: u32,
}

impl ForeSlots {
    /// `count` unused slots.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self { slots: Vec::new(), count, target: count, target_version: 0 }
    }

    /// Highest slot that the client may use.
    #[must_use]
    pub fn highest(&self) -> u32 {
        self.count.saturating_sub(1)
    }

    /// Highest slot that the client should use.
    #[must_use]
    pub fn target_highest(&self) -> u32 {
        self.target.saturating_sub(1)
    }

    /// Number of executing requests.
    #[must_use]
    pub fn busy_count(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_busy).count()
    }

    /// Sets the target slot count. An increase applies at once; a decrease once the client uses no
    /// higher slots.
    pub fn set_target(&mut self, count: u32) {
        self.target = count.max(1);
        self.target_version = self.target_version.wrapping_add(1);
        self.count = self.count.max(self.target);
    }

    /// Highest and target highest slot, as the reply in this slot reports them.
    pub fn report(&mut self, slot: u32) -> (u32, u32) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.reported_target = self.target_version;
        }
        (self.highest(), self.target_highest())
    }

    /// Applies the highest slot that the request in `slot` reports. Slots beyond the target lose
    /// their replies but retain their sequence ids. Returns how many the client may no longer use.
    ///
    /// The report counts only if the client had the target, from the previous reply in this slot.
    /// Otherwise the request may be older than others on faster connections, which use higher slots
    /// and have yet to arrive.
    pub fn apply_highest(&mut self, slot: u32, highest: u32) -> u32 {
        let knows_target = self.slots.get(slot as usize).is_some_and(|slot| slot.knows_target);
        if highest >= self.target || !knows_target {
            return 0;
        }
        for slot in self.slots.iter_mut().skip(self.target as usize) {
            slot.reply = None;
        }
        let before = std::mem::replace(&mut self.count, self.target);
        before - self.count
    }

    /// Decides on a request. RFC 8881 18.46.3.
    pub fn begin(&mut self, slot: u32, sequence: u32, fingerprint: Fingerprint) -> SlotDecision {
        if slot >= self.count {
            return SlotDecision::BadSlot;
        }
        let at = slot as usize;
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, ForeSlot::default);
        }
        let slot = &mut self.slots[at];
        if slot.is_busy {
            return if slot.sequence == sequence {
                SlotDecision::Busy
            } else {
                SlotDecision::Misordered
            };
        }
        if sequence == slot.sequence.wrapping_add(1) {
            let ForeSlot { reported_target, is_used, .. } = *slot;
            let knows_target = is_used && reported_target == self.target_version;
            let (is_busy, is_used, reply) = (true, true, None);
            *slot = ForeSlot {
                sequence,
                is_busy,
                is_used,
                fingerprint,
                reply,
                reported_target,
                knows_target,
            };
            return SlotDecision::Execute;
        }
        if sequence != slot.sequence || !slot.is_used {
            return SlotDecision::Misordered;
        }
        if slot.fingerprint != fingerprint {
            return SlotDecision::FalseRetry;
        }
        slot.reply.clone().map_or(SlotDecision::Uncached, SlotDecision::Replay)
    }

    /// Ends the request of a slot, and caches the reply if there is one.
    pub fn finish(&mut self, slot: u32, reply: Option<CachedReply>) {
        let is_usable = slot < self.count;
        let Some(slot) = self.slots.get_mut(slot as usize) else { return };
        slot.is_busy = false;
        slot.reply = reply.filter(|_| is_usable);
    }

    /// Withdraws the request of a slot before it had an effect: the client may send it again.
    pub fn cancel(&mut self, slot: u32) {
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

    fn kept(text: &'static str) -> CachedReply {
        CachedReply { bytes: Bytes::from_static(text.as_bytes()), is_sealed: false }
    }

    fn reply(text: &'static str) -> Option<CachedReply> {
        Some(kept(text))
    }

    #[test]
    fn retransmission_gets_the_cached_reply() {
        let mut slots = ForeSlots::new(2);
        assert_eq!(slots.begin(1, 1, A), SlotDecision::Execute);
        assert_eq!(slots.begin(1, 1, A), SlotDecision::Busy);
        slots.finish(1, reply("done"));
        assert_eq!(slots.begin(1, 1, A), SlotDecision::Replay(kept("done")));
        assert_eq!(slots.begin(1, 2, A), SlotDecision::Execute);
        assert_eq!(slots.slots[1].reply, None, "the next request ends what was kept of the last");
    }

    #[test]
    fn uncached_retransmission_is_not_executed() {
        let mut slots = ForeSlots::new(1);
        slots.begin(0, 1, A);
        slots.finish(0, None);
        assert_eq!(slots.begin(0, 1, A), SlotDecision::Uncached);
    }

    #[test]
    fn sequence_neither_next_nor_latest_is_misordered() {
        let mut slots = ForeSlots::new(1);
        assert_eq!(slots.begin(0, 0, A), SlotDecision::Misordered, "before the first");
        assert_eq!(slots.begin(0, 2, A), SlotDecision::Misordered);
        slots.begin(0, 1, A);
        assert_eq!(slots.begin(0, 2, A), SlotDecision::Misordered, "while the first is at work");
        slots.finish(0, None);
        assert_eq!(slots.begin(0, 3, A), SlotDecision::Misordered);
        assert_eq!(slots.begin(0, 0, A), SlotDecision::Misordered);
    }

    #[test]
    fn different_request_with_same_sequence_is_false_retry() {
        let mut slots = ForeSlots::new(1);
        slots.begin(0, 1, A);
        slots.finish(0, reply("done"));
        assert_eq!(slots.begin(0, 1, B), SlotDecision::FalseRetry);
    }

    #[test]
    fn withdrawn_request_may_be_sent_again() {
        let mut slots = ForeSlots::new(1);
        slots.begin(0, 1, A);
        slots.cancel(0);
        assert_eq!(slots.begin(0, 0, A), SlotDecision::Misordered);
        assert_eq!(slots.begin(0, 1, B), SlotDecision::Execute);
    }

    #[test]
    fn sequence_id_wraps_around() {
        let mut slots = ForeSlots::new(1);
        slots.slots.push(ForeSlot { sequence: u32::MAX, is_used: true, ..ForeSlot::default() });
        assert_eq!(slots.begin(0, 0, A), SlotDecision::Execute);
    }

    #[test]
    fn slot_decrease_applies_once_client_complies() {
        let mut slots = ForeSlots::new(3);
        for slot in 0..3 {
            slots.begin(slot, 1, A);
            slots.finish(slot, reply("12345"));
        }
        slots.set_target(1);
        assert_eq!((slots.highest(), slots.target_highest()), (2, 0));
        assert_eq!(slots.begin(0, 2, A), SlotDecision::Execute);
        assert_eq!(slots.apply_highest(0, 0), 0, "it has not heard of it yet");
        assert_eq!(slots.report(0), (2, 0));
        assert_eq!(slots.begin(2, 2, A), SlotDecision::Execute, "as it may not have, either");
        slots.finish(0, None);
        assert_eq!(slots.begin(0, 3, A), SlotDecision::Execute);
        assert_eq!(slots.apply_highest(0, 2), 0, "it says that it still uses it");
        slots.finish(2, None);
        slots.finish(0, None);
        assert_eq!(slots.begin(0, 4, A), SlotDecision::Execute);
        assert_eq!(slots.apply_highest(0, 0), 2);
        assert_eq!(slots.begin(2, 3, A), SlotDecision::BadSlot);
        assert_eq!(slots.slots[1].reply, None);
        slots.set_target(3);
        assert_eq!(slots.begin(2, 3, A), SlotDecision::Execute, "numbers go on");
    }

    #[test]
    fn fingerprint_covers_the_request_length() {
        let long = vec![7; FINGERPRINT_BYTES * 2];
        assert_eq!(Fingerprint::of(&long), Fingerprint::of(&long.clone()));
        assert_ne!(Fingerprint::of(&long), Fingerprint::of(&long[1..]));
    }

    proptest! {
        #[test]
        fn no_sequence_of_calls_executes_a_request_twice(
            calls in proptest::collection::vec((0u32..3, 0u32..4, any::<bool>()), 0..60)
        ) {
            let mut slots = ForeSlots::new(2);
            let mut last = [0u32; 2];
            for (slot, sequence, kept) in calls {
                let begun = slots.begin(slot, sequence, A);
                if slot >= 2 {
                    prop_assert_eq!(begun, SlotDecision::BadSlot);
                    continue;
                }
                let last = &mut last[slot as usize];
                if begun == SlotDecision::Execute {
                    prop_assert_eq!(sequence, *last + 1);
                    *last = sequence;
                    slots.finish(slot, if kept { reply("x") } else { None });
                } else if sequence == *last && sequence > 0 {
                    prop_assert!(matches!(begun, SlotDecision::Replay(_) | SlotDecision::Uncached));
                } else {
                    prop_assert_eq!(begun, SlotDecision::Misordered);
                }
            }
        }
    }
}
