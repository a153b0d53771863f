//! Drains the server before its end. It accepts no new clients, and closes connections of clients
//! without open files at once and the others at the deadline. Meanwhile it recalls unwritten data
//! and handles that only client caches keep open.
//!
//! The process continues to run: the administrator ends it or cancels the drain.

use crate::conn::connections::ConnectionTable;
use files::Files;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::Mutex;

/// Interval of the search for clients without open files.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Interval of the check whether clients have written their cached data.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Time that a client may have nothing open before it counts as idle: a working client closes and
/// opens files all the time.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// Progress of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainFacts {
    /// `serving`, `draining` or `drained`.
    pub state: &'static str,
    /// Time until the deadline.
    pub left: Option<Duration>,
}

/// The drain state of the server.
pub struct Drain {
    smb: Arc<smb::SmbServer>,
    nfs: Arc<nfs::NfsServer>,
    files: Arc<Files>,
    connections: Arc<ConnectionTable>,
    begun: Mutex<Option<RunningDrain>>,
}

#[derive(Clone, Debug)]
struct RunningDrain {
    until: Instant,
    /// Connections that had something open, and the time when that was last seen.
    busy: Vec<(u64, Instant)>,
}

impl Drain {
    /// Creates the state of a server that does not drain.
    pub fn new(
        smb: Arc<smb::SmbServer>,
        nfs: Arc<nfs::NfsServer>,
        files: Arc<Files>,
        connections: Arc<ConnectionTable>,
    ) -> Self {
        Self { smb, nfs, files, connections, begun: Mutex::default() }
    }

    /// Starts a drain, or changes its deadline.
    pub fn begin(&self, within: Duration) {
        let mut begun = self.begun.lock();
        let now = Instant::now();
        let busy = match begun.take() {
            Some(before) => before.busy,
            // A client that is connected now may be between two files.
            None => self.connections.facts().iter().map(|fact| (fact.id, now)).collect(),
        };
        *begun = Some(RunningDrain { until: now + within, busy });
        self.take_clients(false);
    }

    /// Cancels the drain and accepts clients again.
    pub fn cancel(&self) {
        *self.begun.lock() = None;
        self.take_clients(true);
    }

    /// Progress of the drain.
    #[must_use]
    pub fn facts(&self) -> DrainFacts {
        let until = self.begun.lock().as_ref().map(|begun| begun.until);
        let Some(until) = until else { return DrainFacts { state: "serving", left: None } };
        if self.connections.open_count() == 0 {
            return DrainFacts { state: "drained", left: None };
        }
        let left = until.saturating_duration_since(Instant::now());
        DrainFacts { state: "draining", left: Some(left) }
    }

    /// Advances the drain at intervals, until the task is dropped.
    pub async fn follow(self: Arc<Self>) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        loop {
            looks.tick().await;
            self.look(Instant::now());
        }
    }

    /// Closes the connections of idle clients; after the deadline closes all.
    fn look(&self, now: Instant) {
        let mut begun = self.begun.lock();
        let Some(begun) = begun.as_mut() else { return };
        if begun.until <= now {
            self.connections.end_matching(|_| true);
            return;
        }
        let _ = self.files.recall_caches();
        let holders = self.holders();
        begun.busy.retain(|(id, seen)| !holders.contains(id) && *seen + IDLE_AFTER > now);
        begun.busy.extend(holders.iter().map(|id| (*id, now)));
        let busy: HashSet<u64> = begun.busy.iter().map(|(id, _)| *id).collect();
        self.connections.end_matching(|id| !busy.contains(&id));
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
}

/// Recalls client caches and waits until all data is written, at most `within`. Silent clients, and
/// clients that can reclaim after a restart, lose nothing more than without this call.
pub async fn flushed(files: &Files, within: Duration) {
    let until = Instant::now() + within;
    let mut left = files.recall_caches();
    while left > 0 {
        if Instant::now() >= until {
            tracing::warn!(
                remaining = left,
                "clients with cached data did not write it before the deadline"
            );
            return;
        }
        tokio::time::sleep(ASK_EVERY).await;
        left = files.recall_caches();
    }
}
