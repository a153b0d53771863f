//! Admission of requests under the limits of their share, for all protocols: first those of the
//! file, then those of the share.
//!
//! A request that can begin at once takes its tokens by compare-and-swap, without a lock. A delayed
//! request books its tokens at its turn. Each session has one booked request per kind, and each
//! open one for its file. Bookings of sessions thus alternate whatever each has outstanding, and a
//! late request does not lose tokens that became due.

use crate::{OpenFile, RequestFiles};
use limits::{
    BOOKING_BYTES_MAX, Cost, FileBuckets, RequestAdmission, RequestKind, ShareLimits,
    ThrottleReason, TurnGrant,
};
use limits::{BookingTurn, Turns};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Interval at which a delayed request checks whether the limits have changed.
const LOOK_AFTER: Duration = Duration::from_millis(250);

/// Bytes that a copy books at a time: all sessions wait for one booking's debt.
const COPY_PART_BYTES: u64 = 1024 * 1024;

/// Reads the time, for a layer without a clock.
pub type ClockReader<'a> = &'a (dyn Fn() -> Instant + Send + Sync);

/// Admission queue of one session on one share.
#[derive(Debug)]
pub struct ShareQueue {
    limits: Arc<ShareLimits>,
    /// Turns by kind: writes do not delay reads.
    turns: [Arc<Turns>; 3],
    /// Reason of the latest delay, by kind; it applies to the requests queued behind, too.
    reasons: [AtomicUsize; 3],
}

/// Booked tokens, returned unless used.
struct TokenBooking<'a> {
    limits: &'a ShareLimits,
    /// None for a booking on the share.
    file: Option<&'a FileBuckets>,
    cost: Cost,
    is_used: bool,
}

impl Drop for TokenBooking<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            self.limits.refund(self.file, self.cost);
        }
    }
}

impl ShareQueue {
    /// The queue of a session on a share.
    #[must_use]
    pub fn new(limits: Arc<ShareLimits>) -> Self {
        Self { limits, turns: Default::default(), reasons: Default::default() }
    }

    /// The share's limits.
    #[must_use]
    pub fn limits(&self) -> &Arc<ShareLimits> {
        &self.limits
    }

    /// Whether requests need admission.
    #[must_use]
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.limits.is_limited()
    }

    /// Takes a request's cost from its file and the share if it may begin at once. A late `now`
    /// only delays the request.
    #[must_use]
    pub fn admit_now(&self, open: Option<&OpenFile>, cost: Cost, now: Instant) -> bool {
        let file = self.file_of(open);
        let is_queued = |(open, _): &(&OpenFile, &FileBuckets)| {
            open.turns().is_some_and(|turns| turns.is_taken())
        };
        if self.turns_of(cost).is_taken() || file.as_ref().is_some_and(is_queued) {
            return false;
        }
        self.limits.try_take(file.map(|(_, used)| used), cost, now)
    }

    /// Returns the tokens of bytes that a short read did not use.
    pub fn give_back(&self, open: &OpenFile, cost: Cost, unused_bytes: u64) {
        let unused = cost.only_bytes(unused_bytes);
        self.limits.refund(None, unused);
        if let Some((_, used)) = self.file_of(Some(open)) {
            self.limits.refund(Some(used), unused);
        }
    }

    fn file_of<'a>(&self, open: Option<&'a OpenFile>) -> Option<(&'a OpenFile, &'a FileBuckets)> {
        let open = open.filter(|_| self.limits.limits_files())?;
        Some((open, open.state.used.get_or_init(Box::default)))
    }

    fn turns_of(&self, cost: Cost) -> &Arc<Turns> {
        &self.turns[index_of(cost)]
    }

    fn note_reason(&self, cost: Cost, why: ThrottleReason) {
        if let Some(at) = ThrottleReason::REASONS.iter().position(|reason| *reason == why) {
            self.reasons[index_of(cost)].store(at, Ordering::Relaxed);
        }
    }

    fn latest_reason(&self, cost: Cost) -> ThrottleReason {
        let at = self.reasons[index_of(cost)].load(Ordering::Relaxed);
        ThrottleReason::REASONS.get(at).copied().unwrap_or_default()
    }
}

fn index_of(cost: Cost) -> usize {
    match cost.kind {
        RequestKind::Read => 0,
        RequestKind::Write => 1,
        RequestKind::Metadata => 2,
    }
}

impl RequestFiles {
    /// Waits until a request may begin, and returns the reason of the delay. Dropping the future
    /// returns booked tokens and lets the session's next request proceed.
    pub async fn admit(
        &self,
        queue: &ShareQueue,
        open: Option<&OpenFile>,
        cost: Cost,
        clock: ClockReader<'_>,
    ) -> ThrottleReason {
        let limits = &*queue.limits;
        let _waiting = limits.wait();
        let (mut throttled, mut of_file) = (ThrottleReason::None, None);
        if let Some((open, used)) = queue.file_of(open) {
            let (_turn, has_waited) = wait_for_turn(open.turns_or_default()).await;
            let booked = self.book_and_wait(limits, Some(used), cost, clock).await;
            throttled = if has_waited { ThrottleReason::File } else { booked.1 };
            of_file = Some(booked.0);
        }
        let (turn, has_waited) = wait_for_turn(queue.turns_of(cost)).await;
        if has_waited {
            throttled = queue.latest_reason(cost);
        }
        let mut of_share = Vec::new();
        let mut part = Cost { bytes: cost.bytes.min(BOOKING_BYTES_MAX), ..cost };
        let mut left = cost.bytes;
        loop {
            let booked = self.book_and_wait(limits, None, part, clock).await;
            if booked.1.has_waited() {
                throttled = booked.1;
                queue.note_reason(cost, throttled);
            }
            of_share.push(booked.0);
            left -= part.bytes;
            if left == 0 {
                break;
            }
            part = cost.only_bytes(left.min(BOOKING_BYTES_MAX));
        }
        drop(turn);
        of_share.iter_mut().chain(&mut of_file).for_each(|booked| booked.is_used = true);
        limits.count_throttled(throttled);
        throttled
    }

    /// Waits until `bytes` may be copied between two files, and returns the reason of the delay.
    /// `queues` are those of the files' shares, if they have limits.
    pub async fn admit_copy(
        &self,
        queues: &[Option<Arc<ShareQueue>>; 2],
        files: [&OpenFile; 2],
        bytes: u64,
        clock: ClockReader<'_>,
    ) -> ThrottleReason {
        let (mut throttled, mut left) = (ThrottleReason::None, bytes);
        while left > 0 {
            let part = left.min(COPY_PART_BYTES);
            for ((queue, file), cost) in queues.iter().zip(files).zip(Cost::copy(part)) {
                if let Some(queue) = queue
                    && !queue.admit_now(Some(file), cost, clock())
                {
                    let waited = self.admit(queue, Some(file), cost, clock).await;
                    throttled = if waited.has_waited() { waited } else { throttled };
                }
            }
            left -= part;
        }
        throttled
    }

    /// Books tokens and waits until they are due.
    async fn book_and_wait<'a>(
        &self,
        limits: &'a ShareLimits,
        file: Option<&'a FileBuckets>,
        cost: Cost,
        clock: ClockReader<'_>,
    ) -> (TokenBooking<'a>, ThrottleReason) {
        let mut throttled = ThrottleReason::None;
        loop {
            let generation = limits.generation();
            let admission = limits.book(file, cost, clock());
            let mut booked = TokenBooking { limits, file, cost, is_used: false };
            let RequestAdmission::Until(due, why) = admission else { return (booked, throttled) };
            throttled = why;
            loop {
                let left = due.saturating_duration_since(clock());
                if left.is_zero() {
                    return (booked, throttled);
                }
                self.pause(left.min(LOOK_AFTER)).await;
                if limits.generation() != generation {
                    // The limits have changed: the share has discarded its bookings.
                    booked.is_used = file.is_none();
                    break;
                }
            }
        }
    }
}

/// Waits for the turn; returns whether that took time. Earlier turns may be dropped, but the queue
/// itself is not.
async fn wait_for_turn(turns: &Arc<Turns>) -> (Option<BookingTurn>, bool) {
    match turns.enter() {
        TurnGrant::Now(turn) => (Some(turn), false),
        TurnGrant::Queued(place) => (place.await.ok(), true),
    }
}
