//! Changes that other processes make to the files of a backend.

use crate::{Name, RelPath};
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
