//! [`Meter`]: all counters by share.

use crate::api::Api;
use crate::audit::{AuditEvent, AuditSink};
use crate::cell::{CellCounts, CompletedRequest, OperationCell, SentReply};
use crate::histogram::HistogramSnapshot;
use crate::peaks::{Peak, Peaks};
use crate::response::{Authentication, ResponseType};
use crate::share::ShareId;
use crate::slow::{Slow, SlowRequest};
use crate::snapshot::{ApiSnapshot, MeterSnapshot, ShareSnapshot, TopEntry};
use crate::stage::{StageClock, StageTimes};
use crate::top::{TOP_SAMPLE, Top};
use std::cell::Cell as ThreadCell;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use sync::Mutex;

/// Shares with counters of their own, of all that were ever configured; further ones count as none.
pub const SHARES_MAX: usize = 4096;
/// Shares whose counters are allocated together.
const SHARES_TOGETHER: usize = 64;
/// Threads beyond this number share stripes.
const STRIPES: usize = 16;
const CELLS: usize = Api::COUNT * Authentication::ALL.len();
/// Files and clients in a snapshot.
const TOP_COUNT: usize = 20;

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT_STRIPE.fetch_add(1, Ordering::Relaxed) % STRIPES;
    static TURN: ThreadCell<u32> = const { ThreadCell::new(0) };
}

/// Counters of the threads of one stripe.
#[derive(Debug)]
struct Stripe(Box<[OnceLock<Box<OperationCell>>]>);

impl Default for Stripe {
    fn default() -> Self {
        Self((0..CELLS).map(|_| OnceLock::new()).collect())
    }
}

/// Counters of one share. They are allocated on first use and never freed, because counters never
/// decrease.
#[derive(Debug, Default)]
struct ShareCells {
    stripes: [OnceLock<Stripe>; STRIPES],
}

fn cell_index(api: Api, authentication: Authentication) -> usize {
    api.index() * Authentication::ALL.len() + authentication as usize
}

impl ShareCells {
    fn cell(&self, api: Api, authentication: Authentication) -> &OperationCell {
        let stripe = self.stripes[STRIPE.with(|stripe| *stripe)].get_or_init(Stripe::default);
        stripe.0[cell_index(api, authentication)].get_or_init(Box::default)
    }

    fn cells(&self, index: usize) -> impl Iterator<Item = &OperationCell> {
        let stripes = self.stripes.iter().filter_map(OnceLock::get);
        stripes.filter_map(move |stripe| stripe.0[index].get().map(Box::as_ref))
    }

    /// Sums of transactions and bytes.
    fn totals(&self) -> (u64, u64) {
        let mut counts = CellCounts::default();
        (0..CELLS).flat_map(|index| self.cells(index)).for_each(|cell| cell.add_to(&mut counts));
        (counts.responses.iter().sum(), counts.ingress_bytes + counts.egress_bytes)
    }

    fn apis(&self) -> Vec<ApiSnapshot> {
        let all = Api::all().flat_map(|api| Authentication::ALL.map(|by| (api, by)));
        all.filter_map(|(api, by)| self.api(api, by)).collect()
    }

    fn api(&self, api: Api, authentication: Authentication) -> Option<ApiSnapshot> {
        let (mut counts, mut any) = (CellCounts::default(), false);
        let (mut server_latency, mut end_to_end_latency) =
            (HistogramSnapshot::default(), HistogramSnapshot::default());
        for cell in self.cells(cell_index(api, authentication)) {
            any = true;
            cell.add_to(&mut counts);
            cell.server.add_to(&mut server_latency);
            cell.end_to_end.add_to(&mut end_to_end_latency);
        }
        let of = |response: ResponseType| counts.responses[response as usize];
        let sum = |which: fn(ResponseType) -> bool| {
            ResponseType::ALL.iter().copied().filter(|r| which(*r)).map(of).sum()
        };
        let known = ResponseType::ALL.iter().filter(|response| of(**response) > 0);
        any.then(|| ApiSnapshot {
            protocol: api.protocol().name().to_owned(),
            api: api.name().to_owned(),
            authentication: authentication.name().to_owned(),
            transaction_type: api.transaction_type().name().to_owned(),
            responses: known.map(|r| (authentication.name_of(*r), of(*r))).collect(),
            ingress_bytes: counts.ingress_bytes,
            egress_bytes: counts.egress_bytes,
            server_latency,
            end_to_end_latency,
            applicable: sum(ResponseType::is_applicable),
            unexpected_errors: sum(ResponseType::is_unexpected),
        })
    }
}

/// Counters of all shares, allocated on first use.
#[derive(Debug)]
struct AllCells(Box<[OnceLock<Box<[ShareCells]>>]>);

impl AllCells {
    fn new() -> Self {
        Self((0..SHARES_MAX / SHARES_TOGETHER).map(|_| OnceLock::new()).collect())
    }

    fn of(&self, share: ShareId) -> &ShareCells {
        let at = usize::from(share.0);
        let make = || (0..SHARES_TOGETHER).map(|_| ShareCells::default()).collect();
        &self.0[at / SHARES_TOGETHER].get_or_init(make)[at % SHARES_TOGETHER]
    }

    /// Counters by index; `None` if nothing was counted in this allocation.
    fn get(&self, at: usize) -> Option<&ShareCells> {
        let together = self.0.get(at / SHARES_TOGETHER)?.get()?;
        together.get(at % SHARES_TOGETHER)
    }
}

/// Registered shares.
#[derive(Debug, Default)]
struct ShareTable {
    /// Names by index; the first one stands for requests without a share.
    names: Vec<String>,
    peaks: Vec<Peaks>,
}

/// The statistics of all requests of the process.
#[derive(Debug)]
pub struct Meter {
    share_table: Mutex<ShareTable>,
    shares: AllCells,
    top: Top,
    slow: Slow,
    stages: StageTimes,
    audit: OnceLock<Arc<dyn AuditSink>>,
}

impl Default for Meter {
    /// Without a clock for [`Meter::stages`].
    fn default() -> Self {
        Self::with(StageTimes::default())
    }
}

impl Meter {
    /// Times cryptography with `clock`.
    #[must_use]
    pub fn new(clock: Box<dyn StageClock>) -> Self {
        Self::with(StageTimes::new(clock))
    }

    fn with(stages: StageTimes) -> Self {
        let known = ShareTable { names: vec![String::new()], peaks: vec![Peaks::default()] };
        Self {
            share_table: Mutex::new(known),
            shares: AllCells::new(),
            top: Top::default(),
            slow: Slow::default(),
            stages,
            audit: OnceLock::new(),
        }
    }

    /// Registers a share for counting. Only the configuration registers shares, never a client.
    pub fn register(&self, name: &str) -> ShareId {
        let mut known = self.share_table.lock();
        if let Some(share) = find(&known, name) {
            return share;
        }
        if known.names.len() >= SHARES_MAX {
            return ShareId::NONE;
        }
        known.names.push(name.to_owned());
        known.peaks.push(Peaks::default());
        ShareId((known.names.len() - 1) as u16)
    }

    /// The share of this name, if it was registered.
    #[must_use]
    pub fn share(&self, name: &str) -> ShareId {
        find(&self.share_table.lock(), name).unwrap_or_default()
    }

    /// The name of a share.
    #[must_use]
    pub fn share_name(&self, share: ShareId) -> String {
        self.share_table.lock().names.get(usize::from(share.0)).cloned().unwrap_or_default()
    }

    fn cells(&self, share: ShareId) -> &ShareCells {
        self.shares.of(share)
    }

    /// Counts a finished request.
    pub fn record(&self, done: &CompletedRequest) {
        self.cells(done.share).cell(done.api, done.authentication).record(done);
    }

    /// Counts bytes of a message that finishes no request: an interim reply or a notification.
    pub fn add_bytes(
        &self,
        (share, api, by): (ShareId, Api, Authentication),
        ingress: u64,
        egress: u64,
    ) {
        self.cells(share).cell(api, by).add_bytes(ingress, egress);
    }

    /// Counts the end-to-end latency of a sent reply.
    pub fn record_sent(&self, sent: &SentReply, latency: Duration) {
        self.cells(sent.share).cell(sent.api, sent.authentication).end_to_end.record(latency);
    }

    /// Whether the present request is sampled for [`Meter::add_top`].
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        let turn = TURN.get();
        TURN.set(if turn == 0 { TOP_SAMPLE - 1 } else { turn - 1 });
        turn == 0
    }

    /// Counts a file and a client among the busiest.
    pub fn add_top(&self, share: ShareId, file: Option<&str>, client: IpAddr, bytes: u64) {
        self.top.add(share, file, client, bytes);
    }

    /// Sets the latency from which requests are queued for [`Meter::take_slow`].
    pub fn set_slow(&self, threshold: Option<Duration>) {
        self.slow.set_threshold(threshold);
    }

    /// Whether a latency is slow.
    #[must_use]
    pub fn is_slow(&self, latency: Duration) -> bool {
        self.slow.is_slow(latency)
    }

    /// Queues a slow request.
    pub fn keep_slow(&self, request: SlowRequest) {
        self.slow.keep(request);
    }

    /// Takes the queued slow requests.
    #[must_use]
    pub fn take_slow(&self) -> Vec<SlowRequest> {
        self.slow.take()
    }

    /// Counts slow requests that could not be exported.
    pub fn count_slow_dropped(&self, count: u64) {
        self.slow.count_dropped(count);
    }

    /// Sets the receiver of audit events. Only the first call takes effect.
    pub fn set_audit(&self, sink: Arc<dyn AuditSink>) {
        // A second sink would have to take over the first one's file.
        drop(self.audit.set(sink));
    }

    /// Passes an event to the audit sink, if there is one.
    pub fn audit(&self, event: impl FnOnce() -> AuditEvent) {
        if let Some(sink) = self.audit.get() {
            sink.take(&event());
        }
    }

    /// CPU times by stage.
    #[must_use]
    pub fn stages(&self) -> &StageTimes {
        &self.stages
    }

    /// Advances the measurements that need about a second's interval.
    pub fn tick(&self, elapsed: Duration) {
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let mut known = self.share_table.lock();
        for (at, peaks) in known.peaks.iter_mut().enumerate() {
            let cells = self.shares.get(at);
            let (transactions, bytes) = cells.map(ShareCells::totals).unwrap_or_default();
            peaks.tick(transactions, bytes, millis);
        }
        drop(known);
        self.top.tick();
    }

    /// A share's busiest second of the last full minute; zero for an unknown share.
    #[must_use]
    pub fn peak(&self, share: &str) -> Peak {
        let known = self.share_table.lock();
        let found = find(&known, share).and_then(|id| known.peaks.get(usize::from(id.0)));
        found.map(Peaks::last_minute).unwrap_or_default()
    }

    /// All counters.
    #[must_use]
    pub fn snapshot(&self) -> MeterSnapshot {
        let known = self.share_table.lock();
        let of = known.names.iter().zip(&known.peaks).enumerate();
        let mut shares: Vec<ShareSnapshot> = of
            .map(|(at, (name, peaks))| {
                let Peak { transactions_per_second, bytes_per_second } = peaks.last_minute();
                ShareSnapshot {
                    share: name.clone(),
                    apis: self.shares.get(at).map(ShareCells::apis).unwrap_or_default(),
                    max_used_iops: transactions_per_second,
                    max_used_bandwidth_bytes_per_second: bytes_per_second,
                }
            })
            .collect();
        shares.sort_by(|a, b| a.share.cmp(&b.share));
        let name = |share: ShareId| known.names[usize::from(share.0)].clone();
        let top_files = self.top.files(TOP_COUNT).into_iter().map(|((share, file), seen)| {
            let (requests, bytes) = (seen.requests, seen.bytes);
            TopEntry { share: name(share), name: (*file).to_owned(), requests, bytes }
        });
        let top_files = top_files.collect();
        let top_clients = self.top.clients(TOP_COUNT).into_iter().map(|(client, seen)| TopEntry {
            share: String::new(),
            name: client.to_string(),
            requests: seen.requests,
            bytes: seen.bytes,
        });
        MeterSnapshot {
            shares,
            top_files,
            top_clients: top_clients.collect(),
            traces_dropped: self.slow.dropped(),
        }
    }
}

/// Share names are case-insensitive.
fn find(known: &ShareTable, name: &str) -> Option<ShareId> {
    let at = known.names.iter().position(|known| known.eq_ignore_ascii_case(name))?;
    Some(ShareId(at as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Arrival;
    use std::time::Instant;

    fn done(share: ShareId, response: ResponseType) -> CompletedRequest {
        CompletedRequest {
            share,
            api: Api::smb(8),
            authentication: Authentication::NTLMv2,
            response,
            ingress_bytes: 100,
            egress_bytes: 1000,
            latency: Duration::from_micros(60),
        }
    }

    #[test]
    fn counts_of_all_threads_are_summed() {
        let meter = Arc::new(Meter::default());
        let share = meter.register("data");
        let threads: Vec<_> = (0..STRIPES + 3)
            .map(|_| {
                let meter = meter.clone();
                let count = move || {
                    (0..100).for_each(|_| meter.record(&done(share, ResponseType::Success)));
                    meter.record(&done(share, ResponseType::ServerBusyError));
                };
                std::thread::spawn(count)
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let snapshot = meter.snapshot();
        let [none, data] = &snapshot.shares[..] else { panic!("{snapshot:?}") };
        assert_eq!((none.share.as_str(), none.apis.len()), ("", 0));
        let [read] = &data.apis[..] else { panic!("{data:?}") };
        assert_eq!((read.protocol.as_str(), read.api.as_str()), ("SMB", "Read"));
        assert_eq!(read.responses["Success"], 1900);
        assert_eq!(
            (read.transactions(), read.applicable, read.unexpected_errors),
            (1919, 1919, 19)
        );
        assert_eq!((read.ingress_bytes, read.egress_bytes), (191_900, 1_919_000));
        assert_eq!(read.server_latency.count(), 1900, "of those that succeeded");
    }

    #[test]
    fn returning_share_continues_its_counters() {
        let meter = Meter::default();
        let share = meter.register("data");
        assert_eq!(meter.register("DATA"), share);
        assert_eq!((meter.share("Data"), meter.share("other")), (share, ShareId::NONE));
        assert_eq!(meter.share_name(share), "data");
        for at in 2..SHARES_MAX {
            assert_ne!(meter.register(&format!("share {at}")), ShareId::NONE);
        }
        assert_eq!(meter.register("one too many"), ShareId::NONE);
    }

    #[test]
    fn sent_reply_is_counted_again_if_successful() {
        let meter = Meter::default();
        let now = Instant::now();
        let arrival = Arrival::at_once(now, 100);
        let sent = done(ShareId::NONE, ResponseType::Success).sent(arrival.first_byte).unwrap();
        meter.record_sent(&sent, Duration::from_millis(3));
        let read = &meter.snapshot().shares[0].apis[0];
        assert_eq!((read.end_to_end_latency.count(), read.transactions()), (1, 0));
        assert!(done(ShareId::NONE, ResponseType::ClientOtherError).sent(now).is_none());
    }

    #[test]
    fn request_sampling_takes_one_in_a_fixed_number() {
        let meter = Meter::default();
        let sampled = (0..10 * TOP_SAMPLE).filter(|_| meter.is_sampled()).count();
        assert_eq!(sampled, 10);
    }

    #[test]
    fn busiest_second_of_a_minute_is_reported_by_share() {
        let meter = Meter::default();
        let share = meter.register("data");
        (0..5).for_each(|_| meter.record(&done(share, ResponseType::Success)));
        (0..60).for_each(|_| meter.tick(Duration::from_secs(1)));
        let data = &meter.snapshot().shares[1];
        assert_eq!((data.max_used_iops, data.max_used_bandwidth_bytes_per_second), (5, 5500));
        let peak = Peak { transactions_per_second: 5, bytes_per_second: 5500 };
        assert_eq!((meter.peak("DATA"), meter.peak("other")), (peak, Peak::default()));
    }
}
