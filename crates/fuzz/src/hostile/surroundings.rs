//! The simulated process around the servers of one episode: accounts, time, random numbers.

use crate::mutate::Rng;
use files::{Caller, Files, Inline, Volume, VolumeId, VolumeOptions};
use smb::{
    Account, Admission, EncryptionPolicy, HostTime, InterfaceFact, MultichannelPolicy, SmbConfig,
    SmbHost, SmbServer, SmbShare,
};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use sync::Mutex;
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs::{Identity, Timestamp};
use wire::ntlm::NtHash;
use wire::smb::Dialect;

/// The name of the share in the server's root.
pub const EXPORT: &[u8] = b"data";

/// Capacity for all files of an episode, in bytes.
const CAPACITY_BYTES: u64 = 8 * 1024 * 1024;

/// Longer than the victim's silence, so that its NFS client does not expire.
const NFS_LEASE: Duration = Duration::from_secs(90);

/// The accounts of an episode, and clients without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpisodeUser {
    /// The victim.
    Alice,
    /// Hostile.
    Mallory,
    /// Hostile.
    Trudy,
    /// An unknown name: becomes a guest if the server permits guests.
    Stranger,
    /// A client without name and password.
    Anonymous,
}

impl EpisodeUser {
    /// The hostile users.
    pub const HOSTILE: [Self; 4] = [Self::Mallory, Self::Trudy, Self::Stranger, Self::Anonymous];

    pub fn name(self) -> &'static str {
        match self {
            Self::Alice => "alice",
            Self::Mallory => "mallory",
            Self::Trudy => "trudy",
            Self::Stranger => "stranger",
            Self::Anonymous => "",
        }
    }

    pub fn uid(self) -> u32 {
        match self {
            Self::Alice => 1001,
            Self::Mallory => 1002,
            Self::Trudy => 1003,
            Self::Stranger | Self::Anonymous => 65_534,
        }
    }

    pub fn hash(self) -> NtHash {
        HASHES[self as usize].clone()
    }

    pub fn identity(self) -> Identity {
        Identity { uid: self.uid(), gid: self.uid(), groups: Vec::new() }
    }
}

/// Each user has a password of their own.
static HASHES: LazyLock<Vec<NtHash>> = LazyLock::new(|| {
    let passwords = ["the victim's own", "mallory's", "trudy's", "none", ""];
    passwords.iter().map(|password| NtHash::of_password(password)).collect()
});

/// Messages of a failing episode. The journal is off while the search for failures runs.
#[derive(Debug, Default)]
pub struct EpisodeLog(Option<Mutex<Vec<String>>>);

impl EpisodeLog {
    pub fn recording() -> Self {
        Self(Some(Mutex::default()))
    }

    pub fn note(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.0 {
            lines.lock().push(line());
        }
    }

    /// The last lines.
    pub fn text(&self, lines_max: usize) -> String {
        let Some(lines) = &self.0 else { return String::new() };
        let lines = lines.lock();
        lines[lines.len().saturating_sub(lines_max)..].join("\n")
    }
}

/// The simulated process. Its clock moves only by [`EpisodeSurroundings::advance`].
pub struct EpisodeSurroundings {
    random: Mutex<Rng>,
    begun: Instant,
    nanos: AtomicU64,
    frames: AtomicU64,
    pub journal: Arc<EpisodeLog>,
}

impl EpisodeSurroundings {
    pub fn new(seed: u64, journal: Arc<EpisodeLog>) -> Arc<Self> {
        let random = Mutex::new(Rng::new(seed));
        let (nanos, frames) = Default::default();
        Arc::new(Self { random, begun: Instant::now(), nanos, frames, journal })
    }

    pub fn advance(&self, time: Duration) {
        self.nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Counts a frame that the server received.
    pub fn count_frame(&self) {
        self.frames.fetch_add(1, Ordering::Relaxed);
    }

    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    pub fn since_start(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

fn account(user: EpisodeUser, name: &str) -> Account {
    Account {
        name: name.into(),
        nt_hash: user.hash(),
        caller: Arc::new(Caller::of(user.identity())),
        groups: Arc::default(),
        root_by_ticket: false,
    }
}

impl nfs::NfsHost for EpisodeSurroundings {
    fn random(&self, out: &mut [u8]) {
        SmbHost::random(self, out);
    }

    fn now(&self) -> nfs::TimeReading {
        let HostTime { instant, wall } = SmbHost::now(self);
        nfs::TimeReading { instant, wall }
    }

    fn caller(&self, identity: Identity) -> Arc<Caller> {
        Arc::new(Caller::of(identity))
    }

    fn carry_on(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {}
}

impl SmbHost for EpisodeSurroundings {
    fn random(&self, out: &mut [u8]) {
        let mut random = self.random.lock();
        out.fill_with(|| random.number() as u8);
    }

    fn now(&self) -> HostTime {
        let passed = self.since_start();
        let wall = Timestamp(1_750_000_000_000_000_000 + passed.as_nanos() as i128);
        HostTime { instant: self.begun + passed, wall }
    }

    fn account(&self, user: &str) -> Option<Account> {
        let known = [EpisodeUser::Alice, EpisodeUser::Mallory, EpisodeUser::Trudy];
        known.into_iter().find(|known| known.name() == user).map(|known| account(known, user))
    }

    fn guest(&self) -> Option<Account> {
        Some(account(EpisodeUser::Stranger, "nobody"))
    }

    fn logon_failed(&self, _: SocketAddr, _: &str, _: &str) {}

    fn logon_succeeded(&self, _: SocketAddr, _: &str) {}

    fn interfaces(&self, _: u16) -> Vec<InterfaceFact> {
        Vec::new()
    }
}

/// Settings of an episode's server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub signing_required: bool,
    pub encryption: EncryptionPolicy,
}

/// The servers of an episode, and their files.
pub struct EpisodeServers {
    pub server: Arc<SmbServer>,
    pub nfs: Arc<nfs::NfsServer>,
    pub vfs: Arc<MemoryVfs>,
}

/// A server with the share `data`, which permits guests, and the share `home` for the victim alone.
/// NFS clients reach `data` from any port.
pub fn server(settings: Settings, surroundings: Arc<EpisodeSurroundings>) -> EpisodeServers {
    let options = MemoryOptions { capacity_bytes: CAPACITY_BYTES, ..MemoryOptions::default() };
    let vfs = Arc::new(MemoryVfs::new(options, Arc::new(StillClock::default())));
    let volume = Arc::new(Volume::new(vfs.clone(), VolumeOptions::default()));
    let data = SmbShare {
        name: "data".into(),
        volume: Some(volume.clone()),
        admission: Admission { guests: true, ..Admission::default() },
        posix: true,
        time_machine: true,
        ..SmbShare::default()
    };
    let users = Some(smb::Accounts(vec![EpisodeUser::Alice.name().into()]));
    let home = SmbShare {
        name: "home".into(),
        volume: Some(volume.clone()),
        admission: Admission { users, ..Admission::default() },
        ..SmbShare::default()
    };
    let config = SmbConfig {
        server_guid: [7; 16],
        name: "SERVER".into(),
        domain: "WORKGROUP".into(),
        signing_required: settings.signing_required,
        ntlm: true,
        encryption: settings.encryption,
        dialect_min: Dialect::Smb202,
        dialect_max: Dialect::Smb311,
        io_bytes_max: smb::limits::IO_BYTES_MAX,
        multichannel: MultichannelPolicy::default(),
        shares: vec![Arc::new(data), Arc::new(home)],
    };
    let files = Arc::new(Files::new(Arc::new(Inline)));
    let nfs = nfs::NfsServer::new(nfs_config(volume), files.clone(), surroundings.clone());
    EpisodeServers { server: SmbServer::new(config, files, surroundings), nfs, vfs }
}

#[derive(Debug)]
struct AllHosts;

impl nfs::HostFilter for AllHosts {
    fn verdict(&self, _: IpAddr) -> nfs::HostVerdict {
        nfs::HostVerdict::Admitted
    }
}

fn nfs_config(volume: Arc<Volume>) -> nfs::NfsConfig {
    let export = nfs::Export {
        id: VolumeId(1),
        name: EXPORT.to_vec(),
        volume: nfs::ExportedVolume::new(volume).expect("a tree in memory has handles"),
        terms: nfs::ExportTerms {
            read_only: false,
            squash: nfs::Squash::Root,
            anonymous: (EpisodeUser::Anonymous.uid(), EpisodeUser::Anonymous.uid()),
        },
        clients: Vec::new(),
        hosts: Arc::new(AllHosts),
        tls_required: false,
        reserved_ports: false,
        is_stable: true,
        counted: meter::ShareId::NONE,
    };
    nfs::NfsConfig {
        exports: vec![Arc::new(export)],
        lease: NFS_LEASE,
        owner: b"server".to_vec(),
        offers_tls: false,
        states_max: nfs::limits::STATES_MAX,
        tree: nfs::PseudoTree::default(),
    }
}
