//! Lock-free latency histograms.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets; one more bucket holds longer latencies.
pub const BOUNDS_MICROSECONDS: [u64; 18] = [
    25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];
const BUCKETS: usize = BOUNDS_MICROSECONDS.len() + 1;

/// A histogram under recording.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    buckets: [AtomicU64; BUCKETS],
    sum_nanoseconds: AtomicU64,
}

impl Latencies {
    pub fn record(&self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let at = BOUNDS_MICROSECONDS.partition_point(|bound| bound * 1_000 < nanoseconds);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.sum_nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub fn add_to(&self, sum: &mut HistogramSnapshot) {
        sum.buckets.resize(BUCKETS, 0);
        for (sum, bucket) in sum.buckets.iter_mut().zip(&self.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        sum.sum_nanoseconds += self.sum_nanoseconds.load(Ordering::Relaxed);
    }
}

/// A histogram at one moment. The difference of two is a histogram, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramSnapshot {
    /// Observations per bucket, not cumulative: one for each of [`BOUNDS_MICROSECONDS`], then
    /// longer ones.
    pub buckets: Vec<u64>,
    /// Sum of all observations.
    pub sum_nanoseconds: u64,
}

impl HistogramSnapshot {
    /// Number of observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Observations since `before` was taken.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = before.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets = self.buckets.iter().zip(earlier).map(|(now, then)| now.saturating_sub(then));
        Self {
            buckets: buckets.collect(),
            sum_nanoseconds: self.sum_nanoseconds.saturating_sub(before.sum_nanoseconds),
        }
    }

    /// Adds the observations of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.resize(BUCKETS.max(other.buckets.len()), 0);
        for (sum, bucket) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += bucket;
        }
        self.sum_nanoseconds += other.sum_nanoseconds;
    }

    /// The latency in seconds that the fraction `share` (0 to 1) of all observations does not
    /// exceed. The estimate interpolates within a bucket, as Prometheus does. `None` without
    /// observations.
    #[must_use]
    pub fn quantile_seconds(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = share.clamp(0.0, 1.0) * count as f64;
        let (mut before, mut lower) = (0_u64, 0.0);
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS_MICROSECONDS) {
            let upper = bound as f64 / 1e6;
            let with = before + bucket;
            if *bucket > 0 && with as f64 >= rank {
                return Some(lower + (upper - lower) * (rank - before as f64) / *bucket as f64);
            }
            (before, lower) = (with, upper);
        }
        // Beyond the last bound only that bound is known.
        Some(lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(microseconds: &[u64]) -> HistogramSnapshot {
        let (latencies, mut sum) = (Latencies::default(), HistogramSnapshot::default());
        microseconds.iter().for_each(|m| latencies.record(Duration::from_micros(*m)));
        latencies.add_to(&mut sum);
        sum
    }

    #[test]
    fn bucket_bounds_are_inclusive_and_the_last_is_open() {
        let histogram = of(&[0, 25, 26, 10_000_000, 10_000_001]);
        assert_eq!(histogram.buckets[..2], [2, 1]);
        assert_eq!(histogram.buckets[17..], [1, 1]);
        assert_eq!((histogram.count(), histogram.sum_nanoseconds), (5, 20_000_052_000));
    }

    #[test]
    fn quantile_is_in_the_bucket_of_its_rank() {
        let histogram = of(&[[40; 50], [90; 50]].concat());
        for (share, microseconds) in [(0.5, 50.0), (0.75, 75.0), (1.0, 100.0)] {
            let found = histogram.quantile_seconds(share).unwrap() * 1e6;
            assert!((found - microseconds).abs() < 1e-6, "{share}: {found}");
        }
        assert_eq!(of(&[99_000_000]).quantile_seconds(0.5), Some(10.0), "no more is known");
        assert_eq!(HistogramSnapshot::default().quantile_seconds(0.5), None);
    }

    #[test]
    fn histogram_difference_is_the_time_between_snapshots() {
        let (before, mut after) = (of(&[40]), of(&[40, 90, 90]));
        assert_eq!(after.since(&before), of(&[90, 90]));
        assert_eq!(after.since(&HistogramSnapshot::default()), after);
        after.merge(&before);
        assert_eq!(after.count(), 4);
    }
}
