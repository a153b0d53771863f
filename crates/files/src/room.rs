//! Shares with a size: nothing is written beyond it.
//!
//! What a write adds is told by the furthest end that was written to so far, which begins
//! as what the file has allocated. So filling a hole in the middle counts only once the share
//! is measured again, and a sparse file counts for what is written to it.

use crate::{OpenFile, Volume};
use limits::ShareLimits;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use vfs::{FsError, Result, Wanted};

/// The furthest end of what counts already, once that is known.
pub(crate) type Extent = OnceLock<AtomicU64>;

impl Volume {
    /// Its limits, if there is a size among them.
    pub(crate) fn sized(&self) -> Option<(&Arc<ShareLimits>, u64)> {
        let limits = self.options.limits.as_ref()?;
        Some((limits, limits.size_bytes()?))
    }

    /// Takes room for so many bytes, of whatever is made.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if the share's size does not have them.
    pub(crate) fn claim_room(&self, bytes: u64) -> Result<()> {
        match self.sized() {
            Some((limits, size)) if !limits.room().claim(bytes, size) => Err(FsError::NoSpace),
            _ => Ok(()),
        }
    }

    /// Something may be used less from now on.
    pub(crate) fn note_freed(&self) {
        if let Some((limits, _)) = self.sized() {
            limits.room().note_change();
        }
    }
}

impl OpenFile {
    /// Takes room for `length` bytes at `offset`.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if the share's size does not have them.
    pub(crate) fn claim_room(&self, offset: u64, length: u64) -> Result<()> {
        let Some((limits, size_bytes)) = self.name.volume.sized() else { return Ok(()) };
        let allocated = || {
            let attributes = self.node.attributes(Wanted::default());
            AtomicU64::new(attributes.map_or(0, |attributes| attributes.allocated_bytes))
        };
        let extent = self.state.extent.get_or_init(allocated);
        let end = offset.saturating_add(length);
        let before = extent.load(Ordering::Relaxed);
        if end <= before {
            return Ok(());
        }
        if !limits.room().claim(length.min(end - before), size_bytes) {
            return Err(FsError::NoSpace);
        }
        extent.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    /// The file was cut: what is written behind that counts again.
    pub(crate) fn note_cut(&self, size_bytes: u64) {
        if let Some(extent) = self.state.extent.get() {
            extent.fetch_min(size_bytes, Ordering::Relaxed);
        }
        self.name.volume.note_freed();
    }
}
