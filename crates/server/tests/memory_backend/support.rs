//! A server in this process whose only share is a tree in memory, and clients of it.
#![allow(dead_code, reason = "the clients serve other tests, too")]

#[path = "../../../cli/tests/support/client.rs"]
pub mod client;
#[path = "../../../cli/tests/support/library.rs"]
pub mod library;

use server::Service;
use server::backend::{Backend, OpenedBackend, ShareSource, TreeUsage};
use server::config::ServerConfig;
use server::supervisor::PassedSockets;
use server::users::Users;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use vfs::memory::{MemoryOptions, MemoryVfs, Surroundings};
use vfs::{Snapshots, Timestamp, Vfs};

// The clients' name for the server that they connect to.
pub use self::MemoryServer as ServerProcess;

/// Longer than anything here takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const PASSWORD: &str = "a right password";

/// The user of all tests, whom the system must know if the tests run as root.
pub fn user() -> String {
    server::system_users::own_name().expect("a user")
}

/// The wall clock.
#[derive(Debug)]
struct WallClock;

impl Surroundings for WallClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a later time");
        Timestamp(i128::try_from(since.as_nanos()).expect("a near time"))
    }
}

/// A backend without a local path: every share is the one tree.
#[derive(Debug)]
struct MemoryBackend(Arc<MemoryVfs>);

impl Backend for MemoryBackend {
    fn open(&self, source: &ShareSource) -> Result<OpenedBackend, String> {
        let vfs: Arc<dyn Vfs> = self.0.clone();
        let none = |_: &_| Arc::new(NoSnapshots) as Arc<dyn Snapshots>;
        let snapshots = source.snapshots.as_ref().map(none);
        Ok(OpenedBackend { vfs: vfs.clone(), snapshots, usage: Arc::new(TreeUsage(vfs)) })
    }
}

/// Snapshots of a tree that has none yet.
#[derive(Debug)]
struct NoSnapshots;

impl Snapshots for NoSnapshots {
    fn list(&self) -> vfs::Result<Vec<Timestamp>> {
        Ok(Vec::new())
    }

    fn open(&self, _at: Timestamp) -> vfs::Result<Arc<dyn Vfs>> {
        Err(vfs::FsError::NotFound)
    }
}

/// A running server with the share `data`.
pub struct MemoryServer {
    pub smb: SocketAddr,
    pub nfs: SocketAddr,
    pub tree: Arc<MemoryVfs>,
    pub runtime: Runtime,
    pub service: Service,
    config: ServerConfig,
    users: Users,
    _folder: TempDir,
}

impl MemoryServer {
    /// Serves an empty tree of these options.
    pub fn start(options: MemoryOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = |name: &str| folder.path().join(name).display().to_string();
        // Nothing is at this path, so a test fails if the server looks there.
        let text = format!(
            "[server]\nname = \"TEST\"\nsigning = \"offered\"\nsmb = [\"127.0.0.1:0\"]\n\
             nfs = [\"127.0.0.1:0\"]\nadmin = \"off\"\nusers = \"{}\"\nstate = \"{}\"\n\
             reserved_ports = false\n[[share]]\nname = \"data\"\npath = \"{}\"\n\
             nfs_squash = \"none\"\nsnapshots = \"kept\"\nclass = \"premium\"\n\
             provisioned_gib = 100\n",
            inside("users.toml"),
            inside("state"),
            inside("nothing/here"),
        );
        let config = ServerConfig::parse(&text).expect("it is right");
        let mut users = Users::default();
        users.set_password(&user(), PASSWORD).expect("a password");
        let tree = Arc::new(MemoryVfs::new(options, Arc::new(WallClock)));
        let backend = Arc::new(MemoryBackend(tree.clone()));
        let runtime = Runtime::new().expect("a runtime");
        let start = Service::start_over(backend, &config, &users, PassedSockets::default());
        let service = runtime.block_on(start).expect("it starts");
        let (smb, nfs) = (service.listening()[0], service.listening_nfs()[0]);
        Self { smb, nfs, tree, runtime, service, config, users, _folder: folder }
    }

    /// Applies the configuration again.
    pub fn reload(&self) {
        let _inside = self.runtime.enter();
        self.service.reload(&self.config, &self.users).expect("it is right still");
    }

    /// Runs a client of the library; panics if it takes too long.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
        })
    }
}
