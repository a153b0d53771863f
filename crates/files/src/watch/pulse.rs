//! State that all watches share: ticks and generation.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use vfs::RelPath;

/// Directories for which a watch caches whether its user may list them.
const LIST_RIGHTS_MAX: usize = 16;

/// The tick of all watches.
#[derive(Debug, Default)]
pub(crate) struct WatchPulse {
    /// Whether data changes were reported since the last tick.
    pub has_data: AtomicBool,
    /// Whether a tick is reporting queued changes: watches defer them and report at its end.
    pub is_ticking: AtomicBool,
    /// Number of ticks, about a second each.
    ticks: AtomicU32,
    /// Changes with the watches, the paths of open files and ACLs.
    generation: AtomicU32,
    /// Hasher of directories, for [`ListRights`].
    hasher: RandomState,
}

impl WatchPulse {
    pub fn tick(&self) -> u32 {
        self.ticks.load(Ordering::Relaxed)
    }

    pub fn handle_tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    /// Generation of 31 bits, never 0.
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire) | 1 << 30
    }

    pub fn renew_generation(&self) {
        let next = |generation: u32| Some(generation.wrapping_add(1) & (u32::MAX >> 2));
        let _ = self.generation.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
    }

    /// Generation and tick within which cached rights hold.
    pub fn rights_as_of(&self) -> (u32, u32) {
        (self.generation(), self.tick())
    }

    /// A 64-bit keyed hash of a directory, since a path takes up to 4 KiB. A collision is as rare
    /// as a guessed key of that length.
    pub fn hash_of(&self, directory: &RelPath) -> u64 {
        self.hasher.hash_one(directory.as_bytes())
    }
}

/// Counts an event that may occur a few times between two ticks.
#[derive(Debug, Default)]
pub(crate) struct TickQuota(AtomicU32);

impl TickQuota {
    /// Bits of the count; the others hold the tick.
    const COUNT_BITS: u32 = 3;

    /// Takes one of at most `max` occurrences in this tick; `max` is below 8.
    pub fn try_take(&self, tick: u32, max: u32) -> bool {
        let tick = tick << Self::COUNT_BITS;
        let is_same = |state: u32| state >> Self::COUNT_BITS == tick >> Self::COUNT_BITS;
        let next = |state: u32| {
            let count = if is_same(state) { state & ((1 << Self::COUNT_BITS) - 1) } else { 0 };
            (count < max).then_some(tick | (count + 1))
        };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

/// Cached rights of a watch's user to list directories.
#[derive(Debug, Default)]
pub(crate) struct ListRights {
    as_of: (u32, u32),
    /// Rights by [`WatchPulse::hash_of`].
    found: Vec<(u64, bool)>,
}

impl ListRights {
    pub fn get(&self, as_of: (u32, u32), directory: u64) -> Option<bool> {
        let found = self.found.iter().filter(|_| self.as_of == as_of);
        found.copied().find(|(other, _)| *other == directory).map(|(_, may_list)| may_list)
    }

    /// Caches a right; `as_of` was read before the lookup.
    pub fn set(&mut self, as_of: (u32, u32), directory: u64, may_list: bool) {
        if self.as_of != as_of || self.found.len() >= LIST_RIGHTS_MAX {
            self.found.clear();
            self.as_of = as_of;
        }
        self.found.push((directory, may_list));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_per_tick_is_taken_at_most_once() {
        let turns = TickQuota::default();
        for tick in [0, 1, 7, u32::MAX, 0] {
            let taken = (0..10).filter(|_| turns.try_take(tick, 4)).count();
            assert_eq!(taken, 4, "{tick}");
        }
    }

    #[test]
    fn cached_list_right_lasts_until_tick_or_generation() {
        let mut rights = ListRights::default();
        let pulse = WatchPulse::default();
        let first = pulse.rights_as_of();
        rights.set(first, 7, true);
        rights.set(first, 8, false);
        let found = |rights: &ListRights, as_of| [7, 8, 9].map(|at| rights.get(as_of, at));
        assert_eq!(found(&rights, first), [Some(true), Some(false), None]);
        pulse.renew_generation();
        let second = pulse.rights_as_of();
        assert_eq!(found(&rights, second), [None; 3]);
        rights.set(second, 9, true);
        assert_eq!(found(&rights, second), [None, None, Some(true)]);
        pulse.handle_tick();
        assert_eq!(found(&rights, pulse.rights_as_of()), [None; 3]);
        (0..100).for_each(|at| rights.set(second, at, true));
        assert!(rights.found.len() <= LIST_RIGHTS_MAX);
    }
}
