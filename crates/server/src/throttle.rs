//! Failed logons: each one from an address makes the next answer come later.

use crate::limits::THROTTLED_ADDRESSES_MAX;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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
        let address = network_of(address);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= THROTTLED_ADDRESSES_MAX && !failures.contains_key(&address) {
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
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&network_of(address));
    }

    /// How long the answer to a failure is held back.
    pub fn delay(&self, address: IpAddr) -> Duration {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures
            .get(&network_of(address))
            .map_or(0, |(count, _)| *count)
            .saturating_sub(FREE_FAILURES);
        if count == 0 {
            return Duration::ZERO;
        }
        DELAY_MIN.saturating_mul(1 << (count - 1).min(16)).min(DELAY_MAX)
    }
}

/// Whoever has one address of IPv6 has the other 2^64 of its network too.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_none() => {
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)))
        }
        other => other.to_canonical(),
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

    #[test]
    fn addresses_of_one_ipv6_network_share_their_failures_and_others_do_not() {
        let throttle = Throttle::default();
        let now = Instant::now();
        for host in 1..=3u16 {
            throttle.failed(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, host]), now);
        }
        assert_eq!(throttle.delay(IpAddr::from([0x2001, 0xdb8, 0, 1, 9, 9, 9, 9])), DELAY_MIN);
        assert_eq!(throttle.delay(IpAddr::from([0x2001, 0xdb8, 0, 2, 0, 0, 0, 1])), Duration::ZERO);
        throttle.failed("::ffff:192.0.2.1".parse().unwrap(), now);
        assert_eq!(throttle.failures.lock().unwrap().len(), 2);
        assert!(throttle.failures.lock().unwrap().contains_key(&IpAddr::from([192, 0, 2, 1])));
    }

    #[test]
    fn the_address_that_failed_longest_ago_makes_room() {
        let throttle = Throttle::default();
        let now = Instant::now();
        let address = |n: usize| IpAddr::from(u32::try_from(n).unwrap().to_be_bytes());
        for n in 0..=THROTTLED_ADDRESSES_MAX {
            throttle.failed(address(n), now + Duration::from_millis(n as u64));
        }
        let failures = throttle.failures.lock().unwrap();
        assert_eq!(failures.len(), THROTTLED_ADDRESSES_MAX);
        assert!(!failures.contains_key(&address(0)) && failures.contains_key(&address(1)));
    }
}
