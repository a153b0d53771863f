//! Snapshots of a volume, as volumes of their own.

use crate::{RequestFiles, Volume, VolumeOptions};
use std::sync::Arc;
use vfs::{FsError, Result, Timestamp};

impl RequestFiles {
    /// Times of the volume's snapshots, newest first.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the volume has no snapshots, [`FsError::Io`].
    pub async fn snapshots(&self, volume: &Arc<Volume>) -> Result<Vec<Timestamp>> {
        let snapshots = volume.options.snapshots.clone().ok_or(FsError::NotFound)?;
        self.offload(move || snapshots.list()).await
    }

    /// The snapshot of the volume at `at`, in whole seconds.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if there is none of that time.
    pub async fn snapshot(&self, volume: &Arc<Volume>, at: Timestamp) -> Result<Arc<Volume>> {
        let snapshots = volume.options.snapshots.clone().ok_or(FsError::NotFound)?;
        let vfs = self.offload(move || snapshots.open(at)).await?;
        // A snapshot gives access to the other snapshots, too.
        let options = VolumeOptions { frozen: true, ..volume.options.clone() };
        Ok(Arc::new(Volume::new(vfs, options)))
    }
}
