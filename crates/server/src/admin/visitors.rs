//! The bounded set of admin connections, and the choice which one yields to a new one.
//!
//! Every client that reaches the address may connect. If there are too many, the oldest connection
//! without a valid token ends, so that silent ones lock no one out. Connections with the metrics
//! token have few slots and displace each other, so that a collector never locks out an
//! administrator.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use sync::Mutex;
use tokio::sync::Notify;

/// Authorisation that a connection has proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// No token yet.
    Nothing = 0,
    /// The metrics token, or only metrics were requested.
    Metrics = 1,
    /// The admin token.
    Administrator = 2,
}

/// All connections of one socket.
#[derive(Debug)]
pub struct Visitors {
    max: usize,
    /// Limit of connections for metrics.
    metrics_max: usize,
    next: AtomicU64,
    table: Mutex<BTreeMap<u64, Arc<Visitor>>>,
    left: Notify,
}

/// One connection.
#[derive(Debug)]
pub struct Visitor {
    visitors: Weak<Visitors>,
    /// A [`Proof`].
    proof: AtomicU8,
    leaves: Notify,
}

/// The slot of a connection; released on drop.
#[derive(Debug)]
pub struct VisitorPlace {
    visitors: Arc<Visitors>,
    number: u64,
    visitor: Arc<Visitor>,
}

impl Visitor {
    /// Records the proven authorisation. Connections for metrics displace each other beyond their
    /// limit.
    pub fn prove(&self, proof: Proof) {
        let before = self.proof.fetch_max(proof as u8, Ordering::Relaxed);
        if before < proof as u8
            && proof == Proof::Metrics
            && let Some(visitors) = self.visitors.upgrade()
        {
            visitors.bound_metrics();
        }
    }

    fn has(&self, proof: Proof) -> bool {
        self.proof.load(Ordering::Relaxed) == proof as u8
    }
}

impl Visitors {
    /// At most `max` connections, `metrics_max` of them for metrics.
    #[must_use]
    pub fn new(max: usize, metrics_max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            metrics_max,
            next: AtomicU64::new(0),
            table: Mutex::default(),
            left: Notify::new(),
        })
    }

    /// Takes a slot for a new connection. Waits only while all present connections have shown a
    /// token.
    pub async fn enter(self: &Arc<Self>) -> VisitorPlace {
        loop {
            // The task registers before it checks, so that it misses no end in between.
            let left = self.left.notified();
            if let Some(place) = self.try_enter() {
                return place;
            }
            left.await;
        }
    }

    fn try_enter(self: &Arc<Self>) -> Option<VisitorPlace> {
        let mut table = self.table.lock();
        if table.len() >= self.max {
            end_oldest(&mut table, Proof::Nothing)?;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let visitor = Arc::new(Visitor {
            visitors: Arc::downgrade(self),
            proof: AtomicU8::new(Proof::Nothing as u8),
            leaves: Notify::new(),
        });
        table.insert(number, visitor.clone());
        Some(VisitorPlace { visitors: self.clone(), number, visitor })
    }

    /// Enforces the limit of connections for metrics.
    fn bound_metrics(&self) {
        let mut table = self.table.lock();
        let count = table.values().filter(|one| one.has(Proof::Metrics)).count();
        if count > self.metrics_max {
            end_oldest(&mut table, Proof::Metrics);
            self.left.notify_one();
        }
    }
}

/// Ends the oldest connection with exactly this proof, if there is one.
fn end_oldest(table: &mut BTreeMap<u64, Arc<Visitor>>, proof: Proof) -> Option<()> {
    let oldest = table.iter().find(|(_, one)| one.has(proof)).map(|(number, _)| *number)?;
    table.remove(&oldest)?.leaves.notify_one();
    Some(())
}

impl VisitorPlace {
    /// The connection of the slot.
    #[must_use]
    pub fn visitor(&self) -> &Arc<Visitor> {
        &self.visitor
    }

    /// Returns once the connection must yield its slot. Cancel safe.
    pub async fn taken(&self) {
        self.visitor.leaves.notified().await;
    }
}

impl Drop for VisitorPlace {
    fn drop(&mut self) {
        self.visitors.table.lock().remove(&self.number);
        self.visitors.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn oldest_silent_connection_makes_room_and_proven_ones_stay() {
        let visitors = Visitors::new(3, 3);
        let enter = || visitors.enter().now_or_never();
        let places: Vec<VisitorPlace> = (0..3).map_while(|_| enter()).collect();
        places[0].visitor().prove(Proof::Administrator);
        let late = enter().expect("the second makes room");
        let taken: Vec<bool> = places.iter().map(|p| p.taken().now_or_never().is_some()).collect();
        assert_eq!(taken, [false, true, false]);
        places[2].visitor().prove(Proof::Administrator);
        late.visitor().prove(Proof::Administrator);
        assert!(enter().is_none(), "all have shown a token");
        drop(late);
        assert!(enter().is_some());
        drop(places);
        assert!(visitors.table.lock().is_empty());
    }

    #[test]
    fn connections_for_metrics_leave_places_to_administrators() {
        let visitors = Visitors::new(4, 2);
        let enter = || visitors.enter().now_or_never().expect("there is a place");
        let places: Vec<VisitorPlace> = (0..20)
            .map(|_| enter())
            .inspect(|place| place.visitor().prove(Proof::Metrics))
            .collect();
        let are_left = |range: std::ops::Range<usize>| {
            places[range].iter().all(|place| place.taken().now_or_never().is_none())
        };
        assert!(are_left(18..20), "the last two");
        assert_eq!(visitors.table.lock().len(), 2);
        let administrators = [enter(), enter()];
        administrators.iter().for_each(|place| place.visitor().prove(Proof::Administrator));
        administrators[0].visitor().prove(Proof::Metrics);
        assert!(administrators.iter().all(|place| place.taken().now_or_never().is_none()));
        assert!(are_left(18..20) && visitors.enter().now_or_never().is_none());
    }
}
