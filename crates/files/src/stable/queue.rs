//! Queue of requests that wait for objects to reach stable storage, without threads or disks.
//!
//! Each object is synced at most once at a time, and several objects concurrently: file system
//! journals let those share a commit. A request that arrives during its object's sync waits for the
//! next one, since its change may have missed this one.
//!
//! Each holder has a lane of the objects that its requests wait for. The next object comes from the
//! holder with the fewest syncs in flight, round-robin among equals. A holder thus waits for at
//! most one sync of each other holder, and no holder occupies all syncs. An object that several
//! holders wait for is in each lane; the first turn of any of them syncs it for all.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;

/// Limits of concurrent syncs on one file system.
#[derive(Clone, Copy, Debug)]
pub struct SyncBounds {
    /// Limit over all holders.
    pub all: usize,
    /// Limit for turns of one holder.
    pub holder: usize,
}

/// Waiting objects `O` of one file system by key `K`, with their waiters `W`, charged to holders
/// `H`.
#[derive(Debug)]
pub struct SyncQueue<K, H, O, W> {
    lanes: HashMap<H, SyncLane<K>>,
    /// Holders with waiting objects, each once, in round-robin order.
    turns: VecDeque<H>,
    entries: BTreeMap<K, QueuedObject<H, O, W>>,
    /// Number of the latest requested sync.
    last_number: u64,
    /// Threads that sync or were summoned.
    threads: usize,
    /// Syncs in flight.
    in_flight: usize,
    bounds: SyncBounds,
}

/// Objects that one holder waits for, in order of request. An entry with an outdated sync number
/// was served at another holder's turn.
#[derive(Debug)]
struct SyncLane<K> {
    waiting: VecDeque<(K, u64)>,
    in_flight: usize,
}

impl<K> Default for SyncLane<K> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), in_flight: 0 }
    }
}

#[derive(Debug)]
struct QueuedObject<H, O, W> {
    /// The next sync; none if no request has joined since the current one began.
    next: Option<NextSync<H, O, W>>,
    /// Holder whose turn runs the current sync, and its waiters.
    in_flight: Option<(H, Vec<W>)>,
}

#[derive(Debug)]
struct NextSync<H, O, W> {
    number: u64,
    object: O,
    /// Holders of the waiters. Once no sync of the object is in flight, their lanes contain it.
    holders: HashSet<H>,
    waiters: Vec<W>,
}

impl<H, O, W> Default for QueuedObject<H, O, W> {
    fn default() -> Self {
        Self { next: None, in_flight: None }
    }
}

impl<K: Ord + Copy, H: Clone + Eq + Hash, O, W> SyncQueue<K, H, O, W> {
    /// An empty queue. A bound of zero counts as one.
    pub fn new(bounds: SyncBounds) -> Self {
        let bounds = SyncBounds { all: bounds.all.max(1), holder: bounds.holder.max(1) };
        Self {
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            entries: BTreeMap::new(),
            last_number: 0,
            threads: 0,
            in_flight: 0,
            bounds,
        }
    }

    /// Adds a waiter for a sync that begins after this call, charged to `holder`. Returns whether
    /// another thread must be started; it is counted already.
    pub fn join(&mut self, key: K, holder: &H, object: O, waiter: W) -> bool {
        let entry = self.entries.entry(key).or_default();
        let next = entry.next.get_or_insert_with(|| {
            self.last_number += 1;
            let (number, holders) = (self.last_number, HashSet::new());
            NextSync { number, object, holders, waiters: Vec::new() }
        });
        next.waiters.push(waiter);
        let is_new = next.holders.insert(holder.clone());
        let number = next.number;
        if is_new && entry.in_flight.is_none() {
            self.push(holder, (key, number));
        }
        self.summon()
    }

    fn push(&mut self, holder: &H, sync: (K, u64)) {
        let lane = self.lanes.entry(holder.clone()).or_default();
        if lane.waiting.is_empty() {
            self.turns.push_back(holder.clone());
        }
        lane.waiting.push_back(sync);
    }

    fn summon(&mut self) -> bool {
        let is_needed = self.threads < self.bounds.all
            && self.has_for(self.threads.saturating_sub(self.in_flight) + 1);
        self.threads += usize::from(is_needed);
        is_needed
    }

    /// Whether `threads` further threads would find an object to sync.
    fn has_for(&self, threads: usize) -> bool {
        let mut runnable = 0;
        // A holder at its bound has syncs in flight, so their number is at most that of threads.
        self.turns.iter().any(|holder| {
            let lane = self.lanes.get(holder);
            runnable += lane.map_or(0, |lane| {
                lane.waiting.len().min(self.bounds.holder.saturating_sub(lane.in_flight))
            });
            runnable >= threads
        })
    }

    /// Index in `turns` of the holder that is next.
    fn next_turn(&self) -> Option<usize> {
        let in_flight = |holder| self.lanes.get(holder).map_or(0, |lane| lane.in_flight);
        let mut best: Option<(usize, usize)> = None;
        for (place, holder) in self.turns.iter().enumerate() {
            let count = in_flight(holder);
            if count < best.map_or(self.bounds.holder, |(fewest, _)| fewest) {
                best = Some((count, place));
            }
            if count == 0 {
                break;
            }
        }
        best.map(|(_, place)| place)
    }

    /// The next object for a thread. None releases the thread, which is not counted any more.
    pub fn next(&mut self) -> Option<(K, O)> {
        while let Some(holder) = self.next_turn().and_then(|place| self.turns.remove(place)) {
            let Some(lane) = self.lanes.get_mut(&holder) else { continue };
            let found = lane.waiting.pop_front();
            if !lane.waiting.is_empty() {
                self.turns.push_back(holder.clone());
            }
            let sync = found.and_then(|(key, number)| {
                let entry = self.entries.get_mut(&key)?;
                let next = entry.next.take_if(|next| next.number == number)?;
                entry.in_flight = Some((holder.clone(), next.waiters));
                Some((key, next.object))
            });
            if sync.is_some() {
                lane.in_flight += 1;
                self.in_flight += 1;
                return sync;
            }
            self.release_lane(&holder);
        }
        self.threads -= 1;
        None
    }

    fn release_lane(&mut self, holder: &H) {
        if self.lanes.get(holder).is_some_and(|l| l.waiting.is_empty() && l.in_flight == 0) {
            self.lanes.remove(holder);
        }
    }

    /// Ends a sync, successful or not. Returns its waiters.
    pub fn finish(&mut self, key: K) -> Vec<W> {
        let Some(entry) = self.entries.get_mut(&key) else { return Vec::new() };
        let Some((holder, waiters)) = entry.in_flight.take() else { return Vec::new() };
        self.in_flight -= 1;
        if let Some(lane) = self.lanes.get_mut(&holder) {
            lane.in_flight -= 1;
        }
        self.release_lane(&holder);
        let entry = self.entries.get(&key);
        if let Some(next) = entry.and_then(|entry| entry.next.as_ref()) {
            let (number, holders) = (next.number, next.holders.clone());
            holders.iter().for_each(|holder| self.push(holder, (key, number)));
        } else {
            self.entries.remove(&key);
        }
        waiters
    }

    /// Removes a thread that never came, or ended other than by [`SyncQueue::next`]. Without
    /// another thread, it returns all waiters.
    pub fn abandon(&mut self) -> Vec<W> {
        self.threads -= 1;
        if self.threads > 0 {
            return Vec::new();
        }
        self.turns.clear();
        self.lanes.clear();
        self.in_flight = 0;
        let entries = std::mem::take(&mut self.entries);
        let waiters = entries.into_values().flat_map(|entry| {
            let next = entry.next.map(|next| next.waiters).unwrap_or_default();
            let in_flight = entry.in_flight.map(|(_, waiters)| waiters).unwrap_or_default();
            in_flight.into_iter().chain(next)
        });
        waiters.collect()
    }

    /// Whether no request waits and no sync is in flight.
    pub fn is_idle(&self) -> bool {
        self.entries.is_empty() && self.threads == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holder for tests in which it does not matter.
    const ONE: u8 = 1;
    type Queue = SyncQueue<u32, u8, &'static str, u32>;

    fn queue(all: usize, holder: usize) -> Queue {
        Queue::new(SyncBounds { all, holder })
    }

    #[test]
    fn waiters_for_one_object_share_a_sync() {
        let mut queue = queue(4, 4);
        assert!(queue.join(7, &ONE, "seven", 1));
        assert!(!queue.join(7, &ONE, "seven", 2));
        assert_eq!(queue.next(), Some((7, "seven")));
        assert_eq!(queue.finish(7), [1, 2]);
        assert_eq!(queue.next(), None);
        assert!(queue.is_idle());
    }

    #[test]
    fn request_during_sync_waits_for_the_next() {
        let mut queue = queue(4, 4);
        queue.join(7, &ONE, "seven", 1);
        queue.next();
        assert!(!queue.join(7, &ONE, "again", 2), "the object is synced once at a time");
        assert_eq!(queue.finish(7), [1]);
        assert_eq!(queue.next(), Some((7, "again")));
        assert_eq!(queue.finish(7), [2]);
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn objects_are_synced_side_by_side_up_to_a_limit() {
        let mut queue = queue(2, 2);
        let summoned: Vec<bool> = (0..4).map(|key| queue.join(key, &ONE, "", key)).collect();
        assert_eq!(summoned, [true, true, false, false]);
        assert_eq!(queue.next(), Some((0, "")));
        assert_eq!(queue.next(), Some((1, "")));
        assert_eq!(queue.finish(1), [1]);
        assert_eq!(queue.next(), Some((2, "")));
        assert_eq!(queue.finish(0), [0]);
        assert_eq!(queue.next(), Some((3, "")));
        assert_eq!(queue.finish(2), [2]);
        assert_eq!(queue.next(), None);
        assert!(!queue.is_idle());
        assert_eq!(queue.finish(3), [3]);
        assert_eq!(queue.next(), None);
        assert!(queue.is_idle());
    }

    #[test]
    fn lost_thread_returns_waiters_without_other_thread() {
        let mut queue = queue(2, 2);
        assert!(queue.join(1, &ONE, "", 1));
        assert!(queue.join(2, &ONE, "", 2));
        assert_eq!(queue.next(), Some((1, "")));
        assert_eq!(queue.abandon(), [], "the other thread continues");
        assert_eq!(queue.finish(1), [1]);
        queue.join(2, &ONE, "", 3);
        assert_eq!(queue.abandon(), [2, 3]);
        assert!(queue.is_idle());
    }

    #[test]
    fn holder_waits_for_one_sync_of_each_other_holder() {
        let mut queue = queue(1, 1);
        assert!(queue.join(0, &1, "", 0));
        for key in 1..1000 {
            assert!(!queue.join(key, &u8::from(key > 500), "", key));
        }
        assert_eq!(queue.next(), Some((0, "")));
        assert!(!queue.join(5000, &7, "late", 5000));
        assert!(!queue.join(5001, &7, "later", 5001));
        let mut order = Vec::new();
        let mut last = 0;
        while order.len() < 6 {
            assert_eq!(queue.finish(last), [last]);
            last = queue.next().unwrap().0;
            order.push(last);
        }
        assert_eq!(order, [1, 501, 5000, 2, 502, 5001]);
    }

    #[test]
    fn long_syncs_of_one_holder_leave_threads_for_others() {
        let mut queue = queue(4, 2);
        let summoned: Vec<bool> = (0..100).map(|key| queue.join(key, &1, "", key)).collect();
        assert_eq!(summoned.iter().filter(|is| **is).count(), 2, "more would find nothing to do");
        assert_eq!(queue.next(), Some((0, "")));
        assert_eq!(queue.next(), Some((1, "")));
        assert!(queue.join(200, &2, "other", 200), "it has a thread at once");
        assert_eq!(queue.next(), Some((200, "other")));
        // The same holds for an object in the first holder's lane.
        assert!(queue.join(99, &3, "", 300));
        assert_eq!(queue.next(), Some((99, "")));
        assert_eq!(queue.finish(99), [99, 300]);
        assert_eq!(queue.next(), None, "the first holder has its part");
        assert_eq!(queue.finish(0), [0]);
        assert_eq!(queue.next(), Some((2, "")));
    }

    #[test]
    fn object_of_several_holders_is_synced_once_for_all() {
        let mut queue = queue(1, 1);
        assert!(queue.join(7, &1, "seven", 1));
        assert!(!queue.join(7, &2, "seven", 2));
        assert_eq!(queue.next(), Some((7, "seven")));
        // These joined after the sync had begun.
        assert!(!queue.join(7, &2, "again", 3));
        assert!(!queue.join(7, &3, "again", 4));
        assert_eq!(queue.finish(7), [1, 2]);
        assert_eq!(queue.next(), Some((7, "again")));
        assert_eq!(queue.finish(7), [3, 4]);
        assert_eq!(queue.next(), None);
        assert!(queue.is_idle() && queue.lanes.is_empty());
    }

    /// Random orders of requests and threads: no waiter is served by a sync that began before it
    /// joined, and none is lost.
    #[test]
    fn random_syncs_serve_each_waiter_once_and_not_early() {
        for seed in 0..20_000_u64 {
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut draw = |below: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % below
            };
            let new = |all, holder| SyncQueue::new(SyncBounds { all, holder });
            let mut queue: SyncQueue<u64, u64, (), usize> =
                new(1 + draw(3) as usize, 1 + draw(3) as usize);
            let (mut summoned, mut joined) = (0, Vec::new());
            // Time counts steps; a sync in flight has a key and its start.
            let (mut under_way, mut served): (Vec<(u64, usize)>, Vec<bool>) = Default::default();
            let finish = |queue: &mut SyncQueue<u64, u64, (), usize>,
                          (key, began): (u64, usize),
                          joined: &[(u64, usize)],
                          served: &mut Vec<bool>| {
                for waiter in queue.finish(key) {
                    assert!(!std::mem::replace(&mut served[waiter], true), "served twice");
                    assert_eq!(joined[waiter].0, key);
                    assert!(joined[waiter].1 < began, "seed {seed}");
                }
            };
            for time in 0..40 {
                match draw(3) {
                    0 => {
                        let key = draw(3);
                        joined.push((key, time));
                        served.push(false);
                        let holder = draw(3);
                        summoned += usize::from(queue.join(key, &holder, (), joined.len() - 1));
                    }
                    1 if summoned > 0 => {
                        summoned -= 1;
                        under_way.extend(queue.next().map(|(key, ())| (key, time)));
                    }
                    _ if !under_way.is_empty() => {
                        let one = under_way.swap_remove(draw(under_way.len() as u64) as usize);
                        finish(&mut queue, one, &joined, &mut served);
                        summoned += 1;
                    }
                    _ => {}
                }
                let keys: std::collections::BTreeSet<u64> =
                    under_way.iter().map(|(key, _)| *key).collect();
                assert_eq!(keys.len(), under_way.len(), "each object once at a time");
            }
            let mut time = 40;
            while summoned > 0 || !under_way.is_empty() {
                time += 1;
                if let Some(one) = under_way.pop() {
                    finish(&mut queue, one, &joined, &mut served);
                    summoned += 1;
                } else {
                    summoned -= 1;
                    under_way.extend(queue.next().map(|(key, ())| (key, time)));
                }
            }
            assert!(served.iter().all(|served| *served) && queue.is_idle(), "seed {seed}");
            assert!(queue.lanes.is_empty() && queue.turns.is_empty(), "seed {seed}");
        }
    }
}
