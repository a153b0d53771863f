//! Latency histogram with buckets three per cent wide.

/// Buckets per power of two.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Powers of two above the first [`STEPS`] nanoseconds: up to some 18 minutes.
const DOUBLINGS: usize = 36;

/// A histogram of nanoseconds. Its memory is constant.
#[derive(Clone, Debug, Default)]
pub struct LoadHistogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

fn class_of(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let doubling = nanos.ilog2() - STEP_BITS;
    let step = (nanos >> doubling) - STEPS;
    let class = STEPS as usize * (doubling as usize + 1) + step as usize;
    class.min(STEPS as usize * (DOUBLINGS + 1) - 1)
}

/// The largest value of a bucket.
fn top_of(class: usize) -> u64 {
    let (row, step) = (class as u64 / STEPS, class as u64 % STEPS);
    if row == 0 {
        return step;
    }
    ((STEPS + step + 1) << (row - 1)) - 1
}

impl LoadHistogram {
    /// Records one value.
    pub fn record(&mut self, nanos: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; STEPS as usize * (DOUBLINGS + 1)];
        }
        self.counts[class_of(nanos)] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.counts.is_empty() {
            self.counts = vec![0; other.counts.len()];
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, more)| *own += more);
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Number of recorded values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean in nanoseconds; 0 without values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The maximum.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that `percent` of all do not exceed; at most three per cent too high.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = ((percent / 100.0 * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return top_of(class).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn histogram_bucket_contains_its_values_and_is_narrow(nanos in 0u64..1 << 40) {
            let class = class_of(nanos);
            prop_assert!(nanos <= top_of(class));
            prop_assert!(class == 0 || nanos > top_of(class - 1));
            prop_assert!(top_of(class) as f64 <= nanos as f64 * 1.032);
        }
    }

    #[test]
    fn percentiles_of_known_numbers() {
        let (mut low, mut high) = (LoadHistogram::default(), LoadHistogram::default());
        (1..=900).for_each(|n| low.record(n * 1000));
        (901..=1000).for_each(|n| high.record(n * 1000));
        low.merge(&high);
        assert_eq!((low.count(), low.max()), (1000, 1_000_000));
        assert!((low.mean() - 500_500.0).abs() < 1.0);
        for percent in [1.0, 50.0, 90.0, 99.0, 99.9] {
            let (found, exact) = (low.percentile(percent) as f64, percent * 10_000.0);
            assert!(found >= exact && found <= exact * 1.032, "{percent}: {found}");
        }
        assert_eq!(low.percentile(100.0), 1_000_000);
        assert_eq!(LoadHistogram::default().percentile(50.0), 0);
    }

    #[test]
    fn huge_latency_is_recorded() {
        let mut histogram = LoadHistogram::default();
        histogram.record(u64::MAX);
        assert_eq!(histogram.count(), 1);
    }
}
