//! The last hour in intervals of ten seconds, for the dashboard: traffic by share and operation,
//! clients, refused logons.
//!
//! Bounded to [`HISTORY_BYTES_MAX`], whatever clients do.

use meter::{ApiSnapshot, MeterSnapshot};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use sync::Mutex;

/// Length of an interval in seconds.
pub const INTERVAL_SECONDS: u64 = 10;
/// Number of retained intervals: an hour.
const SAMPLES_MAX: usize = 360;
/// Number of pairs of share and operation with a name; the others are summed.
const SERIES_MAX: usize = 512;
/// Number of pairs in one interval, those with the most requests; the others are summed.
const SERIES_PER_SAMPLE_MAX: usize = 96;
/// Maximum length of the two names of a pair in bytes.
const NAMES_BYTES_MAX: usize = 160;
/// Maximum size of the history.
const HISTORY_BYTES_MAX: usize = 2 << 20;
/// The series with the sum of the others.
const OTHERS: u16 = 0;

const _: () = assert!(
    SAMPLES_MAX
        * (size_of::<HistorySample>() + SERIES_PER_SAMPLE_MAX * size_of::<SeriesTraffic>())
        // Each name is in the list and in the index.
        + SERIES_MAX * 2 * (size_of::<SeriesName>() + NAMES_BYTES_MAX + size_of::<Totals>())
        <= HISTORY_BYTES_MAX
);

/// A pair of share and operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SeriesName {
    share: String,
    /// Protocol and operation.
    api: String,
}

/// Counters of one series since the start of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    operations: u64,
    failed: u64,
    received_bytes: u64,
    sent_bytes: u64,
    /// Number and sum of the latencies in the server.
    measured: u64,
    latency_nanoseconds: u64,
}

impl Totals {
    fn of(api: &ApiSnapshot) -> Self {
        let operations = api.transactions();
        Self {
            operations,
            failed: operations.saturating_sub(api.responses.get("Success").copied().unwrap_or(0)),
            received_bytes: api.ingress_bytes,
            sent_bytes: api.egress_bytes,
            measured: api.server_latency.count(),
            latency_nanoseconds: api.server_latency.sum_nanoseconds,
        }
    }

    fn combine(self, other: Self, by: fn(u64, u64) -> u64) -> Self {
        Self {
            operations: by(self.operations, other.operations),
            failed: by(self.failed, other.failed),
            received_bytes: by(self.received_bytes, other.received_bytes),
            sent_bytes: by(self.sent_bytes, other.sent_bytes),
            measured: by(self.measured, other.measured),
            latency_nanoseconds: by(self.latency_nanoseconds, other.latency_nanoseconds),
        }
    }
}

/// Traffic of one series in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeriesTraffic {
    series: u16,
    operations: u32,
    failed: u32,
    measured: u32,
    received_bytes: u64,
    sent_bytes: u64,
    latency_microseconds: u64,
}

impl SeriesTraffic {
    fn of(series: u16, delta: Totals) -> Self {
        let short = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            series,
            operations: short(delta.operations),
            failed: short(delta.failed),
            measured: short(delta.measured),
            received_bytes: delta.received_bytes,
            sent_bytes: delta.sent_bytes,
            latency_microseconds: delta.latency_nanoseconds / 1000,
        }
    }

    fn shown(&self) -> Value {
        json!([
            self.series,
            self.operations,
            self.failed,
            self.received_bytes,
            self.sent_bytes,
            self.measured,
            self.latency_microseconds,
        ])
    }
}

/// Gauges at the end of an interval, and counters since the start of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryFigures {
    /// SMB sessions and NFS clients.
    pub sessions: u64,
    /// Open connections.
    pub connections: u64,
    /// Open files.
    pub open_files: u64,
    /// Refused logons since the start.
    pub logons_failed: u64,
    /// Refused connections since the start.
    pub connections_refused: u64,
}

/// One interval.
#[derive(Debug)]
struct HistorySample {
    /// Its end, in milliseconds since 1970.
    time_ms: u64,
    length: Duration,
    /// Both counters are of the interval.
    figures: HistoryFigures,
    traffic: Box<[SeriesTraffic]>,
}

#[derive(Debug, Default)]
struct HistoryState {
    /// Names by the number of their series.
    names: Vec<SeriesName>,
    numbers: HashMap<SeriesName, u16>,
    /// Counters at the last interval's end, by the number of the series.
    totals: Vec<Totals>,
    figures: HistoryFigures,
    has_begun: bool,
    samples: VecDeque<HistorySample>,
}

/// The last hour. Any thread may read it.
#[derive(Debug, Default)]
pub struct History(Mutex<HistoryState>);

impl History {
    /// Ends an interval of `length` at `time_ms` (milliseconds since 1970). The first call only
    /// begins one.
    pub fn record(
        &self,
        time_ms: u64,
        length: Duration,
        traffic: &MeterSnapshot,
        figures: HistoryFigures,
    ) {
        self.0.lock().record(time_ms, length, traffic, figures);
    }

    /// Refused logons in the last `seconds`, rounded up to whole intervals.
    #[must_use]
    pub fn logons_failed_within(&self, seconds: u64) -> u64 {
        let intervals = usize::try_from(seconds.div_ceil(INTERVAL_SECONDS)).unwrap_or(usize::MAX);
        let state = self.0.lock();
        state.samples.iter().rev().take(intervals).map(|one| one.figures.logons_failed).sum()
    }

    /// The history for the admin API: names of the series, and the intervals that end after
    /// `since_ms`.
    #[must_use]
    pub fn shown(&self, since_ms: u64) -> Value {
        let state = self.0.lock();
        let series = state.names.iter().map(|SeriesName { share, api }| json!([share, api]));
        let samples = state.samples.iter().filter(|sample| sample.time_ms > since_ms);
        let samples = samples.map(|sample| {
            let HistoryFigures { sessions, connections, open_files, .. } = sample.figures;
            json!({
                "time_ms": sample.time_ms,
                "seconds": sample.length.as_secs_f64(),
                "sessions": sessions,
                "connections": connections,
                "open_files": open_files,
                "logons_failed": sample.figures.logons_failed,
                "connections_refused": sample.figures.connections_refused,
                "traffic": sample.traffic.iter().map(SeriesTraffic::shown).collect::<Vec<_>>(),
            })
        });
        json!({
            "interval_seconds": INTERVAL_SECONDS,
            "series": series.collect::<Vec<_>>(),
            "samples": samples.collect::<Vec<_>>(),
        })
    }
}

impl HistoryState {
    fn record(
        &mut self,
        time_ms: u64,
        length: Duration,
        traffic: &MeterSnapshot,
        figures: HistoryFigures,
    ) {
        let totals = self.totals_of(traffic);
        let last = std::mem::replace(&mut self.totals, totals);
        let then = std::mem::replace(&mut self.figures, figures);
        if !std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        let traffic = self.traffic_since(&last);
        let figures = HistoryFigures {
            logons_failed: figures.logons_failed.saturating_sub(then.logons_failed),
            connections_refused: figures
                .connections_refused
                .saturating_sub(then.connections_refused),
            ..figures
        };
        self.samples.push_back(HistorySample { time_ms, length, figures, traffic });
    }

    fn totals_of(&mut self, snapshot: &MeterSnapshot) -> Vec<Totals> {
        let mut totals = vec![Totals::default(); self.names.len().max(1)];
        for share in &snapshot.shares {
            for api in &share.apis {
                let number = usize::from(self.number_of(&share.share, api));
                totals.resize(self.names.len(), Totals::default());
                totals[number] = totals[number].combine(Totals::of(api), u64::saturating_add);
            }
        }
        totals
    }

    /// Number of a series; names that are too long or too many have that of the others.
    fn number_of(&mut self, share: &str, api: &ApiSnapshot) -> u16 {
        if self.names.is_empty() {
            self.names.push(SeriesName { share: String::new(), api: "(others)".into() });
        }
        let name = SeriesName { share: share.into(), api: format!("{} {}", api.protocol, api.api) };
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let is_short = name.share.len() + name.api.len() <= NAMES_BYTES_MAX;
        match u16::try_from(self.names.len()) {
            Ok(number) if is_short && self.names.len() < SERIES_MAX => {
                self.names.push(name.clone());
                self.numbers.insert(name, number);
                number
            }
            _ => OTHERS,
        }
    }

    /// The traffic since `last` by series, in the order of their numbers.
    fn traffic_since(&self, last: &[Totals]) -> Box<[SeriesTraffic]> {
        let deltas = self.totals.iter().enumerate().map(|(number, now)| {
            let then = last.get(number).copied().unwrap_or_default();
            (number, now.combine(then, u64::saturating_sub))
        });
        let mut deltas: Vec<_> = deltas.filter(|(_, delta)| *delta != Totals::default()).collect();
        // The sum of the others takes one place.
        if deltas.len() > SERIES_PER_SAMPLE_MAX {
            deltas.sort_by_key(|(number, delta)| {
                (*number != usize::from(OTHERS), std::cmp::Reverse(delta.operations))
            });
            let has_others =
                deltas.first().is_some_and(|(number, _)| *number == usize::from(OTHERS));
            let rest = deltas.split_off(SERIES_PER_SAMPLE_MAX - usize::from(!has_others));
            let others = rest.into_iter().map(|(_, delta)| delta);
            let others = others
                .fold(Totals::default(), |sum, delta| sum.combine(delta, u64::saturating_add));
            match deltas.first_mut() {
                Some((number, sum)) if *number == usize::from(OTHERS) => {
                    *sum = sum.combine(others, u64::saturating_add);
                }
                _ => deltas.push((usize::from(OTHERS), others)),
            }
            deltas.sort_by_key(|(number, _)| *number);
        }
        let traffic = deltas.into_iter().map(|(number, delta)| {
            SeriesTraffic::of(u16::try_from(number).unwrap_or(OTHERS), delta)
        });
        traffic.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meter::ShareSnapshot;

    const LENGTH: Duration = Duration::from_secs(INTERVAL_SECONDS);

    fn api(name: &str, operations: u64) -> ApiSnapshot {
        ApiSnapshot {
            protocol: "SMB".into(),
            api: name.into(),
            responses: [("Success".to_owned(), operations - 1), ("Failed".to_owned(), 1)].into(),
            ingress_bytes: operations * 10,
            egress_bytes: operations * 100,
            ..ApiSnapshot::default()
        }
    }

    fn snapshot(share: &str, apis: Vec<ApiSnapshot>) -> MeterSnapshot {
        let share = ShareSnapshot { share: share.into(), apis, ..ShareSnapshot::default() };
        MeterSnapshot { shares: vec![share], ..MeterSnapshot::default() }
    }

    fn figures(logons_failed: u64) -> HistoryFigures {
        HistoryFigures { logons_failed, ..HistoryFigures::default() }
    }

    #[test]
    fn interval_has_what_happened_since_the_last() {
        let history = History::default();
        history.record(1000, LENGTH, &snapshot("data", vec![api("Read", 5)]), figures(7));
        assert_eq!(history.shown(0)["samples"], json!([]), "the first only begins one");
        let next = snapshot("data", vec![api("Read", 8), api("Write", 2)]);
        history.record(11_000, LENGTH, &next, figures(9));
        let shown = history.shown(0);
        assert_eq!(
            shown["series"],
            json!([["", "(others)"], ["data", "SMB Read"], ["data", "SMB Write"]])
        );
        let traffic = &shown["samples"][0]["traffic"];
        assert_eq!(*traffic, json!([[1, 3, 0, 30, 300, 0, 0], [2, 2, 1, 20, 200, 0, 0]]));
        assert_eq!(shown["samples"][0]["logons_failed"], 2);
        history.record(21_000, LENGTH, &next, figures(9));
        let later = history.shown(11_000);
        assert_eq!(later["samples"].as_array().map(Vec::len), Some(1));
        assert_eq!(later["samples"][0]["traffic"], json!([]));
        assert_eq!((history.logons_failed_within(10), history.logons_failed_within(11)), (0, 2));
    }

    #[test]
    fn counters_that_begin_again_give_no_negative_traffic() {
        let history = History::default();
        history.record(1, LENGTH, &snapshot("data", vec![api("Read", 5)]), figures(7));
        history.record(2, LENGTH, &snapshot("data", vec![api("Read", 2)]), figures(1));
        assert_eq!(history.shown(0)["samples"][0]["traffic"], json!([]));
        assert_eq!(history.logons_failed_within(10), 0);
    }

    #[test]
    fn history_is_bounded_in_time_series_and_names() {
        let history = History::default();
        let long = "x".repeat(NAMES_BYTES_MAX);
        let apis = |factor: u64| {
            let names = (0..SERIES_MAX as u64 + 100).map(|n| format!("Api{n}"));
            let names = names.chain([long.clone()]);
            names.zip(1..).map(|(name, n)| api(&name, n * factor)).collect::<Vec<_>>()
        };
        for at in 0..SAMPLES_MAX as u64 + 10 {
            history.record(at, LENGTH, &snapshot("data", apis(at + 1)), figures(at));
        }
        let state = history.0.lock();
        assert_eq!((state.samples.len(), state.names.len()), (SAMPLES_MAX, SERIES_MAX));
        let last = state.samples.back().unwrap();
        assert_eq!(last.traffic.len(), SERIES_PER_SAMPLE_MAX);
        let count = SERIES_MAX as u64 + 101;
        let sum: u64 = last.traffic.iter().map(|one| u64::from(one.operations)).sum();
        assert_eq!(sum, count * (count + 1) / 2, "the others are summed, not lost");
        assert!(last.traffic.windows(2).all(|pair| pair[0].series < pair[1].series));
    }
}
