//! What one watch was not told yet, and who asks for it. MS-FSA 2.1.5.11,
//! MS-SMB2 3.3.1.3.
//!
//! Owns no lock, no clock and no effects: inputs are `handle_*`, answers are
//! taken by `poll_answer`.

use super::{Change, Measure, WatchAnswer};
use std::collections::VecDeque;

/// Changes of data that a watch is told at once between two ticks, which are about a second apart:
/// with those of the tick itself a busy writer costs its clients a few answers a second.
const DATA_AT_ONCE_MAX: usize = 3;
/// Changes of data that wait for a tick at most; of more the client is to look for itself.
const DEFERRED_MAX: usize = 64;

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
    /// Changes of data that wait for the next tick or the next change of another kind; none twice.
    deferred: Vec<Change>,
    /// Changes of data that were taken since the last tick without waiting.
    data_taken: usize,
    /// Reports allowed before the next tick of deferred changes that are too many.
    deferral: Deferral,
    /// A change was dropped because the directory is delete pending.
    missed_while_pending: bool,
    /// Memory of `changes` and `deferred`, in bytes.
    memory_bytes: usize,
    /// There were more than fit: the asker must look for itself.
    overflowed: bool,
    /// In the order in which they came, with the room of each.
    requests: VecDeque<(RequestId, usize)>,
    next_request: u64,
    /// Why there is nothing to be told any more.
    ended: Option<WatchEnd>,
}

/// Whether changes of data are more than may wait for a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deferral {
    /// They were not, since the last tick.
    Fits,
    /// They were once, and the client was told to look at once; later ones are deferred again.
    Reported,
    /// They were twice: the next tick tells the client to look.
    Lost,
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

    /// Something happened that the watch is to be told of.
    pub fn handle_change(&mut self, change: Change) {
        self.take_deferred();
        self.push(change);
    }

    /// The data of a file changed, which may go on a thousand times a second: the first changes
    /// after a tick are told at once, later ones together at the next. If they are too many for
    /// that, the client is told once to look, and again with the tick if need be.
    pub fn handle_data_change(&mut self, change: Change) {
        if self.knows(&change) {
            return;
        }
        if self.data_taken < DATA_AT_ONCE_MAX || self.ended.is_some() {
            self.data_taken += 1;
            self.push(change);
        } else {
            self.defer(change);
        }
    }

    /// The same of a change that waited for the tick, before [`Watch::handle_tick`].
    pub fn handle_data_change_in_tick(&mut self, change: Change) {
        if !self.knows(&change) {
            self.defer(change);
        }
    }

    fn defer(&mut self, change: Change) {
        if self.deferred.len() < DEFERRED_MAX {
            self.memory_bytes += change.memory_bytes();
            self.deferred.push(change);
        } else if self.deferral == Deferral::Fits {
            self.handle_lost();
            self.deferral = Deferral::Reported;
        } else {
            self.forget_deferred();
            self.deferral = Deferral::Lost;
        }
    }

    /// Whether the same change will be told, and nothing else after it.
    pub fn knows(&self, change: &Change) -> bool {
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

    /// About a second has passed. True if something is told for it, or still waits.
    pub fn handle_tick(&mut self) -> bool {
        if self.ended == Some(WatchEnd::DeletePending) {
            return true;
        }
        let is_lost = self.deferral == Deferral::Lost;
        let tells = is_lost || !self.deferred.is_empty();
        self.data_taken = usize::from(tells);
        if is_lost {
            self.handle_lost();
        } else {
            self.take_deferred();
        }
        self.deferral = Deferral::Fits;
        tells
    }

    /// Deferred changes stay so while the directory is delete pending: it may be spared.
    fn take_deferred(&mut self) {
        if self.ended.is_some() {
            return;
        }
        for change in std::mem::take(&mut self.deferred) {
            self.memory_bytes -= change.memory_bytes();
            self.push(change);
        }
    }

    fn push(&mut self, change: Change) {
        // The same thing twice in a row is one thing to whoever looks later.
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
                (self.held_bytes, self.memory_bytes) = (0, self.deferred_bytes());
                untold.into_iter().chain(later).for_each(|change| self.push(change));
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

    /// The directory is spared: the watch goes on. If something happened meanwhile, its client is
    /// to look for itself.
    pub fn handle_spared(&mut self) {
        if self.ended == Some(WatchEnd::DeletePending) {
            self.ended = None;
            if std::mem::take(&mut self.missed_while_pending) {
                self.handle_lost();
            }
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
        (self.held_bytes, self.memory_bytes) = (0, self.deferred_bytes());
        WatchAnswer::Changes(std::mem::take(&mut self.changes))
    }

    fn deferred_bytes(&self) -> usize {
        self.deferred.iter().map(Change::memory_bytes).sum()
    }

    /// A client that looks after this sees what was lost, too.
    fn forget(&mut self) {
        self.forget_deferred();
        self.changes = Vec::new();
        (self.held_bytes, self.memory_bytes) = (0, 0);
        if self.deferral == Deferral::Lost {
            self.deferral = Deferral::Reported;
        }
    }

    fn forget_deferred(&mut self) {
        self.memory_bytes -= self.deferred_bytes();
        self.deferred = Vec::new();
    }

    /// Memory that its changes take, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

#[cfg(test)]
mod tests;
