//! [`SenderGate`]: admits datagrams of senders on the link, within their rate.

use crate::limits::{ALL_BURST, ALL_PER_SECOND, SENDER_BUCKETS, SENDER_BURST, SENDER_PER_SECOND};
use crate::subnet::Subnet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::time::Instant;

/// Why a datagram is dropped unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderRefusal {
    /// The source address is in no network of the interface: an answer would leave the link.
    OffLink,
    /// The sender, or all senders together, exceed the rate.
    Rate,
}

/// Admits datagrams by their source address.
///
/// The buckets are a table of constant size, indexed by a keyed hash of the address: senders with
/// forged addresses cannot let it grow, and cannot choose to share a victim's bucket.
#[derive(Debug)]
pub struct SenderGate {
    subnets: Vec<Subnet>,
    keys: RandomState,
    senders: Vec<Bucket>,
    all: Bucket,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    filled: Option<Instant>,
}

impl Bucket {
    fn take(&mut self, now: Instant, burst: u32, per_second: u32) -> bool {
        let burst = f64::from(burst);
        self.tokens = match self.filled {
            None => burst,
            Some(filled) => {
                let passed = now.saturating_duration_since(filled).as_secs_f64();
                burst.min(self.tokens + passed * f64::from(per_second))
            }
        };
        self.filled = Some(now);
        let has_token = self.tokens >= 1.0;
        if has_token {
            self.tokens -= 1.0;
        }
        has_token
    }
}

impl SenderGate {
    /// A gate for an interface with these networks.
    #[must_use]
    pub fn new(subnets: Vec<Subnet>) -> Self {
        let empty = Bucket { tokens: 0.0, filled: None };
        Self { subnets, keys: RandomState::new(), senders: vec![empty; SENDER_BUCKETS], all: empty }
    }

    /// Replaces the networks.
    pub fn set_subnets(&mut self, subnets: Vec<Subnet>) {
        self.subnets = subnets;
    }

    /// Whether the address is one of the interface's own.
    #[must_use]
    pub fn is_own(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.subnets.iter().any(|subnet| subnet.address == address)
    }

    /// Whether the address is in a network of the interface.
    #[must_use]
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.contains(address))
    }

    /// Admits one datagram.
    ///
    /// # Errors
    /// [`SenderRefusal`]: drop it without an answer.
    pub fn admit(&mut self, address: IpAddr, now: Instant) -> Result<(), SenderRefusal> {
        if !self.is_on_link(address) {
            return Err(SenderRefusal::OffLink);
        }
        let mut hasher = self.keys.build_hasher();
        match address.to_canonical() {
            IpAddr::V4(v4) => hasher.write_u32(v4.to_bits()),
            IpAddr::V6(v6) => hasher.write_u128(v6.to_bits()),
        }
        let at = (hasher.finish() % SENDER_BUCKETS as u64) as usize;
        let is_within = self.senders[at].take(now, SENDER_BURST, SENDER_PER_SECOND)
            // A sender above its own rate must not use up the rate of the others.
            && self.all.take(now, ALL_BURST, ALL_PER_SECOND);
        if is_within { Ok(()) } else { Err(SenderRefusal::Rate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    fn gate() -> SenderGate {
        SenderGate::new(vec![Subnet { address: Ipv4Addr::new(10, 0, 0, 1).into(), prefix_bits: 8 }])
    }

    #[test]
    fn sender_of_another_network_is_refused() {
        let (mut gate, now) = (gate(), Instant::now());
        assert_eq!(gate.admit([192, 0, 2, 1].into(), now), Err(SenderRefusal::OffLink));
        assert_eq!(gate.admit([10, 0, 0, 2].into(), now), Ok(()));
        assert!(gate.is_own([10, 0, 0, 1].into()) && !gate.is_own([10, 0, 0, 2].into()));
    }

    #[test]
    fn flooding_sender_is_limited_and_others_are_not() {
        let (mut gate, now) = (gate(), Instant::now());
        let admitted = |gate: &mut SenderGate, at| {
            (0..1000).filter(|_| gate.admit([10, 0, 0, 2].into(), at).is_ok()).count()
        };
        assert_eq!(admitted(&mut gate, now), SENDER_BURST as usize);
        assert_eq!(gate.admit([10, 0, 0, 3].into(), now), Ok(()));
        let later = now + Duration::from_secs(1);
        assert_eq!(admitted(&mut gate, later), SENDER_PER_SECOND as usize);
    }

    #[test]
    fn forged_addresses_share_the_rate_of_all_senders() {
        let (mut gate, now) = (gate(), Instant::now());
        let forged = (0..100_000u32).map(|n| Ipv4Addr::from_bits(0x0A00_0002 + n));
        let admitted = forged.filter(|address| gate.admit((*address).into(), now).is_ok()).count();
        assert_eq!(admitted, ALL_BURST as usize);
        let later = now + Duration::from_secs(1);
        assert_eq!(gate.admit([10, 9, 9, 9].into(), later), Ok(()));
    }
}
