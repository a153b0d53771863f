//! The server of both protocols, and the tree that it serves.

use super::{MixedFault, MixedPlan};
use crate::environment::{ProcessEnvironment, Troubles};
use crate::random::Random;
use crate::sessions::messages::SHARE;
use crate::sessions::side::describe_error;
use crate::sessions::world::AllowAllHosts;
use files::{Files, Volume, VolumeId, VolumeOptions};
use nfs::{Export, ExportTerms, Squash};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::memory::{MemoryOptions, MemoryVfs};
use vfs::{Actor, Case, CreateHow, FileKind, Name, RelPath, Vfs};

/// The common directory of all clients.
pub const DIRECTORY: &str = "d";
/// Lease time of NFS clients.
const LEASE: Duration = Duration::from_secs(90);
/// Number of names that exist initially.
const NAMES_MADE: u8 = 2;

/// A name in the directory.
pub fn name_of(name: u8) -> String {
    format!("f{name}")
}

/// The number of a name in the directory.
pub fn number_of(name: &str) -> Option<u8> {
    name.strip_prefix('f')?.parse().ok()
}

/// The servers of both protocols.
pub struct Servers {
    /// Their environment.
    pub environment: Arc<ProcessEnvironment>,
    /// Their backend.
    pub vfs: Arc<MemoryVfs>,
    /// The SMB server.
    pub smb: Arc<smb::SmbServer>,
    /// The NFS server.
    pub nfs: Arc<nfs::NfsServer>,
}

impl Servers {
    /// Creates servers over a new tree.
    ///
    /// # Errors
    /// The tree cannot be created.
    pub fn new(plan: &MixedPlan, random: &mut Random, base: Instant) -> Result<Self, String> {
        let MixedPlan { park, would_block, creates_wait, .. } = *plan;
        let troubles = Troubles { park, would_block, fail: 0, creates_wait };
        let environment = ProcessEnvironment::new(random.fork(), troubles, base, 0);
        let vfs = Arc::new(MemoryVfs::new(MemoryOptions::default(), environment.clone()));
        make_tree(&vfs).map_err(describe_error)?;
        let options = VolumeOptions { file_mode: 0o666, ..VolumeOptions::default() };
        let volume = Arc::new(Volume::new(vfs.clone(), options));
        let files = Arc::new(Files::new(environment.clone()));
        let of_nfs = match plan.fault {
            Some(MixedFault::Apart) => Arc::new(Files::new(environment.clone())),
            _ => files.clone(),
        };
        let smb = smb::SmbServer::new(config_of_smb(&volume), files, environment.clone());
        let nfs = nfs::NfsServer::new(config_of_nfs(&volume), of_nfs, environment.clone());
        Ok(Self { environment, vfs, smb, nfs })
    }
}

fn config_of_smb(volume: &Arc<Volume>) -> smb::SmbConfig {
    let share = smb::SmbShare {
        name: "data".into(),
        volume: Some(volume.clone()),
        posix: true,
        ..smb::SmbShare::default()
    };
    smb::SmbConfig {
        server_guid: [7; 16],
        name: "SIM".into(),
        domain: "WORKGROUP".into(),
        signing_required: false,
        ntlm: true,
        encryption: smb::EncryptionPolicy::Off,
        dialect_min: smb::Dialect::Smb210,
        dialect_max: smb::Dialect::Smb311,
        io_bytes_max: 1 << 20,
        multichannel: smb::MultichannelPolicy::default(),
        shares: vec![Arc::new(share)],
    }
}

fn config_of_nfs(volume: &Arc<Volume>) -> nfs::NfsConfig {
    let export = Export {
        id: VolumeId(7),
        name: SHARE.to_vec(),
        volume: nfs::ExportedVolume::new(volume.clone()).expect("a tree in memory has handles"),
        // All NFS clients act as the SMB clients' user, because permissions are not under test.
        terms: ExportTerms { read_only: false, squash: Squash::All, anonymous: (1000, 1000) },
        clients: Vec::new(),
        hosts: Arc::new(AllowAllHosts),
        tls_required: false,
        reserved_ports: false,
        is_stable: true,
        counted: meter::ShareId::NONE,
    };
    nfs::NfsConfig {
        exports: vec![Arc::new(export)],
        lease: LEASE,
        owner: b"sim".to_vec(),
        offers_tls: false,
        states_max: nfs::limits::STATES_MAX,
        tree: nfs::PseudoTree::default(),
    }
}

fn make_tree(vfs: &MemoryVfs) -> vfs::Result<()> {
    let make = |names: &[&str], kind, mode| {
        let how = CreateHow::plain(kind, mode);
        let names = names.iter().map(|name| Name::new(name.as_bytes().to_vec()));
        let path = RelPath::from_iter(names.collect::<Result<Vec<_>, _>>()?);
        vfs.create(Actor::SUPERUSER, &path, Case::Sensitive, how).map(drop)
    };
    make(&[DIRECTORY], FileKind::Directory, 0o777)?;
    (0..NAMES_MADE).try_for_each(|name| make(&[DIRECTORY, &name_of(name)], FileKind::File, 0o666))
}
