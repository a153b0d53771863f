//! State that all connections share: configuration, sessions, counters. MS-SMB2 3.3.1.5.

use crate::config::{SmbConfig, SmbShare};
use crate::conversion::status::status_of;
use crate::host::{HostTime, SmbHost};
use crate::limits::{IMMEDIATE_NOTICE_REPEAT_AFTER, NOTICE_REPEAT_AFTER, REMOVALS_PER_BATCH_MAX};
use crate::logon::logon_throttle::{LogonThrottle, UsualNetwork};
use crate::observe::audit;
use crate::observe::snapshot::SmbSnapshot;
use crate::observe::stats::SmbStats;
use crate::opens::app_instances::AppInstances;
use crate::opens::break_router::{BreakRecipient, BreakRouter, RemovedOpen};
use crate::opens::create_guids::{ClaimOutcome, CreateGuids, CreateKey};
use crate::opens::durable::DurableOpens;
use crate::opens::open::Open;
use crate::opens::persistent_opens::PersistentOpens;
use crate::opens::stable;
use crate::session::clients::ClientSessions;
use crate::session::state::SmbSession;
use crate::shares::holdings::SmbHoldings;
use files::{CacheKey, Files, OpenJournal, RequestFiles};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use sync::{Mutex, RwLock};
use vfs::Timestamp;
use wire::ntstatus::NtStatus;
use wire::smb::{FileId, SessionId};
use wire::spnego::Mechanisms;

/// The SMB server: one a process.
pub struct SmbServer {
    /// The file layer, which the NFS server shares.
    pub files: Arc<Files>,
    /// The surrounding process.
    pub host: Arc<dyn SmbHost>,
    /// Counters.
    pub stats: SmbStats,
    /// Failed passwords.
    pub(crate) logon_throttle: Arc<LogonThrottle>,
    /// Start time, for NEGOTIATE.
    pub started: Timestamp,
    config: RwLock<Arc<SmbConfig>>,
    ipc: Arc<SmbShare>,
    /// Sessions by id, used at set-up and logoff only. Requests find their session in the table of
    /// their connection.
    sessions: Mutex<HashMap<u64, Arc<SmbSession>>>,
    /// Sessions by client.
    pub clients: ClientSessions,
    next_open: AtomicU64,
    /// Opens whose connection was lost.
    pub durable: DurableOpens,
    /// CREATEs that clients may replay.
    pub create_guids: CreateGuids<Open>,
    /// Opens by application instance.
    pub app_instances: AppInstances,
    /// Opens that outlive the server process.
    pub persistent: PersistentOpens,
    /// Shared resources by user.
    pub holdings: SmbHoldings,
    /// The server accepts no new session, because it is about to stop.
    draining: AtomicBool,
}

impl std::fmt::Debug for SmbServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("stats", &self.stats).finish_non_exhaustive()
    }
}

fn unix_seconds(wall: Timestamp) -> u64 {
    u64::try_from(wall.0 / 1_000_000_000).unwrap_or_default()
}

/// Registers the shares of the configuration with the meter.
fn register(files: &Files, config: &SmbConfig) {
    for share in &config.shares {
        files.meter().register(&share.name);
    }
}

impl SmbServer {
    /// A server without connections.
    #[must_use]
    pub fn new(config: SmbConfig, files: Arc<Files>, host: Arc<dyn SmbHost>) -> Arc<Self> {
        let HostTime { wall, .. } = host.now();
        let ipc = SmbShare::ipc();
        files.meter().register(&ipc.name);
        register(&files, &config);
        let server = Arc::new(Self {
            files,
            host,
            stats: SmbStats::default(),
            logon_throttle: Arc::default(),
            started: wall,
            config: RwLock::new(Arc::new(config)),
            ipc: Arc::new(ipc),
            sessions: Mutex::default(),
            clients: ClientSessions::default(),
            next_open: AtomicU64::new(1),
            durable: DurableOpens::default(),
            create_guids: CreateGuids::default(),
            app_instances: AppInstances::default(),
            persistent: PersistentOpens::default(),
            holdings: SmbHoldings::default(),
            draining: AtomicBool::new(false),
        });
        let journal: Weak<dyn OpenJournal> = Arc::<Self>::downgrade(&server);
        server.files.set_open_journal(journal);
        server
    }

    /// Networks from which accounts have logged on by password, for the next run of the server.
    pub fn usual_networks(&self) -> Vec<UsualNetwork> {
        let now = self.host.now();
        self.logon_throttle.usual_networks(now.instant, unix_seconds(now.wall))
    }

    /// Restores the output of [`SmbServer::usual_networks`] of an earlier run.
    pub fn restore_usual_networks(&self, known: Vec<UsualNetwork>) {
        let now = self.host.now();
        self.logon_throttle.restore_usual(known, now.instant, unix_seconds(now.wall));
    }

    /// Replaces the configuration. Sessions and trees keep theirs.
    pub fn configure(&self, config: SmbConfig) {
        register(&self.files, &config);
        *self.config.write() = Arc::new(config);
    }

    /// Sets whether new sessions are refused. Existing sessions continue, and may add channels.
    pub fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// See [`Self::set_draining`].
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The present configuration.
    pub fn config(&self) -> Arc<SmbConfig> {
        self.config.read().clone()
    }

    /// The SPNEGO mechanisms offered to clients.
    pub fn mechanisms(&self, config: &SmbConfig) -> Mechanisms {
        Mechanisms { ntlm: config.ntlm, kerberos: self.host.accepts_tickets() }
    }

    /// The IPC$ share.
    pub fn ipc(&self) -> &Arc<SmbShare> {
        &self.ipc
    }

    /// A session id that is not in use. It is random, so that an id from before a restart does not
    /// match another session. It has 32 bits, because some clients store no more. It need not be
    /// secret, because requests are signed.
    pub fn new_session_id(&self) -> SessionId {
        let sessions = self.sessions.lock();
        loop {
            let mut bytes = [0; 4];
            self.host.random(&mut bytes);
            let id = u64::from(u32::from_le_bytes(bytes));
            if id != 0 && id != u64::from(u32::MAX) && !sessions.contains_key(&id) {
                return SessionId(id);
            }
        }
    }

    /// The id of a new open; unique in this process.
    pub fn new_file_id(&self) -> FileId {
        let id = self.next_open.fetch_add(1, Ordering::Relaxed);
        FileId { persistent: id, volatile: id }
    }

    /// Reserves all ids up to `id`: opens of the previous run have them.
    pub fn reserve_ids_through(&self, id: u64) {
        self.next_open.fetch_max(id.saturating_add(1), Ordering::Relaxed);
    }

    /// Registers the CreateGuid of `open`, so that a replayed CREATE finds it.
    pub fn register_for_replay(&self, open: &Arc<Open>) {
        let Some(create) = open.origin.create_guid else { return };
        let key = CreateKey { client: open.origin.client_guid, create };
        if let ClaimOutcome::Fresh(claim) = self.create_guids.claim(key) {
            open.set_claim(claim);
            open.allow_replay();
        }
    }

    /// Adds a session that [`ClientSessions::try_add`] has accepted.
    pub fn add_session(&self, session: Arc<SmbSession>) {
        self.sessions.lock().insert(session.id.0, session);
    }

    /// Looks a session up; for set-up only.
    pub fn session(&self, id: SessionId) -> Option<Arc<SmbSession>> {
        self.sessions.lock().get(&id.0).cloned()
    }

    /// A snapshot of all sessions.
    pub(crate) fn all_sessions(&self) -> Vec<Arc<SmbSession>> {
        let sessions = self.sessions.lock();
        sessions.values().cloned().collect()
    }

    /// Ends a session and closes its opens.
    pub fn end_session(&self, session: &SmbSession) {
        self.remove_session(session, "Ended");
        self.close_all(session.end());
    }

    /// Ends a session whose last connection was lost; its client may reconnect the durable opens.
    pub fn disconnect_session(&self, session: &SmbSession) {
        self.durable.while_detaching(|| {
            self.remove_session(session, "ConnectionLost");
            self.detach_all(session.end_by_disconnect());
        });
    }

    /// Finds an open by FileId.Persistent in other sessions of the same user or client.
    pub fn find_elsewhere(&self, id: u64, session: &SmbSession) -> Option<Arc<Open>> {
        let others: Vec<Arc<SmbSession>> = {
            let sessions = self.sessions.lock();
            let is_other = |other: &&Arc<SmbSession>| other.id != session.id;
            sessions.values().filter(is_other).cloned().collect()
        };
        let user = &session.user().account.name;
        let is_near = |other: &&Arc<SmbSession>| {
            other.client_guid == session.client_guid || other.user().account.name == *user
        };
        others.iter().filter(is_near).find_map(|other| other.find_open(id))
    }

    /// Retains the opens that their clients may reconnect, and closes the others.
    pub fn detach_all(&self, opens: Vec<Arc<Open>>) {
        let now = self.host.now().instant;
        self.close_all(self.durable.detach(&self.files.for_server(), opens, now));
    }

    /// Finds a client's open by FileId.Persistent, whether its client is connected or may reconnect
    /// it.
    pub fn find_open(&self, client: [u8; 16], id: u64) -> Option<Arc<Open>> {
        let sessions = self.sessions_of(client);
        let open = sessions.iter().find_map(|session| session.find_open(id));
        open.or_else(|| self.durable.find(id))
    }

    /// Closes an open of `client` on behalf of another request, to which `files` is bound.
    pub async fn force_close(&self, files: &RequestFiles, client: [u8; 16], open: &Arc<Open>) {
        for session in self.sessions_of(client) {
            drop(session.remove_open(open.id));
        }
        drop(self.durable.remove(open.id.persistent));
        open.closed.raise();
        self.remove_record(open).await;
        if let Ok(file) = open.file()
            && let Err(error) = files.close(file.clone()).await
        {
            tracing::warn!(%error, "cannot remove a delete-pending file when another client takes over its application instance");
        }
    }

    fn sessions_of(&self, client: [u8; 16]) -> Vec<Arc<SmbSession>> {
        let sessions = self.sessions.lock();
        sessions.values().filter(|session| session.client_guid == client).cloned().collect()
    }

    fn remove_session(&self, session: &SmbSession, why: &str) {
        self.clients.remove(session);
        let mut sessions = self.sessions.lock();
        // Another session may have received the id after this one ended.
        if sessions.get(&session.id.0).is_some_and(|known| std::ptr::eq(&**known, session)) {
            sessions.remove(&session.id.0);
            drop(sessions);
            audit::session_end(self.files.meter(), session, why);
        }
    }

    /// Closes durable opens whose timeout expired, and repeats unacknowledged notifications. The
    /// caller runs it about once a second.
    pub fn handle_tick(&self, now: HostTime) {
        self.close_all(self.durable.remove_expired(now.instant));
        self.resend_notices(now);
        self.files.handle_tick();
    }

    /// Repeats notifications that clients have not acknowledged.
    fn resend_notices(&self, now: HostTime) {
        let Some(due_at_once) = now.instant.checked_sub(IMMEDIATE_NOTICE_REPEAT_AFTER) else {
            return;
        };
        let due = now.instant.checked_sub(NOTICE_REPEAT_AFTER);
        let sessions: Vec<Arc<SmbSession>> = {
            let sessions = self.sessions.lock();
            sessions.values().filter(|session| session.may_resend_notices()).cloned().collect()
        };
        sessions.iter().for_each(|session| session.resend_notices(due, due_at_once));
    }

    /// Closes opens whose session or tree is gone. Waiting requests are notified, and the drop of
    /// the file releases its locks and caching.
    pub fn close_all(&self, opens: Vec<Arc<Open>>) {
        self.begin_close(&opens);
        drop(opens);
    }

    /// Notifies the waiting requests of the opens, and removes their persistent records.
    fn begin_close(&self, opens: &[Arc<Open>]) {
        for open in opens {
            open.closed.raise();
            drop(self.remove_record(open));
        }
    }

    /// Like [`SmbServer::close_all`], but returns once the resulting removals are stable, where the
    /// opens promise stability.
    ///
    /// A removal may not be stable; all opens are closed.
    pub async fn close_all_stable(
        &self,
        files: &RequestFiles,
        mut opens: Vec<Arc<Open>>,
    ) -> Result<(), NtStatus> {
        self.begin_close(&opens);
        let mut result = Ok(());
        while !opens.is_empty() {
            let together = opens.split_off(opens.len().saturating_sub(REMOVALS_PER_BATCH_MAX));
            let unstable = stable::before_close(files, &together).await;
            drop(together);
            let ended = match unstable {
                Ok(unstable) => files.make_stable(unstable).await.map_err(status_of),
                Err(status) => Err(status),
            };
            result = result.and(ended);
        }
        result
    }

    /// Prepares the end of the process: persistent opens stay open across it.
    pub fn abandon_persistent_opens(&self) {
        self.durable.abandon_persistent();
    }

    /// The data that `status` shows.
    pub fn snapshot(&self) -> SmbSnapshot {
        let sessions = self.sessions.lock();
        let sessions: Vec<Arc<SmbSession>> = sessions.values().cloned().collect();
        SmbSnapshot::of(&sessions, self.config().multichannel, &self.stats)
    }
}

impl BreakRouter for SmbServer {
    fn lease_session(&self, client: [u8; 16], user: &str) -> Option<Arc<dyn BreakRecipient>> {
        let session = self.clients.session(client, user)?;
        Some(session)
    }

    fn remove_conflicting(&self, id: u64) -> Option<RemovedOpen> {
        let open = self.durable.remove_conflicting(id)?;
        Some(open)
    }

    fn is_detached(&self, id: u64) -> bool {
        self.durable.is_detached(id)
    }

    fn record_lease_break(&self, key: CacheKey) {
        self.record_breaks_of_lease(key);
    }

    fn record_oplock_break(&self, id: u64) {
        self.record_break_of_open(id);
    }
}
