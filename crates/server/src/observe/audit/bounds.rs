//! Bounds of the events that clients cause in the audit log.
//!
//! Three levels count each source: its address (IPv6: /64), its /24 (/48) and its /16 (/32). Each
//! level bounds the levels below it. If a level has no room for another network, all further
//! networks of one parent share one account. So a client cannot use up the share of a network that
//! it is not in. Each widest network may have as much as would remain free of the total.

use limits::site_of;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Period of the bounds below.
pub const PERIOD: Duration = Duration::from_secs(60);
/// Events of all sources in a period: about 32 MiB.
pub const EVENTS_TOTAL_MAX: u32 = 65_536;
/// Minimum interval between two removals of outdated accounts.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Prefix lengths of one level, and the bounds of one network per period.
struct Level {
    v4_bits: u32,
    v6_bits: u32,
    accounts_max: usize,
    refusals_max: u32,
    events_max: u32,
}

/// The levels, from a source to the widest network around it.
const LEVELS: [Level; 3] = [
    Level { v4_bits: 32, v6_bits: 64, accounts_max: 4096, refusals_max: 30, events_max: 600 },
    Level { v4_bits: 24, v6_bits: 48, accounts_max: 1024, refusals_max: 240, events_max: 4800 },
    Level {
        v4_bits: 16,
        v6_bits: 32,
        accounts_max: 1024,
        refusals_max: 1920,
        events_max: EVENTS_TOTAL_MAX,
    },
];

/// Level and network of an account. As a key in a narrower level it stands for the remaining
/// networks of that network.
type AccountKey = (usize, IpAddr);

/// The account for all remaining sources.
const ALL: AccountKey = (LEVELS.len(), IpAddr::V4(Ipv4Addr::UNSPECIFIED));

/// Events of one network in the present period.
#[derive(Clone, Copy, Debug, Default)]
struct NetworkEvents {
    since: Option<Instant>,
    refusals: u32,
    events: u32,
    suppressed: u64,
}

impl NetworkEvents {
    fn is_present(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.duration_since(since) < PERIOD)
    }

    /// The account at `now`: starts a new period if the old one has ended.
    fn at(self, now: Instant) -> Self {
        match self.is_present(now) {
            true => self,
            false => Self { since: Some(now), suppressed: self.suppressed, ..Self::default() },
        }
    }

    fn count(&mut self, is_refusal: bool) {
        match is_refusal {
            true => self.refusals += 1,
            false => self.events += 1,
        }
    }

    fn written(&self) -> u32 {
        self.refusals + self.events
    }
}

/// Accounts of all sources and of the networks around them.
#[derive(Debug, Default)]
pub struct AuditBounds {
    levels: [HashMap<AccountKey, NetworkEvents>; LEVELS.len()],
    total: NetworkEvents,
    swept: Option<Instant>,
}

impl AuditBounds {
    /// Returns `None` to leave an event of `source` out, else the number of its events that were
    /// left out since the last.
    pub fn admit(&mut self, source: IpAddr, is_refusal: bool, now: Instant) -> Option<u64> {
        let keys = self.keys(source, now);
        let find = |level: usize| {
            self.levels[level].get(&keys[level]).copied().unwrap_or_default().at(now)
        };
        let mut accounts: [NetworkEvents; LEVELS.len()] = std::array::from_fn(find);
        let mut total = self.total.at(now);
        let is_within = accounts.iter().zip(&LEVELS).all(|(account, level)| match is_refusal {
            true => account.refusals < level.refusals_max,
            false => account.events < level.events_max,
        });
        let widest = accounts[LEVELS.len() - 1].written();
        let is_free = widest < EVENTS_TOTAL_MAX.saturating_sub(total.written());
        let mut suppressed = None;
        if is_within && is_free {
            accounts.iter_mut().chain([&mut total]).for_each(|account| account.count(is_refusal));
            suppressed = Some(std::mem::take(&mut accounts[0].suppressed));
        } else {
            accounts[0].suppressed += 1;
        }
        self.total = total;
        for ((level, key), account) in self.levels.iter_mut().zip(keys).zip(accounts) {
            level.insert(key, account);
        }
        suppressed
    }

    /// The account key of `source` in each level.
    fn keys(&mut self, source: IpAddr, now: Instant) -> [AccountKey; LEVELS.len()] {
        let mut keys = [ALL; LEVELS.len()];
        let mut around = ALL;
        for level in (0..LEVELS.len()).rev() {
            let own = (level, network_of(source, &LEVELS[level]));
            if self.has_room(level, &own, now) {
                around = own;
            }
            keys[level] = around;
        }
        keys
    }

    fn has_room(&mut self, level: usize, own: &AccountKey, now: Instant) -> bool {
        let has_room = |accounts: &HashMap<AccountKey, NetworkEvents>| {
            accounts.len() < LEVELS[level].accounts_max || accounts.contains_key(own)
        };
        if !has_room(&self.levels[level])
            && self.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEP_EVERY)
        {
            self.swept = Some(now);
            // The sum of all omitted events is counted elsewhere.
            let accounts = self.levels.iter_mut();
            accounts.for_each(|level| level.retain(|_, account| account.is_present(now)));
        }
        has_room(&self.levels[level])
    }
}

/// The first address of the network of `address`.
fn network_of(address: IpAddr, level: &Level) -> IpAddr {
    match site_of(address) {
        IpAddr::V4(v4) => {
            let mask = u32::MAX << (Ipv4Addr::BITS - level.v4_bits);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX << (Ipv6Addr::BITS - level.v6_bits);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &Level = &LEVELS[0];

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Number of logged events if each of `sources` causes `each` events.
    fn written(
        bounds: &mut AuditBounds,
        sources: impl Iterator<Item = IpAddr>,
        (each, is_refusal): (u32, bool),
        now: Instant,
    ) -> usize {
        let events = sources.flat_map(|source| (0..each).map(move |_| source));
        events.filter(|source| bounds.admit(*source, is_refusal, now).is_some()).count()
    }

    /// An address in the `number`th /64 from 2001:db8:7:: on; the /64s after 2001:db8:7::/48 lie in
    /// further /48s.
    fn site(number: u32) -> IpAddr {
        let first = 0x2001_0DB8_0007_u128 << 80;
        Ipv6Addr::from_bits(first + (u128::from(number) << 64) + 5).into()
    }

    #[test]
    fn ipv6_network_counts_as_one_source() {
        let (mut bounds, now) = (AuditBounds::default(), Instant::now());
        let addresses = (1..=200).map(|i| at(&format!("2001:db8:1:2::{i:x}")));
        assert_eq!(written(&mut bounds, addresses, (5, true), now), 30);
        let mapped = ["192.0.2.1", "::ffff:192.0.2.1"].map(at);
        assert_eq!(written(&mut bounds, mapped.into_iter(), (20, true), now), 30);
    }

    #[test]
    fn sources_of_one_network_share_one_bound() {
        let (mut bounds, now) = (AuditBounds::default(), Instant::now());
        let taken = written(&mut bounds, (0..60_000).map(site), (1, true), now);
        assert_eq!(taken, 240, "a /48 is a network");
        let others = ["192.0.2.1", "2001:db8:8::1", "2001:db9::1"].map(at);
        for other in others {
            let one = std::iter::once(other);
            assert_eq!(written(&mut bounds, one, (40, true), now), 30, "{other}");
        }
    }

    #[test]
    fn rest_of_one_network_is_not_that_of_another() {
        let (mut bounds, now) = (AuditBounds::default(), Instant::now());
        // Fills the narrowest level with sources in separate networks.
        let sources = (0..SITE.accounts_max as u32).map(|i| site(i << 13));
        written(&mut bounds, sources, (1, false), now);
        let rest = (0..2000).map(|i| site(i << 4 | 1));
        assert!(written(&mut bounds, rest, (1, true), now) <= 240);
        for other in ["192.0.2.1", "198.51.100.7"].map(at) {
            let one = std::iter::once(other);
            assert_eq!(written(&mut bounds, one, (40, true), now), 30, "{other}");
        }
        let sizes = bounds.levels.each_ref().map(HashMap::len);
        assert!(sizes.iter().all(|size| *size <= SITE.accounts_max + 1025), "{sizes:?}");
    }

    #[test]
    fn total_is_bounded_and_one_wide_network_gets_half() {
        let (mut bounds, now) = (AuditBounds::default(), Instant::now());
        let in_network =
            |second: u8| (0..=255).map(move |third| IpAddr::from([10, second, third, 1]));
        let half = EVENTS_TOTAL_MAX as usize / 2;
        assert_eq!(written(&mut bounds, in_network(0), (600, false), now), half);
        assert_eq!(written(&mut bounds, in_network(1), (600, false), now), half / 2);
        let many = (2..200).flat_map(in_network);
        written(&mut bounds, many, (20, false), now);
        assert!(bounds.total.written() <= EVENTS_TOTAL_MAX);
        let later = now + PERIOD;
        assert_eq!(bounds.admit(at("10.0.0.1"), true, later), Some(0), "the next period");
    }

    #[test]
    fn written_event_includes_the_count_of_omitted_ones() {
        let (mut bounds, now) = (AuditBounds::default(), Instant::now());
        let source = at("192.0.2.1");
        assert_eq!(written(&mut bounds, std::iter::repeat_n(source, 42), (1, true), now), 30);
        assert_eq!(bounds.admit(source, false, now), Some(12));
        assert_eq!(bounds.admit(source, true, now + PERIOD), Some(0));
    }

    #[test]
    fn sources_of_an_expired_period_are_evicted() {
        let (mut bounds, now) = (AuditBounds::default(), Instant::now());
        written(&mut bounds, (0..10_000).map(|i: u32| i.to_be_bytes().into()), (1, true), now);
        let later = now + PERIOD;
        bounds.admit(at("9.9.9.9"), true, later);
        assert_eq!(bounds.levels.each_ref().map(HashMap::len), [1, 1, 1]);
    }
}
