//! The local backend: a share is a directory of this machine.

mod disk;
mod permissions;
mod snapshots;
mod usage;

pub use snapshots::{SnapshotTool, SnapshotsConfig};
pub use vfs_local::rest_as_process;
pub use vfs_local::{ClockState, StreamInventory, clock_state, heed_limits};
pub(crate) use vfs_local::{keep_identity, rest_without_power};

use super::{Backend, DiskFacts, OpenedBackend, ShareSource};
use std::io::ErrorKind;
use std::sync::Arc;
use usage::DirectoryUsage;
use vfs::{Identity, Snapshots};
use vfs_local::{LocalSnapshots, LocalVfs};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalBackend;

impl Backend for LocalBackend {
    fn open(&self, source: &ShareSource) -> Result<OpenedBackend, String> {
        let ShareSource { path, follows_links, snapshots } = source;
        let place = snapshots.as_ref().map(|all| all.place(path, *follows_links)).transpose()?;
        let vfs = LocalVfs::open_with(path, *follows_links).map_err(|error| error.to_string())?;
        let snapshots =
            place.map(|place| Arc::new(LocalSnapshots::new(place)) as Arc<dyn Snapshots>);
        let usage = Arc::new(DirectoryUsage::of(path));
        Ok(OpenedBackend { vfs: Arc::new(vfs), snapshots, usage })
    }

    fn find_problem(&self, source: &ShareSource) -> Option<String> {
        let path = source.path.display();
        match std::fs::metadata(&source.path) {
            Ok(metadata) if metadata.is_dir() => None,
            Ok(_) => Some(format!("{path} is not a directory")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Some(format!("{path} does not exist; create it with: mkdir -p {path}"))
            }
            Err(error) => Some(format!("{path}: {error}")),
        }
    }

    fn write_obstacle(&self, source: &ShareSource) -> Option<String> {
        permissions::write_obstacle(&source.path)
    }

    fn lacks_attributes(&self, source: &ShareSource) -> Option<String> {
        disk::lacks_attributes(&source.path)
    }

    fn may_enter(&self, source: &ShareSource, identity: &Identity) -> bool {
        permissions::may_enter(identity, &source.path)
    }

    fn disk_facts(&self, source: &ShareSource) -> Option<DiskFacts> {
        disk::facts(&source.path)
    }

    fn directory_scans(&self) -> u64 {
        vfs_local::scans()
    }
}
