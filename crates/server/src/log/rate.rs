//! Bounds the lines that clients can cause, by kind (the call site) and by the client's network.

use super::limits::{
    CONDITION_LINES_MAX, DEBUG_LINES_MAX, LINES_OF_KIND_MAX, LINES_OF_PEER_MAX, PERIOD,
};
use limits::site_of;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Instant;
use sync::Mutex;
use tracing::Level;

/// The kind of an event.
#[derive(Clone, Copy, Debug)]
pub struct EventKind<K> {
    /// The call site.
    pub site: K,
    /// Its level.
    pub level: Level,
    /// Whether its lines report a condition of the server, for which one line suffices.
    pub is_condition: bool,
}

impl<K> EventKind<K> {
    fn lines_max(&self) -> u32 {
        match self {
            Self { is_condition: true, .. } => CONDITION_LINES_MAX,
            Self { level, .. } if *level <= Level::INFO => LINES_OF_KIND_MAX,
            Self { .. } => DEBUG_LINES_MAX,
        }
    }
}

/// Lines written per kind. There are as many kinds as call sites.
#[derive(Debug)]
pub struct LineRates<K>(Mutex<HashMap<K, KindRate>>);

#[derive(Debug, Default)]
struct KindRate {
    since: Option<Instant>,
    lines: u32,
    suppressed: u64,
    /// At most `lines` entries, of the present period only.
    peers: HashMap<IpAddr, u32>,
}

impl<K: Hash + Eq> LineRates<K> {
    /// No line has been written.
    #[must_use]
    pub fn new() -> Self {
        Self(Mutex::default())
    }

    /// Whether a line of this kind may be written now; counts it as suppressed if not. This is the
    /// only cost of a suppressed event.
    #[must_use]
    pub fn has_room(&self, kind: EventKind<K>, now: Instant) -> bool {
        let max = kind.lines_max();
        self.with(kind.site, now, |rate| {
            let has_room = rate.lines < max;
            rate.suppressed += u64::from(!has_room);
            has_room
        })
    }

    /// Counts a line about `peer`. Returns `None` to suppress it, else the number of suppressed
    /// lines of its kind since the last one.
    #[must_use]
    pub fn admit(&self, kind: EventKind<K>, peer: Option<IpAddr>, now: Instant) -> Option<u64> {
        let (max, is_bounded_by_peer) = (kind.lines_max(), kind.level <= Level::INFO);
        self.with(kind.site, now, |rate| {
            let of_peer = match peer.filter(|_| is_bounded_by_peer) {
                Some(peer) => rate.peers.get(&site_of(peer)).copied().unwrap_or_default(),
                None => 0,
            };
            if rate.lines >= max || of_peer >= LINES_OF_PEER_MAX {
                rate.suppressed += 1;
                return None;
            }
            rate.lines += 1;
            if let Some(peer) = peer.filter(|_| is_bounded_by_peer) {
                *rate.peers.entry(site_of(peer)).or_default() += 1;
            }
            Some(std::mem::take(&mut rate.suppressed))
        })
    }

    fn with<T>(&self, site: K, now: Instant, f: impl FnOnce(&mut KindRate) -> T) -> T {
        let mut kinds = self.0.lock();
        let rate = kinds.entry(site).or_default();
        if rate.since.is_none_or(|since| now.duration_since(since) >= PERIOD) {
            (rate.since, rate.lines) = (Some(now), 0);
            rate.peers.clear();
        }
        f(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const KIND: EventKind<u8> = EventKind { site: 1, level: Level::WARN, is_condition: false };

    fn admit(rates: &LineRates<u8>, at: u8, now: Instant) -> Option<u64> {
        rates.admit(KIND, Some([192, 0, 2, at].into()), now)
    }

    #[test]
    fn flooded_kind_is_suppressed_and_its_count_follows() {
        let (rates, start) = (LineRates::new(), Instant::now());
        for _ in 0..LINES_OF_KIND_MAX {
            assert_eq!(rates.admit(KIND, None, start), Some(0));
        }
        let last = start + PERIOD - Duration::from_millis(1);
        assert_eq!(rates.admit(KIND, None, last), None);
        assert!(!rates.has_room(KIND, last));
        let other = EventKind { site: 2, ..KIND };
        assert_eq!(rates.admit(other, None, last), Some(0), "another kind");
        assert!(rates.has_room(KIND, start + PERIOD));
        assert_eq!(rates.admit(KIND, None, start + PERIOD), Some(2));
        assert_eq!(rates.admit(KIND, None, start + PERIOD), Some(0));
    }

    #[test]
    fn flooding_client_does_not_hide_others() {
        let (rates, now) = (LineRates::new(), Instant::now());
        let written = (0..1000).filter(|_| admit(&rates, 1, now).is_some()).count();
        assert_eq!(written, LINES_OF_PEER_MAX as usize);
        assert_eq!(admit(&rates, 2, now), Some(1000 - written as u64));
    }

    #[test]
    fn client_with_many_ipv6_addresses_is_one() {
        let (rates, now) = (LineRates::new(), Instant::now());
        let from = |host: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 1, host, 0, 0, 1]));
        let written = (0..1000).filter(|at| rates.admit(KIND, from(*at), now).is_some()).count();
        assert_eq!(written, LINES_OF_PEER_MAX as usize);
    }

    #[test]
    fn peers_are_bounded() {
        let (rates, now) = (LineRates::new(), Instant::now());
        for at in 0..10_000_u32 {
            let _ = rates.admit(KIND, Some(at.to_be_bytes().into()), now);
        }
        let peers = rates.with(KIND.site, now, |rate| rate.peers.len());
        assert_eq!(peers, LINES_OF_KIND_MAX as usize);
        assert_eq!(rates.with(KIND.site, now + PERIOD, |rate| rate.peers.len()), 0);
    }
}
