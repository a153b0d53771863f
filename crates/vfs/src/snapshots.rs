//! Trees as they were.

use crate::{Result, Timestamp, Vfs};
use std::sync::Arc;

/// The states of a tree that were kept. Calls may take long.
pub trait Snapshots: Send + Sync + std::fmt::Debug {
    /// When they were made, newest first, whole seconds, none twice. Bounded by the backend.
    ///
    /// # Errors
    /// [`crate::FsError::NotFound`] if the place where they are kept is not there,
    /// [`crate::FsError::Io`].
    fn list(&self) -> Result<Vec<Timestamp>>;

    /// The tree as it was at `at`, one of those listed.
    ///
    /// # Errors
    /// [`crate::FsError::NotFound`] if none was made then, or it has gone.
    fn open(&self, at: Timestamp) -> Result<Arc<dyn Vfs>>;
}
