//! Flushes of one file; the queue of all flushes is `stable`.

use crate::{OpenFile, RequestFiles, UnstableObjects};
use std::sync::Arc;
use vfs::Result;

impl RequestFiles {
    /// Makes all writes to the file so far survive a power failure. Waits without a thread.
    ///
    /// # Errors
    /// As [`RequestFiles::make_stable`].
    pub async fn flush(&self, open: &Arc<OpenFile>) -> Result<()> {
        let mut unstable = UnstableObjects::default();
        unstable.add_open(open);
        self.make_stable(unstable).await?;
        open.report_flushed(&self.context);
        Ok(())
    }
}
