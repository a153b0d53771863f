//! The server process, which can die and be restarted.

use crate::environment::ProcessEnvironment;
use files::{Files, Volume, VolumeOptions};
use smb::snapshot::SmbSnapshot;
use smb::{
    Dialect, EncryptionPolicy, SmbConfig, SmbConn, SmbConnFacts, SmbHost, SmbServer, SmbShare,
};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use vfs::memory::{MemoryOptions, MemoryVfs};
use vfs::{Actor, Case, CreateHow, FileKind, Name, RelPath, Vfs};

/// One server process.
pub struct Process {
    /// Its environment.
    pub environment: Arc<ProcessEnvironment>,
    /// Its backend.
    pub vfs: Arc<MemoryVfs>,
    /// The file layer and the share, for direct clients.
    pub files: Arc<Files>,
    pub volume: Arc<Volume>,
    server: Arc<SmbServer>,
}

impl Process {
    /// The first process, over a new tree.
    ///
    /// # Errors
    /// The tree cannot be created.
    pub fn first(environment: Arc<ProcessEnvironment>, has_disk: bool) -> Result<Self, String> {
        let capacity_bytes = MemoryOptions::ENDLESS_BYTES;
        let options = MemoryOptions { has_disk, capacity_bytes, ..MemoryOptions::default() };
        let still = Arc::new(vfs::memory::StillClock::default());
        let tree = MemoryVfs::new(options, still);
        let how = CreateHow::plain(FileKind::Directory, 0o777);
        let name = Name::new(&b"d"[..]).map_err(|e| e.to_string())?;
        let path = RelPath::from_iter([name]);
        let made = tree.create(Actor::SUPERUSER, &path, Case::Sensitive, how);
        made.and_then(|made| made.node.sync(Actor::SUPERUSER, false)).map_err(|e| e.to_string())?;
        Ok(Self::over(tree.kill(environment.clone()), environment))
    }

    /// A process over the tree of its predecessor.
    #[must_use]
    pub fn over(vfs: MemoryVfs, environment: Arc<ProcessEnvironment>) -> Self {
        let vfs = Arc::new(vfs);
        let options = VolumeOptions { case: Case::Insensitive, ..VolumeOptions::default() };
        let volume = Arc::new(Volume::new(vfs.clone(), options));
        let share = SmbShare {
            name: "data".into(),
            volume: Some(volume.clone()),
            posix: true,
            time_machine: true,
            continuously_available: environment.persists_opens(),
            ..SmbShare::default()
        };
        let config = SmbConfig {
            server_guid: [7; 16],
            name: "SIM".into(),
            domain: "WORKGROUP".into(),
            signing_required: false,
            ntlm: true,
            encryption: EncryptionPolicy::Off,
            dialect_min: Dialect::Smb210,
            dialect_max: Dialect::Smb311,
            io_bytes_max: 1 << 20,
            multichannel: smb::MultichannelPolicy::default(),
            shares: vec![Arc::new(share)],
        };
        let files = Arc::new(Files::new(environment.clone()));
        let server = SmbServer::new(config, files.clone(), environment.clone());
        Self { environment, vfs, files, volume, server }
    }

    /// Accepts a connection.
    #[must_use]
    pub fn accept(&self, number: u32) -> SmbConn {
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (peer, local) = (address(40_000), address(445));
        SmbConn::new(self.server.clone(), SmbConnFacts { id: u64::from(number), peer, local })
    }

    /// Restores opens from their journal records.
    pub fn restore(&self, records: &BTreeMap<u64, Vec<u8>>) {
        self.server.restore(records);
    }

    /// The server's periodic work, about once a second.
    pub fn tick(&self) -> impl FnOnce() + Send + use<> {
        let (server, now) = (self.server.clone(), SmbHost::now(&*self.environment));
        move || server.handle_tick(now)
    }

    /// Current snapshot of the server.
    #[must_use]
    pub fn snapshot(&self) -> SmbSnapshot {
        self.server.snapshot()
    }

    /// Checks that all state of the clients is gone.
    ///
    /// # Errors
    /// A description of the leftovers.
    pub fn check_nothing_held(&self) -> Result<(), String> {
        let held = [
            ("files in the table", self.server.files.open_file_count() as u64),
            ("sessions", self.server.snapshot().sessions.len() as u64),
            ("open handles", self.vfs.open_count()),
            ("calls for workers", self.environment.task_weights().len() as u64),
        ];
        match held.iter().find(|(_, count)| *count > 0) {
            Some((what, count)) => Err(format!("{count} {what} although all clients are gone")),
            None => Ok(()),
        }
    }
}
