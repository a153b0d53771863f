//! The seam between the server and the storage of its shares: opens a share's backend, its snapshots
//! and the measurement of its usage.
//!
//! Nothing else in this crate refers to a backend by its type or touches the files of a share;
//! `cargo xtask tidy` checks that. Background work of a backend belongs to what [`Backend::open`]
//! returns and ends with it.

mod local;
mod tree_usage;

pub use local::{ClockState, StreamInventory, clock_state, heed_limits};
pub use local::{NewOwner, SnapshotTool, SnapshotsConfig, TreeLinkPolicy};
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
use vfs::{FileKey, FsError, Identity, Snapshots, Vfs};

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

/// Where one user's directory is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserPath {
    /// The fixed directory, in which symbolic links are followed.
    pub base: PathBuf,
    /// The path below it, which depends on the user.
    pub below: PathBuf,
}

impl UserPath {
    /// The complete path.
    #[must_use]
    pub fn whole(&self) -> PathBuf {
        self.base.join(&self.below)
    }
}

/// The reason for which a user's directory is not found or created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserPathError {
    /// It exists already.
    Exists,
    /// A symbolic link stands below the fixed directory.
    Link,
    /// A directory of the path does not exist.
    Missing,
    /// A component of the path is no directory.
    NotDirectory,
    /// Others may change names in the parent directory of a new one.
    SharedParent,
    /// The backend has no such directories.
    Unsupported,
    /// The storage refused.
    Refused(FsError),
}

impl std::fmt::Display for UserPathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let refused;
        f.write_str(match self {
            Self::Exists => "it exists already",
            Self::Link => {
                "a symbolic link stands in the part of the path that depends on the user; replace it \
                 by a directory, or by a bind mount"
            }
            Self::Missing => "it does not exist",
            Self::NotDirectory => "a part of its path is no directory, or a symbolic link",
            Self::SharedParent => {
                "others than root may change names in its parent directory; correct it with: chown \
                 root and chmod go-w, or chmod +t"
            }
            Self::Unsupported => "the storage of this share has no directories of users",
            Self::Refused(error) => {
                refused = error.to_string();
                &refused
            }
        })
    }
}

/// A directory that was found for a user, and is open.
pub trait UserTreeRoot: Send + Debug {
    /// Its identity, which no other directory has while this one is open.
    fn key(&self) -> FileKey;

    /// The id of its owner.
    fn owner(&self) -> u32;

    /// Serves the directory itself, whatever stands at its path meanwhile.
    ///
    /// # Errors
    /// The cause, as a text for an administrator.
    fn serve(self: Box<Self>, follows_links: bool) -> Result<ServedDirectory, String>;
}

/// A user's tree, and the switch of [`ShareSource::follows_links`] for it.
#[derive(Clone, Debug)]
pub struct ServedDirectory {
    /// The tree, without caches.
    pub vfs: Arc<dyn Vfs>,
    /// Changes whether links are followed.
    pub links: TreeLinkPolicy,
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

    /// Finds one user's directory below a fixed one, without following a symbolic link below it.
    ///
    /// # Errors
    /// [`UserPathError`].
    fn find_user_directory(&self, at: &UserPath) -> Result<Box<dyn UserTreeRoot>, UserPathError> {
        let _ = at;
        Err(UserPathError::Unsupported)
    }

    /// Creates one user's directory, for `owner` only. Its parent directory must exist.
    ///
    /// # Errors
    /// [`UserPathError`]; [`UserPathError::Exists`] if the name exists.
    fn create_user_directory(&self, at: &UserPath, owner: NewOwner) -> Result<(), UserPathError> {
        let _ = (at, owner);
        Err(UserPathError::Unsupported)
    }

    /// The snapshots of one user's directory. They are taken of a directory above it.
    ///
    /// # Errors
    /// The cause, as a text for an administrator.
    fn user_snapshots(&self, source: &ShareSource) -> Result<Option<Arc<dyn Snapshots>>, String> {
        let _ = source;
        Ok(None)
    }

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
