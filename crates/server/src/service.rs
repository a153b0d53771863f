//! The server as a whole: start, reload, stop.

use crate::admin;
use crate::config::{Config, Encryption, ShareConfig, Signing};
use crate::connections::Connections;
use crate::features::{Features, METADATA_CACHE, Switch};
use crate::host::ProcessHost;
use crate::journal::{Journal, Records};
use crate::limits::END_WITHIN;
use crate::listener::Listener;
use crate::metadata_cache::MetadataCaches;
use crate::nfs_identity::NfsIdentity;
use crate::nfs_service::NfsService;
use crate::system_users;
use crate::tls;
use crate::users::Users;
use crate::workers::Pool;
use files::{Caller, Files, NamePatterns, Volume, VolumeOptions};
use smb::{Accounts, Admission, Host, Server, Share};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use vfs::{Case, Snapshots, Vfs};
use vfs_cache::CachedVfs;
use vfs_local::{LocalSnapshots, LocalVfs};

/// Connections that the system holds until they are taken.
const ACCEPT_QUEUE: u32 = 4096;
/// The number in the journal that no open has: the server's own GUID.
const OWN_GUID: u64 = 0;

/// Why the server cannot start; says what to do.
#[derive(Debug)]
pub struct StartError(pub String);

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// A running server.
pub struct Service {
    listener: Listener<smb::Conn>,
    host: Arc<ProcessHost>,
    listening: Vec<SocketAddr>,
    admin: Option<SocketAddr>,
    caches: Arc<MetadataCaches>,
    nfs: NfsService,
    workers: Arc<Pool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Service {
    /// Binds all addresses and begins to serve. `extra` are users beside
    /// those in the file.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(config: &Config, extra: &Users) -> Result<Self, StartError> {
        raise_descriptor_limit();
        let users = load_users(config, extra)?;
        let host = Arc::new(ProcessHost::new(users, config.guest.clone()));
        host.set_tls(load_tls(config)?);
        let mut records = open_journal(config, &host)?;
        let guid = own_guid(&host, records.remove(&OWN_GUID)).await;
        remember_nfs_clients(config, &host, guid).await;
        let workers = Arc::new(Pool::new(config.workers));
        let files = Arc::new(files_of(&host, &workers));
        let caches = Arc::<MetadataCaches>::default();
        let smb_config = smb_config(config, guid, None, &caches)?;
        let server = Server::new(smb_config, files.clone(), host.clone());
        server.restore(&records);
        let connections = Arc::new(Connections::new(config.connections_max));
        connections.configure(config.connections_max, config.patience);
        let sockets = config
            .smb
            .iter()
            .map(|address| bind(*address, &config.smb))
            .collect::<Result<Vec<_>, _>>()?;
        let listening: Vec<SocketAddr> =
            sockets.iter().filter_map(|s| s.local_addr().ok()).collect();
        host.interfaces().configure(config.multichannel.addresses.clone());
        host.interfaces().set_listening(listening.clone());
        host.interfaces().refresh();
        let nfs = NfsService::new(config, &server.config(), &files, &host, &connections);
        let listener = Listener::new(server, host.clone(), connections);
        let (admin, tasks) = (None, Vec::new());
        let mut service =
            Self { listener, host: host.clone(), listening, admin, caches, nfs, workers, tasks };
        if let Some(address) = config.admin {
            service.start_admin(address, files)?;
        }
        service.tasks.push(tokio::spawn(tick(service.listener.clone())));
        service.tasks.push(tokio::spawn(tick_caches(service.caches.clone())));
        service.tasks.push(tokio::spawn(host.interfaces().clone().follow()));
        for socket in sockets {
            service.tasks.push(tokio::spawn(service.listener.clone().accept(socket)));
        }
        service.tasks.push(tokio::spawn(service.nfs.clone().tick()));
        for address in &config.nfs {
            let socket = bind(*address, &config.nfs)?;
            service.nfs.listening.extend(socket.local_addr());
            service.tasks.push(tokio::spawn(service.nfs.clone().accept(socket)));
        }
        Ok(service)
    }

    fn start_admin(&mut self, address: SocketAddr, files: Arc<Files>) -> Result<(), StartError> {
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "the admin API has no password, and others can reach this address");
        }
        let socket = bind(address, &[])?;
        self.admin = socket.local_addr().ok();
        let Listener { server, connections, .. } = self.listener.clone();
        let interfaces = self.host.interfaces().clone();
        let port = self.listening.first().map_or(0, SocketAddr::port);
        let (caches, nfs) = (self.caches.clone(), self.nfs.server.clone());
        let features = Arc::new(features(&caches));
        let state =
            admin::State { server, nfs, files, connections, interfaces, port, caches, features };
        self.tasks.push(tokio::spawn(admin::serve(socket, state)));
        Ok(())
    }

    /// Takes a new configuration; connections and sessions stay. Addresses
    /// cannot be changed while running.
    ///
    /// # Errors
    /// [`StartError`]: the old configuration stays in force.
    pub fn reload(&self, config: &Config, extra: &Users) -> Result<(), StartError> {
        let users = load_users(config, extra)?;
        let present = self.listener.server.config();
        let next = smb_config(config, present.server_guid, Some(&present), &self.caches)?;
        let tls = load_tls(config)?;
        self.host.configure(users, config.guest.clone());
        self.host.set_tls(tls);
        self.host.interfaces().configure(config.multichannel.addresses.clone());
        self.listener.connections.configure(config.connections_max, config.patience);
        self.nfs.configure(config, &next);
        self.listener.server.configure(next);
        Ok(())
    }

    /// Addresses that SMB is served on.
    #[must_use]
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// Addresses that NFS is served on.
    #[must_use]
    pub fn listening_nfs(&self) -> &[SocketAddr] {
        &self.nfs.listening
    }

    /// Address of the admin API.
    #[must_use]
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Stops accepting, lets what is under way finish within a time, and ends.
    pub async fn stop(self) {
        for task in &self.tasks {
            task.abort();
        }
        let connections = &self.listener.connections;
        // A moment more than each connection gives itself.
        let within = END_WITHIN + Duration::from_secs(1);
        if tokio::time::timeout(within, connections.stop()).await.is_err() {
            tracing::warn!(left = connections.open_count(), "connections did not end in time");
        }
        if !self.workers.finish(within).await {
            tracing::warn!("some calls still wait for a disk");
        }
        self.listener.server.leave();
    }
}

/// What can be switched while serving.
fn features(caches: &Arc<MetadataCaches>) -> Features {
    let (mut features, caches) = (Features::default(), caches.clone());
    features.provide(METADATA_CACHE, move || {
        let switch = |(share, cache)| (share, Box::new(CacheSwitch(cache)) as Box<dyn Switch>);
        caches.all().into_iter().map(switch).collect()
    });
    features
}

/// The cache of a share, to be switched.
struct CacheSwitch(Arc<CachedVfs>);

impl Switch for CacheSwitch {
    fn is_on(&self) -> bool {
        self.0.is_enabled()
    }

    fn set(&self, on: bool) {
        self.0.set_enabled(on);
    }
}

/// Tells the protocol layer that time passes.
async fn tick(listener: Listener<smb::Conn>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        seconds.tick().await;
        listener.server.handle_tick(Host::now(&*listener.host));
    }
}

/// Tells the caches that time passes.
async fn tick_caches(caches: Arc<MetadataCaches>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        seconds.tick().await;
        let caches = caches.clone();
        if tokio::task::spawn_blocking(move || caches.tick()).await.is_err() {
            tracing::error!("a cache's tick failed");
        }
    }
}

/// What outlived the last server, where a share asks for that.
fn open_journal(config: &Config, host: &ProcessHost) -> Result<Records, StartError> {
    if !config.shares.iter().any(|share| share.continuously_available) {
        return Ok(Records::new());
    }
    let (journal, records) = Journal::open(config.state_folder()).map_err(StartError)?;
    host.set_journal(journal);
    Ok(records)
}

/// Which NFS clients were here survives the server; without that they open their files anew.
async fn remember_nfs_clients(config: &Config, host: &ProcessHost, guid: [u8; 16]) {
    if config.nfs.is_empty() {
        return;
    }
    match Journal::open_named(config.state_folder(), "nfs-clients") {
        Ok((journal, records)) => {
            let mut seal = [0; 16];
            host.random(&mut seal);
            if !host.set_nfs_clients(journal, records, NfsIdentity::new(guid, seal)).await {
                tracing::warn!(
                    "what NFS clients know the server by cannot be written down; file handles are not sealed"
                );
            }
        }
        Err(error) => tracing::warn!(
            "NFS clients will not find their locks after a restart: {error}; set `state` to a directory of this server's own"
        ),
    }
}

/// Handles are sealed where the seal's key outlives the process, as handles do.
fn files_of(host: &ProcessHost, workers: &Arc<Pool>) -> Files {
    let files = Files::new(workers.clone());
    match host.nfs_identity() {
        Some(identity) => files.with_handle_seal(Arc::new(identity.seal())),
        None => files,
    }
}

/// The server's GUID: the one of before, for who comes back must find it again.
async fn own_guid(host: &ProcessHost, before: Option<Vec<u8>>) -> [u8; 16] {
    if let Some(guid) = before.and_then(|bytes| bytes.try_into().ok()) {
        return guid;
    }
    let mut guid = [0; 16];
    host.random(&mut guid);
    if host.keeps_opens() && !host.keep_open(OWN_GUID, Some(guid.to_vec())).await {
        tracing::warn!("the server's GUID cannot be written down; the next one has another");
    }
    guid
}

fn load_tls(config: &Config) -> Result<Option<Arc<rustls::ServerConfig>>, StartError> {
    let files = config.nfs_tls.as_ref().filter(|_| !config.nfs.is_empty());
    files.map(tls::load).transpose().map_err(StartError)
}

fn load_users(config: &Config, extra: &Users) -> Result<Users, StartError> {
    let mut users = Users::load(&config.users).map_err(|e| StartError(e.to_string()))?;
    users.merge(extra);
    Ok(users)
}

/// Listens on `address`; on all of IPv6 without IPv4 where one of `others` is
/// IPv4 with the same port.
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
                "another server has it; stop that one or choose another port"
            }
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need root or CAP_NET_BIND_SERVICE; choose one above"
            }
            std::io::ErrorKind::AddrNotAvailable => "this machine does not have the address",
            _ => "choose another address",
        };
        StartError(format!("cannot listen on {address}: {error}; {remedy}"))
    })
}

/// What the SMB layer is configured with. Shares that did not change keep
/// their volume, and with it their open files.
fn smb_config(
    config: &Config,
    guid: [u8; 16],
    present: Option<&smb::Config>,
    caches: &MetadataCaches,
) -> Result<smb::Config, StartError> {
    let shares = config.shares.iter().map(|share| {
        let same = present.and_then(|p| p.share(&share.name)).and_then(|s| s.volume.clone());
        open_share(share, same.as_ref(), caches)
    });
    Ok(smb::Config {
        server_guid: guid,
        name: config.name.clone(),
        domain: config.workgroup.clone(),
        signing_required: config.signing == Signing::Required,
        encryption: match config.encryption {
            Encryption::Off => smb::Encryption::Off,
            Encryption::Offered => smb::Encryption::Offered,
            Encryption::Required => smb::Encryption::Required,
        },
        dialect_min: config.dialect_min,
        dialect_max: config.dialect_max,
        io_bytes_max: smb::limits::IO_BYTES_MAX,
        multichannel: smb::Multichannel {
            enabled: config.multichannel.enabled,
            channels_max: config.multichannel.channels_max,
            dialect_min: config.multichannel.dialect_min,
        },
        shares: shares.collect::<Result<_, _>>()?,
    })
}

fn open_share(
    share: &ShareConfig,
    present: Option<&Arc<Volume>>,
    caches: &MetadataCaches,
) -> Result<Arc<Share>, StartError> {
    let case = if share.case_sensitive { Case::Sensitive } else { Case::Insensitive };
    let patterns = |of: &[String]| NamePatterns::new(of.iter().map(String::as_str), case);
    let snapshots = share.snapshots.as_ref().map(|snapshots| {
        let place = snapshots.place(&share.path, !share.show_symlinks);
        let place = place.map_err(|e| StartError(format!("share {}: {e}", share.name)))?;
        Ok(Arc::new(LocalSnapshots::new(place)) as Arc<dyn Snapshots>)
    });
    let options = VolumeOptions {
        snapshots: snapshots.transpose()?,
        frozen: false,
        streams: share.named_streams,
        read_only: share.read_only,
        case,
        file_mode: share.file_mode,
        directory_mode: share.directory_mode,
        hidden_names: patterns(&share.hidden_names),
        veto_names: patterns(&share.veto_names),
        hide_unreadable: share.hide_unreadable,
        size_limit_bytes: share.size_limit_bytes,
    };
    let follows = !share.show_symlinks;
    let open = || LocalVfs::open_with(&share.path, follows).map(|v| Arc::new(v) as Arc<dyn Vfs>);
    let vfs = open().map_err(|e| StartError(format!("share {}: {e}", share.name)))?;
    let mut volume = Volume { vfs, options };
    // Of the same directory as before open files must be seen. Another one may
    // stand at its path by now.
    if let Some(same) = present.filter(|present| present.is_same_place(&volume)) {
        volume.vfs = same.vfs.clone();
        caches.configure(&share.name, share.metadata_cache_bytes);
        if volume.features().follows_links != follows {
            tracing::warn!(share = share.name, "show_symlinks is in force after a restart");
        }
    } else {
        volume.vfs = caches.over(&share.name, volume.vfs, share.metadata_cache_bytes);
    }
    Ok(Arc::new(Share {
        name: share.name.clone(),
        comment: share.comment.clone(),
        volume: Some(Arc::new(volume)),
        encryption_required: share.encryption_required,
        admission: admission(share),
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
    }))
}

fn admission(share: &ShareConfig) -> Admission {
    let accounts = |of: &[String]| Accounts(of.to_vec());
    Admission {
        users: share.users.as_deref().map(accounts),
        denied_users: accounts(&share.denied_users),
        read_users: accounts(&share.read_users),
        write_users: accounts(&share.write_users),
        hosts_allowed: share.hosts_allowed.clone(),
        hosts_denied: share.hosts_denied.clone(),
        guests: share.guest_ok,
    }
}

fn forced_user(share: &ShareConfig, user: &str) -> Result<Arc<Caller>, StartError> {
    system_users::caller_of(user).ok_or_else(|| {
        StartError(format!(
            "share {}: there is no system user {user}; make one, or take force_user away",
            share.name
        ))
    })
}

fn forced_group(share: &ShareConfig, group: &str) -> Result<u32, StartError> {
    system_users::group_number(group).ok_or_else(|| {
        StartError(format!(
            "share {}: there is no system group {group}; make one, or take force_group away",
            share.name
        ))
    })
}

/// Every connection and every open file has a descriptor.
fn raise_descriptor_limit() {
    let resource = rustix::process::Resource::Nofile;
    let mut limit = rustix::process::getrlimit(resource);
    limit.current = limit.maximum;
    if let Err(errno) = rustix::process::setrlimit(resource, limit) {
        tracing::warn!(%errno, "the limit of open files could not be raised");
    }
}
