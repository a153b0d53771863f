//! Locking that ignores poisoning: no callback runs under these locks, so that a panic leaves
//! consistent data.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
