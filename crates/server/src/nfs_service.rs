//! NFS in this process: its sockets, and what it is configured with.

use crate::config::{Config, NfsSquash, ShareConfig};
use crate::connections::{Connections, Place};
use crate::host::ProcessHost;
use crate::limits::{ENDED_LINES_MAX, REFUSED_LINES_MAX};
use crate::listener::{message_of, watch_network, why};
use crate::nfs_task::{End, NfsTask};
use crate::quiet::Quiet;
use files::{Files, VolumeId};
use futures_util::FutureExt;
use nfs::{Conn, ConnFacts, Export, Host, HostFilter, Squash};
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// After an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// User and group of who is nobody in particular, as everywhere.
const NOBODY: u32 = 65_534;

/// NFS, as it is served.
#[derive(Clone)]
pub struct NfsService {
    /// The protocol layer.
    pub server: Arc<nfs::Server>,
    /// Addresses that it is served on.
    pub listening: Vec<SocketAddr>,
    host: Arc<ProcessHost>,
    connections: Arc<Connections>,
    quiet: Arc<QuietLines>,
}

/// What clients can make the log say is bounded.
struct QuietLines {
    refused: Quiet,
    ended: Quiet,
}

/// Machines that may reach a share, by the share's own rules.
#[derive(Debug)]
struct Hosts(Arc<smb::Share>);

impl HostFilter for Hosts {
    fn admits(&self, peer: IpAddr) -> bool {
        self.0.admission.admits_host(peer)
    }
}

impl NfsService {
    /// NFS on the shares that SMB serves, without sockets yet.
    pub fn new(
        config: &Config,
        shares: &smb::Config,
        files: &Arc<Files>,
        host: &Arc<ProcessHost>,
        connections: &Arc<Connections>,
    ) -> Self {
        let server =
            nfs::Server::new(nfs_config(config, shares, host), files.clone(), host.clone());
        let (refused, ended) = (Quiet::new(REFUSED_LINES_MAX), Quiet::new(ENDED_LINES_MAX));
        Self {
            server,
            listening: Vec::new(),
            host: host.clone(),
            connections: connections.clone(),
            quiet: Arc::new(QuietLines { refused, ended }),
        }
    }

    /// Takes new shares.
    pub fn configure(&self, config: &Config, shares: &smb::Config) {
        self.server.configure(nfs_config(config, shares, &self.host));
    }

    /// Tells the protocol layer that time passes.
    pub async fn tick(self) {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            self.server.handle_tick(Host::now(&*self.host));
        }
    }

    /// Accepts until the task is dropped.
    pub async fn accept(self, socket: TcpListener) {
        loop {
            match socket.accept().await {
                Ok((stream, peer)) => self.start(stream, peer),
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection; raise LimitNOFILE if descriptors ran out");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn start(&self, stream: TcpStream, peer: SocketAddr) {
        let place = match self.connections.enter(peer.ip()) {
            Ok(place) => place,
            Err(full) => {
                if let Some(unsaid) = self.quiet.refused.says(Host::now(&*self.host).instant) {
                    tracing::warn!(%peer, unsaid, "connection refused: {}", why(full));
                }
                return;
            }
        };
        let Ok(local) = stream.local_addr() else { return };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "TCP_NODELAY");
        }
        if let Err(error) = watch_network(&stream, self.connections.patience().stall) {
            tracing::debug!(%peer, %error, "keep-alive");
        }
        tokio::spawn(self.clone().serve(stream, ConnFacts { id: place.id(), peer, local }, place));
    }

    /// A connection whose invariants are broken ends; no other one notices.
    async fn serve(self, stream: TcpStream, facts: ConnFacts, place: Place) {
        let conn = Conn::new(self.server.clone(), facts);
        let patience = self.connections.patience();
        let task = NfsTask::new(stream, conn, self.host.clone(), place, patience);
        let peer = facts.peer;
        let kind = match AssertUnwindSafe(task.run()).catch_unwind().await {
            Ok(end) => {
                let (kind, what) = kind_of(&end);
                if let Some(what) = what
                    && let Some(unsaid) = self.quiet.ended.says(Host::now(&*self.host).instant)
                {
                    tracing::info!(%peer, what, unsaid, "NFS connection closed: {kind}");
                }
                kind
            }
            Err(panic) => {
                tracing::error!(%peer, what = message_of(&*panic), "connection closed: a defect of this server");
                "defect"
            }
        };
        self.connections.count_end(kind);
    }
}

/// The kind to count, and for what is not usual, what happened.
fn kind_of(end: &End) -> (&'static str, Option<&'static str>) {
    match end {
        End::Closed => ("closed", None),
        // Nothing to be heard of the client: its network ended, or its power.
        End::Network(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            ("vanished", Some("its network confirms nothing"))
        }
        End::Network(_) => ("network", None),
        End::Protocol(close) => ("garbage", Some(close.0)),
        End::Slow(what) => ("slow", Some(what)),
        End::Stopped => ("stopped", None),
        End::Cut => ("cut", Some("an administrator's command")),
    }
}

fn nfs_config(config: &Config, shares: &smb::Config, host: &ProcessHost) -> nfs::Config {
    let mut exports: Vec<Arc<Export>> = Vec::new();
    for share in config.shares.iter().filter(|share| share.is_exported()) {
        let taken = |id| exports.iter().any(|export| export.id == id);
        if let Some(export) = export_of(share, shares, taken) {
            exports.push(Arc::new(export));
        }
    }
    let guid = host.nfs_identity().map_or(shares.server_guid, |identity| identity.guid);
    let guid: String = guid.iter().map(|byte| format!("{byte:02x}")).collect();
    let owner = format!("anabranch {guid}").into_bytes();
    nfs::Config { exports, lease: config.nfs_lease, owner }
}

fn export_of(
    share: &ShareConfig,
    shares: &smb::Config,
    taken: impl Fn(VolumeId) -> bool,
) -> Option<Export> {
    let served = shares.share(&share.name)?;
    let squash = match share.nfs_squash {
        NfsSquash::All => Squash::All,
        NfsSquash::None => Squash::None,
        NfsSquash::Root => Squash::Root,
    };
    let mut id = volume_id(&share.name);
    while taken(id) || id == VolumeId(0) {
        id = VolumeId(id.0.wrapping_add(1));
    }
    Some(Export {
        id,
        name: share.name.clone().into_bytes(),
        volume: served.volume.clone()?,
        squash,
        anonymous: (NOBODY, NOBODY),
        hosts: Arc::new(Hosts(served.clone())),
    })
}

/// What a share is called in file handles: by its name, so that clients find it after a
/// restart (FNV-1a; two names of one number are told apart by their order).
fn volume_id(name: &str) -> VolumeId {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    VolumeId(name.as_bytes().iter().fold(0x811C_9DC5, step))
}
