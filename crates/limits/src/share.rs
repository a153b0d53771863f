//! The effective limits of one share: buckets, waiting requests, counters.
//!
//! One instance exists for a share while the server runs. A reload installs new limits, which apply
//! from the next request on.

use crate::class::{Limits, Provision, Rates};
use crate::snapshot::{CreditState, Credits, LimitsSnapshot};
use crate::space_usage::SpaceUsage;
use crate::tokens::{BucketRate, PaceCell, TokenBucket};
use crate::{Cost, RequestKind, ThrottleReason};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use sync::Mutex;

/// Depth of a bucket: enough for a late timer, and little compared to measurements over seconds.
const SAVED: Duration = Duration::from_millis(100);
/// Bytes that are booked in one turn, so that a session of large requests gets no more throughput
/// than one of small requests.
pub const BOOKING_BYTES_MAX: u64 = 64 * 1024;

/// Indexes of a share's buckets.
const IOPS: usize = 0;
/// Burst credits.
const CREDITS: usize = 1;
const READ_IOPS: usize = 2;
const WRITE_IOPS: usize = 3;
const METADATA: usize = 4;
const BANDWIDTH: usize = 5;
const INGRESS: usize = 6;
const EGRESS: usize = 7;
const BUCKETS: usize = 8;

/// A file's buckets have the same indexes, without credits and metadata.
type Buckets = [TokenBucket; BUCKETS];

/// The limits' state of one file. All its opens share it.
#[derive(Debug, Default)]
pub struct FileBuckets {
    buckets: Buckets,
}

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAdmission {
    /// The request may begin.
    Now,
    /// The request must wait until then, for this reason.
    Until(Instant, ThrottleReason),
}

/// The limits of a share; see the module.
#[derive(Debug)]
pub struct ShareLimits {
    /// Origin of the bucket times.
    origin: Instant,
    is_limited: AtomicBool,
    limits_files: AtomicBool,
    has_multichannel: AtomicBool,
    root_handles: AtomicU32,
    file_handles: AtomicU32,
    size_bytes: AtomicU64,
    /// Increases with every change of limits: bookings under old limits are repeated.
    generation: AtomicU64,
    share_paces: [PaceCell; BUCKETS],
    file_paces: [PaceCell; BUCKETS],
    buckets: Buckets,
    waiting: AtomicUsize,
    throttled: [AtomicU64; ThrottleReason::REASONS.len()],
    usage: SpaceUsage,
    cold: Mutex<ColdState>,
}

/// State outside the request path.
#[derive(Debug, Default)]
struct ColdState {
    provision: Provision,
    credits_before: u64,
    credit_state: CreditState,
}

/// A waiting request; dropping it ends the wait.
#[derive(Debug)]
pub struct WaitGuard<'a>(&'a ShareLimits);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ShareLimits {
    /// The limits of a share, with full buckets at `now`.
    #[must_use]
    pub fn new(provision: Provision, now: Instant) -> Self {
        let limits = Self {
            origin: now,
            is_limited: AtomicBool::new(false),
            limits_files: AtomicBool::new(false),
            has_multichannel: AtomicBool::new(true),
            root_handles: AtomicU32::new(u32::MAX),
            file_handles: AtomicU32::new(u32::MAX),
            size_bytes: AtomicU64::new(u64::MAX),
            generation: AtomicU64::new(0),
            share_paces: Default::default(),
            file_paces: Default::default(),
            buckets: Default::default(),
            waiting: AtomicUsize::new(0),
            throttled: Default::default(),
            usage: SpaceUsage::default(),
            cold: Mutex::default(),
        };
        limits.install(provision, now, u64::MAX);
        limits
    }

    /// Installs new limits. Burst credits stay, up to the new maximum.
    pub fn set(&self, provision: Provision, now: Instant) {
        if self.cold.lock().provision == provision {
            return;
        }
        let at = self.since(now);
        let had = self.share_paces[CREDITS].get();
        let held = if !had.is_limit() { u64::MAX } else { self.buckets[CREDITS].held(had, at) };
        self.install(provision, now, held);
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn install(&self, provision: Provision, now: Instant, credits: u64) {
        let (limits, at) = (provision.limits(), self.since(now));
        let credit_pace = credit_pace(&limits);
        let saved_up = credit_pace.is_some();
        // Bookings under old limits do not delay requests under the new ones.
        for bucket in &self.buckets {
            bucket.set_held(BucketRate::default(), 0, at);
        }
        if let Some(pace) = credit_pace {
            self.buckets[CREDITS].set_held(pace, credits.min(pace.capacity()), at);
        }
        let mut share = paces_of(&limits.share);
        share[CREDITS] = credit_pace.unwrap_or_default();
        share[METADATA] = pace_of(limits.metadata_iops);
        if saved_up {
            share[IOPS] = pace_of(limits.burst_iops);
        }
        let files = paces_of(&limits.file);
        let cells = self.share_paces.iter().zip(share).chain(self.file_paces.iter().zip(files));
        cells.for_each(|(cell, pace)| cell.set(pace));
        let limits_files = files.iter().any(|pace| pace.is_limit());
        let is_limited = limits_files || share.iter().any(|pace| pace.is_limit());
        let handles = |count: Option<u32>| count.unwrap_or(u32::MAX);
        self.root_handles.store(handles(limits.root_handles), Ordering::Relaxed);
        self.file_handles.store(handles(limits.file_handles), Ordering::Relaxed);
        self.size_bytes.store(provision.size_bytes().unwrap_or(u64::MAX), Ordering::Relaxed);
        self.has_multichannel.store(provision.class.has_multichannel(), Ordering::Relaxed);
        self.limits_files.store(limits_files, Ordering::Relaxed);
        self.is_limited.store(is_limited, Ordering::Relaxed);
        self.cold.lock().provision = provision;
    }

    /// Present burst credits; none without bursts.
    #[must_use]
    pub fn credits(&self, now: Instant) -> Option<u64> {
        let pace = self.share_paces[CREDITS].get();
        pace.is_limit().then(|| self.buckets[CREDITS].held(pace, self.since(now)))
    }

    /// Restores the burst credits of an earlier run, with the accrual since then.
    pub fn restore_credits(&self, held: u64, ago: Duration, now: Instant) {
        let pace = self.share_paces[CREDITS].get();
        if pace.is_limit() {
            let came = pace.tokens_in(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX));
            let held = held.saturating_add(came).min(pace.capacity());
            self.buckets[CREDITS].set_held(pace, held, self.since(now));
        }
    }

    /// True if any rate limit is set.
    #[must_use]
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Relaxed)
    }

    /// True if files have limits of their own.
    #[must_use]
    #[inline]
    pub fn limits_files(&self) -> bool {
        self.limits_files.load(Ordering::Relaxed)
    }

    /// True if sessions may use multichannel on the share.
    #[must_use]
    pub fn has_multichannel(&self) -> bool {
        self.has_multichannel.load(Ordering::Relaxed)
    }

    /// Open handles of the root, or of another file or directory.
    #[must_use]
    pub fn handles_max(&self, is_root: bool) -> u32 {
        let count = if is_root { &self.root_handles } else { &self.file_handles };
        count.load(Ordering::Relaxed)
    }

    /// The provisioned size in bytes, if any.
    #[must_use]
    pub fn size_bytes(&self) -> Option<u64> {
        Some(self.size_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes != u64::MAX)
    }

    /// Usage of the provisioned size.
    #[must_use]
    pub fn space_usage(&self) -> &SpaceUsage {
        &self.usage
    }

    /// The provisioning of the share.
    #[must_use]
    pub fn provision(&self) -> Provision {
        self.cold.lock().provision
    }

    /// Number of the present limits; a booking with another number is void.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Takes the tokens of a request, from its file's buckets or, without one, from the share's, if
    /// they are available.
    #[must_use]
    pub fn take(&self, file: Option<&FileBuckets>, cost: Cost, now: Instant) -> RequestAdmission {
        let (paces, buckets) = match file {
            Some(used) => (&self.file_paces, &used.buckets),
            None => (&self.share_paces, &self.buckets),
        };
        match take_all(paces, buckets, &buckets_of(cost), self.since(now)) {
            Ok(()) => RequestAdmission::Now,
            Err((due, bucket)) => {
                let why =
                    if file.is_some() { ThrottleReason::File } else { reason(bucket, cost.kind) };
                RequestAdmission::Until(self.origin + Duration::from_nanos(due), why)
            }
        }
    }

    /// Takes the tokens of a request from its file, if that has limits, and from the share, if both
    /// have them; otherwise nothing. Every undelayed request uses this path.
    #[must_use]
    pub fn try_take(&self, file: Option<&FileBuckets>, cost: Cost, now: Instant) -> bool {
        let (at, demand) = (self.since(now), buckets_of(cost));
        if let Some(used) = file
            && take_all(&self.file_paces, &used.buckets, &demand, at).is_err()
        {
            return false;
        }
        if take_all(&self.share_paces, &self.buckets, &demand, at).is_ok() {
            return true;
        }
        if let Some(used) = file {
            refund(&self.file_paces, &used.buckets, cost);
        }
        false
    }

    /// Books the tokens of a request: returns the time at which it may begin, and the reason of the
    /// delay. The caller uses the booking or returns it.
    #[must_use]
    pub fn book(&self, file: Option<&FileBuckets>, cost: Cost, now: Instant) -> RequestAdmission {
        match file {
            Some(used) => {
                let admission = self.book_of(&self.file_paces, &used.buckets, cost, now);
                admission.because(ThrottleReason::File)
            }
            None => self.book_of(&self.share_paces, &self.buckets, cost, now),
        }
    }

    /// Returns tokens that were taken or booked and not used.
    pub fn refund(&self, file: Option<&FileBuckets>, cost: Cost) {
        match file {
            Some(used) => refund(&self.file_paces, &used.buckets, cost),
            None => refund(&self.share_paces, &self.buckets, cost),
        }
    }

    /// Registers a waiting request.
    pub fn wait(&self) -> WaitGuard<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitGuard(self)
    }

    /// Counts a delayed request.
    pub fn count_throttled(&self, throttled: ThrottleReason) {
        if let Some(at) = ThrottleReason::REASONS.iter().position(|reason| *reason == throttled) {
            self.throttled[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Updates the credit trend; called about once a second.
    pub fn handle_tick(&self, now: Instant) {
        let at = self.since(now);
        let pace = self.share_paces[CREDITS].get();
        let held = self.buckets[CREDITS].held(pace, at);
        let mut cold = self.cold.lock();
        cold.credit_state = CreditState::of(cold.credits_before, held);
        cold.credits_before = held;
    }

    /// Figures for metrics and the admin interface.
    #[must_use]
    pub fn snapshot(&self, now: Instant) -> LimitsSnapshot {
        let at = self.since(now);
        let cold = self.cold.lock();
        let limits = cold.provision.limits();
        let credits = credit_pace(&limits).map(|pace| Credits {
            held: self.buckets[CREDITS].held(pace, at),
            max: limits.credits_max(),
            state: cold.credit_state,
        });
        let counts = self.throttled.each_ref().map(|count| count.load(Ordering::Relaxed));
        let mut reasons = ThrottleReason::REASONS.into_iter().zip(counts);
        LimitsSnapshot {
            provision: cold.provision,
            limits,
            credits,
            throttled: std::array::from_fn(|_| reasons.next().unwrap_or_default()),
            waiting: self.waiting.load(Ordering::Relaxed),
            used_bytes: self.usage.used_bytes(),
        }
    }

    fn book_of(
        &self,
        paces: &[PaceCell; BUCKETS],
        buckets: &Buckets,
        cost: Cost,
        now: Instant,
    ) -> RequestAdmission {
        let at = self.since(now);
        let (mut latest, mut why) = (at, ThrottleReason::None);
        for (bucket, tokens) in buckets_of(cost) {
            let pace = paces[bucket].get();
            if !pace.is_limit() || tokens == 0 {
                continue;
            }
            let due = buckets[bucket].book(pace, tokens, at);
            if due > latest {
                (latest, why) = (due, reason(bucket, cost.kind));
            }
        }
        if latest == at {
            return RequestAdmission::Now;
        }
        RequestAdmission::Until(self.origin + Duration::from_nanos(latest), why)
    }

    fn since(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.origin);
        // Avoids the 128 bits of `as_nanos`; 64 bits suffice for five hundred years.
        since.as_secs().saturating_mul(1_000_000_000) + u64::from(since.subsec_nanos())
    }
}

impl RequestAdmission {
    fn because(self, why: ThrottleReason) -> Self {
        match self {
            Self::Now => Self::Now,
            Self::Until(at, _) => Self::Until(at, why),
        }
    }
}

/// Bucket indexes and token counts of a request.
type BucketDemand = [(usize, u64); 5];

#[inline]
fn buckets_of(cost: Cost) -> BucketDemand {
    let Cost { kind, operations, bytes } = cost;
    let (own, flow) = match kind {
        RequestKind::Read => (READ_IOPS, EGRESS),
        RequestKind::Write => (WRITE_IOPS, INGRESS),
        // A metadata request has no bytes, so EGRESS takes nothing.
        RequestKind::Metadata => (METADATA, EGRESS),
    };
    [
        (IOPS, operations),
        (CREDITS, operations),
        (own, operations),
        (BANDWIDTH, bytes),
        (flow, bytes),
    ]
}

/// The reason of a delay by a bucket.
fn reason(bucket: usize, kind: RequestKind) -> ThrottleReason {
    match (bucket, kind) {
        (METADATA, _) => ThrottleReason::Metadata,
        (BANDWIDTH | INGRESS | EGRESS, RequestKind::Write) => ThrottleReason::Ingress,
        (BANDWIDTH | INGRESS | EGRESS, _) => ThrottleReason::Egress,
        _ => ThrottleReason::Iops,
    }
}

/// Takes all tokens, or none. The error is the time of the next attempt and the index of the empty
/// bucket.
#[inline]
fn take_all(
    paces: &[PaceCell; BUCKETS],
    buckets: &Buckets,
    demand: &BucketDemand,
    at: u64,
) -> Result<(), (u64, usize)> {
    for (index, &(bucket, tokens)) in demand.iter().enumerate() {
        let pace = paces[bucket].get();
        if !pace.is_limit() || tokens == 0 {
            continue;
        }
        if let Err(due) = buckets[bucket].take(pace, tokens, at) {
            for &(bucket, tokens) in demand.iter().take(index) {
                put_back(paces, buckets, bucket, tokens);
            }
            return Err((due, bucket));
        }
    }
    Ok(())
}

fn refund(paces: &[PaceCell; BUCKETS], buckets: &Buckets, cost: Cost) {
    for (bucket, tokens) in buckets_of(cost) {
        put_back(paces, buckets, bucket, tokens);
    }
}

fn put_back(paces: &[PaceCell; BUCKETS], buckets: &Buckets, bucket: usize, tokens: u64) {
    let pace = paces[bucket].get();
    if pace.is_limit() && tokens > 0 {
        buckets[bucket].refund(pace, tokens);
    }
}

fn pace_of(per_second: Option<u64>) -> BucketRate {
    per_second
        .map(|per_second| BucketRate::new(per_second, SAVED.as_nanos() as u64))
        .unwrap_or_default()
}

fn paces_of(rates: &Rates) -> [BucketRate; BUCKETS] {
    let mut paces = [BucketRate::default(); BUCKETS];
    paces[IOPS] = pace_of(rates.iops);
    paces[READ_IOPS] = pace_of(rates.read_iops);
    paces[WRITE_IOPS] = pace_of(rates.write_iops);
    paces[BANDWIDTH] = pace_of(rates.bandwidth);
    paces[INGRESS] = pace_of(rates.ingress);
    paces[EGRESS] = pace_of(rates.egress);
    paces
}

/// The pace of burst credits: they accrue at the baseline and hold the excess of bursts. Use at the
/// baseline leaves them constant.
fn credit_pace(limits: &Limits) -> Option<BucketRate> {
    let (base, max) = (limits.share.iops?, limits.credits_max());
    (max > 0).then(|| BucketRate::new(base, 0).holding(max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BookingTurn, GIB, MIB, PerformanceClass, TurnGrant, Turns};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn with(own: Limits) -> Provision {
        Provision { own, ..Provision::default() }
    }

    fn iops(per_second: u64) -> Limits {
        let share = Rates { iops: Some(per_second), ..Rates::default() };
        Limits { share, ..Limits::default() }
    }

    /// Takes all available tokens for some seconds, in steps of a millisecond.
    fn overload(limits: &ShareLimits, from: Instant, seconds: u64, cost: Cost) -> u64 {
        let mut taken = 0;
        for step in 1..=seconds * 1000 {
            let now = from + Duration::from_millis(step);
            while limits.take(None, cost, now) == RequestAdmission::Now {
                taken += cost.operations;
            }
        }
        taken
    }

    #[test]
    fn burst_credits_drain_and_accrue_by_the_formula_for_hours() {
        let start = Instant::now();
        let provision =
            Provision { class: PerformanceClass::Premium, gib: Some(100), ..Provision::default() };
        let limits = ShareLimits::new(provision, start);
        let credits = |at| limits.snapshot(at).credits.unwrap();
        assert_eq!((credits(start).held, credits(start).max), (24_840_000, 24_840_000));
        // Ten operations at once, because a simulated hour of single ones takes long.
        let cost = Cost { kind: RequestKind::Read, operations: 10, bytes: 0 };
        let hour = Duration::from_hours(1);
        let half = overload(&limits, start, 1800, cost);
        assert!(half.abs_diff(10_000 * 1800) < 10_000, "{half} at burst");
        let held = credits(start + hour / 2).held;
        assert!(held.abs_diff(12_420_000) < 10_000, "{held} left");
        let rest = overload(&limits, start + hour / 2, 1800, cost);
        assert!(rest.abs_diff(10_000 * 1800) < 20_000, "{rest} at burst");
        assert!(credits(start + hour).held < 20_000);
        let baseline = overload(&limits, start + hour, 600, cost);
        assert!(baseline.abs_diff(3_100 * 600) < 20_000, "{baseline} at the baseline");
        // Two idle hours accrue two hours of the baseline.
        let later = start + hour + Duration::from_secs(600) + 2 * hour;
        let held = credits(later).held;
        assert!(held.abs_diff(3_100 * 7200) < 20_000, "{held} saved up");
        assert_eq!(credits(later + 8 * hour).held, 24_840_000, "and no more than the most");
    }

    #[test]
    fn credit_trend_is_accruing_declining_or_steady() {
        let start = Instant::now();
        let own = Limits { burst_iops: Some(300), ..iops(100) };
        let limits = ShareLimits::new(with(own), start);
        let state = |at: u64| {
            let now = start + Duration::from_secs(at);
            limits.handle_tick(now);
            limits.snapshot(now).credits.unwrap().state
        };
        state(0);
        assert_eq!(state(1), CreditState::Constant, "full");
        let cost = Cost { kind: RequestKind::Write, operations: 250, bytes: 0 };
        assert_eq!(limits.take(None, cost, start + Duration::from_secs(2)), RequestAdmission::Now);
        assert_eq!(state(2), CreditState::Declining);
        assert_eq!(state(3), CreditState::Accruing);
    }

    #[test]
    fn refused_request_takes_from_no_bucket() {
        let start = Instant::now();
        let share = Rates { iops: Some(1000), egress: Some(MIB), ..Rates::default() };
        let limits = ShareLimits::new(with(Limits { share, ..Limits::default() }), start);
        assert_eq!(limits.take(None, Cost::read(4 * MIB), start), RequestAdmission::Now, "in debt");
        for _ in 0..1000 {
            let refused = limits.take(None, Cost::read(1), start);
            assert!(
                matches!(refused, RequestAdmission::Until(_, ThrottleReason::Egress)),
                "{refused:?}"
            );
        }
        let writes =
            (0..1000).filter(|_| limits.take(None, Cost::write(9), start) == RequestAdmission::Now);
        assert_eq!(writes.count(), 100, "a tenth of a second is saved up");
    }

    #[test]
    fn every_kind_of_request_waits_for_its_limits() {
        let start = Instant::now();
        let share = Rates {
            read_iops: Some(10),
            write_iops: Some(10),
            bandwidth: Some(MIB),
            ..Rates::default()
        };
        let own = Limits { share, metadata_iops: Some(10), ..Limits::default() };
        let limits = ShareLimits::new(with(own), start);
        let reason = |cost| loop {
            if let RequestAdmission::Until(_, why) = limits.take(None, cost, start) {
                return why;
            }
        };
        assert_eq!(reason(Cost::read(0)), ThrottleReason::Iops);
        assert_eq!(reason(Cost::write(0)), ThrottleReason::Iops);
        assert_eq!(reason(Cost::metadata()), ThrottleReason::Metadata);
        let other = ShareLimits::new(with(own), start);
        assert_eq!(other.take(None, Cost::write(8 * MIB), start), RequestAdmission::Now);
        let both = [Cost::write(1), Cost::read(1)].map(|cost| other.take(None, cost, start));
        assert!(matches!(both[0], RequestAdmission::Until(_, ThrottleReason::Ingress)));
        assert!(matches!(both[1], RequestAdmission::Until(_, ThrottleReason::Egress)));
    }

    #[test]
    fn new_limits_apply_at_once_and_keep_credits() {
        let start = Instant::now();
        let own = Limits { burst_iops: Some(1100), ..iops(100) };
        let limits = ShareLimits::new(with(own), start);
        let cost = Cost { kind: RequestKind::Read, operations: 1_600_000, bytes: 0 };
        assert_eq!(limits.take(None, cost, start), RequestAdmission::Now);
        assert_eq!(limits.snapshot(start).credits.unwrap().held, 2_000_000);
        let before = limits.generation();
        limits.set(with(Limits { burst_iops: Some(2200), ..iops(200) }), start);
        assert_ne!(limits.generation(), before);
        let credits = limits.snapshot(start).credits.unwrap();
        assert_eq!((credits.held, credits.max), (2_000_000, 7_200_000));
        limits.set(Provision { gib: Some(7), ..with(iops(50)) }, start);
        assert_eq!(limits.snapshot(start).credits, None);
        assert_eq!(limits.size_bytes(), Some(7 * GIB));
        limits.set(Provision::default(), start);
        assert!(!limits.is_limited());
    }

    /// A session with unlimited requests of one size, whose timers fire late.
    struct SimulatedSession {
        turns: Arc<Turns>,
        turn: Option<BookingTurn>,
        due: Instant,
        bytes: u64,
        done: u64,
    }

    /// Completed requests of each session after some seconds of overload.
    fn simulate(limits: &ShareLimits, sizes: &[u64], late_ms: u64, seconds: u64) -> Vec<u64> {
        let start = Instant::now();
        let new = |bytes: &u64| SimulatedSession {
            turns: Arc::default(),
            turn: None,
            due: start,
            bytes: *bytes,
            done: 0,
        };
        let mut sessions: Vec<SimulatedSession> = sizes.iter().map(new).collect();
        for step in 0..seconds * 1000 {
            let now = start + Duration::from_millis(step);
            for (index, session) in sessions.iter_mut().enumerate() {
                // Timers fire periodically, each session's at a different phase.
                if !(step + index as u64).is_multiple_of(1 + late_ms) {
                    continue;
                }
                while session.due <= now {
                    if session.turn.take().is_some() {
                        session.done += 1;
                    }
                    let TurnGrant::Now(turn) = session.turns.enter() else { panic!("its own") };
                    session.turn = Some(turn);
                    session.due = match limits.book(None, Cost::read(session.bytes), now) {
                        RequestAdmission::Now => now,
                        RequestAdmission::Until(due, _) => due,
                    };
                }
            }
        }
        sessions.iter().map(|session| session.done).collect()
    }

    #[test]
    fn late_timers_do_not_change_the_rate_over_30_seconds() {
        for (count, late_ms) in [(1, 0), (1, 40), (16, 3), (16, 60)] {
            let limits = ShareLimits::new(with(iops(2000)), Instant::now());
            let done = simulate(&limits, &vec![4096; count], late_ms, 30);
            let total: u64 = done.iter().sum();
            let off = total as f64 / 60_000.0 - 1.0;
            assert!(off.abs() < 0.03, "{count} sessions, {late_ms} ms: {total}");
            // A round takes eight milliseconds; a session that wakes later misses its turn. The
            // first session gets the initial bucket content.
            let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
            assert!(late_ms > 8 || most - least <= 201 + most / 50, "{done:?}");
        }
    }

    #[test]
    fn copy_of_one_gib_takes_57_and_30_seconds_at_two_rates() {
        for seconds in [57, 30] {
            let start = Instant::now();
            let share = Rates { ingress: Some(GIB / seconds), ..Rates::default() };
            let limits = ShareLimits::new(with(Limits { share, ..Limits::default() }), start);
            let mut now = start;
            for _ in 0..GIB / MIB {
                if let RequestAdmission::Until(due, _) = limits.book(None, Cost::write(MIB), now) {
                    now = due;
                }
            }
            let took = (now - start).as_secs_f64();
            assert!((took / seconds as f64 - 1.0).abs() < 0.01, "{took} instead of {seconds} s");
        }
    }

    proptest! {
        #[test]
        fn every_limit_is_accurate_within_three_per_cent(
            operations in 50u64..20_000,
            mib in 5u64..500,
            count in 1usize..9,
            size_kib in 1u64..512,
            late_ms in 0u64..30,
        ) {
            let share = Rates {
                iops: Some(operations),
                egress: Some(mib * MIB),
                ..Rates::default()
            };
            let own = Limits { share, ..Limits::default() };
            let limits = ShareLimits::new(with(own), Instant::now());
            let bytes = size_kib * 1024;
            let total: u64 = simulate(&limits, &vec![bytes; count], late_ms, 30).iter().sum();
            let fair = (operations as f64).min((mib * MIB) as f64 / bytes as f64) * 30.0;
            // Requests in debt at the end matter only where there are few.
            let slack = 0.03 * fair + 1.0 + count as f64;
            prop_assert!((total as f64 - fair).abs() <= slack, "{total} instead of {fair}");
        }
    }
}
