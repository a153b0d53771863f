//! [`Service`]: starts the server, reloads its configuration and stops it.

use crate::accounts::kerberos::Judge;
use crate::accounts::names::{HostNames, WantedNames};
use crate::accounts::system_users;
use crate::accounts::users::Users;
use crate::admin::{self, AdminSocket, Pointer, ReloadWish, ShareConfigs, Tokens};
use crate::backend::{self, Backend, OpenedBackend};
use crate::config::{
    AdminAddress, EncryptionSetting, HostRule, Ntlm, ServerConfig, ShareConfig, SigningSetting,
    SmbStable,
};
use crate::conn::connections::ConnectionTable;
use crate::conn::drain::{Drain, flushed};
use crate::conn::listener::Listener;
use crate::conn::threads::{ConnectionThreads, EVEN_OUT_EVERY, ThreadAssignments};
use crate::conn::tls;
use crate::discovery::Discovery;
use crate::host::ProcessHost;
use crate::limits::{CONNECTIONS_MAX, END_WITHIN, FLUSH_WITHIN};
use crate::machine::cpu_time::ThreadClock;
use crate::machine::descriptors::{self, DescriptorPlan};
use crate::metadata_cache::MetadataCaches;
use crate::nfs_service::NfsService;
use crate::observe::audit::Audit;
use crate::observe::feature_facts::facts;
use crate::observe::features::{FeatureRegistry, METADATA_CACHE, Switch};
use crate::observe::observer::{ExportCounters, Observer};
use crate::observe::traces::Traces;
use crate::shares::credits::{KEPT_EVERY, KEPT_WITHIN};
use crate::shares::limits::{LimitsBook, OpenedMeter};
use crate::shares::usage;
use crate::start_error::StartError;
use crate::state::journal::{Records, StateJournal};
use crate::state::nfs_identity::NfsIdentity;
use crate::state::usual_networks::{self, UsualNetworkFile};
use crate::supervisor::{ActivityCounter, PassedSockets, Pulse};
use crate::workers::WorkerPool;
use files::{Caller, Files, NamePatterns, Volume, VolumeOptions};
use meter::Meter;
use smb::{Accounts, Admission, SmbHost, SmbServer, SmbShare};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use vfs::{Case, Vfs};
use vfs_cache::CachedVfs;

/// Backlog of each listening socket: connections that the kernel queues before they are accepted.
const ACCEPT_QUEUE: u32 = 4096;
/// Journal key of the server's own GUID; no open has this number.
const OWN_GUID: u64 = 0;

/// A running server.
pub struct Service {
    listener: Listener<smb::SmbConn>,
    backend: Arc<dyn Backend>,
    host: Arc<ProcessHost>,
    listening: Vec<SocketAddr>,
    admin: Option<AdminAddress>,
    /// The file that tells local tools where to find the admin token; removed on drop.
    pointer: Option<Pointer>,
    reloads: Mutex<mpsc::Receiver<ReloadWish>>,
    shares: Arc<ShareConfigs>,
    caches: Arc<MetadataCaches>,
    nfs: NfsService,
    discovery: Arc<Discovery>,
    workers: Arc<WorkerPool>,
    usual_networks: Arc<UsualNetworkFile>,
    limits: Arc<LimitsBook>,
    pulse: Arc<Pulse>,
    audit: Option<Arc<Audit>>,
    traces: Arc<Traces>,
    tasks: Vec<JoinHandle<()>>,
    threads: ConnectionThreads,
}

impl Service {
    /// Binds all configured addresses and starts to serve. Sockets in `passed` (socket activation)
    /// replace the configured addresses of their kind. `extra` holds users in addition to those of
    /// the user file.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(
        config: &ServerConfig,
        extra: &Users,
        passed: PassedSockets,
    ) -> Result<Self, StartError> {
        Self::start_over(backend::configured(), config, extra, passed).await
    }

    /// As [`Service::start`], with all shares on `backend` instead of the configured ones.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start_over(
        backend: Arc<dyn Backend>,
        config: &ServerConfig,
        extra: &Users,
        passed: PassedSockets,
    ) -> Result<Self, StartError> {
        let plan = descriptor_plan(config)?;
        let host = Arc::new(host_of(config, load_users(config, extra)?)?);
        let mut records = open_journal(config, &host)?;
        let guid = own_guid(&host, records.remove(&OWN_GUID)).await;
        remember_nfs_clients(config, &host, guid).await;
        let workers = Arc::new(WorkerPool::new(config.workers));
        let files = Arc::new(files_of(&host, &workers, plan.opens));
        let caches = Arc::new(MetadataCaches::new(plan.kept_nodes));
        let limits = Arc::new(LimitsBook::open(config.state_folder()));
        let (now, names) = (SmbHost::now(&*host).instant, host.names());
        let carried =
            CarriedState { backend: &*backend, caches: &caches, names, limits: &limits, now };
        let (smb_config, meters) = smb_config(config, guid, None, &carried)?;
        limits.apply(&config.shares, meters, now);
        let server = SmbServer::new(smb_config, files.clone(), host.clone());
        server.restore(&records);
        let connections = connections_of(config, plan.connections);
        host.set_connections(connections.clone());
        let (sockets, listening) = listen_smb(config, passed.smb, &host)?;
        let threads = threads()?;
        let on = threads.assignments();
        let nfs = NfsService::new(config, &server.config(), &files, &host, &connections, on);
        let meter = files.meter().clone();
        let listener = Listener::new(server, host.clone(), connections, on.clone(), meter);
        let (reload, reloads) = mpsc::channel(1);
        let shares = Arc::<ShareConfigs>::default();
        shares.set(&config.shares);
        let mut service = Self {
            discovery: discovery_of(config, &listener.server, &host),
            usual_networks: UsualNetworkFile::restore(&listener.server, config.state_folder()),
            listener,
            backend,
            host: host.clone(),
            listening,
            admin: None,
            pointer: None,
            reloads: Mutex::new(reloads),
            shares,
            caches,
            nfs,
            workers,
            limits,
            pulse: Arc::default(),
            audit: None,
            traces: Arc::default(),
            tasks: Vec::new(),
            threads,
        };
        let observer = service.observe(config, &files);
        service.start_exports(config, &files, &observer.exported)?;
        service.tasks.push(tokio::spawn(observer.clone().follow()));
        if let Some(socket) = admin_socket(config.admin.as_ref(), passed.admin)? {
            service.start_admin(socket, config, observer, reload)?;
        }
        service.start_ticks();
        let accept = |socket| tokio::spawn(service.listener.clone().accept(socket));
        service.tasks.extend(sockets.into_iter().map(accept));
        for socket in self::sockets(&config.nfs, passed.nfs)? {
            service.nfs.listening.extend(socket.local_addr());
            service.tasks.push(tokio::spawn(service.nfs.clone().accept(socket)));
        }
        service.tasks.iter().for_each(|task| service.pulse.keep(task.abort_handle()));
        Ok(service)
    }

    /// Starts the audit log and the trace exporter as configured.
    fn start_exports(
        &mut self,
        config: &ServerConfig,
        files: &Files,
        exported: &Arc<ExportCounters>,
    ) -> Result<(), StartError> {
        let meter = files.meter();
        self.audit = Audit::open(&config.log.audit, exported.clone()).map_err(StartError)?;
        if let Some(audit) = &self.audit {
            meter.set_audit(audit.clone());
        }
        self.traces.configure(config.log.traces.clone(), config.log.slow_request, meter);
        let follow = self.traces.clone().follow(meter.clone(), exported.clone());
        self.tasks.push(tokio::spawn(follow));
        Ok(())
    }

    /// Builds the observer, which gathers the state for metrics and the admin API.
    fn observe(&self, config: &ServerConfig, files: &Arc<Files>) -> Arc<Observer> {
        let (server, nfs) = (self.listener.server.clone(), self.nfs.server.clone());
        let mut features = features(&self.caches);
        let (of_smb, of_nfs) = (server.clone(), nfs.clone());
        let serves_nfs = !config.nfs.is_empty();
        features.observe(move || facts(&of_smb.config(), &of_nfs.config(), serves_nfs));
        let listening = self.listening.iter().chain(&config.nfs);
        Arc::new(Observer {
            server,
            nfs,
            files: files.clone(),
            workers: self.workers.clone(),
            backend: self.backend.clone(),
            connections: self.listener.connections.clone(),
            caches: self.caches.clone(),
            features: Arc::new(features),
            ports: listening.map(SocketAddr::port).collect(),
            shares: Arc::default(),
            cpu_times: Arc::default(),
            exported: Arc::default(),
            limits: self.limits.clone(),
            discovery: self.discovery.clone(),
            history: Arc::default(),
            refused_logons: self.host.refused_logons().clone(),
        })
    }

    /// Spawns the periodic tasks, most of which run once a second.
    fn start_ticks(&mut self) {
        let now = SmbHost::now(&*self.host).instant;
        let (smb, nfs) = (self.pulse.expect("SMB", now), self.pulse.expect("NFS", now));
        self.tasks.push(tokio::spawn(tick(self.listener.clone(), smb)));
        self.tasks.push(tokio::spawn(tick_limits(self.host.clone(), self.limits.clone())));
        self.tasks.push(tokio::spawn(keep_credits(self.host.clone(), self.limits.clone())));
        let server = self.listener.server.clone();
        let networks = usual_networks::follow(server, self.usual_networks.clone());
        self.tasks.push(tokio::spawn(networks));
        self.tasks.push(tokio::spawn(usage::follow(self.limits.clone())));
        self.tasks.push(tokio::spawn(tick_caches(self.caches.clone())));
        self.tasks.push(tokio::spawn(even_out(self.threads.assignments().clone())));
        self.tasks.push(tokio::spawn(self.host.interfaces().clone().follow()));
        self.tasks.push(tokio::spawn(self.nfs.clone().tick(nfs)));
        self.discovery.start();
    }

    fn start_admin(
        &mut self,
        socket: AdminSocket,
        config: &ServerConfig,
        observer: Arc<Observer>,
        reload: mpsc::Sender<ReloadWish>,
    ) -> Result<(), StartError> {
        let tokens = Arc::new(Tokens::open(config.state_folder()).map_err(StartError)?);
        self.admin = socket.address();
        if let Some(AdminAddress::Tcp(address)) = &self.admin {
            self.pointer = Pointer::create(*address, config.state_folder());
            if !address.ip().is_loopback() {
                tracing::warn!(%address, "the admin API is reachable from other machines and \
                                          transfers its token unencrypted; listen on a local \
                                          address behind a TLS proxy");
            }
        }
        let Listener { server, connections, .. } = self.listener.clone();
        let nfs = self.nfs.server.clone();
        let files = observer.files.clone();
        let drain = Drain::new(server.clone(), nfs.clone(), files.clone(), connections.clone());
        let drain = Arc::new(drain);
        self.tasks.push(tokio::spawn(drain.clone().follow()));
        let state = admin::AdminState {
            server,
            nfs,
            files,
            connections,
            interfaces: self.host.interfaces().clone(),
            port: self.listening.first().map_or(0, SocketAddr::port),
            caches: self.caches.clone(),
            features: observer.features.clone(),
            observer,
            shares: self.shares.clone(),
            limits: self.limits.clone(),
            drain,
            reload,
            started: Instant::now(),
            tokens,
            spaces: Arc::default(),
            permits: admin::AdminState::fresh_permits(),
        };
        self.tasks.push(tokio::spawn(admin::serve(socket, state)));
        Ok(())
    }

    /// Applies a new configuration. Connections and sessions stay, except sessions whose logon the
    /// new configuration refuses. Listening addresses cannot change while the server runs.
    ///
    /// # Errors
    /// [`StartError`]: the old configuration stays in force.
    pub fn reload(&self, config: &ServerConfig, extra: &Users) -> Result<(), StartError> {
        let users = load_users(config, extra)?;
        let present = self.listener.server.config();
        self.limits.check(&config.shares).map_err(StartError)?;
        let now = SmbHost::now(&*self.host).instant;
        let (names, backend) = (self.host.names(), &*self.backend);
        let (caches, limits) = (&*self.caches, &*self.limits);
        let carried = CarriedState { backend, caches, names, limits, now };
        let (next, meters) = smb_config(config, present.server_guid, Some(&present), &carried)?;
        let tls = load_tls(config)?;
        let tickets = load_tickets(config)?;
        let plan = descriptor_plan(config)?;
        let (wanted, looks_up_clients) = WantedNames::of(config);
        // This is the last step that can fail. Names of the present configuration count against the
        // limit until `settle` removes them.
        self.host.names().prepare(&wanted, looks_up_clients).map_err(StartError)?;
        self.host.configure(users, config.guest.clone());
        self.host.set_tls(tls);
        self.host.set_tickets(tickets, config.state_folder());
        self.limits.apply(&config.shares, meters, now);
        self.host.interfaces().configure(config.multichannel.addresses.clone());
        self.listener.connections.configure(plan.connections, config.patience);
        let memory = self.listener.connections.memory();
        memory.ledger().set_max(config.request_memory_bytes);
        self.listener.server.files.opens().set_max(plan.opens);
        self.nfs.configure(config, &next);
        self.shares.set(&config.shares);
        self.listener.server.configure(next);
        self.discovery.configure(config.discovery.clone());
        self.host.names().settle(&wanted);
        for connection in self.listener.server.end_refused_sessions() {
            self.listener.connections.cut(connection);
        }
        if let Some(audit) = &self.audit {
            audit.reopen();
        }
        let meter = self.listener.server.files.meter();
        self.traces.configure(config.log.traces.clone(), config.log.slow_request, meter);
        Ok(())
    }

    /// Waits until an administrator requests a reload through the admin API.
    pub async fn reload_wish(&self) -> ReloadWish {
        match self.reloads.lock().await.recv().await {
            Some(wish) => wish,
            // The admin API does not run, so no request can arrive.
            None => std::future::pending().await,
        }
    }

    /// Addresses on which SMB listens.
    #[must_use]
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// Addresses on which NFS listens.
    #[must_use]
    pub fn listening_nfs(&self) -> &[SocketAddr] {
        &self.nfs.listening
    }

    /// Whether NFS exports the share. A share that the configuration exports is left out if its
    /// backend has no persistent handles.
    #[must_use]
    pub fn is_exported(&self, share: &str) -> bool {
        self.nfs.server.config().export_named(share.as_bytes()).is_some()
    }

    /// Address of the admin API, if it is enabled.
    #[must_use]
    pub fn admin(&self) -> Option<&AdminAddress> {
        self.admin.as_ref()
    }

    /// The limits of all shares, for inspection and changes.
    #[must_use]
    pub fn limits(&self) -> &Arc<LimitsBook> {
        &self.limits
    }

    /// The heartbeats of the protocol ticks, for the supervisor.
    #[must_use]
    pub fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// Returns a function that formats a one-line status for the service manager.
    pub fn summary(&self) -> impl Fn() -> String + Send + 'static {
        let (connections, server) =
            (self.listener.connections.clone(), self.listener.server.clone());
        let nfs = if self.nfs.listening.is_empty() { "" } else { " and NFS" };
        move || {
            let (open, shares) = (connections.open_count(), server.config().shares.len());
            let what = if shares == 1 { "share" } else { "shares" };
            format!("Serving {shares} {what} over SMB{nfs}; connections: {open}")
        }
    }

    /// Stops the server: accepts no more connections, recalls write caches from clients, waits a
    /// bounded time for requests in flight, and closes all connections.
    pub async fn stop(self) {
        self.discovery.stop().await;
        for task in &self.tasks {
            task.abort();
        }
        flushed(&self.listener.server.files, FLUSH_WITHIN).await;
        let connections = &self.listener.connections;
        // One second more than the deadline that each connection sets for itself.
        let within = END_WITHIN + Duration::from_secs(1);
        if tokio::time::timeout(within, connections.stop()).await.is_err() {
            tracing::warn!(
                remaining = connections.open_count(),
                "the server stops with connections that did not end before the deadline"
            );
        }
        if !self.workers.finish(within).await {
            tracing::warn!(
                "the server stops with unfinished file system calls: a disk does not respond"
            );
        }
        write_credits(&self.host, &self.limits).await;
        usual_networks::write(&self.listener.server, &self.usual_networks).await;
        self.listener.server.abandon_persistent_opens();
        drop(self.pointer);
    }
}

/// Creates the admin API's listening socket from the passed sockets or the configured address.
fn admin_socket(
    address: Option<&AdminAddress>,
    passed: Vec<std::net::TcpListener>,
) -> Result<Option<AdminSocket>, StartError> {
    match address {
        Some(AdminAddress::Unix(path)) if passed.is_empty() => {
            let socket = AdminSocket::unix(path);
            let wrong = |error| {
                format!("cannot listen on {}: {error}; choose another path", path.display())
            };
            socket.map(Some).map_err(|error| StartError(wrong(error)))
        }
        Some(AdminAddress::Tcp(address)) => {
            Ok(sockets(&[*address], passed)?.into_iter().next().map(AdminSocket::Tcp))
        }
        _ => Ok(sockets(&[], passed)?.into_iter().next().map(AdminSocket::Tcp)),
    }
}

/// Registers the features that an administrator can switch at run time.
fn features(caches: &Arc<MetadataCaches>) -> FeatureRegistry {
    let (mut features, caches) = (FeatureRegistry::default(), caches.clone());
    features.provide(METADATA_CACHE, move || {
        let switch = |(share, cache)| (share, Box::new(CacheSwitch(cache)) as Box<dyn Switch>);
        caches.all().into_iter().map(switch).collect()
    });
    features
}

/// Run-time switch of one share's metadata cache.
struct CacheSwitch(Arc<CachedVfs>);

impl Switch for CacheSwitch {
    fn is_on(&self) -> bool {
        self.0.is_enabled()
    }

    fn set(&self, on: bool) {
        self.0.set_enabled(on);
    }
}

/// Calls the SMB server's tick once a second.
async fn tick(listener: Listener<smb::SmbConn>, beat: ActivityCounter) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        seconds.tick().await;
        listener.server.handle_tick(SmbHost::now(&*listener.host));
        beat.beats();
    }
}

/// Calls the share limits' tick once a second.
async fn tick_limits(host: Arc<ProcessHost>, limits: Arc<LimitsBook>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        seconds.tick().await;
        limits.handle_tick(SmbHost::now(&*host).instant);
    }
}

/// Writes burst credits to disk at intervals.
async fn keep_credits(host: Arc<ProcessHost>, limits: Arc<LimitsBook>) {
    let mut times = tokio::time::interval(KEPT_EVERY);
    loop {
        times.tick().await;
        write_credits(&host, &limits).await;
    }
}

/// Writes burst credits within [`KEPT_WITHIN`]. Credits that are not written in time are lost, to
/// the advantage of the shares.
async fn write_credits(host: &ProcessHost, limits: &Arc<LimitsBook>) {
    let (limits, now) = (limits.clone(), SmbHost::now(host).instant);
    let written = tokio::task::spawn_blocking(move || limits.keep_credits(now));
    if tokio::time::timeout(KEPT_WITHIN, written).await.is_err() {
        tracing::warn!("burst credits of shares were not written: the disk does not respond");
    }
}

fn discovery_of(
    config: &ServerConfig,
    server: &Arc<SmbServer>,
    host: &ProcessHost,
) -> Arc<Discovery> {
    let (server, interfaces) = (server.clone(), host.interfaces().clone());
    Arc::new(Discovery::new(server, interfaces, config.discovery.clone()))
}

fn connections_of(config: &ServerConfig, max: usize) -> Arc<ConnectionTable> {
    let connections = ConnectionTable::new(max);
    connections.configure(max, config.patience);
    connections.memory().ledger().set_max(config.request_memory_bytes);
    Arc::new(connections)
}

/// Starts one thread per CPU, but at least two: with a single CPU the kernel scheduler divides the
/// time between two threads better than one thread can.
fn threads() -> Result<ConnectionThreads, StartError> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    ConnectionThreads::start(cpus.max(2)).map_err(|error| {
        StartError(format!(
            "cannot start connection threads: {error}; raise TasksMax or LimitNPROC"
        ))
    })
}

/// Rebalances connections between threads at intervals.
async fn even_out(assignments: Arc<ThreadAssignments>) {
    let mut times = tokio::time::interval(EVEN_OUT_EVERY);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        times.tick().await;
        assignments.even_out();
    }
}

/// Calls the metadata caches' tick once a second.
async fn tick_caches(caches: Arc<MetadataCaches>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        seconds.tick().await;
        let caches = caches.clone();
        if tokio::task::spawn_blocking(move || caches.tick()).await.is_err() {
            tracing::error!(
                "a defect of this server: the periodic work of a metadata cache panicked"
            );
        }
    }
}

/// Opens the journal of persistent handles if any share is continuously available.
fn open_journal(config: &ServerConfig, host: &ProcessHost) -> Result<Records, StartError> {
    if !config.shares.iter().any(|share| share.continuously_available) {
        return Ok(Records::new());
    }
    let (journal, records) = StateJournal::open(config.state_folder()).map_err(StartError)?;
    host.set_journal(journal);
    Ok(records)
}

/// Opens the journal of NFS client records. Without it clients cannot reclaim their state after a
/// restart.
async fn remember_nfs_clients(config: &ServerConfig, host: &ProcessHost, guid: [u8; 16]) {
    if config.nfs.is_empty() {
        return;
    }
    match StateJournal::open_named(config.state_folder(), "nfs-clients") {
        Ok((journal, records)) => {
            let mut seal = [0; 16];
            host.random(&mut seal);
            if !host.set_nfs_clients(journal, records, NfsIdentity::new(guid, seal)).await {
                tracing::warn!(
                    "the server's NFS identity cannot be stored: file handles are not authenticated; \
                     make the state directory writable, or free its disk"
                );
            }
        }
        Err(error) => tracing::warn!(
            "NFS clients cannot reclaim their state after a restart: {error}; set `state` to a \
             directory of this server's own"
        ),
    }
}

/// Builds the file layer. File handles are authenticated only if the key outlives the process,
/// because handles do.
fn files_of(host: &ProcessHost, workers: &Arc<WorkerPool>, opens_max: u64) -> Files {
    let meter = Arc::new(Meter::new(Box::new(ThreadClock)));
    let files = Files::new(workers.clone()).with_meter(meter);
    files.opens().set_max(opens_max);
    match host.nfs_identity() {
        Some(identity) => files.with_handle_seal(Arc::new(identity.seal())),
        None => files,
    }
}

/// The server's GUID, restored from the journal where possible: clients that reconnect recognise
/// the server by it.
async fn own_guid(host: &ProcessHost, before: Option<Vec<u8>>) -> [u8; 16] {
    if let Some(guid) = before.and_then(|bytes| bytes.try_into().ok()) {
        return guid;
    }
    let mut guid = [0; 16];
    host.random(&mut guid);
    if host.persists_opens() && !host.write_open_record(OWN_GUID, Some(guid.to_vec())).await {
        tracing::warn!(
            "the server's GUID cannot be stored, so it changes at the next start; make the state \
             directory writable, or free its disk"
        );
    }
    guid
}

fn load_tickets(config: &ServerConfig) -> Result<Option<Arc<Judge>>, StartError> {
    let judge = config.kerberos.as_ref().map(Judge::load).transpose().map_err(StartError)?;
    Ok(judge.map(Arc::new))
}

fn load_tls(config: &ServerConfig) -> Result<Option<Arc<rustls::ServerConfig>>, StartError> {
    let files = config.nfs_tls.as_ref().filter(|_| !config.nfs.is_empty());
    files.map(tls::load).transpose().map_err(StartError)
}

/// Builds the host: users, TLS, Kerberos and host name look-up.
fn host_of(config: &ServerConfig, users: Users) -> Result<ProcessHost, StartError> {
    let host = ProcessHost::new(users, config.guest.clone());
    host.set_tls(load_tls(config)?);
    host.set_tickets(load_tickets(config)?, config.state_folder());
    look_up_names(config, &host)?;
    Ok(host)
}

/// Starts the look-up of host names and netgroups that the configuration refers to.
fn look_up_names(config: &ServerConfig, host: &ProcessHost) -> Result<(), StartError> {
    let (wanted, looks_up_clients) = WantedNames::of(config);
    host.names().configure(&wanted, looks_up_clients).map_err(StartError)
}

fn load_users(config: &ServerConfig, extra: &Users) -> Result<Users, StartError> {
    let mut users = Users::load(&config.users).map_err(|e| StartError(e.to_string()))?;
    users.merge(extra);
    Ok(users)
}

/// Returns the passed sockets, or binds one for each address.
fn sockets(
    addresses: &[SocketAddr],
    passed: Vec<std::net::TcpListener>,
) -> Result<Vec<TcpListener>, StartError> {
    if passed.is_empty() {
        return addresses.iter().map(|address| bind(*address, addresses)).collect();
    }
    let taken = passed.into_iter().map(TcpListener::from_std).collect::<Result<_, _>>();
    taken.map_err(|error| StartError(format!("a socket that the service manager passed cannot be used: {error}; check the .socket units")))
}

/// Returns the sockets for SMB and their addresses, which the server advertises from now on.
fn listen_smb(
    config: &ServerConfig,
    passed: Vec<std::net::TcpListener>,
    host: &ProcessHost,
) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), StartError> {
    let sockets = sockets(&config.smb, passed)?;
    let listening: Vec<_> = sockets.iter().filter_map(|s| s.local_addr().ok()).collect();
    host.interfaces().configure(config.multichannel.addresses.clone());
    host.interfaces().set_listening(listening.clone());
    host.interfaces().refresh();
    Ok((sockets, listening))
}

/// Listens on `address`. An IPv6 wildcard excludes IPv4 if one of `others` is IPv4 with the same
/// port.
fn bind(address: SocketAddr, others: &[SocketAddr]) -> Result<TcpListener, StartError> {
    let both = others.iter().any(|other| other.is_ipv4() && other.port() == address.port());
    let bind = || -> std::io::Result<TcpListener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        if address.is_ipv6() && both {
            rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
        }
        socket.bind(address)?;
        socket.listen(ACCEPT_QUEUE)
    };
    bind().map_err(|error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another program uses it; stop that program or choose another port"
            }
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need root or CAP_NET_BIND_SERVICE; choose one above"
            }
            std::io::ErrorKind::AddrNotAvailable => {
                "no interface has the address; choose another one"
            }
            _ => "choose another address",
        };
        StartError(format!("cannot listen on {address}: {error}; {remedy}"))
    })
}

/// The backend, and state of shares that survives a reload.
struct CarriedState<'a> {
    backend: &'a dyn Backend,
    caches: &'a MetadataCaches,
    names: &'a Arc<HostNames>,
    limits: &'a LimitsBook,
    now: Instant,
}

/// Builds the SMB configuration, and the meters of its shares in their order. Unchanged shares keep
/// their volume and with it their open files.
fn smb_config(
    config: &ServerConfig,
    guid: [u8; 16],
    present: Option<&smb::SmbConfig>,
    carried: &CarriedState<'_>,
) -> Result<(smb::SmbConfig, Vec<OpenedMeter>), StartError> {
    let opened = config.shares.iter().map(|share| {
        let same = present.and_then(|p| p.share(&share.name)).and_then(|s| s.volume.clone());
        open_share(share, same.as_ref(), carried)
    });
    let opened: Vec<_> = opened.collect::<Result<_, _>>()?;
    let (shares, meters) = opened.into_iter().unzip();
    let config = smb::SmbConfig {
        server_guid: guid,
        name: config.name.clone(),
        domain: config.workgroup.clone(),
        signing_required: config.signing == SigningSetting::Required,
        ntlm: config.ntlm == Ntlm::On,
        encryption: match config.encryption {
            EncryptionSetting::Off => smb::EncryptionPolicy::Off,
            EncryptionSetting::Offered => smb::EncryptionPolicy::Offered,
            EncryptionSetting::Required => smb::EncryptionPolicy::Required,
        },
        dialect_min: config.dialect_min,
        dialect_max: config.dialect_max,
        io_bytes_max: smb::limits::IO_BYTES_MAX,
        multichannel: smb::MultichannelPolicy {
            enabled: config.multichannel.enabled,
            channels_max: config.multichannel.channels_max,
            dialect_min: config.multichannel.dialect_min,
        },
        shares,
    };
    Ok((config, meters))
}

fn open_share(
    share: &ShareConfig,
    present: Option<&Arc<Volume>>,
    carried: &CarriedState<'_>,
) -> Result<(Arc<SmbShare>, OpenedMeter), StartError> {
    let caches = carried.caches;
    let opened = carried.backend.open(&share.source());
    let OpenedBackend { vfs, snapshots, usage } =
        opened.map_err(|error| StartError(format!("share {}: {error}", share.name)))?;
    let case = if share.case_sensitive { Case::Sensitive } else { Case::Insensitive };
    let patterns = |of: &[String]| NamePatterns::new(of.iter().map(String::as_str), case);
    let options = VolumeOptions {
        snapshots,
        frozen: false,
        streams: share.named_streams,
        read_only: share.read_only,
        case,
        file_mode: share.file_mode,
        directory_mode: share.directory_mode,
        hidden_names: patterns(&share.hidden_names),
        veto_names: patterns(&share.veto_names),
        hide_unreadable: share.hide_unreadable,
        absolute_links: share.absolute_links,
        device_nodes: share.device_nodes,
        size_limit_bytes: share.size_limit_bytes,
        limits: Some(carried.limits.of(share, carried.now)),
    };
    let mut volume = Volume::new(with_latency(share, vfs), options);
    // A share on the same directory must keep the backend that its open files belong to. The path
    // alone does not prove this: another directory may stand there by now.
    let same = present.filter(|present| present.has_same_root(&volume));
    let meter = OpenedMeter { meter: usage, is_other_tree: same.is_none() };
    if let Some(same) = same {
        volume = same.with_options(volume.options);
        caches.configure(&share.name, share.metadata_cache_bytes);
        if volume.features().follows_links == share.show_symlinks {
            tracing::warn!(
                share = share.name,
                "a change of show_symlinks takes effect after a restart"
            );
        }
    } else {
        let cache = caches.over(&share.name, volume.vfs, share.metadata_cache_bytes);
        volume = Volume::cached(cache, volume.options);
    }
    let share = SmbShare {
        name: share.name.clone(),
        comment: share.comment.clone(),
        volume: Some(Arc::new(volume)),
        encryption_required: share.encryption_required,
        admission: admission(share, carried.names),
        access_based_enumeration: share.hide_unreadable,
        posix: share.posix,
        time_machine: share.time_machine,
        time_machine_max_bytes: share.time_machine_max_bytes,
        listed: share.listed,
        forced_user: share
            .force_user
            .as_deref()
            .map(|user| forced_user(share, user))
            .transpose()?,
        forced_group: share.force_group.as_deref().map(|g| forced_group(share, g)).transpose()?,
        continuously_available: share.continuously_available,
        always_stable: share.smb_stable == SmbStable::Always,
    };
    Ok((Arc::new(share), meter))
}

/// Returns the backend, or for measurements one with added latency.
fn with_latency(share: &ShareConfig, vfs: Arc<dyn Vfs>) -> Arc<dyn Vfs> {
    if share.backend_latency_us == 0 {
        return vfs;
    }
    let latency = Duration::from_micros(share.backend_latency_us);
    tracing::warn!(
        share = share.name,
        ?latency,
        "backend_latency_us delays each file system call of this share; remove it outside of \
         measurements"
    );
    Arc::new(vfs::DelayedVfs::new(vfs, Arc::new(move || std::thread::sleep(latency))))
}

fn admission(share: &ShareConfig, names: &Arc<HostNames>) -> Admission {
    let accounts = |of: &[String]| Accounts(of.to_vec());
    let network =
        |rule: &HostRule| if let HostRule::Network(one) = rule { Some(*one) } else { None };
    let hosts = &share.hosts_allowed;
    let named: Vec<_> = hosts.iter().filter(|rule| network(rule).is_none()).cloned().collect();
    let named = (!named.is_empty()).then(|| names.of_rules(named));
    Admission {
        users: share.users.as_deref().map(accounts),
        denied_users: accounts(&share.denied_users),
        read_users: accounts(&share.read_users),
        write_users: accounts(&share.write_users),
        hosts_allowed: hosts.iter().filter_map(network).collect(),
        named_hosts_allowed: named,
        hosts_denied: share.hosts_denied.clone(),
        guests: share.guest_ok,
    }
}

fn forced_user(share: &ShareConfig, user: &str) -> Result<Arc<Caller>, StartError> {
    system_users::caller_of(user).ok_or_else(|| {
        StartError(format!(
            "share {}: there is no system user {user}; create it, or remove force_user",
            share.name
        ))
    })
}

fn forced_group(share: &ShareConfig, group: &str) -> Result<u32, StartError> {
    system_users::group_number(group).ok_or_else(|| {
        StartError(format!(
            "share {}: there is no system group {group}; create it, or remove force_group",
            share.name
        ))
    })
}

/// Divides the descriptors of RLIMIT_NOFILE among connections, opens and the process itself.
fn descriptor_plan(config: &ServerConfig) -> Result<DescriptorPlan, StartError> {
    let limit = descriptors::raise_limit();
    let ServerConfig { connections_max, workers, shares, .. } = config;
    let plan = DescriptorPlan::new(limit, *connections_max, *workers, shares.len());
    plan.check().map_err(StartError)?;
    let DescriptorPlan { connections, opens, .. } = plan;
    if plan.is_small() {
        tracing::warn!(
            limit,
            connections,
            opens,
            "the limit of open files leaves few for connections and clients' files; {}",
            descriptors::REMEDY
        );
    } else if connections < *connections_max && *connections_max != CONNECTIONS_MAX {
        tracing::warn!(
            limit,
            connections,
            connections_max,
            "the limit of open files permits fewer connections than connections_max; {}",
            descriptors::REMEDY
        );
    }
    Ok(plan)
}

#[cfg(test)]
mod tests;
