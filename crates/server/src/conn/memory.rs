//! Memory of requests in flight: partly received requests, running requests, and replies that are
//! being built or that the client has not taken yet.
//!
//! The memory is charged before use, to the logged-on user or to the client's address. A holder at
//! its limit waits: its connections neither receive nor start requests until some memory is free.
//! Each connection has a small free allowance, so that small requests need no ledger access.

use crate::limits::MEMORY_FREE_BYTES;
use limits::{Ledger, LedgerAccount, LedgerHolder, ResourceCharge};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Interval after which a waiting connection tries again: the holder's limit also grows when other
/// holders release memory.
const LOOK_AGAIN_EVERY: Duration = Duration::from_millis(250);

/// The memory pool for requests in flight.
#[derive(Debug)]
pub struct Memory {
    ledger: Arc<Ledger>,
    /// Signals that memory was released.
    freed: Notify,
}

impl Memory {
    /// A pool of `max_bytes`, in which each holder may have `floor_bytes` while any are free.
    #[must_use]
    pub fn new(max_bytes: u64, floor_bytes: u64) -> Arc<Self> {
        Arc::new(Self { ledger: Ledger::new(max_bytes, floor_bytes), freed: Notify::new() })
    }

    /// The ledger of the holders.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }
}

/// The part of the pool that one connection has.
#[derive(Debug)]
pub struct MemoryLease {
    memory: Arc<Memory>,
    share: ResourceCharge,
    /// A request was refused since memory was last granted.
    waits: bool,
}

impl MemoryLease {
    /// An empty lease, charged to `holder`.
    #[must_use]
    pub fn new(memory: &Arc<Memory>, holder: &LedgerHolder) -> Self {
        let share = memory.ledger.account(holder).force(0);
        Self { memory: memory.clone(), share, waits: false }
    }

    /// Charges the lease to `holder` from now on.
    pub fn charge(&mut self, holder: &LedgerHolder) {
        let account: Arc<LedgerAccount> = self.memory.ledger.account(holder);
        if !Arc::ptr_eq(&account, self.share.account()) {
            self.share.move_to(&account);
        }
    }

    /// Grows the lease to `bytes`; returns false if the connection must wait.
    pub fn covers(&mut self, bytes: usize) -> bool {
        let wanted = charged(bytes);
        if wanted <= self.share.amount() {
            return true;
        }
        let is_first = !self.waits;
        self.waits = if is_first {
            self.share.try_resize(wanted).is_err()
        } else {
            // Retries of one wait count as one refusal.
            self.share.retry_resize(wanted).is_err()
        };
        if !is_first && !self.waits {
            // Another waiting connection may have room now, too.
            self.memory.freed.notify_one();
        }
        !self.waits
    }

    /// Grows the lease by `bytes`; returns false without waiting if that is not possible.
    pub fn covers_more(&mut self, bytes: usize) -> bool {
        let wanted = self.share.amount() + bytes as u64;
        self.share.retry_resize(wanted).is_ok()
    }

    /// Grows the lease to `bytes` beyond any limit. An admitted request must finish, so that no
    /// connection holds memory while it waits for more.
    pub fn force(&mut self, bytes: usize) {
        let wanted = charged(bytes);
        if wanted > self.share.amount() {
            self.share.resize(wanted);
        }
    }

    /// Shrinks the lease to `bytes` and releases the rest.
    pub fn settle(&mut self, bytes: usize) {
        let needed = charged(bytes);
        if needed < self.share.amount() {
            self.share.resize(needed);
            self.memory.freed.notify_one();
        }
    }

    /// Returns when another attempt is worthwhile. Cancel safe.
    pub fn freed(&self) -> impl Future<Output = ()> + Send + use<> {
        let memory = self.memory.clone();
        async move {
            tokio::select! {
                () = memory.freed.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN_EVERY) => {}
            }
        }
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.settle(0);
    }
}

fn charged(bytes: usize) -> u64 {
    bytes.saturating_sub(MEMORY_FREE_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const MIB: usize = 1 << 20;

    fn lease(memory: &Arc<Memory>, user: &str) -> MemoryLease {
        MemoryLease::new(memory, &LedgerHolder::User(user.into()))
    }

    #[test]
    fn connections_of_one_user_share_one_memory_bound() {
        let memory = Memory::new(16 << 20, 0);
        let mut hoard: Vec<MemoryLease> = (0..20).map(|_| lease(&memory, "hoarder")).collect();
        let covered = hoard.iter_mut().filter_map(|one| one.covers(MIB).then_some(())).count();
        assert_eq!(covered, 8, "each MiB but for what every connection has beside");
        let mut other = lease(&memory, "other");
        assert!(other.covers(3 * MIB));
        assert_eq!(memory.ledger().usage().refused, 12);
        assert!(!hoard[19].covers(MIB));
        assert_eq!(memory.ledger().usage().refused, 12, "it waits already");
        drop(other);
        hoard.truncate(4);
        assert_eq!(memory.ledger().usage().used, 4 * charged(MIB));
    }

    #[tokio::test]
    async fn released_memory_wakes_a_waiting_connection() {
        let memory = Memory::new(4 << 20, 0);
        let (mut first, mut second) = (lease(&memory, "a"), lease(&memory, "a"));
        assert!(first.covers(2 * MIB) && !second.covers(2 * MIB));
        assert!(second.freed().now_or_never().is_none());
        first.settle(0);
        second.freed().await;
        assert!(second.covers(2 * MIB));
    }

    #[test]
    fn small_requests_are_free_and_forced_ones_are_charged() {
        let memory = Memory::new(0, 0);
        let mut one = lease(&memory, "a");
        assert!(one.covers(MEMORY_FREE_BYTES) && !one.covers(MEMORY_FREE_BYTES + 1));
        one.force(MIB);
        assert_eq!(memory.ledger().usage().used, charged(MIB));
        one.charge(&LedgerHolder::User("b".into()));
        one.settle(0);
        assert_eq!(memory.ledger().usage().used, 0);
    }
}
