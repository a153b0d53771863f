//! What all connections share: configuration, sessions, counters.
//! MS-SMB2 3.3.1.5.

use crate::app_instances::AppInstances;
use crate::audit;
use crate::clients::Clients;
use crate::config::{Config, Share};
use crate::create_guids::{Claimed, CreateGuids, CreateKey};
use crate::durable::DurableOpens;
use crate::holdings::Holdings;
use crate::host::{Host, Now};
use crate::limits::{NOTICE_AGAIN_AFTER, NOTICE_AT_ONCE_AGAIN_AFTER, REMOVALS_TOGETHER_MAX};
use crate::logon_throttle::{LogonThrottle, UsualNetwork};
use crate::open::Open;
use crate::persistent::PersistentOpens;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::stable;
use crate::status::status_of;
use files::{Files, OpenJournal, RequestFiles};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use vfs::Timestamp;
use wire::ntstatus::NtStatus;
use wire::smb::{FileId, SessionId};
use wire::spnego::Mechanisms;

/// Counts since the start. Read without stopping anyone.
#[derive(Debug, Default)]
pub struct Stats {
    /// Connections closed for something no client of good faith sends.
    pub garbage: AtomicU64,
    /// Requests taken.
    pub requests: AtomicU64,
    /// Logons that failed.
    pub logons_failed: AtomicU64,
    /// Logons that succeeded.
    pub logons: AtomicU64,
    /// Attempts to log on that waited before they were judged.
    pub logons_delayed: AtomicU64,
    /// Attempts to log on that were refused without being judged: too many waited.
    pub logons_unjudged: AtomicU64,
    /// Channels that ended while others of their session went on.
    pub channels_lost: AtomicU64,
}

/// The SMB server: one for a process.
pub struct Server {
    /// The file layer, shared with other protocols.
    pub files: Arc<Files>,
    /// The process around us.
    pub host: Arc<dyn Host>,
    /// Counts.
    pub stats: Stats,
    /// Wrong passwords.
    pub(crate) logon_throttle: Arc<LogonThrottle>,
    /// When it started, for NEGOTIATE.
    pub started: Timestamp,
    config: RwLock<Arc<Config>>,
    ipc: Arc<Share>,
    /// Sessions by id. Touched at set-up and logoff only: requests reach
    /// their session through their connection's own table.
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    /// Sessions by client.
    pub clients: Clients,
    next_open: AtomicU64,
    /// Opens whose connection is lost.
    pub durable: DurableOpens,
    /// CREATEs that may be sent again.
    pub create_guids: CreateGuids<Open>,
    /// Opens by application.
    pub app_instances: AppInstances,
    /// Opens that outlive the server.
    pub persistent: PersistentOpens,
    /// What users have of what all share.
    pub holdings: Holdings,
    /// No more sessions are taken, since the server is to end.
    draining: AtomicBool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("stats", &self.stats).finish_non_exhaustive()
    }
}

fn unix_seconds(wall: Timestamp) -> u64 {
    u64::try_from(wall.0 / 1_000_000_000).unwrap_or_default()
}

/// Requests are counted by the shares of the configuration.
fn register(files: &Files, config: &Config) {
    for share in &config.shares {
        files.meter().register(&share.name);
    }
}

impl Server {
    /// A server without connections.
    #[must_use]
    pub fn new(config: Config, files: Arc<Files>, host: Arc<dyn Host>) -> Arc<Self> {
        let Now { wall, .. } = host.now();
        let ipc = Share::ipc();
        files.meter().register(&ipc.name);
        register(&files, &config);
        let server = Arc::new(Self {
            files,
            host,
            stats: Stats::default(),
            logon_throttle: Arc::default(),
            started: wall,
            config: RwLock::new(Arc::new(config)),
            ipc: Arc::new(ipc),
            sessions: Mutex::default(),
            clients: Clients::default(),
            next_open: AtomicU64::new(1),
            durable: DurableOpens::default(),
            create_guids: CreateGuids::default(),
            app_instances: AppInstances::default(),
            persistent: PersistentOpens::default(),
            holdings: Holdings::default(),
            draining: AtomicBool::new(false),
        });
        let journal: Weak<dyn OpenJournal> = Arc::<Self>::downgrade(&server);
        server.files.set_open_journal(journal);
        server
    }

    /// Where accounts have logged on from by a password, for the next run of the server.
    pub fn usual_networks(&self) -> Vec<UsualNetwork> {
        let now = self.host.now();
        self.logon_throttle.usual_networks(now.instant, unix_seconds(now.wall))
    }

    /// Takes what [`Server::usual_networks`] gave to an earlier run.
    pub fn restore_usual_networks(&self, known: Vec<UsualNetwork>) {
        let now = self.host.now();
        self.logon_throttle.restore_usual(known, now.instant, unix_seconds(now.wall));
    }

    /// Takes a new configuration. Sessions and trees keep what they have.
    pub fn configure(&self, config: Config) {
        register(&self.files, &config);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// Whether new sessions are refused; those that are there go on, with new channels, too.
    pub fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// See [`Self::set_draining`].
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The present configuration.
    pub fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The mechanisms that clients may log on by.
    pub fn mechanisms(&self, config: &Config) -> Mechanisms {
        Mechanisms { ntlm: config.ntlm, kerberos: self.host.takes_tickets() }
    }

    /// The share of named pipes.
    pub fn ipc(&self) -> &Arc<Share> {
        &self.ipc
    }

    /// A session id that is not in use. Random, so that an id of before a
    /// restart does not name another's session; of 32 bits, since clients exist
    /// that keep no more. Knowing it gives nothing: requests are signed.
    pub fn new_session_id(&self) -> SessionId {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut bytes = [0; 4];
            self.host.random(&mut bytes);
            let id = u64::from(u32::from_le_bytes(bytes));
            if id != 0 && id != u64::from(u32::MAX) && !sessions.contains_key(&id) {
                return SessionId(id);
            }
        }
    }

    /// An id for a new open; never used before in this process.
    pub fn new_file_id(&self) -> FileId {
        let id = self.next_open.fetch_add(1, Ordering::Relaxed);
        FileId { persistent: id, volatile: id }
    }

    /// Ids up to this one are of opens of before.
    pub fn use_ids_after(&self, id: u64) {
        self.next_open.fetch_max(id.saturating_add(1), Ordering::Relaxed);
    }

    /// Whoever sends the CREATE of `open` again is to get it.
    pub fn let_replays_find(&self, open: &Arc<Open>) {
        let Some(create) = open.origin.create_guid else { return };
        let key = CreateKey { client: open.origin.client_guid, create };
        if let Claimed::Fresh(claim) = self.create_guids.claim(key) {
            open.set_claim(claim);
            open.answer_replays();
        }
    }

    /// Enters a session that its client has by now, by [`Clients::try_add`].
    pub fn add_session(&self, session: Arc<Session>) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(session.id.0, session);
    }

    /// Looks a session up, for set-up only.
    pub fn session(&self, id: SessionId) -> Option<Arc<Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).get(&id.0).cloned()
    }

    /// All sessions, at this moment.
    pub(crate) fn all_sessions(&self) -> Vec<Arc<Session>> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.values().cloned().collect()
    }

    /// Ends a session and closes what it holds.
    pub fn end_session(&self, session: &Session) {
        self.forget_session(session, "Ended");
        self.close_all(session.end());
    }

    /// Ends a session whose last connection is lost; its client may come back
    /// for what is durable.
    pub fn lose_session(&self, session: &Session) {
        self.durable.while_losing(|| {
            self.forget_session(session, "ConnectionLost");
            self.detach_all(session.lose());
        });
    }

    /// An open by the lasting half of its id, if another session of the same user or client has it.
    pub fn find_elsewhere(&self, id: u64, session: &Session) -> Option<Arc<Open>> {
        let others: Vec<Arc<Session>> = {
            let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            let is_other = |other: &&Arc<Session>| other.id != session.id;
            sessions.values().filter(is_other).cloned().collect()
        };
        let user = &session.user().account.name;
        let is_near = |other: &&Arc<Session>| {
            other.client_guid == session.client_guid || other.user().account.name == *user
        };
        others.iter().filter(is_near).find_map(|other| other.find_open(id))
    }

    /// Keeps those opens whose clients may come back for them, and closes the others.
    pub fn detach_all(&self, opens: Vec<Arc<Open>>) {
        let now = self.host.now().instant;
        self.close_all(self.durable.detach(&self.files.for_server(), opens, now));
    }

    /// The open of a client by the lasting half of its id, whether the client is here
    /// or may come back for it.
    pub fn find_open(&self, client: [u8; 16], id: u64) -> Option<Arc<Open>> {
        let sessions = self.sessions_of(client);
        let open = sessions.iter().find_map(|session| session.find_open(id));
        open.or_else(|| self.durable.find(id))
    }

    /// Closes an open of `client`, which did not ask for it; the request does that `files` is of.
    pub async fn force_close(&self, files: &RequestFiles, client: [u8; 16], open: &Arc<Open>) {
        for session in self.sessions_of(client) {
            drop(session.remove_open(open.id));
        }
        drop(self.durable.remove(open.id.persistent));
        open.closed.raise();
        self.forget(open).await;
        if let Ok(file) = open.file()
            && let Err(error) = files.close(file.clone()).await
        {
            tracing::warn!(%error, "a file whose last open was taken over could not be removed");
        }
    }

    fn sessions_of(&self, client: [u8; 16]) -> Vec<Arc<Session>> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.values().filter(|session| session.client_guid == client).cloned().collect()
    }

    fn forget_session(&self, session: &Session, why: &str) {
        self.clients.remove(session);
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // Its id may have been given to another one since it ended.
        if sessions.get(&session.id.0).is_some_and(|known| std::ptr::eq(&**known, session)) {
            sessions.remove(&session.id.0);
            drop(sessions);
            audit::session_end(self, session, why);
        }
    }

    /// Closes what nobody has come back for in time, and tells again what was not
    /// answered. To be called about once a second.
    pub fn handle_tick(&self, now: Now) {
        self.close_all(self.durable.remove_expired(now.instant));
        self.tell_again(now);
        self.files.handle_tick();
    }

    /// Tells again what clients have not answered.
    fn tell_again(&self, now: Now) {
        let Some(due_at_once) = now.instant.checked_sub(NOTICE_AT_ONCE_AGAIN_AFTER) else { return };
        let due = now.instant.checked_sub(NOTICE_AGAIN_AFTER);
        let sessions: Vec<Arc<Session>> = {
            let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.values().filter(|session| session.may_tell_again()).cloned().collect()
        };
        sessions.iter().for_each(|session| session.tell_again(due, due_at_once));
    }

    /// Closes opens whose session or tree is gone: waiters are told, and dropping
    /// the file releases what it held.
    pub fn close_all(&self, opens: Vec<Arc<Open>>) {
        self.begin_close(&opens);
        drop(opens);
    }

    /// Tells waiters that the opens end, and has none of them last through a restart.
    fn begin_close(&self, opens: &[Arc<Open>]) {
        for open in opens {
            open.closed.raise();
            drop(self.forget(open));
        }
    }

    /// As [`Server::close_all`]; returns once the removals that it causes are stable, where the
    /// opens promise that.
    ///
    /// # Errors
    /// They may not be; all opens are closed.
    pub async fn close_all_stable(
        &self,
        files: &RequestFiles,
        mut opens: Vec<Arc<Open>>,
    ) -> Result<(), NtStatus> {
        self.begin_close(&opens);
        let mut result = Ok(());
        while !opens.is_empty() {
            let together = opens.split_off(opens.len().saturating_sub(REMOVALS_TOGETHER_MAX));
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

    /// The process ends: persistent opens are not closed by that.
    pub fn leave(&self) {
        self.durable.leave_persistent();
    }

    /// What `status` shows.
    pub fn snapshot(&self) -> Snapshot {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions: Vec<Arc<Session>> = sessions.values().cloned().collect();
        Snapshot::of(&sessions, self.config().multichannel, &self.stats)
    }
}
