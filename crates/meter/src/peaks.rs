//! The busiest second of the last full minute, from totals that are sampled every second.

/// Rates of a share in its busiest second, which averages over a minute hide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Transactions.
    pub transactions_per_second: u64,
    /// Bytes in both directions.
    pub bytes_per_second: u64,
}

/// Tracks the peak from totals.
#[derive(Debug, Default)]
pub(crate) struct Peaks {
    transactions: u64,
    bytes: u64,
    /// Peak of the present minute so far.
    rising: Peak,
    seconds: u32,
    /// Peak of the previous minute.
    last: Peak,
}

const MINUTE_SECONDS: u32 = 60;

impl Peaks {
    /// Samples the totals `elapsed_millis` after the last call.
    pub fn tick(&mut self, transactions: u64, bytes: u64, elapsed_millis: u64) {
        let per_second = |now: u64, before: u64| {
            now.saturating_sub(before).saturating_mul(1000) / elapsed_millis.max(1)
        };
        let rising = &mut self.rising;
        rising.transactions_per_second =
            rising.transactions_per_second.max(per_second(transactions, self.transactions));
        rising.bytes_per_second = rising.bytes_per_second.max(per_second(bytes, self.bytes));
        (self.transactions, self.bytes) = (transactions, bytes);
        self.seconds += 1;
        if self.seconds == MINUTE_SECONDS {
            (self.last, self.rising, self.seconds) = (self.rising, Peak::default(), 0);
        }
    }

    /// Peak of the last full minute.
    pub fn last_minute(&self) -> Peak {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_the_busiest_second_of_the_last_minute() {
        let mut peaks = Peaks::default();
        let mut total = 0;
        for second in 0..MINUTE_SECONDS {
            assert_eq!(peaks.last_minute(), Peak::default(), "it is not over");
            total += if second == 7 { 900 } else { 10 };
            peaks.tick(total, total * 100, 1000);
        }
        let peak = Peak { transactions_per_second: 900, bytes_per_second: 90_000 };
        assert_eq!(peaks.last_minute(), peak);
        for _ in 0..MINUTE_SECONDS - 1 {
            peaks.tick(total, total * 100, 1000);
            assert_eq!(peaks.last_minute(), peak, "until the next one is over");
        }
        peaks.tick(total, total * 100, 1000);
        assert_eq!(peaks.last_minute(), Peak::default());
    }

    #[test]
    fn late_sample_makes_no_peak() {
        let mut peaks = Peaks::default();
        peaks.tick(3000, 0, 3000);
        assert_eq!(peaks.rising.transactions_per_second, 1000);
    }
}
