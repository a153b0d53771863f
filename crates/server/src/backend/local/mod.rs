//! The local backend: a share is a directory of this machine.

mod disk;
mod permissions;
mod snapshots;
mod usage;

pub use snapshots::{SnapshotTool, SnapshotsConfig};
pub use vfs_local::rest_as_process;
pub use vfs_local::{
    ClockState, NewOwner, StreamInventory, TreeLinkPolicy, clock_state, heed_limits,
};
pub(crate) use vfs_local::{keep_identity, rest_without_power};

use super::{
    Backend, DiskFacts, OpenedBackend, ServedDirectory, ShareSource, UserPath, UserPathError,
    UserTreeRoot,
};
use std::io::ErrorKind;
use std::sync::Arc;
use usage::DirectoryUsage;
use vfs::{FileKey, Identity, Snapshots};
use vfs_local::{LocalSnapshots, LocalVfs, UserDirectory, UserDirectoryError};

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

    fn find_user_directory(&self, at: &UserPath) -> Result<Box<dyn UserTreeRoot>, UserPathError> {
        let found = UserDirectory::find(&at.base, &at.below).map_err(user_path_error)?;
        Ok(Box::new(FoundUserDirectory(found)))
    }

    fn create_user_directory(&self, at: &UserPath, owner: NewOwner) -> Result<(), UserPathError> {
        UserDirectory::create(&at.base, &at.below, owner).map_err(user_path_error)
    }

    fn user_snapshots(&self, source: &ShareSource) -> Result<Option<Arc<dyn Snapshots>>, String> {
        let ShareSource { path, follows_links, snapshots } = source;
        let place = snapshots.as_ref().map(|all| all.place(path, *follows_links)).transpose()?;
        Ok(place.map(|place| Arc::new(LocalSnapshots::new(place)) as Arc<dyn Snapshots>))
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

/// See [`UserTreeRoot`].
#[derive(Debug)]
struct FoundUserDirectory(UserDirectory);

impl UserTreeRoot for FoundUserDirectory {
    fn key(&self) -> FileKey {
        self.0.key()
    }

    fn owner(&self) -> u32 {
        self.0.owner()
    }

    fn serve(self: Box<Self>, follows_links: bool) -> Result<ServedDirectory, String> {
        let links = TreeLinkPolicy::new(follows_links);
        let vfs = LocalVfs::of_user(self.0, links.clone()).map_err(|error| error.to_string())?;
        Ok(ServedDirectory { vfs: Arc::new(vfs), links })
    }
}

fn user_path_error(error: UserDirectoryError) -> UserPathError {
    match error {
        UserDirectoryError::Exists => UserPathError::Exists,
        UserDirectoryError::Link => UserPathError::Link,
        UserDirectoryError::Missing => UserPathError::Missing,
        UserDirectoryError::NotDirectory => UserPathError::NotDirectory,
        UserDirectoryError::SharedParent => UserPathError::SharedParent,
        UserDirectoryError::Refused(error) => UserPathError::Refused(error),
    }
}
