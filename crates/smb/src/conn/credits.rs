//! The message id window and the credits of one connection. MS-SMB2 3.3.1.1, 3.3.1.2, 3.3.5.2.3.
//!
//! Owns no clock and no socket. A request removes its message ids from the window. The ids that a
//! response grants extend the window at once, before the response leaves. The client cannot use
//! them earlier, so the order of responses does not matter.

use crate::limits::CREDITS_MAX;
use std::collections::VecDeque;

const WORD_BITS: u64 = 64;

/// A message id is not in the window; the server closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideWindow;

/// The message ids that the client may still use.
#[derive(Debug)]
pub struct CreditWindow {
    /// Lowest id that may be unused.
    low: u64,
    /// First id that is not granted yet.
    end: u64,
    /// Used ids from `low_word * 64` on, one bit each.
    used: VecDeque<u64>,
    /// Number of granted and unused ids.
    available: u32,
}

impl Default for CreditWindow {
    fn default() -> Self {
        Self { low: 0, end: 1, used: VecDeque::new(), available: 1 }
    }
}

impl CreditWindow {
    /// Removes `charge` consecutive ids from `first` on.
    ///
    /// # Errors
    /// [`OutsideWindow`] if one of them was used before or is not granted.
    pub fn take(&mut self, first: u64, charge: u16) -> Result<(), OutsideWindow> {
        let count = u64::from(charge.max(1));
        let end = first.checked_add(count).ok_or(OutsideWindow)?;
        if first < self.low || end > self.end || (first..end).any(|id| self.is_used(id)) {
            return Err(OutsideWindow);
        }
        if first == self.low && self.used.iter().all(|&w| w == 0) {
            // The ids come in order, as nearly always: no bitmap is needed.
            self.low = end;
            self.used.clear();
        } else {
            (first..end).for_each(|id| self.mark(id));
            self.settle();
        }
        self.available -= u32::try_from(count).unwrap_or(self.available).min(self.available);
        Ok(())
    }

    /// Decides the grant of a response, from the requested credits and the CreditCharge, and widens
    /// the window by it.
    ///
    /// A client always keeps one credit, and never exceeds `most`, which is [`CREDITS_MAX`] or
    /// less. Ids may run ahead of the lowest unused one by twice that, so that one delayed id
    /// cannot grow the bitmap.
    pub fn grant(&mut self, requested: u16, charge: u16, most: u16) -> u16 {
        let wanted = u32::from(requested.max(charge).max(1));
        let room = u32::from(most).saturating_sub(self.available);
        let span = self.end - self.low;
        let span_room = (2 * u64::from(CREDITS_MAX)).saturating_sub(span);
        let granted = wanted.min(room).min(u32::try_from(span_room).unwrap_or(u32::MAX));
        let granted = if self.available == 0 { granted.max(1) } else { granted };
        self.end += u64::from(granted);
        self.available += granted;
        u16::try_from(granted).unwrap_or(u16::MAX)
    }

    /// Number of granted and unused ids.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.available
    }

    fn base(&self) -> u64 {
        self.low - self.low % WORD_BITS
    }

    fn is_used(&self, id: u64) -> bool {
        let at = id - self.base();
        let word = usize::try_from(at / WORD_BITS).unwrap_or(usize::MAX);
        self.used.get(word).is_some_and(|w| w & (1 << (at % WORD_BITS)) != 0)
    }

    fn mark(&mut self, id: u64) {
        let at = id - self.base();
        // Bounded by the span limit in `grant`: at most 2 * CREDITS_MAX / 64 + 1 words.
        let word = usize::try_from(at / WORD_BITS).unwrap_or(0);
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
        }
        self.used[word] |= 1 << (at % WORD_BITS);
    }

    fn settle(&mut self) {
        while self.low < self.end && self.is_used(self.low) {
            self.low += 1;
            if self.low.is_multiple_of(WORD_BITS) {
                self.used.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn first_message_id_is_zero() {
        assert_eq!(CreditWindow::default().take(1, 1), Err(OutsideWindow));
        assert_eq!(CreditWindow::default().take(0, 2), Err(OutsideWindow));
        assert_eq!(CreditWindow::default().take(0, 1), Ok(()));
    }

    #[test]
    fn message_id_is_valid_once() {
        let mut w = CreditWindow::default();
        w.take(0, 1).unwrap();
        assert_eq!(w.grant(4, 1, CREDITS_MAX), 4);
        w.take(3, 1).unwrap();
        assert_eq!(w.take(3, 1), Err(OutsideWindow));
        w.take(1, 2).unwrap();
        assert_eq!(w.take(0, 1), Err(OutsideWindow));
        assert_eq!(w.available, 1);
        w.take(4, 1).unwrap();
        assert_eq!(w.take(5, 1), Err(OutsideWindow));
    }

    #[test]
    fn client_without_credits_is_granted_one() {
        let mut w = CreditWindow::default();
        w.take(0, 1).unwrap();
        assert_eq!(w.grant(0, 0, CREDITS_MAX), 1);
        assert_eq!(w.grant(1, 1, CREDITS_MAX), 1);
        assert_eq!(w.available, 2);
    }

    #[test]
    fn unused_message_id_bounds_the_window() {
        let mut w = CreditWindow::default();
        w.take(0, 1).unwrap();
        w.grant(2, 1, CREDITS_MAX);
        // Id 1 is never used; ids above it are, as fast as they are granted.
        let mut next = 2;
        for _ in 0..100_000 {
            if w.take(next, 1).is_err() {
                break;
            }
            next += 1;
            w.grant(u16::MAX, 1, CREDITS_MAX);
        }
        assert!(next <= 2 * u64::from(CREDITS_MAX) + 1);
        assert!(w.used.len() <= 2 * usize::from(CREDITS_MAX) / 64 + 1);
        w.take(1, 1).unwrap();
    }

    proptest! {
        #[test]
        fn credit_window_agrees_with_a_set_model(steps in prop::collection::vec((0u64..64, 0u16..4, 0u16..8), 1..200)) {
            let mut w = CreditWindow::default();
            let mut granted: HashSet<u64> = HashSet::from([0]);
            let mut end = 1;
            for (back, charge, requested) in steps {
                let first = end.max(back) - back;
                let ids: Vec<u64> = (first..first + u64::from(charge.max(1))).collect();
                let expected = ids.iter().all(|id| granted.contains(id));
                prop_assert_eq!(w.take(first, charge).is_ok(), expected);
                if expected {
                    ids.iter().for_each(|id| { granted.remove(id); });
                    let got = w.grant(requested, charge, CREDITS_MAX);
                    granted.extend(end..end + u64::from(got));
                    end += u64::from(got);
                }
                prop_assert_eq!(w.available as usize, granted.len());
            }
        }
    }
}
