//! ChannelSequence: detects requests that a client sent before it lost a channel. A late original
//! must not overtake its replay. MS-SMB2 3.3.5.2.10, 3.3.4.1.

/// The largest forward step; a greater difference is a step back.
const FORWARD_MAX: u16 = 0x7FFF;

/// The outstanding requests of one open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelSequence {
    present: u16,
    /// Changes of the sequence so far; the 16-bit number itself wraps around.
    generation: u64,
    /// Outstanding requests with the present sequence.
    current: u32,
    /// Outstanding requests with earlier sequences.
    before: u32,
}

/// The generation in which a request began; passed back at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceGeneration(u64);

/// The request belongs to a channel that its client has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleSequence;

impl ChannelSequence {
    /// The state of an open whose CREATE had this sequence number.
    #[must_use]
    pub fn new(present: u16) -> Self {
        Self { present, ..Self::default() }
    }

    /// Begins a request with the number `sequence`; `replays` means SMB2_FLAGS_REPLAY_OPERATION.
    ///
    /// # Errors
    /// [`StaleSequence`]: the request is not counted, and must not change anything.
    pub fn begin(
        &mut self,
        sequence: u16,
        replays: bool,
    ) -> Result<SequenceGeneration, StaleSequence> {
        let step = sequence.wrapping_sub(self.present);
        // An original may still arrive, so its replay is premature.
        if step > FORWARD_MAX || (replays && self.before > 0) {
            return Err(StaleSequence);
        }
        if step > 0 {
            self.before += self.current;
            self.current = 0;
            self.present = sequence;
            self.generation += 1;
        }
        self.current += 1;
        Ok(SequenceGeneration(self.generation))
    }

    /// Ends a request that began in generation `begun`: it was answered or cancelled.
    pub fn end(&mut self, begun: SequenceGeneration) {
        if begun.0 == self.generation {
            self.current -= 1;
        } else {
            self.before -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn later_channel_sequence_makes_earlier_ones_stale() {
        let mut open = ChannelSequence::default();
        let first = open.begin(0, false).unwrap();
        open.begin(1, false).unwrap();
        assert_eq!(open.begin(0, false), Err(StaleSequence));
        assert_eq!(open.begin(0, true), Err(StaleSequence));
        open.end(first);
        assert_eq!(open.begin(0, false), Err(StaleSequence));
    }

    #[test]
    fn replay_is_stale_while_an_earlier_request_is_outstanding() {
        let mut open = ChannelSequence::default();
        let first = open.begin(7, false).unwrap();
        assert!(open.begin(8, true).is_ok(), "nothing with a number before it was known");
        assert_eq!(open.begin(8, true), Err(StaleSequence), "now there is");
        assert_eq!(open.begin(9, true), Err(StaleSequence));
        assert!(open.begin(8, false).is_ok(), "a new request need not wait");
        open.end(first);
        assert!(open.begin(8, true).is_ok());
    }

    #[test]
    fn channel_sequence_wraps_around() {
        let mut open = ChannelSequence::new(0xFFFF);
        assert!(open.begin(0, false).is_ok());
        assert_eq!(open.begin(0xFFFF, false), Err(StaleSequence));
        assert!(open.begin(0x7FFF, false).is_ok());
        assert_eq!(open.begin(0xFFFF, false), Err(StaleSequence));
        assert!(open.begin(0xFFFE, false).is_ok());
    }

    #[test]
    fn reused_channel_sequence_is_a_new_generation() {
        let mut open = ChannelSequence::default();
        let long = open.begin(0, false).unwrap();
        for number in [30_000, 60_000, 0] {
            let short = open.begin(number, false).unwrap();
            open.end(short);
        }
        open.end(long);
        assert_eq!(open, ChannelSequence { generation: 3, ..ChannelSequence::default() });
    }

    proptest! {
        #[test]
        fn outstanding_requests_are_counted_once(
            steps in prop::collection::vec((any::<u16>(), any::<bool>(), 0..4usize), 1..100),
        ) {
            let mut open = ChannelSequence::default();
            let mut outstanding = Vec::new();
            for (number, replays, ends) in steps {
                outstanding.extend(open.begin(number, replays));
                for _ in 0..ends.min(outstanding.len()) {
                    open.end(outstanding.remove(usize::from(number) % outstanding.len()));
                }
                let counted = (open.current + open.before) as usize;
                prop_assert_eq!(counted, outstanding.len());
            }
        }
    }
}
