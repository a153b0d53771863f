//! Slots of a backchannel: sequence ids, so that a retransmitted callback is not executed twice.
//! RFC 8881 2.10.6, 20.9.
//!
//! Pure: no messages, no connections.

/// One slot.
#[derive(Clone, Copy, Debug, Default)]
struct CallbackSlot {
    /// Sequence id of the latest callback that the client has executed.
    sequence: u32,
    is_busy: bool,
}

/// Slot and sequence id of one callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackSequence {
    /// Slot id.
    pub slot: u32,
    /// Sequence id of the callback.
    pub sequence: u32,
    /// Highest slot in use.
    pub highest: u32,
}

/// All slots of a session's backchannel.
#[derive(Debug)]
pub struct CallbackSlots(Vec<CallbackSlot>);

impl CallbackSlots {
    /// `count` unused slots.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self(vec![CallbackSlot::default(); count as usize])
    }

    /// Takes the lowest free slot.
    pub fn take(&mut self) -> Option<CallbackSequence> {
        let at = self.0.iter().position(|slot| !slot.is_busy)?;
        self.0[at].is_busy = true;
        let highest = self.0.iter().rposition(|slot| slot.is_busy).unwrap_or(at);
        let sequence = self.0[at].sequence.wrapping_add(1);
        Some(CallbackSequence { slot: at as u32, sequence, highest: highest as u32 })
    }

    /// Records that the client has executed the callback of the slot. Returns the next sequence id.
    pub fn advance(&mut self, slot: u32) -> u32 {
        let slot = &mut self.0[slot as usize];
        slot.sequence = slot.sequence.wrapping_add(1);
        slot.sequence.wrapping_add(1)
    }

    /// Restarts the slot's sequence, as after a restart of the client. Returns the first sequence
    /// id.
    pub fn restart(&mut self, slot: u32) -> u32 {
        self.0[slot as usize].sequence = 0;
        1
    }

    /// Frees the slot. An unexecuted callback leaves its sequence id for the next one.
    pub fn release(&mut self, slot: u32) {
        self.0[slot as usize].is_busy = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_id_advances_when_the_client_has_executed() {
        let mut slots = CallbackSlots::new(1);
        assert_eq!(slots.take(), Some(CallbackSequence { slot: 0, sequence: 1, highest: 0 }));
        assert_eq!(slots.take(), None, "it is in use");
        slots.release(0);
        assert_eq!(slots.take().map(|place| place.sequence), Some(1), "nobody has answered");
        assert_eq!(slots.advance(0), 2);
        slots.release(0);
        assert_eq!(slots.take().map(|place| place.sequence), Some(2));
        slots.restart(0);
        slots.release(0);
        assert_eq!(slots.take().map(|place| place.sequence), Some(1));
    }

    #[test]
    fn concurrent_callbacks_use_distinct_slots() {
        let mut slots = CallbackSlots::new(3);
        let places: Vec<CallbackSequence> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(places.iter().map(|place| place.slot).collect::<Vec<_>>(), [0, 1, 2]);
        slots.release(1);
        assert_eq!(slots.take(), Some(CallbackSequence { slot: 1, sequence: 1, highest: 2 }));
    }
}
