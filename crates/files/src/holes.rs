//! Data and holes of a file by POSIX rules, independent of the sparse attribute. NFS: RFC 7862
//! 15.1, 15.4, 15.11.

use crate::{Access, Caller, OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{FsError, Result};

impl RequestFiles {
    /// Allocates space for a range as the requesting `caller`, and extends the file to the range's
    /// end.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not write, [`FsError::LockConflict`],
    /// [`FsError::NoSpace`], [`FsError::NotSupported`], [`FsError::TooLarge`].
    pub async fn reserve_range(
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
        open.break_readers(&self.context);
        let (node, writer) = (open.node.clone(), caller.clone());
        // Extending in a separate call could truncate concurrent writes.
        self.offload(move || node.allocate_and_grow(writer.identity.actor(), offset, length))
            .await?;
        open.note_changed(&self.context, caller);
        Ok(())
    }

    /// The first range with data at or after `offset`, as (start, end); none if only a hole
    /// follows.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not read.
    pub async fn next_data(&self, open: &OpenFile, offset: u64) -> Result<Option<(u64, u64)>> {
        open.need_any(Access::READ_DATA | Access::EXECUTE)?;
        let node = open.node.clone();
        self.offload(move || node.next_data(offset)).await
    }
}
