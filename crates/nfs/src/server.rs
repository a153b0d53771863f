//! The server: clients, sessions, shares, and state that all connections share.
//!
//! Lock order: the clients, one client's states, a session's slots; the session table on its own.
//! No lock is held across an await or a call of the file layer.

use crate::clients::client::ClientIncarnation;
use crate::clients::client::ExchangeIdRequest;
use crate::clients::delegations::{Delegations, PendingRevocation};
use crate::clients::held_state::{ClientStates, HeldOpen};
use crate::clients::session::{NfsSession, SessionShares};
use crate::clients::table::{ClientTable, ExchangeIdOutcome};
use crate::exports::config::NfsConfig;
use crate::exports::export::Export;
use crate::host::{NfsHost, TimeReading};
use crate::limits::{COURTESY, PATIENCE, SLOTS_UNDER_PRESSURE};
use crate::observe::audit;
use crate::state::client_record::ClientRecord;
use crate::state::grace::Grace;
use crate::state::holdings::NfsHoldings;
use files::{CourtesyClients, Files, Patience, RequestFiles};
use futures_util::FutureExt;
use limits::{LedgerAccount, ResourceCharge};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use sync::{Mutex, RwLock};
use vfs::{FileKey, KeyedBuildHasher, Timestamp, Vfs};
use wire::nfs::{ClientId, NfsSessionId, NfsStatus, Verifier};

/// The server.
pub struct NfsServer {
    /// The file layer.
    pub files: Arc<Files>,
    /// The process around it.
    pub host: Arc<dyn NfsHost>,
    /// Random write verifier of this run.
    first_verifier: [u8; 8],
    /// Start time of the server.
    pub started: Timestamp,
    /// Counters.
    pub stats: NfsStats,
    config: RwLock<Arc<NfsConfig>>,
    /// Number of configuration changes in this run.
    generation: AtomicU64,
    clients: Mutex<ClientTable>,
    grace: Mutex<Grace>,
    pub(crate) delegations: Arc<Delegations>,
    /// Longest wait of requests for other clients.
    pub(crate) patience: Patience,
    sessions: RwLock<HashMap<NfsSessionId, Arc<NfsSession>, KeyedBuildHasher>>,
    next_session: AtomicU32,
    /// Resource ledgers by address.
    pub holdings: Arc<NfsHoldings>,
    /// The server is draining and refuses new clients.
    draining: AtomicBool,
}

/// Counters since the start.
#[derive(Debug, Default)]
pub struct NfsStats {
    /// COMPOUNDs.
    pub compounds: AtomicU64,
    /// Operations.
    pub operations: AtomicU64,
    /// Requests answered from a cached reply.
    pub replays: AtomicU64,
}

impl std::fmt::Debug for NfsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// Clients retry after DELAY, which also renews their lease.
fn patience(host: &Arc<dyn NfsHost>, lease: Duration) -> Patience {
    let host = host.clone();
    let carry_on = Arc::new(move |rest| host.carry_on(rest));
    Patience { limit: PATIENCE.min(lease / 3), carry_on }
}

impl NfsServer {
    /// A server without clients.
    #[must_use]
    pub fn new(config: NfsConfig, files: Arc<Files>, host: Arc<dyn NfsHost>) -> Arc<Self> {
        let (mut verifier, mut secret) = ([0; 8], [0; 8]);
        host.random(&mut verifier);
        host.random(&mut secret);
        let remembered = host.remembered_clients();
        let awaited = remembered.iter().map(|bytes| ClientRecord::decode(bytes)).collect();
        let grace = Grace::new(awaited, host.now().instant + config.lease);
        let patience = patience(&host, config.lease);
        let holdings = Arc::new(NfsHoldings::new(config.states_max));
        let server = Arc::new(Self {
            files,
            first_verifier: verifier,
            started: host.now().wall,
            stats: NfsStats::default(),
            generation: AtomicU64::new(1),
            clients: Mutex::new(ClientTable::new(config.lease, secret, holdings.clone())),
            grace: Mutex::new(grace),
            delegations: Arc::default(),
            patience,
            config: RwLock::new(Arc::new(config)),
            sessions: RwLock::default(),
            next_session: AtomicU32::new(1),
            host,
            holdings,
            draining: AtomicBool::new(false),
        });
        let courtesy: Weak<Self> = Arc::downgrade(&server);
        server.files.set_courtesy(courtesy);
        server
    }

    /// The current configuration.
    #[must_use]
    pub fn config(&self) -> Arc<NfsConfig> {
        self.config.read().clone()
    }

    /// Replaces the configuration. The lease time stays.
    pub fn configure(&self, config: NfsConfig) {
        self.holdings.states.set_max(config.states_max as u64);
        *self.config.write() = Arc::new(config);
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// Configuration generation: unique over all runs.
    #[must_use]
    pub fn generation(&self) -> u64 {
        (self.started.0 as u64).wrapping_add(self.generation.load(Ordering::Relaxed))
    }

    /// Sets whether new clients get DELAY; existing ones continue.
    pub fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// See [`ClientTable::exchange_id`].
    ///
    /// # Errors
    /// The errors of [`ClientTable::exchange_id`]; DELAY while the server drains. CLID_INUSE while
    /// the owner string belongs to a client of another principal that may reclaim.
    pub fn exchange_id(&self, who: ExchangeIdRequest) -> Result<Arc<ClientIncarnation>, NfsStatus> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(NfsStatus::DELAY);
        }
        let now = self.host.now().instant;
        if self.grace.lock().awaits_another_principal(&who.owner, who.principal, now) {
            return Err(NfsStatus::CLID_INUSE);
        }
        let ExchangeIdOutcome { client, ended } = self.clients.lock().exchange_id(who, now)?;
        ended.iter().for_each(|client| self.end(client));
        Ok(client)
    }

    /// See [`ClientTable::find`].
    ///
    /// # Errors
    /// STALE_CLIENTID.
    pub fn find_client(&self, id: ClientId) -> Result<Arc<ClientIncarnation>, NfsStatus> {
        self.clients.lock().find(id)
    }

    /// Confirms a client that has created a session, and ends its earlier incarnation.
    pub fn confirm(&self, client: &Arc<ClientIncarnation>) {
        let former = self.clients.lock().confirm(client);
        if let Some(former) = former {
            self.end(&former);
        }
    }

    /// Removes a client with all of its state.
    pub fn remove_client(&self, client: &Arc<ClientIncarnation>) {
        self.clients.lock().remove(client);
        self.end(client);
    }

    /// Ends everything of a client that has left the table.
    fn end(&self, client: &ClientIncarnation) {
        client.end_sessions().iter().for_each(|session| self.remove_session(session));
        // Files are closed outside the lock.
        let ended = client.with_states(ClientStates::end);
        client.copies.cancel_all();
        // Closed and not dropped: a waiting LOCK also has the open, so that locks and share denials
        // of the client would survive.
        let files = self.files.for_server();
        ended.opens.into_iter().for_each(|held| self.close(&files, held));
        drop(ended.delegations);
        self.forget(client);
    }

    /// Closes the open of an ended state.
    pub(crate) fn close(&self, files: &RequestFiles, held: HeldOpen) {
        let files = files.clone();
        let mut closing = Box::pin(async move { held.close(&files).await });
        if (&mut closing).now_or_never().is_none() {
            self.host.carry_on(closing);
        }
    }

    /// The client with this number in this run.
    #[must_use]
    pub fn client_numbered(&self, number: u32) -> Option<Arc<ClientIncarnation>> {
        self.clients.lock().numbered(number)
    }

    /// Retries to store records of clients that have a session.
    fn retry_records(&self) {
        for client in self.clients().into_iter().filter(|client| client.needs_record()) {
            // One attempt at a time for each client: a hanging disk would collect one every second.
            if client.is_being_recorded.swap(true, Ordering::AcqRel) {
                continue;
            }
            let written = self.host.remember_client(&client.record().encode(), true);
            self.host.carry_on(Box::pin(async move {
                let is_written = written.await;
                client.is_being_recorded.store(false, Ordering::Release);
                if is_written {
                    client.has_record.store(true, Ordering::Release);
                    tracing::info!(owner = %client.facts().owner, "stored the record of an NFS client after a retry");
                }
            }));
        }
    }

    /// Deletes the record of a client, unless another incarnation of it is confirmed.
    fn forget(&self, client: &ClientIncarnation) {
        let record = client.record();
        if client.is_confirmed() && !self.clients.lock().has_confirmed(&record) {
            drop(self.host.remember_client(&record.encode(), false));
        }
    }

    /// Checks that a client may get state, by reclaim or anew.
    ///
    /// # Errors
    /// The errors of [`Grace::check`].
    pub(crate) fn check_grace(
        &self,
        client: &ClientIncarnation,
        reclaims: bool,
    ) -> Result<(), NfsStatus> {
        let has_reclaimed = client.has_reclaimed.load(Ordering::Acquire);
        let now = self.host.now().instant;
        self.grace.lock().check((&client.owner, client.principal), reclaims, has_reclaimed, now)
    }

    /// Checks that I/O without state is permitted.
    ///
    /// # Errors
    /// GRACE during the grace period.
    pub(crate) fn check_no_grace(&self) -> Result<(), NfsStatus> {
        let now = self.host.now().instant;
        if self.grace.lock().is_active(now) { Err(NfsStatus::GRACE) } else { Ok(()) }
    }

    /// End of the grace period. Before it a client may be unable to do what a recall requires.
    pub(crate) fn grace_end(&self, now: Instant) -> Instant {
        self.grace.lock().end(now)
    }

    /// Notes RECLAIM_COMPLETE of a client.
    pub(crate) fn complete_reclaim(&self, client: &ClientIncarnation) {
        let former = self.grace.lock().complete(&client.owner, client.principal);
        if let Some(former) = former {
            drop(self.host.remember_client(&former.encode(), false));
        }
    }

    /// The session with this id.
    ///
    /// # Errors
    /// BADSESSION.
    pub fn find_session(&self, id: NfsSessionId) -> Result<Arc<NfsSession>, NfsStatus> {
        let sessions = self.sessions.read();
        sessions.get(&id).cloned().ok_or(NfsStatus::BADSESSION)
    }

    /// A random session id. Without state protection its knowledge suffices to use and destroy the
    /// session (RFC 8881 2.10.8.3, 18.37).
    #[must_use]
    pub fn new_session_id(&self) -> NfsSessionId {
        let mut id = [0; 16];
        self.host.random(&mut id);
        let number = self.next_session.fetch_add(1, Ordering::Relaxed);
        id[12..].copy_from_slice(&number.to_be_bytes());
        NfsSessionId(id)
    }

    /// Random part of a client id.
    #[must_use]
    pub fn random_id(&self) -> u32 {
        let mut bytes = [0; 4];
        self.host.random(&mut bytes);
        u32::from_be_bytes(bytes)
    }

    /// Charges a client's address for a new session: one slot, and up to `wish` slots as far as the
    /// address may have them. Courtesy clients make room.
    ///
    /// # Errors
    /// DELAY if the address has too many sessions.
    pub(crate) fn charge_session(
        &self,
        client: &ClientIncarnation,
        wish: u32,
    ) -> Result<SessionShares, NfsStatus> {
        let account = self.holdings.sessions.account(&client.holder);
        let has_sessions = |client: &ClientIncarnation| !client.sessions().is_empty();
        let session = self.take_or_make_room(&account, 1, has_sessions)?;
        let account = self.holdings.slots.account(&client.holder);
        let mut slots = account.force(0);
        let mut more = u64::from(wish.saturating_sub(1));
        while slots.try_resize(more).is_err() {
            more /= 2;
        }
        Ok(SessionShares { _session: session, slots })
    }

    /// Adds a session to the table.
    ///
    /// # Errors
    /// DELAY if its client has too many; STALE_CLIENTID if the client is gone.
    pub fn add_session(&self, session: Arc<NfsSession>) -> Result<(), NfsStatus> {
        let mut sessions = self.sessions.write();
        session.client.add_session(session.clone())?;
        sessions.insert(session.id, session);
        Ok(())
    }

    /// Ends a session.
    pub fn remove_session(&self, session: &NfsSession) {
        session.end();
        let mut sessions = self.sessions.write();
        if sessions.remove(&session.id).is_some() {
            audit::session_end(self.files.meter(), session);
            session.release();
        }
    }

    /// Reduces slot counts when new sessions would get none.
    fn spread_slots(&self) {
        let sessions = self.sessions.read();
        for session in sessions.values() {
            session.adjust_slot_target();
            session.settle_slots();
        }
        let slots = self.holdings.slots.usage();
        if slots.used > slots.max / 4 * 3 {
            sessions.values().for_each(|session| session.set_slot_target(SLOTS_UNDER_PRESSURE));
        }
    }

    /// Write verifier of a file. It changes with every run and every failed flush on the file's
    /// device: uncommitted writes may then be lost, and clients must repeat them. To be read before
    /// a write and after a flush. RFC 8881 18.32.3.
    #[must_use]
    pub fn write_verifier(&self, file: FileKey) -> Verifier {
        let first = u64::from_be_bytes(self.first_verifier);
        Verifier(first.wrapping_add(self.files.flushes_failed(file)).to_be_bytes())
    }

    /// Does periodic work and removes expired clients. The host calls it about once a second.
    pub fn handle_tick(&self, now: TimeReading) {
        self.spread_slots();
        self.retry_records();
        self.revoke_due(now.instant);
        let absent = self.grace.lock().take_absent(now.instant);
        for record in absent {
            if record.principal.is_none() || !self.clients.lock().has_confirmed(&record) {
                drop(self.host.remember_client(&record.encode(), false));
            }
        }
        let expired = self.clients.lock().remove_expired(now.instant, COURTESY);
        expired.iter().for_each(|client| self.end(client));
    }

    /// Revokes delegations that were not returned in time.
    fn revoke_due(&self, now: Instant) {
        for PendingRevocation { client, number, .. } in self.delegations.take_due(now) {
            let Some(client) = client.upgrade() else { continue };
            // Files are closed outside the lock.
            let taken = client.with_states(|states| states.revoke(number));
            if taken.is_some() {
                tracing::info!(client = %client.facts().peer, "revoked a delegation that its client did not return in time");
            }
        }
    }

    /// Makes room for one more open, lock or delegation of a client, and for the file descriptor of
    /// an open. Its owner string has `owner_bytes`.
    ///
    /// # Errors
    /// DELAY if its address has reached its share and no courtesy client makes room.
    pub(crate) fn make_room(
        &self,
        client: &ClientIncarnation,
        owner_bytes: usize,
    ) -> Result<(), NfsStatus> {
        let states = self.holdings.states.account(&client.holder);
        self.take_or_make_room(&states, 1, ClientIncarnation::holds_state)?;
        let owners = self.holdings.owner_bytes.account(&client.holder);
        self.take_or_make_room(&owners, owner_bytes as u64, ClientIncarnation::holds_state)?;
        let opens = client.open_account(self.files.opens());
        self.take_or_make_room(opens, 1, ClientIncarnation::holds_state).map(drop)
    }

    /// Charges the file descriptor of an open to a client's address. Takes no lock, because the
    /// caller holds the client's states.
    ///
    /// # Errors
    /// DELAY if others have taken the room that [`NfsServer::make_room`] found.
    pub(crate) fn charge_open(
        &self,
        client: &ClientIncarnation,
    ) -> Result<ResourceCharge, NfsStatus> {
        client.open_account(self.files.opens()).take(1).map_err(|_| NfsStatus::DELAY)
    }

    /// Charges `amount` to an account. Courtesy clients that hold (`has`) the resource make room:
    /// they must not block live clients.
    fn take_or_make_room(
        &self,
        account: &Arc<LedgerAccount>,
        amount: u64,
        has: impl Fn(&ClientIncarnation) -> bool,
    ) -> Result<ResourceCharge, NfsStatus> {
        let now = self.host.now().instant;
        loop {
            if let Ok(share) = account.take(amount) {
                return Ok(share);
            }
            let away = self.clients.lock().evict_courtesy_client(now, &has);
            self.end(&*away.ok_or(NfsStatus::DELAY)?);
        }
    }

    /// All clients.
    #[must_use]
    pub fn clients(&self) -> Vec<Arc<ClientIncarnation>> {
        self.clients.lock().iter().cloned().collect()
    }
}

impl CourtesyClients for NfsServer {
    /// Removes expired clients with state on this file.
    fn revoke_courtesy_state(&self, file: FileKey) -> bool {
        let (now, lease) = (self.host.now().instant, self.config().lease);
        let holds = |client: &&Arc<ClientIncarnation>| {
            client.holds_state()
                && client.is_expired(now, lease)
                && client.states.lock().holds(file)
        };
        let mut clients = self.clients.lock();
        let expired: Vec<Arc<ClientIncarnation>> = clients.iter().filter(holds).cloned().collect();
        expired.iter().for_each(|client| clients.remove(client));
        drop(clients);
        expired.iter().for_each(|client| self.end(client));
        !expired.is_empty()
    }

    fn is_in_grace(&self, vfs: &Arc<dyn Vfs>) -> bool {
        let now = self.host.now().instant;
        let serves = |export: &Arc<Export>| Arc::ptr_eq(&export.volume.vfs, vfs);
        self.grace.lock().is_active(now) && self.config().exports.iter().any(serves)
    }
}
