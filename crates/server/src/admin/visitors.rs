//! The few connections that the admin API has at once, and which of them makes room for a new one.
//!
//! Everybody who reaches the address may connect. The oldest connection that has shown no token
//! yet ends when there are too many, so who opens them and stays silent keeps nobody out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// All connections of one socket.
#[derive(Debug)]
pub struct Visitors {
    max: usize,
    next: AtomicU64,
    table: Mutex<BTreeMap<u64, Arc<Visitor>>>,
    left: Notify,
}

/// One connection.
#[derive(Debug, Default)]
pub struct Visitor {
    is_proven: AtomicBool,
    leaves: Notify,
}

/// A connection's place among them; given back when dropped.
#[derive(Debug)]
pub struct VisitorPlace {
    visitors: Arc<Visitors>,
    number: u64,
    visitor: Arc<Visitor>,
}

impl Visitor {
    /// It has shown a token: it makes room for nobody.
    pub fn prove(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }
}

impl Visitors {
    /// At most `max` at once.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            next: AtomicU64::new(0),
            table: Mutex::default(),
            left: Notify::new(),
        })
    }

    /// A place for a new connection. Waits only while all that are there have shown a token.
    pub async fn enter(self: &Arc<Self>) -> VisitorPlace {
        loop {
            // Asked for before the look, so that no end in between is missed.
            let left = self.left.notified();
            if let Some(place) = self.try_enter() {
                return place;
            }
            left.await;
        }
    }

    fn try_enter(self: &Arc<Self>) -> Option<VisitorPlace> {
        let mut table = self.lock();
        if table.len() >= self.max {
            let unproven =
                |(_, one): &(&u64, &Arc<Visitor>)| !one.is_proven.load(Ordering::Relaxed);
            let oldest = table.iter().find(unproven).map(|(number, _)| *number)?;
            table.remove(&oldest)?.leaves.notify_one();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let visitor = Arc::<Visitor>::default();
        table.insert(number, visitor.clone());
        Some(VisitorPlace { visitors: self.clone(), number, visitor })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Visitor>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VisitorPlace {
    /// Whose place it is.
    #[must_use]
    pub fn visitor(&self) -> &Arc<Visitor> {
        &self.visitor
    }

    /// Returns once the connection has to make room. May be dropped at any time.
    pub async fn taken(&self) {
        self.visitor.leaves.notified().await;
    }
}

impl Drop for VisitorPlace {
    fn drop(&mut self) {
        self.visitors.lock().remove(&self.number);
        self.visitors.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn oldest_silent_connection_makes_room_and_proven_ones_stay() {
        let visitors = Visitors::new(3);
        let enter = || visitors.enter().now_or_never();
        let places: Vec<VisitorPlace> = (0..3).map_while(|_| enter()).collect();
        places[0].visitor().prove();
        let late = enter().expect("the second makes room");
        let taken: Vec<bool> = places.iter().map(|p| p.taken().now_or_never().is_some()).collect();
        assert_eq!(taken, [false, true, false]);
        places[2].visitor().prove();
        late.visitor().prove();
        assert!(enter().is_none(), "all have shown a token");
        drop(late);
        assert!(enter().is_some());
        drop(places);
        assert!(visitors.lock().is_empty());
    }
}
