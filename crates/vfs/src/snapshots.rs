//! Snapshots of a tree.

use crate::{Result, Timestamp, Vfs};
use std::sync::Arc;

/// Snapshots of one tree. Calls may take long.
pub trait Snapshots: Send + Sync + std::fmt::Debug {
    /// Creation times, newest first, in whole seconds, without duplicates. The backend bounds the
    /// count.
    ///
    /// # Errors
    /// [`crate::FsError::NotFound`] if the directory of the snapshots is missing,
    /// [`crate::FsError::Io`].
    fn list(&self) -> Result<Vec<Timestamp>>;

    /// The snapshot of the time `at`, one of those listed.
    ///
    /// # Errors
    /// [`crate::FsError::NotFound`] if there is no such snapshot any more.
    fn open(&self, at: Timestamp) -> Result<Arc<dyn Vfs>>;
}
