//! What others do to files beneath a backend.

use crate::{Name, RelPath};
use std::fmt;
use std::sync::Arc;

/// What somebody else than this process did in a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutsideChange {
    /// A name is new.
    Added(OutsideName),
    /// Attributes of whatever kind were changed.
    AttributesModified(OutsideName),
    /// A file that was open for writing was closed.
    DataModified(OutsideName),
    /// More happened than could be kept.
    Lost,
    /// A name is gone.
    Removed(OutsideName),
    /// The first name became the second, in the same directory.
    Renamed(OutsideName, Name),
}

/// A name in the watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideName {
    /// As it is stored.
    pub name: Name,
    /// Whether it is, or was, a directory's.
    pub is_directory: bool,
}

/// Who is told, on a thread of the backend's: it must not take long.
pub type TellOutside = Arc<dyn Fn(&OutsideChange) + Send + Sync>;

/// The same for a whole tree: in which directory it was, by its path when the
/// backend heard of it. [`OutsideChange::Lost`] is not told here.
pub type TellOutsideIn = Arc<dyn Fn(&RelPath, &OutsideChange) + Send + Sync>;

/// Who is told that a file was changed, on a thread of the backend's.
pub type TellChanged = Arc<dyn Fn() + Send + Sync>;

/// A watch; it ends when this is dropped.
pub trait OutsideWatch: Send + Sync + fmt::Debug {}
