//! The end of the server, prepared: no new clients, those go that have nothing open, and the
//! others when the time is over. Meanwhile they are asked for what they have not written yet,
//! and for what only their caches keep open.
//!
//! The process itself goes on: who drained it ends it, or takes clients again.

use crate::connections::Connections;
use files::Files;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often is looked who has nothing open any more.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often is looked whether clients have written what they kept back.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// How long a client may be between what it has opened and what it opens next: one that is
/// at work closes and opens all the time.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainFacts {
    /// `serving`, `draining` or `drained`.
    pub state: &'static str,
    /// Time that clients still have.
    pub left: Option<Duration>,
}

/// Whether the server is drained.
pub struct Drain {
    smb: Arc<smb::Server>,
    nfs: Arc<nfs::Server>,
    files: Arc<Files>,
    connections: Arc<Connections>,
    begun: Mutex<Option<Begun>>,
}

#[derive(Clone, Debug)]
struct Begun {
    until: Instant,
    /// Connections that had something open, and when they last had.
    busy: Vec<(u64, Instant)>,
}

impl Drain {
    /// Not drained.
    pub fn new(
        smb: Arc<smb::Server>,
        nfs: Arc<nfs::Server>,
        files: Arc<Files>,
        connections: Arc<Connections>,
    ) -> Self {
        Self { smb, nfs, files, connections, begun: Mutex::default() }
    }

    /// Begins, or gives another time.
    pub fn begin(&self, within: Duration) {
        let mut begun = self.lock();
        let now = Instant::now();
        let busy = match begun.take() {
            Some(before) => before.busy,
            // Whoever is here may be between two files.
            None => self.connections.facts().iter().map(|fact| (fact.id, now)).collect(),
        };
        *begun = Some(Begun { until: now + within, busy });
        self.take_clients(false);
    }

    /// Takes clients again.
    pub fn cancel(&self) {
        *self.lock() = None;
        self.take_clients(true);
    }

    /// How far it has come.
    #[must_use]
    pub fn facts(&self) -> DrainFacts {
        let until = self.lock().as_ref().map(|begun| begun.until);
        let Some(until) = until else { return DrainFacts { state: "serving", left: None } };
        if self.connections.open_count() == 0 {
            return DrainFacts { state: "drained", left: None };
        }
        let left = until.saturating_duration_since(Instant::now());
        DrainFacts { state: "draining", left: Some(left) }
    }

    /// Looks now and then, until the task is dropped.
    pub async fn follow(self: Arc<Self>) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        loop {
            looks.tick().await;
            self.look(Instant::now());
        }
    }

    /// Ends the connections of those who have nothing open; of all when the time is over.
    fn look(&self, now: Instant) {
        let mut begun = self.lock();
        let Some(begun) = begun.as_mut() else { return };
        if begun.until <= now {
            self.connections.end_those(|_| true);
            return;
        }
        let _ = self.files.ask_back();
        let holders = self.holders();
        begun.busy.retain(|(id, seen)| !holders.contains(id) && *seen + IDLE_AFTER > now);
        begun.busy.extend(holders.iter().map(|id| (*id, now)));
        let busy: HashSet<u64> = begun.busy.iter().map(|(id, _)| *id).collect();
        self.connections.end_those(|id| !busy.contains(&id));
    }

    /// Connections of clients that have something open.
    fn holders(&self) -> HashSet<u64> {
        let (smb, nfs) = (self.smb.snapshot(), self.nfs.snapshot());
        let of_smb = smb.sessions.iter().filter(|session| !session.opens.is_empty());
        let of_smb = of_smb.flat_map(|session| session.channels.iter().map(|c| c.connection));
        let of_nfs = nfs.clients.iter().filter(|client| client.states > 0);
        let of_nfs = of_nfs.flat_map(|client| &client.sessions);
        let of_nfs = of_nfs.flat_map(|session| session.connections.iter().map(|c| c.facts.id));
        of_smb.chain(of_nfs).collect()
    }

    fn take_clients(&self, takes: bool) {
        self.connections.set_draining(!takes);
        self.smb.set_draining(!takes);
        self.nfs.set_draining(!takes);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Begun>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until no client keeps what it has not written, and for so long at most. Clients that
/// do not answer, and those that may come back for it after a restart, lose nothing that they
/// would not have lost without.
pub async fn flushed(files: &Files, within: Duration) {
    let until = Instant::now() + within;
    let mut left = files.ask_back();
    while left > 0 {
        if Instant::now() >= until {
            tracing::warn!(left, "clients did not write in time what they keep back");
            return;
        }
        tokio::time::sleep(ASK_EVERY).await;
        left = files.ask_back();
    }
}
