//! Who waits for which object to be on stable storage, without a thread or a disk.
//!
//! Objects are synced one by one, each at most once at a time, and some at the same time: the
//! journals of file systems have those share a commit. Who asks while an object is being synced
//! waits for the next time, since what it did may have come too late for this one.

use std::collections::{BTreeMap, VecDeque};

/// Objects of one file system that wait, `O` by their keys `K`, and who waits for each, `W`.
#[derive(Debug)]
pub struct SyncQueue<K, O, W> {
    /// Each once, in the order in which they came.
    line: VecDeque<K>,
    entries: BTreeMap<K, Entry<O, W>>,
    /// Threads that sync.
    threads: usize,
    threads_max: usize,
}

#[derive(Debug)]
struct Entry<O, W> {
    /// To be synced, for those who wait; none if nobody has asked since the sync that is under way
    /// began.
    next: Option<(O, Vec<W>)>,
    /// Those for whom it is being synced.
    under_way: Option<Vec<W>>,
}

impl<O, W> Default for Entry<O, W> {
    fn default() -> Self {
        Self { next: None, under_way: None }
    }
}

impl<K: Ord + Copy, O, W> SyncQueue<K, O, W> {
    /// Nothing waits. At most `threads_max` objects are synced at the same time, at least one.
    pub fn new(threads_max: usize) -> Self {
        Self {
            line: VecDeque::new(),
            entries: BTreeMap::new(),
            threads: 0,
            threads_max: threads_max.max(1),
        }
    }

    /// Has `waiter` wait until the object has been synced once from its beginning. Whether a further
    /// thread is to come; it is counted already.
    pub fn join(&mut self, key: K, object: O, waiter: W) -> bool {
        let entry = self.entries.entry(key).or_default();
        match &mut entry.next {
            Some((_, waiters)) => {
                waiters.push(waiter);
                return false;
            }
            None => entry.next = Some((object, vec![waiter])),
        }
        if entry.under_way.is_none() {
            self.line.push_back(key);
        }
        self.summon()
    }

    fn summon(&mut self) -> bool {
        let is_needed = !self.line.is_empty() && self.threads < self.threads_max;
        self.threads += usize::from(is_needed);
        is_needed
    }

    /// What a thread is to sync; none if it may go, and it is not counted any more.
    pub fn next(&mut self) -> Option<(K, O)> {
        while let Some(key) = self.line.pop_front() {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            if let Some((object, waiters)) = entry.next.take() {
                entry.under_way = Some(waiters);
                return Some((key, object));
            }
        }
        self.threads -= 1;
        None
    }

    /// An object has been synced, or could not be: who is to be told.
    pub fn finish(&mut self, key: K) -> Vec<W> {
        let Some(entry) = self.entries.get_mut(&key) else { return Vec::new() };
        let waiters = entry.under_way.take().unwrap_or_default();
        if entry.next.is_some() {
            self.line.push_back(key);
        } else {
            self.entries.remove(&key);
        }
        waiters
    }

    /// A thread that was summoned never came, or ended otherwise than by [`SyncQueue::next`]: who waits
    /// in vain, if no other one is there.
    pub fn abandon(&mut self) -> Vec<W> {
        self.threads -= 1;
        if self.threads > 0 {
            return Vec::new();
        }
        self.line.clear();
        let entries = std::mem::take(&mut self.entries);
        let waiters = entries.into_values().flat_map(|entry| {
            let next = entry.next.map(|(_, waiters)| waiters).unwrap_or_default();
            entry.under_way.unwrap_or_default().into_iter().chain(next)
        });
        waiters.collect()
    }

    /// Whether nothing waits and nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.entries.is_empty() && self.threads == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Queue = SyncQueue<u32, &'static str, u32>;

    #[test]
    fn those_who_wait_for_one_object_share_a_sync() {
        let mut queue = Queue::new(4);
        assert!(queue.join(7, "seven", 1));
        assert!(!queue.join(7, "seven", 2));
        assert_eq!(queue.next(), Some((7, "seven")));
        assert_eq!(queue.finish(7), [1, 2]);
        assert_eq!(queue.next(), None);
        assert!(queue.is_idle());
    }

    #[test]
    fn who_comes_during_a_sync_waits_for_the_next() {
        let mut queue = Queue::new(4);
        queue.join(7, "seven", 1);
        queue.next();
        assert!(!queue.join(7, "again", 2), "the object is synced once at a time");
        assert_eq!(queue.finish(7), [1]);
        assert_eq!(queue.next(), Some((7, "again")));
        assert_eq!(queue.finish(7), [2]);
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn objects_are_synced_side_by_side_up_to_a_limit() {
        let mut queue = Queue::new(2);
        let summoned: Vec<bool> = (0..4).map(|key| queue.join(key, "", key)).collect();
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
    fn lost_thread_tells_those_who_would_wait_for_ever() {
        let mut queue = Queue::new(2);
        assert!(queue.join(1, "", 1));
        assert!(queue.join(2, "", 2));
        assert_eq!(queue.next(), Some((1, "")));
        assert_eq!(queue.abandon(), [], "the other thread goes on");
        assert_eq!(queue.finish(1), [1]);
        queue.join(2, "", 3);
        assert_eq!(queue.abandon(), [2, 3]);
        assert!(queue.is_idle());
    }

    /// All orders of a few askers and threads: nobody is told by a sync that began before it asked,
    /// and nobody is forgotten.
    #[test]
    fn nobody_is_told_by_an_earlier_sync_or_forgotten() {
        for seed in 0..20_000_u64 {
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut draw = |below: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % below
            };
            let mut queue = SyncQueue::<u64, (), usize>::new(1 + draw(3) as usize);
            let (mut summoned, mut asked) = (0, Vec::new());
            // Time counts steps; a sync under way has a key, and when it began.
            let (mut under_way, mut told): (Vec<(u64, usize)>, Vec<bool>) = Default::default();
            let finish = |queue: &mut SyncQueue<u64, (), usize>,
                          (key, began): (u64, usize),
                          asked: &[(u64, usize)],
                          told: &mut Vec<bool>| {
                for waiter in queue.finish(key) {
                    assert!(!std::mem::replace(&mut told[waiter], true), "told twice");
                    assert_eq!(asked[waiter].0, key);
                    assert!(asked[waiter].1 < began, "seed {seed}");
                }
            };
            for time in 0..40 {
                match draw(3) {
                    0 => {
                        let key = draw(3);
                        asked.push((key, time));
                        told.push(false);
                        summoned += usize::from(queue.join(key, (), asked.len() - 1));
                    }
                    1 if summoned > 0 => {
                        summoned -= 1;
                        under_way.extend(queue.next().map(|(key, ())| (key, time)));
                    }
                    _ if !under_way.is_empty() => {
                        let one = under_way.swap_remove(draw(under_way.len() as u64) as usize);
                        finish(&mut queue, one, &asked, &mut told);
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
                    finish(&mut queue, one, &asked, &mut told);
                    summoned += 1;
                } else {
                    summoned -= 1;
                    under_way.extend(queue.next().map(|(key, ())| (key, time)));
                }
            }
            assert!(told.iter().all(|told| *told) && queue.is_idle(), "seed {seed}");
        }
    }
}
