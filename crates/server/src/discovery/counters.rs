//! Counters of received datagrams and metadata requests.

use ::discovery::{DatagramOutcome, SenderRefusal};
use std::sync::atomic::{AtomicU64, Ordering};

/// Protocols, as the label of the metric.
const PROTOCOLS: [&str; 3] = ["mdns", "wsd", "wsd_metadata"];
/// Outcomes, as the label of the metric.
const OUTCOMES: [&str; 7] =
    ["answered", "ignored", "malformed", "duplicate", "conflict", "off_link", "rate"];

/// A protocol of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryProtocol {
    /// Multicast DNS.
    Mdns,
    /// WS-Discovery over UDP.
    Wsd,
    /// Its metadata over HTTP.
    WsdMetadata,
}

/// Received messages by protocol and outcome.
#[derive(Debug, Default)]
pub struct DiscoveryCounters([[AtomicU64; OUTCOMES.len()]; PROTOCOLS.len()]);

impl DiscoveryCounters {
    /// Counts a handled message.
    pub fn count(&self, protocol: DiscoveryProtocol, outcome: DatagramOutcome) {
        let at = match outcome {
            DatagramOutcome::Answered => 0,
            DatagramOutcome::Ignored => 1,
            DatagramOutcome::Malformed => 2,
            DatagramOutcome::Duplicate => 3,
            DatagramOutcome::Conflict => 4,
        };
        self.add(protocol, at);
    }

    /// Counts a message that was dropped unread.
    pub fn refused(&self, protocol: DiscoveryProtocol, refusal: SenderRefusal) {
        let at = match refusal {
            SenderRefusal::OffLink => 5,
            SenderRefusal::Rate => 6,
        };
        self.add(protocol, at);
    }

    fn add(&self, protocol: DiscoveryProtocol, outcome: usize) {
        self.0[protocol as usize][outcome].fetch_add(1, Ordering::Relaxed);
    }

    /// Protocol, outcome and count of all.
    #[must_use]
    pub fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
        let rows = PROTOCOLS.iter().zip(&self.0);
        let of = |(protocol, counts): (&&'static str, &[AtomicU64; OUTCOMES.len()])| {
            let protocol: &'static str = protocol;
            let cells = OUTCOMES.iter().zip(counts);
            cells.map(|(name, count)| (protocol, *name, count.load(Ordering::Relaxed))).collect()
        };
        rows.map(of).collect::<Vec<Vec<_>>>().concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_appear_under_their_protocol_and_outcome() {
        let counters = DiscoveryCounters::default();
        counters.count(DiscoveryProtocol::Wsd, DatagramOutcome::Duplicate);
        counters.refused(DiscoveryProtocol::Mdns, SenderRefusal::Rate);
        let counted = counters.all().into_iter().filter(|(_, _, count)| *count > 0);
        let counted: Vec<_> = counted.collect();
        assert_eq!(counted, [("mdns", "rate", 1), ("wsd", "duplicate", 1)]);
    }
}
