//! Changes that other processes make to the files of a backend.

use crate::{Name, Node, RelPath, Result, ServerWork};
use std::fmt;
use std::sync::Arc;

/// A change by another process in a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalChange {
    /// A name was added.
    Added(ExternalName),
    /// Attributes of any kind changed.
    AttributesModified(ExternalName),
    /// A writer closed the file.
    DataModified(ExternalName),
    /// The watch lost events.
    Lost,
    /// A name was removed.
    Removed(ExternalName),
    /// A rename from the first name to the second within the directory.
    Renamed(ExternalName, Name),
}

/// A name in the watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalName {
    /// The name as stored.
    pub name: Name,
    /// Whether it refers, or referred, to a directory.
    pub is_directory: bool,
}

/// Callback for changes in one directory, on a thread of the backend: it must not block.
pub type ExternalChangeCallback = Arc<dyn Fn(&ExternalChange) + Send + Sync>;

/// Callback for changes in a whole tree, with the path of the directory at the time of the event.
/// It receives no [`ExternalChange::Lost`].
pub type TreeChangeCallback = Arc<dyn Fn(&RelPath, &ExternalChange) + Send + Sync>;

/// Callback for changes of a file's data, on a thread of the backend.
pub type FileChangeCallback = Arc<dyn Fn() + Send + Sync>;

/// A watch; dropping it ends it.
pub trait ExternalWatch: Send + Sync + fmt::Debug {}

/// Capability: notification of changes by other processes, some time after the fact.
///
/// Without it, clients receive the changes of this server alone, and their caches are not broken by
/// other processes. [`crate::TreeFeatures::misses_remote_changes`] disables those caches.
pub trait ExternalWatches: Send + Sync + std::fmt::Debug {
    /// Reports the changes that other processes make to names in `directory`, which is open for
    /// listing; not those below it. Linux permits it to readers only, so the caller decides who
    /// receives a notification.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the system has no such events; [`FsError::TooMany`].
    fn watch(
        &self,
        work: ServerWork,
        directory: &dyn Node,
        report: ExternalChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>>;

    /// Reports the changes that other processes make to names anywhere in the tree, except in
    /// directories that are deleted by the time of the event.
    ///
    /// # Errors
    /// As [`ExternalWatches::watch`].
    fn watch_tree(
        &self,
        work: ServerWork,
        report: TreeChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>>;

    /// Reports that another process changed the data of `file`. With `every_write` each write is
    /// reported, which makes each own write to the file costlier; else its close. Stores through
    /// mapped memory are reported at the close only.
    ///
    /// # Errors
    /// As [`ExternalWatches::watch`]; [`FsError::NotSupported`] for a node opened with `O_PATH`.
    fn watch_file(
        &self,
        work: ServerWork,
        file: &Arc<dyn Node>,
        every_write: bool,
        report: FileChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>>;
}
