//! Openings in flight, and their turns: a hanging directory takes a thread until its disk replies.
//!
//! The turns are limited by share and by account beside the total, so that a dead disk holds up its
//! own share only, and an account no other one.

use super::OpeningOutcome;
use crate::backend::UserPath;
use crate::limits::{
    USER_VOLUMES_OPENING_MAX, USER_VOLUMES_OPENING_PER_ACCOUNT_MAX,
    USER_VOLUMES_OPENING_PER_SHARE_MAX, USER_VOLUMES_WAITING_MAX,
    USER_VOLUMES_WAITING_PER_ACCOUNT_MAX, USER_VOLUMES_WAITING_PER_SHARE_MAX,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use sync::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Receives the outcome once the opening has ended.
pub(super) type OpeningReceiver = watch::Receiver<Option<OpeningOutcome>>;

/// Identifies the clients that wait for one opening.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirectoryOpeningKey {
    /// The share in lower case.
    pub(super) share: String,
    /// The configuration by which it is opened.
    pub(super) config: usize,
    /// The user to whom the directory must belong, if it is one user's.
    pub(super) owner: Option<u32>,
    pub(super) path: UserPath,
}

#[derive(Debug)]
struct OpeningEntry {
    account: String,
    outcome: OpeningReceiver,
}

/// All openings in flight.
#[derive(Debug)]
pub(super) struct Openings {
    in_flight: Mutex<BTreeMap<DirectoryOpeningKey, OpeningEntry>>,
    all: Arc<Semaphore>,
    of_shares: SemaphoreMap,
    of_accounts: SemaphoreMap,
}

/// Semaphores by name, which exist while they are used.
#[derive(Debug)]
struct SemaphoreMap {
    permits: usize,
    by_name: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// The right to open one directory now.
#[derive(Debug)]
pub(super) struct OpeningTurn {
    _permits: [Option<OwnedSemaphorePermit>; 3],
}

/// An opening in flight. Dropping it removes the entry, so that a failed task leaves none.
#[derive(Debug)]
pub(super) struct UnfinishedOpening {
    openings: Arc<Openings>,
    key: DirectoryOpeningKey,
    done: watch::Sender<Option<OpeningOutcome>>,
}

impl Default for Openings {
    fn default() -> Self {
        let map = |permits| SemaphoreMap { permits, by_name: Mutex::default() };
        Self {
            in_flight: Mutex::default(),
            all: Arc::new(Semaphore::new(USER_VOLUMES_OPENING_MAX)),
            of_shares: map(USER_VOLUMES_OPENING_PER_SHARE_MAX),
            of_accounts: map(USER_VOLUMES_OPENING_PER_ACCOUNT_MAX),
        }
    }
}

impl SemaphoreMap {
    fn of(&self, name: &str) -> Arc<Semaphore> {
        let mut by_name = self.by_name.lock();
        // Permits and waiters hold references.
        by_name.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let fresh = || Arc::new(Semaphore::new(self.permits));
        by_name.entry(name.to_owned()).or_insert_with(fresh).clone()
    }
}

impl Openings {
    /// Enters an opening, or gives the receiver of the one in flight.
    ///
    /// # Errors
    /// Words for the openings that are too many.
    pub(super) fn enter(
        self: &Arc<Self>,
        key: DirectoryOpeningKey,
        account: &str,
    ) -> Result<Result<UnfinishedOpening, OpeningReceiver>, &'static str> {
        let mut in_flight = self.in_flight.lock();
        if let Some(known) = in_flight.get(&key) {
            return Ok(Err(known.outcome.clone()));
        }
        let of_share = in_flight.keys().filter(|other| other.share == key.share).count();
        let of_account = in_flight.values().filter(|other| other.account == account).count();
        if of_account >= USER_VOLUMES_WAITING_PER_ACCOUNT_MAX {
            return Err("too many directories of this user");
        }
        if of_share >= USER_VOLUMES_WAITING_PER_SHARE_MAX {
            return Err("too many directories of this share");
        }
        if in_flight.len() >= USER_VOLUMES_WAITING_MAX {
            return Err("too many directories");
        }
        let (done, outcome) = watch::channel(None);
        in_flight.insert(key.clone(), OpeningEntry { account: account.to_owned(), outcome });
        Ok(Ok(UnfinishedOpening { openings: self.clone(), key, done }))
    }

    /// Waits for a turn. Cancel safe. A waiting opening takes none of the turns that others need:
    /// the scarcest one comes last.
    pub(super) async fn turn(&self, share: &str, account: &str) -> OpeningTurn {
        let of_account = self.of_accounts.of(account);
        let of_share = self.of_shares.of(share);
        // Fails only if a semaphore is closed, which none is.
        let of_account = of_account.acquire_owned().await.ok();
        let of_share = of_share.acquire_owned().await.ok();
        let of_all = self.all.clone().acquire_owned().await.ok();
        OpeningTurn { _permits: [of_account, of_share, of_all] }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.in_flight.lock().len()
    }
}

impl UnfinishedOpening {
    pub(super) fn receiver(&self) -> OpeningReceiver {
        self.done.subscribe()
    }

    /// Sends the outcome to all clients that wait for it. Clients that come later open again.
    pub(super) fn end(self, outcome: OpeningOutcome) {
        let done = self.done.clone();
        drop(self);
        done.send_replace(Some(outcome));
    }
}

impl Drop for UnfinishedOpening {
    fn drop(&mut self) {
        self.openings.in_flight.lock().remove(&self.key);
    }
}
