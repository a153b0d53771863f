//! LOCK requests that an open has completed: a client that lost a channel replays the last ones.
//! MS-SMB2 3.3.1.10, 3.3.5.14.

/// Entries of Open.LockSequenceArray: LOCK requests that a client may have outstanding.
pub const LOCK_SEQUENCE_ENTRIES: usize = 64;
/// An entry without a request.
const UNUSED: u8 = u8::MAX;
/// Flag beside a sequence number: the request runs, or was undone.
const NOT_DONE: u8 = 0x10;
/// The largest backward step, of numbers modulo 16.
const BEHIND_MAX: u8 = 7;

/// The last request of each entry.
#[derive(Debug, Default)]
pub struct LockSequences(Option<Box<[u8; LOCK_SEQUENCE_ENTRIES]>>);

impl LockSequences {
    /// True if this request was completed before. Otherwise its entry is invalid until
    /// [`LockSequences::handle_done`].
    pub fn is_replay(&mut self, sequence: u32) -> bool {
        let Some((entry, number)) = entry_of(sequence) else { return false };
        let Some(entries) = &mut self.0 else { return false };
        let replay = entries[entry] == number;
        if !replay {
            entries[entry] = number | NOT_DONE;
        }
        replay
    }

    /// True if the entry has a later sequence number. A multichannel client sends the next request
    /// of an entry only after the response to the last. So this one was sent earlier, on another
    /// channel.
    pub fn is_behind(&self, sequence: u32) -> bool {
        let Some((entry, number)) = entry_of(sequence) else { return false };
        let last = self.0.as_ref().map_or(UNUSED, |entries| entries[entry]);
        last != UNUSED && (1..=BEHIND_MAX).contains(&(last.wrapping_sub(number) & 0xF))
    }

    /// The request was undone.
    pub fn handle_undone(&mut self, sequence: u32) {
        if let (Some((entry, number)), Some(entries)) = (entry_of(sequence), &mut self.0) {
            entries[entry] = number | NOT_DONE;
        }
    }

    /// All entries for the persistent record; none if no request was counted.
    pub fn entries(&self) -> Option<[u8; LOCK_SEQUENCE_ENTRIES]> {
        let done = |entry: u8| if entry & NOT_DONE == 0 { entry } else { UNUSED };
        self.0.as_deref().map(|entries| entries.map(done))
    }

    /// Restores the entries of a persistent record.
    pub fn from_entries(entries: Option<[u8; LOCK_SEQUENCE_ENTRIES]>) -> Self {
        Self(entries.map(Box::new))
    }

    /// The request is complete.
    pub fn handle_done(&mut self, sequence: u32) {
        if let Some((entry, number)) = entry_of(sequence) {
            self.0.get_or_insert_with(|| Box::new([UNUSED; LOCK_SEQUENCE_ENTRIES]))[entry] = number;
        }
    }
}

/// LockSequenceIndex and LockSequenceNumber of a request; none without an index. MS-SMB2 2.2.26.
fn entry_of(sequence: u32) -> Option<(usize, u8)> {
    let entry = (sequence >> 4).checked_sub(1)? as usize;
    (entry < LOCK_SEQUENCE_ENTRIES).then_some((entry, (sequence & 0xF) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_replay_is_detected_until_its_entry_is_reused() {
        let mut sequences = LockSequences::default();
        assert!(!sequences.is_replay(0x11));
        sequences.handle_done(0x11);
        assert!(sequences.is_replay(0x11));
        assert!(!sequences.is_replay(0x21), "another entry");
        assert!(sequences.is_replay(0x11));
        assert!(!sequences.is_replay(0x12), "the next request in this entry");
        assert!(!sequences.is_replay(0x11), "which is free now");
    }

    #[test]
    fn lock_request_is_behind_later_ones_of_its_entry() {
        let mut sequences = LockSequences::default();
        assert!(!sequences.is_behind(0x11), "nothing has come");
        sequences.handle_done(0x11);
        assert!(!sequences.is_behind(0x11) && !sequences.is_behind(0x12));
        assert!(!sequences.is_replay(0x12));
        assert!(sequences.is_behind(0x11), "the next one is being carried out");
        assert_eq!(sequences.entries().unwrap()[0], UNUSED);
        sequences.handle_done(0x12);
        assert!(sequences.is_behind(0x11) && !sequences.is_behind(0x21));
        sequences.handle_done(0x10);
        assert!(sequences.is_behind(0x1F) && !sequences.is_behind(0x11), "numbers come again");
        sequences.handle_undone(0x12);
        assert!(sequences.is_behind(0x11) && !sequences.is_replay(0x12));
    }

    #[test]
    fn lock_indexes_out_of_range_are_ignored() {
        let mut sequences = LockSequences::default();
        for sequence in [0x01, 0x411, u32::MAX] {
            sequences.handle_done(sequence);
            assert!(!sequences.is_replay(sequence));
        }
        sequences.handle_done(0x40F);
        assert!(sequences.is_replay(0x40F));
    }
}
