//! The seam between the server and the storage of its shares: opens a share's backend, its snapshots
//! and the measurement of its usage.
//!
//! Nothing else in this crate refers to a backend by its type or touches the files of a share;
//! `cargo xtask tidy` checks that. Background work of a backend belongs to what [`Backend::open`]
//! returns and ends with it.

mod local;
mod tree_usage;

pub use local::{ClockState, StreamInventory, clock_state, heed_limits};
pub use local::{SnapshotTool, SnapshotsConfig};
// The kernel keeps credentials by thread, so the threads of the server prepare for the local
// backend whatever backends it serves. A thread that assumed no identity pays one comparison.
// Threads of an asynchronous runtime are started by whichever thread has work for them.
pub use local::rest_as_process;
pub(crate) use local::{keep_identity, rest_without_power};
pub use tree_usage::TreeUsage;

use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use vfs::{Identity, Snapshots, Vfs};

/// Where a share's files are, and how its backend presents them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareSource {
    /// The configured `path`. A directory for the local backend; any other backend may take it as a
    /// name, or ignore it.
    pub path: PathBuf,
    /// Follow symbolic links within the share; else clients see them as links.
    pub follows_links: bool,
    /// Location and naming of snapshots; `None` if the share shows none.
    pub snapshots: Option<SnapshotsConfig>,
}

/// An opened share.
#[derive(Clone, Debug)]
pub struct OpenedBackend {
    /// The share's tree, without caches. Its [`vfs::TreeFeatures`] state what it lacks; protocols then
    /// use their fallbacks.
    pub vfs: Arc<dyn Vfs>,
    /// The share's snapshots; `None` if it shows none or the backend has none.
    pub snapshots: Option<Arc<dyn Snapshots>>,
    /// Measures the used size. A backend without a cheaper way uses [`TreeUsage`].
    pub usage: Arc<dyn SpaceMeter>,
}

/// Measures the used size of a share, for its size limit.
pub trait SpaceMeter: Send + Sync + Debug {
    /// Allocated bytes of all files. Reads metadata only, but may take minutes.
    ///
    /// # Errors
    /// The root cannot be read. Other entries that disappear or cannot be read are left out.
    fn used_bytes(&self) -> io::Result<u64>;
}

/// A kind of storage. Calls may block on a disk or a network.
pub trait Backend: Send + Sync + Debug {
    /// Opens a share. Called at each start and at each reload, also for a source that is served
    /// already: roots with equal [`vfs::FileKey`]s mark the same tree, and the server then keeps the
    /// one that its clients have files open on.
    ///
    /// # Errors
    /// The cause, as a text for an administrator.
    fn open(&self, source: &ShareSource) -> Result<OpenedBackend, String>;

    /// The problem that prevents serving `source`, with the remedy; for checks of a configuration. A
    /// backend that learns this only by connecting returns `None`, and [`Backend::open`] fails.
    fn find_problem(&self, source: &ShareSource) -> Option<String> {
        let _ = source;
        None
    }

    /// The reason for which this process may not write to `source`, which has no problem; for checks
    /// of a configuration. `None` if it may, or if the backend learns this only by writing.
    fn write_obstacle(&self, source: &ShareSource) -> Option<String> {
        let _ = source;
        None
    }

    /// The file system of `source` if it has no extended attributes, so that metadata of clients is
    /// lost; for checks of a configuration and warnings at a start. `None` for a backend that stores
    /// such metadata elsewhere, or cannot know it.
    fn lacks_attributes(&self, source: &ShareSource) -> Option<String> {
        let _ = source;
        None
    }

    /// Whether a user may list the root of `source`, which has no problem; for checks of a
    /// configuration. True where the backend cannot know it without an attempt.
    fn may_enter(&self, source: &ShareSource, identity: &Identity) -> bool {
        let _ = (source, identity);
        true
    }

    /// Facts about the disk below a share, for `anabranch doctor`. A backend without a local
    /// directory has none: `doctor` then reports nothing about the share's file system.
    fn disk_facts(&self, source: &ShareSource) -> Option<DiskFacts> {
        let _ = source;
        None
    }

    /// Directories that were scanned since the process started, each for a name whose case differs.
    /// Zero for a backend that folds case by itself or does not count.
    fn directory_scans(&self) -> u64 {
        0
    }
}

/// Facts about the file system below a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFacts {
    /// The share's directory, without symbolic links.
    pub path: PathBuf,
    /// File system type.
    pub kind: String,
    /// Its mount point.
    pub mounted_at: String,
    /// Its mount options.
    pub options: Vec<String>,
    /// This process may write to the directory.
    pub is_writable: bool,
    /// Files take user attributes; `None` if that could not be tried.
    pub user_xattrs: Option<bool>,
    /// Directories take POSIX access lists; `None` if that could not be tried.
    pub acls: Option<bool>,
    /// Files can share blocks; `None` if that could not be tried.
    pub reflinks: Option<bool>,
    /// The directory folds case; `None` if the file system does not say.
    pub folds_case: Option<bool>,
    /// Long named streams that are stored beside the files.
    pub long_streams: Option<StreamInventory>,
    /// Total and available bytes.
    pub bytes: Option<(u64, u64)>,
    /// Total and available inodes.
    pub inodes: Option<(u64, u64)>,
}

/// The backend of configured shares: a directory of this machine. A second kind is chosen here, by
/// keys of the share.
#[must_use]
pub fn configured() -> Arc<dyn Backend> {
    Arc::new(local::LocalBackend)
}
