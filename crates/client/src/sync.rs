//! One way to take a lock: what a panicking task left behind is still whole,
//! since nothing here calls out while it holds one.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
