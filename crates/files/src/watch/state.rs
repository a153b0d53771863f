//! Unreported changes and outstanding requests of one watch. MS-FSA 2.1.5.11, MS-SMB2 3.3.1.3.
//!
//! The module has no lock, clock or effects: inputs are `handle_*`, and `poll_answer` returns
//! answers.

use super::change::{Measure, WatchAnswer, WatchChange};
use std::collections::VecDeque;

/// Data changes that a watch reports at once between two ticks, about a second apart. With those of
/// the tick, a busy writer causes a few replies a second.
const DATA_AT_ONCE_MAX: usize = 3;
/// Limit of data changes deferred to a tick; beyond it the client must enumerate.
const DEFERRED_MAX: usize = 64;

/// Number of a request within its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(u64);

/// Changes between two requests, and requests between two changes.
#[derive(Debug)]
pub(crate) struct WatchState {
    measure: Measure,
    /// Room of the first request, which bounds the buffer: MS-SMB2 3.3.1.3.
    room_bytes: usize,
    changes: Vec<WatchChange>,
    /// Size of a reply with all of `changes`, in bytes.
    held_bytes: usize,
    /// Data changes deferred to the next tick or the next change of another kind, without
    /// duplicates.
    deferred: Vec<WatchChange>,
    /// Data changes that were buffered at once since the last tick.
    data_taken: usize,
    /// Overflow state of the deferred changes.
    deferral: Deferral,
    /// Whether a change was dropped while the directory was delete pending.
    missed_while_pending: bool,
    /// Memory of `changes` and `deferred`, in bytes.
    memory_bytes: usize,
    /// Whether changes were lost, so that the client must enumerate.
    overflowed: bool,
    /// Requests in order of arrival, each with its room.
    requests: VecDeque<(RequestId, usize)>,
    next_request: u64,
    /// Reason why the watch has ended.
    ended: Option<WatchEnd>,
}

/// Overflow of the data changes that wait for a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deferral {
    /// No overflow since the last tick.
    Fits,
    /// One overflow was reported at once; later changes are deferred again.
    Reported,
    /// A second overflow occurred: the next tick reports it.
    Lost,
}

/// Reason for which a watch and its requests end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The open was closed.
    Closed,
    /// The directory is delete pending.
    DeletePending,
}

impl WatchState {
    /// A watch that buffers as much as fits `room_bytes` by `measure`.
    pub fn new(room_bytes: usize, measure: Measure) -> Self {
        Self {
            measure,
            room_bytes,
            changes: Vec::new(),
            held_bytes: 0,
            deferred: Vec::new(),
            data_taken: 0,
            deferral: Deferral::Fits,
            missed_while_pending: false,
            memory_bytes: 0,
            overflowed: false,
            requests: VecDeque::new(),
            next_request: 0,
            ended: None,
        }
    }

    /// Buffers a change.
    pub fn handle_change(&mut self, change: WatchChange) {
        self.take_deferred();
        self.push(change);
    }

    /// Handles a data change, which may occur a thousand times a second. The first after a tick are
    /// reported at once, later ones together with the next tick. An overflow is reported once at
    /// once, and again with the tick.
    pub fn handle_data_change(&mut self, change: WatchChange) {
        if self.has_reported(&change) {
            return;
        }
        if self.data_taken < DATA_AT_ONCE_MAX || self.ended.is_some() {
            self.data_taken += 1;
            self.push(change);
        } else {
            self.defer(change);
        }
    }

    /// Handles a change that was queued for the tick; call it before [`WatchState::handle_tick`].
    pub fn handle_data_change_in_tick(&mut self, change: WatchChange) {
        if !self.has_reported(&change) {
            self.defer(change);
        }
    }

    fn defer(&mut self, change: WatchChange) {
        if self.deferred.len() < DEFERRED_MAX {
            self.memory_bytes += change.memory_bytes();
            self.deferred.push(change);
        } else if self.deferral == Deferral::Fits {
            self.handle_lost();
            self.deferral = Deferral::Reported;
        } else {
            self.discard_deferred();
            self.deferral = Deferral::Lost;
        }
    }

    /// Whether the same change is buffered already, with no other change after it.
    pub fn has_reported(&self, change: &WatchChange) -> bool {
        let is_ended = match self.ended {
            Some(WatchEnd::Closed) => true,
            Some(WatchEnd::DeletePending) => self.missed_while_pending,
            None => false,
        };
        self.overflowed
            || is_ended
            || self.deferral == Deferral::Lost
            || self.deferred.contains(change)
            || (self.deferred.is_empty() && self.changes.last() == Some(change))
    }

    /// Handles a tick, about once a second. Returns true if it reports a change or one is still
    /// deferred.
    pub fn handle_tick(&mut self) -> bool {
        if self.ended == Some(WatchEnd::DeletePending) {
            return true;
        }
        let is_lost = self.deferral == Deferral::Lost;
        let reports = is_lost || !self.deferred.is_empty();
        self.data_taken = usize::from(reports);
        if is_lost {
            self.handle_lost();
        } else {
            self.take_deferred();
        }
        self.deferral = Deferral::Fits;
        reports
    }

    /// Changes stay deferred while the directory is delete pending, which may be cleared.
    fn take_deferred(&mut self) {
        if self.ended.is_some() {
            return;
        }
        for change in std::mem::take(&mut self.deferred) {
            self.memory_bytes -= change.memory_bytes();
            self.push(change);
        }
    }

    fn push(&mut self, change: WatchChange) {
        // A repeated change adds nothing for a later reader.
        if self.ended.is_some() {
            self.missed_while_pending = true;
            return;
        }
        if self.overflowed || self.changes.last() == Some(&change) {
            return;
        }
        self.held_bytes = (self.measure)(self.held_bytes, &change);
        self.memory_bytes += change.memory_bytes();
        self.changes.push(change);
        if self.held_bytes > self.room_bytes {
            self.handle_lost();
        }
    }

    /// Handles lost changes: the client must enumerate.
    pub fn handle_lost(&mut self) {
        self.discard();
        self.overflowed = true;
    }

    /// Queues a request with room for `room_bytes`. It is answered in order, or withdrawn by
    /// [`WatchState::handle_cancel`].
    pub fn handle_request(&mut self, room_bytes: usize) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.push_back((id, room_bytes));
        id
    }

    /// Withdraws a request. Returns false if it was answered already.
    pub fn handle_cancel(&mut self, id: RequestId) -> bool {
        let before = self.requests.len();
        self.requests.retain(|(other, _)| *other != id);
        self.requests.len() < before
    }

    /// Returns an undelivered answer to the buffer for the next request.
    pub fn handle_undelivered(&mut self, answer: WatchAnswer) {
        match answer {
            WatchAnswer::Changes(undelivered) => {
                let later = std::mem::take(&mut self.changes);
                (self.held_bytes, self.memory_bytes) = (0, self.deferred_bytes());
                undelivered.into_iter().chain(later).for_each(|change| self.push(change));
            }
            WatchAnswer::Overflow => self.handle_lost(),
            WatchAnswer::Closed | WatchAnswer::DeletePending => {}
        }
    }

    /// Ends all requests with `end`. A closed watch stays ended; delete pending may be cleared.
    pub fn handle_end(&mut self, end: WatchEnd) {
        if self.ended != Some(WatchEnd::Closed) {
            self.ended = Some(end);
        }
    }

    /// Resumes the watch after delete pending was cleared. If a change was missed, the client must
    /// enumerate.
    pub fn handle_delete_cancelled(&mut self) {
        if self.ended == Some(WatchEnd::DeletePending) {
            self.ended = None;
            if std::mem::take(&mut self.missed_while_pending) {
                self.handle_lost();
            }
        }
    }

    /// The next due answer.
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
            self.discard();
            return WatchAnswer::Overflow;
        }
        (self.held_bytes, self.memory_bytes) = (0, self.deferred_bytes());
        WatchAnswer::Changes(std::mem::take(&mut self.changes))
    }

    fn deferred_bytes(&self) -> usize {
        self.deferred.iter().map(WatchChange::memory_bytes).sum()
    }

    /// Discards all changes: a client that enumerates afterwards sees the lost ones, too.
    fn discard(&mut self) {
        self.discard_deferred();
        self.changes = Vec::new();
        (self.held_bytes, self.memory_bytes) = (0, 0);
        if self.deferral == Deferral::Lost {
            self.deferral = Deferral::Reported;
        }
    }

    fn discard_deferred(&mut self) {
        self.memory_bytes -= self.deferred_bytes();
        self.deferred = Vec::new();
    }

    /// Memory of its changes, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

#[cfg(test)]
mod tests;
