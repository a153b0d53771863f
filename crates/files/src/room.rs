//! Size limit of a share.
//!
//! A write is charged beyond the furthest written end of its file, which begins at the allocated
//! size. Filling a hole counts only once the share is measured again, and a sparse file counts for
//! its writes.

use crate::{OpenFile, Volume};
use limits::ShareLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::{AttributeRequest, FsError, Result};

impl Volume {
    /// The limits, if they include a size.
    pub(crate) fn size_limit(&self) -> Option<(&Arc<ShareLimits>, u64)> {
        let limits = self.options.limits.as_ref()?;
        Some((limits, limits.size_bytes()?))
    }

    /// Claims room for `bytes` of new data.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if the share's size does not suffice.
    pub(crate) fn claim_room(&self, bytes: u64) -> Result<()> {
        match self.size_limit() {
            Some((limits, size)) if !limits.space_usage().claim(bytes, size) => {
                Err(FsError::NoSpace)
            }
            _ => Ok(()),
        }
    }

    /// Notes that usage may have decreased.
    pub(crate) fn note_freed(&self) {
        if let Some((limits, _)) = self.size_limit() {
            limits.space_usage().mark_changed();
        }
    }
}

impl OpenFile {
    /// Claims room for `length` bytes at `offset`.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if the share's size does not suffice.
    pub(crate) fn claim_room(&self, offset: u64, length: u64) -> Result<()> {
        let Some((limits, size_bytes)) = self.name.volume.size_limit() else { return Ok(()) };
        let allocated = || {
            let attributes = self.node.attributes(AttributeRequest::default());
            AtomicU64::new(attributes.map_or(0, |attributes| attributes.allocated_bytes))
        };
        let extent = self.state.extent.get_or_init(allocated);
        let end = offset.saturating_add(length);
        let before = extent.load(Ordering::Relaxed);
        if end <= before {
            return Ok(());
        }
        if !limits.space_usage().claim(length.min(end - before), size_bytes) {
            return Err(FsError::NoSpace);
        }
        extent.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    /// Lowers the charged end after a truncation.
    pub(crate) fn note_truncated(&self, size_bytes: u64) {
        if let Some(extent) = self.state.extent.get() {
            extent.fetch_min(size_bytes, Ordering::Relaxed);
        }
        self.name.volume.note_freed();
    }
}
