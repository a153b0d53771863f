//! What one watch was not told yet, and who asks for it. MS-FSA 2.1.5.11,
//! MS-SMB2 3.3.1.3.
//!
//! Owns no lock, no clock and no effects: inputs are `handle_*`, answers are
//! taken by `poll_answer`.

use super::{Change, Measure, WatchAnswer};
use std::collections::VecDeque;

/// Number of a request of one watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(u64);

/// The changes between two requests, and the requests between two changes.
#[derive(Debug)]
pub(crate) struct Watch {
    measure: Measure,
    /// Room that the first request had: MS-SMB2 3.3.1.3 keeps to it for all.
    room_bytes: usize,
    changes: Vec<Change>,
    /// Bytes of an answer with all of `changes`.
    held_bytes: usize,
    /// Memory of `changes`, in bytes.
    memory_bytes: usize,
    /// There were more than fit: the asker must look for itself.
    overflowed: bool,
    /// In the order in which they came, with the room of each.
    requests: VecDeque<(RequestId, usize)>,
    next_request: u64,
    /// Why there is nothing to be told any more.
    ended: Option<WatchEnd>,
}

/// Why a watch, or what waits on it, ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The open was closed.
    Closed,
    /// The directory is about to vanish.
    DeletePending,
}

impl Watch {
    /// A watch that keeps what fits `room_bytes` by `measure`.
    pub fn new(room_bytes: usize, measure: Measure) -> Self {
        Self {
            measure,
            room_bytes,
            changes: Vec::new(),
            held_bytes: 0,
            memory_bytes: 0,
            overflowed: false,
            requests: VecDeque::new(),
            next_request: 0,
            ended: None,
        }
    }

    /// Something happened that the watch is to be told of.
    pub fn handle_change(&mut self, change: Change) {
        // The same thing twice in a row is one thing to whoever looks later.
        if self.overflowed || self.ended.is_some() || self.changes.last() == Some(&change) {
            return;
        }
        self.held_bytes = (self.measure)(self.held_bytes, &change);
        self.memory_bytes += change.memory_bytes();
        self.changes.push(change);
        if self.held_bytes > self.room_bytes {
            self.handle_lost();
        }
    }

    /// Something happened that nobody can tell any more.
    pub fn handle_lost(&mut self) {
        self.forget();
        self.overflowed = true;
    }

    /// A request with room for `room_bytes`. It is answered in its turn, or
    /// withdrawn by [`Watch::handle_cancel`].
    pub fn handle_request(&mut self, room_bytes: usize) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.push_back((id, room_bytes));
        id
    }

    /// The request is withdrawn. False if it was answered already.
    pub fn handle_cancel(&mut self, id: RequestId) -> bool {
        let before = self.requests.len();
        self.requests.retain(|(other, _)| *other != id);
        self.requests.len() < before
    }

    /// An answer that nobody took: what it said is told to the next one who asks.
    pub fn handle_untold(&mut self, answer: WatchAnswer) {
        match answer {
            WatchAnswer::Changes(untold) => {
                let later = std::mem::take(&mut self.changes);
                (self.held_bytes, self.memory_bytes) = (0, 0);
                untold.into_iter().chain(later).for_each(|change| self.handle_change(change));
            }
            WatchAnswer::Overflow => self.handle_lost(),
            WatchAnswer::Closed | WatchAnswer::DeletePending => {}
        }
    }

    /// All requests are answered by `end`. A watch whose open is closed stays
    /// ended; a directory may yet be spared.
    pub fn handle_end(&mut self, end: WatchEnd) {
        if self.ended != Some(WatchEnd::Closed) {
            self.ended = Some(end);
        }
    }

    /// The directory is spared: the watch goes on.
    pub fn handle_spared(&mut self) {
        if self.ended == Some(WatchEnd::DeletePending) {
            self.ended = None;
        }
    }

    /// The next answer that is due.
    pub fn poll_answer(&mut self) -> Option<(RequestId, WatchAnswer)> {
        let is_due = self.overflowed || self.ended.is_some() || !self.changes.is_empty();
        let (id, room_bytes) = self.requests.pop_front_if(|_| is_due)?;
        Some((id, self.answer(room_bytes)))
    }

    fn answer(&mut self, room_bytes: usize) -> WatchAnswer {
        match self.ended {
            Some(WatchEnd::Closed) => return WatchAnswer::Closed,
            Some(WatchEnd::DeletePending) => return WatchAnswer::DeletePending,
            None => {}
        }
        if self.overflowed || self.held_bytes > room_bytes {
            self.overflowed = false;
            self.forget();
            return WatchAnswer::Overflow;
        }
        (self.held_bytes, self.memory_bytes) = (0, 0);
        WatchAnswer::Changes(std::mem::take(&mut self.changes))
    }

    fn forget(&mut self) {
        self.changes = Vec::new();
        (self.held_bytes, self.memory_bytes) = (0, 0);
    }

    /// Memory that its changes take, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

#[cfg(test)]
mod tests;
