//! The NFS service of the process: its listener and its configuration.

use crate::accounts::names::{HostNames, RuleVerdict};
use crate::config::{
    HostRule, NfsClients, NfsSquash, NfsStable, NfsTls, ServerConfig, ShareConfig,
};
use crate::conn::connections::ConnectionTable;
use crate::conn::listener::Listener;
use crate::conn::threads::ThreadAssignments;
use crate::host::ProcessHost;
use crate::supervisor::ActivityCounter;
use files::{Files, VolumeId};
use meter::{Meter, ShareId};
use nfs::{
    ClientTerms, Export, ExportTerms, ExportedVolume, HostFilter, HostVerdict, NfsConn, NfsHost,
    PseudoTree, Squash,
};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// The running NFS service.
#[derive(Clone)]
pub struct NfsService {
    /// The protocol layer.
    pub server: Arc<nfs::NfsServer>,
    /// Listening addresses.
    pub listening: Vec<SocketAddr>,
    listener: Listener<NfsConn>,
}

/// The host rules of a share (`hosts_allowed`, `hosts_denied`).
#[derive(Debug)]
struct Hosts(Arc<smb::SmbShare>);

impl HostFilter for Hosts {
    fn verdict(&self, peer: IpAddr) -> HostVerdict {
        self.0.admission.admits_host(peer).map_or(HostVerdict::Unknown, HostVerdict::from)
    }
}

impl NfsService {
    /// Creates the service for the shares of the SMB configuration, without sockets yet.
    pub fn new(
        config: &ServerConfig,
        shares: &smb::SmbConfig,
        files: &Arc<Files>,
        host: &Arc<ProcessHost>,
        connections: &Arc<ConnectionTable>,
        assignments: &Arc<ThreadAssignments>,
    ) -> Self {
        let server = nfs::NfsServer::new(
            nfs_config(config, shares, host, files.meter()),
            files.clone(),
            host.clone(),
        );
        let (host, connections, assignments) =
            (host.clone(), connections.clone(), assignments.clone());
        let meter = files.meter().clone();
        let listener = Listener::new(server.clone(), host, connections, assignments, meter);
        Self { server, listening: Vec::new(), listener }
    }

    /// Applies a new configuration.
    pub fn configure(&self, config: &ServerConfig, shares: &smb::SmbConfig) {
        self.server.configure(nfs_config(
            config,
            shares,
            &self.listener.host,
            self.server.files.meter(),
        ));
    }

    /// Calls the NFS server's tick once a second.
    pub async fn tick(self, beat: ActivityCounter) {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            self.server.handle_tick(NfsHost::now(&*self.listener.host));
            beat.beats();
        }
    }

    /// Accepts connections until the task is dropped.
    pub async fn accept(self, socket: TcpListener) {
        self.listener.accept(socket).await;
    }
}

fn nfs_config(
    config: &ServerConfig,
    shares: &smb::SmbConfig,
    host: &ProcessHost,
    meter: &Meter,
) -> nfs::NfsConfig {
    let mut exports: Vec<Arc<Export>> = Vec::new();
    for share in config.shares.iter().filter(|share| share.is_exported()) {
        let taken = |id| exports.iter().any(|export| export.id == id);
        let counted = meter.register(&share.name);
        if let Some(export) = export_of(config, share, (shares, host), counted, taken) {
            exports.push(Arc::new(export));
        }
    }
    let guid = host.nfs_identity().map_or(shares.server_guid, |identity| identity.guid);
    let guid: String = guid.iter().map(|byte| format!("{byte:02x}")).collect();
    let owner = format!("anabranch {guid}").into_bytes();
    let offers_tls = host.tls().is_some();
    let states_max = nfs::limits::STATES_MAX;
    let tree = tree_of(config, &exports);
    nfs::NfsConfig { exports, tree, lease: config.nfs_lease, owner, offers_tls, states_max }
}

fn export_of(
    config: &ServerConfig,
    share: &ShareConfig,
    (shares, host): (&smb::SmbConfig, &ProcessHost),
    counted: ShareId,
    taken: impl Fn(VolumeId) -> bool,
) -> Option<Export> {
    let served = shares.share(&share.name)?;
    let volume = match ExportedVolume::new(served.volume.clone()?) {
        Ok(volume) => volume,
        Err(error) => {
            tracing::error!(share = share.name, %error, "a share is not exported over NFS");
            return None;
        }
    };
    let mut id = volume_id(&share.name);
    while taken(id) || id == VolumeId(0) {
        id = VolumeId(id.0.wrapping_add(1));
    }
    let (clients, names) = (share.nfs_clients.iter(), host.names());
    Some(Export {
        id,
        name: share.name.clone().into_bytes(),
        volume,
        terms: ExportTerms {
            read_only: false,
            squash: squash_of(share.nfs_squash),
            anonymous: (share.nfs_anonuid, share.nfs_anongid),
        },
        clients: clients.map(|clients| terms_of(share, clients, names)).collect(),
        hosts: Arc::new(Hosts(served.clone())),
        tls_required: share.nfs_tls == NfsTls::Required,
        reserved_ports: config.requires_reserved_port(share),
        is_stable: share.nfs_stable == NfsStable::Always,
        counted,
    })
}

/// The pseudo file system by the shares' paths, if `nfs_paths` enables it.
fn tree_of(config: &ServerConfig, exports: &[Arc<Export>]) -> PseudoTree {
    if !config.nfs_paths {
        return PseudoTree::default();
    }
    let path_of = |(at, export): (usize, &Arc<Export>)| {
        let share = config.shares.iter().find(|share| share.name.as_bytes() == export.name)?;
        Some((at, share.path.as_os_str().as_bytes()))
    };
    PseudoTree::new(exports.iter().enumerate().filter_map(path_of))
}

fn squash_of(squash: NfsSquash) -> Squash {
    match squash {
        NfsSquash::All => Squash::All,
        NfsSquash::None => Squash::None,
        NfsSquash::Root => Squash::Root,
    }
}

/// The clients of one `nfs_clients` entry.
#[derive(Debug)]
struct RuleFilter {
    rule: HostRule,
    names: Arc<HostNames>,
}

impl HostFilter for RuleFilter {
    fn verdict(&self, peer: IpAddr) -> HostVerdict {
        match self.names.is_for(&self.rule, peer) {
            RuleVerdict::Match => HostVerdict::Admitted,
            RuleVerdict::NoMatch => HostVerdict::Refused,
            RuleVerdict::Pending => HostVerdict::Unknown,
            RuleVerdict::Unanswered => HostVerdict::Unanswered,
        }
    }
}

fn terms_of(share: &ShareConfig, clients: &NfsClients, names: &Arc<HostNames>) -> ClientTerms {
    let anonymous = (
        clients.anonuid.unwrap_or(share.nfs_anonuid),
        clients.anongid.unwrap_or(share.nfs_anongid),
    );
    let squash = squash_of(clients.squash.unwrap_or(share.nfs_squash));
    let read_only = !clients.may_write;
    let terms = (!clients.is_refused).then_some(ExportTerms { read_only, squash, anonymous });
    let filter = RuleFilter { rule: clients.hosts.clone(), names: names.clone() };
    ClientTerms { hosts: Arc::new(filter), terms }
}

/// Volume number of a share in file handles: a hash of its name (FNV-1a), so that clients find the
/// share again after a restart. The caller resolves collisions in order.
fn volume_id(name: &str) -> VolumeId {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    VolumeId(name.as_bytes().iter().fold(0x811C_9DC5, step))
}
