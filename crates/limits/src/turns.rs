//! The order in which the requests of one session wait.

use futures_channel::oneshot;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sync::Mutex;

/// Turns of a session's requests. One request has booked its tokens and waits for them; the others
/// wait for their turn, in order of arrival. So a session has one booking at a time, whatever its
/// number of requests, and the bookings of several sessions alternate.
#[derive(Debug, Default)]
pub struct Turns {
    is_taken: AtomicBool,
    state: Mutex<TurnState>,
}

#[derive(Debug, Default)]
struct TurnState {
    is_taken: bool,
    waiting: VecDeque<oneshot::Sender<BookingTurn>>,
}

/// The turn to book; dropping it passes the turn on.
#[derive(Debug)]
pub struct BookingTurn {
    of: Option<Arc<Turns>>,
}

/// The result of [`Turns::enter`].
#[derive(Debug)]
pub enum TurnGrant {
    /// The request has the turn.
    Now(BookingTurn),
    /// The request gets the turn later; dropping the receiver leaves the queue.
    Queued(oneshot::Receiver<BookingTurn>),
}

impl Turns {
    /// True if a request waits, so that no other begins before it.
    #[must_use]
    #[inline]
    pub fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Acquire)
    }

    /// Takes the turn, or joins the queue.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> TurnGrant {
        let mut state = self.state.lock();
        if state.is_taken {
            let (give, given) = oneshot::channel();
            state.waiting.push_back(give);
            return TurnGrant::Queued(given);
        }
        state.is_taken = true;
        self.is_taken.store(true, Ordering::Release);
        TurnGrant::Now(BookingTurn { of: Some(self.clone()) })
    }
}

impl Drop for BookingTurn {
    fn drop(&mut self) {
        let Some(turns) = self.of.take() else { return };
        let mut given = Self { of: Some(turns.clone()) };
        loop {
            let mut state = turns.state.lock();
            let Some(next) = state.waiting.pop_front() else {
                state.is_taken = false;
                turns.is_taken.store(false, Ordering::Release);
                // Prevents a second pass of the turn.
                given.of = None;
                return;
            };
            drop(state);
            match next.send(given) {
                Ok(()) => return,
                // That request was cancelled.
                Err(back) => given = back,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn later(turns: &Arc<Turns>) -> oneshot::Receiver<BookingTurn> {
        match turns.enter() {
            TurnGrant::Queued(place) => place,
            TurnGrant::Now(_) => panic!("the turn is taken"),
        }
    }

    #[test]
    fn turns_rotate_in_order_of_arrival() {
        let turns = Arc::new(Turns::default());
        let TurnGrant::Now(first) = turns.enter() else { panic!("the turn is free") };
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
        let TurnGrant::Now(first) = turns.enter() else { panic!("the turn is free") };
        let (second, third) = (later(&turns), later(&turns));
        let fourth = later(&turns);
        drop(second);
        drop(first);
        // Cancelled after it got the turn, before it noticed.
        drop(third);
        drop(fourth.now_or_never().unwrap().unwrap());
        assert!(!turns.is_taken());
        assert!(matches!(turns.enter(), TurnGrant::Now(_)));
    }
}
