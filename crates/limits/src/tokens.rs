//! One lock-free token bucket: the virtual scheduling form of the generic cell rate algorithm
//! (ITU-T I.371 A). Its state is one number, the time at which the bucket would be full. Taking
//! tokens is one compare-and-swap, so two threads cannot take the same token.

use std::sync::atomic::{AtomicU64, Ordering};

const SECOND_NS: u64 = 1_000_000_000;

/// Binary fraction digits of a nanosecond in the time of one token.
const PARTS: u32 = 24;

/// Rate and depth of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketRate {
    /// Time in which one token accrues, in fractions of a nanosecond; zero for no limit.
    parts: u64,
    /// Time in which an empty bucket fills.
    pub depth_ns: u64,
}

impl BucketRate {
    /// A rate in tokens a second, and a depth.
    pub fn new(per_second: u64, depth_ns: u64) -> Self {
        Self { parts: (SECOND_NS << PARTS) / per_second.max(1), depth_ns }
    }

    #[inline]
    pub fn is_limit(self) -> bool {
        self.parts > 0
    }

    /// Time in which so many tokens accrue.
    #[inline]
    pub fn span_ns(self, tokens: u64) -> u64 {
        let parts = u128::from(tokens) * u128::from(self.parts);
        u64::try_from(parts >> PARTS).unwrap_or(u64::MAX / 4)
    }

    /// The same rate, with a depth of so many tokens.
    pub fn holding(self, tokens: u64) -> Self {
        Self { depth_ns: self.span_ns(tokens) + 1, ..self }
    }

    /// Tokens in the full bucket.
    pub fn capacity(self) -> u64 {
        self.tokens_in(self.depth_ns)
    }

    /// Tokens that accrue in a time.
    pub fn tokens_in(self, span_ns: u64) -> u64 {
        let parts = u128::from(span_ns) << PARTS;
        u64::try_from(parts / u128::from(self.parts.max(1))).unwrap_or(u64::MAX)
    }
}

/// A pace that may change while other threads read it.
#[derive(Debug, Default)]
pub(crate) struct PaceCell {
    parts: AtomicU64,
    depth_ns: AtomicU64,
}

impl PaceCell {
    #[inline]
    pub fn get(&self) -> BucketRate {
        let parts = self.parts.load(Ordering::Relaxed);
        BucketRate { parts, depth_ns: self.depth_ns.load(Ordering::Relaxed) }
    }

    pub fn set(&self, pace: BucketRate) {
        self.depth_ns.store(pace.depth_ns, Ordering::Relaxed);
        self.parts.store(pace.parts, Ordering::Relaxed);
    }
}

/// A token bucket. All times are nanoseconds since an origin.
#[derive(Debug, Default)]
pub(crate) struct TokenBucket {
    /// Time at which the bucket will be full; in the past for a full one.
    full_at: AtomicU64,
}

impl TokenBucket {
    /// Takes tokens if the bucket is not empty. One request may overdraw it, so that a request
    /// larger than the bucket gets through.
    ///
    /// # Errors
    /// The time of the next attempt; no token was taken.
    #[inline]
    pub fn take(&self, pace: BucketRate, tokens: u64, now: u64) -> Result<(), u64> {
        let span = pace.span_ns(tokens);
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let due = full_at.saturating_sub(pace.depth_ns);
            if due > now {
                return Err(due);
            }
            let next = full_at.max(now).saturating_add(span);
            match self.swap(full_at, next) {
                Ok(_) => return Ok(()),
                Err(present) => full_at = present,
            }
        }
    }

    /// Takes tokens in any case, and returns the time at which the caller may use them.
    pub fn book(&self, pace: BucketRate, tokens: u64, now: u64) -> u64 {
        let span = pace.span_ns(tokens);
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let next = full_at.max(now).saturating_add(span);
            match self.swap(full_at, next) {
                Ok(_) => return full_at.saturating_sub(pace.depth_ns),
                Err(present) => full_at = present,
            }
        }
    }

    /// Returns unused tokens.
    pub fn refund(&self, pace: BucketRate, tokens: u64) {
        let span = pace.span_ns(tokens);
        let back = |full_at: u64| Some(full_at.saturating_sub(span));
        let _ = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, back);
    }

    /// Tokens in the bucket.
    pub fn held(&self, pace: BucketRate, now: u64) -> u64 {
        let missing = self.full_at.load(Ordering::Relaxed).saturating_sub(now);
        pace.tokens_in(pace.depth_ns.saturating_sub(missing))
    }

    /// Sets the tokens in the bucket, up to its capacity.
    pub fn set_held(&self, pace: BucketRate, tokens: u64, now: u64) {
        let missing = pace.depth_ns.saturating_sub(pace.holding(tokens).depth_ns);
        self.full_at.store(now.saturating_add(missing), Ordering::Relaxed);
    }

    fn swap(&self, present: u64, next: u64) -> Result<u64, u64> {
        self.full_at.compare_exchange_weak(present, next, Ordering::Relaxed, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn full_bucket_gives_its_depth_and_then_its_rate() {
        let (tokens, pace) = (TokenBucket::default(), BucketRate::new(10, SECOND_NS));
        let now = 100 * SECOND_NS;
        let at_once = (0..100).filter(|_| tokens.take(pace, 1, now).is_ok()).count();
        assert_eq!(at_once, 11, "ten that were saved up, and one in debt");
        assert_eq!(tokens.held(pace, now), 0);
        let due = tokens.take(pace, 1, now).unwrap_err();
        assert_eq!(due, now + SECOND_NS / 10);
        assert!(tokens.take(pace, 1, due).is_ok());
    }

    #[test]
    fn booked_tokens_are_due_in_booking_order() {
        let (tokens, pace) = (TokenBucket::default(), BucketRate::new(10, 0));
        let dues: Vec<u64> = (0..4).map(|_| tokens.book(pace, 2, SECOND_NS)).collect();
        let tenths: Vec<u64> = dues.iter().map(|due| due / (SECOND_NS / 10)).collect();
        assert_eq!(tenths, [0, 12, 14, 16]);
        tokens.refund(pace, 2);
        assert_eq!(tokens.book(pace, 2, SECOND_NS) / (SECOND_NS / 10), 16, "given back");
    }

    #[test]
    fn set_tokens_stay_up_to_the_capacity() {
        let (tokens, pace) = (TokenBucket::default(), BucketRate::new(100, 60 * SECOND_NS));
        assert_eq!(tokens.held(pace, 0), 6000);
        tokens.set_held(pace, 1234, 5 * SECOND_NS);
        assert_eq!(tokens.held(pace, 5 * SECOND_NS), 1234);
        assert_eq!(tokens.held(pace, 6 * SECOND_NS), 1334);
        tokens.set_held(pace, 99_999, 7 * SECOND_NS);
        assert_eq!(tokens.held(pace, 7 * SECOND_NS), pace.capacity());
    }

    #[test]
    fn threads_never_take_more_tokens_than_exist() {
        let (tokens, pace) = (TokenBucket::default(), BucketRate::new(1000, SECOND_NS));
        let now = 10 * SECOND_NS;
        let taken: usize = std::thread::scope(|scope| {
            let take = || (0..2000).filter(|_| tokens.take(pace, 1, now).is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 1001);
    }

    proptest! {
        #[test]
        fn tokens_over_any_time_are_bounded_by_rate_and_depth(
            per_second in 1u64..1_000_000,
            depth_ms in 0u64..500,
            steps in proptest::collection::vec((0u64..20_000_000, 1u64..4000), 1..200),
        ) {
            let pace = BucketRate::new(per_second, depth_ms * 1_000_000);
            let tokens = TokenBucket::default();
            let (mut now, mut given, mut last) = (SECOND_NS, 0, 0);
            for (step, wanted) in steps {
                now += step;
                if tokens.take(pace, wanted, now).is_ok() {
                    (given, last) = (given + wanted, wanted);
                }
            }
            let fair = pace.tokens_in(now - SECOND_NS + pace.depth_ns);
            // The last request may overdraw; rounding loses a nanosecond with each.
            prop_assert!(given - last <= fair + 201, "{given} of {fair}");
        }
    }
}
