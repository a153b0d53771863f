//! Mutexes by key.

use crate::client::lock;
use futures_util::lock::Mutex as Waiting;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

/// Mutexes by key. Only keys that are locked or awaited take memory.
#[derive(Debug)]
pub struct Turns<K: Eq + Hash + Clone> {
    at: Mutex<HashMap<K, Arc<Waiting<()>>>>,
}

impl<K: Eq + Hash + Clone> Default for Turns<K> {
    fn default() -> Self {
        Self { at: Mutex::default() }
    }
}

/// Guard of one key; its drop unlocks the key.
#[derive(Debug)]
pub struct Turn<'a, K: Eq + Hash + Clone> {
    turns: &'a Turns<K>,
    key: K,
    /// None while it waits.
    mine: Option<futures_util::lock::OwnedMutexGuard<()>>,
}

impl<K: Eq + Hash + Clone> Turns<K> {
    /// Locks the key. Cancellation-safe: a caller that stops waiting leaves no entry.
    pub async fn begin(&self, key: K) -> Turn<'_, K> {
        let waiting = lock(&self.at).entry(key.clone()).or_default().clone();
        // Created before the wait, so that a cancelled wait removes its entry.
        let mut turn = Turn { turns: self, key, mine: None };
        turn.mine = Some(waiting.lock_owned().await);
        turn
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        lock(&self.at).len()
    }
}

impl<K: Eq + Hash + Clone> Drop for Turn<'_, K> {
    fn drop(&mut self) {
        self.mine = None;
        let mut at = lock(&self.turns.at);
        // Each waiter has a clone; clones are created and counted under this lock.
        if at.get(&self.key).is_some_and(|waiting| Arc::strong_count(waiting) == 1) {
            at.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn one_after_the_other_and_nothing_is_left() {
        let turns = Turns::default();
        let first = turns.begin(1).now_or_never().unwrap();
        let mut second = Box::pin(turns.begin(1));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(turns.begin(2).now_or_never().is_some(), "another thing waits for nobody");
        drop(first);
        drop(second.as_mut().now_or_never().unwrap());
        drop(second);
        assert_eq!(turns.len(), 0);
    }

    #[test]
    fn who_gives_up_waiting_is_in_nobodys_way() {
        let turns = Turns::default();
        let first = turns.begin(1).now_or_never().unwrap();
        let mut second = Box::pin(turns.begin(1));
        assert!(second.as_mut().now_or_never().is_none());
        let mut third = Box::pin(turns.begin(1));
        assert!(third.as_mut().now_or_never().is_none());
        drop(second);
        drop(first);
        assert!(third.as_mut().now_or_never().is_some());
        drop(third);
        assert_eq!(turns.len(), 0);
    }
}
