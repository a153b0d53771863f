//! Mutexes by key.

use futures_util::lock::Mutex as AsyncMutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use sync::Mutex;

/// Mutexes by key. Only keys that are locked or awaited take memory.
#[derive(Debug)]
pub struct KeyedMutex<K: Eq + Hash + Clone> {
    at: Mutex<HashMap<K, Arc<AsyncMutex<()>>>>,
}

impl<K: Eq + Hash + Clone> Default for KeyedMutex<K> {
    fn default() -> Self {
        Self { at: Mutex::default() }
    }
}

/// Guard of one key; its drop unlocks the key.
#[derive(Debug)]
pub struct KeyedMutexGuard<'a, K: Eq + Hash + Clone> {
    mutexes: &'a KeyedMutex<K>,
    key: K,
    /// None while it waits.
    guard: Option<futures_util::lock::OwnedMutexGuard<()>>,
}

impl<K: Eq + Hash + Clone> KeyedMutex<K> {
    /// Locks the key. Cancellation-safe: a caller that stops waiting leaves no entry.
    pub async fn lock(&self, key: K) -> KeyedMutexGuard<'_, K> {
        let waiting = self.at.lock().entry(key.clone()).or_default().clone();
        // Created before the wait, so that a cancelled wait removes its entry.
        let mut turn = KeyedMutexGuard { mutexes: self, key, guard: None };
        turn.guard = Some(waiting.lock_owned().await);
        turn
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.at.lock().len()
    }
}

impl<K: Eq + Hash + Clone> Drop for KeyedMutexGuard<'_, K> {
    fn drop(&mut self) {
        self.guard = None;
        let mut at = self.mutexes.at.lock();
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
    fn keyed_mutex_serialises_and_leaves_no_entry() {
        let mutexes = KeyedMutex::default();
        let first = mutexes.lock(1).now_or_never().unwrap();
        let mut second = Box::pin(mutexes.lock(1));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(mutexes.lock(2).now_or_never().is_some(), "another thing waits for nobody");
        drop(first);
        drop(second.as_mut().now_or_never().unwrap());
        drop(second);
        assert_eq!(mutexes.len(), 0);
    }

    #[test]
    fn cancelled_waiter_does_not_block_the_next() {
        let mutexes = KeyedMutex::default();
        let first = mutexes.lock(1).now_or_never().unwrap();
        let mut second = Box::pin(mutexes.lock(1));
        assert!(second.as_mut().now_or_never().is_none());
        let mut third = Box::pin(mutexes.lock(1));
        assert!(third.as_mut().now_or_never().is_none());
        drop(second);
        drop(first);
        assert!(third.as_mut().now_or_never().is_some());
        drop(third);
        assert_eq!(mutexes.len(), 0);
    }
}
