//! The order in which the requests of one session wait.

use futures_channel::oneshot;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One request of a session has booked what it needs and waits for it; the others wait for
/// their turn, in the order in which they came. So what a session has booked ahead is one
/// request, however many it has under way, and bookings of several sessions alternate.
#[derive(Debug, Default)]
pub struct Turns {
    is_taken: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_taken: bool,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// The turn to book. Dropped, the next one has it.
#[derive(Debug)]
pub struct Turn {
    of: Option<Arc<Turns>>,
}

/// What is said to a request that has to wait.
#[derive(Debug)]
pub enum Entered {
    /// It is its turn.
    Now(Turn),
    /// It will be. Dropped, the place is given up.
    Later(oneshot::Receiver<Turn>),
}

impl Turns {
    /// Whether a request waits: then another does not begin before it.
    #[must_use]
    #[inline]
    pub fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Acquire)
    }

    /// Takes the turn, or a place behind those who wait.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> Entered {
        let mut state = self.lock();
        if state.is_taken {
            let (give, given) = oneshot::channel();
            state.waiting.push_back(give);
            return Entered::Later(given);
        }
        state.is_taken = true;
        self.is_taken.store(true, Ordering::Release);
        Entered::Now(Turn { of: Some(self.clone()) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.of.take() else { return };
        let mut given = Self { of: Some(turns.clone()) };
        loop {
            let mut state = turns.lock();
            let Some(next) = state.waiting.pop_front() else {
                state.is_taken = false;
                turns.is_taken.store(false, Ordering::Release);
                // Not to be passed on once more.
                given.of = None;
                return;
            };
            drop(state);
            match next.send(given) {
                Ok(()) => return,
                // That one has given up.
                Err(back) => given = back,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn later(turns: &Arc<Turns>) -> oneshot::Receiver<Turn> {
        match turns.enter() {
            Entered::Later(place) => place,
            Entered::Now(_) => panic!("somebody has it"),
        }
    }

    #[test]
    fn turns_rotate_in_order_of_arrival() {
        let turns = Arc::new(Turns::default());
        let Entered::Now(first) = turns.enter() else { panic!("nobody has it") };
        let (mut second, mut third) = (later(&turns), later(&turns));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        assert!((&mut third).now_or_never().is_none());
        let turn = second.now_or_never().unwrap().unwrap();
        drop(turn);
        assert!(turns.is_taken());
        drop(third.now_or_never().unwrap().unwrap());
        assert!(!turns.is_taken());
    }

    #[test]
    fn cancelled_turn_is_skipped() {
        let turns = Arc::new(Turns::default());
        let Entered::Now(first) = turns.enter() else { panic!("nobody has it") };
        let (second, third) = (later(&turns), later(&turns));
        let fourth = later(&turns);
        drop(second);
        drop(first);
        // Given up after it was given, before it was looked at.
        drop(third);
        drop(fourth.now_or_never().unwrap().unwrap());
        assert!(!turns.is_taken());
        assert!(matches!(turns.enter(), Entered::Now(_)));
    }
}
