//! Failed logons: each one from an address makes the next answer come later.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Addresses remembered at once; the one that failed longest ago makes room.
const ADDRESSES_MAX: usize = 10_000;
/// Failures that cost nothing: a person mistypes.
const FREE_FAILURES: u32 = 2;
const DELAY_MIN: Duration = Duration::from_millis(50);
const DELAY_MAX: Duration = Duration::from_secs(5);
/// After this long without a failure an address starts anew.
const FORGET_AFTER: Duration = Duration::from_mins(10);

/// Failures by address.
#[derive(Debug, Default)]
pub struct Throttle {
    failures: Mutex<HashMap<IpAddr, (u32, Instant)>>,
}

impl Throttle {
    /// Counts a failure.
    pub fn failed(&self, address: IpAddr, now: Instant) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= ADDRESSES_MAX && !failures.contains_key(&address) {
            let oldest = failures.iter().min_by_key(|(_, (_, at))| *at).map(|(a, _)| *a);
            oldest.map(|a| failures.remove(&a));
        }
        let entry = failures.entry(address).or_insert((0, now));
        if now.duration_since(entry.1) > FORGET_AFTER {
            entry.0 = 0;
        }
        *entry = (entry.0.saturating_add(1), now);
    }

    /// Forgets an address: someone there knows a password.
    pub fn succeeded(&self, address: IpAddr) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
    }

    /// How long the answer to a failure is held back.
    pub fn delay(&self, address: IpAddr) -> Duration {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count =
            failures.get(&address).map_or(0, |(count, _)| *count).saturating_sub(FREE_FAILURES);
        if count == 0 {
            return Duration::ZERO;
        }
        DELAY_MIN.saturating_mul(1 << (count - 1).min(16)).min(DELAY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_to_its_limit_and_ends_with_a_success() {
        let throttle = Throttle::default();
        let (address, now) = (IpAddr::from([192, 0, 2, 1]), Instant::now());
        let mut delays = Vec::new();
        for _ in 0..20 {
            throttle.failed(address, now);
            delays.push(throttle.delay(address));
        }
        assert_eq!(delays[1], Duration::ZERO);
        assert_eq!(delays[2], DELAY_MIN);
        assert!(delays.windows(2).all(|w| w[0] <= w[1]));
        assert_eq!(delays[19], DELAY_MAX);
        throttle.succeeded(address);
        assert_eq!(throttle.delay(address), Duration::ZERO);
    }
}
