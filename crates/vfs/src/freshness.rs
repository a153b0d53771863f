//! What a request has to know of a change feed.
//!
//! A request has to know of what was changed before it came, not of what is changed while it is
//! worked on. So each request has a place in the order in which requests come
//! ([`ArrivalOrder`]), and who keeps what a [`crate::ChangeFeed`] tells remembers up to which place
//! it has asked ([`Listener`]): it need not ask anew for each question of one request, nor for a
//! request that had come by then. It asks again after something was changed by this process, for
//! this request or another: what opens, renames and removals know of each other rests on seeing
//! what those before them have done. What is done by no request asks each time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests that have come, and questions of no request.
static ARRIVALS: AtomicU64 = AtomicU64::new(0);

/// Changes that this process has made of what feeds tell.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// The place of a request among all that have come to this process. Requests that were received
/// together may share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArrivalOrder(u64);

impl ArrivalOrder {
    /// The next place: all that has been done by now was done before.
    #[must_use]
    pub fn next() -> Self {
        Self(ARRIVALS.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// The number, to be kept where places are exchanged; see [`ArrivalOrder::of_number`].
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The place with the number.
    #[must_use]
    pub fn of_number(number: u64) -> Self {
        Self(number)
    }
}

/// Who keeps what a feed tells, and up to when it has asked. Its methods are called by one
/// thread at a time: with what is kept locked.
#[derive(Debug, Default)]
pub struct Listener {
    /// The latest place when it asked last.
    heard: AtomicU64,
    /// How many changes had been made then.
    changes: AtomicU64,
}

impl Listener {
    /// Whether it knows of all that a request with this place has to know of.
    #[must_use]
    pub fn has_heard(&self, order: ArrivalOrder) -> bool {
        self.heard.load(Ordering::Relaxed) >= order.0
            && self.changes.load(Ordering::Relaxed) == CHANGES.load(Ordering::SeqCst)
    }

    /// Asks for all that has happened.
    pub fn listen(&self, ask: impl FnOnce()) {
        // Before it: what is done meanwhile may not be told.
        let heard = ARRIVALS.load(Ordering::SeqCst);
        let changes = CHANGES.load(Ordering::SeqCst);
        ask();
        self.heard.store(heard, Ordering::Relaxed);
        self.changes.store(changes, Ordering::Relaxed);
    }
}

/// A change that is being made; it is over, however it ends, when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Changing(());

/// This process changes something of what feeds tell.
pub fn changing() -> Changing {
    Changing(())
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGES.fetch_add(1, Ordering::SeqCst);
    }
}
