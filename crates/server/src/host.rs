//! [`ProcessHost`]: the services of this process that the protocol layers require.

use crate::accounts::kerberos::Judge;
use crate::accounts::names::HostNames;
use crate::accounts::system_users;
use crate::accounts::users::Users;
use crate::conn::connections::ConnectionTable;
use crate::limits::{LOGGED_NAME_CHARS_MAX, LOGGED_PATH_CHARS_MAX};
use crate::machine::interfaces::Interfaces;
use crate::observe::refused_logons::RefusedLogons;
use crate::state::journal::{Records, StateJournal};
use crate::state::nfs_identity::NfsIdentity;
use crate::state::nfs_records::{NfsRecords, OWN_RECORD};
use crate::state::sid_pins::SidPins;
use files::Caller;
use futures_util::future::BoxFuture;
use limits::LedgerHolder;
use rustls::ServerConfig;
use smb::{Account, Dialect, HostTime, InterfaceFact, RequestFailure, RequestFailureKind, SmbHost};
use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use sync::{Mutex, RwLock, RwLockReadGuard};
use vfs::{Identity, Timestamp};
use wire::rpc::UnixNames;
use wire::spnego::AcceptedTicket;

/// Cached facts of a system user.
#[derive(Clone)]
struct SystemUser {
    caller: Arc<Caller>,
    groups: Arc<[String]>,
}

/// The process as the [`NfsHost`] of SMB and NFS.
pub struct ProcessHost {
    users: RwLock<Users>,
    guest: RwLock<Option<String>>,
    /// The Kerberos acceptor.
    tickets: RwLock<Option<Arc<Judge>>>,
    /// Pinned SIDs of accounts; `None` without Kerberos.
    pins: RwLock<Option<Arc<SidPins>>>,
    /// Cached system users, so that a logon does not read the files again.
    callers: Mutex<HashMap<String, SystemUser>>,
    interfaces: Arc<Interfaces>,
    names: Arc<HostNames>,
    runtime: tokio::runtime::Handle,
    journal: RwLock<Option<StateJournal>>,
    /// Records of NFS clients with state, and those that had state when the last run ended.
    nfs_clients: RwLock<(Option<NfsRecords>, Vec<Vec<u8>>)>,
    nfs_identity: RwLock<Option<NfsIdentity>>,
    /// TLS configuration for NFS.
    tls: RwLock<Option<Arc<ServerConfig>>>,
    /// Connections of both protocols.
    connections: OnceLock<Arc<ConnectionTable>>,
    refused_logons: Arc<RefusedLogons>,
}

impl ProcessHost {
    /// Creates a host with these users, within the present runtime.
    #[must_use]
    pub fn new(users: Users, guest: Option<String>) -> Self {
        Self {
            users: RwLock::new(users),
            guest: RwLock::new(guest),
            tickets: RwLock::default(),
            pins: RwLock::default(),
            callers: Mutex::default(),
            interfaces: Arc::default(),
            names: Arc::new(HostNames::of_system()),
            runtime: tokio::runtime::Handle::current(),
            journal: RwLock::default(),
            nfs_clients: RwLock::default(),
            nfs_identity: RwLock::default(),
            tls: RwLock::default(),
            connections: OnceLock::new(),
            refused_logons: Arc::default(),
        }
    }

    /// The last refused logons.
    pub fn refused_logons(&self) -> &Arc<RefusedLogons> {
        &self.refused_logons
    }

    /// The resolver of client names.
    pub fn names(&self) -> &Arc<HostNames> {
        &self.names
    }

    /// Sets the connections, for probes and limits.
    pub fn set_connections(&self, connections: Arc<ConnectionTable>) {
        let _ = self.connections.set(connections);
    }

    /// Sets the journal that stores persistent opens.
    pub fn set_journal(&self, journal: StateJournal) {
        *self.journal.write() = Some(journal);
    }

    /// Sets the journal of NFS client records, and reads the records of the last run. The journal
    /// also stores the server's NFS identity; `new` becomes the identity if there is none. Returns
    /// false if the identity cannot be stored: then clients do not recognise the server after a
    /// restart.
    pub async fn set_nfs_clients(
        &self,
        journal: StateJournal,
        mut records: Records,
        new: NfsIdentity,
    ) -> bool {
        let kept = records.remove(&OWN_RECORD).and_then(|bytes| NfsIdentity::of_record(&bytes));
        // This happens before any client has a file handle.
        let is_kept = match kept {
            Some(_) => true,
            None => journal.change(OWN_RECORD, Some(new.record())).await,
        };
        let identity = kept.unwrap_or(new);
        if is_kept {
            let mut known = self.nfs_identity.write();
            *known = Some(identity);
        }
        let of_clients = NfsRecords::new(journal, &records);
        let remembered = records.into_values().collect();
        let mut nfs_clients = self.nfs_clients.write();
        *nfs_clients = (Some(of_clients), remembered);
        is_kept
    }

    /// The server's NFS identity, if it outlives the process.
    pub fn nfs_identity(&self) -> Option<NfsIdentity> {
        *self.nfs_identity.read()
    }

    /// Sets or removes the TLS configuration.
    pub fn set_tls(&self, tls: Option<Arc<ServerConfig>>) {
        *self.tls.write() = tls;
    }

    /// The TLS configuration, if there is one.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.read().clone()
    }

    /// Sets or removes the Kerberos acceptor and the directory of the pinned SIDs.
    pub fn set_tickets(&self, tickets: Option<Arc<Judge>>, state: &Path) {
        let pins = tickets.is_some().then(|| Arc::new(SidPins::of(state)));
        *self.pins.write() = pins;
        *self.tickets.write() = tickets;
    }

    fn journal(&self) -> RwLockReadGuard<'_, Option<StateJournal>> {
        self.journal.read()
    }

    /// Replaces the users; present sessions stay.
    pub fn configure(&self, users: Users, guest: Option<String>) {
        *self.users.write() = users;
        *self.guest.write() = guest;
        self.callers.lock().clear();
    }

    /// The network interfaces of this machine.
    pub fn interfaces(&self) -> &Arc<Interfaces> {
        &self.interfaces
    }

    /// The identity for file access: as root that of the system user, else the process's own.
    fn system_user(&self, system_user: &str) -> Option<SystemUser> {
        let mut callers = self.callers.lock();
        if let Some(known) = callers.get(system_user) {
            return Some(known.clone());
        }
        let known = SystemUser {
            caller: system_users::caller_of(system_user)?,
            groups: system_users::groups_of(system_user).into(),
        };
        callers.insert(system_user.to_owned(), known.clone());
        Some(known)
    }
}

impl nfs::NfsHost for ProcessHost {
    fn random(&self, out: &mut [u8]) {
        SmbHost::random(self, out);
    }

    fn now(&self) -> nfs::TimeReading {
        let HostTime { instant, wall } = SmbHost::now(self);
        nfs::TimeReading { instant, wall }
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    fn caller(&self, identity: Identity) -> Arc<Caller> {
        // Only the superuser can act as another user.
        if rustix::process::geteuid().is_root() {
            return Arc::new(Caller::of(identity));
        }
        Arc::new(Caller::of(system_users::own_identity()))
    }

    fn remembered_clients(&self) -> Vec<Vec<u8>> {
        let mut clients = self.nfs_clients.write();
        std::mem::take(&mut clients.1)
    }

    fn remember_client(&self, record: &[u8], is_here: bool) -> BoxFuture<'static, bool> {
        let clients = self.nfs_clients.read();
        match &clients.0 {
            Some(records) => records.change(record, is_here),
            None => Box::pin(std::future::ready(true)),
        }
    }

    fn carry_on(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        SmbHost::carry_on(self, work);
    }
}

impl SmbHost for ProcessHost {
    fn random(&self, out: &mut [u8]) {
        let mut filled = 0;
        while filled < out.len() {
            match rustix::rand::getrandom(&mut out[filled..], rustix::rand::GetRandomFlags::empty())
            {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                // Without random numbers no protocol is secure.
                Err(errno) => panic!("the system gives no random bytes: {errno}"),
            }
        }
    }

    fn now(&self) -> HostTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Timestamp(i128::try_from(since.as_nanos()).unwrap_or(i128::MAX));
        HostTime { instant: Instant::now(), wall }
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    fn account(&self, user: &str) -> Option<Account> {
        let users = self.users.read();
        let (name, nt_hash, system_user) = users.find(user)?;
        let Some(SystemUser { caller, groups }) = self.system_user(system_user) else {
            tracing::error!(
                user = name,
                system_user,
                "logon refused: the user's system account does not exist; create it, or set system_user in \
                 the user file"
            );
            return None;
        };
        let root_by_ticket = users.is_root_by_ticket(name);
        Some(Account { name: name.to_owned(), nt_hash, caller, groups, root_by_ticket })
    }

    fn has_account(&self, user: &str) -> bool {
        self.users.read().contains(user)
    }

    fn guest(&self) -> Option<Account> {
        let guest = self.guest.read().clone()?;
        let SystemUser { caller, groups } = self.system_user(&guest)?;
        let nt_hash = wire::ntlm::NtHash([0; 16]);
        let name = "anonymous".into();
        Some(Account { name, nt_hash, caller, groups, root_by_ticket: false })
    }

    fn accepts_tickets(&self) -> bool {
        self.tickets.read().is_some()
    }

    fn verify_ticket(
        &self,
        from: IpAddr,
        ticket: Vec<u8>,
    ) -> BoxFuture<'static, Result<AcceptedTicket, String>> {
        match &*self.tickets.read() {
            Some(judge) => Box::pin(judge.judge(from, ticket)),
            None => Box::pin(std::future::ready(Err(
                "Kerberos is not configured: set kerberos_keytab".to_owned(),
            ))),
        }
    }

    fn check_sid(
        &self,
        account: &str,
        sid: Option<String>,
    ) -> BoxFuture<'static, Result<(), String>> {
        let pins = self.pins.read().clone();
        let Some(pins) = pins else { return Box::pin(std::future::ready(Ok(()))) };
        let account = account.to_owned();
        let check = self.runtime.spawn_blocking(move || pins.check(&account, sid.as_deref()));
        Box::pin(async move { check.await.unwrap_or_else(|error| Err(error.to_string())) })
    }

    fn unix_names(&self) -> Arc<UnixNames> {
        system_users::names()
    }

    fn probe_connections(&self, connections: &[u64]) -> bool {
        let all = self.connections.get();
        all.inspect(|all| all.doubt(connections)).is_some()
    }

    fn logon_failed(&self, peer: SocketAddr, user: &str, why: &str) {
        let user: String = user.chars().take(LOGGED_NAME_CHARS_MAX).collect();
        tracing::warn!(%peer, user, reason = why, "logon refused");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.refused_logons.add(&user, peer.ip(), why, now_ms);
    }

    fn logon_succeeded(&self, peer: SocketAddr, user: &str) {
        tracing::debug!(%peer, user, "logged on");
    }

    fn report_failure(&self, trouble: &RequestFailure) {
        let RequestFailure { kind, peer, request, user, share, path } = trouble;
        let request = format_args!("{}.{}", request.0, request.1);
        let path: String = path.chars().take(LOGGED_PATH_CHARS_MAX).collect();
        match kind {
            RequestFailureKind::NoSpace => {
                tracing::error!(share, path, user, %peer, %request, "a request failed: no space is left, or the user's quota is exhausted");
            }
            RequestFailureKind::StorageError => {
                tracing::error!(share, path, user, %peer, %request, "a request failed, since the file system did; check the kernel log and the file system");
            }
            RequestFailureKind::ShareGone => {
                tracing::error!(share, user, %peer, %request, "the share's directory was removed; \
                                                               restore it and reload");
            }
            RequestFailureKind::AccessDenied => {
                tracing::info!(share, path, user, %peer, %request, "access denied");
            }
        }
    }

    fn carry_on(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        // The task is dropped if the runtime ends.
        self.runtime.spawn(work);
    }

    fn admit_connection(&self, connection: u64, holder: &LedgerHolder) -> bool {
        self.connections.get().is_none_or(|all| all.admit(connection, holder))
    }

    fn dialect_refused(&self, peer: SocketAddr, offered: &[u16]) {
        let offered = offered.iter().map(|number| Dialect::from_number(*number));
        let Some(best) = offered.flatten().max() else {
            tracing::warn!(%peer, "the client offers SMB 1 only, which is not supported; update \
                                   the client, or enable SMB 2 or 3 on it");
            return;
        };
        tracing::warn!(%peer, "the client supports SMB {best} at most, and min_protocol and \
                               max_protocol permit none of its dialects; update the client, or \
                               change them in [server]");
    }

    fn persists_opens(&self) -> bool {
        self.journal().is_some()
    }

    fn write_open_record(&self, id: u64, record: Option<Vec<u8>>) -> BoxFuture<'static, bool> {
        match &*self.journal() {
            Some(journal) => journal.change(id, record),
            None => Box::pin(std::future::ready(false)),
        }
    }

    fn interfaces(&self, port: u16) -> Vec<InterfaceFact> {
        self.interfaces.reachable(port)
    }
}
