//! Entries that wait to be claimed, each until its deadline. The caller that removes an entry owns
//! it exclusively.
//!
//! Pure: no clock, no lock. MS-SMB2 3.3.2.2, 3.3.6.2 (the scavenger timer).

use std::collections::HashMap;
use std::time::Instant;

/// Entries by their id.
#[derive(Debug)]
pub struct TimedTable<T> {
    waiting: HashMap<u64, TimedEntry<T>>,
}

#[derive(Debug)]
struct TimedEntry<T> {
    thing: T,
    until: Instant,
}

impl<T> Default for TimedTable<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new() }
    }
}

impl<T> TimedTable<T> {
    /// Adds an entry, and returns the previous one under `id`.
    pub fn insert(&mut self, id: u64, thing: T, until: Instant) -> Option<T> {
        self.waiting.insert(id, TimedEntry { thing, until }).map(|old| old.thing)
    }

    /// The entry under `id`.
    pub fn get(&self, id: u64) -> Option<&T> {
        self.waiting.get(&id).map(|waiting| &waiting.thing)
    }

    /// The entry under `id`, unless its deadline has passed at `now`.
    pub fn get_in_time(&self, id: u64, now: Instant) -> Option<&T> {
        self.waiting.get(&id).filter(|waiting| waiting.until > now).map(|waiting| &waiting.thing)
    }

    /// Removes an entry.
    pub fn remove(&mut self, id: u64) -> Option<T> {
        self.waiting.remove(&id).map(|waiting| waiting.thing)
    }

    /// Removes the entries whose deadline has passed.
    pub fn remove_expired(&mut self, now: Instant) -> Vec<T> {
        let expired = self.waiting.extract_if(|_, waiting| waiting.until <= now);
        expired.map(|(_, waiting)| waiting.thing).collect()
    }

    /// Removes all entries.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.waiting.drain().map(|(_, waiting)| waiting.thing)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Events that compete for the one entry.
    #[derive(Clone, Copy, Debug)]
    enum RaceEvent {
        Reconnect,
        Scavenge,
        Break,
        LoseAgain,
    }

    /// All permutations of `steps`.
    fn orders(steps: &[RaceEvent]) -> Vec<Vec<RaceEvent>> {
        if steps.is_empty() {
            return vec![Vec::new()];
        }
        let mut all = Vec::new();
        for at in 0..steps.len() {
            let mut rest = steps.to_vec();
            let first = rest.remove(at);
            all.extend(orders(&rest).into_iter().map(|mut order| {
                order.insert(0, first);
                order
            }));
        }
        all
    }

    #[test]
    fn entry_has_one_taker_in_any_order_of_events() {
        let begun = Instant::now();
        let late = begun + Duration::from_secs(61);
        let steps = [
            RaceEvent::Reconnect,
            RaceEvent::Scavenge,
            RaceEvent::Break,
            RaceEvent::LoseAgain,
            RaceEvent::Reconnect,
        ];
        for order in orders(&steps) {
            let mut reserve = TimedTable::default();
            reserve.insert(1, (), begun + Duration::from_mins(1));
            let (mut in_use, mut closed) = (0, 0);
            for step in &order {
                match step {
                    RaceEvent::Reconnect => in_use += usize::from(reserve.remove(1).is_some()),
                    RaceEvent::Scavenge => closed += reserve.remove_expired(late).len(),
                    RaceEvent::Break => closed += usize::from(reserve.remove(1).is_some()),
                    RaceEvent::LoseAgain if in_use > 0 => {
                        in_use -= 1;
                        assert!(reserve.insert(1, (), late + Duration::from_mins(1)).is_none());
                    }
                    RaceEvent::LoseAgain => {}
                }
                assert_eq!(in_use + closed + reserve.len(), 1, "{order:?} at {step:?}");
            }
        }
    }

    #[test]
    fn only_expired_entries_are_removed() {
        let now = Instant::now();
        let mut reserve = TimedTable::default();
        reserve.insert(1, "first", now + Duration::from_secs(1));
        reserve.insert(2, "second", now + Duration::from_secs(2));
        assert!(reserve.remove_expired(now).is_empty());
        assert_eq!(reserve.remove_expired(now + Duration::from_secs(1)), ["first"]);
        assert_eq!(reserve.get(2), Some(&"second"));
    }
}
