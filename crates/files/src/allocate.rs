//! Allocation, zeroing and the data ranges of a file by POSIX rules, independent of the sparse
//! attribute. RFC 7862 15.1, 15.4, 15.11.

use crate::attributes::need_write;
use crate::frozen_times::{MovedTimes, keep_times};
use crate::{Access, Caller, OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{Actor, AttributeRequest, FileExtents, FsError, Result};

/// Granularity of trimming, in bytes.
const TRIM_BYTES: u64 = 4096;

impl RequestFiles {
    /// Allocates space for a range as the requesting `caller`, and extends the file to the range's
    /// end.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not write, [`FsError::LockConflict`],
    /// [`FsError::NoSpace`], [`FsError::NotSupported`], [`FsError::TooLarge`].
    pub async fn allocate_range(
        &self,
        caller: &Arc<Caller>,
        open: &Arc<OpenFile>,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        open.need_any(Access::WRITE_DATA)?;
        open.need_writable()?;
        open.need_unlocked(offset, length, true)?;
        offset.checked_add(length).ok_or(FsError::TooLarge)?;
        open.claim_room(offset, length)?;
        // Extending in a separate call could truncate concurrent writes.
        self.change_extents(caller, open, move |extents, actor| {
            extents.allocate_and_grow(actor, offset, length)
        })
        .await
    }

    /// Makes a range read as zeros, as the requesting `caller`.
    ///
    /// # Errors
    /// As [`RequestFiles::write`].
    pub async fn zero_range(
        &self,
        caller: &Arc<Caller>,
        open: &Arc<OpenFile>,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        need_write(open)?;
        if length == 0 {
            return Ok(());
        }
        open.need_unlocked(offset, length, true)?;
        self.change_extents(caller, open, move |extents, actor| {
            extents.punch_hole(actor, offset, length)
        })
        .await
    }

    /// Frees the whole blocks of a range whose data is obsolete; they read as zeros. Returns false
    /// if the range contains no whole block.
    ///
    /// # Errors
    /// As [`RequestFiles::zero_range`].
    pub async fn trim_range(
        &self,
        caller: &Arc<Caller>,
        open: &Arc<OpenFile>,
        offset: u64,
        length: u64,
    ) -> Result<bool> {
        need_write(open)?;
        let size = open.node.attributes(AttributeRequest::default())?.size_bytes;
        let from = offset.checked_next_multiple_of(TRIM_BYTES).unwrap_or(u64::MAX);
        let end = offset.saturating_add(length).min(size) / TRIM_BYTES * TRIM_BYTES;
        if from >= end {
            return Ok(false);
        }
        self.zero_range(caller, open, from, end - from).await?;
        Ok(true)
    }

    /// Changes a file's extents on a worker, as the requesting `caller`: read caching is broken before,
    /// and the change is noted after. Times that the open stopped stay.
    ///
    /// # Errors
    /// Errors of the change.
    pub(crate) async fn change_extents(
        &self,
        caller: &Arc<Caller>,
        open: &Arc<OpenFile>,
        change: impl FnOnce(&dyn FileExtents, Actor<'_>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        open.break_readers(&self.context);
        let (node, writer, times) = (open.node.clone(), caller.clone(), open.frozen_times());
        self.offload(move || {
            keep_times(times.as_ref(), MovedTimes::All, || {
                change(node.need_extents()?, writer.identity.actor())
            })
        })
        .await?;
        open.note_changed(&self.context, caller);
        Ok(())
    }

    /// The first range with data at or after `offset`, as (start, end); none if only a hole
    /// follows.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not read.
    pub async fn seek_data(&self, open: &OpenFile, offset: u64) -> Result<Option<(u64, u64)>> {
        open.need_any(Access::READ_DATA | Access::EXECUTE)?;
        let node = open.node.clone();
        self.offload(move || node.need_extents()?.seek_data(offset)).await
    }
}
